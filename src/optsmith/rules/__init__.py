"""Rules and operators: data model, parsing, printing and simplification."""

from optsmith.rules._operator import (
    SCALAR_FEEDS,
    Operator,
    Parameter,
    Scope,
    State,
    find_operator,
    format_number,
    is_number,
    number,
    operators,
    zeros,
)

# isort: split
from optsmith.rules._built_in import BUILT_IN, definitions, is_built_in
from optsmith.rules._catalogue import BINARY, INPUTS, PAPER, UNARY
from optsmith.rules._constants import COEFFICIENT, Constant, constants, skeleton, with_constants
from optsmith.rules._edits import Edit, deletions, flattenings, replaced, rounded, subrule
from optsmith.rules._functions import GUARD, divide, sqrt_abs
from optsmith.rules._modern import MODERN
from optsmith.rules._noise import hashed, noise_source, stream_key, uniform
from optsmith.rules._print import ATOM, HOLE, INFIX, POWER, PREFIX, PRODUCT, SUM, fold, to_text
from optsmith.rules._roles import BY_ROLE, depends_on_role, for_role
from optsmith.rules._rule import Rule
from optsmith.rules._structure import structure
from optsmith.rules._verify import verify
from optsmith.rules._whole import OverCopies, Whole, WholeState, init_copies

__all__ = [
    "ATOM",
    "BINARY",
    "BUILT_IN",
    "BY_ROLE",
    "COEFFICIENT",
    "GUARD",
    "HOLE",
    "INFIX",
    "INPUTS",
    "MODERN",
    "PAPER",
    "POWER",
    "PREFIX",
    "PRODUCT",
    "SCALAR_FEEDS",
    "SUM",
    "UNARY",
    "Constant",
    "Edit",
    "Operator",
    "OverCopies",
    "Parameter",
    "Rule",
    "Scope",
    "State",
    "Whole",
    "WholeState",
    "constants",
    "definitions",
    "deletions",
    "depends_on_role",
    "divide",
    "find_operator",
    "flattenings",
    "fold",
    "for_role",
    "format_number",
    "hashed",
    "init_copies",
    "is_built_in",
    "is_number",
    "noise_source",
    "number",
    "operators",
    "replaced",
    "rounded",
    "skeleton",
    "sqrt_abs",
    "stream_key",
    "structure",
    "subrule",
    "to_text",
    "uniform",
    "verify",
    "with_constants",
    "zeros",
]
