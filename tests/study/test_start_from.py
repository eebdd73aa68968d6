"""Searches that start from known rules: the opponents, the zoo, the user's."""

from __future__ import annotations

from pathlib import Path

import pytest

import optsmith
from optsmith import OptsmithError, Rule, Study, StudyError, spaces, zoo
from optsmith.study import Observer
from optsmith.study._start_from import STUDY_RULES, StartReader, start_text, study_starts
from tasks_for_tests import bowl, line

SMALL = {"budget": 8, "workers": 0, "baselines": [], "proposals": 1}
SEARCHERS = ("mct", "random", "uct")


def search(place: Path, task=None, **changes) -> Study:
    return optsmith.search(task or bowl(), storage=place, progress=False, **{**SMALL, **changes})


def starts(study: Study) -> list[str]:
    return [r.rule for r in study.records if r.phase == "starting points"]


def facts(study: Study) -> list[object]:
    records = [(r.candidate, r.rule, r.score, r.lr) for r in study.records]
    return [records, study.summary["counts"], study.summary["searcher"], study.best().recipe]


def read(text, space="paper", storage=None, task="bowl"):
    reader = StartReader(spaces[space], task, storage)
    return [start_text(start) for start in reader.read(text)]


# --- warm starts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", SEARCHERS)
def test_opponents_are_the_first_candidates_then_the_zoo(tmp_path, algorithm):
    names = ["sgd+cosine", "nesterov+cosine", "adam+constant"]
    study = search(tmp_path, algorithm=algorithm, baselines=names, budget=16)
    # Nesterov has a number that is not in the paper's space.
    assert starts(study)[:3] == ["cd*g", "Adam", zoo["mnist1"].text]
    assert len(starts(study)) <= 4
    assert study.settings["warm_start"] is True
    assert study.best().recipe not in ("cd*g", "Adam")  # known rules are not proposed


@pytest.mark.parametrize("algorithm", SEARCHERS)
def test_without_a_warm_start_there_are_none(tmp_path, algorithm):
    study = search(tmp_path, algorithm=algorithm, warm_start=False)
    assert starts(study) == []
    assert study.settings["warm_start"] is False
    with pytest.raises(StudyError, match="was made with warm_start False, not True"):
        search(tmp_path, algorithm=algorithm, warm_start=True)


def test_the_preset_of_the_paper_has_none(tmp_path):
    study = search(tmp_path, preset="paper", budget=4)
    assert starts(study) == []
    assert study.settings["warm_start"] is False


class Stop(Exception):  # noqa: N818 - not an error
    pass


class StopAfter(Observer):
    """Ends a search after so many evaluations."""

    def __init__(self, evaluations: int) -> None:
        self.left = evaluations

    def told(self, candidate, outcome) -> None:
        self.left -= outcome.evaluated
        if self.left == 0:
            raise Stop


@pytest.mark.parametrize(
    "algorithm",
    [pytest.param(name, marks=[pytest.mark.slow] * (name != "mct")) for name in SEARCHERS],
)
def test_workers_and_interruptions_change_nothing(tmp_path, algorithm):
    given = {"algorithm": algorithm, "task": line(), "budget": 12, "start_from": "g + sm1"}
    whole = facts(search(tmp_path / "whole", **given))
    assert facts(search(tmp_path / "two", **given, workers=2)) == whole
    for evaluations in (1, 5, 9):
        with pytest.raises(Stop):
            search(tmp_path / "stopped", **given, observer=StopAfter(evaluations))
    assert facts(search(tmp_path / "stopped", **given)) == whole


@pytest.mark.parametrize("algorithm", SEARCHERS)
def test_a_larger_budget_continues_with_more_of_them(tmp_path, algorithm):
    few = search(tmp_path, algorithm=algorithm)
    more = search(tmp_path, algorithm=algorithm, budget=24)
    assert 0 < len(starts(few)) < len(starts(more))
    assert starts(more)[: len(starts(few))] == starts(few)
    assert facts(search(tmp_path / "at once", algorithm=algorithm, budget=24)) == facts(more)


# --- what the user gives --------------------------------------------------------------------------


def test_rules_of_the_user_come_first_and_are_recorded_as_rules(tmp_path):
    mine = ["signum", Rule.parse("g + sm1"), "torch:adam+cosine @ 0.003"]
    study = search(tmp_path, start_from=mine, baselines=["torch:sgd"], algorithm="random")
    assert starts(study) == ["sign(m1)", "g + sm1", "cd*Adam"]
    recorded = ["sign(m1)", "g + sm1", "cd*Adam @ 1.0"]
    assert study.settings["start_from"] == recorded
    again = search(tmp_path, start_from=recorded, baselines=["torch:sgd"], algorithm="random")
    assert facts(again) == facts(study)
    with pytest.raises(StudyError, match=r"was made with start_from sign\(m1\), .*, not g: use"):
        search(tmp_path, start_from="g", baselines=["torch:sgd"], algorithm="random")


def test_a_study_is_resumed_without_the_file_that_it_was_given(tmp_path):
    path = tmp_path / "rules.txt"
    path.write_text("# mine\ng + sm1\n\n  m1 @ 0.5\n")
    with pytest.raises(Stop):
        search(tmp_path, start_from=path, observer=StopAfter(3))
    path.unlink()
    study = search(tmp_path, start_from=path)
    assert study.finished
    assert study.settings["start_given"] == [str(path)]
    assert study.settings["start_from"] == ["g + sm1", "m1 @ 0.5"]


def test_a_study_gives_its_best_rules_and_their_learning_rates_on_the_same_task(tmp_path):
    first = search(tmp_path, study="first", budget=12)
    rules = study_starts(first, "bowl")
    assert 1 < len(rules) <= STUDY_RULES
    assert (str(rules[0].rule), rules[0].lr) == (first.best().recipe, first.best().lr)
    assert {start.lr for start in study_starts(first, "line")} == {None}
    texts = [start_text(start) for start in rules]
    journal = tmp_path / "first.journal"
    assert read("first", storage=tmp_path) == read(str(journal)) == read(str(tmp_path)) == texts
    second = search(tmp_path, study="second", start_from=first)
    assert second.settings["start_from"] == texts
    assert starts(second)[0] == first.best().recipe


def test_an_exported_rule_is_read_back_with_its_learning_rate(tmp_path):
    study = search(tmp_path, study="first")
    path = tmp_path / "mine.py"
    best = study.best()
    best.export(path)
    assert read(str(path)) == [f"{best.recipe} @ {best.lr!r}"]
    optsmith_rule = tmp_path / "plain.py"
    from optsmith.optim import export

    optsmith_rule.write_text(export(Rule.parse("g + sm1")))
    assert read(str(optsmith_rule)) == ["g + sm1"]


def test_the_zoo_gives_what_is_in_the_space():
    paper, modern = read("zoo"), read("zoo", "modern")
    assert "ld*sign(m1) - Adam" in paper
    assert str(zoo["lion"].rule) not in paper
    assert str(zoo["lion"].rule) in modern
    assert read("lion", "modern") == [str(zoo["lion"].rule)]
    assert read("nesterov+cosine", "modern") == ["cd*(g + 0.9*m1)"]


BAD = [
    ("nothing", '"nothing" is neither a rule, a study nor a file'),
    ("no/such/file.txt", '"no/such/file.txt" is neither a rule, a study nor a file'),
    ("missing.journal", "neither a rule, a study nor a file"),
    (" ", "give a rule, zoo, a study or a file to start from"),
    ("g +", "position"),
    ("g + m1 @ fast", 'the learning rate after @ must be a positive number, not "fast"'),
    ("g + m1 @ 0", "must be a positive number"),
    ("cd*(g + 0.9*m1)", "cannot start from cd*(g + 0.9*m1): 0.9 is not an operator of the space"),
    ("torch:nesterov", "cannot start from g + 0.9*m1: 0.9 is not an operator of the space paper"),
    ("torch:adafactor", "a search cannot start from torch:adafactor, which cannot be written as"),
    ("torch:adm", 'there is no baseline "torch:adm": "adm" is unknown; did you mean "adam"?'),
    ("sigmun", 'neither a rule, a study nor a file; did you mean "signum"?'),
]


@pytest.mark.parametrize(("text", "says"), BAD)
def test_what_cannot_be_started_from_is_one_sentence(tmp_path, monkeypatch, text, says):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptsmithError) as caught:
        search(tmp_path / "studies", start_from=text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_files_that_make_no_sense_are_one_sentence(tmp_path):
    for name, content, says in (
        ("empty.txt", b"\n# nothing\n", "empty.txt has no rules to start from"),
        ("wrong.txt", b"g\nm1 +\n", "wrong.txt, line 2: "),
        ("outside.txt", b"g\nw\n", "outside.txt, line 2: the search cannot start from w: w is not"),
        ("binary.txt", b"\xff\xfe\x00", "binary.txt cannot be read: it is not a text"),
        ("other.py", b"x = 1\n", "is no file that `optsmith export` has written for a rule"),
        ("broken.py", b"x = (\n", "is no file that `optsmith export` has written for a rule"),
        ("mine.journal", b"", "mine"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(OptsmithError) as caught:
            read(str(path))
        assert says in str(caught.value), name
    empty = tmp_path / "directory"
    empty.mkdir()
    with pytest.raises(OptsmithError, match="is no single study: there is none"):
        read(str(empty))
    with pytest.raises(OptsmithError, match="rules, studies and files, not from int"):
        search(tmp_path / "studies", start_from=[3])


# --- mixtures -------------------------------------------------------------------------------------


def test_mixtures_rank_rules_of_the_user_beside_the_opponents(tmp_path):
    given = {"algorithm": "mixture", "space": "modern", "budget": 16, "task": line()}
    study = search(tmp_path, **given, start_from="g + sm1")
    assert study.records[0].rule == "g + sm1"
    assert {r.rule for r in study.records[1:3]} == {
        "cd*(g + 0.9*mom(g))",
        "cd*(ema(g)/sqrt(|ema(g^2, 0.999)|))",
    }
    cold = search(tmp_path, **given, study="cold", warm_start=False)
    assert [r.phase for r in cold.records[:3]] == ["starting points"] * 2 + ["generation 1"]
