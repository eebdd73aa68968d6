"""A search that never was, in the shape of the data that the page is made from."""

from __future__ import annotations

import math
import random
from typing import Any

from optsmith import Rule, spaces

SPACE = spaces["paper"]
LEVELS, PER_LEVEL = 4, 32
RATES = (0.0006, 0.001, 0.003, 0.006, 0.01, 0.03, 0.06, 0.1, 0.3, 1.0)
WINNER = "m1 + RMSprop*exp(Adam)"
BASELINES = {
    "torch:sgd": 0.43,
    "torch:momentum": 0.262,
    "torch:nesterov": 0.243,
    "torch:adam": 0.292,
    "torch:adamw": 0.293,
    "torch:rmsprop": 0.268,
}
OPPONENT = "torch:nesterov+linear"
BEST = 0.243 * 0.985
FAILURES = ("early_stopped", "early_stopped", "early_stopped", "diverged", "rejected", "failed")


def _entry(n: int, level: int, rule: Rule, status: str, score: float | None, rng: random.Random):
    lr = rng.choice(RATES)
    return {
        "n": n,
        "candidate": f"{level}:{n - 1}",
        "phase": f"level {level + 1}",
        "fidelity": 1.0,
        "rule": str(rule),
        "length": rule.length,
        "score": score,
        "status": status,
        "lr": None if score is None else lr,
        "at_edge": score is not None and lr in (RATES[0], RATES[-1]),
    }


def _score(operator: str, level: int, rng: random.Random) -> float:
    taste = random.Random(f"{operator} {level}").uniform(-0.5, 0.9)
    return 0.57 + math.exp(rng.gauss(-1.1 + taste - 0.35 * level, 0.7))


def walk(rng: random.Random, per_level: int = PER_LEVEL) -> tuple[list[Any], list[Any]]:
    """Go down the real super-tree with made-up scores; return the history and the tree."""
    history, tree = [], []
    node = SPACE.root
    for level in range(LEVELS):
        scores = {child: [] for child in SPACE.children(node)}
        while sum(map(len, scores.values())) < per_level:
            child = rng.choice(list(scores))
            rule = SPACE.unroll(child, rng)
            if rng.random() < 0.12:
                status = rng.choice(FAILURES)
                score = 11.5 if status == "rejected" else None
            else:
                status, score = "ok", _score(repr(child.operators[-1]), level, rng)
                scores[child].append(score)
            history.append(_entry(len(history) + 1, level, rule, status, score, rng))
        means = {child: sum(s) / len(s) for child, s in scores.items() if s}
        inner = [child for child in means if not child.is_complete]
        chosen = min(inner, key=means.__getitem__)
        tree.append(
            {
                "level": level,
                "node": str(node),
                "draws": 310 - 20 * level,
                "accepted": per_level,
                "ended": f"{per_level} accepted",
                "chosen": str(chosen),
                "children": [
                    {
                        "node": str(child),
                        "operator": child.operators[-1].symbol or repr(child.operators[-1]),
                        "score": means.get(child),
                        "count": len(values),
                        "is_leaf": child.is_complete,
                    }
                    for child, values in scores.items()
                ],
            }
        )
        node = chosen
    return history, tree


def _curve(end: float, rng: random.Random, points: int = 40) -> list[list[float]]:
    steps = [1 + round(i * 999 / (points - 1)) for i in range(points)]
    fall = rng.uniform(0.008, 0.03)
    return [
        [s, (end * 0.6 + (2.3 - end * 0.6) * math.exp(-fall * s)) * rng.uniform(0.96, 1.04)]
        for s in steps
    ]


def _row(label: str, kind: str, schedule: str, score: float, rng: random.Random) -> dict[str, Any]:
    lr = rng.choice(RATES)
    return {
        "label": label,
        "kind": kind,
        "schedule": schedule,
        "lr": lr,
        "at_edge": lr in (RATES[0], RATES[-1]),
        "score": score,
        "spread": rng.uniform(0.002, 0.011),
        "n": 8,
        "change": None if label == OPPONENT else _paired(score / BEST - 1, 0.012, rng),
        "rates": 9,
        "metrics": {"test accuracy": [0.975 - score / 7, rng.uniform(0.001, 0.006)]},
        "ms_per_step": rng.uniform(0.3, 0.6),
        "state_bytes": float(rng.choice([0, 4, 8, 12])),
        "status": "ok",
        "error": "",
        "curve": _curve(score, rng),
    }


def _paired(change: float, margin: float, rng: random.Random, better: Any = None, seeds: int = 8):
    """Return a paired comparison as plain data; smaller is better unless `better` is given."""
    margin *= rng.uniform(0.8, 1.3)
    decided = abs(change) > margin
    found = change < 0 if better is None else better
    return {
        "change": change,
        "low": change - margin,
        "high": change + margin,
        "p": 0.0031 if decided else 0.41,
        "seeds": seeds,
        "diverged": 0,
        "other_diverged": 0,
        "better": found if decided else None,
    }


def claim(seed: int = 1) -> dict[str, Any]:
    """Return the claim of the fake study: the rule is better in everything."""
    rng = random.Random(seed)
    own = WINNER
    return {
        "rule": WINNER,
        "lr": 0.1,
        "opponent": OPPONENT,
        "opponent_lr": 0.3,
        "paired": _paired(-0.0203, 0.009, rng, seeds=16),
        "metrics": {"test accuracy": _paired(0.0041, 0.002, rng, True, 16)},
        "contradicted": False,
        "looks": 2,
        "stopped": "",
        "speed_up": {"share": 0.71, "low": 0.64, "high": 0.79, "bound": "", "seeds": 8},
        "step_ratio": 1.08,
        "checks": [
            {"setting": "half the learning rate", "against": own,
             "paired": _paired(0.031, 0.02, rng)},
            {"setting": "twice the learning rate", "against": own,
             "paired": _paired(0.007, 0.01, rng)},
            {"setting": "twice the steps", "against": OPPONENT,
             "paired": _paired(-0.024, 0.013, rng)},
        ],
        "ablation": [
            _ablation("RMSprop", 0.041, rng),
            _ablation("cd", 0.083, rng),
            _ablation("mom(g, 0.9) → 5*g", 0.012, rng),
            {**_ablation("drop", 0.0004, rng), "removed": True},
        ],
        "equally_tuned": None,
        "equally_tuned_opponent": "",
        "known": "",
        "recommended": WINNER,
        "selection_seeds": [1_000_000, 1_999_999, 2_000_001, 2_000_002],
        "report_seeds": list(range(1_000_001, 1_000_017)),
        "trained": {"search": 812_000, "opponents": 143_000, "tuning": 96_000, "report": 64_000,
                    "checks": 52_000},
        "rule_score": 0.2345,
        "opponent_score": 0.2394,
        "metric_means": {"test accuracy": [0.9415, 0.9376]},
    }  # fmt: skip


def _ablation(without: str, change: float, rng: random.Random) -> dict[str, Any]:
    """Return a part of the rule, whose absence matters more the longer the run."""
    losses = [(step, 2.3 * step**-0.3) for step in range(50, 1001, 50)]
    return {
        "without": without,
        "paired": _paired(change, 0.01, rng, seeds=6),
        "removed": False,
        "curve": [[step, loss * (1 + change * step / 1000), loss] for step, loss in losses],
    }


def mixed() -> dict[str, Any]:
    """Return a study whose objective and held-out metric disagree, with a known rule."""
    data = study()
    rng = random.Random(5)
    data["claim"]["metrics"]["test accuracy"] = _paired(-0.013, 0.004, rng, False, 16)
    data["claim"]["contradicted"] = True
    data["claim"]["known"] = data["winner"]["known"] = "torch:nesterov, tuned"
    data["verdict"] = (
        f"{WINNER} beats {OPPONENT} in mean training loss by 2.0 %, but its test accuracy is worse"
        " by 1.3 %. Both differences are paired over 16 seeds."
    )
    return data


def beaten() -> dict[str, Any]:
    """Return a study that recommends an opponent."""
    data = study()
    rng = random.Random(6)
    data["claim"] |= {
        "paired": _paired(0.031, 0.012, rng, seeds=8),
        "metrics": {},
        "recommended": OPPONENT,
        "speed_up": {"share": 1.0, "low": None, "high": None, "bound": "above", "seeds": 8},
    }
    data["recommended"] = {"recipe": OPPONENT, "kind": "baseline", "schedule": "linear", "lr": 0.3}
    data["winner"]["simplified"] = "m1 + RMSprop"
    data["verdict"] = f"{WINNER} is worse than {OPPONENT}, by 3.1 %. Use {OPPONENT}."
    return data


def final_rows(history: list[Any], rng: random.Random) -> list[Any]:
    """Return five rules and eighteen baselines, best first; one of them diverged."""
    best = sorted((e for e in history if e["status"] == "ok"), key=lambda e: e["score"])
    labels = [WINNER, *[e["rule"] for e in best if e["rule"] != WINNER][:4]]
    rows = [_row(label, "rule", "", 0.2345 + 0.004 * i**1.5, rng) for i, label in enumerate(labels)]
    for label, score in BASELINES.items():
        for schedule, factor in (("constant", 1.0), ("linear", 0.985), ("cosine", 0.99)):
            recipe = label if schedule == "constant" else f"{label}+{schedule}"
            rows.append(_row(recipe, "baseline", schedule, score * factor, rng))
    rows.sort(key=lambda row: row["score"])
    worst = next(row for row in rows if row["label"] == "torch:adamw")
    worst |= {"score": None, "spread": None, "metrics": {}, "status": "diverged", "curve": [],
              "change": None}  # fmt: skip
    rows.remove(worst)
    return [*rows, worst]


def study(seed: int = 1, per_level: int = PER_LEVEL) -> dict[str, Any]:
    """Return a finished search: four levels, a winner, and the final comparison."""
    rng = random.Random(seed)
    history, tree = walk(rng, per_level)
    # The published winner takes the place of some good rule of the last level.
    winner = min((e for e in history if e["status"] == "ok"), key=lambda e: e["score"])
    winner |= {"rule": WINNER, "length": 6, "score": 0.5603, "lr": 0.1, "at_edge": False}
    statuses = [entry["status"] for entry in history]
    counts = {status: statuses.count(status) for status in {*FAILURES, "timed_out"}}
    refused = {"fails the descent test": 702, "is constant": 61, "is not finite": 48,
               "does not depend on the gradient": 31}  # fmt: skip
    return {
        "title": "MNISTNET",
        "finished": True,
        "created": "2026-11-16 04:00 UTC",
        "task": {
            "name": "mnistnet",
            "description": "MLP 784-20-10 with sigmoid units on MNIST, batches of 128, a fixed "
            "half of the training images.",
            "objective": "mean training loss",
            "direction": "minimize",
            "unit": "",
            "metrics": {"test accuracy": {"unit": "%", "direction": "maximize"}},
            "threshold": 10.0,
        },
        "winner": {
            "rule": WINNER,
            "simplified": None,
            "length": 6,
            "lr": 0.1,
            "at_edge": False,
            "known": "",
            "search": {"score": 0.5603, "spread": 0.0104, "seeds": 10},
            "held_out": {"score": 0.2345, "spread": 0.0031, "seeds": 4},
        },
        "verdict": f"{WINNER} beats {OPPONENT}: its mean training loss is 2.0 % lower (95 %"
        " interval 1.1 to 2.9 %, 16 seeds). It needs 71 % of the steps for the same result.",
        "claim": claim(seed),
        "recommended": {"recipe": WINNER, "kind": "rule", "schedule": "", "lr": 0.1},
        "raced": [
            {
                "recipe": "torch:radam+cosine",
                "fidelity": 0.05,
                "score": 0.91,
                "lr": 0.01,
                "reason": "",
            },
            {
                "recipe": "torch:adafactor",
                "fidelity": 0.05,
                "score": None,
                "lr": None,
                "reason": "diverged",
            },
            {
                "recipe": "torch:lion+linear",
                "fidelity": 0.2,
                "score": 0.44,
                "lr": 0.001,
                "reason": "",
            },
        ],
        "final": {
            "steps": 1000,
            "seeds": 16,
            "opponent": OPPONENT,
            "rows": final_rows(history, rng),
        },
        "history": history,
        "tree": tree,
        "counts": {
            "drawn": len(history) + 93 + sum(refused.values()),
            "accepted": statuses.count("ok"),
            "duplicate": 93,
            **counts,
            "refused": refused,
        },
        "settings": {
            "seed": 0,
            "preset": "paper",
            "budget": LEVELS * per_level,
            "levels": LEVELS,
            "searcher": "mct",
            "space": "paper",
            "max_depth": 10,
            "dedupe": "equal",
            "descent_test": True,
            "threshold": 10.0,
            "workers": 2,
            "lr_grid": list(RATES),
            "proxy_steps": 100,
            "scoring_seeds": 10,
            "storage": "studies/mnistnet.journal",
        },
        "command": "optsmith search mnistnet --preset paper --seed 0",
        "versions": {
            "optsmith": "0.1.0",
            "torch": "2.13.0+cpu",
            "python": "3.11.2",
            "machine": "Linux-6.1.0-x86_64, 2 cores",
        },
        "seconds": 312.4,
        "warnings": [
            "The best learning rate of 2 of the 5 rules lies at the edge of the grid; "
            "--extend-grid follows it outwards."
        ],
    }
