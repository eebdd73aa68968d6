"""Protocols, which define how recipes are scored on a task, and presets of search settings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from optsmith._errors import TaskError

PAPER_LRS = (0.0006, 0.001, 0.003, 0.006, 0.01, 0.03, 0.06, 0.1, 0.3, 1.0)

# Disjoint by construction: seeds that tune a learning rate never score a rule, no seed of the
# search is used in the final evaluation, and seeds that choose the winner are not reported.
SEARCH_LR_SEEDS, _SEARCH_SEED = (0, 999_999), 1
FINAL_LR_SEEDS, _FINAL_SEED = (1_000_000, 1_999_999), 1_000_001
_SELECTION_SEED = 2_000_001
SHORTEST = 100
"""Minimum length of a run that predicts the result of a longer one, as in the paper."""

UNTRAINED = "untrained"
"""The threshold that is the signal of an untrained model, which `Protocol.resolved` replaces."""

LR_SEARCHES = ("grid", "halving", "auto")
MOST_SEEDS = 999_998
DEDUPE = ("none", "equal", "scale")


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How recipes are scored on a task.

    Attributes:
        lrs: Learning-rate grid, in increasing order.
        proxy_steps: Steps of the runs that tune the learning rate during a search.
        steps: Steps of the runs that score a rule during a search.
        final_steps: Steps of the runs that score a recipe in the final evaluation.
        tune_steps: Steps of the runs that tune the learning rate for the final evaluation; None
            uses `proxy_steps`.
        score_seeds: Number of seeds that score a rule during a search.
        final_seeds: Number of seeds of the final evaluation.
        threshold: Scores that are not better than this are rejected: a number, or `untrained` for
            the signal of an untrained model; None accepts every score.
        early_stop: Whether tuning runs that meet the early-stopping criteria are stopped.
        extend_grid: Whether the grid is extended while its best learning rate is at an edge.
        lr_search: How the learning rate is tuned: `grid` trains the whole grid; `halving` stops the
            worse half of the grid after a quarter and after half of the run; `auto` places a grid
            by the measured size of the rule's updates, halves it and refines around the best.

    Raises:
        TaskError: A setting is invalid.
    """

    lrs: tuple[float, ...] = PAPER_LRS
    proxy_steps: int
    steps: int
    final_steps: int
    tune_steps: int | None = None
    score_seeds: int = 10
    final_seeds: int = 4
    threshold: float | str | None = UNTRAINED
    early_stop: bool = True
    extend_grid: bool = False
    lr_search: str = "grid"

    def __post_init__(self) -> None:
        object.__setattr__(self, "lrs", tuple(float(lr) for lr in self.lrs))
        if not self.lrs or not all(0 < lr < math.inf for lr in self.lrs):
            raise TaskError("the learning rates of a grid must be positive and finite")
        if list(self.lrs) != sorted(set(self.lrs)):
            raise TaskError("the learning rates of a grid must be in increasing order")
        for name in ("proxy_steps", "steps", "final_steps", "score_seeds", "final_seeds"):
            if getattr(self, name) < 1:
                raise TaskError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.tune_steps is not None and self.tune_steps < 1:
            raise TaskError(f"tune_steps must be at least 1, not {self.tune_steps}")
        if self.lr_search not in LR_SEARCHES:
            raise TaskError(
                f'lr_search must be one of {", ".join(LR_SEARCHES)}, not "{self.lr_search}"'
            )
        if isinstance(self.threshold, str) and self.threshold != UNTRAINED:
            raise TaskError(
                f'threshold must be a number, "{UNTRAINED}" or None, not "{self.threshold}"'
            )
        if max(self.score_seeds, self.final_seeds) > MOST_SEEDS:
            raise TaskError(f"score_seeds and final_seeds must be at most {MOST_SEEDS}")

    def replace(self, **changes: Any) -> Protocol:
        """Return a copy of the protocol with some settings changed."""
        return replace(self, **changes)

    def resolved(self, untrained: float) -> Protocol:
        """Return the protocol with a number instead of the threshold `untrained`.

        Args:
            untrained: The signal of an untrained model.
        """
        return replace(self, threshold=untrained) if self.threshold == UNTRAINED else self

    @property
    def search_stage(self) -> Stage:
        """The stage that scores candidates during a search.

        It has no threshold if the protocol's is `untrained` and has not been `resolved`.
        """
        return Stage(
            protocol=self,
            tune_steps=self.proxy_steps,
            steps=self.steps,
            lr_seeds=SEARCH_LR_SEEDS,
            seeds=tuple(range(_SEARCH_SEED, _SEARCH_SEED + self.score_seeds)),
            threshold=None if isinstance(self.threshold, str) else self.threshold,
        )

    @property
    def final_stage(self) -> Stage:
        """The stage that compares recipes at full length, on separate seeds and held-out data."""
        return Stage(
            protocol=self,
            tune_steps=self.tune_steps or self.proxy_steps,
            steps=self.final_steps,
            lr_seeds=FINAL_LR_SEEDS,
            seeds=tuple(range(_FINAL_SEED, _FINAL_SEED + self.final_seeds)),
            final=True,
        )

    def race_stage(self) -> Stage:
        """Return the stage of the opponents' race: a coarse grid at some fidelity, no scoring."""
        return replace(
            self.search_stage,
            tune_steps=self.final_steps,
            steps=self.final_steps,
            seeds=(),
            threshold=None,
            refine=False,
        )

    def refine_stage(self) -> Stage:
        """Return the stage that compares forms of a rule: full runs, two seeds per block."""
        stage = replace(self, score_seeds=2).search_stage
        return replace(stage, steps=self.final_steps, threshold=None)

    def selection_stage(self, seeds: int) -> Stage:
        """Return the stage that tunes finalists at full length and chooses among them.

        Args:
            seeds: Number of seeds that score them; 0: the tuning runs do.
        """
        first = _SELECTION_SEED
        return replace(self.final_stage, seeds=tuple(range(first, first + seeds)), final=False)

    def report_stage(self, seeds: int) -> Stage:
        """Return the stage that reports recipes, whose learning rates are fixed.

        Args:
            seeds: Number of seeds per block.
        """
        return replace(self, final_seeds=seeds).final_stage


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Settings of one evaluation: tune a learning rate, then score it on other seeds.

    Attributes:
        protocol: The protocol of the stage, which says how the learning rate is tuned.
        tune_steps: Steps of the tuning runs.
        steps: Steps of the scoring runs.
        lr_seeds: Seeds of the tuning runs: the seed of the grid, and a second one for learning
            rates with similar scores.
        seeds: Seeds of the scoring runs; empty: the score is that of the tuning runs.
        threshold: Scores that are not better than this are rejected; None accepts every score.
        final: Whether the task may use held-out data.
        lr: A fixed learning rate, which disables tuning.
        around: A learning rate that was good in shorter runs; only its neighbourhood is tried.
        refine: Whether `auto` tries the neighbours of the best learning rate with a second seed.
        timed: Whether a training step is timed, if the stage is final.
    """

    protocol: Protocol
    tune_steps: int
    steps: int
    lr_seeds: tuple[int, int]
    seeds: tuple[int, ...]
    threshold: float | None = None
    final: bool = False
    lr: float | None = None
    around: float | None = None
    refine: bool = True
    timed: bool = True

    @property
    def lrs(self) -> tuple[float, ...]:
        """The learning-rate grid."""
        return self.protocol.lrs

    @property
    def lr_search(self) -> str:
        """How the learning rate is tuned."""
        return self.protocol.lr_search

    @property
    def early_stop(self) -> bool:
        """Whether tuning runs that meet the early-stopping criteria are stopped."""
        return self.protocol.early_stop

    @property
    def extend_grid(self) -> bool:
        """Whether the grid is extended while its best learning rate is at an edge."""
        return self.protocol.extend_grid

    @property
    def lr_seed(self) -> int:
        """Seed of the grid."""
        return self.lr_seeds[0]

    def at(
        self,
        fidelity: float = 1.0,
        block: int = 0,
        lr: float | None = None,
        around: float | None = None,
    ) -> Stage:
        """Return the stage of one candidate.

        Args:
            fidelity: Fraction of the full run length. Shorter runs have no threshold, because the
                threshold applies to full runs.
            block: Index of the block of scoring seeds, from 0; blocks are disjoint.
            lr: A fixed learning rate.
            around: A learning rate whose neighbourhood is tried.

        Raises:
            TaskError: There are not enough seeds for the block.
        """
        shift = block * len(self.seeds)
        if block and self.seeds[-1] + shift >= self.lr_seeds[1]:
            raise TaskError(f"there is no block {block} of {len(self.seeds)} seeds each")
        return replace(
            self,
            tune_steps=max(1, round(self.tune_steps * fidelity)),
            steps=max(1, round(self.steps * fidelity)),
            seeds=tuple(seed + shift for seed in self.seeds),
            threshold=self.threshold if fidelity == 1 else None,
            lr=lr,
            around=around,
            timed=fidelity == 1 and not block,
        )


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
