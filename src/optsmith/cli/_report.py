"""`optsmith report`: prints a study as HTML, CSV or JSON."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import click

from optsmith.cli._options import storage_option
from optsmith.cli._rules import json_option


@click.command()
@click.argument("study")
@storage_option
@click.option("-o", "--output", type=click.Path(path_type=Path), help="HTML file to write.")
@click.option("--csv", "as_csv", is_flag=True, help="Print all evaluations as CSV instead.")
@json_option
def report(
    study: str, storage: str | None, output: Path | None, as_csv: bool, as_json: bool
) -> None:
    """Write the HTML report of STUDY, finished or not, or print all its evaluations.

    STUDY is the name of a study or the path of its journal.
    """
    from optsmith.cli._result import study_json
    from optsmith.report import write_report
    from optsmith.study import Study, study_row

    path = Path(study)
    if storage is None and path.suffix == ".journal":
        storage, study = str(path.parent), path.stem
    found = Study.load(study, storage)
    rows = [study_row(record) for record in found.records]
    if as_csv:
        writer = csv.DictWriter(sys.stdout, list(rows[0]) if rows else ["rule"])
        writer.writeheader()
        writer.writerows(rows)
    elif as_json:
        click.echo(json.dumps({**study_json(found), "candidates": rows}, indent=2))
    else:
        click.echo(write_report(found, output))
