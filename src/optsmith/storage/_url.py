"""Parsing of storage arguments, and masking of passwords."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, unquote_plus

from optsmith._errors import StudyError

DEFAULT_DIRECTORY = Path("optsmith-studies")

_JOURNAL_SUFFIXES = (".journal", ".log")
_MAX_NAME_BYTES = 200  # file systems allow 255, and suffixes are added

# Greedy, up to the last @: a password that contains an @ is not a valid URL, but still masked.
_USERINFO = re.compile(r"(://[^:/?#@\s]*:)(\S*)@")
_SECRET_OPTION = re.compile(r"([?&][^=&\s]*(?:pass|pwd|secret|token)[^=&\s]*=)([^&\s]*)", re.I)
_ALMOST_URL = re.compile(r"(sqlite|postgres|postgresql|mysql|mariadb|redis)(\+\w+)?:", re.I)


def mask(url: str) -> str:
    """Return a text with the passwords of the URLs in it replaced by `***`."""
    return _SECRET_OPTION.sub(r"\1***", _USERINFO.sub(r"\1***@", url))


def hide(text: str, url: str) -> str:
    """Return `text` with the passwords of `url` masked, in any URL encoding."""
    found = [match[2] for pattern in (_USERINFO, _SECRET_OPTION) for match in pattern.finditer(url)]
    spellings = {spell(secret) for secret in found for spell in (str, unquote, unquote_plus)}
    for secret in sorted(filter(None, spellings), key=len, reverse=True):
        # Whole words only: masking every occurrence of a one-letter password would reveal it.
        text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "***", text)
    return mask(text)


def check_name(name: str) -> str:
    """Return the name of a study if it is valid on all storages.

    Raises:
        StudyError: It is empty, too long, or contains characters that are not allowed.
    """
    if not name.strip():
        raise StudyError("a study needs a name that is not empty")
    if "/" in name or "\\" in name or name.startswith(".") or not name.isprintable():
        raise StudyError(
            f"{name!r} cannot name a study: slashes, a dot at the beginning and unprintable "
            "characters are not allowed"
        )
    if len(name.encode()) > _MAX_NAME_BYTES:
        raise StudyError(f"the name of a study has at most {_MAX_NAME_BYTES} bytes")
    return name


def is_url(storage: str | Path | None) -> bool:
    """Return whether a storage is a URL, not a path."""
    return isinstance(storage, str) and "://" in storage


def journal_place(storage: str | Path | None) -> tuple[Path, bool]:
    """Return the path of a storage, and whether it is a journal rather than a directory.

    Raises:
        StudyError: It is neither a journal nor a directory.
    """
    if storage is None:
        return DEFAULT_DIRECTORY, False
    if not str(storage):
        raise StudyError("the storage is empty: give a directory, a *.journal file or a URL")
    if isinstance(storage, str) and _ALMOST_URL.match(storage):
        kind = storage.partition(":")[0]
        raise StudyError(f"a storage URL begins with {kind}://, as in sqlite:///studies.db")
    path = Path(storage).expanduser()
    if path.is_dir():
        return path, False
    if path.suffix in _JOURNAL_SUFFIXES:
        return path, True
    if path.exists():
        raise StudyError(f"{path} is a file but not named *.journal or *.log: give a directory")
    return path, False


def journal_path(storage: str | Path | None, name: str) -> Path:
    """Return the path of the journal of a study."""
    place, is_journal = journal_place(storage)
    return place if is_journal else place / f"{name}.journal"
