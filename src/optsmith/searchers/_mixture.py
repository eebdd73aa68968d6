"""Search by mixtures: weighted sums of known expressions, whose weights are all tuned together."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from optsmith._errors import OptsmithError
from optsmith.rules import BY_ROLE, Rule, constants, is_number, rounded, subrule
from optsmith.searchers._base import Candidate, Direction, Outcome, Proposal, Searcher
from optsmith.searchers._options import option
from optsmith.searchers._start import Start, split_decay, with_averages
from optsmith.searchers._tuner import Tuner
from optsmith.space import Space

if TYPE_CHECKING:
    from optsmith.task import Preset


@dataclass(frozen=True, slots=True)
class Term:
    """An expression of the dictionary.

    Attributes:
        text: The expression.
        like: Optimizers whose learning rates tell the size of its updates, the best guess first.
        factor: Learning rate of the expression relative to theirs.
    """

    text: str
    like: tuple[str, ...]
    factor: float = 1.0


_ADAPTIVE = ("adam", "adamw", "nadam", "rmsprop", "radam", "lion")
_PLAIN = ("momentum", "nesterov")

DICTIONARY = (
    Term("g", ("sgd", *_PLAIN), 1.0),
    Term("mom(g, 0.9)", _PLAIN),
    Term("mom(g, 0.99)", _PLAIN, 0.1),
    Term("sign(mom(g, 0.9))", ("lion", *_ADAPTIVE), 0.3),
    Term("ema(g, 0.9)/sqrt(ema(g^2, 0.999))", _ADAPTIVE),
    Term("g/sqrt(ema(g^2, 0.99))", ("rmsprop", *_ADAPTIVE)),
)
"""Expressions of one element."""

MATRIX_DICTIONARY = (
    Term("fan*orth(ema(g, 0.95))", ("muon", *_ADAPTIVE), 0.2),
    Term("unit(ema(g, 0.9))", _ADAPTIVE),
    Term("rows(ema(g, 0.9))", _ADAPTIVE),
    Term("ema(g, 0.9)/sqrt(ema(g^2, 0.99))", _ADAPTIVE),
)
"""Expressions of hidden matrices."""

FALLBACK = (
    Start("nesterov+cosine", Rule.parse("cd*(g + 0.9*mom(g, 0.9))")),
    Start("adam+cosine", Rule.parse("cd*(ema(g, 0.9)/sqrt(ema(g^2, 0.999)))")),
)
"""Where a search starts if nothing is given."""

NEW = 0.0
"""Weight of a term that is added to a mixture."""

_SIMPLER = {
    "nadam": "mix(g, ema(g, 0.9), 0.1)/sqrt(ema(g^2, 0.999))",
    "radam": "ema(g, 0.9)/sqrt(ema(g^2, 0.999))",
}
"""Forms of optimizers whose exact rules have many numbers that are functions of the step count."""


EXPLORE = 0.3
"""Length of the runs that rank starting points and tune their learning rates."""

BUDGET = 192
"""Candidates of a search: 12 generations of 16."""

DIGITS = 4
"""Significant digits of the numbers of a proposal."""

FEW_STEPS = 50
"""Tasks with shorter runs are those of tests, whose budgets are kept."""


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
        budget = BUDGET if full > FEW_STEPS else preset.budget
        return replace(preset, protocol=longer, budget=budget, space="modern", fixed_lr=True)

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
        self._advance()
        return self._outstanding + len(self._queue)

    @property
    def spent(self) -> int:
        """Number of candidates told."""
        return self._told

    def ask(self, n: int) -> list[Candidate]:
        """Return candidates of the current generation."""
        self._advance()
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

    def cancel(self, candidate: Candidate) -> None:
        """Forget a candidate that is not told."""
        self._outstanding -= 1

    # --- steps -----------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Begin the next step if everything of this one has been told."""
        if self._queue or self._outstanding:
            return
        if not self._begun:
            self._begun = True
            self._rank_starts()
            if self._queue:
                return
        if self._tuner is None:
            self._make_tuner()
        elif self._waiting:
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
        rule, weights = mixture_of(_plain(best), self._lr, self._starts, self.space)
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


def _plain(start: Start) -> Rule:
    """Return the rule of a start in a form whose numbers can be tuned."""
    if start.optimizer not in _SIMPLER:
        return start.rule
    decay, _ = split_decay(start.rule)
    body = _SIMPLER[start.optimizer]
    return Rule.parse(body if decay is None else f"{decay}*({body})")


def tunable(rule: Rule, name: str) -> Rule:
    """Return a known rule with a number for all that can be tuned, but no new terms.

    Args:
        rule: The rule.
        name: Name of the optimizer, such as `torch:adam+cosine`.
    """
    decay, body = split_decay(with_averages(_plain(Start(name, rule))))
    return _with_factors(decay, body)


def _with_factors(decay: Rule | None, body: Rule) -> Rule:
    """Return a rule with a factor for its learning rate, and an exponent for its decay."""
    return Rule.parse(f"1*({body})" if decay is None else f"1*({decay}^{EXPONENT}*({body}))")


def folded(rule: Rule, lr: float) -> Proposal:
    """Return a rule without the factor in front, which is a part of the learning rate."""
    first, *rest = rule.operators
    if first.name == "mul" and is_number(rest[0]) and float(rest[0].torch()) > 0:
        return Proposal(Rule(tuple(rest[1:])), lr * float(rest[0].torch()))
    return Proposal(rule, lr)


def mixture_of(
    base: Rule, lr: float, starts: Sequence[Start], space: Space
) -> tuple[Rule, dict[int, float]]:
    """Return a rule extended by the terms of the dictionary, and the sizes of their weights.

    The whole has a factor of 1, which stands for the learning rate, and its decay an exponent.
    Terms are added to both sides of `hidden`.

    Args:
        base: The rule.
        lr: Its learning rate.
        starts: Rules whose learning rates tell the size of terms.
        space: The space, whose operators the terms must have.
    """
    decay, body = split_decay(with_averages(base))
    names = {operator.name for operator in space.operators}
    markers: list[float] = []
    at = next((i for i, o in enumerate(body.operators) if o.name == BY_ROLE), None)
    if at is None:
        whole = _extended(body, DICTIONARY, lr, starts, names, markers)
    else:
        matrices = subrule(body, at + 1)
        others = subrule(body, at + 1 + matrices.length)
        left = _extended(matrices, MATRIX_DICTIONARY, lr, starts, names, markers)
        right = _extended(others, DICTIONARY[:1], lr, starts, names, markers)
        inner = Rule.parse(f"{BY_ROLE}({left}, {right})").operators
        end = at + 1 + matrices.length + others.length
        whole = Rule((*body.operators[:at], *inner, *body.operators[end:]))
    rule = _with_factors(decay, whole)
    weights: dict[int, float] = {}
    for i, constant in enumerate(constants(rule)):
        if constant.value == NEW and constant.parameter.name == "coefficient":
            weights[i] = markers[len(weights)]
    return rule, weights


EXPONENT = 1.0001
"""Exponent of a decay: not a whole number, so that it is tuned."""


def _extended(
    base: Rule,
    dictionary: Sequence[Term],
    lr: float,
    starts: Sequence[Start],
    names: set[str],
    units: list[float],
) -> Rule:
    """Return a rule plus the terms of a dictionary, each with weight 0; append their sizes."""
    text, known = str(base), _terms(base)
    for term in dictionary:
        expression = Rule.parse(term.text)
        rate = _rate(term, starts)
        in_space = {o.name for o in expression.operators if o.name[:1].isalpha()} <= names
        if rate is None or not in_space or str(expression) in known:
            continue
        text += f" + 0*({term.text})"
        units.append(rate / lr)
    return Rule.parse(text)


def _terms(rule: Rule) -> set[str]:
    """Return the texts of all sub-expressions of a rule."""
    return {str(subrule(rule, i)) for i in range(rule.length)}


def _rate(term: Term, starts: Sequence[Start]) -> float | None:
    """Return the learning rate at which a term makes updates of a useful size."""
    for optimizer in term.like:
        rates = [s.rate for s in starts if s.optimizer == optimizer and s.rate is not None]
        if rates:
            return term.factor * sorted(rates)[len(rates) // 2]
    return None
