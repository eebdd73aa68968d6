"""Reads the rule of an exported file, without running it."""

from __future__ import annotations

import ast


def exported_rule(source: str) -> tuple[str, float | None]:
    """Return the rule of a file that `export` wrote, and its learning rate if it has one.

    The rule is empty if the file is another one, such as that of an optimizer with a schedule.
    """
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return "", None
    rule, lr, has_schedule = "", None, False
    for node in body:
        match node:
            case ast.Assign(targets=[ast.Name(id="RULE")], value=ast.Constant(value=str(text))):
                rule = text
            case ast.FunctionDef(name="schedule"):
                has_schedule = True
            case ast.FunctionDef(name="make_optimizer", args=arguments):
                lr = _default_rate(arguments)
    return ("", None) if has_schedule else (rule, lr)


def _default_rate(arguments: ast.arguments) -> float | None:
    """Return the default of the argument `lr`, if it has one."""
    with_default = arguments.args[len(arguments.args) - len(arguments.defaults) :]
    for argument, default in zip(with_default, arguments.defaults, strict=True):
        if argument.arg == "lr" and isinstance(default, ast.Constant):
            return float(default.value) if isinstance(default.value, int | float) else None
    return None
