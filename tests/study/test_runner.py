"""Which candidates are evaluated together, and what happens when that goes wrong."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Hashable

import pytest

from optsmith import Evaluation, Objective, Status, spaces
from optsmith.execution import Executor, Lost
from optsmith.screening import Screen
from optsmith.searchers import Candidate, MonteCarloTree
from optsmith.study import Observer, Tally
from optsmith.study._runner import Runner

BUDGET, LEVELS = 40, 2


def evaluation(rule) -> Evaluation:
    """Invent an outcome that depends on the rule alone: two thirds are accepted."""
    digest = hashlib.blake2b(str(rule).encode(), digest_size=4).digest()
    if digest[0] % 3 == 0:
        return Evaluation(str(rule), Status.EARLY_STOPPED)
    return Evaluation(str(rule), Status.OK, score=digest[1] / 256)


class Shuffling(Executor):
    """Finishes jobs in any order, as many workers would; some of them never do."""

    def __init__(self, workers: int, seed: int = 0, deadly: str = "") -> None:
        self.workers, self.deadly = workers, deadly
        self.groups: list[tuple[str, ...]] = []
        self._jobs: list[tuple[Hashable, list]] = []
        self._random = random.Random(seed)

    def submit(self, key, job) -> None:
        stage, rules = job
        assert stage == "search"
        self.groups.append(tuple(map(str, rules)))
        self._jobs.append((key, rules))

    def wait(self, timeout=None):
        assert self._jobs, "the runner waits for nothing"
        # Only what is at the front of the queue can be running.
        place = self._random.randrange(min(self.workers, len(self._jobs)))
        key, rules = self._jobs.pop(place)
        if any(str(rule) == self.deadly for rule in rules):
            return [(key, Lost("died", "its worker process died, twice", 1.0))]
        return [(key, [evaluation(rule) for rule in rules])]

    def close(self) -> None:
        pass


def run(executor: Executor, group: int = 4, known: dict | None = None):
    """Return what was recorded, and what the searcher decided."""
    searcher = MonteCarloTree(spaces["paper"], BUDGET, seed=3, levels=LEVELS)
    recorded: dict[tuple[int, int], Evaluation] = {}

    def record(candidate: Candidate, found: Evaluation) -> None:
        assert candidate.id not in recorded, "recorded twice"
        recorded[candidate.id] = found

    Runner(
        searcher, Screen(), lambda s: s.fingerprint, executor, group,
        lambda candidate: (known or {}).get(candidate.id), record,
        Tally(Objective()), Observer(),
    ).run()  # fmt: skip
    return recorded, [decision.to_json() for decision in searcher.decisions]


@pytest.fixture(scope="module")
def usual():
    executor = Shuffling(1)
    return (*run(executor), executor.groups)


@pytest.mark.parametrize(("workers", "seed"), [(1, 1), (2, 1), (2, 2), (5, 1), (16, 1)])
def test_groups_do_not_depend_on_workers_or_on_who_is_first(usual, workers, seed):
    recorded, decisions, groups = usual
    executor = Shuffling(workers, seed)
    assert run(executor) == (recorded, decisions)
    assert sorted(executor.groups) == sorted(groups)


def test_groups_get_smaller_towards_the_end_of_a_level(usual):
    recorded, decisions, groups = usual
    assert len(decisions) == LEVELS
    assert sum(map(len, groups)) == len(recorded)
    by_level = [
        {found.recipe for (of, _), found in recorded.items() if of == level}
        for level in range(LEVELS)
    ]
    # Twenty are surely needed from the start; then one more for each that is not accepted.
    begin = [4, 4, 4, 4, 2, 1, 1]
    for level in range(LEVELS):
        begun = [len(group) for group in groups if group[0] in by_level[level]]
        assert begun[:7] == begin
        assert set(begun[7:]) <= {1}


def test_without_groups_the_search_is_the_same(usual):
    executor = Shuffling(2)
    assert run(executor, group=1) == usual[:2]
    assert {len(group) for group in executor.groups} == {1}


def test_nothing_is_evaluated_that_is_known(usual):
    recorded, decisions, _ = usual
    executor = Shuffling(2)
    assert run(executor, known=recorded) == ({}, decisions)
    assert executor.groups == []


@pytest.mark.parametrize("lost", [0, 5, 11])
def test_a_group_that_is_known_in_part_is_evaluated_whole_and_what_is_known_stays(usual, lost):
    recorded, decisions, groups = usual
    names = list(recorded)
    known = {name: recorded[name] for i, name in enumerate(names) if i != lost}
    executor = Shuffling(2)
    assert run(executor, known=known) == ({names[lost]: recorded[names[lost]]}, decisions)
    (again,) = executor.groups
    assert again in groups
    assert recorded[names[lost]].recipe in again


def test_one_that_brings_its_worker_down_costs_its_group_nothing_but_time(usual):
    groups = usual[2]
    deadly = groups[1][2]
    executor = Shuffling(2, deadly=deadly)
    found, _ = run(executor)
    by_rule = {e.recipe: e for e in found.values()}
    assert (by_rule[deadly].status, by_rule[deadly].seconds) == (Status.FAILED, 1.0)
    assert "died" in by_rule[deadly].error
    assert [e for e in executor.groups if deadly in e] == [groups[1], (deadly,)]
    for rule in set(groups[1]) - {deadly}:
        assert (rule,) in executor.groups
        assert by_rule[rule] == evaluation(rule)
