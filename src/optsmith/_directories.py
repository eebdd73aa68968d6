"""Location of the cache directory."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from optsmith._errors import OptsmithError


def cache_dir(holding: str = "") -> Path:
    """Return the directory for datasets, locks and trained models; it may not exist yet.

    `OPTSMITH_CACHE`, or the user's cache directory (`~/.cache/optsmith` on Linux). If the user's
    cache directory is not writable, a private temporary directory is used instead.

    Args:
        holding: Name of an entry of the cache; a cache directory that contains it is returned even
            if it is read-only.

    Raises:
        OptsmithError: The temporary directory cannot be created, or belongs to another user.
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
    """Return whether a directory is writable, or can be created."""
    # Not Path.exists, which raises an error without permission to search a directory.
    nearest = next(path for path in (directory, *directory.parents) if os.path.lexists(path))
    return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)


def _temporary() -> Path:
    user = getattr(os, "getuid", lambda: 0)()
    advice = "set OPTSMITH_CACHE to another directory"
    try:
        directory = Path(tempfile.gettempdir()) / f"optsmith-{user}"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OptsmithError(
            f"the cache directory cannot be created: {error.strerror or error}; {advice}"
        ) from None
    # Another user may have created the directory, whose content would be trusted.
    if directory.is_symlink() or directory.stat().st_uid != user:
        raise OptsmithError(f"{directory} belongs to another user; {advice}")
    return directory
