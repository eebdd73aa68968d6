"""The outputs of a rule for the kinds of parameters that it may treat differently."""

from __future__ import annotations

from optsmith.rules import Rule, depends_on_role, for_role
from optsmith.screening._fingerprint import Array
from optsmith.screening._probe import Probe


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
    sees_shapes = any(operator.scope == "tensor" for operator in others.operators)
    return first, second, probe.run(others, as_vectors=True) if sees_shapes else second
