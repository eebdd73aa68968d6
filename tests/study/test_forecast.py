"""The forecast of the time left, on simulated studies with injected times."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, replace

import pytest

from optsmith import Evaluation, Status
from optsmith.study._cost import work_of
from optsmith.study._forecast import Forecast
from optsmith.task import Contest, Preset, presets_for

CONTEST = Contest(
    race=(0.1, 0.3), finalists=4, looks=(8, 16, 32), horizons=(0.5, 0.7, 0.9), checks=True
)
OPPONENTS = 24


def settings(budget: int = 64, **changes) -> Preset:
    return replace(presets_for(1000)["quick"], budget=budget, contest=CONTEST, **changes)


@dataclass
class Simulation:
    """Evaluations of a study, in the order in which they are told, with the time of each."""

    terms: Preset
    workers: int = 2
    seed: int = 0
    step: float = 1e-3  # seconds
    plain: float = 1.0  # how much slower opponents are that are not rules
    accepted: float = 0.7
    drift: float = 1.0  # how much slower steps are at the end of the search

    def events(self) -> list[tuple[float, str, Evaluation]]:
        rng = random.Random(self.seed)
        found, now = [], 0.0
        for phase, works in work_of(self.terms, OPPONENTS).items():
            if phase == "search":
                now = self._search(rng, now, found)
                continue
            for work in works:
                jobs = []
                for number in range(round(work.evaluations)):
                    recipe = ("torch:adafactor", "torch:adam")[number % 2]
                    if number < work.of_rules * work.evaluations:
                        recipe = "g"
                    slower = self.plain if recipe == "torch:adafactor" else 1.0
                    trained = round(work.runs * work.steps * rng.uniform(0.8, 1.3))
                    jobs.append((recipe, trained, trained * self.step * slower))
                now = self._schedule(phase, jobs, now, found)
        return found

    def _schedule(self, phase, jobs, now, found) -> float:
        free = [now] * self.workers
        ended = []
        for recipe, trained, seconds in jobs:
            end = heapq.heappop(free) + seconds
            heapq.heappush(free, end)
            evaluation = Evaluation(recipe, Status.OK, trained=trained, seconds=seconds, steps=1000)
            ended.append((end, phase, evaluation))
        found += sorted(ended, key=lambda event: event[0])
        return max(free)

    def _search(self, rng, now, found) -> float:
        protocol, count = self.terms.protocol, 0
        free, told = [now] * self.workers, now
        while count < self.terms.budget:
            is_accepted = rng.random() < self.accepted
            runs = 10.75 * rng.uniform(0.5, 1.5) + (protocol.score_seeds if is_accepted else 0)
            trained = round(runs * protocol.steps)
            seconds = trained * self.step * self.drift ** (count / self.terms.budget)
            end = heapq.heappop(free) + seconds
            heapq.heappush(free, end)
            told = max(told, end)  # candidates are told in order
            status = Status.OK if is_accepted else Status.EARLY_STOPPED
            found.append(
                (told, "search", Evaluation("g", status, trained=trained, seconds=seconds,
                                            steps=protocol.steps))
            )  # fmt: skip
            count += is_accepted
        return max(free)


def worst_factor(simulation: Simulation) -> float:
    """Return how far the forecast is off, from a tenth of the study until near its end."""
    events = simulation.events()
    end = max(time for time, _, _ in events)
    forecast = Forecast(simulation.terms, OPPONENTS, simulation.workers)
    worst = 1.0
    for time, phase, evaluation in events:
        forecast.add(phase, evaluation, time)
        if 0.1 * end <= time <= 0.85 * end:
            left = forecast.left(time)
            assert left is not None
            worst = max(worst, left / (end - time), (end - time) / left)
    return worst


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"workers": 1},
        {"workers": 4},
        {"step": 0.1},
        {"plain": 3.0},
        {"accepted": 0.5},
        {"accepted": 1.0},
        {"drift": 1.5},
        {"drift": 0.7},
    ],
)
def test_from_a_tenth_on_the_forecast_is_within_a_factor_of_one_and_a_half(changes, seed):
    assert worst_factor(Simulation(settings(), seed=seed, **changes)) < 1.5


def test_nothing_is_known_before_the_first_evaluation_and_something_after_it():
    forecast = Forecast(settings(), OPPONENTS, 2)
    assert forecast.left(3.0) is None
    assert forecast.done(3.0) == 0.0
    forecast.add("opponents", Evaluation("g", Status.OK, trained=475, seconds=1.0, steps=100), 4.0)
    assert forecast.left(4.0) is not None
    assert 0 < forecast.done(4.0) < 1


def test_a_rejected_candidate_takes_time_but_is_no_progress():
    events = [
        Evaluation("g", status, trained=1000, seconds=1.0, steps=100)
        for status in (Status.OK, Status.OK, Status.REJECTED, Status.REJECTED)
    ]
    terms = replace(presets_for(1000)["quick"], budget=500, contest=Contest())
    lefts = {}
    for chosen in (events[:2] * 30, events * 15):
        forecast = Forecast(terms, 0, 1)
        for i, evaluation in enumerate(chosen[:40]):
            forecast.add("search", evaluation, float(i + 1))
        lefts[len(set(map(id, chosen)))] = forecast.left(40.0)
    assert lefts[4] > 1.5 * lefts[2]


def test_rates_are_recent():
    terms = replace(presets_for(1000)["quick"], budget=1000, contest=Contest())
    forecast = Forecast(terms, 0, 1)
    now = 0.0
    for seconds in [10.0] * 100 + [1.0] * 100:
        now += seconds
        evaluation = Evaluation("g", Status.OK, trained=1475, seconds=seconds, steps=100)
        forecast.add("search", evaluation, now)
    # 800 candidates are left, and the comparison: 5 rules with 10.75 + 4 full runs each.
    assert forecast.left(now) == pytest.approx(850, rel=0.2)


def test_a_replayed_session_counts_although_it_takes_no_time():
    terms = settings()
    live, replayed = Forecast(terms, OPPONENTS, 2), Forecast(terms, OPPONENTS, 2)
    events = Simulation(terms).events()
    half = events[: len(events) // 2]
    for time, phase, evaluation in half:
        live.add(phase, evaluation, time)
        replayed.add(phase, evaluation, 0.0)
    assert replayed.left(0.0) == pytest.approx(live.left(half[-1][0]), rel=0.25)


def test_time_that_passes_is_subtracted():
    forecast = Forecast(settings(), OPPONENTS, 1)
    evaluation = Evaluation("g", Status.OK, trained=475, seconds=1.0, steps=100)
    forecast.add("opponents", evaluation, 1.0)
    assert forecast.left(11.0) == pytest.approx(forecast.left(1.0) - 10)


def test_a_phase_that_is_over_takes_no_more_time():
    forecast = Forecast(settings(), OPPONENTS, 1)
    evaluation = Evaluation("g", Status.OK, trained=475, seconds=1.0, steps=100)
    forecast.add("opponents", evaluation, 1.0)
    before = forecast.left(1.0)
    forecast.skip("search")
    assert forecast.left(1.0) < before
    for phase in (
        "opponents",
        "refinement",
        "tuning",
        "report",
        "speed-up",
        "checks",
        "equal tuning",
    ):
        forecast.skip(phase)
    assert forecast.left(1.0) == 0


def test_a_search_ends_when_the_plan_says_so():
    forecast = Forecast(settings(), OPPONENTS, 2, search_until=300.0, start=1000.0, before=100.0)
    slow = Evaluation("g", Status.OK, trained=1475, seconds=500.0, steps=100)
    forecast.add("search", slow, 1150.0)
    before = forecast.left(1150.0)
    forecast.skip("search")
    assert before == pytest.approx(forecast.left(1150.0) + 50)


def test_full_runs_may_be_slower_than_those_of_a_proxy():
    lefts = []
    for ratio in (1.0, 5.0):
        forecast = Forecast(settings(), OPPONENTS, 1, ratio=ratio)
        evaluation = Evaluation("g", Status.OK, trained=475, seconds=1.0, steps=100)
        forecast.add("search", evaluation, 1.0)
        forecast.skip("search")
        lefts.append(forecast.left(1.0))
    assert lefts[1] == pytest.approx(5 * lefts[0])


def test_a_study_ends_with_its_time_because_parts_are_left_out():
    slow = Evaluation("g", Status.OK, trained=475, seconds=20.0, steps=100)
    free, limited = (
        Forecast(settings(), OPPONENTS, 2),
        Forecast(settings(), OPPONENTS, 2, until=360),
    )
    for forecast in (free, limited):
        forecast.add("search", slow, 60.0)
    assert free.left(60.0) > 600
    assert limited.left(60.0) == 300
    limited.add("tuning", replace(slow, seconds=400.0), 350.0)  # what is under way is finished
    assert limited.left(350.0) > 10
