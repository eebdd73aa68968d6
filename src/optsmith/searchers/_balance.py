"""The balance of roles: how large the updates of hidden matrices are beside those of the rest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from optsmith.rules import BY_ROLE, Rule, is_number, subrule
from optsmith.searchers._base import Candidate
from optsmith.searchers._proposal import Proposal

PHASE = "balance of roles"

FIRST_BLOCK, BLOCKS = 45_000, 2
"""First block of seeds, and blocks per balance; generations use those before."""


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

COST = len(BALANCES) * BLOCKS
"""Runs of full length that the comparison needs."""


def balance_candidates(rules: Mapping[Balance, Rule], lr: float) -> list[Candidate]:
    """Return candidates that compare a rule with several balances, at full length."""
    return [
        Candidate(f"balance:{i}:{block}", rule, block=FIRST_BLOCK + block, lr=lr, phase=PHASE)
        for block in range(BLOCKS)
        for i, rule in enumerate(rules.values())
    ]


def best_balance(rules: Mapping[Balance, Rule], losses: Mapping[str, float]) -> Balance:
    """Return the balance with the smallest loss."""

    def loss(i: int) -> float:
        return sum(losses.get(f"balance:{i}:{block}", math.inf) for block in range(BLOCKS))

    balances = list(rules)
    return balances[min(range(len(balances)), key=loss)]


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
