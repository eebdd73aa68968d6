"""One recipe on one task: the grid, the score, and everything that can go wrong."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from optsmith import Objective, Protocol, Rule, Status, Task
from optsmith.evaluation import Evaluation, evaluate_recipe, mean_and_spread
from optsmith.optim import build, classic, parse_recipe
from optsmith.training._stopping import Stopping
from tasks_for_tests import PROTOCOL, bowl, line

SEARCH = PROTOCOL.search_stage
G = Rule.parse("g")


def loop_of(signal):
    """Return a task whose signal is a function of (lr, seed, step, steps)."""

    def loop(run):
        run.optimizer([torch.ones(1, requires_grad=True)])
        for step in range(1, run.steps + 1):
            yield signal(run, step)

    return Task.from_function(loop, protocol=PROTOCOL)


def test_the_best_learning_rate_of_the_grid_is_scored_on_other_seeds():
    asked = []

    def signal(run, step):
        asked.append((run.lr, run.seed, run.steps))
        return abs(math.log10(run.lr) + 1) + run.seed

    record = evaluate_recipe(loop_of(signal), G, SEARCH)
    assert record.status is Status.OK
    assert record.lr == 0.1
    assert not record.at_edge
    assert [(p.lr, p.score) for p in record.grid] == [(0.01, 1.0), (0.1, 0.0), (1.0, 1.0)]
    assert record.seeds == (1, 2)
    assert record.scores == (1.0, 2.0)
    assert record.score == 1.5
    assert record.trained == 3 * 10 + 2 * 12
    assert record.spread == pytest.approx(math.sqrt(0.5))
    assert set(asked) == {
        (0.01, 0, 10), (0.1, 0, 10), (1.0, 0, 10), (0.1, 1, 12), (0.1, 2, 12),
    }  # fmt: skip


def test_the_learning_rate_of_the_end_is_not_chosen_on_what_is_held_out():
    """On the test data the largest learning rate looks best, on the validation data the least."""
    asked = []

    def signal(run, step):
        asked.append((run.steps, run.final))
        return run.lr if not run.final else 1 / run.lr

    record = evaluate_recipe(loop_of(signal), G, PROTOCOL.replace(tune_steps=15).final_stage)
    assert record.lr == 0.01
    assert set(asked) >= {(15, False), (20, True)}
    assert (15, True) not in asked


@pytest.mark.parametrize(("best", "at_edge"), [(0.01, True), (0.1, False), (1.0, True)])
def test_a_best_learning_rate_at_the_edge_is_flagged(best, at_edge):
    task = loop_of(lambda run, step: abs(math.log10(run.lr / best)))
    assert evaluate_recipe(task, G, SEARCH).at_edge is at_edge


@pytest.mark.parametrize(("best", "grid"), [(1e-4, 6), (1e4, 8), (0.1, 3), (1e30, 11)])
def test_an_extended_grid_follows_the_edge_outwards(best, grid):
    task = loop_of(lambda run, step: 1 + abs(math.log10(run.lr / best)) / 10)
    record = evaluate_recipe(task, G, PROTOCOL.replace(extend_grid=True).search_stage)
    lrs = [p.lr for p in record.grid]
    assert lrs == sorted(lrs)
    assert len(lrs) == grid
    if best < 1e30:
        assert record.lr == pytest.approx(best)
        assert not record.at_edge


def test_statuses():
    def status(signal, **changes):
        return evaluate_recipe(loop_of(signal), G, replace(SEARCH, **changes)).status

    assert status(lambda run, step: 1.0) is Status.OK
    assert status(lambda run, step: 11.0) is Status.EARLY_STOPPED  # all of the grid is worse
    assert status(lambda run, step: 11.0, threshold=None) is Status.OK
    assert status(lambda run, step: 1.0 + 10 * run.seed) is Status.REJECTED
    assert status(lambda run, step: math.nan) is Status.DIVERGED
    assert status(lambda run, step: math.inf if run.seed == 2 else 1.0) is Status.DIVERGED
    assert status(lambda run, step: 1 / 0) is Status.FAILED
    assert status(lambda run, step: 1 + step / 99, tune_steps=99) is Status.EARLY_STOPPED


def test_what_a_candidate_raises_is_recorded_with_its_traceback():
    def signal(run, step):
        raise ValueError("bad\nmore")

    record = evaluate_recipe(loop_of(signal), G, SEARCH)
    assert (record.status, record.error) == (Status.FAILED, "ValueError: bad more")
    first, *_, last = record.traceback.splitlines()
    assert (first, last) == ("Traceback (most recent call last):", "more")
    assert 'raise ValueError("bad\\nmore")' in record.traceback
    assert "optsmith/evaluation" not in record.traceback
    assert Evaluation.from_json(record.to_json()).traceback == record.traceback


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("no room"),
        torch.OutOfMemoryError("none left"),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
        OSError(12, "Cannot allocate memory"),
    ],
)
def test_a_lack_of_memory_is_not_the_rule_s(error):
    def signal(run, step):
        raise error

    record = evaluate_recipe(loop_of(signal), G, SEARCH)
    assert (record.status, record.score, record.traceback) == (Status.LOST, None, "")
    assert record.error.startswith(type(error).__name__)


def test_an_interrupt_is_not_a_failure_of_the_candidate():
    def signal(run, step):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate_recipe(loop_of(signal), G, SEARCH)


def test_one_learning_rate_that_diverges_does_not_spoil_the_others():
    record = evaluate_recipe(
        loop_of(lambda run, step: math.nan if run.lr == 1.0 and step > 3 else run.lr), G, SEARCH
    )
    assert record.lr == 0.01
    assert [p.stopped for p in record.grid] == ["", "", "the signal is not finite"]


# --- early stops ----------------------------------------------------------------------------------

LOSS, ACCURACY = Objective(), Objective("accuracy", "maximize", "last")


def why(values, steps, objective=LOSS, threshold=0.2):
    signal = [(i, v) for i, v in enumerate(values, start=1)]
    return Stopping(objective, early=True, threshold=threshold).why(signal, steps)


def test_a_loss_that_keeps_rising_is_stopped_after_a_fifth_of_the_run():
    rising = [1 + 0.1 * i for i in range(100)]
    assert why(rising[:19], 100) == ""
    assert why(rising[:20], 100) == "the loss keeps rising"
    assert why(rising[:20], 1000) == ""
    assert why(rising[::-1][:20], 100) == ""


def test_a_loss_that_rises_in_three_quarters_of_the_steps_is_not_stopped():
    # Averages over 4 steps of a step function: each jump makes the average rise for 4 steps.
    def after(jump_at):
        return [float(sum(step >= at for at in jump_at)) for step in range(1, 21)]

    # Of the steps 6 … 20, rises at 6-9, 10-13 and 14-16: eleven of fifteen, no more than 75 %.
    assert why(after([6, 10, 14])[:16] + [1.0] * 4, 100) == ""
    assert why(after([6, 10, 14, 18]), 100) != ""  # fifteen of fifteen


def test_an_accuracy_must_reach_the_threshold_in_a_tenth_of_the_run():
    assert why([0.1] * 9, 100, ACCURACY) == ""
    assert why([0.1] * 10, 100, ACCURACY) == "not above 0.2 after 10% of the run"
    assert why([0.1, 0.3, 0.1] * 10, 100, ACCURACY) == ""


def test_without_early_stop_only_what_is_not_finite_is_stopped():
    stopping = Stopping(LOSS)
    assert stopping.why([(i, float(i)) for i in range(1, 101)], 100) == ""
    assert stopping.why([(1, math.inf)], 100) == "the signal is not finite"


# --- records --------------------------------------------------------------------------------------


def test_records_survive_json():
    import json

    for recipe in ("m1", "torch:adam+cosine"):
        for task in (bowl(), line()):
            record = evaluate_recipe(task, parse_recipe(recipe), PROTOCOL.final_stage)
            assert record.metrics
            again = Evaluation.from_json(json.loads(json.dumps(record.to_json())))
            assert again == record
    failed = Evaluation("g", Status.DIVERGED, scores=(math.nan, 1.0))
    assert math.isnan(Evaluation.from_json(failed.to_json()).scores[0])


def test_a_curve_ends_at_the_last_step_and_is_thinned():
    protocol = Protocol(lrs=(0.1,), proxy_steps=2, steps=1234, final_steps=1, score_seeds=2)
    record = evaluate_recipe(
        loop_of(lambda run, step: float(step + run.seed)), G, protocol.replace(
            threshold=None).search_stage
    )  # fmt: skip
    assert len(record.curve) == 100
    assert record.curve[-1] == (1234, 1234 + 1.5)
    short = evaluate_recipe(bowl(), G, SEARCH)
    assert [step for step, _ in short.curve] == list(range(1, 13))


def test_an_evaluation_builds_its_optimizer():
    record = evaluate_recipe(bowl(), Rule.parse("ld*m1"), SEARCH)
    w = torch.ones(2, requires_grad=True)
    optimizer = record.optimizer([w], total_steps=5, weight_decay=0.1)
    assert optimizer.rule == record.rule
    assert optimizer.param_groups[0]["lr"] == record.lr
    assert optimizer.param_groups[0]["weight_decay"] == 0.1
    assert record.optimizer([w], total_steps=5, lr=7.0).param_groups[0]["lr"] == 7.0


def test_state_is_counted_in_bytes_a_parameter():
    stage = PROTOCOL.final_stage
    sizes = {"g": 0, "m1": 4, "mnist1": 16, "torch:adam": 8, "torch:sgd": 0, "torch:momentum": 4}
    for recipe, size in sizes.items():
        assert evaluate_recipe(bowl(), parse_recipe(recipe), stage).state_bytes == size


def test_evaluations_leave_the_random_state_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    evaluate_recipe(bowl(), G, SEARCH)
    assert torch.equal(before, torch.get_rng_state())


# --- baselines ------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
@pytest.mark.parametrize(("name", "rule"), [("torch:sgd", "g"), ("pgd", "sign(g)")])
def test_schedules_are_the_decays_of_our_rules(name, rule, schedule):
    """SGD with a schedule is the rule g, ld*g or cd*g, step by step; PGD goes by the sign."""
    rule = {"constant": "", "linear": "ld*", "cosine": "cd*"}[schedule] + rule
    walks = []
    for recipe in (
        parse_recipe(rule),
        parse_recipe(f"{name}+{schedule}".removesuffix("+constant")),
    ):
        w = torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True)
        optimizer = build(recipe, [w], 0.3, total_steps=8)
        for _ in range(8):
            optimizer.zero_grad()
            (w**2).sum().backward()
            optimizer.step()
        walks.append(w.detach().clone())
    torch.testing.assert_close(*walks, rtol=1e-12, atol=0)


def test_there_are_six_optimizers_with_three_schedules():
    assert len(classic) == 18
    assert str(parse_recipe("pgd+cosine")) == "pgd+cosine"
    for name, baseline in classic.items():
        assert str(baseline) == name
        assert parse_recipe(name) == baseline


def test_huge_scores_have_a_spread():
    assert mean_and_spread([1e200, 3e200])[1] == pytest.approx(math.sqrt(2) * 1e200)
