"""`optsmith export`: a rule as a file that does not need us."""

from __future__ import annotations

from pathlib import Path

import click

from optsmith._errors import OptsmithError
from optsmith._files import write_atomically
from optsmith.cli._rules import rule_argument
from optsmith.rules import Rule


@click.command()
@rule_argument
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write.")
@click.option("--name", help="Name of the class; by default the zoo's name or FoundRule.")
@click.option("--force", is_flag=True, help="Write over a file that exists.")
def export(rule: Rule, output: Path | None, name: str | None, force: bool) -> None:
    """Write RULE as a torch optimizer in one file that needs torch alone.

    Without --output the file is printed.
    """
    from optsmith.optim import export as export_rule

    text = export_rule(rule, name)
    if output is None:
        click.echo(text, nl=False)
        return
    if output.exists() and not force:
        raise OptsmithError(f"{output} exists; give --force to write over it")
    write_atomically(output, text)
    click.echo(f"wrote {output}", err=True)
