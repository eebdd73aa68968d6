"""The progress display of a search: what it shows, and where."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from optsmith import Evaluation, Objective, Rule, Status, StudyError
from optsmith.display import Observers, _base, _lines, _notebook, make_display, watching
from optsmith.display._lines import LineDisplay
from optsmith.display._notebook import NotebookDisplay
from optsmith.display._pace import Pace, duration_text, rate_text
from optsmith.display._standing import Standing
from optsmith.display._terminal import TerminalDisplay
from optsmith.searchers import Candidate, Outcome
from optsmith.study import Observer, Tally
from optsmith.training import Stacking


def found(recipe: str, score: float | None, steps: int = 100) -> Evaluation:
    return Evaluation(recipe, Status.OK, score=score, lr=0.01, steps=steps, trained=steps)


def play(
    display: Observer, left: float | None = 90.0, until_end: bool = True, looks: tuple = ()
) -> None:
    """Notify a display of the events of a short search."""
    tally = Tally(Objective("validation loss"))
    search = SimpleNamespace(
        budget=2, contest=SimpleNamespace(looks=looks), protocol=SimpleNamespace(final_steps=1000)
    )
    settings = SimpleNamespace(task="bowl", algorithm="mct", seed=3, search=search)
    searcher = SimpleNamespace(spent=None, describe=lambda: "level 1 of 2")
    forecast = None if left is None else SimpleNamespace(left=lambda now: left)
    display.started(settings, searcher, tally, 2, "here.journal", forecast=forecast)
    display.stacked(Stacking(1, reason="it has a loop of its own"))
    display.planned("a run takes 31 s: 40 candidates")
    display.noted("10 % of the data is split off for validation")
    display.entered("opponents", 2)
    display.evaluated("opponents", found("torch:adam", 0.4, 10))
    display.evaluated("opponents", found("torch:nesterov+cosine", 0.3, 10))
    display.rival(found("torch:nesterov+cosine", 0.25))
    for number, (kind, recipe, score) in enumerate(
        [("refused", "g", None), ("accepted", "g3", 0.26), ("accepted", "sign(m1)", 0.24)]
    ):
        evaluation = found(recipe, score)
        candidate = Candidate(str(number), Rule.parse(recipe))
        reason = "fails the descent test" if kind == "refused" else ""
        outcome = Outcome(kind, score=score, reason=reason, evaluation=evaluation)
        tally.add(candidate, outcome)
        display.told(candidate, outcome)
    if not until_end:
        return
    display.entered("tuning", 2)
    display.evaluated("tuning", found("sign(m1)", 0.11, 1000))
    display.evaluated("tuning", found("torch:adam", 0.10, 1000))
    display.entered("report", 8)
    display.entered("report", 4)
    display.finished()


def lines_of(**settings) -> list[str]:
    screen = io.StringIO()
    play(LineDisplay(Console(file=screen, width=100)), **settings)
    return screen.getvalue().splitlines()


def test_a_file_gets_plain_lines(monkeypatch):
    monkeypatch.setattr(_lines, "LINE_SECONDS", 0.0)
    lines = lines_of()
    assert lines[:4] == [
        "bowl: mct search for 2 rules, seed 3, 2 workers; study in here.journal",
        "runs are trained one at a time: it has a loop of its own",
        "plan: a run takes 31 s: 40 candidates",
        "10 % of the data is split off for validation",
    ]
    assert "race of the opponents: 2 evaluations" in lines
    (first, last) = (line for line in lines if line.startswith(("search 1/2, ", "search 2/2, ")))
    assert "about 1 min 30 s left; best rule 0.26 (g3), best opponent 0.25" in first
    assert first.endswith(
        "(torch:nesterov+cosine): 4.0 % worse; 0.1 full runs, 2 drawn, 1 fails the descent test"
    )
    assert "best rule 0.24 (sign(m1)), " in last
    assert "(torch:nesterov+cosine): 4.0 % better; " in last
    assert lines[-2:] == [
        "comparison on report seeds: 4 evaluations",
        lines[-1],
    ]
    # At full length another opponent is the best one.
    assert lines[-1].startswith("report 0/12, ")
    assert lines[-1].endswith("best opponent 0.1 (torch:adam): 10.0 % worse")


def test_a_known_optimizer_is_not_the_best_rule_unless_the_paper_s_search_is_run(monkeypatch):
    monkeypatch.setattr(_lines, "LINE_SECONDS", 0.0)
    (line,) = (line for line in lines_of(looks=(8,)) if line.startswith("search 2/2, "))
    assert "best rule 0.26 (g3), " in line  # sign(m1), with 0.24, is signum


def test_lines_come_at_intervals():
    assert not any(line.startswith("search 1/2") for line in lines_of())


def test_no_time_is_promised_without_a_forecast(monkeypatch):
    monkeypatch.setattr(_lines, "LINE_SECONDS", 0.0)
    assert "left" not in "\n".join(lines_of(left=None))


def test_a_terminal_shows_a_panel_that_is_redrawn():
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100, color_system=None)
    play(TerminalDisplay(console))
    shown = screen.getvalue()
    assert shown.count("\x1b[") > 3
    assert "plan: a run takes 31 s" in shown


def test_the_panel_shows_phase_rate_time_and_standing():
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=110, color_system=None)
    display = TerminalDisplay(console)
    play(display, until_end=False)
    display.finished()
    panel = Console(file=io.StringIO(), width=110)
    panel.print(display._panel())
    shown = panel.file.getvalue()
    for words in (
        "search ",
        "2 / 2",
        "evaluations per minute, about 1 min 30 s left",
        "best rule      0.24  sign(m1)  (lr 0.01)",
        "best opponent  0.25  torch:nesterov+cosine: the rule is 4.0 % better",
        "search         level 1 of 2",
        "3 drawn, 1 fails the descent test",
    ):
        assert words in shown


class Cell:
    """The part of `IPython.display` that the display uses."""

    def __init__(self) -> None:
        self.outputs: list[str] = []

    @staticmethod
    def HTML(text):  # noqa: N802 - the name in IPython
        return text

    def display(self, html, display_id):
        assert display_id is True
        self.outputs.append(html)
        return SimpleNamespace(update=self.outputs.append)


@pytest.fixture
def cell(monkeypatch) -> Cell:
    cell = Cell()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=cell))
    monkeypatch.setitem(sys.modules, "IPython.display", cell)
    return cell


def test_a_notebook_gets_one_block_that_is_updated(cell, monkeypatch):
    monkeypatch.setattr(_notebook, "EVERY", 0.0)
    play(NotebookDisplay())
    running = next(html for html in cell.outputs if "2 / 2" in html and "<b>search</b>" in html)
    assert "the rule is 4.0 % better" in running
    assert "about 1 min 30 s left" in running
    last = cell.outputs[-1]
    assert "bowl: mct search for 2 rules" in last
    assert "plan: a run takes 31 s" in last
    assert "<b>" not in last  # the bar is gone


def test_a_notebook_is_not_updated_for_every_event(cell):
    display = NotebookDisplay()
    play(display, until_end=False)
    before = len(cell.outputs)
    display.show()
    assert len(cell.outputs) == before


def test_names_are_escaped_in_notebooks(cell):
    display = NotebookDisplay()
    display.noted("<script>")
    assert "&lt;script&gt;" in cell.outputs[-1]
    assert "<script>" not in cell.outputs[-1]


def test_a_long_search_keeps_its_first_line_in_a_notebook(cell):
    display = NotebookDisplay()
    play(display)
    for number in range(50):
        display.noted(f"decision {number}.")
    assert "bowl: mct search" in cell.outputs[-1]
    assert "decision 49." in cell.outputs[-1]
    assert "decision 30." not in cell.outputs[-1]


def test_the_display_fits_where_it_goes():
    assert isinstance(make_display(Console(force_terminal=True)), TerminalDisplay)
    assert isinstance(make_display(Console(file=io.StringIO())), LineDisplay)
    assert isinstance(make_display(Console(force_jupyter=True)), NotebookDisplay)


@pytest.mark.parametrize("again", ["call", "command"])
def test_an_interrupt_is_followed_by_how_to_continue(again):
    screen = io.StringIO()
    display = make_display(Console(file=screen, width=200), again)
    play(display, until_end=False)
    display.interrupted()
    best, how = screen.getvalue().splitlines()[-2:]
    assert best.startswith("best rule 0.24 (sign(m1)), best opponent 0.25")
    assert how.endswith(f"The same {again} resumes the search.")


class Notebook(Observer):
    """Notes the names of events."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def entered(self, phase: str, jobs: int) -> None:
        self.names.append(f"{phase} {jobs}")


def test_several_observers_are_notified_of_every_event():
    one, other = [], []
    play(Observers(Notebook(one), Observer(), Notebook(other)))
    assert one == other == ["opponents 2", "tuning 2", "report 8", "report 4"]


def test_a_user_s_observer_runs_beside_the_display(capsys):
    names: list[str] = []
    play(watching(Notebook(names), progress=True))
    assert names[0] == "opponents 2"
    assert "bowl: mct search" in capsys.readouterr().err


def test_without_progress_nothing_is_printed(capsys):
    play(watching(None, progress=False))
    play(watching(Notebook([]), progress=False))
    assert capsys.readouterr() == ("", "")


def test_an_observer_must_be_one():
    with pytest.raises(StudyError, match=r"instance of a subclass of optsmith.Observer, not 'tqdm"):
        watching("tqdm", progress=True)


# --- parts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"), [(5, "5 s"), (65, "1 min 05 s"), (3700, "1 h 01 min")]
)
def test_durations(seconds, text):
    assert duration_text(seconds) == text


def test_a_rate_is_recent():
    pace = Pace(0.0)
    for second in range(1, 11):
        pace.add(60.0 * second)
    assert pace.per_minute(600.0) == pytest.approx(1.0)
    for number in range(1, 21):
        pace.add(600.0 + number)
    assert pace.per_minute(620.0) == pytest.approx(60.0)
    assert pace.per_minute(1800.0) == pytest.approx(1.0)  # nothing has ended for long
    assert pace.latest == 620.0


def test_the_rate_of_the_search_starts_with_the_end_of_the_race(monkeypatch):
    now = iter(range(0, 100_000, 10))
    monkeypatch.setattr(_base.time, "monotonic", lambda: next(now))
    display = LineDisplay(Console(file=io.StringIO()))
    play(display, until_end=False)
    assert display.pace.per_minute(next(now)) < 10


def test_rates_below_ten_have_decimals():
    assert rate_text(0.42) == "0.42 evaluations per minute"
    assert rate_text(123.4) == "123 evaluations per minute"


def test_scores_of_different_lengths_are_not_compared():
    standing = Standing(Objective(), found("g", 0.1, 10), found("torch:sgd", 0.2, 100))
    assert standing.lead() == ""


def test_rules_have_round_numbers_in_lines_of_progress():
    rule = "0.123456*ema(g, 0.8765432) + 1*mom(g, 0.9)"
    standing = Standing(Objective(), found(rule, 0.1, 10))
    assert standing.text() == "best rule 0.1 (0.123*ema(g, 0.877) + 1*mom(g))"


def test_the_direction_counts():
    objective = Objective("accuracy", "maximize", "last", "%")
    standing = Standing(objective, found("g", 0.9), found("torch:sgd", 0.8))
    assert standing.lead() == "10 points better"
    assert standing.text() == "best rule 90 % (g), best opponent 80 % (torch:sgd): 10 points better"
