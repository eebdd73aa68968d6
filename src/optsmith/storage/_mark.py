"""Which studies of a storage are ours: those that carry the version of our schema."""

from __future__ import annotations

from typing import Literal

import optuna
from optuna.storages import BaseStorage
from optuna.study import StudyDirection

from optsmith._errors import StudyError

Direction = Literal["minimize", "maximize"]

SCHEMA_KEY = "optsmith:schema"
SCHEMA = 2
"""Version of what the attributes and trials of a study mean."""


def find_marked(
    backend: BaseStorage, name: str, direction: Direction | None, *, read_only: bool
) -> optuna.Study | None:
    """Return a study of ours; None if there is none of that name.

    Raises:
        StudyError: It is not ours, made by another version, or of the other direction.
    """
    try:
        study = optuna.load_study(study_name=name, storage=backend)
    except KeyError:
        return None
    schema = study.user_attrs.get(SCHEMA_KEY)
    if schema is None:
        if study.user_attrs or study.get_trials(deepcopy=False):
            raise StudyError(f'study "{name}" was not made by Optsmith: choose another --study')
        # A kill between the two operations that make a study leaves an empty one without mark.
        if read_only:
            return None
    elif schema < SCHEMA:
        raise StudyError(
            f'study "{name}" was made by an older Optsmith (schema {schema}, here {SCHEMA}): read'
            " it with the version that made it, or begin a new one under another --study"
        )
    elif schema > SCHEMA:
        raise StudyError(
            f'study "{name}" was made by a newer Optsmith (schema {schema}, here {SCHEMA}):'
            " upgrade this one"
        )
    found = direction_of(study)
    if direction not in (None, found):
        raise StudyError(
            f'study "{name}" is there to {found} scores, not to {direction} them:'
            " choose another --study"
        )
    if schema is None:
        study.set_user_attr(SCHEMA_KEY, SCHEMA)
    return study


def create_marked(backend: BaseStorage, name: str, direction: Direction | None) -> optuna.Study:
    """Return a new study of ours."""
    study = optuna.create_study(
        storage=backend,
        study_name=name,
        direction=direction or "minimize",
        load_if_exists=True,  # another machine may have been first
    )
    study.set_user_attr(SCHEMA_KEY, SCHEMA)
    return study


def direction_of(study: optuna.Study) -> Direction:
    """Return which scores are good in a study."""
    return "maximize" if study.directions == [StudyDirection.MAXIMIZE] else "minimize"
