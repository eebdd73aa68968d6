"""How well short runs rank rules, compared with full runs.

    python benchmarks/fidelity.py TASK [--random 120] [--seed 5] [--output FILE]

TASK is `mnistnet` (training loss, mean over the run), `digits-relu` (a wider network on digits;
validation loss over the last tenth of the run), or a task as file.py:name, such as
tasks/gpt.py:small, a GPT of half the width with batches of a quarter of the size. The rules are the
baselines as rules and the rules of the zoo, each as it is and with every decay, and random rules
that pass the screen. The reference is a full run: learning rate tuned at full length, score on 4
seeds. It is compared, by Spearman's rank correlation, with

- runs of a part of the length, with decays scaled to it: three learning rates around that of the
  full run, score on 4 other seeds; 100 % is the limit that noise sets;
- full runs of which only the first part is looked at, so that decays have the horizon of the full
  run.

Correlations are given over all rules that train, and within the better half of them, where a search
has to choose. "Lost" is how much worse, at full length, the best of the short runs is than the best
rule. An interrupted run is resumed from the study that it writes to `--storage`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click
import numpy as np
import torch
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from torch import nn

from optsmith import Rule, RuleError, Screen, Task, spaces, zoo
from optsmith.evaluation import Evaluation
from optsmith.execution import make_executor
from optsmith.optim import classic
from optsmith.study import Context, Entry, Guard, Ledger, Store, prepare, run_job
from optsmith.task import find_task
from optsmith.training import choose_stacking
from report import header

SHARES = (0.05, 0.1, 0.3, 0.5)
FULL, SHORT = "full", "short"
DECAYS = ("", "ld", "cd")
SIDE_BY_SIDE = 4


def relu_network() -> nn.Module:
    """Return a network for digits."""
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def digits_relu() -> Task:
    """Return a task that is scored on validation data."""
    images, labels = load_digits(return_X_y=True)
    data = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
    return Task.from_module(
        relu_network, data, nn.functional.cross_entropy, steps=500, batch_size=64,
        name="digits-relu",
    )  # fmt: skip


def known_rules() -> list[Rule]:
    """Return the baselines as rules and the rules of the zoo, each also with every decay."""
    forms = [baseline.as_rule() for baseline in classic.values()]
    rules = [form.rule for form in forms if form is not None]
    for entry in zoo.values():
        for decay in DECAYS:
            rules.append(Rule.parse(f"{decay}*({entry.rule})") if decay else entry.rule)
    return rules


def draw(random_rules: int, seed: int) -> list[str]:
    """Return the texts of all rules, distinct up to a positive factor."""
    screen, rng = Screen(), random.Random(seed)
    found: dict[str, str] = {}

    def add(rule: Rule) -> None:
        screening = screen(rule)
        if screening.ok:
            found.setdefault(screening.scale_fingerprint, str(rule))

    for rule in known_rules():
        add(rule)
    known = len(found)
    while len(found) < known + random_rules:
        try:
            add(spaces["paper"].sample(rng))
        except RuleError:
            continue
    return list(found.values())


def look_at(evaluation: Evaluation, share: float, over: str) -> float:
    """Return the score of the first part of a full run, from its curve."""
    end = share * evaluation.steps
    seen = [(step, value) for step, value in evaluation.curve if step <= end]
    if not seen:
        return math.nan
    if over == "tail":
        seen = [(step, value) for step, value in seen if step > 0.9 * seen[-1][0]] or seen[-1:]
    return seen[-1][1] if over == "last" else sum(value for _, value in seen) / len(seen)


def correlation(short: Sequence[float], full: Sequence[float]) -> str:
    """Return the correlation over all rules and over the better half, and what is lost."""
    if np.isnan(short).all():
        return "  not measured so early"
    s, f = np.nan_to_num(np.array(short), nan=np.inf), np.array(full)
    better = f <= np.median(f)
    both = [float(spearmanr(s[part], f[part]).statistic) for part in (f < np.inf, better)]
    lost = f[int(np.argmin(s))] / f.min() - 1
    return f"{both[0]:6.3f}   {both[1]:6.3f}   {lost:7.1%}"


@click.command()
@click.argument("task")
@click.option("--random", "count", default=120, show_default=True, help="Random rules.")
@click.option("--seed", default=5, show_default=True)
@click.option("--workers", default=2, show_default=True)
@click.option("--storage", default="fidelity.journal", show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Also write the result here.")
def main(task: str, count: int, seed: int, workers: int, storage: str, output: Path | None) -> None:
    """Print the correlations."""
    found = digits_relu() if task == "digits-relu" else find_task(task)
    sign = 1 if found.objective.direction == "minimize" else -1
    protocol = found.preset("quick").protocol
    steps = protocol.final_steps
    whole = protocol.replace(proxy_steps=steps, steps=steps, score_seeds=4, threshold=None)
    stages = {FULL: whole.search_stage, SHORT: whole.search_stage}
    context = Context(found, stages, choose_stacking(found, torch.device("cpu")))
    rules = draw(count, seed)
    name = f"{found.name}-{count}-{seed}"
    with make_executor(workers) as executor, Store.open(storage, name) as store:
        executor.start(run_job, context, prepare)
        ledger = Ledger(store, executor, SIDE_BY_SIDE, partial(_progress, [0]), Guard(found.name))
        full = ledger.evaluate("full", [Entry(FULL, rule) for rule in rules])
        kept = [e for e in full if e.score is not None and e.lr is not None]
        short = {
            share: ledger.evaluate(
                "short", [Entry(SHORT, e.recipe, share, 1, around=e.lr) for e in kept]
            )
            for share in (*SHARES, 1.0)
        }
    target = [sign * (e.score or math.nan) for e in kept]
    lines = [
        *header(),
        f"task     {found.name}, {found.objective.name}, {steps} steps; {len(kept)} of"
        f" {len(rules)} rules train ({count} random, seed {seed})",
        "",
        "                              rank correlation    lost at",
        "                              all    best half    full length",
    ]
    for share in (*SHARES, 1.0):
        scores = [math.nan if e.score is None else sign * e.score for e in short[share]]
        lines.append(f"{share:4.0%} of the run, scaled    {correlation(scores, target)}")
    for share in SHARES:
        scores = [sign * look_at(e, share, found.objective.over) for e in kept]
        lines.append(f"{share:4.0%} of the full horizon  {correlation(scores, target)}")
    click.echo("\n".join([*lines, ""]))
    if output:
        output.write_text("\n".join([*lines, ""]))


def _progress(done: list[int], phase: str, evaluation: Evaluation) -> None:
    done[0] += 1
    if done[0] % 50 == 0:
        click.echo(f"{phase}: {done[0]}, {evaluation!r}", err=True)


if __name__ == "__main__":
    main()
