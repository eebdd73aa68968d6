"""Code that uses a recipe, with buttons that copy it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from optsmith.report._html import Content, Markup, tag
from optsmith.report._values import finite

RULE = (
    "from optsmith import RuleOptimizer\n\n"
    "optimizer = RuleOptimizer(\n"
    "    model, {rule},\n    lr={lr}, total_steps=total_steps,\n)"
)
"""Code for rules, unless the task has its own. The model tells the roles of its parameters."""

FILE = (
    "from my_optimizer import make_optimizer\n\n"
    "optimizer = make_optimizer(model, lr={lr}, total_steps=total_steps)"
)
"""Code for the file that `optsmith export` writes."""


def copyable(text: str, what: str) -> Markup:
    """Return a line of code with a button that copies it."""
    button = tag("button", "Copy", type="button", hidden=True, aria_label=f"Copy {what}")
    # Browsers break lines after hyphens, which would split options.
    words = [tag("span", word) if "-" in word else word for word in re.split(r"(\s+)", text)]
    return tag("div", tag("pre", tag("code", words)), button, class_="copy")


def shell(argument: str) -> str:
    """Return an argument quoted for a shell."""
    if not any(character in argument for character in '"$`\\!'):
        return f'"{argument}"'
    return "'" + argument.replace("'", "'\\''") + "'"


def _filled(code: str, recipe: Mapping[str, Any]) -> str:
    lr = finite(recipe.get("lr"))
    rate = "lr" if lr is None else f"{lr:g}"
    return code.replace("{rule}", json.dumps(recipe["recipe"])).replace("{lr}", rate)


def commands(data: Mapping[str, Any]) -> tuple[str, str]:
    """Return the command that exports the recommended recipe, and the code that uses it.

    There is no command if the recipe is not used as an optimizer, and neither for an opponent that
    only the task knows.
    """
    recipe, own = data["recommended"], (data.get("task") or {}).get("usage")
    if own:
        return "", _filled(own, recipe) if recipe["kind"] == "rule" else ""
    first = "-- " if recipe["recipe"].startswith("-") else ""
    command = f"optsmith export -o my_optimizer.py {first}{shell(recipe['recipe'])}"
    return command, _filled(FILE, recipe)


def usage(data: Mapping[str, Any]) -> list[Content]:
    """Return how the recommended recipe is used."""
    command, python = commands(data)
    if not python:
        return []
    heading = tag("h3", "Use it")
    if not command:
        return [heading, copyable(python, "the Python code")]
    recipe = data["recommended"]
    installed = None
    if recipe["kind"] == "rule":
        installed = tag("div", tag("p", "Or with Optsmith installed", class_="note"),
                        copyable(_filled(RULE, recipe), "the Python code"))  # fmt: skip
    return [
        heading,
        tag(
            "div",
            tag("div", tag("p", "As a file that depends on torch only", class_="note"),
                copyable(command, "the command"), copyable(python, "the code for the file")),
            installed,
            class_="usage",
        ),
    ]  # fmt: skip
