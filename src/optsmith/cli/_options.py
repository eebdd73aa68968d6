"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

Command = Callable[..., Any]

PROXY = "proxy"
"""Value of `--tune-steps`: as many as `--proxy-steps`."""

UNTRAINED = "untrained"
"""Value of `--threshold`: the signal of an untrained model."""

_CHANGES = (
    "lrs",
    "steps",
    "proxy_steps",
    "final_steps",
    "tune_steps",
    "score_seeds",
    "final_seeds",
    "lr_search",
    "extend_grid",
    "threshold",
    "early_stop",
)


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
    """Return a comma-separated list of numbers, sorted."""
    if text is None:
        return None
    try:
        return tuple(sorted(float(part) for part in text.split(",")))
    except ValueError:
        raise click.BadParameter(f'"{text}" is not a list of numbers such as 0.01,0.1,1') from None


def steps_or_proxy(_: click.Context, __: click.Parameter, text: str | None) -> int | str | None:
    """Return a number of steps, or `proxy`."""
    try:
        return text if text is None or text == PROXY else int(text)
    except ValueError:
        raise click.BadParameter(f'"{text}" is neither an integer nor {PROXY}') from None


def number_or_untrained(
    _: click.Context, __: click.Parameter, text: str | None
) -> float | str | None:
    """Return a number, or `untrained`."""
    try:
        return text if text is None or text == UNTRAINED else float(text)
    except ValueError:
        raise click.BadParameter(f'"{text}" is neither a number nor {UNTRAINED}') from None


task_argument = click.argument("task", metavar="TASK", shell_complete=complete_task)


def protocol_options(command: Command) -> Command:
    """Add the options that select and change a protocol."""
    options = [
        click.option("--preset", default="quick", show_default=True, help="quick, paper or smoke."),
        click.option("--lrs", callback=numbers, help="Learning-rate grid, such as 0.01,0.1,1."),
        click.option("--steps", type=int, help="Steps of the scoring runs during a search."),
        click.option("--proxy-steps", type=int, help="Steps of the grid's runs during a search."),
        click.option("--final-steps", type=int, help="Steps of the final scoring runs."),
        click.option(
            "--tune-steps",
            callback=steps_or_proxy,
            metavar="INTEGER|proxy",
            help="Steps of the grid's runs in the final evaluation; proxy: as in a search.",
        ),
        click.option("--score-seeds", type=int, help="Seeds of the scoring runs during a search."),
        click.option("--final-seeds", type=int, help="Seeds of the final evaluation."),
        click.option(
            "--lr-search",
            type=click.Choice(["grid", "halving", "auto"]),
            help="Full grid, successive halving, or a grid chosen by the size of the updates.",
        ),
        click.option(
            "--extend-grid/--no-extend-grid",
            default=None,
            help="Extend the grid if the best learning rate is at its edge.",
        ),
        click.option(
            "--threshold",
            metavar="FLOAT|untrained",
            callback=number_or_untrained,
            help="Reject scores that are not better than this or than an untrained model.",
        ),
        click.option("--no-threshold", is_flag=True, help="Accept any score."),
        click.option(
            "--early-stop/--no-early-stop",
            default=None,
            help="Stop runs that meet the early-stopping criteria.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def changed_protocol(protocol: Any, options: dict[str, Any]) -> Any:
    """Return the protocol with the changes that options make; removes them from `options`."""
    given = {name: options.pop(name) for name in _CHANGES}
    changes = {name: value for name, value in given.items() if value is not None}
    if changes.get("tune_steps") == PROXY:
        changes["tune_steps"] = None
    if options.pop("no_threshold"):
        changes["threshold"] = None
    return protocol.replace(**changes)


def run_options(command: Command) -> Command:
    """Add the options for workers, device and data."""
    options = [
        click.option(
            "--workers", type=click.IntRange(0), help="Processes; by default one per core."
        ),
        click.option("--device", default="cpu", show_default=True, help="Device to train on."),
        click.option("--time-limit", type=float, help="Seconds per evaluation."),
        click.option(
            "--stack", type=click.IntRange(1), help="Model copies per stack; 1: no stacks."
        ),
        click.option("--data-dir", type=click.Path(path_type=Path), help="Directory of the data."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def baselines_option(default: str) -> Callable[[Command], Command]:
    """Return the option that chooses baselines."""
    return click.option(
        "--baselines",
        default=default,
        show_default=True,
        metavar="SET|NAME,...",
        help="Optimizers to compare with: task (those of the task), classic, modern, all, none, or"
        " names such as adamw,muon+cosine.",
    )


storage_option = click.option(
    "--storage", help="Directory or file of the journal, or a URL such as postgresql://…"
)
