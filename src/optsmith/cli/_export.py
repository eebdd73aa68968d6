"""`optsmith export`: writes an optimizer as a standalone Python file."""

from __future__ import annotations

import re
from pathlib import Path

import click

from optsmith._errors import OptsmithError, RuleError
from optsmith._files import write_atomically
from optsmith.cli._options import storage_option
from optsmith.cli._rules import complete_rule


@click.command()
@click.argument("source", metavar="STUDY|RULE|BASELINE", shell_complete=complete_rule)
@storage_option
@click.option("--recipe", help="Another rule or baseline of the study, by default the recommended.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Output file.")
@click.option("--name", help="Class name of a rule; by default the zoo name, or FoundRule.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def export(
    source: str,
    storage: str | None,
    recipe: str | None,
    output: Path | None,
    name: str | None,
    force: bool,
) -> None:
    """Export an optimizer as one file that depends on torch only.

    STUDY is the name of a study or the path of its journal: what it recommends is exported, with
    the tuned learning rate as the default. RULE is a rule or a zoo name, BASELINE a name such as
    torch:adamw+cosine. With --storage, a name is that of a study. Without --output the file is
    printed.
    """
    text = _source(source, storage, recipe, name)
    if output is None:
        click.echo(text, nl=False)
        return
    if output.exists() and not force:
        raise OptsmithError(f"{output} exists; use --force to overwrite it")
    write_atomically(output, text)
    click.echo(f"wrote {output}", err=True)


def _source(source: str, storage: str | None, recipe: str | None, name: str | None) -> str:
    from optsmith.optim import export_recipe, parse_recipe

    path = Path(source)
    if storage is None and path.suffix == ".journal":
        return _of_study(path.stem, str(path.parent), recipe, name)
    if storage is not None or recipe is not None:
        return _of_study(source, storage, recipe, name)
    try:
        found = parse_recipe(source)
    except OptsmithError as error:
        from optsmith.study import list_studies

        if source in list_studies(None):
            return _of_study(source, None, recipe, name)
        if re.fullmatch(r"[\w.-]+", source):
            why, _, _ = str(error).partition("; known:")  # a list of operators would not help
            raise OptsmithError(f'"{source}" is not a study, and {why}') from None
        raise
    return export_recipe(found, name)


def _of_study(study: str, storage: str | None, recipe: str | None, name: str | None) -> str:
    from optsmith.study import Study
    from optsmith.task import find_task

    found = Study.load(study, storage)
    task: str = found.about["source"]
    try:
        return found.export(recipe=recipe, name=name)
    except RuleError:
        if ".py:" not in task:
            raise
    find_task(task)  # the user's file registers the operators of the rule
    return found.export(recipe=recipe, name=name)
