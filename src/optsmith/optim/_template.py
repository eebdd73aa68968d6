"""Templates of exported files: placeholders «name», and sections between # «name» and # «/name»."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from importlib import resources


def fill(template: str, parts: Mapping[str, str], without: Collection[str] = ()) -> str:
    """Return the text of a template of this package.

    Args:
        template: Name of the file.
        parts: Texts that replace the placeholders.
        without: Names of sections to leave out.
    """
    text = resources.files("optsmith.optim").joinpath(template).read_text(encoding="utf-8")
    for name in without:
        text = re.sub(rf"^ *# «{name}»\n.*?^ *# «/{name}»\n", "", text, flags=re.DOTALL | re.M)
    text = re.sub(r"^ *# «/?[\w ]+»\n", "", text, flags=re.MULTILINE)
    for name, part in parts.items():
        text = text.replace(f"«{name}»", part)
    return re.sub(r"\n{4,}", "\n\n\n", text).rstrip() + "\n"


def make_source(
    call: str,
    lr: float | None,
    *,
    factor: str = "",
    needs_length: bool = False,
    needs_model: bool = False,
    switches: bool = False,
) -> str:
    """Return the source of the function `make_optimizer`.

    Args:
        call: Expression that constructs the optimizer.
        lr: Default learning rate, if any.
        factor: Factor of the learning rate as an expression of tau; empty: a constant one.
        needs_length: Whether `total_steps` is required; otherwise, it may be omitted.
        needs_model: Whether it is constructed from a model instead of its parameters.
        switches: Whether it evaluates other weights than it trains.
    """
    model = needs_model or switches
    parts = {
        "accepts": f"torch.nn.Module{'' if model else ' | Iterable[Any]'}",
        "whose": "a model" if model else "a model, or of parameters",
        "call": call,
        "factor": factor,
        **defaults(lr, needs_length or bool(factor)),
    }
    sections = {"schedule": factor, "params": not needs_model, "switch": switches}
    return fill("make_template.py.txt", parts, [name for name, on in sections.items() if not on])


def defaults(lr: float | None, needs_length: bool) -> dict[str, str]:
    """Return the defaults of `lr` and `total_steps` in a signature.

    A parameter after one with a default must have one, too; a missing length raises.
    """
    return {
        "lr": "" if lr is None else f" = {lr!r}",
        "total": "" if needs_length and lr is None else " | None = None",
    }
