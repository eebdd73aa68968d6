"""The interface that journals and databases share, and the choice between them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import optuna
from optuna.exceptions import ExperimentalWarning, OptunaError
from optuna.storages import BaseStorage
from sqlalchemy.exc import SQLAlchemyError

from optsmith._errors import StudyError
from optsmith.storage._database import DatabasePlace
from optsmith.storage._journal import JournalPlace, directory_studies
from optsmith.storage._mark import SCHEMA_KEY
from optsmith.storage._url import hide, is_url, journal_path, journal_place

TROUBLE = (OSError, OptunaError, SQLAlchemyError)
"""Errors of a storage that is full, missing, locked or not permitted."""


class Place(Protocol):
    """A journal or a database that holds studies."""

    @property
    def location(self) -> str:
        """Path or URL, without passwords."""

    @property
    def lock_path(self) -> Path:
        """The lock file of the writing process."""

    def exists(self) -> bool:
        """Return whether it exists, without creating it."""

    def connect(self, *, read_only: bool) -> BaseStorage:
        """Return the storage; creates it if it does not exist, unless `read_only`."""

    def disconnect(self, storage: BaseStorage) -> None:
        """Close a storage that `connect` returned."""


def place_of(storage: str | Path | None, name: str) -> Place:
    """Return the journal or database of a study.

    Raises:
        StudyError: The storage is neither.
    """
    if is_url(storage):
        return DatabasePlace(str(storage))
    return JournalPlace(journal_path(storage, name))


def list_studies(storage: str | Path | None) -> list[str]:
    """Return the names of the studies in a storage, without creating it.

    Raises:
        StudyError: The storage cannot be read.
    """
    place: Place
    if is_url(storage):
        place = DatabasePlace(str(storage))
    else:
        path, is_journal = journal_place(storage)
        if not is_journal:
            return directory_studies(path)
        place = JournalPlace(path)
    try:
        return _marked_studies(place)
    except TROUBLE as error:
        raise StudyError(f"{place.location} cannot be read: {reason(error, storage)}") from None


def missing(storage: str | Path | None, name: str) -> StudyError:
    """Return the error for a missing study, with the names of existing ones."""
    where = place_of(storage, name).location if is_url(storage) else journal_place(storage)[0]
    names = list_studies(storage)
    there = f"there are {', '.join(names)}" if names else "there is none"
    return StudyError(f'there is no study "{name}" in {where}: {there}')


def reason(error: BaseException, storage: str | Path | None) -> str:
    """Return the message of a storage's error in one line, without passwords."""
    if isinstance(error, OptunaError) and error.__cause__ is not None:
        error = error.__cause__
    # The driver's message: SQLAlchemy adds the statement and its parameters.
    error = getattr(error, "orig", None) or error
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return hide(lines[0], str(storage))


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress Optuna's messages about created and existing studies."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(level, optuna.logging.WARNING))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(level)


def _marked_studies(place: Place) -> list[str]:
    if not place.exists():
        return []
    with quiet():
        backend = place.connect(read_only=True)
    try:
        studies = backend.get_all_studies()
    finally:
        place.disconnect(backend)
    return sorted(study.study_name for study in studies if SCHEMA_KEY in study.user_attrs)
