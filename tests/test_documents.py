"""The code of README, CONTRIBUTING and docs/ runs.

Python blocks of a document run in order, in one process, after a preamble that defines the names
that a reader has (a model, data, a task). Commands run in a folder with the files they name. Both
are made short: searches use the preset `smoke`, budgets are divided by 16, and tasks and datasets
that need a download or a GPU are replaced by `digits`, which comes with scikit-learn.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from optsmith import data
from optsmith.cli import main

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)
INLINE = re.compile(r"`(optsmith (?:search|evaluate|export) [^`]+)`")
"""Commands in the text that are complete, unlike "`optsmith data fetch`"."""

PREAMBLE = """
import sys
from types import SimpleNamespace

import optsmith
import torch
from optsmith import Task
from torch import nn
from torch.nn.functional import cross_entropy

torch.manual_seed(0)
x, xt = torch.randn(64, 4), torch.randn(32, 4)
y, yt = x.argmax(1), xt.argmax(1)
loss, path = cross_entropy, "checkpoint.pt"


def make_model():
    return nn.Sequential(nn.Flatten(), nn.Linear(4, 4))


model = make_model()
images, labels = torch.rand(8, 1, 2, 2), torch.arange(8) % 4
task = Task.from_module(make_model, (x, y), loss, steps=20, name="mnistnet")


class Convolution(nn.Linear):
    def forward(self, x, edge_index):
        return super().forward(x)


def make_gcn():
    return Convolution(4, 4)


graph = SimpleNamespace(x=x, y=y, edge_index=None, train=torch.arange(64) < 32)
"""
"""What a reader of the documents has."""

PYTHON_CHANGES = {
    'max_time="30m")': 'budget=4, preset="smoke", workers=0)',
    "budget=128": 'budget=4, preset="smoke", workers=0',
    "mnistnet-quick-mixture-0": "mnistnet-smoke-mct-0",  # the study of the shortened search
    "steps=200))": "steps=20))",  # of a conformance check
}


def blocks(document: Path, *languages: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(document.read_text()) if kind in languages]


def run_python(document: Path, folder: Path) -> None:
    code = "\n".join([PREAMBLE, *blocks(document, "python")])
    for old, new in PYTHON_CHANGES.items():
        code = code.replace(old, new)
    (folder / "code.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "code.py"], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_python_blocks_run(document, tmp_path):
    if not blocks(document, "python"):
        pytest.skip("no Python")
    if 'load("mnist")' in document.read_text() and data.where("mnist") is None:
        pytest.skip("MNIST is not on this machine")
    run_python(document, tmp_path)


# --- commands -------------------------------------------------------------------------------------


def commands(document: Path) -> list[str]:
    """Return the `optsmith` commands of a document, without comments."""
    shell = "\n".join(blocks(document, "sh", "console"))
    found = re.findall(r"^(?:\$ )?(optsmith .*)$", shell, re.M)
    return [*found, *INLINE.findall(document.read_text())]


def shortened(command: str) -> list[str]:
    """Return the arguments of a command, changed so that it takes seconds and needs no download."""
    words = shlex.split(command, comments=True)[1:]
    for number, word in enumerate(words):
        before = words[number - 1]
        if before in ("search", "evaluate", "fetch", "where") and ":" not in word:
            words[number] = "digits"
        elif before == "--preset":
            words[number] = "smoke"
        elif before == "--budget":
            words[number] = str(max(8, int(word) // 16))
        elif before == "--max-time":
            words[number] = "20s"
        elif before == "--device":
            words[number] = "cpu"
        elif words[0] == "compare":
            words[number] = word.replace("mnistnet-quick", "digits-smoke")
        elif before in ("report", "card", "export") and word.startswith("mnistnet-"):
            words[number] = "digits-smoke-mct-0"
    if words[0] in ("search", "evaluate"):
        words += [] if "--preset" in words else ["--preset", "smoke"]
    if words[0] in ("search", "evaluate", "finish"):
        words += ["--workers", "0"]
    return words


COMMANDS = [
    pytest.param(document, id=document.name) for document in DOCUMENTS if commands(document)
]


@pytest.mark.parametrize("document", COMMANDS)
def test_commands_run(document, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples" / "your_module.py", "my_training.py")
    searchers = [text for text in blocks(document, "python") if "class Mine(Searcher)" in text]
    Path("mine.py").write_text("\n".join(searchers))
    Path("DIR").mkdir()
    for command in commands(document):
        monkeypatch.setattr(sys, "argv", ["optsmith", *shortened(command)])
        try:
            main()
        except SystemExit as end:
            pytest.fail(f"{command}: exit code {end.code}, {capsys.readouterr().err}")
    capsys.readouterr()


def test_there_is_something_to_run():
    assert sum(len(blocks(document, "python")) for document in DOCUMENTS) >= 12
    assert sum(map(len, map(commands, DOCUMENTS))) >= 15
