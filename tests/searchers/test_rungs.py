"""Successive halving over fidelities."""

from __future__ import annotations

import math

import pytest

from optsmith import OptsmithError, Rule
from optsmith.searchers import Candidate, Outcome, Rungs


def candidate(name):
    return Candidate(name, Rule.parse("g"), fidelity=0.25)


def told(rungs, scores):
    for name, score in scores.items():
        rungs.tell(candidate(name), Outcome("accepted", name, score))
    return rungs


def test_the_share_of_the_fidelities_goes_on_by_rank():
    rungs = told(Rungs((0.25, 1.0)), {"a": 3.0, "b": 1.0, "c": 2.0, "d": 0.5, "e": 4.0})
    assert (rungs.rung, rungs.fidelity, rungs.phase, rungs.is_last) == (0, 0.25, "rung 25 %", False)
    promoted = rungs.promote()
    assert [c.id for c in promoted] == ["d", "b"]  # a quarter of five, rounded up
    assert {(c.fidelity, c.phase) for c in promoted} == {(1.0, "rung 100 %")}
    assert rungs.is_last


def test_larger_is_better_when_told_so():
    rungs = told(Rungs((0.5, 1.0), "maximize"), {"a": 3.0, "b": 1.0, "c": 2.0, "d": 0.5})
    assert [c.id for c in rungs.promote()] == ["a", "c"]


def test_the_earlier_of_equals_is_the_better():
    rungs = told(Rungs((0.5, 1.0)), {"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.0})
    assert [c.id for c in rungs.promote()] == ["a", "b"]


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome("failed"),
        Outcome("refused", reason="x"),
        Outcome("duplicate", "k", 0.0),
        Outcome("accepted", "k", math.nan),
    ],
)
def test_only_what_is_accepted_is_ranked(outcome):
    rungs = told(Rungs((0.5, 1.0)), {"a": 1.0})
    rungs.tell(candidate("other"), outcome)
    assert [c.id for c in rungs.promote()] == ["a"]


def test_shares_are_not_rounded_up_by_a_rounding_error():
    rungs = told(Rungs((0.1, 0.3, 1.0)), {str(i): float(i) for i in range(30)})
    assert len(rungs.promote()) == 10


def test_every_rung_starts_anew():
    rungs = told(Rungs((0.1, 0.5, 1.0)), {str(i): float(i) for i in range(10)})
    assert [c.id for c in rungs.promote()] == ["0", "1"]
    for name, score in (("1", 0.1), ("0", 0.2)):
        rungs.tell(candidate(name), Outcome("accepted", name, score))
    assert [c.id for c in rungs.promote()] == ["1"]
    with pytest.raises(OptsmithError, match="no rung after the last"):
        rungs.promote()
