"""`optsmith card`: prints the claim card of a study."""

from __future__ import annotations

from pathlib import Path

import click

from optsmith._files import write_atomically
from optsmith.cli._options import storage_option


@click.command()
@click.argument("study")
@storage_option
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Markdown file to write.")
def card(study: str, storage: str | None, output: Path | None) -> None:
    """Print the claim card of STUDY as Markdown, to paste into a pull request.

    It has the claim with its interval, the opponents and how they were tuned, seeds and cost, and
    what was not tested. STUDY is the name of a study or the path of its journal.
    """
    from optsmith.report import card as card_of
    from optsmith.study import Study

    path = Path(study)
    if storage is None and path.suffix == ".journal":
        storage, study = str(path.parent), path.stem
    text = card_of(Study.load(study, storage))
    if output is None:
        click.echo(text, nl=False)
        return
    write_atomically(output, text)
    click.echo(f"wrote {output}", err=True)
