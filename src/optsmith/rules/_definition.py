"""Hashes of operator definitions, which change when an operator computes something else.

A function is identified by the syntax tree of its source, so that comments and formatting do not
matter, and by what it refers to: defaults, closure, and plain values and functions of its module.
If the source is not available, its bytecode is used.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optsmith.rules._operator import Operator

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def definition_of(operator: Operator) -> str:
    """Return a hash of an operator's definition, without its name and parameter values."""
    state = operator.state
    parts = [
        repr((operator.arity, operator.feed, operator.scope, operator.random)),
        repr([(p.name, p.default, p.low, p.high) for p in operator.parameters]),
        describe(operator.torch),
    ]
    if state:
        parts += [repr((state.slots, state.reads)), describe(state.update), describe(state.init)]
        parts += [repr(state.ignores)] * bool(state.ignores)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def describe(value: Any, seen: tuple[Any, ...] = ()) -> str:
    """Return a text that identifies a value, including the definitions of functions."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if any(value is other for other in seen):
        return "..."  # a recursive reference
    seen = (*seen, value)
    if isinstance(value, types.FunctionType):
        return _function(value, seen)
    if isinstance(value, types.MethodType):
        return f"{describe(value.__func__, seen)} of {describe(value.__self__, seen)}"
    if isinstance(value, functools.partial):
        return "partial " + describe((value.func, value.args, value.keywords), seen)
    if isinstance(value, list | tuple | set | frozenset):
        inside = [describe(v, seen) for v in value]
        return f"{type(value).__name__} {sorted(inside) if isinstance(value, set) else inside}"
    if isinstance(value, dict):
        return "dict " + repr([(describe(k, seen), describe(v, seen)) for k, v in value.items()])
    if isinstance(value, types.ModuleType | types.BuiltinFunctionType | type):
        return f"{getattr(value, '__module__', '')}.{value.__name__}"
    if hasattr(value, "tolist") and hasattr(value, "dtype"):  # a tensor or an array
        return f"{value.dtype} {value.tolist()}"
    kind = type(value)
    call = inspect.getattr_static(kind, "forward", None) or inspect.getattr_static(
        kind, "__call__", None
    )
    own = describe(call, seen) if isinstance(call, types.FunctionType) else ""
    holds = describe(getattr(value, "__dict__", {}), seen)
    return f"{kind.__module__}.{kind.__qualname__} {own} {holds}"


def _function(function: types.FunctionType, seen: tuple[Any, ...]) -> str:
    code = function.__code__
    refers: dict[str, Any] = {}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            refers[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    for name in sorted(set(_global_names(code)) & function.__globals__.keys()):
        value = function.__globals__[name]
        own = isinstance(value, types.FunctionType) and value.__module__ == function.__module__
        if own or isinstance(value, (*_PLAIN, tuple, list, dict)):
            refers[name] = value
    text = _source(function) or "\n".join(_bytecode(code))
    given = (function.__defaults__, function.__kwdefaults__, refers)
    return f"{text} with {describe(given, seen)}"


def _global_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def _bytecode(code: types.CodeType) -> Iterator[str]:
    yield repr((code.co_code, code.co_names, code.co_varnames))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _bytecode(constant)
        else:
            yield repr(constant)


def _source(function: types.FunctionType) -> str:
    """Return the source without comments and docstring, or "" if it is not available."""
    try:
        lines, _ = inspect.findsource(function)
        tree = _parsed("".join(lines))
    except (OSError, TypeError, SyntaxError, ValueError):
        return ""
    code = function.__code__
    places = [
        (line, column)
        for line, _, column, _ in code.co_positions()
        # The first instruction of a function has the position of its definition, not of its body.
        if line is not None and column is not None and (line, column) != (code.co_firstlineno, 0)
    ]
    holding: list[Any] = [
        node for node in ast.walk(tree) if _holds(node, function.__name__, places)
    ]
    if not holding:
        return ""
    return _unparsed(min(holding, key=lambda n: (n.end_lineno - n.lineno, n.end_col_offset)))


@functools.lru_cache(maxsize=16)
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _holds(node: Any, name: str, places: list[tuple[int, int]]) -> bool:
    """Return whether a node is a function with this name whose body contains all positions."""
    if isinstance(node, ast.Lambda):
        if name != "<lambda>":
            return False
        body: list[Any] = [node.body]
    elif isinstance(node, ast.FunctionDef) and node.name == name:
        body = node.body
    else:
        return False
    begin = (body[0].lineno, body[0].col_offset)
    end = (body[-1].end_lineno, body[-1].end_col_offset)
    return bool(places) and all(begin <= place <= end for place in places)


def _unparsed(node: Any) -> str:
    if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
        node = ast.FunctionDef(**{**vars(node), "body": node.body[1:] or [ast.Pass()]})
    return ast.unparse(node)
