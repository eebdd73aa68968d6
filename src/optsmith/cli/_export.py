"""`optsmith export`: writes a rule as a standalone Python file."""

from __future__ import annotations

from pathlib import Path

import click

from optsmith._errors import OptsmithError
from optsmith._files import write_atomically
from optsmith.cli._rules import rule_argument
from optsmith.rules import Rule


@click.command()
@rule_argument
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Output file.")
@click.option("--name", help="Class name; by default the zoo name, or FoundRule.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def export(rule: Rule, output: Path | None, name: str | None, force: bool) -> None:
    """Export RULE as a torch optimizer in one file that depends on torch only.

    Without --output the file is printed.
    """
    from optsmith.optim import export as export_rule

    text = export_rule(rule, name)
    if output is None:
        click.echo(text, nl=False)
        return
    if output.exists() and not force:
        raise OptsmithError(f"{output} exists; use --force to overwrite it")
    write_atomically(output, text)
    click.echo(f"wrote {output}", err=True)
