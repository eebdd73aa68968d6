"""The contract of a searcher: ask for candidates, tell what became of them."""

from __future__ import annotations

import hashlib
import random
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from optsmith._errors import OptsmithError
from optsmith.rules import Rule
from optsmith.space import Space

if TYPE_CHECKING:  # it needs torch, and the command line lists searchers without
    from optsmith.evaluation import Evaluation

Direction = Literal["minimize", "maximize"]

UNBOUNDED = sys.maxsize
"""The need of a searcher that can use any number of evaluations."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A rule to be evaluated, and how.

    Attributes:
        id: The searcher's own name for it; together with the fidelity it names one evaluation.
        rule: The rule; numbers in it are its constants.
        fidelity: Share of the run's length, above 0 and up to 1.
        block: Which block of selection seeds scores it; blocks are disjoint.
        lr: A fixed learning rate; None tunes one.
        phase: The part of the search that it belongs to, for people ("level 1", "rung 30 %").

    Raises:
        OptsmithError: It cannot be evaluated.
    """

    id: str
    rule: Rule
    fidelity: float = 1.0
    block: int = 0
    lr: float | None = None
    phase: str = ""

    def __post_init__(self) -> None:
        if not 0 < self.fidelity <= 1:
            raise OptsmithError(f"a fidelity lies between 0 and 1, not at {self.fidelity:g}")
        if self.block < 0:
            raise OptsmithError(f"blocks of seeds count from 0, not from {self.block}")
        if self.lr is not None and not 0 < self.lr < float("inf"):
            raise OptsmithError(f"a learning rate must be positive and finite, not {self.lr:g}")

    @property
    def key(self) -> tuple[str, float]:
        """Id and fidelity, under which its evaluation is recorded."""
        return self.id, self.fidelity


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a candidate.

    Attributes:
        kind: One of the counters: `refused`, `duplicate`, `accepted` or the status of an
            evaluation that was not accepted.
        key: Fingerprint, equal for equal rules; empty when duplicates are not looked for.
        score: The score when accepted; of a duplicate, the score of the rule that it equals; None
            when there is none.
        reason: Why it was refused.
        evaluation: The whole evaluation (curve, seeds, steps trained); of a duplicate, that of the
            rule that it equals; None when refused.
    """

    kind: str
    key: str = ""
    score: float | None = None
    reason: str = ""
    evaluation: Evaluation | None = None

    @property
    def evaluated(self) -> bool:
        """Whether it cost an evaluation."""
        return self.kind not in ("refused", "duplicate")

    @property
    def accepted(self) -> bool:
        """Whether it was evaluated and has a score that counts."""
        return self.kind == "accepted"


@dataclass(frozen=True)
class NoOptions:
    """The options of a searcher that has none."""


class Searcher(ABC):
    """Proposes rules and learns from their scores; knows nothing of tasks, processes or storage.

    Deterministic: the sequence of candidates depends on the arguments and on what was told, in
    order; not on how many are asked for at a time or are outstanding. Its state is what it was
    told, so a search is resumed by telling a new searcher the recorded outcomes. Every candidate
    that was asked for is either told or cancelled. One thread owns a searcher.

    Args:
        space: The super-tree.
        budget: Candidates to accept; what counts in detail is the searcher's own affair.
        seed: Seed of every draw.
        direction: Whether smaller or larger scores are better.
        options: An object of the class's `Options`; None takes the defaults.

    Attributes:
        Options: A frozen dataclass of what can be set: fields of type `int`, `float`, `bool` or
            `str`, each made by `option`.
        log: Lines about what it decided, for people; it only grows.

    Raises:
        OptsmithError: A setting makes no sense.
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

    @abstractmethod
    def ask(self, n: int) -> list[Candidate]:
        """Return the next candidates, at most `n`.

        Fewer when the next one depends on outcomes that were not told yet. None returned while none
        is outstanding: the search is over.
        """

    @abstractmethod
    def tell(self, candidate: Candidate, outcome: Outcome) -> None:
        """Take what became of a candidate; candidates are told in the order they were asked for."""

    @property
    def need(self) -> int:
        """How many evaluations can be used before something must be told.

        No more are begun, so that none is in vain.
        """
        return UNBOUNDED

    def obsolete(self, candidate: Candidate) -> bool:
        """Return whether an outstanding candidate is no longer of use; it is then cancelled."""
        return False

    def cancel(self, candidate: Candidate) -> None:  # noqa: B027 - most need not know
        """Note that a candidate will not be told: it is obsolete, or the search is interrupted."""

    @property
    def spent(self) -> int | None:
        """How much of the budget is used up; None: as much as was accepted."""
        return None

    def describe(self) -> str:
        """Return in one line what it is doing, for the progress display."""
        return ""

    def summary(self) -> dict[str, Any]:
        """Return what a study keeps of the search, as plain data for reports."""
        return {}


def generator(seed: int, level: int, index: int) -> random.Random:
    """Return a candidate's own generator, which no other candidate draws from."""
    digest = hashlib.blake2b(f"{seed}:{level}:{index}".encode(), digest_size=8).digest()
    return random.Random(int.from_bytes(digest, "big"))  # noqa: S311
