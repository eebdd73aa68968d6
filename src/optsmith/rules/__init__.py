"""Rules: operators, their texts, and what can be done with them without data."""

from optsmith.rules._operator import Operator, Parameter, State, find_operator, number, operators

# isort: split
from optsmith.rules._catalogue import BINARY, BUILT_IN, INPUTS, PAPER, UNARY
from optsmith.rules._print import HOLE, to_text
from optsmith.rules._rule import Rule

__all__ = [
    "BINARY",
    "BUILT_IN",
    "HOLE",
    "INPUTS",
    "PAPER",
    "UNARY",
    "Operator",
    "Parameter",
    "Rule",
    "State",
    "find_operator",
    "number",
    "operators",
    "to_text",
]
