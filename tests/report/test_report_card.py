"""The claim card: what it says, and that it is valid Markdown whatever the names are."""

import copy
import re

import pytest
from fake_study import OPPONENT, WINNER, beaten, mixed, study

from optsmith.report._card import make_card
from optsmith.report._evidence import (
    change_text,
    evidence_text,
    first_sentence,
    interval_text,
    seeds_text,
    share_interval,
    share_text,
    standing,
    time_share,
)
from optsmith.report._markdown import markdown
from optsmith.report._parts import Verbatim


@pytest.fixture(scope="module")
def full():
    return study()


@pytest.fixture
def data(full):
    return copy.deepcopy(full)


def card(data):
    return markdown(make_card(data)).replace("\N{MINUS SIGN}", "-")


def test_the_claim_with_interval_and_seeds_is_in_the_first_lines(full):
    lines = card(full).splitlines()
    assert lines[0] == f"### `{WINNER}` on MNISTNET"
    assert lines[2].startswith("**m1 + RMSprop\\*exp(Adam) beats torch:nesterov+linear")
    assert "95 % interval" in lines[2]
    assert "16 seeds" in lines[2]


def test_everything_that_a_reviewer_asks_for_is_on_it(full):
    text = card(full)
    for words in (
        "change of mean training loss: -2.0 % (95 % interval -2.8 to -1.2 %, 16 seeds, p = 0.0031)",
        "training for the same result: 71 % of its steps (95 % interval 64 to 79 %, 8 seeds), 77 %",
        "against an equally tuned opponent: not measured",
        "21 combinations of optimizer and schedule; 3 left the race (2 after 5.0 %, 1 after 20 %",
        "learning rates: 9 per compared opponent",
        "training steps of the race: 143,000",
        "chosen on: 4 seeds (1000000, 1999999, 2000001 to 2000002)",
        "reported on: 16 seeds (1000001 to 1000016)",
        "| total | 1,167,000 | 1,167 |",
        "| half the learning rate | the rule | +3.1 % |",
        "| `cd` | +8.3 % |",
        "| `drop` | 0.0 % |",
        "other horizons than this one and twice the steps",
        "betas and weight decay: at defaults",
        "torch 2.13.0+cpu",
        "make_optimizer(model, lr=0.1, total_steps=total_steps)",
        full["command"],
    ):
        assert words in text


def test_every_opponent_has_a_row_and_other_rules_have_none(full):
    rows = re.findall(r"^\| `(.*?)` \|", card(full), re.M)
    opponents = [row["label"] for row in full["final"]["rows"] if row["kind"] != "rule"]
    table = rows[: len(opponents) + 1]
    assert sorted(table) == sorted([WINNER, *opponents])
    assert f"| `{OPPONENT}` | 0.2394 | reference |" in card(full)


def test_the_row_equally_tuned_is_never_mixed_with_the_other(data):
    data["claim"] |= {
        "equally_tuned": data["claim"]["paired"] | {"change": -0.011},
        "equally_tuned_opponent": "torch:adamw+cosine",
    }
    text = card(data)
    assert "against an equally tuned opponent: `torch:adamw+cosine`: -1.1 %" in text
    assert "weight decay: at defaults" not in text


def test_a_recommended_opponent_and_a_known_rule_are_named():
    assert f"recommended instead: `{OPPONENT}`, learning rate 0.3" in card(beaten())
    assert "as found: `m1 + RMSprop*exp(Adam)`" in card(beaten())
    assert "known as: torch:nesterov, tuned" in card(mixed())
    assert "recommended instead" not in card(mixed())


def test_a_study_without_a_claim_has_a_card_that_says_so(data):
    data |= {"claim": None, "verdict": "", "finished": False, "final": None, "raced": []}
    text = card(data)
    assert "**No claim: the search is not finished.**" in text
    assert "Evidence" not in text
    assert "make_optimizer" in text


def test_names_do_not_become_markup(data):
    evil = "a|b `c` *d* <img>"
    data["title"] = data["task"]["name"] = evil
    data["final"]["rows"][3]["label"] = evil
    text = card(data)
    assert "a\\|b \\`c\\` \\*d\\* \\<img\\>" in text
    row = next(line for line in text.splitlines() if line.startswith("| ``"))
    assert row.startswith("| `` a\\|b `c` *d* <img> `` |")
    assert "<img>" not in text.replace("`` a\\|b `c` *d* <img> ``", "")


def test_code_is_told_apart_from_text(full):
    assert isinstance(make_card(full).title[0], Verbatim)


def paired(change, low=None, high=None, **others):
    return {"change": change, "low": low, "high": high, "seeds": 8, "p": None, **others}


@pytest.mark.parametrize(
    ("found", "change", "interval"),
    [
        (paired(-0.0203, -0.0282, -0.0124), "-2.0 %", "-2.8 to -1.2 %"),
        (paired(0.351, 0.161, 0.573), "+35 %", "+16 to +57 %"),
        (paired(0.0041, 0.0002, 0.0079), "+0.41 %", "+0.02 to +0.79 %"),
        (paired(4.989, 4.945, 5.034), "+499 %", "+494 to +503 %"),
        (paired(11.0, 10.0, 12.0), "> 1,000 %", ""),
        (paired(-0.03), "-3.0 %", ""),
        (paired(None), "–", ""),  # noqa: RUF001 - an en dash
        (None, "–", ""),  # noqa: RUF001 - an en dash
        (paired(0.0, 0.0, 0.0), "0.0 %", "0.0 to 0.0 %"),
    ],
)
def test_changes_have_the_digits_that_their_intervals_support(found, change, interval):
    assert change_text(found).replace("\N{MINUS SIGN}", "-") == change
    assert interval_text(found).replace("\N{MINUS SIGN}", "-") == interval


def test_evidence_counts_seeds_and_diverged_runs():
    assert evidence_text(paired(0.1, seeds=1)) == "1 seed"
    found = paired(0.1, p=0.00001, diverged=2, other_diverged=0)
    assert evidence_text(found) == "8 seeds, it diverged on 2, p < 0.0001"


def test_bounds_of_a_speed_up():
    found = {"share": 0.3, "low": 0.0, "high": 0.4, "seeds": 8}
    assert share_text({**found, "bound": "below"}) == "less than 30 %"
    assert share_interval({**found, "bound": "below"}) == ""
    assert share_text({**found, "share": 1.0, "bound": "above"}) == "more than 100 %"
    assert time_share({"speed_up": {**found, "bound": "above"}, "step_ratio": 1.1}) == ""
    assert time_share({"speed_up": {**found, "bound": ""}, "step_ratio": 2.0}) == "60 %"
    assert time_share({"speed_up": None, "step_ratio": 2.0}) == ""


def test_standing():
    claim = {"paired": {"better": True}}
    assert standing(claim) == "better"
    assert standing({"paired": {"better": False}}) == "worse"
    assert standing({"paired": {"better": None}}) == "open"
    assert standing(claim | {"contradicted": True}) == "mixed"


def test_sentences_and_seeds():
    assert first_sentence("a beats b by 2.5 %. It does.") == ("a beats b by 2.5 %.", "It does.")
    assert first_sentence("a beats b.") == ("a beats b.", "")
    assert first_sentence("") == ("", "")
    assert seeds_text([7, 12, 10, 11]) == "4 seeds (7, 10 to 12)"
    assert seeds_text([3]) == "1 seed (3)"
