"""Options of searchers as options of `optsmith search`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from optsmith.searchers import OptionField, option_fields, searchers

Command = Callable[..., Any]

OTHER = "option"
"""The option for options of searchers that are not registered."""


def _declared() -> dict[str, tuple[OptionField, list[str]]]:
    """Return the options of all registered searchers, with the names of their searchers."""
    found: dict[str, tuple[OptionField, list[str]]] = {}
    for name, searcher in searchers.items():
        for field in option_fields(searcher.Options):
            found.setdefault(field.name, (field, []))[1].append(name)
    return found


def searcher_options(command: Command) -> Command:
    """Add the options of all registered searchers, and `--option` for other searchers."""
    others = click.option(
        f"--{OTHER}", OTHER, multiple=True, metavar="NAME=VALUE", help="An option of your searcher."
    )
    command = others(command)
    for field, names in reversed(_declared().values()):
        flag = f"--{field.name.replace('_', '-')}"
        if field.kind is bool:
            flag += f"/--no-{field.name.replace('_', '-')}"
        words = f"{field.help} ({', '.join(names)})"
        kind = {} if field.kind is bool else {"type": field.kind}
        command = click.option(flag, field.name, default=None, help=words, **kind)(command)
    return command


def take_options(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of searchers, and remove them from `given`."""
    named = {name: given.pop(name) for name in _declared()}
    chosen = {name: value for name, value in named.items() if value is not None}
    for text in given.pop(OTHER):
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f'--{OTHER} takes NAME=VALUE, not "{text}"')
        chosen[name.replace("-", "_")] = value
    return chosen
