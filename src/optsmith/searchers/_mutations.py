"""Mutations: random changes of a rule and its learning rate, which stay in the space."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from optsmith.rules import (
    BY_ROLE,
    Rule,
    constants,
    deletions,
    number,
    replaced,
    subrule,
    with_constants,
)
from optsmith.searchers._directions import FORMS, with_form
from optsmith.searchers._genome import Genome, joined, normal, split_schedule
from optsmith.searchers._material import Material
from optsmith.searchers._start import Start
from optsmith.searchers._tuner import Coordinate, tied
from optsmith.searchers._update_size import UpdateSize
from optsmith.space import Space

TRIES = 40
"""Draws of a mutation until one gives a rule of the space."""

LR_SPREAD = 0.4
"""Standard deviation of the logarithm of a learning rate that is perturbed."""

LEAST_WEIGHT = 0.03
"""Smallest weight of a new term, relative to that at which it would be as large as the rule."""

AGAIN = 0.3
"""Probability of one more mutation."""

SUBTRACTED = 0.15
"""Probability that a new term is subtracted."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A genome that was made by mutations.

    Attributes:
        genome: The genome.
        names: Names of the mutations.
    """

    genome: Genome
    names: tuple[str, ...]


# --- structure ------------------------------------------------------------------------------------


def _position(rule: Rule, rng: random.Random) -> int:
    return rng.randrange(rule.length)


def _insert(material: Material, own: Genome, mate: Genome, rng: random.Random) -> Genome | None:
    """Apply an operator to a sub-expression; a second operand is drawn."""
    at = _position(own.rule, rng)
    part = subrule(own.rule, at)
    operator = material.operator(rng.choice((1, 2)), rng)
    if operator is None:
        return None
    operands = [part]
    if operator.arity == 2:
        operands.insert(rng.randrange(2), material.expression(rng))
    new = Rule((operator, *(o for operand in operands for o in operand.operators)))
    return replace(own, rule=replaced(own.rule, at, new))


def _delete(material: Material, own: Genome, mate: Genome, rng: random.Random) -> Genome | None:
    """Leave out a term, a factor or a function."""
    edits = deletions(own.rule)
    return replace(own, rule=rng.choice(edits).rule) if edits else None


def _replace(material: Material, own: Genome, mate: Genome, rng: random.Random) -> Genome | None:
    """Replace an operator by another of the same arity, or a sub-expression by a drawn one."""
    at = _position(own.rule, rng)
    if rng.random() < 0.5:
        return replace(own, rule=replaced(own.rule, at, material.expression(rng)))
    operator = material.operator(own.rule.operators[at].arity, rng)
    if operator is None:
        return None
    before, after = own.rule.operators[:at], own.rule.operators[at + 1 :]
    return replace(own, rule=Rule((*before, operator, *after)))


def _hoist(material: Material, own: Genome, mate: Genome, rng: random.Random) -> Genome | None:
    """Replace a sub-expression by one of its operands."""
    inner = [i for i, o in enumerate(own.rule.operators) if o.arity]
    if not inner:
        return None
    at = rng.choice(inner)
    operand = subrule(own.rule, at + 1)
    if own.rule.operators[at].arity == 2 and rng.random() < 0.5:
        operand = subrule(own.rule, at + 1 + operand.length)
    return replace(own, rule=replaced(own.rule, at, operand))


def _swap(material: Material, own: Genome, mate: Genome, rng: random.Random) -> Genome | None:
    """Exchange two sub-expressions, none of which contains the other."""
    first, second = sorted((_position(own.rule, rng), _position(own.rule, rng)))
    one, two = subrule(own.rule, first), subrule(own.rule, second)
    if second < first + one.length or one == two:
        return None
    return replace(own, rule=replaced(replaced(own.rule, second, one), first, two))


def _cross(material: Material, own: Genome, mate: Genome, rng: random.Random) -> Genome | None:
    """Replace a sub-expression by one of the mate."""
    part = subrule(mate.rule, _position(mate.rule, rng))
    return replace(own, rule=replaced(own.rule, _position(own.rule, rng), part))


def _turn(material: Material, own: Genome, mate: Genome, rng: random.Random) -> Genome | None:
    """Choose another direction of hidden matrices, a composition of normalisations."""
    turned = with_form(own.rule, rng.choice(FORMS), material.space)
    return None if turned is None else replace(own, rule=turned)


# --- terms and schedules --------------------------------------------------------------------------


def _plus(own: Genome, at: int, term: Genome, rng: random.Random) -> Genome:
    """Return the genome with a term added to a sub-expression.

    Args:
        own: The genome.
        at: Position of the sub-expression.
        term: The term, with the learning rate that suits it alone.
        rng: Draws the sign and the weight.
    """
    weight = math.exp(math.log(LEAST_WEIGHT) * rng.random()) * term.lr / own.lr
    name = "sub" if rng.random() < SUBTRACTED else "add"
    weighted = joined("mul", Rule((number(weight),)), term.rule)
    whole = joined(name, subrule(own.rule, at), weighted)
    return replace(own, rule=replaced(own.rule, at, whole))


def _parts(rule: Rule) -> set[Rule]:
    return {subrule(rule, i) for i in range(rule.length)}


def _body(rule: Rule) -> int:
    """Return the position of what follows the schedule of a rule."""
    schedule, _ = split_schedule(rule)
    return 0 if schedule is None else 1 + schedule.length


def _add(material: Material, own: Genome, mate: Genome, rng: random.Random) -> Genome | None:
    """Add a term of the dictionary, to one side of `hidden` if there is one."""
    at = _body(own.rule)
    role = next((i for i, o in enumerate(own.rule.operators) if o.name == BY_ROLE), None)
    if role is not None:
        at = role + 1
        at += subrule(own.rule, at).length if rng.random() < 0.5 else 0
    term = material.term(own, rng)
    if term is None or term.rule in _parts(subrule(own.rule, at)):
        return None
    return _plus(own, at, term, rng)


def _blend(material: Material, own: Genome, mate: Genome, rng: random.Random) -> Genome | None:
    """Add the mate, without its schedule, as a term."""
    _, body = split_schedule(mate.rule)
    if body in _parts(own.rule):
        return None
    return _plus(own, _body(own.rule), replace(mate, rule=body), rng)


def _decay(material: Material, own: Genome, mate: Genome, rng: random.Random) -> Genome | None:
    """Multiply by a decay, or change the schedule: another decay, or a power of it."""
    schedule, body = split_schedule(own.rule)
    if schedule is not None and schedule.length == 1 and rng.random() < 0.5:
        exponent = Rule((number(math.exp(rng.gauss(0.0, 0.5))),))
        factor = joined("pow", schedule, exponent)
    else:
        decay = material.decay(rng)
        if decay is None:
            return None
        factor = Rule((decay,))
    return replace(own, rule=joined("mul", factor, body))


# --- numbers --------------------------------------------------------------------------------------


def _perturb(material: Material, own: Genome, mate: Genome, rng: random.Random) -> Genome | None:
    """Change one constant, or all constants and the learning rate."""
    known = constants(own.rule)
    if not known:
        return None
    groups = tied(own.rule, known)
    count = max(groups) + 1
    is_one = rng.random() < 0.5
    chosen = {rng.randrange(count)} if is_one else set(range(count))
    size = math.exp(rng.uniform(math.log(0.2), math.log(2.0)))
    moves = [rng.gauss(0.0, size) if g in chosen else 0.0 for g in range(count)]
    values = []
    for group, constant in zip(groups, known, strict=True):
        at = Coordinate(constant)
        value = at.value(at.start + at.spread * moves[group])
        values.append(value if group in chosen else constant.value)
    lr = own.lr if is_one else own.lr * math.exp(rng.gauss(0.0, size * LR_SPREAD / 2))
    return Genome(with_constants(own.rule, values), lr)


def _rescale(material: Material, own: Genome, mate: Genome, rng: random.Random) -> Genome | None:
    """Change the learning rate."""
    return replace(own, lr=own.lr * math.exp(rng.gauss(0.0, LR_SPREAD)))


@dataclass(frozen=True, slots=True)
class Mutation:
    """A kind of mutation.

    Attributes:
        change: Returns the changed genome, which may be outside the space, or None.
        share: Relative probability.
        keeps_size: Whether the learning rate is changed so that updates keep their size.
    """

    change: Callable[[Material, Genome, Genome, random.Random], Genome | None]
    share: float
    keeps_size: bool = False


MUTATIONS = {
    "insert": Mutation(_insert, 1.0, keeps_size=True),
    "delete": Mutation(_delete, 1.0, keeps_size=True),
    "replace": Mutation(_replace, 1.0, keeps_size=True),
    "hoist": Mutation(_hoist, 0.5, keeps_size=True),
    "swap": Mutation(_swap, 0.5, keeps_size=True),
    "crossover": Mutation(_cross, 1.0, keeps_size=True),
    "direction": Mutation(_turn, 1.0, keeps_size=True),
    "blend": Mutation(_blend, 1.0),
    "term": Mutation(_add, 2.0),
    "decay": Mutation(_decay, 1.0),
    "constants": Mutation(_perturb, 4.0),
    "learning rate": Mutation(_rescale, 1.0),
}
"""The mutations by name."""


class Mutator:
    """Draws mutations of genomes.

    Args:
        space: The space, in which all results are.
        starts: Rules whose learning rates tell the size of new terms.
        sizes: The size of updates, which changes of structure keep.
    """

    def __init__(self, space: Space, starts: Sequence[Start], sizes: UpdateSize) -> None:
        self.space, self._sizes = space, sizes
        self._material = Material(space, starts, sizes)

    def mutant(self, parent: Genome, mate: Genome, rng: random.Random) -> Mutant | None:
        """Return a mutant of the parent in the space; None if no try succeeds.

        Args:
            parent: The genome to change.
            mate: Another genome, parts of which may be used.
            rng: Source of all draws.
        """
        names = list(MUTATIONS)
        weights = [MUTATIONS[name].share for name in names]
        genome, used = parent, list[str]()
        for _ in range(TRIES):
            (name,) = rng.choices(names, weights)
            changed = self.apply(name, genome, mate, rng)
            if changed is None:
                continue
            genome, used = changed, [*used, name]
            if rng.random() >= AGAIN:
                break
        is_new = used and genome.key != parent.key
        return Mutant(genome, tuple(used)) if is_new else None

    def apply(self, name: str, genome: Genome, mate: Genome, rng: random.Random) -> Genome | None:
        """Return a genome after one mutation; None if it cannot be done or leaves the space.

        Args:
            name: Name of the mutation.
            genome: The genome to change.
            mate: Another genome.
            rng: Source of all draws.
        """
        mutation = MUTATIONS[name]
        found = mutation.change(self._material, genome, mate, rng)
        if found is None or not found.rule.uses("gradient"):
            return None
        changed = normal(found)
        if not self.space.contains(changed.rule):
            return None
        if mutation.keeps_size:
            lr = self._sizes.kept(genome, changed.rule) * math.exp(rng.gauss(0.0, LR_SPREAD / 2))
            changed = normal(Genome(changed.rule, lr))
        return changed if 0 < changed.lr < math.inf else None
