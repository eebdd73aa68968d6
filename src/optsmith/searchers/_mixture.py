"""Search by mixtures: weighted sums of known expressions, whose weights are all tuned together."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from optsmith._errors import OptsmithError
from optsmith.rules import BY_ROLE, Rule, depends_on_role, rounded
from optsmith.searchers._base import Candidate, Direction, Outcome, Searcher
from optsmith.searchers._dictionary import folded, mixture_of, plain_rule, treated
from optsmith.searchers._directions import EFFORTS, Contenders
from optsmith.searchers._options import option
from optsmith.searchers._proposal import Proposal
from optsmith.searchers._start import Start
from optsmith.searchers._treatment import (
    BALANCES,
    COST,
    Treatment,
    best_treatment,
    orthogonal,
    treatment_candidates,
)
from optsmith.searchers._tuner import Tuner
from optsmith.searchers._warm import STARTING
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

MORE_CANDIDATES = 3
"""Candidates relative to a preset's budget: they need fewer runs, because nothing is tuned."""

BEFORE_DIRECTIONS, DIRECTIONS = 0.2, 0.35
"""Share of the budget after which directions are compared, and the maximum share for that."""

TREATING = 0.12
"""Maximum share of the budget for comparing treatments of roles."""

FEWEST_GENERATIONS = 8
"""Generations that a population leaves room for: with fewer, an evolution strategy hardly moves."""

LATER_SIGMA = 0.5
"""Spread of a rule whose numbers are tuned already, relative to that of a start."""

DIGITS = 4
"""Significant digits of the numbers of a proposal."""


@dataclass(frozen=True)
class MixtureOptions:
    """Options of the search by mixtures."""

    population: int = option(16, "Largest size of the population.")
    explore: float = option(EXPLORE, "Length of the runs that rank starting points.")

    def __post_init__(self) -> None:
        if self.population < 4:
            raise OptsmithError(f"population must be at least 4, not {self.population}")
        if not 0 < self.explore <= 1:
            raise OptsmithError(f"explore must be above 0 and at most 1, not {self.explore:g}")


class Mixture(Searcher):
    """Tunes weighted sums of expressions, starting from the best known rule.

    The best of the given rules is extended by the terms of a dictionary with small weights, under
    the same decay. All numbers are then tuned together by an evolution strategy (CMA-ES): weights,
    averages, the shape of the decay, the learning rate. Each generation is trained on seeds of its
    own. Candidates of a generation differ in constants only, so that they train as one stack.
    In a space with roles, the updates of hidden matrices have a factor of their own; before the
    first generation, a few balances of the roles are compared, and the rule with orthogonalised
    updates of hidden matrices, as in Muon.

    If the best rule is one for roles already, such as Muon, it gets no terms. Once a rule with
    orthogonalised updates is tuned a little, directions of its updates are compared: compositions
    of normalisations, in short runs, then the best of them and their combination in full runs. The
    rest of the budget tunes the best.

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
        self._population: int = min(self.options.population, max(4, budget // FEWEST_GENERATIONS))
        self._queue: deque[Candidate] = deque()
        self._losses: dict[str, float] = {}  # of the candidates of this step, by id
        self._outstanding = 0
        self._cost = 0.0  # candidates told, in runs of full length
        self._varied = 0.0  # varied candidates that are outstanding, in the same unit
        self._tuner: Tuner | None = None
        self._lr = 1.0
        self._found: Rule | None = None
        self._starts: list[Start] = []
        self._base: Start | None = None
        self._treatments: dict[Treatment, Rule] = {}  # that are compared now, with their rules
        self._contenders: Contenders | None = None
        self._compares_directions = False  # whether it is still to be done
        self._directions_cost = 0.0  # what it costs, or would cost
        self._generations = 0
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
        self._starts = [start for start in starts if start.origin != "zoo"]

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
        """Number of candidates told; short runs count by their length."""
        return round(self._cost)

    @property
    def varied_left(self) -> float:
        """Candidates that compare treatments of roles and directions, by their length."""
        queued = sum(c.fidelity for c in self._queue if c.varied)
        return self._varied + queued + self._varied_later

    @property
    def _varied_later(self) -> float:
        """Those that are not queued yet."""
        if self._contenders is not None:
            return self._contenders.later
        expected = self._compares_directions or self._tuner is None
        return self._directions_cost if expected else 0.0

    def ask(self, n: int) -> list[Candidate]:
        """Return candidates of the current generation."""
        if not self._begun:
            self._begun = True
            self._rank_starts()
            if not self._queue:
                self._next_step()
        found = [self._queue.popleft() for _ in range(min(n, len(self._queue)))]
        self._outstanding += len(found)
        self._varied += sum(c.fidelity for c in found if c.varied)
        return found

    def tell(self, candidate: Candidate, outcome: Outcome) -> None:
        """Register the score of a candidate."""
        self.cancel(candidate)
        self._cost += candidate.fidelity
        score = outcome.score
        lost = score is None or not math.isfinite(score)
        self._losses[candidate.id] = math.inf if lost else self._sign * float(score or 0.0)
        if candidate.id.startswith("start") and outcome.evaluation is not None:
            self._measured(candidate, outcome)
        if not self._queue and not self._outstanding:
            self._next_step()

    def cancel(self, candidate: Candidate) -> None:
        """Forget a candidate that is not told."""
        self._outstanding -= 1
        self._varied -= candidate.fidelity if candidate.varied else 0.0

    # --- steps -----------------------------------------------------------------------------------

    def _next_step(self) -> None:
        """Learn from the step that is over, and queue the next one."""
        losses, self._losses = self._losses, {}
        if self._contenders is not None:
            self._compare_directions(self._contenders, losses)
        elif self._tuner is not None:
            self._finish_generation(self._tuner, losses)
        elif self._base is not None and self._treatments:
            self._mix(self._base, best_treatment(self._treatments, losses))
        else:
            self._choose_start()
        if self._contenders is None and self._tuner is not None and self._generations_left():
            self._next_generation(self._tuner)

    def _rank_starts(self) -> None:
        """Queue starting points whose learning rate or score is not known.

        Beside opponents with scores, only rules that the user has given: they are trained as these
        were, at full length. Other opponents have left the race.
        """
        if all(s.origin == "given" for s in self._starts):
            self._starts += FALLBACK  # their learning rates tell the size of new terms
        scored = bool(self._known_starts())
        fidelity = 1.0 if scored else self.options.explore
        for i, start in enumerate(self._starts):
            given = start.origin == "given"
            if (given or not scored) and self.allows(start.rule):
                lr = start.lr if given else None
                name = f"start:{i}"
                self._queue.append(Candidate(name, start.rule, fidelity, lr=lr, phase=STARTING))

    def _measured(self, candidate: Candidate, outcome: Outcome) -> None:
        i = int(candidate.id.partition(":")[2])
        start, evaluation = self._starts[i], outcome.evaluation
        if evaluation is not None and outcome.score is not None:
            lr = evaluation.lr
            self._starts[i] = replace(start, lr=lr, score=outcome.score, rate=lr)

    def _known_starts(self) -> list[Start]:
        """Return the starting points with a score, within the limits of the search."""
        known = (s for s in self._starts if s.score is not None and s.lr is not None)
        return [s for s in known if self.allows(plain_rule(s))]

    def _choose_start(self) -> None:
        known = self._known_starts()
        if not known:
            self.log.append("no starting point could be trained within the limits of the search")
            return
        best = min(known, key=lambda s: self._sign * float(s.score or 0.0))
        self._base, self._found, self._lr = best, best.rule, float(best.lr or 1.0)
        self._treatments = self._treatments_of(best)
        if self._treatments:
            self._queue.extend(treatment_candidates(self._treatments, self._lr))
        else:
            self._mix(best, None)

    def _treatments_of(self, base: Start) -> dict[Treatment, Rule]:
        """Return the treatments of roles that are compared, with their rules."""
        names = {operator.name for operator in self.space.operators}
        rule = plain_rule(base)
        affordable = TREATING * self.budget >= COST
        if BY_ROLE not in names or not affordable or depends_on_role(rule):
            return {}
        found: dict[Treatment, Rule] = {b: treated(rule, b) for b in BALANCES}
        for treatment in orthogonal(self._lr):
            other = treated(rule, treatment)
            if self.space.knows(other) and self.allows(other):
                found[treatment] = other
                self._directions_cost = self._cost_of_directions(other)  # if it is the best
        return found

    def _mix(self, base: Start, treatment: Treatment | None) -> None:
        """Begin to tune the rule to start from, extended by the terms of the dictionary."""
        rule, weights = mixture_of(
            plain_rule(base), self._lr, self._starts, self.space, self.allows, treatment
        )
        self._tuner = Tuner(rule, self.seed, self._population, weights)
        self._directions_cost = self._cost_of_directions(rule)
        self._compares_directions = self._directions_cost > 0
        self.log.append(
            f"mixtures around {base.name}: {self._tuner.dimensions} numbers,"
            f" {len(weights)} new terms"
        )

    def _generations_left(self) -> int:
        return (self.budget - round(self._cost)) // self._population

    def _next_generation(self, tuner: Tuner) -> None:
        g = self._generations
        self._queue.extend(
            Candidate(f"{g}:{i}", rule, block=g, lr=self._lr, phase=f"generation {g + 1}")
            for i, rule in enumerate(tuner.ask())
        )

    def _finish_generation(self, tuner: Tuner, losses: Mapping[str, float]) -> None:
        g = self._generations
        tuner.tell([losses.get(f"{g}:{i}", math.inf) for i in range(tuner.population)])
        self._generations += 1
        self._found = tuner.best
        if self._compares_directions and self._cost >= BEFORE_DIRECTIONS * self.budget:
            self._compares_directions = False
            self._begin_directions(tuner.best)

    def _begin_directions(self, centre: Rule) -> None:
        """Queue other directions of the centre's hidden matrices, if there is budget for them."""
        self._contenders = self._affordable(centre)
        if self._contenders is not None:
            self._queue.extend(self._contenders.candidates())

    def _affordable(self, rule: Rule) -> Contenders | None:
        """Return the most thorough comparison of directions for which there is budget."""
        most = DIRECTIONS * self.budget
        every = (Contenders(rule, self._lr, self.space, e, self.allows) for e in EFFORTS)
        return next((c for c in every if c.cost <= most), None)

    def _cost_of_directions(self, rule: Rule) -> float:
        """Return the cost of comparing directions; 0 if there are none, or too little budget."""
        contenders = self._affordable(rule)
        return contenders.cost if contenders is not None and len(contenders) else 0.0

    def _compare_directions(self, contenders: Contenders, losses: Mapping[str, float]) -> None:
        contenders.tell(losses)
        self._queue.extend(contenders.candidates())
        if self._queue:
            return
        self._found, self._contenders = contenders.best, None
        if contenders.best != contenders.rule:
            self._tuner = Tuner(contenders.best, self.seed + 1, self._population, sigma=LATER_SIGMA)
            self.log.append(f"better direction: {contenders.best}")

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
        if self._contenders is not None:
            return "comparing directions of updates"
        if self._tuner is None:
            return (
                "comparing treatments of roles" if self._treatments else "ranking starting points"
            )
        return f"generation {self._generations + 1}: mixtures"

    def summary(self) -> dict[str, Any]:
        """Return the rule at the centre of the search."""
        return {"centre": str(self._found or ""), "lr": self._lr}
