"""Search by mixtures: weighted sums of known expressions, whose weights are all tuned together."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from optsmith._errors import OptsmithError
from optsmith.rules import Rule, rounded
from optsmith.searchers._base import Candidate, Direction, Outcome, Searcher
from optsmith.searchers._dictionary import folded, mixture_of, plain_rule
from optsmith.searchers._options import option
from optsmith.searchers._proposal import Proposal
from optsmith.searchers._start import Start
from optsmith.searchers._tuner import Tuner
from optsmith.space import Space

if TYPE_CHECKING:
    from optsmith.task import Preset


FALLBACK = (
    Start("nesterov+cosine", Rule.parse("cd*(g + 0.9*mom(g, 0.9))")),
    Start("adam+cosine", Rule.parse("cd*(ema(g, 0.9)/sqrt(ema(g^2, 0.999)))")),
)
"""Where a search starts if nothing is given."""

EXPLORE = 0.3
"""Length of the runs that rank starting points and tune their learning rates."""

MORE_CANDIDATES = 1.5
"""Candidates relative to a preset's budget: they need fewer runs, because nothing is tuned."""

DIGITS = 4
"""Significant digits of the numbers of a proposal."""


@dataclass(frozen=True)
class MixtureOptions:
    """Options of the search by mixtures."""

    population: int = option(16, "Mixtures per generation.")
    explore: float = option(EXPLORE, "Length of the runs that rank starting points.")

    def __post_init__(self) -> None:
        if self.population < 4:
            raise OptsmithError(f"population must be at least 4, not {self.population}")
        if not 0 < self.explore <= 1:
            raise OptsmithError(f"explore must be above 0 and at most 1, not {self.explore:g}")


class Mixture(Searcher):
    """Tunes weighted sums of expressions, starting from the best known rule.

    The best of the given rules is extended by the terms of a dictionary with weight 0, under the
    same decay. All numbers are then tuned together by an evolution strategy (CMA-ES): weights,
    averages, the shape of the decay, the learning rate. Each generation is trained on seeds of its
    own. Candidates of a generation differ in constants only, so that they train as one stack.

    See `Searcher` for the arguments.
    """

    Options = MixtureOptions

    def __init__(
        self,
        space: Space,
        budget: int,
        seed: int = 0,
        direction: Direction = "minimize",
        options: MixtureOptions | None = None,
    ) -> None:
        super().__init__(space, budget, seed, direction, options)
        self._sign = 1 if direction == "minimize" else -1
        self._population: int = min(self.options.population, max(4, budget // 4))
        self._queue: deque[Candidate] = deque()
        self._waiting: dict[str, float] = {}  # losses of the candidates of this step, by id
        self._outstanding = 0
        self._told = 0
        self._tuner: Tuner | None = None
        self._lr = 1.0
        self._found: Rule | None = None
        self._starts: list[Start] = []
        self._begun = False

    @classmethod
    def adapted(cls, preset: Preset) -> Preset:
        """Return a preset with full runs, two seeds per candidate and more candidates."""
        protocol = preset.protocol
        full = protocol.final_steps
        tuning = max(1, round(EXPLORE * full))
        longer = protocol.replace(proxy_steps=tuning, steps=full, score_seeds=2)
        budget = round(MORE_CANDIDATES * preset.budget)
        return replace(
            preset, protocol=longer, budget=budget, proposals=1, space="modern", fixed_lr=True
        )

    def begin(self, starts: Sequence[Start]) -> None:
        """Receive known rules; those without a score are ranked by short runs first."""
        self._starts = list(starts)

    @property
    def batch(self) -> int:
        """Candidates that are trained together."""
        return self._population // 2

    @property
    def need(self) -> int:
        """Candidates of this step that are not told yet."""
        return self._outstanding + len(self._queue) if self._begun else self.batch

    @property
    def spent(self) -> int:
        """Number of candidates told."""
        return self._told

    def ask(self, n: int) -> list[Candidate]:
        """Return candidates of the current generation."""
        if not self._begun:
            self._begun = True
            self._rank_starts()
            if not self._queue:
                self._next_step()
        found = [self._queue.popleft() for _ in range(min(n, len(self._queue)))]
        self._outstanding += len(found)
        return found

    def tell(self, candidate: Candidate, outcome: Outcome) -> None:
        """Register the score of a candidate."""
        self._outstanding -= 1
        self._told += 1
        score = outcome.score
        lost = score is None or not math.isfinite(score)
        self._waiting[candidate.id] = math.inf if lost else self._sign * float(score or 0.0)
        if candidate.id.startswith("start") and outcome.evaluation is not None:
            self._measured(candidate, outcome)
        if not self._queue and not self._outstanding:
            self._next_step()

    def cancel(self, candidate: Candidate) -> None:
        """Forget a candidate that is not told."""
        self._outstanding -= 1

    # --- steps -----------------------------------------------------------------------------------

    def _next_step(self) -> None:
        """Learn from the step that is over, and queue the next one."""
        if self._tuner is None:
            self._make_tuner()
        else:
            self._finish_generation()
        if self._tuner is not None and self._generations_left():
            self._next_generation()

    def _rank_starts(self) -> None:
        """Queue starting points whose learning rate or score is not known."""
        if not any(s.score is not None and s.lr is not None for s in self._starts):
            starts = self._starts or list(FALLBACK)
            self._starts = starts
            self._queue.extend(
                Candidate(f"start:{i}", start.rule, self.options.explore, phase="starting points")
                for i, start in enumerate(starts)
            )

    def _measured(self, candidate: Candidate, outcome: Outcome) -> None:
        i = int(candidate.id.partition(":")[2])
        start, evaluation = self._starts[i], outcome.evaluation
        if evaluation is not None and outcome.score is not None:
            lr = evaluation.lr
            self._starts[i] = Start(start.name, start.rule, lr, outcome.score, rate=lr)

    def _make_tuner(self) -> None:
        self._waiting = {}
        known = [s for s in self._starts if s.score is not None and s.lr is not None]
        if not known:
            self.log.append("no starting point could be trained")
            return
        best = min(known, key=lambda s: self._sign * float(s.score or 0.0))
        self._lr = float(best.lr or 1.0)
        rule, weights = mixture_of(plain_rule(best), self._lr, self._starts, self.space)
        self._tuner = Tuner(rule, self.seed, self._population, weights)
        self._found = best.rule
        self.log.append(
            f"mixtures around {best.name}: {self._tuner.dimensions} numbers,"
            f" {len(weights)} new terms"
        )

    def _generations_left(self) -> int:
        return (self.budget - self._told) // self._population

    def _next_generation(self) -> None:
        assert self._tuner is not None  # noqa: S101
        g = self._tuner.generation
        self._waiting = {}
        self._queue.extend(
            Candidate(f"{g}:{i}", rule, block=g, lr=self._lr, phase=f"generation {g + 1}")
            for i, rule in enumerate(self._tuner.ask())
        )

    def _finish_generation(self) -> None:
        assert self._tuner is not None  # noqa: S101
        g = self._tuner.generation
        losses = [self._waiting.get(f"{g}:{i}", math.inf) for i in range(self._tuner.population)]
        self._tuner.tell(losses)
        self._waiting = {}
        self._found = self._tuner.best

    # --- results ---------------------------------------------------------------------------------

    def proposals(self) -> list[Proposal]:
        """Return the rule at the centre of the last generation, with its learning rate.

        Its numbers are rounded to what the search can tell apart.
        """
        if self._found is None:
            return []
        centre = folded(self._found, self._lr)
        return [Proposal(rounded(centre.rule, DIGITS), centre.lr)]

    def describe(self) -> str:
        """Return the current step."""
        if self._tuner is None:
            return "ranking starting points"
        return f"generation {self._tuner.generation + 1}: mixtures"

    def summary(self) -> dict[str, Any]:
        """Return the rule at the centre of the search."""
        return {"centre": str(self._found or ""), "lr": self._lr}
