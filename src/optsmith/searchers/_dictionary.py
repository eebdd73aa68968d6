"""The dictionary of mixtures: known expressions, and the sum of them around a known rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from optsmith.rules import Rule, constants, depends_on_role, is_number, subrule
from optsmith.searchers._directions import REST
from optsmith.searchers._proposal import Proposal
from optsmith.searchers._sides import sides_of
from optsmith.searchers._start import Start, split_decay, with_averages
from optsmith.searchers._treatment import Treatment, without_common_factor
from optsmith.space import Space


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
"""Expressions that are added to rules."""

REST_TERMS = (REST["orth"], REST["rows"])
"""Expressions that are added to the updates of parameters outside of hidden matrices, in rules that
orthogonalise a momentum of those: of the same momentum. On the perceptrons of digits, both are
worth more than any other direction of hidden matrices."""

REST_SIZE = 2.0
"""Typical size of their updates, relative to that of hidden matrices. Steps of Adam are larger than
those of hidden matrices in Muon: with a quarter of this, the search on digits ended 11 % higher."""

NEW = 0.0
"""Weight of a term that is added to a mixture."""

_SIMPLER = {
    "nadam": "mix(g, ema(g, 0.9), 0.1)/sqrt(ema(g^2, 0.999))",
    "radam": "ema(g, 0.9)/sqrt(ema(g^2, 0.999))",
}
"""Forms of optimizers whose exact rules have many numbers that are functions of the step count."""

MILD_DECAY = "cd(0.3)"
"""Decay of a rule that has none, so that one can be found: a cosine that ends at a third."""

EXPONENT = 1.0001
"""Exponent of a decay: not a whole number, so that it is tuned."""


def plain_rule(start: Start) -> Rule:
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
    decay, body = split_decay(with_averages(plain_rule(Start(name, rule))))
    return _with_factors(decay, body)


def treated(base: Rule, treatment: Treatment) -> Rule:
    """Return a rule that treats roles apart, with a number for all else that can be tuned."""
    decay, body = split_decay(with_averages(base))
    return _with_factors(decay, body, treatment)


def _with_factors(decay: Rule | None, body: Rule, treatment: Treatment | None = None) -> Rule:
    """Return a rule with a factor for its learning rate, or one per role, and a decay to tune."""
    decay_text = f"{decay or MILD_DECAY}^{EXPONENT}"
    if treatment is None:
        return Rule.parse(f"1*({decay_text}*({body}))")
    return Rule.parse(f"{decay_text}*({treatment.of(body)})")


def folded(rule: Rule, lr: float) -> Proposal:
    """Return a rule without the factor in front, which is a part of the learning rate."""
    first, *rest = rule.operators
    if first.name == "mul" and is_number(rest[0]) and float(rest[0].torch()) > 0:
        return Proposal(Rule(tuple(rest[1:])), lr * float(rest[0].torch()))
    return without_common_factor(rule, lr)


def mixture_of(
    base: Rule,
    lr: float,
    starts: Sequence[Start],
    space: Space,
    allows: Callable[[Rule], bool] = lambda rule: True,
    treatment: Treatment | None = None,
) -> tuple[Rule, dict[int, float]]:
    """Return a rule extended by the terms of the dictionary, and the sizes of their weights.

    The whole has a factor of 1, which stands for the learning rate, or one per role, and its decay
    an exponent. A rule for roles gets terms only outside of hidden matrices: on the tasks that want
    one, no element-wise term was worth its time in those (other directions are, see `Contenders`).

    Args:
        base: The rule.
        lr: Its learning rate.
        starts: Rules whose learning rates tell the size of terms.
        space: The space, whose operators the terms must have.
        allows: Returns whether a rule is within the limits of the search.
        treatment: How roles are treated; None: alike, with one factor of all parameters.
    """
    decay, body = split_decay(with_averages(base))

    def whole(extended: Rule) -> Rule:
        return _with_factors(decay, extended, treatment)

    sizes: list[float] = []
    if not depends_on_role(body):
        body, sizes = _extended(body, lr, starts, space, lambda more: allows(whole(more)))
    rule, more_sizes = _with_rest_terms(whole(body), space, allows)
    new = (
        i
        for i, constant in enumerate(constants(rule))
        if constant.value == NEW and constant.parameter.name == "coefficient"
    )
    return rule, dict(zip(new, [*sizes, *more_sizes], strict=True))


def _with_rest_terms(
    rule: Rule, space: Space, allows: Callable[[Rule], bool]
) -> tuple[Rule, list[float]]:
    """Return a rule plus REST_TERMS, each with weight 0, and their sizes."""
    sizes = list[float]()
    for term in REST_TERMS:
        sides = sides_of(rule)
        if sides is None:
            break
        expression = Rule.parse(term.format(sides.momentum))
        extended = sides.with_sides(sides.hidden, Rule.parse(f"{sides.rest} + 0*({expression})"))
        if space.knows(expression) and allows(extended):
            rule = extended
            sizes.append(REST_SIZE * sides.size)
    return rule, sizes


def _extended(
    base: Rule,
    lr: float,
    starts: Sequence[Start],
    space: Space,
    allows: Callable[[Rule], bool],
) -> tuple[Rule, list[float]]:
    """Return a rule plus the terms of the dictionary, each with weight 0, and their sizes."""
    text, known, sizes = str(base), _terms(base), list[float]()
    for term in DICTIONARY:
        expression = Rule.parse(term.text)
        rate = rate_of(term, starts)
        if rate is None or not space.knows(expression) or str(expression) in known:
            continue
        more = f"{text} + 0*({term.text})"
        if allows(Rule.parse(more)):
            text = more
            sizes.append(rate / lr)
    return Rule.parse(text), sizes


def _terms(rule: Rule) -> set[str]:
    """Return the texts of all sub-expressions of a rule."""
    return {str(subrule(rule, i)) for i in range(rule.length)}


def rate_of(term: Term, starts: Sequence[Start]) -> float | None:
    """Return the learning rate at which a term makes updates of a useful size."""
    for optimizer in term.like:
        rates = [s.rate for s in starts if s.optimizer == optimizer and s.rate is not None]
        if rates:
            return term.factor * sorted(rates)[len(rates) // 2]
    return None
