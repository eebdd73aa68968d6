"""Detection of modules that a worker can import by name."""

from __future__ import annotations

import os
import sys
from types import ModuleType


def importable(name: str) -> bool:
    """Return whether a new process with our `sys.path` would import the same top-level module.

    It would not if the module was created dynamically, loaded from a file outside `sys.path` (such
    as a task file given on the command line), or found through a former working directory.
    """
    if name in sys.stdlib_module_names:
        return True
    module = sys.modules.get(name)
    if not isinstance(module, ModuleType):
        return True  # a library replaced its entry in sys.modules
    ours = getattr(module, "__spec__", None)
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        found = None if find is None else find(name, None)
        if found is not None:
            return ours is None or _real(found.origin) == _real(ours.origin)
    return False


def _real(origin: str | None) -> str | None:
    return None if origin is None else os.path.realpath(origin)
