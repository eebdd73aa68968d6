"""`optsmith search`: find a rule for a task."""

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
@click.option("--budget", type=int, help="Rules to accept.")
@click.option(
    "--algorithm",
    default="mct",
    show_default=True,
    help=f"{', '.join(searchers)}, or your own as file.py:Class.",
)
@searcher_options
@click.option("--space", help="Name of the space.")
@click.option("--seed", default=0, show_default=True, help="Seed of the search.")
@click.option("--proposals", type=int, help="Rules compared in the end.")
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
    help="Refuse rules that fail the stricter test along a trajectory, too.",
)
@click.option(
    "--dedupe",
    type=click.Choice(["none", "equal", "scale"]),
    help="Which rules count as duplicates; scale: those that differ by a factor, too.",
)
@run_options
@storage_option
@click.option("--study", help="Name of the study; by default made of the settings.")
@click.option("--no-baselines", is_flag=True, help="Compare the rules found with nothing else.")
@click.option("--report", type=click.Path(path_type=Path), help="Where to write the HTML report.")
@json_option
def search(
    task: str,
    no_baselines: bool,
    report: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Search for the optimizer that trains TASK best.

    TASK is a name (`optsmith tasks` lists them) or your own as file.py:name. Running the same
    command again continues a search that was interrupted.
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
            "\ninterrupted; all that finished is recorded. The same command continues the search.",
            highlight=False,
            soft_wrap=True,
        )
        sys.exit(130)
    page = write_report(study, report, command=command_line())
    if as_json:
        click.echo(json.dumps(study_json(study), indent=2))
    else:
        print_study(study, result_console())
    console.print(f"report: {page}", highlight=False, soft_wrap=True)


def command_line() -> str:
    """Return the command as it was typed, passwords masked."""
    import shlex

    from optsmith.study import mask

    return shlex.join(["optsmith", *(mask(word) for word in sys.argv[1:])])
