"""Arguments and options that several commands share."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from optsmith._zoo import named_rule, zoo

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON only.")


def complete_rule(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the zoo names that start with `incomplete`."""
    return [
        CompletionItem(name, help=entry.text)
        for name, entry in zoo.items()
        if name.startswith(incomplete)
    ]


rule_argument = click.argument(
    "rule", type=named_rule, metavar="RULE", shell_complete=complete_rule
)
