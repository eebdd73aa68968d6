"""Private names of torch: which versions have them, and that only `optsmith._torch` uses them.

The table gives the range of supported versions that are expected to have each name. Only the
installed version is checked here: a missing name fails a test that names it. The first versions
come from the pull requests to pytorch/pytorch that added the names: #150670 (`standalone_compile`,
April 2025, torch 2.8), #87562, #106343 and #107226 (`_foreach_lerp`, `_foreach_sign` and
`_foreach_copy_`, all in 2023, torch 2.1 at the latest). The other names were not looked up; the
oldest supported version is assumed to have them.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import optsmith
from optsmith import _torch

SUPPORTED = ((2, 6), (2, 13))
EVERY = SUPPORTED
PRIVATE = {
    **{f"torch._foreach_{name}{ending}": EVERY for name in _torch.FOREACH for ending in ("", "_")},
    "torch._foreach_addcdiv_": EVERY,
    "torch._foreach_copy_": EVERY,
    "torch._inductor.standalone_compile": ((2, 8), (2, 13)),
    "torch._inductor.config.patch": EVERY,
    "torch.fx.experimental.proxy_tensor.make_fx": EVERY,
    "torch.ops.aten._linalg_eigh": EVERY,
    "torch.ops.aten.threshold_backward": EVERY,
    "torch.ops.aten.sigmoid_backward": EVERY,
    "torch.ops.aten.tanh_backward": EVERY,
    "torch.Tensor._version": EVERY,
    "torch._compile._disable_dynamo": EVERY,
    "torch._C._functorch._add_batch_dim": EVERY,
    "torch._C._functorch._unwrap_batched": EVERY,
    "torch._functorch.pyfunctorch.retrieve_current_functorch_interpreter": EVERY,
}
VERSION = tuple(map(int, re.match(r"(\d+)\.(\d+)", torch.__version__).groups()))


def find(path):
    """Return what a dotted path names, importing modules on the way."""
    parts = path.split(".")
    thing = importlib.import_module(parts[0])
    for i, part in enumerate(parts[1:], start=2):
        if not hasattr(thing, part):
            importlib.import_module(".".join(parts[:i]))
        thing = getattr(thing, part)
    return thing


@pytest.mark.parametrize("name", PRIVATE)
def test_this_version_of_torch_has_it(name):
    first, last = PRIVATE[name]
    if first <= VERSION <= last:
        try:
            find(name)
        except (AttributeError, ImportError):
            pytest.fail(f"torch {torch.__version__} has no {name}: see optsmith/_torch.py")
    elif last < VERSION:
        pytest.fail(f"{name} is listed up to torch {last}; extend the table to {VERSION}")


def test_supported_versions_are_those_of_the_package():
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    low, high = re.search(r'"torch>=2\.(\d+),<2\.(\d+)"', text).groups()
    assert ((2, int(low)), (2, int(high) - 1)) == SUPPORTED


def test_hooks_are_seen():
    module = nn.Sequential(nn.Linear(2, 2))
    assert not _torch.has_forward_hooks(module)
    for register in ("register_forward_hook", "register_forward_pre_hook"):
        handle = getattr(module[0], register)(lambda *_: None)
        assert _torch.has_forward_hooks(module)
        handle.remove()


def test_parameter_groups_are_added_without_torchs_compiler():
    assert "__wrapped__" not in vars(_torch.add_param_group)
    parameters = list(inspect.signature(_torch.add_param_group).parameters)
    assert parameters == ["self", "param_group"]


def test_what_is_not_compiled_runs_without_importing_the_compiler():
    code = (
        "import sys, optsmith._torch as t\n"
        "calls = []\n"
        "t.not_compiled(calls.append)(1)\n"
        "assert calls == [1] and 'torch._dynamo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_storages_go_both_ways():
    tensor = torch.arange(4.0)
    memory = _torch.untyped(_torch.typed(tensor.untyped_storage(), torch.float32))
    assert memory.data_ptr() == tensor.data_ptr()


def test_versions_count_changes_in_place():
    x = torch.zeros(2)
    before = _torch.version(x)
    x.add_(1)
    assert _torch.version(x) == before + 1


def test_no_other_module_uses_private_torch():
    root = Path(optsmith.__file__).parent
    found = []
    for path in root.rglob("*.py"):
        if path == Path(_torch.__file__):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                name = ast.unparse(node)
                private = re.match(r"torch(\.\w+)*\._[a-z]|torch\.ops\b", name) or node.attr in (
                    *("_forward_hooks", "_forward_pre_hooks", "_untyped_storage", "_version"),
                )
            elif isinstance(node, ast.ImportFrom):
                name = f"{node.module}.{node.names[0].name}"
                private = re.match(r"torch(\.\w+)*\._|torch\.fx\.experimental", name)
            else:
                continue
            if private:
                found.append(f"{path.relative_to(root)}: {name}")
    assert found == []
