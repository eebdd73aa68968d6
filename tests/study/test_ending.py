"""Reasons that end a search early."""

from __future__ import annotations

import pytest

from optsmith import Evaluation, Objective, Rule, Status, StudyError
from optsmith.searchers import Candidate, Outcome
from optsmith.study import Tally
from optsmith.study._ending import MaxCost, Patience, SmallerBudget, TimeIsUp, finish_requested

RULE = Rule.parse("g")


def add(tally: Tally, score: float | None, fidelity: float = 1.0) -> None:
    status = Status.REJECTED if score is None else Status.OK
    kind = "accepted" if score is not None else "rejected"
    evaluation = Evaluation("g", status, score=score, lr=0.1)
    candidate = Candidate(str(tally.drawn), RULE, fidelity)
    tally.add(candidate, Outcome(kind, score=score, evaluation=evaluation))


def ends_after(ending, scores, objective: Objective | None = None, each: bool = True) -> int | None:
    """Return the number of candidates after which a search ends."""
    tally = Tally(objective or Objective())
    for number, score in enumerate(scores, start=1):
        add(tally, *(score if isinstance(score, tuple) else (score,)))
        if (each or number == len(scores)) and ending(tally):
            return number
    return None


def test_patience_counts_accepted_candidates_since_the_last_improvement():
    assert ends_after(Patience(3), [5, 4, 6, 3, 3, 7, 3.5, 2]) == 7


def test_rejected_candidates_do_not_count():
    assert ends_after(Patience(2), [5, None, None, 6, None, 7, 1]) == 6


def test_the_direction_of_the_objective_matters():
    accuracy = Objective("accuracy", "maximize", "last")
    assert ends_after(Patience(2), [0.5, 0.6, 0.7, 0.1, 0.2], accuracy) == 5


def test_scores_of_other_fidelities_are_not_compared():
    scores = [(1.0, 0.1), (0.9, 0.1), (5.0, 1.0), (6.0, 1.0), (7.0, 1.0)]
    assert ends_after(Patience(2), scores) == 5


def test_a_replay_that_is_looked_at_once_comes_to_the_same_answer():
    scores = [5, 4, 6, 3, 3, 7]
    assert ends_after(Patience(2), scores, each=False) == 6
    assert ends_after(Patience(3), scores, each=False) is None


def test_patience_must_be_positive():
    with pytest.raises(StudyError, match="patience must be at least 1, not 0"):
        Patience(0)


def test_a_search_ends_when_its_training_has_cost_as_much_as_it_may():
    tally, ending = Tally(Objective()), MaxCost(2.5, full=100)
    for trained in (100, 149):
        tally.trained += trained
        assert not ending(tally)
    tally.trained += 1
    assert ending(tally) == "it has trained 2.5 full runs"
    with pytest.raises(StudyError, match="max_cost must be above 0, not 0"):
        MaxCost(0, full=100)


def test_a_smaller_budget_ends_the_search_when_it_is_accepted():
    assert ends_after(SmallerBudget(2), [5, None, 4, 3]) == 3
    tally = Tally(Objective())
    add(tally, 1.0)
    add(tally, 1.0)
    assert SmallerBudget(2)(tally) == "the budget was reduced to 2"


def test_a_study_can_be_finished_at_any_time():
    assert finish_requested([])


def test_a_search_starts_nothing_that_would_take_longer_than_its_time():
    now = [5.0]
    ends = TimeIsUp(lambda: now[0], lambda: 10.0, lambda jobs: 1.0 * sum(jobs))
    assert ends([4]) == ""
    assert ends([8]) == "its share of the time is used"
    now[0] = 9.0
    assert ends([]) == ""  # what runs is waited for
    now[0] = 11.0
    assert ends([])
