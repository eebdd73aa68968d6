"""`optsmith export`: a rule as a file that does not need us."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click

from optsmith._errors import OptsmithError
from optsmith.cli._rules import rule_argument
from optsmith.rules import Rule


def write_atomically(path: Path, text: str) -> None:
    """Write a file whole or not at all.

    Raises:
        OptsmithError: It cannot be written there.
    """
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            umask = os.umask(0)
            os.umask(umask)
            Path(temporary).chmod(0o666 & ~umask)  # mkstemp's files are private
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OptsmithError(f"cannot write {path}: {error.strerror}") from None


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
