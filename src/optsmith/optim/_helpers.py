"""Functions that an exported file contains as they were written, because they are not traced."""

from __future__ import annotations

import builtins
import dis
import inspect
import textwrap
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from optsmith._errors import OptimizerError

_AVAILABLE = {"torch", "Tensor", *dir(builtins)}
_DECOMPOSES = "torch.linalg."
DECORATOR = "or_nan"
"""Name of the decorator for functions that fail on matrices that are not finite."""
_TAKEN = {
    *("mix", "stream_key", "hashed", "uniform", DECORATOR, "state_of", "scalars_of", "update_of"),
    *("roles", "with_roles", "role_groups", "part_of", "make_optimizer", "schedule", "warnings"),
}
"""Names that the templates of exported files define."""


class Helpers:
    """Collects the sources of functions, each after the functions that it calls.

    Attributes:
        sources: The sources by name.
    """

    def __init__(self) -> None:
        self.sources: dict[str, str] = {}

    def add(self, function: Any, returns_tensor: bool = False) -> str:
        """Add a function and the functions of its module that it calls; return its name.

        Args:
            function: The function.
            returns_tensor: Whether the result is a tensor like the first argument. If it then
                decomposes matrices, a failure gives NaN, as in `RuleOptimizer`.

        Raises:
            OptimizerError: The function uses something that a file cannot contain.
        """
        name = getattr(function, "__name__", "")
        source = _source(function)
        called = _called(function) if source.startswith("def ") else None
        if called is None:
            raise OptimizerError(
                f"the operator function {name or function!r} cannot be exported: define it with"
                " def, in a file, using only its arguments, torch and functions of that file"
            )
        if _DECOMPOSES in source and (returns_tensor or _is_ours(function)):
            source = f"@{DECORATOR}\n{source}"
        if name in _TAKEN:
            raise OptimizerError(
                f"exported files have a function {name}: rename the operator's to export the rule"
            )
        if self.sources.get(name, source) != source:
            raise OptimizerError(
                f"two operator functions are named {name}: rename one to export the rule"
            )
        for other in called if name not in self.sources else ():
            if other is not function:
                self.add(other)
        self.sources.setdefault(name, source)
        return str(name)


def _source(function: Any) -> str:
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return ""
    return source.replace("    import torch\n\n", "")  # the file imports it


def _is_ours(function: Any) -> bool:
    return str(function.__module__).startswith("optsmith.")


def _called(function: Any) -> list[FunctionType] | None:
    """Return the functions of its module that a function calls; None if it uses more than these.

    Arguments, torch and Python's builtins may be used anywhere.
    """
    if not isinstance(function, FunctionType) or function.__closure__:
        return None
    called = []
    for name in dict.fromkeys(_globals(function.__code__)):
        if name in _AVAILABLE:
            continue
        other = function.__globals__.get(name)
        if not isinstance(other, FunctionType) or other.__module__ != function.__module__:
            return None
        called.append(other)
    return called


def _globals(code: CodeType) -> Iterator[str]:
    """Return the names of global variables that code and the functions inside it read."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals(constant)
