"""Progress display of a search on stderr: a live panel in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from optsmith.evaluation import Evaluation
from optsmith.searchers import Candidate, Outcome, Searcher
from optsmith.study import Observer, Settings, Tally
from optsmith.training import Stacking

LINE_SECONDS = 20.0
"""Time between plain lines."""


@dataclass
class Pace:
    """Speed of the evaluations, and an estimate of the remaining time.

    Evaluations from earlier sessions are not counted, because they took no time.
    """

    start: float = field(default_factory=time.monotonic)
    evaluated: int = 0
    spent_before: int = 0  # of the budget

    def per_minute(self) -> float:
        """Return evaluations per minute."""
        return 60 * self.evaluated / max(time.monotonic() - self.start, 1e-9)

    def left(self, spent: int, budget: int) -> float | None:
        """Return the seconds until the budget is spent; None before the first evaluation."""
        if spent <= self.spent_before:
            return None
        return (budget - spent) * (time.monotonic() - self.start) / (spent - self.spent_before)


class Display(Observer):
    """Base of the two displays, which show the same facts."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.pace = Pace()
        self._recorded = self._to_compare = self._compared = 0

    def started(
        self, settings: Settings, searcher: Searcher, tally: Tally, workers: int, location: str
    ) -> None:
        """Print the settings of the search."""
        self.settings, self.searcher, self.tally = settings, searcher, tally
        self.say(
            f"{settings.task}: {settings.algorithm} search for {settings.search.budget} rules,"
            f" seed {settings.seed}, {_count(workers, 'worker')}; study in {location}"
        )

    def stacked(self, stacking: Stacking) -> None:
        """Print the reason if runs are trained one at a time."""
        if stacking.reason:
            self.say(f"runs are trained one at a time: {stacking.reason}")

    def resumed(self, recorded: int) -> None:
        """Print that the search is resumed."""
        self._recorded = recorded
        self.say(f"resuming: {_count(recorded, 'evaluation')} recorded")

    def told(self, candidate: Candidate, outcome: Outcome) -> None:
        """Count it."""
        if self._recorded and outcome.evaluated:
            self._recorded -= 1
            self.pace = self.pace if self._recorded else Pace(spent_before=self.spent())
        elif outcome.evaluated:
            self.pace.evaluated += 1
        self.show()

    def noted(self, line: str) -> None:
        """Print a decision of the searcher."""
        self.say(line)

    def comparing(self, count: int) -> None:
        """Print that the final evaluation starts."""
        self._to_compare = count
        if count:
            self.say(f"final evaluation of {_count(count, 'recipe')} at full length, on new seeds")

    def compared(self, evaluation: Evaluation) -> None:
        """Count it."""
        self._compared += 1
        self.show()

    def say(self, text: str) -> None:
        """Print a permanent line."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def show(self) -> None:
        """Update the display."""
        raise NotImplementedError

    # --- content ---------------------------------------------------------------------------------

    def fraction(self) -> tuple[int, int]:
        """Return done and total: of the search, then of the final evaluation."""
        if self._to_compare:
            return self._compared, self._to_compare
        return self.spent(), self.settings.search.budget

    def spent(self) -> int:
        """Return how much of the budget is spent."""
        spent = self.searcher.spent
        return self.tally.counts["accepted"] if spent is None else spent

    def best(self) -> str:
        """Return the best rule so far with its score."""
        best = self.tally.best(1)
        if not best:
            return "none yet"
        evaluation = best[0]
        score = self.tally.objective.brief(evaluation.score or 0.0)
        return f"{score}  {evaluation.recipe}  (lr {evaluation.lr:.4g})"

    def counts(self) -> str:
        """Return the number of draws by outcome."""
        tally = self.tally
        parts = [f"{n} {reason}" for reason, n in tally.refused.most_common()]
        others = ("duplicate", "early_stopped", "diverged", "rejected", "failed", "timed_out")
        parts += [f"{tally.counts[k]} {k.replace('_', ' ')}" for k in others if tally.counts[k]]
        return f"{tally.drawn} drawn" + "".join(f", {part}" for part in parts)

    def speed(self) -> str:
        """Return the speed and the remaining time."""
        done, total = self.fraction()
        if self._to_compare:
            return f"final evaluation: {done} of {total}"
        left = self.pace.left(done, total)
        clock = "" if left is None else f", about {_clock(left)} left"
        return f"{self.pace.per_minute():.0f} evaluations per minute{clock}"


class LiveDisplay(Display):
    """A panel that is updated in place."""

    def started(
        self, settings: Settings, searcher: Searcher, tally: Tally, workers: int, location: str
    ) -> None:
        """Open the panel."""
        super().started(settings, searcher, tally, workers, location)
        self._live = Live(
            get_renderable=self._panel, console=self.console, refresh_per_second=4, transient=True
        )
        self._live.start()

    def show(self) -> None:
        """Nothing to do: the panel redraws itself."""

    def finished(self) -> None:
        """Close the panel."""
        self._live.stop()

    def _panel(self) -> Group:
        done, total = self.fraction()
        head = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=max(total, 1), completed=done, width=30)
        head.add_row(bar, f"{done} / {total}", Text(self.speed(), style="dim"))
        rows = Table.grid(padding=(0, 2))
        rows.add_row("best", Text(self.best(), style="bold", overflow="ellipsis", no_wrap=True))
        if not self._to_compare and (doing := self.searcher.describe()):
            rows.add_row("search", Text(doing, overflow="ellipsis", no_wrap=True))
        rows.add_row("draws", Text(self.counts(), style="dim"))
        return Group(head, rows)


class PlainDisplay(Display):
    """Plain lines at intervals."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._last = time.monotonic()

    def show(self) -> None:
        """Print a line if the last one is older than `LINE_SECONDS`."""
        if time.monotonic() - self._last < LINE_SECONDS:
            return
        self._last = time.monotonic()
        if self._to_compare:
            self.say(self.speed())
            return
        done, total = self.fraction()
        self.say(f"{done}/{total}, {self.speed()}; best {self.best()}; {self.counts()}")


def make_display(console: Console) -> Display:
    """Return the live display for a terminal, else the plain one."""
    return LiveDisplay(console) if console.is_terminal else PlainDisplay(console)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
