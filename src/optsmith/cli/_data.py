"""`optsmith data`: lists, downloads and locates datasets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from optsmith._errors import DataError
from optsmith.cli._rules import json_option

if TYPE_CHECKING:
    from optsmith.data import Dataset


def complete_dataset(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete names of datasets."""
    from optsmith.data import datasets

    return [
        CompletionItem(name, help=dataset.title)
        for name, dataset in datasets.items()
        if name.startswith(incomplete)
    ]


data_dir_option = click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    help="Directory to search first; contains the files, or a folder named like the dataset.",
)
_name_argument = click.argument("name", shell_complete=complete_dataset)


@click.group("data")
def data_command() -> None:
    """List, download and locate datasets.

    A dataset is searched in --data-dir, OPTSMITH_DATA, the cache (OPTSMITH_CACHE) and installed
    packages; if it is not found, it is downloaded into the cache. All files are verified.
    """


def _describe(dataset: Dataset, data_dir: Path | None) -> dict[str, Any]:
    """Return the properties of a dataset that `list` prints."""
    from optsmith.data import locate

    problem = ""
    try:
        place = locate(dataset, data_dir)
    except DataError as error:
        place, problem = None, str(error)
    return {
        "name": dataset.name,
        "title": dataset.title,
        "bytes": dataset.size,
        "present": place is not None,
        "from": place.kind if place else None,
        "path": str(place.directory) if place else None,
        "problem": problem,
        "licence": dataset.licence,
        "citation": dataset.citation,
    }


@data_command.command("list")
@data_dir_option
@json_option
def list_command(data_dir: Path | None, as_json: bool) -> None:
    """List the datasets with size, licence and location on this machine."""
    from optsmith.data import datasets

    entries = [_describe(dataset, data_dir) for dataset in datasets.values()]
    if as_json:
        click.echo(json.dumps(entries, indent=2))
        return
    width = max(len(entry["name"]) for entry in entries)
    for entry in entries:
        state = f"not on this machine; `optsmith data fetch {entry['name']}` downloads it"
        if entry["present"]:
            state = f"{entry['path']} ({entry['from']})"
        name = click.style(f"{entry['name']:<{width}}", bold=True)
        margin = " " * (width + 2)
        click.echo(f"{name}  {entry['title']}, {entry['bytes'] / 1e6:.1f} MB")
        click.echo(f"{margin}{entry['problem'] or state}")
        click.echo(f"{margin}{entry['licence']}. {entry['citation']}")


@data_command.command("fetch")
@_name_argument
@data_dir_option
@json_option
def fetch_command(name: str, data_dir: Path | None, as_json: bool) -> None:
    """Download NAME if necessary, verify its files, and print its directory."""
    from optsmith.data import fetch

    path = str(fetch(name, data_dir))
    click.echo(json.dumps({"name": name, "path": path}) if as_json else path)


@data_command.command("where")
@_name_argument
@data_dir_option
@json_option
def where_command(name: str, data_dir: Path | None, as_json: bool) -> None:
    """Print the directory of NAME on this machine, without downloading."""
    from optsmith.data import where

    path = where(name, data_dir)
    if as_json:
        click.echo(json.dumps({"name": name, "path": str(path) if path else None}))
    elif path is None:
        raise DataError(f"{name} is not on this machine; `optsmith data fetch {name}` downloads it")
    else:
        click.echo(str(path))
