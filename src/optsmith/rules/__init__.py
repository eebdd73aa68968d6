"""Rules and operators: data model, parsing, printing and simplification."""

from optsmith.rules._operator import (
    Operator,
    Parameter,
    Scope,
    State,
    find_operator,
    format_number,
    number,
    operators,
    zeros,
)

# isort: split
from optsmith.rules._catalogue import (
    BINARY,
    BUILT_IN,
    INPUTS,
    PAPER,
    UNARY,
    definitions,
    is_built_in,
)
from optsmith.rules._noise import hashed, noise_source, stream_key, uniform
from optsmith.rules._print import ATOM, HOLE, INFIX, POWER, PREFIX, PRODUCT, SUM, fold, to_text
from optsmith.rules._rule import Rule
from optsmith.rules._structure import structure
from optsmith.rules._verify import verify
from optsmith.rules._whole import OverCopies, Whole, WholeState, init_copies

__all__ = [
    "ATOM",
    "BINARY",
    "BUILT_IN",
    "HOLE",
    "INFIX",
    "INPUTS",
    "PAPER",
    "POWER",
    "PREFIX",
    "PRODUCT",
    "SUM",
    "UNARY",
    "Operator",
    "OverCopies",
    "Parameter",
    "Rule",
    "Scope",
    "State",
    "Whole",
    "WholeState",
    "definitions",
    "find_operator",
    "fold",
    "format_number",
    "hashed",
    "init_copies",
    "is_built_in",
    "noise_source",
    "number",
    "operators",
    "stream_key",
    "structure",
    "to_text",
    "uniform",
    "verify",
    "zeros",
]
