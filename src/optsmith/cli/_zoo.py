"""`optsmith zoo`: lists the known rules."""

from __future__ import annotations

import json

import click

from optsmith._zoo import zoo
from optsmith.cli._rules import json_option
from optsmith.space import spaces

_COLUMN = 50  # longer texts reach into the column of notes


@click.command("zoo")
@json_option
def zoo_command(as_json: bool) -> None:
    """List known rules: published rules and classic optimizers."""
    if as_json:
        entries = [
            {
                "name": name,
                "rule": str(entry.rule),
                "text": entry.text,
                "length": entry.rule.length,
                "source": entry.source,
                "note": entry.note,
                "spaces": [n for n, space in spaces.items() if space.contains(entry.rule)],
            }
            for name, entry in zoo.items()
        ]
        click.echo(json.dumps(entries, indent=2))
        return
    names = max(map(len, zoo))
    texts = max(len(entry.text) for entry in zoo.values() if len(entry.text) <= _COLUMN)
    source = ""
    for name, entry in zoo.items():
        if entry.source != source:
            source = entry.source
            click.echo(("" if name == next(iter(zoo)) else "\n") + click.style(source, bold=True))
        click.echo(f"  {name:<{names}}  {entry.text:<{texts}}  {entry.note}")
