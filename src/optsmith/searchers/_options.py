"""Options of searchers, declared as a dataclass and parsed from values or strings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, get_type_hints

from optsmith._errors import OptsmithError
from optsmith._registry import did_you_mean

_KINDS = {int: "an integer", float: "a number", bool: "yes or no", str: "a string"}
_YES_NO = {"yes": True, "true": True, "no": False, "false": False}


@dataclass(frozen=True, slots=True)
class OptionField:
    """One option of a searcher.

    Attributes:
        name: Name of the option.
        kind: Type: `int`, `float`, `bool` or `str`.
        default: Default value.
        help: Description in one line.
    """

    name: str
    kind: type
    default: Any
    help: str


def option(default: Any, help: str) -> Any:
    """Declare an option as a field of a searcher's `Options`.

    Args:
        default: Default value, of the field's type.
        help: Description in one line, shown by `optsmith search --help`.
    """
    return field(default=default, metadata={"help": help})


def option_fields(options: type) -> list[OptionField]:
    """Return the options declared by an `Options` class.

    Raises:
        OptsmithError: A field has an unsupported type.
    """
    kinds = get_type_hints(options)
    found = []
    for f in fields(options):
        if kinds[f.name] not in _KINDS:
            raise OptsmithError(f'the option "{f.name}" must be an int, float, bool or str')
        found.append(OptionField(f.name, kinds[f.name], f.default, f.metadata.get("help", "")))
    return found


def read_options(algorithm: str, options: type, given: Mapping[str, Any]) -> Any:
    """Return an instance of an `Options` class.

    Args:
        algorithm: Name of the searcher, for error messages.
        options: The class.
        given: Values by name; strings are parsed as values of the option's type.

    Raises:
        OptsmithError: An option does not exist, or a value has the wrong type.
    """
    declared = {f.name: f for f in option_fields(options)}
    values = {}
    for name, value in given.items():
        if name not in declared:
            known = f"; it has {', '.join(declared)}" if declared else "; it has none"
            hint = did_you_mean(name, declared) or known
            raise OptsmithError(f'the search algorithm {algorithm} has no option "{name}"{hint}')
        values[name] = _read(declared[name], value)
    return options(**values)


def _read(declared: OptionField, value: Any) -> Any:
    kind = declared.kind
    fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if fits:
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        try:
            return _YES_NO[value.casefold()] if kind is bool else kind(value)
        except (KeyError, ValueError):
            pass
    raise OptsmithError(f'the option "{declared.name}" must be {_KINDS[kind]}, not {value!r}')
