"""The abstract base class of searchers, and the candidates and outcomes they exchange."""

from __future__ import annotations

import hashlib
import random
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from optsmith._errors import OptsmithError
from optsmith.rules import Rule
from optsmith.searchers._proposal import Proposal
from optsmith.searchers._start import Start
from optsmith.space import Space

if TYPE_CHECKING:  # they import torch, which listing searchers must not
    from optsmith.evaluation import Evaluation
    from optsmith.task import Preset

Direction = Literal["minimize", "maximize"]

UNBOUNDED = sys.maxsize
"""Value of `Searcher.need` without a limit."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A rule to evaluate, with the settings of its evaluation.

    Attributes:
        id: Identifier chosen by the searcher; id and fidelity identify an evaluation.
        rule: The rule; numbers in it are its constants.
        fidelity: Fraction of the full run length, above 0 and at most 1.
        block: Index of the block of selection seeds that score it; blocks are disjoint.
        lr: A fixed learning rate; None tunes the learning rate.
        phase: Display name of the part of the search, such as "level 1" or "rung 30 %".
        varied: Whether its structure differs from that of the candidates that are trained with it,
            where those of other parts of the search differ in constants only; for forecasts.

    Raises:
        OptsmithError: A setting is invalid.
    """

    id: str
    rule: Rule
    fidelity: float = 1.0
    block: int = 0
    lr: float | None = None
    phase: str = ""
    varied: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.fidelity <= 1:
            raise OptsmithError(f"fidelity must be above 0 and at most 1, not {self.fidelity:g}")
        if self.block < 0:
            raise OptsmithError(f"block must be at least 0, not {self.block}")
        if self.lr is not None and not 0 < self.lr < float("inf"):
            raise OptsmithError(f"lr must be positive and finite, not {self.lr:g}")

    @property
    def key(self) -> tuple[str, float]:
        """Id and fidelity, which identify the evaluation in the records."""
        return self.id, self.fidelity


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of screening and evaluating a candidate.

    Attributes:
        kind: `refused`, `duplicate`, `accepted`, or the status of an evaluation that was not
            accepted.
        key: Fingerprint, equal for duplicate rules; empty if duplicates are not detected.
        score: The score of an accepted candidate; for a duplicate, the score of the original; None
            if there is none.
        reason: Why the candidate was refused.
        evaluation: The complete evaluation (curve, seeds, trained steps); for a duplicate, that of
            the original; None if refused.
    """

    kind: str
    key: str = ""
    score: float | None = None
    reason: str = ""
    evaluation: Evaluation | None = None

    @property
    def evaluated(self) -> bool:
        """Whether the candidate was evaluated."""
        return self.kind not in ("refused", "duplicate")

    @property
    def accepted(self) -> bool:
        """Whether the candidate was evaluated and its score accepted."""
        return self.kind == "accepted"


@dataclass(frozen=True)
class NoOptions:
    """The options of a searcher without options."""


class Searcher(ABC):
    """Proposes rules and learns from their scores, independently of tasks, processes and storage.

    A searcher is deterministic: the sequence of candidates depends only on the arguments and on the
    outcomes in the order they were told, not on how many candidates are asked for at a time or are
    outstanding. Its state depends only on the told outcomes, so a search is resumed by telling the
    recorded outcomes to a new searcher. Every candidate is either told or cancelled. A searcher is
    used by a single thread.

    Args:
        space: The super-tree.
        budget: Number of candidates to accept; a searcher may count differently, see `spent`.
        seed: Seed of all random draws.
        direction: Whether smaller or larger scores are better.
        options: An instance of `Options`; None uses the defaults.

    Attributes:
        Options: Frozen dataclass of the searcher's options, with fields of type `int`, `float`,
            `bool` or `str`, each declared with `option`.
        log: Messages about the searcher's decisions; append-only.
        allows: Returns whether a rule is within the limits of the search on state and cost, for
            searchers that compose rules; those that are not are refused. Set before `begin`.

    Raises:
        OptsmithError: A setting is invalid.
    """

    Options: ClassVar[type] = NoOptions

    def __init__(
        self,
        space: Space,
        budget: int,
        seed: int = 0,
        direction: Direction = "minimize",
        options: Any = None,
    ) -> None:
        if budget < 1:
            raise OptsmithError(f"budget must be at least 1, not {budget}")
        self.space, self.budget, self.seed, self.direction = space, budget, seed, direction
        self.options: Any = self.Options() if options is None else options
        self.log: list[str] = []
        self.allows: Callable[[Rule], bool] = lambda rule: True

    @classmethod
    def adapted(cls, preset: Preset) -> Preset:
        """Return a preset with the lengths and numbers that suit this searcher; as it is."""
        return preset

    def begin(self, starts: Sequence[Start]) -> None:  # noqa: B027 - optional
        """Receive known rules, with what is known of them, before the first `ask`."""

    @abstractmethod
    def ask(self, n: int) -> list[Candidate]:
        """Return at most `n` new candidates.

        Returns fewer if the next candidate depends on outcomes that have not been told. The search
        is over when this returns none while no candidate is outstanding.
        """

    @abstractmethod
    def tell(self, candidate: Candidate, outcome: Outcome) -> None:
        """Register the outcome of a candidate; called in the order of `ask`."""

    @property
    def need(self) -> int:
        """Maximum number of outstanding evaluations that the searcher can use.

        No more are started, so that no evaluation is wasted.
        """
        return UNBOUNDED

    @property
    def batch(self) -> int:
        """Number of candidates that are trained together; 0 leaves it to the study."""
        return 0

    def proposals(self) -> list[Proposal]:
        """Return the rules that the search recommends, best first.

        By default none: the candidates with the best scores are then compared with the opponents.
        """
        return []

    def obsolete(self, candidate: Candidate) -> bool:
        """Return whether an outstanding candidate is no longer needed; it is then cancelled."""
        return False

    def cancel(self, candidate: Candidate) -> None:  # noqa: B027 - optional
        """Discard a candidate that will not be told: obsolete, or the search is interrupted."""

    @property
    def spent(self) -> int | None:
        """Used part of the budget; None for the number of accepted candidates."""
        return None

    @property
    def done(self) -> float | None:
        """Fraction of the search that is over, to forecast its end; None: that of the budget."""
        return None

    @property
    def varied_left(self) -> float:
        """Varied candidates that are left, by their length, to forecast the end of the search."""
        return 0.0

    def describe(self) -> str:
        """Return the current state in one line, for the progress display."""
        return ""

    def summary(self) -> dict[str, Any]:
        """Return JSON data that the study stores for reports."""
        return {}


def generator(seed: int, level: int, index: int) -> random.Random:
    """Return a random generator for one candidate, independent of all others."""
    digest = hashlib.blake2b(f"{seed}:{level}:{index}".encode(), digest_size=8).digest()
    return random.Random(int.from_bytes(digest, "big"))  # noqa: S311
