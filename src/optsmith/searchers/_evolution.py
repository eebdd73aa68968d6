"""Regularised evolution of rules, with rungs, restarts and tuned numbers at the end."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from optsmith._errors import OptsmithError
from optsmith.searchers._base import Candidate, Direction, Outcome, Searcher, generator
from optsmith.searchers._breeding import Breeder, Child
from optsmith.searchers._finale import CHOICE, Finale
from optsmith.searchers._genome import Genome
from optsmith.searchers._mixture import FALLBACK
from optsmith.searchers._options import option
from optsmith.searchers._polish import POPULATION
from optsmith.searchers._population import Member, Population
from optsmith.searchers._proposal import Proposal
from optsmith.searchers._rungs import Rungs
from optsmith.searchers._start import Start
from optsmith.space import Space

if TYPE_CHECKING:
    from optsmith.task import Preset

SHORT = 0.3
"""Length of the runs that tune a learning rate, as a share of a full run."""

MORE_CANDIDATES = 3
"""Full runs relative to a preset's budget: they are shorter, because nothing is tuned."""

TUNED = 3
"""Cost of a candidate whose learning rate is tuned, relative to one with a fixed rate."""

NEW = 0.25
"""Share of a generation for starting points that were not tried, and for random rules."""

DRAWS = 40
"""Maximum number of candidates, as a multiple of the budget; it counts if most are refused."""


@dataclass(frozen=True)
class EvolutionOptions:
    """Options of the evolution."""

    population: int = option(16, "Size of the population.")
    children: int = option(16, "Children per generation.")
    tournament: int = option(4, "Rules of which the best has a child.")
    rungs: str = option("0.3,1", "Fidelities of successive halving, such as 0.1,0.3,1.")
    stagnation: int = option(128, "Children without a better rule after which the search restarts.")
    finalists: int = option(4, "Rules that are scored again with other seeds.")
    blocks: int = option(3, "Blocks of other seeds.")
    tuning: float = option(0.35, "Share of the budget that tunes the numbers of the best rule.")

    def __post_init__(self) -> None:
        least = {"population": 2, "blocks": 0}
        for name in ("population", "children", "tournament", "stagnation", "finalists", "blocks"):
            value, bound = getattr(self, name), least.get(name, 1)
            if value < bound:
                raise OptsmithError(f"{name} must be at least {bound}, not {value}")
        if not 0 <= self.tuning < 1:
            raise OptsmithError(f"tuning must be at least 0 and below 1, not {self.tuning:g}")
        Rungs.parse(self.rungs)


class Evolution(Searcher):
    """Changes good rules at random, and keeps the best of the changed ones.

    A generation of children is made from the population: the best of a few random members is the
    parent, and mutations of its rule and learning rate make the child. Children are trained for a
    part of the run; the best are promoted to longer runs. Those that are trained at full length
    enter the population, and the oldest members leave. If no rule gets better for some time, the
    population is made anew from the best rule, the starting points and random rules.

    All of these are scored on the same seeds, so the best score is partly luck. The best rules are
    therefore scored again with other seeds; then the numbers of the best are tuned together by
    CMA-ES, with new seeds in each generation.

    See `Searcher` for the arguments. The budget is the number of full runs; shorter ones count by
    their length.
    """

    Options = EvolutionOptions

    def __init__(
        self,
        space: Space,
        budget: int,
        seed: int = 0,
        direction: Direction = "minimize",
        options: EvolutionOptions | None = None,
    ) -> None:
        super().__init__(space, budget, seed, direction, options)
        self._sign = 1 if direction == "minimize" else -1
        self._starts: Sequence[Start] = FALLBACK
        self._population = Population(self.options.population)
        self._breeder: Breeder | None = None
        self._rungs = Rungs.parse(self.options.rungs, direction)
        self._children: dict[str, Child] = {}  # those of this generation, by id
        self._counts: Counter[tuple[str, str]] = Counter()
        self._generation = self._restarts = self._stagnant = 0
        self._finale: Finale | None = None
        # The candidates of a step are asked and told before those of the next one are known.
        self._step: list[Candidate] = []
        self._asked = 0
        self._outcomes: dict[str, Outcome] = {}
        self._end_step: Callable[[], None] = self._next_generation
        self._told, self._cost = 0, 0.0

    @classmethod
    def adapted(cls, preset: Preset) -> Preset:
        """Return a preset with full runs, two seeds per candidate and fixed learning rates."""
        full = preset.protocol.final_steps
        tuning = max(1, round(SHORT * full))
        longer = preset.protocol.replace(proxy_steps=tuning, steps=full, score_seeds=2)
        return replace(
            preset,
            protocol=longer,
            budget=MORE_CANDIDATES * preset.budget,
            space="modern",
            dedupe="equal",  # a rule times a number is the rule with another learning rate
            fixed_lr=True,
        )

    def begin(self, starts: Sequence[Start]) -> None:
        """Receive known rules; those with a score are the first members of the population."""
        self._starts = starts or FALLBACK

    @property
    def batch(self) -> int:
        """Candidates that are trained together."""
        return max(1, int(self.options.children) // 2)

    @property
    def need(self) -> int:
        """Candidates of this step that are not told yet."""
        if self._breeder is None:
            return int(self.options.children)
        return len(self._step) - len(self._outcomes)

    @property
    def spent(self) -> int:
        """Number of full runs; shorter ones count by their length."""
        return int(self._cost)

    def ask(self, n: int) -> list[Candidate]:
        """Return candidates of the current step."""
        if self._breeder is None:
            self._breeder = Breeder(
                self.space,
                self._starts,
                self._population,
                self.options.tournament,
                self._sign,
                self.allows,
            )
            self._end_step()
        first, self._asked = self._asked, min(self._asked + n, len(self._step))
        return self._step[first : self._asked]

    def tell(self, candidate: Candidate, outcome: Outcome) -> None:
        """Register the outcome of a candidate, and end the step if it is the last one."""
        self._told += 1
        self._cost += _cost(candidate) if outcome.evaluated else 0.0
        self._outcomes[candidate.id] = outcome
        if len(self._outcomes) == len(self._step):
            self._end_step()

    def _begin_step(self, candidates: Sequence[Candidate], end: Callable[[], None]) -> None:
        """Begin a step; its end is called when all candidates are told."""
        self._step, self._asked, self._outcomes, self._end_step = list(candidates), 0, {}, end

    def _loss(self, candidate: Candidate) -> float:
        """Return the loss of a candidate of this step; infinite if it has no score."""
        score = self._outcomes[candidate.id].score
        return math.inf if score is None or not math.isfinite(score) else self._sign * score

    # --- evolution -------------------------------------------------------------------------------

    def _next_generation(self) -> None:
        """Begin the first rung of the next children, or the end of the search."""
        breeder = self._breeder
        assert breeder is not None  # noqa: S101
        if len(self._population) and self._stagnant >= self.options.stagnation:
            self._restarts += 1
            self.log.append(f"restart {self._restarts} after {self._stagnant} children")
            self._stagnant = 0
            breeder.restart()
        self._rungs = Rungs.parse(self.options.rungs, self.direction)
        self._children = {}
        candidates: list[Candidate] = []
        left = self.budget - self._reserve - self._cost
        while len(candidates) < self.options.children and self._told < DRAWS * self.budget:
            candidate = self._draw(breeder, len(candidates))
            left -= _cost(candidate) * len(self._rungs.fidelities)  # all rungs cost the same
            if left < 0 and (candidates or self._cost):
                break
            candidates.append(candidate)
        if candidates:
            self._generation += 1
            self._begin_step(candidates, self._end_rung)
        else:
            self._begin_finale()

    def _draw(self, breeder: Breeder, index: int) -> Candidate:
        rng = generator(self.seed, self._generation, index)
        child = breeder.child(index < NEW * self.options.children, rng)
        name = f"{self._generation}:{index}"
        self._children[name] = child
        phase = f"generation {self._generation + 1}"
        return Candidate(name, child.rule, self._rungs.fidelity, lr=child.lr, phase=phase)

    def _end_rung(self) -> None:
        """Promote the best to the next rung; after the last one, make the next generation."""
        for candidate in self._step:
            self._register(candidate, self._outcomes[candidate.id])
        promoted = [] if self._rungs.is_last else self._rungs.promote()
        if promoted:
            # Learning rates that were tuned are fixed now.
            rated = [replace(c, lr=self._children[c.id].lr) for c in promoted]
            phase = self._step[0].phase
            self._begin_step([replace(c, phase=phase) for c in rated], self._end_rung)
        else:
            self._next_generation()

    def _register(self, candidate: Candidate, outcome: Outcome) -> None:
        """Rank a child on its rung; at full length, it enters the population."""
        child = self._children[candidate.id]
        if self._rungs.rung == 0:
            self._stagnant += 1
            self._counts.update((name, "made") for name in child.mutations)
        loss, evaluation = self._loss(candidate), outcome.evaluation
        if child.lr is None and evaluation is not None and evaluation.lr is not None:
            child = self._children[candidate.id] = replace(child, lr=evaluation.lr)
        if loss == math.inf or child.lr is None:
            return
        # A duplicate has the score of its original.
        self._rungs.tell(candidate, replace(outcome, kind="accepted"))
        if candidate.fidelity < 1:
            return
        self._counts.update((name, "trained") for name in child.mutations)
        if loss < child.parent:
            self._counts.update((name, "better") for name in child.mutations)
        genome = Genome(child.rule, child.lr)
        if self._population.enter(Member(candidate.id, genome, loss, child.known)):
            self._stagnant = 0

    # --- the end ---------------------------------------------------------------------------------

    @property
    def _choices(self) -> int:
        """Full runs that choose among the finalists."""
        return min(int(self.options.finalists * self.options.blocks), self.budget // 4)

    @property
    def _tunings(self) -> int:
        """Generations that tune the numbers of the best rule."""
        share = self.options.tuning if self.space.free_constants else 0.0
        return int(share * self.budget) // POPULATION

    @property
    def _reserve(self) -> int:
        """Full runs that are left for the end of the search."""
        return self._choices + self._tunings * POPULATION

    def _begin_finale(self) -> None:
        finalists = self._population.best(self.options.finalists)
        self._finale = Finale(
            finalists,
            self.space,
            self.seed,
            blocks=min(self.options.blocks, self._choices // max(1, len(finalists))),
            tuning_block=self.options.blocks + 1,
            generations=self._tunings,
        )
        self._begin_step(self._finale.candidates(), self._end_final_step)

    def _end_final_step(self) -> None:
        """Begin the next step of the end; the search is over if it has no candidates."""
        assert self._finale is not None  # noqa: S101
        self._finale.tell({c.id: self._loss(c) for c in self._step})
        if self._step[0].phase == CHOICE:
            self.log.append(
                f"best of {self._generation} generations: {self._finale.best()[0].rule}"
            )
        self._begin_step(self._finale.candidates(), self._end_final_step)

    # --- results ---------------------------------------------------------------------------------

    def proposals(self) -> list[Proposal]:
        """Return the best rule with tuned numbers, then others of the best rules, best first."""
        if self._finale is not None:
            return [Proposal(genome.rule, genome.lr) for genome in self._finale.best()]
        members = self._population.best(self.options.finalists)
        return [Proposal(m.genome.rule, m.genome.lr) for m in members]

    def describe(self) -> str:
        """Return the current step."""
        if self._finale is not None:
            return self._finale.describe()
        return f"generation {max(1, self._generation)}: {len(self._population)} rules"

    def summary(self) -> dict[str, Any]:
        """Return the number of generations and restarts, and how often mutations helped."""
        names = sorted({name for name, _ in self._counts})
        kinds = ("made", "trained", "better")
        return {
            "generations": self._generation,
            "restarts": self._restarts,
            "mutations": {n: {kind: self._counts[n, kind] for kind in kinds} for n in names},
        }


def _cost(candidate: Candidate) -> float:
    """Return the cost of a candidate in full runs."""
    return candidate.fidelity * (TUNED if candidate.lr is None else 1)
