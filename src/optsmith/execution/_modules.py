"""Which modules a worker can import by name."""

from __future__ import annotations

import os
import sys
from types import ModuleType


def importable(name: str) -> bool:
    """Return whether a new process with our `sys.path` would find the same top-level module.

    It does not when the module was made by hand or loaded from a file outside the path (a task
    file named on the command line), or when the directory it came from was only the working
    directory of the time.
    """
    if name in sys.stdlib_module_names:
        return True
    module = sys.modules.get(name)
    if not isinstance(module, ModuleType):
        return True  # replaced by some object of the library's: it knows what it does
    ours = getattr(module, "__spec__", None)
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        found = None if find is None else find(name, None)
        if found is not None:
            return ours is None or _real(found.origin) == _real(ours.origin)
    return False


def _real(origin: str | None) -> str | None:
    return None if origin is None else os.path.realpath(origin)
