"""`optsmith search`: searches for a rule for a task."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from optsmith.cli._options import (
    changed_protocol,
    protocol_options,
    run_options,
    storage_option,
    task_argument,
)
from optsmith.cli._rules import json_option
from optsmith.cli._searchers import searcher_options, take_options
from optsmith.searchers import searchers


@click.command()
@task_argument
@protocol_options
@click.option("--budget", type=int, help="Number of rules to accept.")
@click.option(
    "--algorithm",
    default="mct",
    show_default=True,
    help=f"{', '.join(searchers)}, or a searcher of your own as file.py:Class.",
)
@searcher_options
@click.option("--space", help="Name of the space.")
@click.option("--seed", default=0, show_default=True, help="Seed of the search.")
@click.option("--proposals", type=int, help="Number of rules in the final evaluation.")
@click.option(
    "--descent-test/--no-descent-test",
    "descent",
    default=None,
    help="Refuse rules that fail the paper's descent test.",
)
@click.option(
    "--trajectory-test/--no-trajectory-test",
    "trajectory",
    default=None,
    help="Also refuse rules that fail the stricter test along a trajectory.",
)
@click.option(
    "--dedupe",
    type=click.Choice(["none", "equal", "scale"]),
    help="Which rules count as duplicates; scale: also rules that differ by a positive factor.",
)
@run_options
@storage_option
@click.option("--study", help="Name of the study; by default task, preset, algorithm and seed.")
@click.option("--no-baselines", is_flag=True, help="Do not evaluate the baselines.")
@click.option("--report", type=click.Path(path_type=Path), help="File of the HTML report.")
@json_option
def search(
    task: str,
    no_baselines: bool,
    report: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Search for the optimizer that trains TASK best.

    TASK is a name (`optsmith tasks` lists them) or a task of your own as file.py:name. The same
    command resumes a search that was interrupted.
    """
    from rich.console import Console

    from optsmith.cli._progress import make_display
    from optsmith.cli._result import print_study, result_console, study_json
    from optsmith.report import write_report
    from optsmith.study import search as run_search
    from optsmith.task import find_task

    console = Console(stderr=True)
    found = find_task(task, options.pop("data_dir"))
    protocol = changed_protocol(found.preset(options["preset"]).protocol, options)
    searcher_settings = take_options(options)
    try:
        study = run_search(
            found,
            protocol=protocol,
            options=searcher_settings,
            compare=[] if no_baselines else None,
            observer=make_display(console),
            **options,
        )
    except KeyboardInterrupt:
        console.print(
            "\ninterrupted; finished evaluations are stored. The same command resumes the search.",
            highlight=False,
            soft_wrap=True,
        )
        sys.exit(130)
    page = write_report(study, report)
    if as_json:
        click.echo(json.dumps(study_json(study), indent=2))
    else:
        print_study(study, result_console())
    console.print(f"report: {page}", highlight=False, soft_wrap=True)
