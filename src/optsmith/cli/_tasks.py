"""`optsmith tasks`: lists the built-in tasks."""

from __future__ import annotations

import json

import click

from optsmith.cli._rules import json_option


@click.command("tasks")
@json_option
def tasks_command(as_json: bool) -> None:
    """List the built-in tasks."""
    from optsmith.task import tasks

    if as_json:
        rows = [{"name": e.name, "description": e.description} for e in tasks.values()]
        click.echo(json.dumps(rows, indent=2))
        return
    width = max(map(len, tasks))
    for entry in tasks.values():
        click.echo(f"{entry.name:<{width}}  {entry.description}")
    click.echo("\nTasks of your own are given as file.py:name; see examples/.")
