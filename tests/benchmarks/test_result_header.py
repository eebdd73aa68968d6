"""The header of result files contains no paths of one machine."""

import shlex
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def load(path):
    """Return a module from a file, without a name in `sys.modules`."""
    spec = spec_from_file_location(path.stem, path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


portable = load(ROOT / "benchmarks" / "report.py").portable


@pytest.mark.parametrize(
    ("argument", "printed"),
    [
        (f"{ROOT}/benchmarks/results/step.txt", "benchmarks/results/step.txt"),
        ("/home/me/studies", "studies"),
        ("--storage=/home/me/studies", "--storage=studies"),
        ("../elsewhere/robust", "robust"),
        ("postgresql://me:secret@host/db", "postgresql:///db"),
        ("--output", "--output"),
        ("benchmarks/results/step.txt", "benchmarks/results/step.txt"),
        ("drop(g, rate=0.3)/2", "drop(g, rate=0.3)/2"),
    ],
)
def test_paths_of_this_machine_are_not_recorded(argument, printed, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert portable(argument) == printed


def test_committed_results_have_portable_commands():
    for path in (ROOT / "benchmarks" / "results").glob("*.txt"):
        command = path.read_text(encoding="utf-8").partition("\n")[0]
        words = shlex.split(command.removeprefix("command  "))
        assert [portable(word) for word in words] == words, path.name
