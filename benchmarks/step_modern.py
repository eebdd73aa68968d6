"""Time of a step of modern rules on GPTs, compared with torch's optimizers; a part of `step.py`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.optim import AdamW

from optsmith import Rule, RuleOptimizer, Run
from optsmith.optim import modern
from optsmith.task import ModuleTask
from optsmith.training.stacked import Stack
from tasks import gpt

ADAMW = "ema(g, 0.9)/(sqrt(ema(g^2, 0.999)) + 1e-8)"
# The direction of torch's Muon with Nesterov momentum: `orth` does not depend on the scale.
MUON = f"hidden(0.2*(fan*orth(g + 0.95*mom(g, 0.95))), {ADAMW})"
WHITEN = f"hidden(whiten(ema(g, 0.9), g, 0.95, 10), {ADAMW})"
AVERAGES = "(ema(g, 0.9) + 0.1*ema(g, 0.999))/(sqrt(ema(g^2, 0.99)) + 1e-8)"
COPIES = 16

Step = Callable[[], object]


def model() -> nn.Module:
    """Return a GPT of 10 M parameters with gradients."""
    made = gpt.GPT(96, layers=6, width=384, heads=6, length=256)
    for p in made.parameters():
        p.grad = torch.randn_like(p) * 0.01
    return made


def rule(text: str, compiled: bool = False) -> Step:
    """Return the step of a rule on the GPT, with the weight decay of torch's AdamW."""
    return RuleOptimizer(
        model(), text, 1e-4, 10**6, weight_decay=0.01, decoupled=True, compile=compiled
    ).step


def optimizers() -> dict[str, Step]:
    """Return the steps of all optimizers by name."""
    return {
        "torch Muon + AdamW": modern["torch:muon"].build(model(), 1e-4, 10**6).step,
        "rule Muon + AdamW": rule(MUON),
        "rule whiten, roots every 10": _ten(rule(WHITEN)),
        "torch AdamW": AdamW(model().parameters(), lr=1e-4).step,
        "torch AdamW fused": AdamW(model().parameters(), lr=1e-4, fused=True).step,
        "rule AdamW": rule(ADAMW),
        "rule AdamW compiled": rule(ADAMW, compiled=True),
        "rule 3 averages": rule(AVERAGES),
        "rule 3 averages compiled": rule(AVERAGES, compiled=True),
    }


def _ten(step: Step) -> Step:
    """Return a function of ten steps, because only one of ten computes roots."""

    def steps() -> None:
        for _ in range(10):
            step()

    return steps


def measure(byte_time: Callable[[], float], repeats: int) -> dict[str, list[float]]:
    """Return milliseconds per step and per byte, for each repeat."""
    steps = optimizers()
    for step in steps.values():
        step()
    times: dict[str, list[float]] = {name: [] for name in [*steps, "byte"]}
    for _ in range(repeats):
        times["byte"].append(byte_time())
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            taken = (time.perf_counter() - start) * 1e3
            times[name].append(taken / 10 if "whiten" in name else taken)
    return times


def _against(times: list[float], reference: list[float]) -> str:
    ratio = statistics.median(a / b for a, b in zip(times, reference, strict=True))
    return f"{ratio:.2f} ({min(times) / min(reference):.2f})"


def table(byte_time: Callable[[], float], repeats: int) -> list[str]:
    """Return the rows of the GPT of 10 M parameters."""
    times = measure(byte_time, repeats)
    size = sum(p.numel() for p in model().parameters())
    slots = {"AdamW": 2, "3 averages": 3}
    lines = [
        f"GPT of {size / 1e6:.1f} M parameters; ratios: median of the repeats (of the fastest)",
        f"  {'optimizer':<30}{'ms':>9}{'min':>9}{'max':>9}  ratio",
    ]
    for name, own in times.items():
        if name == "byte":
            continue
        row = f"  {name:<30}{statistics.median(own):>9.1f}{min(own):>9.1f}{max(own):>9.1f}"
        if "Muon" in name or "whiten" in name:
            row += f"  {_against(own, times['torch Muon + AdamW'])} of torch's Muon"
        else:
            count = next(n for key, n in slots.items() if key in name)
            bound = [4 * (3 + 2 * count) * size * b for b in times["byte"]]
            if "AdamW" in name:
                row += f"  {_against(own, times['torch AdamW fused'])} of fused AdamW,"
            row += f"  {_against(own, bound)} of the bandwidth bound"
        lines.append(row)
    return lines


def settings() -> list[Rule]:
    """Return settings of one rule."""
    rest = "ema(g, {1})/(sqrt(ema(g^2, 0.99)) + 1e-8)"
    text = "hidden({0}*fan*orth(mix(mom(g, {1}), g, {1})), " + rest + ")"
    return [Rule.parse(text.format(0.1 + 0.02 * i, 0.8 + 0.01 * i)) for i in range(COPIES)]


def stack_table(repeats: int) -> list[str]:
    """Return the time per step of a stack of settings, and of plain runs, on one core."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    lines = [f"{COPIES} settings of one rule on the GPT of benchmarks/tasks, ms per step and copy"]
    for kind, rules in (("Muon", settings()), ("AdamW", [Rule.parse(ADAMW)] * COPIES)):
        lines.append(f"  {_stack_row(kind, rules, repeats)}")
    torch.set_num_threads(threads)
    return lines


def _stack_row(kind: str, rules: list[Rule], repeats: int) -> str:
    of = gpt.task
    assert isinstance(of, ModuleTask)  # noqa: S101 - for the type checker
    runs = [Run(r, 1e-3, 0, 10_000, device=torch.device("cpu")) for r in rules]
    stack, steps = Stack(of, runs), iter(range(1, 10_000))
    training = of.start(runs[0])
    ways = {"stack": lambda: stack.step(next(steps)), "plain": lambda: next(training)}
    times: dict[str, list[float]] = {way: [] for way in ways}
    for i in range(repeats + 1):
        for way, step in ways.items():
            start = time.perf_counter()
            for _ in range(1 if way == "stack" else COPIES):
                step()
            if i:
                times[way].append((time.perf_counter() - start) * 1e3 / COPIES)
    stacked, plain = (statistics.median(times[way]) for way in ("stack", "plain"))
    gain = _against(times["plain"], times["stack"])
    return f"{kind:<8} stack {stacked:.2f}, plain {plain:.2f}: {gain} times as fast"
