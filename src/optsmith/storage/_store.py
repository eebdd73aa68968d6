"""The store of a study: evaluations in an Optuna storage, written by a background thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import optuna
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial

from optsmith._errors import StudyError
from optsmith.storage._lock import hold
from optsmith.storage._mark import Direction, create_marked, direction_of, find_marked
from optsmith.storage._place import TROUBLE, list_studies, missing, place_of, quiet, reason
from optsmith.storage._record import Record, from_trial, plain, to_trial
from optsmith.storage._url import check_name, mask

__all__ = ["Direction", "Record", "Store", "list_studies", "mask"]

T = TypeVar("T")


class Store:
    """The records and attributes of one study; made by `Store.open`.

    Only one process can write to a study at a time. Each record is written atomically, so a kill
    loses only records that are not yet written. One thread does all work in the order of the calls.
    After a failed write, all later writes raise the same error.

    Attributes:
        name: Name of the study.
        location: Path or URL, without passwords.
        direction: Whether scores are minimized or maximized.
    """

    def __init__(
        self,
        study: optuna.Study,
        backend: BaseStorage,
        storage: str | Path | None,
        location: str,
        read_only: bool,
        resources: ExitStack,
    ) -> None:
        self.name = study.study_name
        self.location = location
        self.direction = direction_of(study)
        self._study = study
        self._backend = backend
        self._storage = storage
        self._read_only = read_only
        self._resources = resources
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="optsmith-store")
        self._failure: Exception | None = None
        self._reported = False
        self._closed = False

    def __repr__(self) -> str:
        return f"Store({self.name!r}, {self.location!r})"

    @classmethod
    def open(
        cls,
        storage: str | Path | None,
        name: str,
        *,
        direction: Direction | None = None,
        create: bool = True,
        read_only: bool = False,
    ) -> Store:
        """Open a study.

        Args:
            storage: A directory of journals (None: `optsmith-studies` in the current one), a
                `*.journal` or `*.log` file, or a database URL.
            name: Name of the study.
            direction: Whether scores are minimized or maximized; None: that of the study, or
                minimized for a new study.
            create: Whether to create a study that does not exist.
            read_only: Whether to only read, which needs no lock and changes nothing.

        Raises:
            StudyError: There is no such study, another process is writing to it, it is not
                Optsmith's, or the storage cannot be used.
        """
        place = place_of(storage, check_name(name))
        create = create and not read_only
        try:
            with ExitStack() as stack:
                if not create and not place.exists():
                    raise missing(storage, name)
                if not read_only:
                    stack.callback(hold(place.lock_path, name).release)
                with quiet():
                    backend = place.connect(read_only=read_only)
                    stack.callback(place.disconnect, backend)
                    study = find_marked(backend, name, direction, read_only=read_only)
                    if study is None and create:
                        study = create_marked(backend, name, direction)
                if study is None:
                    raise missing(storage, name)
                resources = stack.pop_all()
        except TROUBLE as error:
            raise StudyError(
                f'study "{name}" in {place.location} cannot be opened: {reason(error, storage)}'
            ) from None
        return cls(study, backend, storage, place.location, read_only, resources)

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes of the study, as a copy."""
        return self._do(lambda: dict(self._study.user_attrs))

    def set_attr(self, key: str, value: Any) -> None:
        """Set an attribute to a JSON value, and wait until it is written.

        All records that were added before are written first.
        """
        self._check_writable()
        plain_value = plain(value, f'the attribute "{key}"')
        self.flush()
        self._do(lambda: self._study.set_user_attr(key, plain_value))

    def add(self, record: Record) -> None:
        """Queue a record for writing; `flush` waits until it is written.

        Raises:
            StudyError: The record cannot be written as JSON, or an earlier write failed.
        """
        self._check_writable()
        self._check_failure()
        self._submit(self._write, to_trial(record))

    def records(self) -> list[Record]:
        """Return all records in the order of writing; of records with equal keys, the last.

        The order does not depend on the search: evaluations may finish in any order.

        Raises:
            StudyError: A record is damaged.
        """
        found: dict[tuple[str, float], Record] = {}
        for trial in self._do(self._trials):
            record = from_trial(trial, self._here)
            if record is not None:
                found[record.key] = record
        return list(found.values())

    def flush(self) -> None:
        """Wait until all queued records are written.

        Raises:
            StudyError: A record could not be written.
        """
        self._submit(lambda: None).result()
        self._check_failure()

    def close(self) -> None:
        """Write all queued records and release the lock; closing twice does nothing.

        Raises:
            StudyError: A record could not be written, and no earlier call has raised this error.
        """
        if self._closed:
            return
        self._closed = True
        self._worker.shutdown(wait=True)
        self._resources.close()
        if not self._reported:
            self._check_failure()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            self.close()
        except StudyError as failure:
            if error is None:
                raise
            error.add_note(str(failure))  # the first error matters more

    @property
    def _here(self) -> str:
        return f'study "{self.name}" in {self.location}'

    def _trials(self) -> list[FrozenTrial]:
        # Not `study.trials`: its cache misses trials older than one that it has added itself.
        study_id = self._backend.get_study_id_from_name(self.name)
        return self._backend.get_all_trials(study_id, deepcopy=False)

    def _write(self, trial: FrozenTrial) -> None:
        if self._failure is None:
            try:
                self._study.add_trial(trial)
            except Exception as error:  # raised again in the caller's thread
                self._failure = error

    def _check_writable(self) -> None:
        if self._read_only:
            raise StudyError(f"{self._here} was opened for reading only")

    def _check_failure(self) -> None:
        if self._failure is None:
            return
        self._reported = True
        if not isinstance(self._failure, TROUBLE):
            raise self._failure
        why = reason(self._failure, self._storage)
        raise StudyError(f"{self._here} cannot be written: {why}; earlier records are intact")

    def _do(self, work: Callable[[], T]) -> T:
        try:
            return self._submit(work).result()
        except TROUBLE as error:
            raise StudyError(
                f"{self._here} cannot be used: {reason(error, self._storage)}"
            ) from None

    def _submit(self, work: Callable[..., T], *arguments: Any) -> Future[T]:
        if self._closed:
            raise StudyError(f"{self._here} is closed")
        return self._worker.submit(work, *arguments)
