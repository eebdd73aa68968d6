"""`optsmith finish`: ends the search of a study and compares what it has found."""

from __future__ import annotations

from pathlib import Path

import click

from optsmith.cli._options import complete_task, storage_option
from optsmith.cli._rules import json_option


@click.command()
@click.argument("study")
@storage_option
@click.option(
    "--task",
    metavar="TASK",
    shell_complete=complete_task,
    help="The task, if the study does not know it: it was made in Python, or its file has moved.",
)
@click.option("--workers", type=click.IntRange(0), help="Processes; by default one per core.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Directory of the data.")
@click.option("--report", type=click.Path(path_type=Path), help="File of the HTML report.")
@json_option
def finish(
    study: str,
    storage: str | None,
    task: str | None,
    workers: int | None,
    data_dir: Path | None,
    report: Path | None,
    as_json: bool,
) -> None:
    """End the search of STUDY now: compare its best rules with the opponents, and report.

    STUDY is the name of a study or the path of its journal. Its search must not be running:
    interrupt it first. A larger --budget of `optsmith search` continues the search later.
    """
    from optsmith.cli._search import run_and_print
    from optsmith.study import Study, stored_call

    path = Path(study)
    if storage is None and path.suffix == ".journal":
        storage, study = str(path.parent), path.stem
    call = stored_call(Study.load(study, storage), task)
    run_and_print(
        report, as_json, **call, storage=storage, workers=workers, data_dir=data_dir, finish=True
    )
