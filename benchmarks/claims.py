"""Simulated studies: how often a claim is false, and how often a true difference is claimed.

    python benchmarks/claims.py [--studies 40000] [--output FILE]

In a simulated study all recipes have the same expected loss, or the rules are 3 % better. The best
of 5 rules and the best of 40 opponents are chosen on 2 selection seeds; then these two are compared
on report seeds, at each look, until the difference is significant. The paired standard deviation is
3 %. The seed's own effect, common to all recipes, is ten times as large.

Speed-up: losses follow a power law of the run length, and the share of steps at which the rule
matches its opponent is known. The rule is trained at 30, 50, 70 and 100 % of the length. "Covered"
is how often the 95 % interval contains the share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from optsmith.evaluation import compare_paired, speed_up
from optsmith.task import Objective
from report import header

Noise = Callable[[np.random.Generator, tuple[int, ...]], NDArray[np.float64]]

PAIRED = 0.03
"""Standard deviation of the logarithm of the ratio of two losses of one seed."""

RULES, OPPONENTS, SELECTION = 5, 40, 2
LOOKS = ((8, 16, 32), (8, 16), (5, 10, 20), (5, 10, 20, 40), (5,), (6,), (8,), (16,))
HORIZONS = (0.3, 0.5, 0.7)
SHARES = (0.35, 0.5, 0.6, 0.71, 0.85, 0.95)


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    return rng.standard_normal(shape)


def _heavy(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    return rng.standard_t(3, shape) / math.sqrt(3)


def _skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    spread = math.sqrt((math.exp(0.25) - 1) * math.exp(0.25))
    return (rng.lognormal(0, 0.5, shape) - math.exp(0.125)) / spread


def _diverging(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    return np.where(rng.random(shape) < 0.03, np.nan, rng.standard_normal(shape))


NOISES: dict[str, tuple[Noise, Noise]] = {
    "normal": (_normal, _normal),
    "heavy-tailed (t, 3 degrees of freedom)": (_heavy, _heavy),
    "skewed (log-normal)": (_skewed, _skewed),
    "3 % of all runs diverge": (_diverging, _diverging),
    "skewed for rules, normal for opponents": (_skewed, _normal),
}
"""Noise of rules and of opponents, by description."""


def study(
    rng: np.random.Generator, noise: tuple[Noise, Noise], gain: float, looks: Sequence[int]
) -> bool | None:
    """Simulate a study; return whether the rule is claimed to be better, None without a claim."""
    seeds = SELECTION + looks[-1]
    common = 10 * PAIRED * rng.standard_normal(seeds)
    rule = _chosen(noise[0](rng, (RULES, seeds)), common + math.log1p(-gain))
    opponent = _chosen(noise[1](rng, (OPPONENTS, seeds)), common)
    for count in looks:
        paired = compare_paired(rule[:count], opponent[:count], len(looks), "minimize")
        if paired.decided:
            return paired.better("minimize")
    return None


def _chosen(noise: NDArray[np.float64], expected: NDArray[np.float64]) -> list[float]:
    """Return the losses on report seeds of the recipe that is the best on selection seeds."""
    losses = np.exp(expected + PAIRED / math.sqrt(2) * noise)
    chosen = losses[:, :SELECTION].mean(axis=1)
    best = losses[np.argmin(np.where(np.isnan(chosen), np.inf, chosen))]
    return best[SELECTION:].tolist()


def claims(
    noise: tuple[Noise, Noise], gain: float, looks: Sequence[int], studies: int
) -> tuple[float, float]:
    """Return the share of studies that claim that the rule is better, and that it is worse."""
    rng = np.random.default_rng(0)
    found = [study(rng, noise, gain, looks) for _ in range(studies)]
    return found.count(True) / studies, found.count(False) / studies


def coverage(share: float, seeds: int, power: float, studies: int) -> tuple[float, float, float]:
    """Return how often the interval of a speed-up contains the share, and two medians.

    Args:
        share: Share of the steps at which the rule matches its opponent.
        seeds: Number of seeds.
        power: The loss is 0.2 plus the share of steps to minus this power.
        studies: Number of simulations.

    Returns:
        How often it does; the medians of the share that is found and of the interval's width.
    """
    rng = np.random.default_rng(0)
    covered, shares, widths = 0, [], []
    for _ in range(studies):
        common = 10 * PAIRED * rng.standard_normal(seeds)

        def loss(part: float, common: NDArray[np.float64] = common) -> list[float]:
            noise = PAIRED / math.sqrt(2) * rng.standard_normal(seeds)
            return ((0.2 + part**-power) * np.exp(common + noise)).tolist()

        scores = {horizon: loss(horizon) for horizon in (*HORIZONS, 1.0)}
        found = speed_up(scores, loss(share), Objective())
        covered += found.low <= share <= found.high
        shares.append(found.share)
        widths.append(found.high - found.low)
    return covered / studies, float(np.median(shares)), float(np.median(widths))


def report(studies: int) -> Iterator[str]:
    """Yield the lines of the result."""
    error = math.sqrt(0.05 * 0.95 / studies)
    yield (
        f"False claims: all recipes are equal; share of {studies:,} studies with a claim, by the"
        f" numbers of seeds at the looks (standard error of 5 %: {error:.2%})"
    )
    yield f"  {'noise':<42}" + "".join(f"{_name(looks):>12}" for looks in LOOKS)
    for name, noise in NOISES.items():
        shares = (sum(claims(noise, 0.0, looks, studies)) for looks in LOOKS)
        yield f"  {name:<42}" + "".join(f"{share:>12.1%}" for share in shares)
    yield f"True claims: rules are {PAIRED:.0%} better; share of studies with the right claim"
    for name, noise in NOISES.items():
        shares = (claims(noise, PAIRED, looks, studies // 20)[0] for looks in LOOKS)
        yield f"  {name:<42}" + "".join(f"{share:>12.1%}" for share in shares)
    yield "Speed-up: true share; for 8 and 16 seeds: covered, median share found, median width"
    for power in (0.1, 0.3):
        for share in SHARES:
            cells = (coverage(share, seeds, power, studies // 20) for seeds in (8, 16))
            words = "   ".join(f"{c:6.1%} {m:5.2f} {w:5.2f}" for c, m, w in cells)
            yield f"  loss 0.2 + share^-{power:g}, true share {share:4.2f}:   {words}"


def _name(looks: Sequence[int]) -> str:
    return "/".join(map(str, looks))


@click.command()
@click.option("--studies", default=40_000, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Also write the result here.")
def main(studies: int, output: Path | None) -> None:
    """Print the shares of false and of true claims."""
    lines = [*header(), ""]
    for line in report(studies):
        click.echo(line)
        lines.append(line)
    if output:
        output.write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
