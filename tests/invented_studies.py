"""Studies that are written to a store without a search."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from optsmith import Evaluation, Objective, Protocol, Status, Study
from optsmith.evaluation import Claim, Paired
from optsmith.storage import Record, Store
from optsmith.study import Settings
from optsmith.study._attributes import ABOUT, CLAIM, SETTINGS, SUMMARY, About, Summary
from optsmith.study._reading import final_key
from optsmith.study._tally import Counts
from optsmith.task import Preset
from optsmith.training import Stacking

PROTOCOL = Protocol(lrs=(0.1, 1.0), proxy_steps=10, steps=100, final_steps=1000)
RULES = ("g", "sign(m1)", "m1 + RMSprop*exp(Adam)", "Adam", "g3")
OPPONENT = "torch:nesterov+cosine"


def evaluation(recipe: str, scores: tuple[float, ...], **settings) -> Evaluation:
    """Return an evaluation with a falling curve."""
    curve = tuple((step, 2.0 / step + scores[0]) for step in (1, 10, 50, 100))
    known = {
        "score": sum(scores) / len(scores), "lr": 0.01, "scores": scores, "curve": curve,
        "seeds": tuple(range(100, 100 + len(scores))), "steps": 100, "trained": 500,
        "seconds": 1.0,
    }  # fmt: skip
    return Evaluation(recipe, Status.OK, **{**known, **settings})


def invent(
    folder: Path,
    scores: tuple[float | None, ...] = (0.5, 0.4, None, 0.3, 0.45),
    *,
    name: str = "",
    algorithm: str = "random",
    seed: int = 0,
    task: str = "bowl",
    budget: int = 5,
    protocol: Protocol = PROTOCOL,
    objective: Objective | None = None,
    first_signal: float = 1.0,
    final: bool = True,
    claim: Claim | None = None,
) -> Study:
    """Store a study whose candidates have these search scores, and load it.

    A score of None is a candidate that was stopped early. The best rule and one opponent are
    compared on four seeds: 0.2 on average against 0.25.
    """
    objective = objective or Objective("validation loss")
    settings = Settings(
        task=task, preset="quick", algorithm=algorithm, seed=seed, space_hash="0",
        search=Preset(protocol=protocol, budget=budget, warm_start=False),
    )  # fmt: skip
    about = About(
        description="", notes=(), applied="", usage="", source="", objective=objective, metrics={},
        first_signal=first_signal, untrained=2.0, stacking=Stacking(), versions={},
        created="2026-01-01",
    )  # fmt: skip
    records = [_record(number, score) for number, score in enumerate(scores)]
    winner = RULES[3] if len(scores) > 3 else RULES[0]
    rows = [
        evaluation(winner, (0.18, 0.2, 0.22, 0.2), steps=1000, trained=8000),
        evaluation(OPPONENT, (0.23, 0.25, 0.27, 0.25), steps=1000, trained=8000),
    ]
    nothing = Counts(
        drawn=9, accepted=4, duplicate=0, rejected=0, early_stopped=1, diverged=0, failed=0,
        timed_out=0, refused={},
    )  # fmt: skip
    summary = Summary(
        finished=final, compared=tuple(e.recipe for e in rows) if final else None, seconds=90.0,
        counts=nothing, searcher={}, log=(), evaluated=tuple(r.key for r in records),
    )  # fmt: skip
    name = name or f"{task}-{algorithm}-{seed}"
    with Store.open(folder, name, direction=objective.direction) as store:
        store.set_attr(ABOUT, about.to_json())
        store.set_attr(SETTINGS, settings.to_json())
        for record in records:
            store.add(record)
        if final:
            for row in rows:
                store.set_attr(final_key(row.recipe), row.to_json())
        if claim is not None:
            store.set_attr(CLAIM, asdict(claim))
        store.set_attr(SUMMARY, asdict(summary))
    return Study.load(name, folder)


def invented_claim(**changes) -> Claim:
    """Return a claim about the winner of an invented study."""
    claim = Claim(
        rule=RULES[3], lr=0.01, opponent=OPPONENT, opponent_lr=0.01,
        paired=Paired(-0.2, -0.25, -0.15, 0.001, 8), recommended=RULES[3],
        trained={"search": 20_000, "report": 10_000},
    )  # fmt: skip
    return replace(claim, **changes)


def _record(number: int, score: float | None) -> Record:
    rule = RULES[number % len(RULES)]
    found = evaluation(rule, (score or 0.0, score or 0.0))
    if score is None:
        found = Evaluation(rule, Status.EARLY_STOPPED, steps=100, trained=250)
    return Record(
        candidate=str(number), rule=rule, fidelity=1.0, block=0, fixed_lr=None, phase="",
        state="pruned" if score is None else "ok", score=score, lr=found.lr, length=1,
        curve=found.curve, data=found.to_json(),
    )  # fmt: skip
