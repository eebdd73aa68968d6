"""Dataclasses read from stored JSON, checked against their annotations."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from optsmith._errors import OptsmithError, StudyError

T = TypeVar("T")
Reader = Callable[[Any], Any]

_SHOWN = 40
_LARGEST = 2**63
_KINDS: dict[type, str] = {str: "a text", bool: "true or false", int: "an integer"}


class _Mismatch(Exception):  # noqa: N818 - internal: `read` raises a StudyError
    """Raised by readers; the message has the path of the value and the problem."""


def damaged(what: str, problem: str) -> StudyError:
    """Return the error for stored data that is not as it was written."""
    return StudyError(
        f"{what} is damaged: {problem}; restore the study from a backup, or give another --study"
    )


def plain(value: Any) -> Any:
    """Return dataclasses and containers as plain data; numbers that are not finite are None."""
    # Through text, because the encoder is fast and curves are long.
    return json.loads(json.dumps(value, default=asdict), parse_constant=lambda _: None)


def read(kind: type[T], data: Any, what: str, **given: Any) -> T:
    """Return stored data as an object of a dataclass.

    All fields must be present with values of their annotated types, and there must be no others. A
    None stands for a `float` that was not finite when it was written.

    Args:
        kind: The dataclass.
        data: The data as JSON has it.
        what: What the data is, for messages.
        given: Values of fields that are not in the data.

    Raises:
        StudyError: The data does not match.
    """
    try:
        return _read_fields(kind, data, given)
    except _Mismatch as mismatch:
        raise damaged(what, str(mismatch)) from None


def _read_fields(kind: type[T], data: Any, given: Mapping[str, Any]) -> T:
    if not isinstance(data, Mapping):
        raise _Mismatch(f"{_show(data)} is not an object")
    readers: dict[str, Reader] = _readers(kind)  # type: ignore[arg-type]
    for name in data:
        if name not in readers:
            raise _Mismatch(f'there is an unknown field "{name}"')
    values = dict(given)
    for name, reader in readers.items():
        if name in given:
            continue
        if name not in data:
            raise _Mismatch(f'the field "{name}" is missing')
        try:
            values[name] = reader(data[name])
        except _Mismatch as mismatch:
            raise _Mismatch(f"{name}: {mismatch}") from None
    try:
        return kind(**values)
    except OptsmithError as error:  # the dataclass checks its values
        raise _Mismatch(str(error)) from None


@cache
def _readers(kind: type) -> dict[str, Reader]:
    hints = get_type_hints(kind)
    return {f.name: _reader(hints[f.name]) for f in fields(kind)}


@cache
def _reader(hint: Any) -> Reader:
    """Return the function that reads values of an annotated type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda value: value
    if hint is float:
        return _read_float
    if hint in _KINDS:
        return _plain(hint)
    if origin in (Union, UnionType):
        return _union([_reader(a) for a in arguments if a is not NoneType], NoneType in arguments)
    if origin is Literal:
        return _choice({value: value for value in arguments})
    if origin is tuple:
        return _items(arguments)
    if origin is Mapping:
        return _mapping(_reader(arguments[1]))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _choice({member.value: member for member in hint})
    if is_dataclass(hint):
        return lambda value: _read_fields(hint, value, {})  # type: ignore[arg-type]
    raise TypeError(f"stored data cannot have the type {hint}")


def _read_float(value: Any) -> float:
    if value is None:
        return float("nan")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not abs(value) <= sys.float_info.max:
        raise _Mismatch(f"{_show(value)} is not a finite number")
    return float(value)


def _plain(kind: type) -> Reader:
    def reader(value: Any) -> Any:
        if type(value) is not kind or (isinstance(value, int) and abs(value) > _LARGEST):
            raise _Mismatch(f"{_show(value)} is not {_KINDS[kind]}")
        return value

    return reader


def _union(readers: list[Reader], optional: bool) -> Reader:
    def reader(value: Any) -> Any:
        if value is None and optional:
            return None
        for first in readers[:-1]:
            try:
                return first(value)
            except _Mismatch:
                continue
        return readers[-1](value)

    return reader


def _choice(values: Mapping[str, Any]) -> Reader:
    def reader(value: Any) -> Any:
        if not isinstance(value, str) or value not in values:
            raise _Mismatch(f"{_show(value)} is not one of {', '.join(values)}")
        return values[value]

    return reader


def _items(hints: tuple[Any, ...]) -> Reader:
    readers = [_reader(hint) for hint in hints if hint is not ...]

    def reader(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise _Mismatch(f"{_show(value)} is not a list")
        if hints[-1] is ...:
            return tuple([readers[0](item) for item in value])
        if len(value) != len(readers):
            raise _Mismatch(f"{_show(value)} does not have {len(readers)} items")
        return tuple([read(item) for read, item in zip(readers, value, strict=True)])

    return reader


def _mapping(item: Reader) -> Reader:
    def reader(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _Mismatch(f"{_show(value)} is not an object")
        return {name: item(each) for name, each in value.items()}

    return reader


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
