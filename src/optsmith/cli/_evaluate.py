"""`optsmith evaluate`: compares recipes on a task."""

from __future__ import annotations

import json
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
from optsmith.cli._rules import complete_rule, json_option


@click.command()
@task_argument
@click.argument("recipes", nargs=-1, metavar="RULE...", shell_complete=complete_rule)
@baselines_option("none")
@protocol_options
@run_options
@storage_option
@click.option("--study", help="Store evaluations in this study; the same command resumes.")
@json_option
def evaluate(
    task: str, recipes: tuple[str, ...], baselines: str, as_json: bool, **options: Any
) -> None:
    """Compare rules and baselines on TASK at full length, with tuned learning rates.

    RULE is a rule, a zoo name, or a baseline such as torch:adam, torch:sgd+cosine, pgd or apgd.
    """
    from rich.console import Console

    from optsmith.cli._result import evaluation_json, result_console
    from optsmith.cli._table import comparison_table
    from optsmith.optim import find_baselines, parse_recipe
    from optsmith.study import evaluate as run_evaluate
    from optsmith.task import find_task

    # The task first: a user's file may register the operators of the rules.
    found = find_task(task, options.pop("data_dir"))
    chosen = [parse_recipe(text) for text in recipes]
    opponents, notes = find_baselines(baselines, found.baselines)
    chosen += opponents
    protocol = changed_protocol(found.preset(options.pop("preset")).protocol, options)
    errors = Console(stderr=True)
    for note in notes:
        errors.print(note, highlight=False, soft_wrap=True)
    with errors.status("evaluating") as status:
        done: list[str] = []

        def observe(evaluation: Any) -> None:
            done.append(evaluation.recipe)
            status.update(f"evaluating: {len(done)} of {len(chosen)}")

        comparison = run_evaluate(found, chosen, protocol=protocol, observer=observe, **options)
    if as_json:
        rows = [evaluation_json(e) for e in comparison.rows]
        click.echo(json.dumps({"task": found.name, "rows": rows}, indent=2))
    else:
        console = result_console()
        console.print(comparison_table(comparison, width=console.width))
