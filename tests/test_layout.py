"""The structure of the package: who may import what, and one meaning per name."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import optsmith

ROOT = Path(optsmith.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))


def imports(path: Path) -> set[str]:
    """Return the full names of the modules that a module imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def test_no_module_imports_a_private_module_of_another_package():
    wrong = []
    for path in MODULES:
        package = path.relative_to(ROOT).parts[0]
        for name in imports(path):
            match = re.match(r"optsmith\.([a-z]+)\.(?:[a-z]+\.)?_[a-z]", name)
            if match and match[1] != package:
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong


LATE = {
    ("study/_search.py", "display"),
    ("study/_study.py", "report"),
    ("study/_finding.py", "report"),
    ("study/_compare.py", "report"),
    ("evaluation/_comparison.py", "report"),
}
"""Methods and functions that show something, and import what shows it when they are called."""


def test_what_is_shown_does_not_depend_on_how_it_is_shown():
    late = set()
    for path in MODULES:
        package, *rest = path.relative_to(ROOT).parts
        if package not in ("display", "report", "cli") and rest:
            names = {name.split(".")[1] for name in imports(path) if name.startswith("optsmith.")}
            late |= {("/".join([package, *rest]), name) for name in names & {"display", "report"}}
    assert late == LATE
    code = (
        "import sys, optsmith.study;"
        "sys.exit(any(m in sys.modules for m in ('optsmith.display', 'optsmith.report')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_public_class_name_has_one_meaning():
    classes = Counter(
        node.name
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name: count for name, count in classes.items() if count > 1} == {}


def test_rules_spaces_and_searchers_do_not_import_torch():
    code = (
        "import sys, optsmith.rules, optsmith.space, optsmith.searchers, optsmith.cli;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
