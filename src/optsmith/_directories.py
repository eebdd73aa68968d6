"""The cache directory."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from optsmith._errors import OptsmithError


def cache_dir(holding: str = "") -> Path:
    """Return the directory for datasets, locks and trained models; it need not exist.

    `OPTSMITH_CACHE`, else the user's cache directory on this system (`~/.cache/optsmith` on
    Linux). A user's cache directory that cannot be written to is replaced by a private directory
    among the temporary files.

    Args:
        holding: A name that is looked for: a cache directory that has it is returned even when it
            is read-only.

    Raises:
        OptsmithError: The temporary directory cannot be made, or belongs to another user.
    """
    if chosen := os.environ.get("OPTSMITH_CACHE"):
        return Path(chosen).expanduser().absolute()
    import platformdirs

    try:
        usual = platformdirs.user_cache_path("optsmith", appauthor=False, opinion=False)
    except RuntimeError:  # the user has no home directory
        return _temporary()
    if (holding and os.path.exists(usual / holding)) or _can_be_written(usual):
        return usual
    return _temporary()


def _can_be_written(directory: Path) -> bool:
    """Return whether files can be made in a directory, which may have to be made first."""
    # Not Path.exists, which raises where a directory may not be searched.
    nearest = next(path for path in (directory, *directory.parents) if os.path.lexists(path))
    return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)


def _temporary() -> Path:
    user = getattr(os, "getuid", lambda: 0)()
    advice = "set OPTSMITH_CACHE to a directory of yours"
    try:
        directory = Path(tempfile.gettempdir()) / f"optsmith-{user}"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OptsmithError(
            f"no cache directory can be made: {error.strerror or error}; {advice}"
        ) from None
    # Anyone may have made a directory of that name, and what is in it would be trusted.
    if directory.is_symlink() or directory.stat().st_uid != user:
        raise OptsmithError(f"{directory} belongs to another user; {advice}")
    return directory
