"""`optsmith evaluate`: compares recipes on a task."""

from __future__ import annotations

import json
from typing import Any

import click

from optsmith.cli._options import (
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
@click.option("--baselines", is_flag=True, help="Also evaluate the task's baselines.")
@protocol_options
@run_options
@storage_option
@click.option("--study", help="Store evaluations in this study; the same command resumes.")
@json_option
def evaluate(
    task: str, recipes: tuple[str, ...], baselines: bool, as_json: bool, **options: Any
) -> None:
    """Compare rules and baselines on TASK at full length, with tuned learning rates.

    RULE is a rule, a zoo name, or a baseline such as torch:adam, torch:sgd+cosine, pgd or apgd.
    """
    from rich.console import Console

    from optsmith.cli._result import comparison_table, evaluation_json, result_console
    from optsmith.optim import parse_recipe
    from optsmith.study import evaluate as run_evaluate
    from optsmith.task import find_task

    # The task first: a user's file may register the operators of the rules.
    found = find_task(task, options.pop("data_dir"))
    chosen = [parse_recipe(text) for text in recipes]
    chosen += found.baselines.values() if baselines else []
    protocol = changed_protocol(found.preset(options.pop("preset")).protocol, options)
    errors = Console(stderr=True)
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
        result_console().print(comparison_table(comparison))
