# ruff: noqa: RUF001 - en dashes in intervals
"""The sentences of a claim."""

import math
from dataclasses import asdict, replace

import pytest

from optsmith._stored import read
from optsmith.evaluation import Claim, Paired, SpeedUp
from optsmith.task import Metric, Objective

LOSS = Objective("training loss")
RATE = Objective("success rate", "maximize", "last", "%")
ACCURACY, TEST_LOSS = Metric("test accuracy", unit="%"), Metric("test loss", direction="minimize")
METRICS = {m.name: m for m in (ACCURACY, TEST_LOSS)}
OPPONENT = "torch:adamw+cosine"

BETTER = Paired(-0.031, -0.042, -0.020, 0.001, 16)
WORSE = Paired(0.031, 0.020, 0.042, 0.001, 16)
SAME = Paired(-0.002, -0.013, 0.009, 0.7, 16)
LOWER = Paired(-0.0102, -0.014, -0.006, 0.001, 16)  # as an accuracy: worse
HIGHER = Paired(0.0102, 0.006, 0.014, 0.001, 16)


def claim(paired=BETTER, **fields):
    given = {"rule_score": 0.4845, "opponent_score": 0.5, "recommended": "m1", **fields}
    return Claim(rule="m1", lr=0.01, opponent=OPPONENT, opponent_lr=0.003, paired=paired, **given)


def said(found, objective=LOSS):
    return found.verdict(objective, METRICS)


def test_a_rule_that_is_better():
    assert said(claim()) == (
        "m1 beats torch:adamw+cosine in training loss by 3.1 % (95 %: 2.0–4.2 %, 16 seeds)."
    )


def test_a_rule_that_is_worse_is_not_recommended():
    assert said(claim(WORSE, recommended=OPPONENT)) == (
        "m1 is worse than torch:adamw+cosine in training loss by 3.1 % (95 %: 2.0–4.2 %, 16 seeds)."
        " Recommended: torch:adamw+cosine with lr 0.003: no rule that was found is better."
    )
    without = replace(claim(WORSE, recommended=OPPONENT), opponent_lr=None)
    assert "Recommended: torch:adamw+cosine: no rule" in said(without)


def test_a_rule_that_is_neither():
    words = "m1 cannot be told apart from torch:adamw+cosine in training loss (±1.3 %, 16 seeds)."
    assert said(claim(SAME, stopped="seeds")) == words
    more = " The time is used up; more seeds may tell them apart."
    assert said(claim(SAME, stopped="time")) == words + more


@pytest.mark.parametrize(
    ("paired", "objective", "words"),
    [
        (Paired(0.05, 0.04, 0.06, 0.0, 8), RATE, "beats X in success rate by 4.0 points"
         " (95 %: 3.2–4.8 points, 8 seeds)"),
        (Paired(-0.05, -0.06, -0.04, 0.0, 8), RATE, "is worse than X in success rate by 4.0 points"
         " (95 %: 3.2–4.8 points, 8 seeds)"),
        (Paired(0.01, -0.02, 0.04, 0.4, 8), RATE, "told apart from X in success rate (±3.2 points"),
        (Paired(-0.5, -0.6, -0.4, 0.0, 8), LOSS, "beats X in training loss by 50 % (95 %: 40–60 %"),
        (Paired(-0.002, -0.003, -0.001, 0.0, 8), LOSS, "by 0.20 % (95 %: 0.10–0.30 %"),
        (Paired(99.0, 9.0, 999.0, 0.0, 8), LOSS, "is worse than X in training loss by more than"
         " 1000 % (8 seeds)"),
        (Paired(3.0, -0.9, 99.0, 0.4, 8), LOSS, "told apart from X in training loss (8 seeds)"),
    ],
)  # fmt: skip
def test_changes_read_naturally(paired, objective, words):
    found = claim(paired, opponent_score=0.8, rule_score=0.84)
    assert words in said(found, objective).replace(OPPONENT, "X")


# --- held-out metrics -----------------------------------------------------------------------------


def with_accuracy(paired, metric, rule, opponent):
    name = ACCURACY.name
    return claim(paired, metrics={name: metric}, metric_means={name: (rule, opponent)})


@pytest.mark.parametrize(
    ("paired", "metric", "means", "end"),
    [
        (BETTER, LOWER, (0.871, 0.88), ", but its test accuracy is worse: 87.1 % against 88.0 %."),
        (BETTER, HIGHER, (0.889, 0.88), ", and its test accuracy is better: 88.9 % against"
         " 88.0 %."),
        (BETTER, SAME, (0.8795, 0.88), "; in test accuracy they cannot be told apart:"
         " 87.95 % against 88.00 %."),
        (BETTER, Paired(-0.01, -0.022, 0.002, 0.1, 16), (0.871, 0.88), ", but its test accuracy is"
         " worse on average, though not significantly: 87.1 % against 88.0 %."),
        (WORSE, HIGHER, (0.889, 0.88), ", but its test accuracy is better: 88.9 % against 88.0 %."),
        (WORSE, LOWER, (0.871, 0.88), ", and its test accuracy is worse: 87.1 % against 88.0 %."),
        (SAME, LOWER, (0.871, 0.88), ", but its test accuracy is worse: 87.1 % against 88.0 %."),
        (SAME, SAME, (0.878, 0.88), ", nor in test accuracy: 87.8 % against 88.0 %."),
        (BETTER, LOWER, (math.nan, 0.88), ", but its test accuracy is worse."),
    ],
)  # fmt: skip
def test_the_first_sentence_speaks_of_the_held_out_metric(paired, metric, means, end):
    first = said(with_accuracy(paired, metric, *means))
    assert first == said(claim(paired)).removesuffix(".") + end


def test_every_metric_that_contradicts_the_score_is_named():
    means = {"test loss": (0.798, 0.546), "test accuracy": (0.889, 0.88)}
    found = claim(metrics={"test loss": WORSE, "test accuracy": HIGHER}, metric_means=means)
    assert said(found).endswith(", but its test loss is worse: 0.798 against 0.546.")
    both = replace(found, metrics={"test loss": WORSE, "test accuracy": LOWER})
    assert "its test loss is worse: 0.798 against 0.546 and its test accuracy is worse" in said(
        both
    )


def test_secondary_metrics_are_left_out_if_there_are_others():
    found = claim(metrics={"steps": HIGHER, "test loss": SAME})
    words = found.verdict(LOSS, {**METRICS, "steps": Metric("steps", secondary=True)})
    assert words.endswith("in test loss they cannot be told apart.")
    alone = claim(metrics={"steps": HIGHER}).verdict(
        LOSS, {"steps": Metric("steps", secondary=True)}
    )
    assert alone.endswith(", and its steps is better.")


@pytest.mark.parametrize(
    ("paired", "accuracy", "loss", "end"),
    [
        (BETTER, SAME, WORSE, "they cannot be told apart; its test loss is worse."),
        (BETTER, HIGHER, WORSE, ", and its test accuracy is better; its test loss is worse."),
        (BETTER, LOWER, WORSE, ", but its test accuracy is worse; its test loss is worse."),
        (SAME, SAME, WORSE, ", nor in test accuracy; its test loss is worse."),
        (BETTER, SAME, BETTER, "they cannot be told apart."),
        # Worse on average only: too little for a metric that is not the main one.
        (BETTER, SAME, Paired(0.01, -0.002, 0.022, 0.1, 16), "they cannot be told apart."),
    ],
)
def test_a_secondary_metric_is_named_if_it_contradicts_the_score(paired, accuracy, loss, end):
    metrics = {**METRICS, "test loss": replace(TEST_LOSS, secondary=True)}
    found = claim(paired, metrics={"test accuracy": accuracy, "test loss": loss})
    assert found.verdict(LOSS, metrics).endswith(end)
    main_says = "but" in end
    assert found.contradicted(LOSS, metrics) == (loss is WORSE or main_says)


def test_a_contradiction_is_known():
    found = with_accuracy(BETTER, LOWER, 0.871, 0.88)
    assert found.contradicted(LOSS, METRICS)
    assert not with_accuracy(BETTER, HIGHER, 0.889, 0.88).contradicted(LOSS, METRICS)


# --- few seeds, diverged runs ---------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [1, 2, 4])
def test_few_seeds_make_no_claim(seeds):
    paired = Paired(-0.5, -0.51, -0.49, 0.0, seeds)
    found = claim(paired, metrics={"test accuracy": paired}, metric_means={"test accuracy": (1, 0)})
    number = {1: "1 seed is", 2: "2 seeds are", 4: "4 seeds are"}[seeds]
    assert said(found) == (
        "m1 has training loss 0.4845 against 0.5 of torch:adamw+cosine, and test accuracy 100.0 %"
        f" against 0.0 %; {number} too few for a claim: 5 are needed."
    )
    unknown = replace(found, rule_score=math.nan)
    assert said(unknown).startswith("m1 cannot be compared with torch:adamw+cosine: ")


def test_runs_that_diverged_are_named():
    nan = math.nan
    better = claim(Paired(-0.1, nan, nan, 0.008, 8, 0, 3), rule_score=nan)
    assert said(better) == (
        "m1 beats torch:adamw+cosine in training loss by 10 % (8 seeds)."
        " torch:adamw+cosine diverged on 3 of 8 seeds."
    )
    always = claim(Paired(nan, nan, nan, 0.008, 8, 8, 0))
    assert said(always) == (
        "m1 is worse than torch:adamw+cosine in training loss (8 seeds)."
        " m1 diverged on 8 of 8 seeds."
    )
    undecided = claim(Paired(-0.1, nan, nan, 1.0, 8, 1, 0))
    assert said(undecided) == (
        "m1 cannot be told apart from torch:adamw+cosine in training loss (8 seeds)."
        " m1 diverged on 1 of 8 seeds."
    )


def test_without_an_opponent_nothing_is_claimed():
    assert said(replace(claim(), opponent="")) == "m1 was not compared with an opponent."


# --- speed-up, cost, names ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("speed_up", "ratio", "words"),
    [
        (SpeedUp(0.71, 0.64, 0.79, "", 16), 1.0, "in 71 % of its steps (95 %: 64–79 %)."),
        (SpeedUp(0.71, 0.64, 0.79, "", 16), 1.4, "in 71 % of its steps (95 %: 64–79 %). A step"
         " takes 1.4 times as long, so it needs 99 % of the time (95 %: 90–111 %)."),
        (SpeedUp(0.71, 0.64, 0.79, "", 16), math.nan, "in 71 % of its steps (95 %: 64–79 %)."),
        (SpeedUp(0.71, 0.64, 1.0, "", 16), None, "in 71 % of its steps (95 %: 64 % or more)."),
        (SpeedUp(0.35, 0.0, 0.4, "", 16), None, "in 35 % of its steps (95 %: at most 40 %)."),
        (SpeedUp(0.6, 0.0, 1.0, "", 16), None, "in 60 % of its steps."),
        (SpeedUp(0.3, 0.0, 0.3, "below", 16), None, "in at most 30 % of its steps (95 %: at most"
         " 30 %)."),
        (SpeedUp(0.3, math.nan, math.nan, "below", 1), None, "in at most 30 % of its steps."),
    ],
)  # fmt: skip
def test_the_speed_up_is_a_sentence(speed_up, ratio, words):
    found = claim(speed_up=speed_up, step_ratio=ratio)
    assert said(found) == (
        f"{said(claim())} It reaches the training loss of torch:adamw+cosine {words}"
    )


def test_a_speed_up_is_not_claimed_without_a_difference():
    found = SpeedUp(0.71, 0.64, 0.79, "", 8)
    assert "steps" not in said(claim(SAME, speed_up=found))
    assert "steps" not in said(claim(WORSE, speed_up=found))
    assert "steps" not in said(claim(BETTER, speed_up=SpeedUp(1.0, 1.0, 1.0, "above", 8)))


def test_expensive_steps_are_mentioned():
    words = " A step takes 1.4 times as long as with torch:adamw+cosine."
    assert said(claim(step_ratio=1.4)).endswith(words)
    assert "A step" not in said(claim(step_ratio=1.02))


def test_known_rules_have_their_name():
    assert said(claim(known="Lion")).endswith(" It is Lion under another name.")
    assert said(claim(known="Muon, tuned")).endswith(" It is Muon with other constants.")


def test_the_equally_tuned_opponent_has_its_own_sentence():
    found = claim(equally_tuned=SAME, equally_tuned_opponent="torch:adamw+cosine")
    assert said(found).endswith(
        " It cannot be told apart from torch:adamw+cosine, equally tuned, in training loss"
        " (±1.3 %, 16 seeds)."
    )


def test_a_claim_can_be_stored():
    found = claim(metrics={"test loss": WORSE}, metric_means={"test loss": (0.7, 0.5)})
    assert read(Claim, asdict(found), "the claim") == found
