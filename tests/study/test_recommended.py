"""What a study recommends: a rule or an opponent, as an optimizer and as a file."""

from __future__ import annotations

import io
import sys
from dataclasses import replace

import pytest
import torch
from rich.console import Console

import optsmith
from invented_studies import invent
from optsmith import RuleOptimizer, Study, StudyError
from optsmith.cli import main
from optsmith.cli._result import print_study, study_json
from optsmith.evaluation import Claim, compare_paired
from optsmith.report import card, report_data
from optsmith.report._page import render
from optsmith.screening import state_bytes_of, step_cost_of
from optsmith.storage import Store
from optsmith.study import Finding
from tasks_for_tests import PROTOCOL, bowl

STEPS = PROTOCOL.final_steps


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("study")


@pytest.fixture(scope="module")
def study(place) -> Study:
    return optsmith.search(
        bowl(), storage=place, budget=4, options={"levels": 2}, workers=0, proposals=2,
        baselines="torch:sgd+linear,torch:adam+constant", progress=False,
    )  # fmt: skip


@pytest.fixture
def recommending(place, study):
    """Return a function that makes the study recommend a recipe."""

    def change(recipe):
        with Store.open(place, study.name) as store:
            claim = {**store.attrs["claim"], "recommended": recipe}
            store.set_attr("claim", claim)
            return Study(store)

    yield change
    change(study.claim.recommended)


def test_the_claim_says_what_is_recommended(study, recommending):
    assert study.recommended.recipe == study.claim.recommended
    rule = study.best()
    opponent = recommending("torch:sgd+linear")
    assert opponent.recommended.recipe == "torch:sgd+linear"
    assert opponent.best().recipe == rule.recipe
    assert recommending(rule.recipe).recommended.recipe == rule.recipe


def test_without_a_claim_the_best_rule_is_recommended(study):
    study = replace_claim(study, None)
    assert study.recommended.recipe == study.best().recipe


def replace_claim(study, claim):
    copy = object.__new__(Study)
    copy.__dict__.update(study.__dict__, claim=claim)
    return copy


def test_without_an_accepted_rule_the_best_opponent_is_recommended(study):
    empty = replace_claim(study, None)
    baselines = {e.recipe: e for e in study.final.baselines}
    empty.__dict__.update(records=[], _evaluations=[], _final=baselines)
    best = study.final.best_baseline
    assert (empty.recommended.recipe, empty.recommended.lr) == (best.recipe, best.lr)
    assert empty.verdict == (
        f"No rule was accepted. Recommended: {best.recipe} with lr {best.lr:.4g}, the best of 2"
        " opponents."
    )
    screen = io.StringIO()
    print_study(empty, Console(file=screen, width=120))
    assert f"→ {best.recipe}" in screen.getvalue()
    assert "use it:" in screen.getvalue()
    assert "cite it:" not in screen.getvalue()
    assert "No rule was accepted. Recommended" in empty._repr_html_()
    page = render(report_data(empty))
    assert "Recommended: a tuned opponent" in page
    assert "optsmith export" in page
    assert study_json(empty)["recommended"]["recipe"] == best.recipe
    empty.__dict__.update(_final={})
    assert empty.verdict == ""
    with pytest.raises(StudyError, match="has not accepted any rule"):
        _ = empty.recommended
    screen = io.StringIO()
    print_study(empty, Console(file=screen, width=120))
    assert screen.getvalue() == "no rule was accepted: none was evaluated\n"


def test_an_opponent_is_a_finding(study):
    found = study.finding("torch:sgd+linear")
    row = next(e for e in study.final.rows if e.recipe == found.recipe)
    assert (found.is_rule, found.lr, found.held_out_score) == (False, row.lr, row.score)
    assert (found.search_score, found.known, found.simplified) == (None, "", found.recipe)
    with pytest.raises(StudyError, match="not a rule"):
        _ = found.rule
    with pytest.raises(StudyError, match=r"no score of torch:sgd\+cosine"):
        study.finding("torch:sgd+cosine")


def test_the_optimizer_of_an_opponent_follows_its_schedule(study):
    found = study.finding("torch:sgd+linear")
    model = torch.nn.Linear(2, 1)
    for params in (model, model.parameters()):
        optimizer = found.optimizer(params, total_steps=9)
        assert isinstance(optimizer, torch.optim.SGD)
        assert optimizer.param_groups[0]["lr"] == found.lr
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.9 * found.lr)
    assert found.optimizer(model, total_steps=9, lr=7.0).param_groups[0]["lr"] == 7.0
    with pytest.raises(StudyError, match="pass total_steps"):
        found.optimizer(model)
    with pytest.raises(StudyError, match="only lr may be given, not weight_decay"):
        found.optimizer(model, 9, weight_decay=0.1)
    assert study.finding("torch:adam").optimizer(model)  # a constant learning rate needs no length


def test_the_optimizer_of_a_rule(study):
    best = study.best()
    optimizer = best.optimizer(torch.nn.Linear(2, 1), total_steps=9, weight_decay=0.1)
    assert isinstance(optimizer, RuleOptimizer)
    assert optimizer.param_groups[0]["weight_decay"] == 0.1


def repeat(path, seeds):
    """Train as a plain script would, with the exported file."""
    space = {"__name__": "exported"}
    exec(path.read_text(), space)  # noqa: S102
    scores = []
    for seed in seeds:
        torch.manual_seed(seed)
        w = torch.randn(3, requires_grad=True)
        optimizer, losses = space["make_optimizer"]([w], total_steps=STEPS), []
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = (w**2).sum() / 2
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        scores.append(sum(losses) / STEPS)
    return scores


def test_a_plain_script_repeats_the_numbers_of_every_row(study, tmp_path):
    assert len(study.final.rows) == 4
    for row in study.final.rows:
        path = tmp_path / "exported.py"
        study.export(path, recipe=row.recipe)
        assert repeat(path, row.seeds) == pytest.approx(row.scores, rel=1e-5), row.recipe


def test_export_returns_what_it_writes(study, recommending, tmp_path):
    opponent = recommending("torch:sgd+linear")
    text = opponent.export(tmp_path / "a.py")
    assert text == (tmp_path / "a.py").read_text() == opponent.recommended.export()
    assert "torch.optim.SGD(" in text
    assert "class Mine(" in study.export(recipe=study.best().recipe, name="Mine")
    with pytest.raises(optsmith.OptsmithError, match="cannot write"):
        study.export(tmp_path / "none" / "a.py")


@pytest.fixture
def command(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["optsmith", "export", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        return (code, *capsys.readouterr())

    return run


def test_the_command_finds_studies_rules_and_baselines(
    study, place, recommending, command, monkeypatch, tmp_path
):
    study = recommending("torch:sgd+linear")
    expected = study.export()
    assert command(study.name, "--storage", place) == (0, expected, "")
    assert command(place / f"{study.name}.journal") == (0, expected, "")
    best = study.best().recipe
    _, text, _ = command(study.name, "--storage", place, "--recipe", best, "--name", "Mine")
    assert text == study.export(recipe=best, name="Mine")
    assert "torch.optim.AdamW(" in command("torch:adamw+cosine")[1]
    monkeypatch.setattr("optsmith.study.list_studies", lambda _: [study.name])
    monkeypatch.setattr(Study, "load", lambda name, storage: study)
    assert command(study.name) == (0, expected, "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nothing-quick-0",), '"nothing-quick-0" is not a study, and '),
        (("torch:adamm",), 'there is no baseline "torch:adamm"'),
        (("torch:adam", "--name", "Mine"), "no class to name"),
        (("apgd",), "only attack tasks run it"),
    ],
)
def test_wrong_arguments_of_the_command(command, arguments, says):
    code, _, errors = command(*arguments)
    assert code == 2
    assert says in errors
    assert errors.count("\n") == 1


def test_findings_show_simplified_rules(study):
    evaluation = replace(study.best().search, recipe="m1 + m1")
    assert Finding(evaluation).simplified == "2*m1"
    assert Finding(evaluation).known == "torch:momentum"
    unknown = Finding(replace(evaluation, recipe="nowhere(g)"))
    assert (unknown.simplified, unknown.known) == ("nowhere(g)", "")


def test_a_rule_is_shown_simplified_and_found_in_both_forms(tmp_path, monkeypatch):
    rules = ("g", "sign(m1)", "m1 + RMSprop*exp(Adam)", "(g + m1)^1", "g3")
    monkeypatch.setattr("invented_studies.RULES", rules)
    study = invent(tmp_path, claim=better("(g + m1)^1"))
    assert study.best().recipe == "(g + m1)^1"
    assert study.verdict.startswith("g + m1 beats torch:nesterov+cosine in ")
    assert replace_claim(study, None).verdict.startswith("g + m1 ")
    assert study.finding("g + m1") == study.finding("(g + m1)^1") == study.best()
    assert "(g + m1)^1" not in study._repr_html_()
    screen = io.StringIO()
    print_study(study, Console(file=screen, width=120))
    assert "→ g + m1 " in screen.getvalue()
    assert "(g + m1)^1" not in screen.getvalue()
    text = card(study)
    assert text.count("(g + m1)^1") == 2  # as found, and in the command that exports it
    with pytest.raises(StudyError, match="no score of m1 - g"):
        study.finding("m1 - g")


def better(rule) -> Claim:
    paired = compare_paired([0.18, 0.2, 0.22, 0.2, 0.2], [0.23, 0.25, 0.27, 0.25, 0.25])
    return Claim(rule=rule, lr=0.01, opponent="torch:nesterov+cosine", opponent_lr=0.01,
                 paired=paired, recommended=rule)  # fmt: skip


def test_limits_bound_what_a_search_proposes(tmp_path):
    study = optsmith.search(
        bowl(), storage=tmp_path, budget=4, options={"levels": 2}, workers=0, proposals=2,
        baselines="none", progress=False, max_state_bytes=4, max_step_cost=0.9,
    )  # fmt: skip
    for evaluation in study.evaluations:
        assert state_bytes_of(evaluation.rule) <= 4
        assert step_cost_of(evaluation.rule) <= 0.9
    refused = study.summary["counts"]["refused"]
    assert refused["has too much state"] > 0
    assert refused["has too costly a step"] > 0
    assert (study.settings["max_state_bytes"], study.settings["max_step_cost"]) == (4, 0.9)
