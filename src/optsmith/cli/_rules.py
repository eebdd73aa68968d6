"""What commands share about rules: how an argument names one, and how options are spelled."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from optsmith._errors import RuleError
from optsmith._registry import did_you_mean
from optsmith._zoo import zoo
from optsmith.rules import Rule

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")


def named_rule(text: str) -> Rule:
    """Return the rule that an argument names (a zoo name) or writes."""
    if text in zoo:
        return zoo[text].rule
    try:
        return Rule.parse(text)
    except RuleError:
        near = did_you_mean(text, zoo) if text.replace("-", "").isalnum() else ""
        if not near:
            raise
        raise RuleError(f'there is no rule named "{text}"{near}') from None


def complete_rule(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete zoo names."""
    return [
        CompletionItem(name, help=entry.text)
        for name, entry in zoo.items()
        if name.startswith(incomplete)
    ]


rule_argument = click.argument(
    "rule", type=named_rule, metavar="RULE", shell_complete=complete_rule
)
