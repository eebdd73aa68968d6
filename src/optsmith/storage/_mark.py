"""Identification of Optsmith's studies in a storage, by the version of their schema."""

from __future__ import annotations

from typing import Literal

import optuna
from optuna.storages import BaseStorage
from optuna.study import StudyDirection

from optsmith._errors import StudyError
from optsmith._stored import damaged

Direction = Literal["minimize", "maximize"]

SCHEMA_KEY = "optsmith:schema"
SCHEMA = 5
"""Version of the format of attributes and trials."""


def find_marked(
    backend: BaseStorage, name: str, direction: Direction | None, *, read_only: bool
) -> optuna.Study | None:
    """Return a study of Optsmith's; None if there is no study of that name.

    Raises:
        StudyError: It was made by another program or an incompatible version, or has the other
            direction.
    """
    try:
        study = optuna.load_study(study_name=name, storage=backend)
    except KeyError:
        return None
    schema = study.user_attrs.get(SCHEMA_KEY)
    if schema is None:
        if study.user_attrs or study.get_trials(deepcopy=False):
            raise StudyError(f'study "{name}" was not made by Optsmith: choose another --study')
        # A kill between the two operations that create a study leaves an empty study without mark.
        if read_only:
            return None
    elif type(schema) is not int:
        raise damaged(f'the study "{name}"', f"its schema is {schema!r:.40}, not an integer")
    elif schema < SCHEMA:
        raise StudyError(
            f'study "{name}" was made by an older Optsmith (schema {schema}, here {SCHEMA}): read'
            " it with the version that made it, or choose another --study"
        )
    elif schema > SCHEMA:
        raise StudyError(
            f'study "{name}" was made by a newer Optsmith (schema {schema}, here {SCHEMA}):'
            " upgrade this one"
        )
    found = direction_of(study)
    if direction not in (None, found):
        raise StudyError(
            f'study "{name}" is set to {found} scores, not to {direction} them:'
            " choose another --study"
        )
    if schema is None:
        study.set_user_attr(SCHEMA_KEY, SCHEMA)
    return study


def create_marked(backend: BaseStorage, name: str, direction: Direction | None) -> optuna.Study:
    """Create a study."""
    study = optuna.create_study(
        storage=backend,
        study_name=name,
        direction=direction or "minimize",
        load_if_exists=True,  # another machine may have created it
    )
    study.set_user_attr(SCHEMA_KEY, SCHEMA)
    return study


def direction_of(study: optuna.Study) -> Direction:
    """Return whether a study minimizes or maximizes its scores."""
    return "maximize" if study.directions == [StudyDirection.MAXIMIZE] else "minimize"
