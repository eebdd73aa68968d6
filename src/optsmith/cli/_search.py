"""`optsmith search`: searches for a rule for a task."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from optsmith.cli._options import (
    baselines_option,
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
    "--max-time",
    metavar="DURATION",
    help="Time for the search with its final comparison, such as 30m or 1h30m.",
)
@click.option(
    "--patience",
    type=click.IntRange(1),
    help="End the search after this many accepted rules without a better one.",
)
@click.option(
    "--max-cost",
    type=click.FloatRange(0, min_open=True),
    metavar="RUNS",
    help="End the search after so many training steps, in full runs; sets the budget, too.",
)
@click.option(
    "--proxy",
    help="Search with less: steps=0.1,data=0.2 (shares), or a smaller task as file.py:name.",
)
@click.option(
    "--algorithm",
    help=f"{', '.join(searchers)}, or a searcher of your own as file.py:Class;"
    " by default that of the preset.",
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
@click.option(
    "--max-state-bytes",
    type=click.FloatRange(0),
    help="Refuse rules with more bytes of optimizer state per parameter; Adam has 8.",
)
@click.option(
    "--max-step-cost",
    type=click.FloatRange(0, min_open=True),
    help="Refuse rules whose step costs more than this many times Adam's, by a model.",
)
@click.option(
    "--start-from",
    multiple=True,
    metavar="RULE|zoo|STUDY|FILE",
    help="Rules to try first, with a learning rate as in 'g + m1 @ 0.1'; can be repeated.",
)
@click.option(
    "--warm-start/--no-warm-start",
    default=None,
    help="Try the opponents and the rules of the zoo first, up to a quarter of the budget.",
)
@click.option(
    "--refine/--no-refine",
    default=None,
    help="Shorten the best rule after the search, as long as it is not worse.",
)
@click.option(
    "--equally-tuned",
    is_flag=True,
    default=None,
    help="Also compare with the best opponent after tuning all its constants; as long again.",
)
@run_options
@storage_option
@click.option("--study", help="Name of the study; by default task, preset, algorithm and seed.")
@baselines_option("task")
@click.option("--no-baselines", is_flag=True, help="Same as --baselines none.")
@click.option("--report", type=click.Path(path_type=Path), help="File of the HTML report.")
@json_option
def search(
    task: str,
    baselines: str,
    no_baselines: bool,
    report: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Search for the optimizer that trains TASK best.

    TASK is a name (`optsmith tasks` lists them) or a task of your own as file.py:name. The same
    command resumes a search that was interrupted.
    """
    from optsmith.searchers import find_searcher
    from optsmith.study import default_searcher
    from optsmith.task import find_task

    found = find_task(task, options.get("data_dir"))
    usual = found.preset(options["preset"])
    algorithm = options["algorithm"] or default_searcher(usual, options["space"])
    protocol = changed_protocol(find_searcher(algorithm).adapted(usual).protocol, options)
    searcher_settings = take_options(options)
    run_and_print(
        report,
        as_json,
        task=found,
        protocol=protocol,
        options=searcher_settings,
        baselines="none" if no_baselines else baselines,
        **options,
    )


def run_and_print(report: Path | None, as_json: bool, **call: Any) -> None:
    """Call `optsmith.search` with a progress display, and print the result.

    Args:
        report: File of the HTML report; None: beside the study.
        as_json: Whether to print JSON.
        call: Arguments of `optsmith.search`.
    """
    from rich.console import Console

    from optsmith.cli._result import print_study, result_console, study_json
    from optsmith.display import make_display
    from optsmith.report import write_report
    from optsmith.study import search as run_search

    console = Console(stderr=True)
    try:
        # The default display would say how to continue in Python.
        display = make_display(console, again="command")
        study = run_search(**call, progress=False, observer=display)
    except KeyboardInterrupt:
        console.print(
            "\ninterrupted; finished evaluations are stored. The same command resumes the search.",
            highlight=False,
            soft_wrap=True,
        )
        sys.exit(130)
    if not study.finished:
        sys.exit(130)  # interrupted, as the display has said
    page = write_report(study, report)
    if as_json:
        click.echo(json.dumps(study_json(study), indent=2))
    else:
        print_study(study, result_console())
    console.print(f"report: {page}", highlight=False, soft_wrap=True)
