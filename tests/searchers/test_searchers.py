"""The contract of searchers, their options, and their registry."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from optsmith import OptsmithError, Rule, spaces
from optsmith.searchers import (
    Candidate,
    Outcome,
    RandomSearch,
    Searcher,
    find_searcher,
    generator,
    option,
    option_fields,
    read_options,
    searchers,
)
from optsmith.testing import _searchers, check_searcher

G = Rule.parse("g")
PAPER = spaces["paper"]


@pytest.mark.parametrize("name", searchers)
def test_searchers_keep_their_contract(name):
    check_searcher(lambda budget, seed: searchers[name](PAPER, budget, seed))


@pytest.mark.parametrize("rungs", ["0.5,1", "0.1,0.3,1"])
def test_rungs_keep_it_too(rungs):
    options = RandomSearch.Options(rungs=rungs)
    check_searcher(lambda budget, seed: RandomSearch(PAPER, budget, seed, options=options))


# --- what the conformance suite notices -----------------------------------------------------------


class Plain(Searcher):
    """Draws as many candidates as its budget."""

    asked = 0

    def ask(self, n):
        first, self.asked = self.asked, min(self.asked + n, self.budget)
        return [self.draw(i) for i in range(first, self.asked)]

    def draw(self, i):
        return Candidate(str(i), PAPER.sample(generator(self.seed, 0, i)))

    def tell(self, candidate, outcome):
        pass


class SameIds(Plain):
    def draw(self, i):
        return replace(super().draw(i), id="x")


class DependsOnN(Plain):
    def ask(self, n):
        return [replace(c, rule=PAPER.sample(generator(n, 1, 1))) for c in super().ask(n)]


class DependsOnAhead(Plain):
    last = ""

    def draw(self, i):
        return Candidate(f"{i} {self.last}", super().draw(i).rule)

    def tell(self, candidate, outcome):
        self.last = outcome.kind


class TooMany(Plain):
    def ask(self, n):
        return super().ask(n + 1)


class Endless(Plain):
    def ask(self, n):
        self.budget += n
        return super().ask(n)


class SharedState(Plain):
    """Keeps state across searches, so that a replay differs."""

    seen = 0

    def ask(self, n):
        return super().ask(n) if SharedState.seen < 60 else []

    def tell(self, candidate, outcome):
        SharedState.seen += 1


class Wasteful(Plain):
    told = 0

    def tell(self, candidate, outcome):
        self.told += 1

    def obsolete(self, candidate):
        return self.told > 5 and int(candidate.id) % 3 == 0


class TwoRules(Plain):
    def draw(self, i):
        return Candidate(str(i // 2), super().draw(i).rule, fidelity=(0.5, 1.0)[i % 2])


class NotPlain(Plain):
    def summary(self):
        return {"best": float("nan")}


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (SameIds, "same id"),
        (DependsOnN, "at a time changes the candidates"),
        (DependsOnAhead, "at a time changes the candidates"),
        (TooMany, "more candidates than were asked for"),
        (Endless, "does not end"),
        (SharedState, "changes the candidates"),
        (Wasteful, "became obsolete"),
        (TwoRules, "two rules have the same id"),
    ],
)
def test_the_suite_notices(kind, says, monkeypatch):
    monkeypatch.setattr(_searchers, "MOST_CANDIDATES", 2000)
    with pytest.raises(AssertionError, match=says):
        check_searcher(lambda budget, seed: kind(PAPER, budget, seed))


def test_the_suite_accepts_the_simplest_searcher_and_wants_its_summary_plain():
    check_searcher(lambda budget, seed: Plain(PAPER, budget, seed))
    with pytest.raises(ValueError, match="JSON"):
        check_searcher(lambda budget, seed: NotPlain(PAPER, budget, seed))


# --- candidates and outcomes ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"fidelity": 0.0}, "fidelity must be above 0 and at most 1, not 0"),
        ({"fidelity": 1.5}, "at most 1, not 1.5"),
        ({"fidelity": float("nan")}, "at most 1, not nan"),
        ({"block": -1}, "block must be at least 0, not -1"),
        ({"lr": 0.0}, "positive and finite, not 0"),
        ({"lr": float("inf")}, "positive and finite, not inf"),
    ],
)
def test_a_candidate_that_cannot_be_evaluated_is_refused(changes, says):
    with pytest.raises(OptsmithError, match=says):
        Candidate("x", G, **changes)


def test_an_id_and_a_fidelity_are_its_key():
    assert Candidate("x", G, 0.5).key == ("x", 0.5)
    assert Outcome("failed").evaluated
    assert not Outcome("failed").accepted
    assert not Outcome("duplicate").evaluated


# --- options --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Options:
    count: int = option(3, "How many.")
    share: float = option(0.5, "Which share.")
    fast: bool = option(False, "Whether in haste.")
    label: str = option("x", "A name.")


def read(**given):
    return read_options("mine", Options, given)


def test_options_are_declared_with_type_default_and_help():
    found = {f.name: (f.kind, f.default, f.help) for f in option_fields(Options)}
    assert found["share"] == (float, 0.5, "Which share.")
    assert list(found) == ["count", "share", "fast", "label"]


def test_options_are_read_from_values_and_texts():
    assert read() == Options()
    assert read(count=4, share=1, fast=True, label="y") == Options(4, 1.0, True, "y")
    assert read(count="4", share="1e-1", fast="yes", label="7") == Options(4, 0.1, True, "7")
    assert read(fast="False") == Options()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"cuont": 1}, 'the search algorithm mine has no option "cuont"; did you mean "count"?'),
        ({"zzz": 1}, 'no option "zzz"; it has count, share, fast, label'),
        ({"count": 2.5}, 'the option "count" must be an integer, not 2.5'),
        ({"count": "2.5"}, "must be an integer, not '2.5'"),
        ({"count": True}, "must be an integer, not True"),
        ({"share": "half"}, 'the option "share" must be a number'),
        ({"fast": 1}, 'the option "fast" must be yes or no, not 1'),
        ({"fast": "maybe"}, "must be yes or no, not 'maybe'"),
        ({"label": 3}, 'the option "label" must be a string, not 3'),
    ],
)
def test_options_that_make_no_sense_are_one_sentence(given, says):
    with pytest.raises(OptsmithError) as caught:
        read(**given)
    assert says in str(caught.value)


def test_a_searcher_without_options_says_so():
    with pytest.raises(OptsmithError, match='Plain has no option "x"; it has none'):
        read_options("Plain", Plain.Options, {"x": 1})


def test_an_option_of_another_type_is_refused():
    @dataclass(frozen=True)
    class Odd:
        sizes: tuple = option((), "Many.")

    with pytest.raises(OptsmithError, match='"sizes" must be an int, float, bool or str'):
        option_fields(Odd)


# --- where they are found -------------------------------------------------------------------------

MINE = """
from optsmith.searchers import RandomSearch, Searcher

class Mine(RandomSearch):
    pass

number = 3
"""


def test_a_searcher_is_found_by_name_or_in_a_file(tmp_path, monkeypatch):
    assert find_searcher("random") is RandomSearch
    path = tmp_path / "mine_in_a_file.py"
    path.write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    for text in (f"{path}:Mine", "mine_in_a_file:Mine"):
        assert issubclass(find_searcher(text), RandomSearch)
    for text, says in (
        ("rndom", 'did you mean "random"?; a searcher of your own is written file.py:Class'),
        (f"{path}:number", 'has no searcher named "number"; it has Mine'),
        (f"{path}:Searcher", "has no searcher named"),
        ("nothing.py:Mine", "there is no file nothing.py"),
        ("no_such_module:Mine", "cannot be imported: ModuleNotFoundError"),
    ):
        with pytest.raises(OptsmithError) as caught:
            find_searcher(text)
        assert says in str(caught.value)
