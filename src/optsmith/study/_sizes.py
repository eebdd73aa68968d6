"""How thoroughly a study searches and compares, by the time that it has."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from optsmith.task import Contest, Preset

FEWEST, MOST = 8, 512
"""Minimum and maximum number of candidates."""

SHORTEST = 20
"""Minimum steps of a run that ranks rules."""

SHORTEST_RACE = 80
"""Minimum steps of a run that ranks opponents: at 30 steps, Muon with cosine decay ranks behind
Adafactor on a task where it is the best of all at 300."""


@dataclass(frozen=True, slots=True)
class ContestSize:
    """How thoroughly the best rules and the opponents are compared.

    Attributes:
        opponents: Maximum number of opponents that race.

    The other fields are those of `Contest` and `Preset`.
    """

    looks: tuple[int, ...]
    finalists: int
    proposals: int
    opponents: int
    race: tuple[float, ...] = (0.1,)
    horizons: tuple[float, ...] = ()
    selection_seeds: int = 0
    checks: bool = False
    refine: bool = False


_HORIZONS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
SIZES = (
    ContestSize((8, 16, 32), 5, 5, 99, (0.1, 0.3), _HORIZONS, 4, True, True),
    ContestSize((8, 16, 32), 4, 4, 48, (0.1, 0.3), _HORIZONS, 2, True, True),
    ContestSize((8, 16, 32), 3, 3, 32, (0.1,), (0.5, 0.7, 0.85), 2, True, True),
    ContestSize((8, 16, 32), 3, 3, 24, (0.1,), (0.5, 0.7, 0.85)),
    ContestSize((8, 16, 32), 2, 3, 16, (0.1,), (0.5, 0.75)),
    ContestSize((8,), 2, 2, 12),
    ContestSize((5,), 2, 2, 8),
    ContestSize((5,), 1, 2, 6),
    ContestSize((5,), 1, 1, 4),
    ContestSize((5,), 1, 1, 2),
    ContestSize((5,), 1, 1, 1),
)
"""From the most thorough to the least that allows a claim."""

LENGTHS = (
    (1.0, 4, MOST), (0.5, 4, MOST), (0.3, 4, 96), (0.3, 3, 64), (0.3, 2, 40), (0.3, 1, 24),
    (0.2, 2, 24), (0.2, 1, 16), (0.1, 2, 12), (0.1, 1, FEWEST),
)  # fmt: skip
"""Lengths of search runs as shares of a full run, with the number of seeds and the number of
candidates from which on they are preferred to the next. Shorter runs rank rules less like full runs
do: rank correlations over all rules are 0.62 to 0.71 at 5 %, 0.71 to 0.81 at 10 %, 0.78 to 0.94 at
30 % and 0.84 to 0.98 at 50 %; at 5 % the best half is in no order (benchmarks/fidelity.py)."""

FIXED_RATE_LENGTHS = (
    (1.0, 2, 192), (1.0, 1, 80), (0.5, 1, 64), (0.3, 1, 48), (0.2, 1, 48), (0.1, 1, 32),
)  # fmt: skip
"""The same for searchers whose candidates come with their learning rate.

Their numbers are tuned for the length of these runs, so that full length is worth more than a
second seed per candidate."""

TUNED_AT = 0.3
"""Length of the runs that tune the opponents' learning rates for such searchers."""


def lengths_of(preset: Preset) -> tuple[tuple[float, int, int], ...]:
    """Return the lengths, numbers of seeds and numbers of candidates to choose from."""
    return FIXED_RATE_LENGTHS if preset.fixed_lr else LENGTHS


def with_size(preset: Preset, size: ContestSize, opponents: int, kept: Collection[str]) -> Preset:
    """Return the settings with a comparison of some size."""
    full = preset.protocol.final_steps
    # Runs that are too short do not rank opponents, and runs that are too long save nothing.
    race = tuple(sorted({min(max(share, SHORTEST_RACE / full), 0.5) for share in size.race}))
    race = preset.contest.race if "race" in kept else race
    finalists = min(size.finalists, max(1, opponents))
    contest = Contest(
        race=race if opponents > finalists else (),
        finalists=finalists,
        selection_seeds=size.selection_seeds,
        looks=size.looks,
        horizons=size.horizons,
        checks=size.checks,
    )
    changes: dict[str, Any] = {"tune_steps": full, "final_seeds": size.looks[0]}
    protocol = preset.protocol.replace(**_free(changes, kept))
    refine = preset.refine and size.refine
    proposals = min(size.proposals, preset.proposals)
    own = _free({"proposals": proposals, "refine": refine}, kept)
    return replace(preset, protocol=protocol, contest=contest, **own)


def with_length(preset: Preset, share: float, seeds: int, kept: Collection[str]) -> Preset:
    """Return the settings with search runs of some length."""
    full = preset.protocol.final_steps
    steps = min(full, max(SHORTEST, round(share * full)))
    tuning = min(steps, max(SHORTEST, round(TUNED_AT * full))) if preset.fixed_lr else steps
    changes = {"proxy_steps": tuning, "steps": steps, "score_seeds": seeds}
    return replace(preset, protocol=preset.protocol.replace(**_free(changes, kept)))


def _free(changes: Mapping[str, Any], kept: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if name not in kept}
