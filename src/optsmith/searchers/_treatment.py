"""How the roles are treated: balances of their updates, or hidden matrices orthogonalised."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from optsmith.rules import BY_ROLE, Rule, is_number, subrule
from optsmith.searchers._base import Candidate
from optsmith.searchers._proposal import Proposal

PHASE = "roles"

FIRST_BLOCK, BLOCKS = 45_000, 2
"""First block of seeds, and blocks per treatment; generations use those before."""


@dataclass(frozen=True, slots=True)
class Balance:
    """Factors of the updates by role.

    Attributes:
        hidden: Factor of hidden matrices.
        rest: Factor of all other parameters.
    """

    hidden: float = 1.0
    rest: float = 1.0

    def of(self, body: Rule) -> Rule:
        """Return an expression with the factors in front."""
        return Rule.parse(f"{BY_ROLE}({self.hidden:g}, {self.rest:g})*({body})")


BALANCES = (
    Balance(),
    Balance(hidden=0.5),
    Balance(hidden=0.25),
    Balance(hidden=0.1),
    Balance(hidden=0.5, rest=2),
    Balance(rest=2),
    Balance(rest=0.5),
    Balance(rest=0.25),
)
"""Balances to compare, around the learning rate that suits all parameters alike."""


@dataclass(frozen=True, slots=True)
class Orthogonal:
    """Hidden matrices are updated by an orthogonalised momentum, as in Muon; the rest by the rule.

    Attributes:
        size: Root mean square of the updates of hidden matrices, relative to the learning rate.
    """

    size: float

    def of(self, body: Rule) -> Rule:
        """Return an expression with the other updates of hidden matrices."""
        matrices = f"{self.size:.3g}*fan*orth(g + 0.9*mom(g, 0.9))"
        return Rule.parse(f"{BY_ROLE}({matrices}, 1*({body}))")


SIZES = (0.003, 0.006, 0.012)
"""Sizes of orthogonalised updates, around those of Muon, which hardly depend on the task."""


def orthogonal(lr: float) -> list[Orthogonal]:
    """Return treatments with orthogonalised updates, for a learning rate of the whole rule."""
    return [Orthogonal(size / lr) for size in SIZES]


Treatment = Balance | Orthogonal

COST = (len(BALANCES) + len(SIZES)) * BLOCKS
"""Runs of full length that the comparison needs at most."""


def treatment_candidates(rules: Mapping[Treatment, Rule], lr: float) -> list[Candidate]:
    """Return candidates that compare treatments of the roles, at full length."""
    return [
        Candidate(f"roles:{i}:{block}", rule, block=FIRST_BLOCK + block, lr=lr, phase=PHASE)
        for block in range(BLOCKS)
        for i, rule in enumerate(rules.values())
    ]


def best_treatment(rules: Mapping[Treatment, Rule], losses: Mapping[str, float]) -> Treatment:
    """Return the treatment with the smallest loss."""

    def loss(i: int) -> float:
        return sum(losses.get(f"roles:{i}:{block}", math.inf) for block in range(BLOCKS))

    treatments = list(rules)
    return treatments[min(range(len(treatments)), key=loss)]


def without_common_factor(rule: Rule, lr: float) -> Proposal:
    """Return a rule whose factor of parameters outside of hidden matrices is 1.

    The common factor becomes a part of the learning rate.
    """
    at = _balance_at(rule)
    if at is None:
        return Proposal(rule, lr)
    hidden, rest = (float(rule.operators[at + k].torch()) for k in (1, 2))
    if not rest > 0:
        return Proposal(rule, lr)
    balance = Rule.parse(f"{BY_ROLE}({hidden / rest!r}, 1)")
    whole = (*rule.operators[:at], *balance.operators, *rule.operators[at + 3 :])
    return Proposal(Rule(whole), lr * rest)


def _balance_at(rule: Rule) -> int | None:
    """Return where the factors by role are, if the whole rule is proportional to them."""
    at = 0
    while rule.operators[at].name == "mul":
        first = subrule(rule, at + 1)
        name, *operands = first.operators
        if name.name == BY_ROLE and len(operands) == 2 and all(map(is_number, operands)):
            return at + 1
        at += 1 + first.length
    return None
