"""`optsmith compare`: compares studies of the same task."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

import click

from optsmith.cli._options import storage_option

if TYPE_CHECKING:
    from optsmith.study import StudyComparison


@click.command()
@click.argument("studies", nargs=-1, required=True, metavar="STUDY...")
@storage_option
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="File to write: .html, .svg or .csv."
)
def compare(studies: tuple[str, ...], storage: str | None, output: Path | None) -> None:
    """Compare studies of the same task: best score so far against cost, and a table.

    Each STUDY is the name of a study or the path of its journal. Studies that differ in the seed
    only form one group, shown as their median and range.
    """
    from optsmith.cli._result import result_console
    from optsmith.study import Study, compare_studies

    kind = output.suffix if output else ".html"
    if kind not in (".html", ".svg", ".csv"):
        raise click.UsageError(f'the file must end in .html, .svg or .csv, not in "{kind}"')
    comparison = compare_studies(Study.load(*_place(study, storage)) for study in studies)
    result_console().print(_table(comparison))
    if output is not None:
        from optsmith._files import write_atomically

        write_atomically(output, _content(comparison, kind))
        click.echo(output)


def _place(study: str, storage: str | None) -> tuple[str, str | None]:
    """Return name and storage of a study that is given by its name or its journal."""
    path = Path(study)
    if storage is None and path.suffix == ".journal":
        return path.stem, str(path.parent)
    return study, storage


def _content(comparison: StudyComparison, kind: str) -> str:
    """Return the content of a file of this kind."""
    from optsmith._errors import StudyError
    from optsmith.report import studies_file, studies_page

    if kind == ".html":
        return studies_page(comparison)
    if kind == ".svg":
        drawing = studies_file(comparison)
        if drawing is None:
            raise StudyError("the studies have no accepted rule to draw yet")
        return drawing
    rows = comparison.rows()
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _table(comparison: StudyComparison) -> object:
    """Return the table for the terminal."""
    from rich.table import Table

    from optsmith.report import table_cells, table_heads

    table = Table(title="medians over the studies of a group", title_justify="left")
    for name in table_heads(comparison):
        table.add_column(name, justify="right" if name else "left")
    for cells in table_cells(comparison):
        table.add_row(*cells)
    return table
