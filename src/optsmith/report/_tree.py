"""Section of the super-tree: the children at each level, and the path that was chosen."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from optsmith._stored import damaged, read
from optsmith.report._html import Content, Markup, code, joined, section, tag
from optsmith.report._values import Goal, count, finite, finites, plural
from optsmith.study import Study

Level = Mapping[str, Any]
Child = Mapping[str, Any]


@dataclass(frozen=True)
class _StoredChild:
    """A child of a level, as the tree search stores it."""

    node: str
    operator: str
    score: float | None
    count: int
    is_leaf: bool


@dataclass(frozen=True)
class _StoredLevel:
    """A level, as the tree search stores it."""

    level: int
    node: str
    draws: int
    accepted: int
    ended: str
    chosen: str | None
    children: tuple[_StoredChild, ...]


def ordered(level: Level, goal: Goal) -> list[Child]:
    """Return the children of a level, best score first; children without a score are last."""

    def key(child: Child) -> tuple[bool, float]:
        score = finite(child["score"])
        return score is None, 0.0 if score is None else goal.cost(score)

    return sorted(level["children"], key=key)


class _Shades:
    """Rank of a score among all scores of the tree: 1 for the best, 0 for the worst.

    Ranks rather than values, because a few very bad scores would give all others the same shade.
    """

    def __init__(self, tree: Sequence[Level], goal: Goal) -> None:
        scores = finites(child["score"] for level in tree for child in level["children"])
        self._costs = sorted(goal.cost(score) for score in scores)
        self._goal = goal

    def __call__(self, score: float) -> float:
        rank = bisect_left(self._costs, self._goal.cost(score))
        return round(1 - rank / max(1, len(self._costs) - 1), 3)


def _words(child: Child, chosen: bool, goal: Goal) -> list[str]:
    """Return the facts about a child, as short phrases."""
    score = finite(child["score"])
    if score is None:
        facts = ["no sample scored"]
    else:
        facts = [
            f"{goal.quantity.name} {goal.quantity.text(score)}",
            "1 sample" if child["count"] == 1 else f"mean of {count(child['count'])} samples",
        ]
    if child["is_leaf"]:
        facts.append("a complete rule, without children")
    if chosen:
        facts.append("chosen: the next level explored it")
    return facts


def _label(child: Child, level: Level) -> str:
    """Return the operator, with its slots if another one has the same symbol: -? and ? - ?."""
    sign: str = child["operator"]
    if [other["operator"] for other in level["children"]].count(sign) == 1:
        return sign
    opened = child["node"].count("?") - level["node"].count("?")
    return f"? {sign} ?" if opened > 0 else f"{sign}?"


def _button(child: Child, label: str, chosen: bool, shades: _Shades, goal: Goal) -> Markup:
    score = finite(child["score"])
    kinds = ["child"]
    kinds += ["leaf"] if child["is_leaf"] else []
    kinds += ["unseen"] if score is None else []
    kinds += ["chosen"] if chosen else []
    facts = joined(" · ", _words(child, chosen, goal))
    return tag(
        "button",
        tag("span", label, class_="operator"),
        tag("span", "leaf", class_="mark") if child["is_leaf"] else None,
        None if score is None else tag("span", goal.quantity.text(score, 3), class_="mean"),
        None if score is None else tag("span", f"×{child['count']}", class_="count"),  # noqa: RUF001
        type="button",
        class_=" ".join(kinds),
        style=None if score is None else f"--shade:{shades(score)}",
        title=f"{child['node']}: {', '.join(_words(child, chosen, goal))}",
        data_node=child["node"],
        data_facts=facts,
    )


def _fan(start: float, count: int, chosen: int | None, rows: int) -> Markup:
    """Return the branches from a node on the left to all its children on the right."""
    lines: list[Content] = []
    for i in [*(i for i in range(count) if i != chosen), *([] if chosen is None else [chosen])]:
        end = i + 0.5
        curve = f"M0 {start:g}C50 {start:g} 50 {end:g} 100 {end:g}"
        class_ = "branch taken" if i == chosen else "branch"
        lines.append(tag("path", d=curve, class_=class_, vector_effect="non-scaling-stroke"))
    return tag(
        "svg",
        lines,
        viewBox=f"0 0 100 {rows}",
        preserveAspectRatio="none",
        style=f"--rows:{rows}",
        class_="fan",
        aria_hidden="true",
    )


def _place(children: Sequence[Child], chosen: str | None) -> int | None:
    nodes = [child["node"] for child in children]
    return nodes.index(chosen) if chosen in nodes else None


def _head(level: Level) -> Markup:
    usual = f"{level['accepted']} accepted"
    ended = level.get("ended") or usual
    return tag(
        "div",
        tag("h3", f"Level {level['level'] + 1}"),
        tag("p", "exploring ", code(level["node"])),
        tag(
            "p",
            f"{plural(level['draws'], 'draw', 'draws')}, {count(level['accepted'])} accepted",
            None if ended == usual else f"; ended: {ended}",
            class_="note",
        ),
        class_="level-head",
    )


def _drawing(tree: Sequence[Level], goal: Goal) -> Markup:
    shades = _Shades(tree, goal)
    columns = [ordered(level, goal) for level in tree]
    rows = max(map(len, columns))
    start: float = len(columns[0]) / 2
    parts: list[Content] = []
    for level, children in zip(tree, columns, strict=True):
        chosen = _place(children, level["chosen"])
        buttons = [
            tag("li", _button(child, _label(child, level), i == chosen, shades, goal))
            for i, child in enumerate(children)
        ]
        name = f"Level {level['level'] + 1}, children of {level['node']}"
        parts += [
            _fan(start, len(children), chosen, rows),
            _head(level),
            tag("ul", buttons, class_="level", aria_label=name),
        ]
        start = 0.5 if chosen is None else chosen + 0.5
    return tag("div", parts, class_="tree", style=f"--levels:{len(tree)}")


LEGEND = (
    ("shade", "mean score, from best to worst"),
    ("leaf", "leaf: a complete rule"),
    ("unseen", "no sample scored"),
    ("chosen", "chosen path"),
)


def tree_levels(study: Study) -> list[Level]:
    """Return the levels that a tree search explored; none for other searchers.

    Raises:
        StudyError: The stored levels are damaged.
    """
    stored = study.summary.get("searcher", {}).get("decisions", [])
    what = f"the searcher's summary of the study {study.name} in {study.location}"
    if not isinstance(stored, list):
        raise damaged(what, "decisions is not a list")
    return [asdict(read(_StoredLevel, level, what)) for level in stored]


def tree_section(tree: Sequence[Level], goal: Goal) -> Markup | None:
    """Return the section of the super-tree, or None for searches without one."""
    tree = [level for level in tree if level["children"]]
    if not tree:
        return None
    keys = [tag("li", tag("i", class_=f"key {kind}"), words) for kind, words in LEGEND]
    detail = tag(
        "p",
        "Select a child to see its scores.",
        class_="detail",
        id="tree-detail",
        aria_live="polite",
    )
    return section(
        "tree",
        "Path through the super-tree",
        detail,
        tag("div", _drawing(tree, goal), class_="tree-scroll"),
        tag("ul", keys, class_="legend"),
        lead="At each level, rules were drawn below the children (an operator in the next slot, ?)."
        " The path follows the best mean score (mct), or most of the draws (uct).",
    )
