"""The claim card of a study: what it claims, the evidence, the budgets, and what was not tested."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from optsmith.report._evidence import (
    change_text,
    evidence_text,
    first_sentence,
    interval_text,
    seeds_text,
    share_interval,
    share_text,
    time_share,
)
from optsmith.report._parts import Card, Part, Text, Verbatim
from optsmith.report._rows import is_rule
from optsmith.report._usage import commands
from optsmith.report._values import (
    MISSING,
    Goal,
    Quantity,
    count,
    duration,
    finite,
    finites,
    fixed,
    percent,
    plural,
    shortest,
    significant,
)

NOT_MEASURED = "not measured"
PURPOSES = {
    "search": "search",
    "opponents": "race of the opponents",
    "refinement": "shorter forms of the best rule",
    "tuning": "learning rates at full length",
    "report": "comparison on report seeds",
    "checks": "speed-up and checks",
    "equal tuning": "constants of the best opponent",
}


def make_card(data: Mapping[str, Any]) -> Card:
    """Return the card of a study.

    Args:
        data: The study as plain data, as returned by `report_data`; it has a winner.
    """
    goal = Goal.reported(data.get("task") or {})
    claim, winner = data.get("claim"), data["winner"]
    first, rest = first_sentence(data.get("verdict") or "")
    title = (Verbatim(winner.get("simplified") or winner["rule"]), f" on {data.get('title')}")
    unclaimed = "No claim: " + (
        "the search is not finished." if not data.get("finished") else "no opponent was compared."
    )
    parts = [_evidence(claim, goal)] if claim else []
    parts += [_recipe(data), *_opponents(data, goal)]
    if claim:
        parts += [*_ablation(claim, goal), *_checks(claim, goal)]
        parts += [_cost(data, claim), _untested(claim)]
    parts += [_task(data, goal), _use(data)]
    return Card(title, first or unclaimed, rest, parts)


def _evidence(claim: Mapping[str, Any], goal: Goal) -> Part:
    """Return the numbers behind the claim."""
    metrics = [(goal.metric(name), paired) for name, paired in claim["metrics"].items()]
    facts: list[tuple[str, Text]] = [
        (f"change of {quantity.name}", _change_words(paired, quantity))
        for quantity, paired in [(goal.quantity, claim["paired"]), *metrics]
    ]
    against = claim["opponent"] or "none"
    facts.insert(0, ("compared with", (Verbatim(against), _at_lr(claim.get("opponent_lr")))))
    speed_up = claim.get("speed_up")
    words = NOT_MEASURED
    if speed_up:
        interval = share_interval(speed_up)
        seeds = plural(speed_up.get("seeds"), "seed", "seeds")
        words = f"{share_text(speed_up)} of its steps"
        words += f" (95 % interval {interval}, {seeds})" if interval else f" ({seeds})"
        if time := time_share(claim):
            words += f", {time} of its time"
    facts.append(("training for the same result", words))
    if finite(claim.get("step_ratio")) is not None:
        facts.append(("time per step", f"{fixed(claim['step_ratio'], 2)} times the opponent's"))
    facts.append(("against an equally tuned opponent", _equally_tuned(claim, goal)))
    return Part("Evidence", facts)


def _change_words(paired: Mapping[str, Any], quantity: Quantity) -> str:
    return f"{change_text(paired, quantity.unit)} ({evidence_text(paired, quantity.unit)})"


def _equally_tuned(claim: Mapping[str, Any], goal: Goal) -> Text:
    paired = claim.get("equally_tuned")
    if not paired:
        return NOT_MEASURED
    words = _change_words(paired, goal.quantity)
    return Verbatim(claim["equally_tuned_opponent"]), f": {words}"


def _at_lr(lr: Any) -> str:
    return "" if finite(lr) is None else f", learning rate {shortest(lr)}"


def _recipe(data: Mapping[str, Any]) -> Part:
    winner, recommended = data["winner"], data["recommended"]
    facts: list[tuple[str, Text]] = [("rule", Verbatim(winner.get("simplified") or winner["rule"]))]
    if winner.get("simplified"):
        facts.append(("as found", Verbatim(winner["rule"])))
    if known := (data.get("claim") or winner).get("known"):
        facts.append(("known as", known))
    facts.append(("learning rate", shortest(winner.get("lr"))))
    facts.append(("steps", count((data.get("final") or {}).get("steps"))))
    if recommended["recipe"] != winner["rule"]:
        chosen = (Verbatim(recommended["recipe"]), _at_lr(recommended.get("lr")))
        facts.append(("recommended instead", chosen))
    return Part("Rule", facts)


def _opponents(data: Mapping[str, Any], goal: Goal) -> list[Part]:
    """Return all recipes of the comparison, and how the opponents were tuned."""
    final, raced = data.get("final") or {}, data.get("raced") or []
    rows = final.get("rows") or []
    opponents = [row for row in rows if not is_rule(row)]
    if not opponents:
        return []
    shown = [row for row in rows if not is_rule(row) or row["label"] == data["winner"]["rule"]]
    head = ["recipe", goal.quantity.name, "change", "95 % interval", "learning rate", "seeds"]
    lines = [
        (
            Verbatim(row.get("shown") or row["label"]),
            goal.quantity.text(row.get("score")) if row["status"] == "ok" else row["status"],
            *_change(row, final.get("opponent"), goal.quantity.unit),
            shortest(row.get("lr")),
            count(row.get("n")),
        )
        for row in shown
    ]
    facts: list[tuple[str, Text]] = [
        ("opponents", _combinations(len(opponents), raced)),
        ("learning rates", _rates(opponents)),
    ]
    race = finite(((data.get("claim") or {}).get("trained") or {}).get("opponents"))
    if race:
        facts.append(("training steps of the race", count(race)))
    facts.append(
        ("change", ("relative to ", Verbatim(final.get("opponent") or ""), ", paired by seed"))
    )
    return [Part("Opponents", facts, head, lines)]


def _change(row: Mapping[str, Any], opponent: Any, unit: str) -> tuple[str, str]:
    if row["label"] == opponent:
        return "reference", ""
    paired = row.get("change")
    return change_text(paired, unit), interval_text(paired, unit) or MISSING


def _combinations(finalists: int, raced: Sequence[Mapping[str, Any]]) -> str:
    total = plural(finalists + len(raced), "combination", "combinations")
    words = f"{total} of optimizer and schedule"
    if not raced:
        return words
    shares = Counter(percent(left.get("fidelity") or 0.0, 1.0) for left in raced)
    left = ", ".join(f"{many} after {share}" for share, many in shares.items())
    was = "was" if finalists == 1 else "were"
    return f"{words}; {len(raced)} left the race ({left} of the run), {finalists} {was} compared"


def _rates(opponents: Iterable[Mapping[str, Any]]) -> str:
    tried = [int(row.get("rates") or 0) for row in opponents]
    few, most = min(tried), max(tried)
    many = str(few) if few == most else f"{few} to {most}"
    return f"{many} per compared opponent, at full length; every schedule is tuned on its own"


def _ablation(claim: Mapping[str, Any], goal: Goal) -> list[Part]:
    """Return what the parts of the rule are worth."""
    ablation = claim.get("ablation") or []
    if not ablation:
        return []
    rows = [
        (
            Verbatim(part["without"]),
            change_text(part["paired"], goal.quantity.unit),
            interval_text(part["paired"], goal.quantity.unit) or MISSING,
            "removed" if part.get("removed") else "kept",
        )
        for part in ablation
    ]
    head = ["without", f"change of {goal.quantity.name}", "95 % interval", ""]
    facts: list[tuple[str, Text]] = [
        ("compared with", "the rule as it was found, on selection seeds"),
    ]
    return [Part("Parts of the rule", facts, head, rows)]


def _checks(claim: Mapping[str, Any], goal: Goal) -> list[Part]:
    checks = claim.get("checks") or []
    if not checks:
        return []
    rows = [
        (
            check["setting"],
            "the rule" if check["against"] == claim["rule"] else Verbatim(check["against"]),
            change_text(check["paired"], goal.quantity.unit),
            interval_text(check["paired"], goal.quantity.unit) or MISSING,
            count(check["paired"].get("seeds")),
        )
        for check in checks
    ]
    head = ["setting", "against", f"change of {goal.quantity.name}", "95 % interval", "seeds"]
    return [Part("The rule under other settings", head=head, rows=rows)]


def _cost(data: Mapping[str, Any], claim: Mapping[str, Any]) -> Part:
    """Return seeds, training steps and time."""
    steps = finite((data.get("final") or {}).get("steps")) or 0.0

    def line(name: str, trained: float) -> tuple[str, str, str]:
        return name, count(trained), significant(trained / steps, 3) if steps else MISSING

    trained = {key: finite(many) or 0.0 for key, many in (claim.get("trained") or {}).items()}
    rows = [line(PURPOSES.get(key, key), many) for key, many in trained.items()]
    rows.append(line("total", sum(trained.values())))
    facts: list[tuple[str, Text]] = [
        ("chosen on", seeds_text(finites(claim.get("selection_seeds") or ()))),
        ("reported on", seeds_text(finites(claim.get("report_seeds") or ()))),
        ("looks at the comparison", count(claim.get("looks"))),
        ("time", duration(data.get("seconds"))),
    ]
    return Part("Seeds and cost", facts, ["purpose", "training steps", "full runs"], rows)


def _untested(claim: Mapping[str, Any]) -> Part:
    settings = [str(check["setting"]) for check in claim.get("checks") or []]
    horizons = [words for words in settings if "steps" in words]
    tested = " and ".join(["this one", *horizons])
    items = ["other models and model sizes", "other data", "other batch sizes"]
    items.append(f"other horizons than {tested}")
    if not any("learning rate" in words for words in settings):
        items.append("other learning rates than the best")
    if not claim.get("equally_tuned"):
        items.append("the opponents' other constants, such as betas and weight decay: at defaults")
    return Part("Not tested", items=items)


def _task(data: Mapping[str, Any], goal: Goal) -> Part:
    task, versions = data.get("task") or {}, data.get("versions") or {}
    objective = f"{task.get('objective') or goal.quantity.name} ({goal.direction})"
    if task.get("reported") not in (None, task.get("objective")):
        objective += f", reported as {task['reported']}"
    metrics = ", ".join(task.get("metrics") or {})
    facts: list[tuple[str, Text]] = [("task", str(task.get("name") or MISSING))]
    if task.get("description"):
        facts.append(("description", task["description"]))
    facts.append(("objective", objective))
    if task.get("notes"):
        facts.append(("data", "; ".join(task["notes"])))
    if metrics:
        facts.append(("held-out metrics", metrics))
    facts.append(("versions", ", ".join(f"{name} {text}" for name, text in versions.items())))
    if data.get("created"):
        facts.append(("made", str(data["created"])))
    return Part("Task", facts)


def _use(data: Mapping[str, Any]) -> Part:
    export, python = commands(data)
    use = [block for block in (("sh", export), ("python", python)) if block[1]]
    command, call = data.get("command"), data.get("call")
    repeat = ("sh", command) if command else ("python", call) if call else None
    return Part("Use and repeat", blocks=[*use, *([repeat] if repeat else [])])
