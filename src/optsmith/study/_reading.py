"""The parts of a stored study, checked as they are read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from optsmith._stored import damaged, read
from optsmith.evaluation import Claim, Evaluation
from optsmith.storage import Record
from optsmith.study._attributes import CLAIM, FINAL, RACED
from optsmith.study._race import Raced

K = TypeVar("K")
T = TypeVar("T")


def final_key(recipe: str) -> str:
    """Return the attribute that holds a recipe's final evaluation.

    It contains a hash, because databases limit the length of names.
    """
    return FINAL + hashlib.blake2b(recipe.encode(), digest_size=16).hexdigest()


def evaluation_of(record: Record, of: str) -> Evaluation:
    what = f"the evaluation of candidate {record.candidate} {of}"
    found = Evaluation.from_json(record.data, what)
    if found.recipe != record.rule:
        raise damaged(what, f"it is of the rule {found.recipe}, not {record.rule}")
    return found


def stored_claim(attrs: Mapping[str, Any], of: str) -> Claim | None:
    if attrs.get(CLAIM) is None:
        return None
    return read(Claim, attrs[CLAIM], f'the attribute "{CLAIM}" {of}')


def final_evaluations(attrs: Mapping[str, Any], of: str) -> dict[str, Evaluation]:
    """Return the final evaluations among the attributes of a study, by recipe.

    Args:
        attrs: The attributes.
        of: Which study it is, for messages.

    Raises:
        StudyError: One is damaged.
    """
    found = {}
    for key, data in attrs.items():
        if key.startswith(FINAL):
            what = f'the attribute "{key}" {of}'
            evaluation = Evaluation.from_json(data, what)
            if final_key(evaluation.recipe) != key:
                raise damaged(what, f"it is not the place of {evaluation.recipe}")
            found[evaluation.recipe] = evaluation
    return found


def stored_raced(attrs: Mapping[str, Any], of: str) -> tuple[Raced, ...]:
    what = f'the attribute "{RACED}" {of}'
    found = attrs.get(RACED, [])
    if not isinstance(found, list):
        raise damaged(what, "it is not a list")
    return tuple(read(Raced, one, what) for one in found)


def selected(found: Mapping[K, T], keys: Sequence[K] | None, what: str) -> list[T]:
    """Return the named items in order."""
    if keys is None:
        raise damaged(what, "the search is finished, but nothing was compared")
    missing = [key for key in keys if key not in found]
    if missing:
        raise damaged(what, f"it names {missing[0]!r}, which is not in the study")
    return [found[key] for key in keys]
