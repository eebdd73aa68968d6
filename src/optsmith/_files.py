"""Atomic writing of files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from optsmith._errors import OptsmithError


def write_atomically(path: Path, text: str) -> None:
    """Write a text file atomically.

    Raises:
        OptsmithError: The file cannot be written.
    """
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            umask = os.umask(0)
            os.umask(umask)
            Path(temporary).chmod(0o666 & ~umask)  # mkstemp creates files with mode 0600
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OptsmithError(f"cannot write {path}: {error.strerror}") from None
