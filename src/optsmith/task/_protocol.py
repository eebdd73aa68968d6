"""Protocols, which define how recipes are scored on a task, and their stages."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from optsmith._errors import TaskError

PAPER_LRS = (0.0006, 0.001, 0.003, 0.006, 0.01, 0.03, 0.06, 0.1, 0.3, 1.0)

# Disjoint by construction: seeds that tune a learning rate never score a rule, no seed of the
# search is used in the final evaluation, and seeds that choose the winner are not reported.
SEARCH_LR_SEEDS, _SEARCH_SEED = (0, 999_999), 1
FINAL_LR_SEEDS, _FINAL_SEED = (1_000_000, 1_999_999), 1_000_001
_SELECTION_SEED = 2_000_001

UNTRAINED = "untrained"
"""The threshold that is the signal of an untrained model, which `Protocol.resolved` replaces."""

LR_SEARCHES = ("grid", "halving", "auto")
MOST_SEEDS = 999_998


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
