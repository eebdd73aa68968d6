"""Objects of a user's own files: `file.py:name` or `package.module:name`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from optsmith._errors import OptsmithError


def load(text: str, kind: str, fits: Callable[[Any], bool], error: type[OptsmithError]) -> Any:
    """Return an object from a Python file or an importable module.

    Args:
        text: `file.py:name` or `package.module:name`.
        kind: What it should be, for messages ("task").
        fits: Says whether an object is one.
        error: What to raise.

    Raises:
        OptsmithError: There is no such file or object.
    """
    source, _, name = text.rpartition(":")
    try:
        module = _module(source, error)
    except OptsmithError:
        raise
    except Exception as failure:
        line = f"{type(failure).__name__}: {failure}".partition("\n")[0]
        raise error(f"{source} cannot be imported: {line}") from failure
    found = getattr(module, name, None)
    if not fits(found):
        others = [k for k, v in vars(module).items() if fits(v) and _is_own(v, module)]
        hint = f"; it has {', '.join(others)}" if others else ""
        raise error(f'{source} has no {kind} named "{name}"{hint}')
    return found


def _is_own(value: Any, module: ModuleType) -> bool:
    """Return whether an object is not a class that a module has imported."""
    return not isinstance(value, type) or value.__module__ == module.__name__


def _module(source: str, error: type[OptsmithError]) -> ModuleType:
    path = Path(source)
    if path.suffix != ".py":
        sys.path.insert(0, "")  # as `python -m` would
        return importlib.import_module(source)
    if not path.is_file():
        raise error(f"there is no file {source}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise error(f"{source} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # Beside the file, as when it is run as a script.
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
