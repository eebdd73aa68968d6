"""Paired comparison of two optimizer files, for the scripts that repeat an answer."""

import runpy
import sys
from collections.abc import Callable

import numpy as np
import torch
from scipy.stats import t

Score = Callable[[Callable[..., torch.optim.Optimizer], int], float]
"""Trains once with a function that makes the optimizer, and a seed; returns the test loss."""


def compare(score: Score, seeds: range) -> None:
    """Train with the two files of the command line on each seed, and print the change."""
    torch.set_num_threads(1)
    one, other = (runpy.run_path(file)["make_optimizer"] for file in sys.argv[1:3])
    ratios = np.log([score(one, seed) / score(other, seed) for seed in seeds])
    margin = t.ppf(0.975, len(ratios) - 1) * ratios.std(ddof=1) / len(ratios) ** 0.5
    low, mean, high = (f"{np.expm1(ratios.mean() + k * margin):+.1%}" for k in (-1, 0, 1))
    print(f"change {mean} (95 %: {low} to {high}; {len(ratios)} seeds)")
