"""A study in a database: SQLite, PostgreSQL, or another one that SQLAlchemy and Optuna support."""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import sqlalchemy
from optuna.storages import BaseStorage, RDBStorage
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from optsmith._errors import StudyError
from optsmith.storage._lock import shared_lock_path
from optsmith.storage._url import mask

_BUSY_SECONDS = 60.0  # SQLite: waiting time for readers such as a dashboard
_CONNECT_SECONDS = 10
_DRIVERS = {
    "postgresql": "pip install 'optsmith[postgresql]'",
    "mysql": "pip install pymysql and write mysql+pymysql://",
    "mariadb": "pip install pymysql and write mariadb+pymysql://",
}


@dataclass(frozen=True)
class DatabasePlace:
    """A database that holds studies.

    Attributes:
        text: The URL as given; it may contain a password.
    """

    text: str

    def __repr__(self) -> str:
        return f"DatabasePlace({self.location!r})"

    @property
    def location(self) -> str:
        """The URL without its password."""
        return mask(self.text)

    @cached_property
    def url(self) -> URL:
        """The URL as an object of SQLAlchemy.

        Raises:
            StudyError: It is not a valid URL, or not of a database that can hold a study.
        """
        scheme, _, rest = self.text.partition("://")
        if scheme.startswith("redis"):
            raise StudyError(
                "Redis cannot store a study: use a directory, sqlite:/// or postgresql://"
            )
        host = re.split("[/?]", rest.partition("@")[2])[0]
        if "@" in host and not scheme.startswith("sqlite"):
            raise StudyError(f"{self.location} has two @: write the one in a password as %40")
        if scheme in ("postgres", "postgresql"):
            scheme = f"postgresql+{_postgresql_driver()}"
        try:
            url = make_url(f"{scheme}://{rest}")
            url.get_dialect()
        except NoSuchModuleError:
            raise StudyError(
                f"{scheme}:// is not known: use a directory, sqlite:/// or postgresql://"
            ) from None
        except ImportError:
            raise self._no_driver(scheme) from None
        except (ArgumentError, ValueError):  # the message may contain a part of the password
            raise StudyError(
                f"{self.location} is not a storage URL: write kind://user:password@host/database"
                ", with special characters of a password as %XX"
            ) from None
        if self._is_sqlite(url) and ":memory:" in f"{url.database or ':memory:'}":
            raise StudyError(
                "SQLite in memory stores nothing: name a file, as in sqlite:///study.db"
            )
        return url

    @property
    def lock_path(self) -> Path:
        """The lock file of the writer; it does not depend on the spelling of path or password."""
        file = self._file
        return shared_lock_path(str(file.resolve()) if file else mask(str(self.url)))

    def exists(self) -> bool:
        """Return whether the database has studies, without creating it."""
        if self._file is not None and not self._file.is_file():
            return False
        engine = self._engine(read_only=True)
        try:
            return sqlalchemy.inspect(engine).has_table("studies")
        finally:
            engine.dispose()

    def connect(self, *, read_only: bool) -> BaseStorage:
        """Return the storage; creates its tables if it is for writing.

        Raises:
            StudyError: The driver is missing, or the tables belong to another version of Optuna.
        """
        file = self._file
        if not read_only and file is not None and file.exists() and not _is_writable(file):
            # SQLite would report this only at the first record.
            raise PermissionError(errno.EACCES, "the file or its directory is read-only")
        try:
            return RDBStorage(
                self._address(read_only=read_only),
                engine_kwargs=self._options(),
                skip_table_creation=read_only,
            )
        except ImportError:
            raise self._no_driver(self.url.drivername) from None
        except RuntimeError as error:  # tables of another version of Optuna
            raise StudyError(f"{self.location} cannot be used: {mask(str(error))}") from None

    def disconnect(self, storage: BaseStorage) -> None:
        """Close the connections."""
        if isinstance(storage, RDBStorage):
            storage.remove_session()
            storage.engine.dispose()

    @property
    def _file(self) -> Path | None:
        url = self.url
        if not self._is_sqlite(url) or not url.database or url.database.startswith("file:"):
            return None
        return Path(url.database)

    @staticmethod
    def _is_sqlite(url: URL) -> bool:
        return url.get_backend_name() == "sqlite"

    def _address(self, *, read_only: bool) -> str:
        url = self.url
        if read_only and self._file is not None:
            # Unlike a plain path, "rw" does not create a file. Unlike "ro", it can roll back the
            # transaction of a killed writer, without which SQLite cannot read.
            url = url.set(
                database=self._file.resolve().as_uri(),
                query={**url.query, "mode": "rw", "uri": "true"},
            )
        return url.render_as_string(hide_password=False)

    def _options(self) -> dict[str, Any]:
        if self._is_sqlite(self.url):
            return {"connect_args": {"timeout": _BUSY_SECONDS}}
        options: dict[str, Any] = {"pool_pre_ping": True}  # the server may restart between writes
        libpq = self.url.get_driver_name().startswith("psycopg")
        if libpq and "connect_timeout" not in self.url.query:
            options["connect_args"] = {"connect_timeout": _CONNECT_SECONDS}
        return options

    def _engine(self, *, read_only: bool) -> sqlalchemy.Engine:
        try:
            return sqlalchemy.create_engine(self._address(read_only=read_only), **self._options())
        except ImportError:
            raise self._no_driver(self.url.drivername) from None

    def _no_driver(self, scheme: str) -> StudyError:
        kind = scheme.partition("+")[0]
        advice = _DRIVERS.get(kind, f"install the one that SQLAlchemy uses for {scheme}://")
        return StudyError(f"the driver for {kind} is not installed: {advice}")


def _is_writable(file: Path) -> bool:
    return os.access(file, os.W_OK) and os.access(file.resolve().parent, os.W_OK)


def _postgresql_driver() -> str:
    # SQLAlchemy's default depends on its version.
    if find_spec("psycopg2") is None and find_spec("psycopg") is not None:
        return "psycopg"
    return "psycopg2"
