"""Protocols: how a recipe is scored on a task, and the presets that go with a search."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from optsmith._errors import TaskError

PAPER_LRS = (0.0006, 0.001, 0.003, 0.006, 0.01, 0.03, 0.06, 0.1, 0.3, 1.0)

# Disjoint by construction: what chooses a learning rate never scores, what scores in the search
# never appears in the final evaluation.
SEARCH_LR_SEEDS, _SEARCH_SEED = (0, 999_999), 1
FINAL_LR_SEEDS, _FINAL_SEED = (1_000_000, 1_999_999), 1_000_001
SHORTEST = 100
"""Steps that a run needs to say something about a longer one, as in the paper."""

LR_SEARCHES = ("grid", "halving", "auto")
MOST_SEEDS = 999_998
DEDUPE = ("none", "equal", "scale")


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How recipes are scored on a task.

    Attributes:
        lrs: Learning-rate grid, increasing.
        proxy_steps: Length of the grid's runs during a search.
        steps: Length of the runs that score a rule during a search.
        final_steps: Length of the runs of the final evaluation.
        tune_steps: Length of the final evaluation's grid runs; None: `proxy_steps`.
        score_seeds: Seeds that score a rule during a search.
        final_seeds: Seeds of the final evaluation.
        threshold: Scores that are not better than this are rejected; None: none is.
        early_stop: Whether hopeless learning rates are stopped early.
        extend_grid: Whether a best learning rate at the edge of the grid is followed outwards.
        lr_search: How a learning rate is found: on the whole `grid`; by `halving`, where the worse
            half is given up after a quarter and after half of the run; or `auto`: where the
            measured size of the rule's updates says, halved, and refined around the best.

    Raises:
        TaskError: A setting makes no sense.
    """

    lrs: tuple[float, ...] = PAPER_LRS
    proxy_steps: int
    steps: int
    final_steps: int
    tune_steps: int | None = None
    score_seeds: int = 10
    final_seeds: int = 4
    threshold: float | None = 10.0
    early_stop: bool = True
    extend_grid: bool = False
    lr_search: str = "grid"

    def __post_init__(self) -> None:
        object.__setattr__(self, "lrs", tuple(float(lr) for lr in self.lrs))
        if not self.lrs or not all(0 < lr < math.inf for lr in self.lrs):
            raise TaskError("a learning-rate grid needs positive numbers")
        if list(self.lrs) != sorted(set(self.lrs)):
            raise TaskError("the learning rates of a grid must increase")
        for name in ("proxy_steps", "steps", "final_steps", "score_seeds", "final_seeds"):
            if getattr(self, name) < 1:
                raise TaskError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.tune_steps is not None and self.tune_steps < 1:
            raise TaskError(f"tune_steps must be at least 1, not {self.tune_steps}")
        if self.lr_search not in LR_SEARCHES:
            raise TaskError(f'lr_search is one of {", ".join(LR_SEARCHES)}, not "{self.lr_search}"')
        if max(self.score_seeds, self.final_seeds) > MOST_SEEDS:
            raise TaskError(f"there are at most {MOST_SEEDS} seeds")

    def replace(self, **changes: Any) -> Protocol:
        """Return the protocol with some settings changed."""
        return replace(self, **changes)

    @property
    def search_stage(self) -> Stage:
        """How a search scores a candidate."""
        return Stage(
            protocol=self,
            tune_steps=self.proxy_steps,
            steps=self.steps,
            lr_seeds=SEARCH_LR_SEEDS,
            seeds=tuple(range(_SEARCH_SEED, _SEARCH_SEED + self.score_seeds)),
            threshold=self.threshold,
        )

    @property
    def final_stage(self) -> Stage:
        """How recipes are compared in the end: full length, seeds and data of its own."""
        return Stage(
            protocol=self,
            tune_steps=self.tune_steps or self.proxy_steps,
            steps=self.final_steps,
            lr_seeds=FINAL_LR_SEEDS,
            seeds=tuple(range(_FINAL_SEED, _FINAL_SEED + self.final_seeds)),
            final=True,
        )


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One way to evaluate: choose a learning rate, then score it on other seeds.

    Attributes:
        protocol: The protocol that it belongs to, which says how a learning rate is found.
        tune_steps: Length of the runs that choose a learning rate.
        steps: Length of the scoring runs.
        lr_seeds: Seeds of the runs that choose a learning rate: that of the grid, and a second one
            for what is close.
        seeds: Seeds of the scoring runs.
        threshold: A score that is not better is rejected; None accepts all.
        final: Whether the task may use what it holds out during a search.
        lr: A fixed learning rate: nothing is tuned.
    """

    protocol: Protocol
    tune_steps: int
    steps: int
    lr_seeds: tuple[int, int]
    seeds: tuple[int, ...]
    threshold: float | None = None
    final: bool = False
    lr: float | None = None

    @property
    def lrs(self) -> tuple[float, ...]:
        """The learning-rate grid."""
        return self.protocol.lrs

    @property
    def lr_search(self) -> str:
        """How a learning rate is found."""
        return self.protocol.lr_search

    @property
    def early_stop(self) -> bool:
        """Whether learning rates that meet the early-stopping criteria are given up."""
        return self.protocol.early_stop

    @property
    def extend_grid(self) -> bool:
        """Whether a best learning rate at the edge of the grid is followed outwards."""
        return self.protocol.extend_grid

    @property
    def lr_seed(self) -> int:
        """Seed of the grid's runs."""
        return self.lr_seeds[0]

    def at(self, fidelity: float = 1.0, block: int = 0, lr: float | None = None) -> Stage:
        """Return the stage of one candidate.

        Args:
            fidelity: Share of the run's length. The threshold is one of whole runs, so shorter ones
                have none.
            block: Which of the disjoint blocks of scoring seeds to use, from 0.
            lr: A fixed learning rate.

        Raises:
            TaskError: There are not as many blocks of seeds.
        """
        shift = block * len(self.seeds)
        if self.seeds[-1] + shift >= self.lr_seeds[1]:
            raise TaskError(f"there is no block {block} of {len(self.seeds)} seeds each")
        return replace(
            self,
            tune_steps=max(1, round(self.tune_steps * fidelity)),
            steps=max(1, round(self.steps * fidelity)),
            seeds=tuple(seed + shift for seed in self.seeds),
            threshold=self.threshold if fidelity == 1 else None,
            lr=lr,
        )


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A protocol and the settings of a search that go with it.

    Attributes:
        protocol: How candidates are scored.
        budget: Candidates to accept.
        proposals: How many of the best are compared with the baselines in the end.
        space: Name of the space.
        descent: Whether the screen applies the paper's descent test.
        trajectory: Whether it applies the trajectory test too.
        dedupe: Which rules count as duplicates: `equal` ones, those equal up to a factor (`scale`)
            or `none`.
        options: Options of searchers, by name; a searcher takes those that it has.

    Raises:
        TaskError: A setting makes no sense.
    """

    protocol: Protocol
    budget: int = 128
    proposals: int = 5
    space: str = "paper"
    descent: bool = True
    trajectory: bool = True
    dedupe: str = "equal"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("budget", "proposals"):
            if getattr(self, name) < 1:
                raise TaskError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.dedupe not in DEDUPE:
            raise TaskError(f'dedupe is one of {", ".join(DEDUPE)}, not "{self.dedupe}"')


def presets_for(
    steps: int, *, lrs: tuple[float, ...] = PAPER_LRS, threshold: float | None = 10.0
) -> Mapping[str, Preset]:
    """Return the three presets of a task whose runs have `steps` steps.

    `paper` scores on runs a tenth as long (but of 100 steps, if there are as many), over ten seeds,
    and tunes learning rates on a fixed grid there. `quick` scores over four, places learning rates
    by the size of the rule's updates, takes rules that differ by a factor for the same, and tunes
    for the final evaluation at full length. `smoke` only shows that it runs.
    """
    part = max(steps // 10, min(steps, SHORTEST))
    paper = Protocol(lrs=lrs, proxy_steps=part, steps=part, final_steps=steps, threshold=threshold)
    quick = paper.replace(lr_search="auto", score_seeds=4, tune_steps=steps)
    smoke = paper.replace(
        lrs=tuple(lrs[len(lrs) // 4 :: max(1, len(lrs) // 4)]),
        proxy_steps=min(part, 10),
        steps=min(part, 20),
        final_steps=min(steps, 30),
        score_seeds=2,
        final_seeds=2,
    )
    return {
        "paper": Preset(protocol=paper, trajectory=False),
        "quick": Preset(protocol=quick, dedupe="scale"),
        "smoke": Preset(protocol=smoke, budget=8, options={"levels": 2}),
    }
