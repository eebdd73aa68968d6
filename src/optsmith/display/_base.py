"""Content of the progress display of a search."""

from __future__ import annotations

import time
from typing import Any

from optsmith.display._pace import Pace, duration_text, rate_text
from optsmith.display._standing import Standing, brief_recipe
from optsmith.evaluation import Evaluation
from optsmith.searchers import Candidate, Outcome, Searcher
from optsmith.study import Observer, Settings, Tally, without_known
from optsmith.task import Objective
from optsmith.training import Stacking

SEARCH = "search"
PHASES = {
    "opponents": "race of the opponents",
    "refinement": "shorter forms of the best rule",
    "tuning": "learning rates of the finalists at full length",
    "report": "comparison on report seeds",
    "speed-up": "shorter runs of the winner",
    "checks": "the winner under other settings",
    "equal tuning": "constants of the best opponent",
}
"""Description of each phase other than the search."""

TOP = 50
"""Number of rules among which one is sought that is not a known optimizer."""

CHOICE = "tuning"
"""Phase that chooses the best rule and the best opponent, at full length."""


class Display(Observer):
    """Base of the displays, which show the same facts.

    Subclasses implement `say`, which prints a permanent line, and `show`, which updates the rest.

    Args:
        again: What resumes an interrupted search: "call" or "command".
    """

    def __init__(self, again: str = "call") -> None:
        self.again = again
        self.phase, self.done, self.total = SEARCH, 0, 0
        self.pace = Pace(time.monotonic())
        self.standing = self._latest = Standing(Objective())
        self.forecast: Any = None
        self._recorded = 0

    # --- events ----------------------------------------------------------------------------------

    def started(
        self,
        settings: Settings,
        searcher: Searcher,
        tally: Tally,
        workers: int,
        location: str,
        forecast: Any = None,
    ) -> None:
        """Print the settings of the search."""
        self.settings, self.searcher, self.tally = settings, searcher, tally
        self.forecast = forecast
        self.standing = Standing(tally.objective)
        self.say(
            f"{settings.task}: {settings.algorithm} search for {settings.search.budget} rules,"
            f" seed {settings.seed}, {counted(workers, 'worker')}; study in {location}"
        )

    def stacked(self, stacking: Stacking) -> None:
        """Print the reason if runs are trained one at a time."""
        if stacking.reason:
            self.say(f"runs are trained one at a time: {stacking.reason}")

    def resumed(self, recorded: int) -> None:
        """Print that the search is resumed."""
        self._recorded = recorded
        self.say(f"resuming: {counted(recorded, 'evaluation')} recorded")

    def planned(self, plan: str) -> None:
        """Print the plan."""
        self.say(f"plan: {plan}")

    def entered(self, phase: str, jobs: int) -> None:
        """Print that a phase starts, or that evaluations were added to it."""
        if phase == self.phase:
            self.total += jobs
        else:
            self._enter(phase, jobs)
        if jobs:
            self.say(f"{PHASES.get(phase, phase)}: {counted(jobs, 'evaluation')}")
        self.show()

    def evaluated(self, phase: str, evaluation: Evaluation) -> None:
        """Count it."""
        if phase != self.phase:
            self._enter(phase, 0)
        self.done += 1
        self.total = max(self.total, self.done)
        self.pace.add(time.monotonic())
        if phase == CHOICE:
            self._latest.add(evaluation)
            if self._latest.complete:
                self.standing = self._latest
        self.show()

    def _enter(self, phase: str, jobs: int) -> None:
        self.phase, self.done, self.total = phase, 0, jobs
        self.pace = Pace(time.monotonic())
        self._latest = Standing(self.tally.objective)

    def rival(self, evaluation: Evaluation) -> None:
        """Show the best opponent."""
        self.standing.opponent = evaluation
        self.show()

    def told(self, candidate: Candidate, outcome: Outcome) -> None:
        """Count it."""
        if self.phase != SEARCH:
            self.phase, self.pace = SEARCH, Pace(self.pace.latest)
        if outcome.evaluated:
            if self._recorded:  # of an earlier session: it took no time
                self._recorded -= 1
                self.pace = Pace(time.monotonic())
            else:
                self.pace.add(time.monotonic())
            self.standing.rule = self._best_rule()
        spent = self.searcher.spent
        self.done = self.tally.counts["accepted"] if spent is None else spent
        self.total = self.settings.search.budget
        self.show()

    def _best_rule(self) -> Evaluation | None:
        """Return the best rule so far, as the study would choose it."""
        best = self.tally.best(TOP)
        if self.settings.search.contest.looks:  # the paper proposes known rules, too
            best = without_known(best, 1)
        return best[0] if best else None

    def noted(self, line: str) -> None:
        """Print it."""
        self.say(line)

    def interrupted(self) -> None:
        """Print the best so far, and how to continue."""
        if self.standing.rule is not None:
            self.say(self.standing.text())
        self.say(
            "interrupted; finished evaluations are stored."
            f" The same {self.again} resumes the search."
        )

    # --- content ---------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        """Print a permanent line."""
        raise NotImplementedError

    def show(self) -> None:
        """Update the display."""
        raise NotImplementedError

    def speed(self) -> str:
        """Return the recent rate, and the time left of the study."""
        now = time.monotonic()
        left = None if self.forecast is None else self.forecast.left(now)
        words = rate_text(self.pace.per_minute(now))
        return words if left is None else f"{words}, about {duration_text(left)} left"

    def cost(self) -> str:
        """Return the training steps of the search so far, in full runs."""
        full = self.settings.search.protocol.final_steps
        runs = self.tally.trained / full
        return f"{runs:.3g} full runs" if runs < 1000 else f"{runs:,.0f} full runs"

    def best(self) -> list[tuple[str, str]]:
        """Return name and description of the best rule and of the best opponent."""
        standing = self.standing
        rows = [("best rule", "none yet")]
        if (rule := standing.rule) is not None:
            lr = "" if rule.lr is None else f"  (lr {rule.lr:.4g})"
            rows = [("best rule", f"{standing.score(rule)}  {brief_recipe(rule.recipe)}{lr}")]
        if (opponent := standing.opponent) is not None:
            lead = standing.lead()
            words = f": the rule is {lead}" if lead else ""
            rows.append(("best opponent", f"{standing.score(opponent)}  {opponent.recipe}{words}"))
        return rows

    def draws(self) -> str:
        """Return the number of draws by outcome."""
        tally = self.tally
        parts = [f"{n} {reason}" for reason, n in tally.refused.most_common()]
        counted_apart = ("refused", "accepted")
        others = {k: n for k, n in tally.counts.items() if n and k not in counted_apart}
        parts += [f"{n} {kind.replace('_', ' ')}" for kind, n in others.items()]
        return f"{self.cost()}, {tally.drawn} drawn" + "".join(f", {part}" for part in parts)

    def rows(self) -> list[tuple[str, str]]:
        """Return the lines below the bar: name and text."""
        rows = self.best()
        if self.phase == SEARCH and (doing := self.searcher.describe()):
            rows.append(("search", doing))
        return [*rows, ("draws", self.draws())] if self.tally.drawn else rows


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 worker", "2 workers"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
