"""The stages of a study: how its evaluations are done, by purpose."""

from __future__ import annotations

from optsmith.study._context import RACE, REFINE, REPORT, SEARCH, SELECTION
from optsmith.task import Preset, Stage


def stages_of(terms: Preset) -> dict[str, Stage]:
    """Return the stages of a study, by name."""
    protocol, contest = terms.protocol, terms.contest
    return {
        SEARCH: protocol.search_stage,
        REFINE: protocol.refine_stage(),
        RACE: protocol.race_stage(),
        SELECTION: protocol.selection_stage(contest.selection_seeds),
        REPORT: protocol.report_stage(looks_of(terms)[0]),
    }


def looks_of(terms: Preset) -> tuple[int, ...]:
    """Return the numbers of report seeds at which the comparison is looked at."""
    return terms.contest.looks or (terms.protocol.final_seeds,)
