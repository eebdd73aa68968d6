"""The outputs of a rule for the kinds of parameters that it may treat differently."""

from __future__ import annotations

from dataclasses import dataclass

from optsmith.rules import Rule, depends_on_role, for_role
from optsmith.screening._fingerprint import Array
from optsmith.screening._probe import Probe


@dataclass(frozen=True, eq=False)
class Probes:
    """The probes on which rules are screened.

    Args:
        elements: The probe of element-wise rules.
        tensors: The shorter probe of rules with operators on whole tensors.
    """

    elements: Probe
    tensors: Probe

    def fitting(self, *rules: Rule) -> Probe:
        """Return the probe on which all these rules are run."""
        return self.tensors if any(map(sees_shapes, rules)) else self.elements


def sees_shapes(rule: Rule) -> bool:
    """Return whether a rule has an operator on whole tensors."""
    return any(operator.scope == "tensor" for operator in rule.operators)


def outputs(probe: Probe, rule: Rule) -> tuple[list[Array], list[Array], list[Array]]:
    """Return the outputs for hidden matrices, for other matrices, and for vectors.

    Those that are equal by construction are the same object: most rules are element-wise, and need
    one run.
    """
    if depends_on_role(rule):
        hidden, others = for_role(rule, is_hidden=True), for_role(rule, is_hidden=False)
    else:
        hidden = others = rule
    first = probe.run(hidden)
    second = first if others == hidden else probe.run(others)
    return first, second, probe.run(others, as_vectors=True) if sees_shapes(others) else second
