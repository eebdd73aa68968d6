"""Presets: a protocol with the settings of a search and of the comparison at its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from optsmith._errors import TaskError
from optsmith.task._protocol import PAPER_LRS, UNTRAINED, Protocol

SHORTEST = 100
"""Minimum length of a run that predicts the result of a longer one, as in the paper."""

DEDUPE = ("none", "equal", "scale")


@dataclass(frozen=True, kw_only=True)
class Contest:
    """How the best rules of a search and the opponents are compared.

    The defaults compare all of them once, as in the paper.

    Attributes:
        race: Fractions of a full run at which opponents (optimizer, schedule and learning rate)
            race before the search; the worse ones leave at each. Empty: there is no race.
        finalists: Number of opponents after the race; None: all.
        selection_seeds: Number of seeds that score the finalists and the proposals at full length,
            to choose the best of each; 0: the runs that tune the learning rate do.
        looks: Numbers of report seeds after which the comparison of the best rule with the best
            opponent is looked at; seeds are added until it is decided. Empty: once, with
            `final_seeds` seeds.
        horizons: Fractions of a full run at which the winner is trained to measure how much less
            training it needs than the best opponent. Empty: this is not measured.
        checks: Whether the winner is also trained with half and twice its learning rate, and at
            twice the horizon.

    Raises:
        TaskError: A setting is invalid.
    """

    race: tuple[float, ...] = ()
    finalists: int | None = None
    selection_seeds: int = 0
    looks: tuple[int, ...] = ()
    horizons: tuple[float, ...] = ()
    checks: bool = False

    def __post_init__(self) -> None:
        for name in ("race", "horizons"):
            values = getattr(self, name)
            if not all(0 < value < 1 for value in values) or list(values) != sorted(set(values)):
                raise TaskError(f"{name} must be increasing fractions between 0 and 1")
        if self.finalists is not None and self.finalists < 1:
            raise TaskError(f"finalists must be at least 1, not {self.finalists}")
        if list(self.looks) != sorted(set(self.looks)) or any(n < 1 for n in self.looks):
            raise TaskError("looks must be increasing numbers of seeds")
        if any(n % self.looks[0] for n in self.looks):
            raise TaskError(f"looks must be multiples of the first, {self.looks[0]}")
        if self.selection_seeds < 0:
            raise TaskError(f"selection_seeds must be at least 0, not {self.selection_seeds}")


QUICK_CONTEST = Contest(
    race=(0.1,),
    finalists=5,
    selection_seeds=4,
    looks=(8, 16, 32),
    horizons=(0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    checks=True,
)
"""The comparison at the end of a search, unless it follows the paper or has little time."""

SMOKE_CONTEST = Contest(
    race=(0.5,), finalists=2, selection_seeds=1, looks=(2, 4), horizons=(0.5,), checks=True
)
"""All parts of a comparison, as small as possible."""


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A protocol with the default settings of a search.

    Attributes:
        protocol: How candidates are scored.
        budget: Number of candidates to accept.
        proposals: Number of top candidates compared with the baselines in the final evaluation.
        space: Name of the space.
        searcher: Name of the searcher.
        descent: Whether screening applies the paper's descent test.
        trajectory: Whether screening applies the trajectory test.
        dedupe: Which rules count as duplicates: `equal` rules, rules equal up to a positive factor
            (`scale`), or `none`.
        options: Options of searchers, by name; a searcher ignores options that it does not have.
        contest: How the best rules and the opponents are compared.
        max_state_bytes: Rules with more bytes of optimizer state per parameter are refused.
        max_step_cost: Rules whose step costs more than this many times Adam's are refused.
        warm_start: Whether the opponents and the rules of the zoo are the first candidates.
        refine: Whether the best rule is shortened after the search, as long as it is not worse.
        equally_tuned: Whether the constants of the best opponent are tuned as well, with as many
            training steps as the search took, and the winner is compared with it.
        fixed_lr: Whether candidates come with a learning rate, which is not tuned for each then.

    Raises:
        TaskError: A setting is invalid.
    """

    protocol: Protocol
    budget: int = 128
    proposals: int = 5
    space: str = "paper"
    searcher: str = "mct"
    descent: bool = True
    trajectory: bool = True
    dedupe: str = "equal"
    options: Mapping[str, Any] = field(default_factory=dict)
    contest: Contest = field(default_factory=Contest)
    max_state_bytes: float | None = None
    max_step_cost: float | None = None
    warm_start: bool = True
    refine: bool = False
    equally_tuned: bool = False
    fixed_lr: bool = False

    def __post_init__(self) -> None:
        for name in ("budget", "proposals"):
            if getattr(self, name) < 1:
                raise TaskError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.dedupe not in DEDUPE:
            raise TaskError(f'dedupe must be one of {", ".join(DEDUPE)}, not "{self.dedupe}"')

    @property
    def proposes_known(self) -> bool:
        """Whether known optimizers may be proposed as rules, as in the paper."""
        return not self.contest.looks and not self.warm_start


def presets_for(
    steps: int, *, lrs: tuple[float, ...] = PAPER_LRS, threshold: float | None = 10.0
) -> Mapping[str, Preset]:
    """Return the three presets of a task whose runs have `steps` steps.

    `paper` rejects scores that are not better than `threshold`, the others scores that are not
    better than the signal of an untrained model.

    `paper` tunes on a fixed grid and scores on ten seeds, with runs of a tenth of the length but at
    least 100 steps, or `steps` if that is fewer. `quick` scores on four seeds, places learning
    rates by the size of the rule's updates, treats rules that differ by a positive factor as
    duplicates, and tunes at full length for the final evaluation. `smoke` only checks that a search
    runs.
    """
    part = max(steps // 10, min(steps, SHORTEST))
    paper = Protocol(lrs=lrs, proxy_steps=part, steps=part, final_steps=steps, threshold=threshold)
    relative = paper.replace(threshold=UNTRAINED)
    quick = relative.replace(lr_search="auto", score_seeds=4, tune_steps=steps)
    smoke = relative.replace(
        lrs=tuple(lrs[len(lrs) // 4 :: max(1, len(lrs) // 4)]),
        proxy_steps=min(part, 10),
        steps=min(part, 20),
        final_steps=min(steps, 30),
        score_seeds=2,
        final_seeds=2,
    )
    return {
        "paper": Preset(protocol=paper, trajectory=False, warm_start=False),
        "quick": Preset(
            protocol=quick, searcher="mixture", dedupe="scale", contest=QUICK_CONTEST, refine=True
        ),
        "smoke": Preset(protocol=smoke, budget=8, options={"levels": 2}, contest=SMOKE_CONTEST),
    }
