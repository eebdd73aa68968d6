"""Known optimizers as rules: how far each rule is from its reference implementation.

    python benchmarks/zoo.py --output benchmarks/results/zoo.txt

The references are those of the tests, in tests/optim/published.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click
import torch

from optsmith import zoo
from report import ROOT, header

sys.path.insert(0, str(ROOT / "tests" / "optim"))

from published import CASES, KINDS, MUON, SCHEDULES, STEPS, Case, MuonWithAdamW, differences

NOT_WRITTEN = {
    "Schedule-Free": "evaluates other weights than those at which it computes gradients",
    "SOAP": "Adam in the eigenbasis of Shampoo: its average has to be rotated with the basis",
    "Adafactor": "means of rows and columns are not operators, and its beta changes with the step",
    "AdEMAMix's schedules": "beta changes with the step; alpha alone could be a decay",
    "Prodigy": "its step size is a sum over all parameters; operators see one tensor",
}


def row(case: Case) -> str:
    """Return the largest differences of a rule, over all schedules."""
    every = [differences(case, decay) for decay in SCHEDULES]
    cells = [f"{max(found[kind] for found in every):>13.1e}" for kind in KINDS]
    return f"{case.rule:<18}{case.reference:<44}{''.join(cells)}"


@click.command()
@click.option("--output", type=click.Path(path_type=Path), help="Also write the table here.")
def main(output: Path | None) -> None:
    """Print the largest difference of each rule of the zoo from its reference."""
    torch.set_num_threads(1)
    decays = ", ".join(filter(None, SCHEDULES))
    torchs = differences(MUON, make=MuonWithAdamW)
    lines = [
        *header(),
        f"each     largest difference of the weights over {STEPS} steps, relative to the largest",
        "         distance of the reference from its start, in the same tensor and step; double",
        f"         precision; constant learning rate and the decays {decays}",
        "",
        f"{'optimizer':<18}{'reference':<44}{''.join(f'{kind:>13}' for kind in KINDS)}",
        *map(row, CASES),
        "",
        "torch's Muon iterates in bfloat16, the rule in the precision of the weights; torch's"
        f" differs\nfrom the formula by {torchs['matrix']:.1e} on matrices and"
        f" {torchs['convolution']:.1e} on convolutions.",
        "",
        "Expressions",
        *(f"{name:<18}{zoo[name].text}" for name in dict.fromkeys(case.rule for case in CASES)),
        "",
        "Not written",
        *(f"{name:<22}{reason}" for name, reason in NOT_WRITTEN.items()),
    ]
    click.echo("\n".join(lines))
    if output:
        output.write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
