"""Loading of objects from users' files or modules: `file.py:name` or `package.module:name`."""

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
        kind: Kind of object for error messages, such as "task".
        fits: Function that returns whether an object is of that kind.
        error: Exception to raise.

    Raises:
        OptsmithError: The file or object does not exist, or the file cannot be imported.
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
    """Return False for a class that the module has imported, True for any other object."""
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
    # The directory of the file, as when it is run as a script.
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
