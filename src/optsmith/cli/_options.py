"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

Command = Callable[..., Any]


def complete_task(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the names of tasks."""
    from optsmith.task import tasks

    return [
        CompletionItem(name, help=entry.description)
        for name, entry in tasks.items()
        if name.startswith(incomplete)
    ]


def numbers(_: click.Context, __: click.Parameter, text: str | None) -> tuple[float, ...] | None:
    """Return a comma-separated list of numbers, in order."""
    if text is None:
        return None
    try:
        return tuple(sorted(float(part) for part in text.split(",")))
    except ValueError:
        raise click.BadParameter(f'"{text}" is not a list of numbers such as 0.01,0.1,1') from None


task_argument = click.argument("task", metavar="TASK", shell_complete=complete_task)


def protocol_options(command: Command) -> Command:
    """Add the options that choose and change a protocol."""
    options = [
        click.option("--preset", default="quick", show_default=True, help="quick, paper or smoke."),
        click.option("--lrs", callback=numbers, help="Learning-rate grid, such as 0.01,0.1,1."),
        click.option("--steps", type=int, help="Steps of the runs that score during a search."),
        click.option("--proxy-steps", type=int, help="Steps of the grid's runs during a search."),
        click.option("--final-steps", type=int, help="Steps of the runs of the final evaluation."),
        click.option("--tune-steps", type=int, help="Steps of the final evaluation's grid runs."),
        click.option("--score-seeds", type=int, help="Seeds that score during a search."),
        click.option("--final-seeds", type=int, help="Seeds of the final evaluation."),
        click.option(
            "--lr-search",
            type=click.Choice(["grid", "halving", "auto"]),
            help="The whole grid; halved twice on the way; or placed by the rule's own size.",
        ),
        click.option("--extend-grid", is_flag=True, help="Follow a best lr at the grid's edge."),
        click.option("--no-threshold", is_flag=True, help="Accept any score."),
        click.option("--no-early-stop", is_flag=True, help="Train all learning rates to the end."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def changed_protocol(protocol: Any, options: dict[str, Any]) -> Any:
    """Return the protocol with what the options change; takes them out of `options`."""
    names = ("lrs", "steps", "proxy_steps", "final_steps", "tune_steps", "score_seeds")
    given = {name: options.pop(name) for name in (*names, "final_seeds", "lr_search")}
    changes = {name: value for name, value in given.items() if value is not None}
    if options.pop("extend_grid"):
        changes["extend_grid"] = True
    if options.pop("no_threshold"):
        changes["threshold"] = None
    if options.pop("no_early_stop"):
        changes["early_stop"] = False
    return protocol.replace(**changes)


def run_options(command: Command) -> Command:
    """Add the options that say where and how things run."""
    options = [
        click.option(
            "--workers", type=click.IntRange(0), help="Processes; by default one per core."
        ),
        click.option("--device", default="cpu", show_default=True, help="Where to train."),
        click.option("--time-limit", type=float, help="Seconds that one evaluation may take."),
        click.option(
            "--stack", type=click.IntRange(1), help="Model copies trained together; 1: none."
        ),
        click.option("--data-dir", type=click.Path(path_type=Path), help="Where the data is."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


storage_option = click.option(
    "--storage", help="Directory or file of the journal, or a URL such as postgresql://…"
)
