"""Speed of the screen, and error rates of its fingerprints.

    python benchmarks/screening.py --output benchmarks/results/screening.txt

Speed: candidates per second of one core, compared with a reference implementation. Modern: the same
for the space `modern`, and what becomes of its samples. False merges:
rules with equal fingerprints that differ on another, longer trajectory. Missed merges: rules
rewritten into another form of the same function with a different fingerprint.
"""

from __future__ import annotations

import random
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import torch

from judge import ELEMENTS, STEPS, Judge
from modern_screen import modern
from optsmith.rules import Rule
from optsmith.screening import Screen, Screening
from optsmith.space import spaces
from plain_screen import Plain
from report import header
from rewrites import rescale, rewrite

SPACE = spaces["paper"]
SHOWN = 20  # rules listed per kind of error
RARE = 20  # entries of the independent trajectory: about 1 in 1,000

# --- the three measurements ---------------------------------------------------------------------


def speed(seed: int, candidates: int, repeats: int) -> Iterator[str]:
    """Yield the lines on candidates per second."""
    screen, plain = Screen(), Plain()
    rng = random.Random(seed)
    rates: dict[str, list[float]] = defaultdict(list)
    ratios, unequal, compared = [], 0, 0
    screen(SPACE.sample(rng)), plain(SPACE.sample(rng))  # warm up the caches

    def timed(name: str, count: int, work: Callable[[], Any]) -> Any:
        start = time.process_time()  # other programs may use the core meanwhile
        result = work()
        rates[name].append(count / (time.process_time() - start))
        return result

    def path() -> None:
        known: dict[str, Rule] = {}
        for _ in range(candidates):
            rule = SPACE.sample(rng)
            known.setdefault(screen(rule).fingerprint, rule)

    few = max(1, candidates // 10)
    for _ in range(repeats):
        timed("sample, screen, look up", candidates, path)
        rules = timed(
            "  sample only", candidates, lambda: [SPACE.sample(rng) for _ in range(candidates)]
        )
        timed("  screen only", candidates, lambda rules=rules: [screen(rule) for rule in rules])
        slow = timed("reference, screen only", few, lambda r=rules: [plain(x) for x in r[:few]])
        ratios.append(rates["  screen only"][-1] / rates["reference, screen only"][-1])
        for rule, theirs in zip(rules, slow, strict=False):
            if sum(operator.random for operator in rule.operators) < 2:
                compared += 1
                unequal += screen(rule).fingerprint != theirs.fingerprint
    yield f"Speed: candidates per second of one core; median (min to max) of {repeats} repeats"
    yield f"of {candidates} candidates ({few} for the reference)"
    for name, values in rates.items():
        yield f"  {name:26} {_spread(values, ',.0f')}"
    yield f"  {'screen against reference':26} {_spread(ratios, '.1f')} times as fast"
    trajectories = plain.probe.trajectories
    steps = sum(t.steps for t in trajectories)
    recorded = sum(len(t.recorded) for t in trajectories)
    yield f"  (the reference runs {steps} steps; the screen computes the {recorded} recorded ones,"
    yield "  so the ratio grows with the length of the probe)"
    yield f"  {unequal} of {compared} fingerprints differ between the two"
    yield "  (the paper's published code, as reported: 3 sampled, 88 screened; not measured here)"


def _spread(values: list[float], form: str) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:{form}} ({low:{form}} to {high:{form}})"


def _well_formed(screening: Screening) -> bool:
    return not screening.reason.startswith(("is ", "does "))


def false_merges(seed: int, pairs: int, judge: Judge) -> Iterator[str]:
    """Yield the lines on rules with equal fingerprints that are different functions."""
    rng, screen = random.Random(seed), Screen()
    seen: set[Rule] = set()
    groups: dict[str, dict[str, list[Rule]]] = {"fingerprint": {}, "scale fingerprint": {}}
    accepted: set[Rule] = set()
    kept = found = 0
    while found < pairs:
        rule = SPACE.sample(rng)
        if rule in seen:
            continue
        seen.add(rule)
        result = screen(rule)
        if not _well_formed(result):
            continue
        kept += 1
        if result.ok:
            accepted.add(rule)
        for name, code in zip(groups, (result.fingerprint, result.scale_fingerprint), strict=True):
            groups[name].setdefault(code, []).append(rule)
        found = kept - len(groups["fingerprint"])
    yield f"False merges: {len(seen):,} distinct rules drawn, {kept:,} of them well-formed"
    for name, by_code in groups.items():
        wrong = []
        for first, *others in by_code.values():
            up_to_scale = name == "scale fingerprint"
            for other in others:
                entries, inside = judge.differ(first, other, up_to_scale)
                if entries:
                    wrong.append((inside, entries, first, other))
            judge.forget()
        checked = kept - len(by_code)
        yield (
            f"  {name}: {len(wrong)} false of {checked:,} pairs checked"
            f" ({_percent(len(wrong), checked)}); {len(by_code):,} distinct functions"
        )
        passing = sum(r in accepted for rules in by_code.values() for r in rules[1:])
        both = sum(one in accepted and two in accepted for _, _, one, two in wrong)
        yield f"    {both} false of the {passing:,} pairs that pass the screen"
        rare = sum(0 < inside <= RARE for inside, *_ in wrong)
        often = sum(inside > RARE for inside, *_ in wrong)
        yield (
            f"    {len(wrong) - rare - often} of them differ only where float64 overflows or"
            f" underflows, {rare} elsewhere in at most {RARE} of {STEPS * ELEMENTS:,} entries,"
            f" {often} in more:"
        )
        for inside, entries, one, two in sorted(wrong, key=lambda w: w[:2], reverse=True)[:SHOWN]:
            yield f"    {entries:6} entries ({inside} in range)   {one}   |   {two}"


def missed_merges(seed: int, pairs: int, judge: Judge) -> Iterator[str]:
    """Yield the lines on forms of the same function with different fingerprints."""
    rng, screen = random.Random(seed + 1), Screen()

    def rewritten(rule: Rule) -> tuple[Rule, list[str]]:
        return rewrite(rule, rng)

    def scaled(rule: Rule) -> tuple[Rule, list[str]]:
        other, used = rewrite(rule, rng) if rng.random() < 0.5 else (rule, [])
        other, factor = rescale(other, rng)
        return other, [*used, factor]

    for name, change in (("fingerprint", rewritten), ("scale fingerprint", scaled)):
        up_to_scale = name == "scale fingerprint"
        used_in, missed_in, false_in = Counter[str](), Counter[str](), Counter[str]()
        missed, discarded, verdicts = [], 0, 0
        checked = 0
        for rule, before in _rules_by_length(rng, screen):
            if checked == pairs:
                break
            other, used = change(rule)
            if judge.differ(rule, other, up_to_scale)[0]:
                discarded += 1
                false_in.update(set(used))
                continue
            checked += 1
            used_in.update(set(used))
            after = screen(other)
            verdicts += before.ok != after.ok
            codes = [r.scale_fingerprint if up_to_scale else r.fingerprint for r in (before, after)]
            if codes[0] != codes[1]:
                missed.append((rule, other))
                missed_in.update(set(used))
            if checked % 500 == 0:
                judge.forget()
        yield (
            f"Missed merges, {name}: {len(missed)} of {checked:,} pairs"
            f" ({_percent(len(missed), checked)}); {discarded:,} more pairs discarded, not the"
            f" same function; the screen's decision differs in {verdicts}"
        )
        yield f"  {'identity':32}{'pairs':>8}{'missed':>8}{'discarded':>11}"
        for kind, count in sorted(used_in.items(), key=lambda item: -missed_in[item[0]] / item[1]):
            yield f"  {kind:32}{count:8,}{missed_in[kind]:8}{false_in[kind]:11,}"
        yield from (f"    {one}   |   {two}" for one, two in missed[:SHOWN])


def _rules_by_length(rng: random.Random, screen: Screen) -> Iterator[tuple[Rule, Screening]]:
    """Yield well-formed rules with uniform lengths from 2; most random rules are short."""
    while True:
        length = rng.randint(2, SPACE.max_depth)
        rule = SPACE.sample(rng)
        while rule.length != length:
            rule = SPACE.sample(rng)
        result = screen(rule)
        if _well_formed(result):
            yield rule, result


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.3f} %" if whole else "-"


# --- the command --------------------------------------------------------------------------------


@click.command(help=(__doc__ or "").split("\n\n")[0])
@click.option("--seed", default=0, show_default=True, help="Seed of the random rules.")
@click.option("--pairs", default=10_000, show_default=True, help="Pairs per kind of merge.")
@click.option("--repeats", default=7, show_default=True, help="Repeats of the speed measurement.")
@click.option("--candidates", default=4_000, show_default=True, help="Candidates per repeat.")
@click.option(
    "--only", type=click.Choice(["speed", "modern", "false", "missed"]), help="Measurement to run."
)
@click.option("--output", type=click.Path(path_type=Path), help="Also write the lines here.")
def main(
    seed: int, pairs: int, repeats: int, candidates: int, only: str | None, output: Path | None
) -> None:
    """Run the measurements, and print and write the results."""
    torch.set_num_threads(1)
    judge = Judge(seed + 1_000)
    parts: dict[str, Callable[[], Iterable[str]]] = {
        "speed": lambda: speed(seed, candidates, repeats),
        "modern": lambda: modern(seed, candidates, repeats),
        "false": lambda: false_merges(seed, pairs, judge),
        "missed": lambda: missed_merges(seed, pairs, judge),
    }
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        print(line, flush=True)

    for line in header():
        say(line)
    for name, part in parts.items():
        if only in (None, name):
            say("")
            for line in part():
                say(line)
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
