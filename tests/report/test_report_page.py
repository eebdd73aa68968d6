"""The page's structure: what is on it, what is not, and that data stays data."""

import copy
import json
import re
import shlex
from html.parser import HTMLParser

import pytest
from fake_study import OPPONENT, WINNER, beaten, mixed, study
from torch import nn

from optsmith import RuleOptimizer
from optsmith.report import render
from optsmith.report._html import code, markup, tag
from optsmith.report._usage import RULE, _filled, shell

VOID = {"br", "link", "meta", "wbr"}
SECTIONS = [
    "winner", "final", "checks", "curves", "history", "front", "tree", "screened", "card", "repeat",
]  # fmt: skip
EVIL = "\"><script>hacked=1</script><img src=x onerror='hacked=1'>&amp;'"


class Page(HTMLParser):
    """Checks that every element is closed in its turn, and remembers what there is."""

    def __init__(self, html):
        super().__init__()
        self.open, self.elements, self.texts = [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, name, attributes):
        names = [attribute for attribute, _ in attributes]
        assert len(set(names)) == len(names)
        self.elements.append((name, dict(attributes)))
        if name not in VOID:
            self.open.append(name)

    def handle_startendtag(self, name, attributes):
        self.elements.append((name, dict(attributes)))

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", "".join(self.texts))

    def having(self, word):
        return [a for _, a in self.elements if word in (a.get("class") or "").split()]

    def named(self, name):
        return [a for n, a in self.elements if n == name]

    @property
    def sections(self):
        return [attributes["id"] for attributes in self.named("section")]


@pytest.fixture(scope="module")
def full():
    return study()


@pytest.fixture
def data(full):
    return copy.deepcopy(full)


def everywhere(value, change):
    """Return data with `change` applied to every leaf."""
    if isinstance(value, dict):
        return {key: everywhere(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [everywhere(item, change) for item in value]
    return change(value)


def test_a_finished_search_has_every_section(full):
    html = render(full)
    page = Page(html)
    assert page.sections == SECTIONS
    assert [a["href"] for a in page.named("a")[1:]] == [f"#{name}" for name in SECTIONS]
    assert len(html.encode()) < 300_000
    for words in ("MNISTNET", full["command"], full["warnings"][0], "5 min 12 s"):
        assert words in page.text
    assert f'optsmith export -o my_optimizer.py "{WINNER}"' in page.text


def test_the_verdict_is_above_everything_else_with_its_first_sentence_apart(full):
    html = render(full)
    first, rest = full["verdict"].split(". ")
    assert f'<p class="first">{first}.</p><p>{rest}</p>' in html
    assert html.index(first) < html.index("<math")
    assert "Better than the best opponent" in html


def test_a_held_out_metric_that_disagrees_is_visible_at_the_top():
    html = render(mixed())
    assert html.index("Objective and held-out metric disagree") < html.index("<math")
    assert "Better than the best opponent" not in html


def test_an_open_and_a_lost_comparison_are_called_so(data):
    data["claim"]["paired"]["better"] = None
    assert "Not decided" in render(data)
    data["claim"]["paired"]["better"] = False
    assert "The best opponent is better" in render(data)


def test_the_evidence_has_interval_seeds_and_speed_up(full):
    text = Page(render(full)).text.replace("\N{MINUS SIGN}", "-")
    assert "-2.0 %95 % interval -2.8 to -1.2 %, 16 seeds, p = 0.0031" in text
    assert "71 % (64 to 79 %)" in text
    assert "time for the same result77 %" in text
    assert "half the learning rate" in text


def test_an_opponent_is_recommended_when_it_is_better():
    page = Page(render(beaten()))
    assert "Recommended: a tuned opponent" in page.text
    assert f'optsmith export -o my_optimizer.py "{OPPONENT}"' in page.text
    assert "make_optimizer(model, lr=0.3, total_steps=total_steps)" in page.text
    assert "RuleOptimizer" not in page.text
    assert "The best rule of the search" in page.text
    assert "more than 100 %" in page.text  # it does not reach the opponent


def test_the_code_for_a_rule_that_depends_on_roles_makes_an_optimizer():
    recipe = {"recipe": "cd*(hidden(0.2, 1)*(g + m1))", "lr": 0.1}
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    names = {"model": model, "total_steps": 10}
    exec(_filled(RULE, recipe), names)  # noqa: S102 - code that the page shows
    assert isinstance(names["optimizer"], RuleOptimizer)


def test_what_is_known_has_a_badge(full):
    assert "known: torch:nesterov, tuned" in Page(render(mixed())).text
    assert not Page(render(full)).having("badge")


def test_a_study_without_a_claim_has_neither_evidence_nor_card(data):
    data |= {"claim": None, "raced": []}
    page = Page(render(data))
    assert page.sections == [s for s in SECTIONS if s not in ("checks", "card")]
    assert "The rule it found" in page.text
    assert "95 % interval" in page.text  # of the table
    assert not page.having("label")


def test_a_task_says_how_its_rules_are_used(data):
    data["task"] |= {"applied": "Each step adds.", "usage": "use({rule}, lr={lr})"}
    text = Page(render(data)).text
    assert "Each step adds." in text
    assert f'use("{WINNER}", lr=' in text
    assert "my_optimizer.py" not in text


def test_ids_are_unique_and_what_points_to_them_finds_them(full):
    page = Page(render(full))
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(set(ids)) == len(ids)
    for _, attributes in page.elements:
        for name in ("aria-labelledby", "aria-controls"):
            assert set((attributes.get(name) or "").split()) <= set(ids)


def test_nothing_is_fetched(full):
    html = render(full)
    addresses = set(re.findall(r"(?:https?:)?//[\w.]+", html.replace("\n", " ")))
    # Names of XML dialects, which nobody opens.
    assert addresses <= {"http://www.w3.org"}
    for _, attributes in Page(html).elements:
        for name in ("src", "href"):
            address = attributes.get(name) or "#"
            assert address.startswith(("#", "data:"))
    assert "@import" not in html
    assert "url(" not in html


def test_every_chart_has_a_name_and_a_description(full):
    page = Page(render(full))
    pictures = [a for a in page.named("svg") if a.get("role") == "img"]
    assert len(pictures) == 4
    for name in ("history", "front", "curves"):
        assert {"aria-labelledby": f"{name}-chart-name {name}-chart-text"}.items() <= next(
            a.items() for a in pictures if name in a["aria-labelledby"]
        )
    others = [a for a in page.named("svg") if a.get("role") != "img"]
    assert all(a.get("aria-hidden") or a.get("class") == "stretched" for a in others)


def test_an_unfinished_search_says_so(data):
    data |= {"finished": False, "final": None, "verdict": "", "warnings": [], "claim": None}
    data["tree"][-1]["chosen"] = None
    page = Page(render(data))
    assert page.sections == [s for s in SECTIONS if s not in ("final", "checks", "curves", "card")]
    assert "Unfinished search" in page.text
    assert "The best rule so far" in page.text
    assert not page.having("verdict")


def test_a_search_without_an_accepted_rule(data):
    for entry in data["history"]:
        entry |= {"status": "early_stopped", "score": None, "lr": None}
    data |= {"winner": None, "final": {"steps": 1, "seeds": 1, "rows": []}, "tree": []}
    data |= {"claim": None, "recommended": None}
    page = Page(render(data))
    assert page.sections == ["winner", "history", "screened", "repeat"]
    assert "No rule was accepted" in page.text
    assert f"none accepted: {len(data['history'])} stopped early" in page.text
    assert "No rule has been accepted yet" in Page(render(data | {"finished": False})).text


def test_next_to_nothing_makes_a_page():
    nothing = {"winner": None, "final": None, "history": [], "tree": [], "counts": {}}
    assert Page(render({"title": "Empty", "task": {}, **nothing})).sections == ["winner"]


@pytest.mark.parametrize("many", [1, 2, 2000])
def test_any_number_of_evaluations(data, many):
    entry = data["history"][0] | {"status": "ok", "score": 0.7}
    data["history"] = [entry | {"n": n, "score": 0.5 + n % 7} for n in range(1, many + 1)]
    page = Page(render(data))
    assert len(page.having("dot")) == 2 * many + 1  # both charts, and one key in a legend


def test_numbers_may_be_missing(data):
    keep = {"n", "level"}

    def blank(value, key=""):
        if isinstance(value, dict):
            return {k: blank(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [blank(v, key) for v in value]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return None if number and key not in keep else value

    page = Page(render(blank(data)))
    assert "None" not in page.text
    assert "nan" not in page.text.split()
    assert page.sections[0] == "winner"


def test_not_a_number_is_not_shown(data):
    data["final"]["rows"][0] |= {"spread": float("nan"), "ms_per_step": float("inf")}
    data["history"][5]["score"] = float("nan")
    data["final"]["rows"][1]["curve"][3][1] = float("nan")
    html = render(data)
    assert not re.search(r"\b(nan|inf)\b", re.sub(r"<script>.*?</script>", "", html, flags=re.S))


def test_whatever_data_says_stays_text(data):
    fixed = {"status", "kind", "direction", "bound"}

    def poison(value, key=""):
        if isinstance(value, dict):
            named = key in ("settings", "versions", "metrics", "refused")
            return {k + EVIL if named else k: poison(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [poison(v, key) for v in value]
        return value + EVIL if isinstance(value, str) and key not in fixed else value

    poisoned = poison(data)
    poisoned["final"]["rows"][0]["error"] = EVIL
    page = Page(render(poisoned))
    assert page.named("img") == []
    assert [a.get("type") for a in page.named("script")] == [*["application/json"] * 2, None]
    assert not any(name.startswith("on") for _, a in page.elements for name in a)
    assert page.text.count("<script>hacked=1</script>") > 300


def test_the_curves_data_cannot_end_its_block(data):
    data["final"]["rows"][0]["label"] = data["winner"]["rule"] = "</script><b>"
    html = render(data)
    blocks = re.findall(r'<script type="application/json">(.*?)</script>', html, re.S)
    assert json.loads(blocks[-1])[0]["name"] == "</script><b>"


@pytest.mark.parametrize("text", ["m1 + g", 'a"b', "a'b", "$(x)", "`x`", "a\\b", "!x", "'\"$"])
def test_the_export_command_is_safe_to_paste(text):
    assert shlex.split(shell(text)) == [text]
    assert shell("m1 + g") == '"m1 + g"'


def test_a_rule_of_unknown_operators_is_shown_as_text(data):
    data["winner"] |= {"rule": "warp(g)"}
    page = Page(render(data))
    assert page.named("math") == []
    assert page.having("plain-formula")


def test_the_simplified_rule_is_shown_and_the_raw_one_is_folded(data):
    assert "as the search found it" not in Page(render(data)).text
    data["winner"]["simplified"] = "m1 + RMSprop"
    html = render(data)
    assert html.index("m1 + RMSprop</code>") < html.index("as the search found it")
    assert len(Page(html).named("math")) == 2
    data["winner"]["simplified"] = data["winner"]["rule"]
    assert len(Page(render(data)).named("math")) == 1


def test_symbols_of_the_formula_are_explained(data):
    text = "ld*sign(g2) + m1"
    data["winner"] |= {"rule": text}
    words = Page(render(data)).text
    assert "linear decay over the run" in words
    assert "the gradient squared" in words
    assert "the step that Adam would take" not in words


def test_markup_escapes_text_and_keeps_markup():
    assert tag("p", "<b>", tag("i", "&"), None, class_='"') == (
        '<p class="&#34;">&lt;b&gt;<i>&amp;</i></p>'
    )
    assert tag("circle", r=1 / 3, hidden=True, id=None) == '<circle r="0.333333" hidden/>'
    assert markup(["a", ["<"]]) == "a&lt;"
    assert code("a*b") == "<code>a*<wbr>b</code>"
