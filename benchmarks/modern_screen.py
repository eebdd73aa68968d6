"""Speed of the screen on rules of the space `modern`, and what becomes of its samples."""

from __future__ import annotations

import random
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Iterator

from optsmith.rules import Rule, depends_on_role
from optsmith.screening import Screen
from optsmith.space import Space, spaces

WARM_UP = 500  # rules screened before the clock starts, so that the values of inputs are known


def modern(seed: int, candidates: int, repeats: int) -> Iterator[str]:
    """Yield the lines on the space `modern`; `paper` is measured in turn with it."""
    screen, rng = Screen(), random.Random(seed)
    rates: dict[str, list[float]] = defaultdict(list)
    by_kind: dict[str, list[float]] = defaultdict(list)
    reasons, rules = Counter[str](), list[Rule]()
    for name in ("paper", "modern"):
        _screened(screen, spaces[name], rng, WARM_UP)
    for _ in range(repeats):
        for name in ("paper", "modern"):
            found = _screened(screen, spaces[name], rng, candidates)
            rates[name].append(candidates / sum(seconds for *_, seconds in found))
            if name == "modern":
                rules += [rule for rule, *_ in found]
                reasons.update(reason for _, reason, _ in found)
                for rule, _, seconds in found:
                    by_kind[_kind(rule)].append(seconds)
    yield f"Modern: candidates screened per second of one core, caches warm; median of {repeats}"
    yield f"repeats (min to max) of {candidates} samples"
    for name, values in rates.items():
        low, middle, high = min(values), statistics.median(values), max(values)
        yield f"  {name:26} {middle:,.0f} ({low:,.0f} to {high:,.0f})"
    ratios = [m / p for m, p in zip(rates["modern"], rates["paper"], strict=True)]
    yield f"  {'modern against paper':26} {statistics.median(ratios):.2f} times as fast"
    every = sum(sum(times) for times in by_kind.values())
    yield f"  {'kind of rule':42}{'share':>8}{'of time':>9}{'ms each':>9}"
    for kind, times in sorted(by_kind.items(), key=lambda item: -sum(item[1])):
        share, each = len(times) / len(rules), 1e3 * sum(times) / len(times)
        yield f"  {kind:42}{share:8.1%}{sum(times) / every:9.1%}{each:9.2f}"
    lengths = [rule.length for rule in rules]
    yield (
        f"  length of a sample: median {statistics.median(lengths):.0f}, mean"
        f" {statistics.mean(lengths):.1f}, longest {max(lengths)};"
        f" {sum(rule.uses('gradient') for rule in rules) / len(rules):.1%} use the gradient"
    )
    for reason, count in reasons.most_common():
        yield f"  {count / len(rules):7.2%}  {reason or 'passes'}"


def _screened(
    screen: Screen, space: Space, rng: random.Random, count: int
) -> list[tuple[Rule, str, float]]:
    """Return samples of a space with the reason of the screen and its seconds."""
    found = []
    for rule in [space.sample(rng) for _ in range(count)]:
        start = time.process_time()
        reason = screen(rule).reason
        found.append((rule, reason, time.process_time() - start))
    return found


def _kind(rule: Rule) -> str:
    """Return what makes a rule slow to screen."""
    names = {operator.name for operator in rule.operators}
    parts = ["whole tensors"] if any(o.scope == "tensor" for o in rule.operators) else []
    parts = ["whiten"] if names & {"whiten", "whitenr", "whitenc"} else parts
    parts += ["state"] if any(o.state and o.arity for o in rule.operators) else []
    parts += ["roles"] if depends_on_role(rule) else []
    return ", ".join(parts) or "inputs and arithmetic"
