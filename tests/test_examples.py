"""The examples run; in fast tests with fewer epochs and learning rates."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import optsmith

EXAMPLES = Path(__file__).parents[1] / "examples"
ENVIRONMENT = {
    **os.environ,
    "HF_HUB_OFFLINE": "1",
    "PYTHONIOENCODING": "utf-8",
    "OMP_NUM_THREADS": "1",  # more threads are slower beside other tests
}

PLAIN, HUGGING_FACE, LIGHTNING = "plain_pytorch", "huggingface_trainer", "lightning_module"
ROBUST, MODERN = "train_robust", "modern_rule"
SEARCHES = {"your_module": "tumours", "your_loop": "picture"}
OBSERVER = "observer"
PACKAGES = {
    PLAIN: ["sklearn"],
    HUGGING_FACE: ["transformers", "accelerate"],
    LIGHTNING: ["lightning", "sklearn"],
    ROBUST: ["sklearn"],
    MODERN: [],
}
LAST_LINES = {
    PLAIN: r"mnist1 .*test accuracy 9\d\.\d%.*\ntorch Adam .*test accuracy 9\d\.\d%",
    HUGGING_FACE: r"accuracy \d+\.\d% -> (9\d|100)\.\d%\n(.*\n)*.*the same weights",
    LIGHTNING: r"test accuracy 9\d\.\d%\n.*the same weights",
    MODERN: r"the rule: +accuracy (9\d|100)\.\d%\nthe exported file: +accuracy (9\d|100)\.\d%",
    ROBUST: r"APGD +\d+\.\d% misclassified",
}
SHORTER = {
    PLAIN: {"range(-6, 3)": "range(-4, -2)", "SEEDS = 10, 128, 3": "SEEDS = 10, 128, 2"},
    ROBUST: {'"epochs": 15': '"epochs": 1', "held = 500": "held = 50"},
}


def run(*arguments, folder):
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        encoding="utf-8",
        cwd=folder,
        env=ENVIRONMENT,
        timeout=900,
    )


@pytest.mark.parametrize(
    ("name", "is_short"),
    [
        *[(name, True) for name in PACKAGES],
        *[pytest.param(name, False, marks=pytest.mark.slow) for name in SHORTER],
    ],
)
def test_example_runs(name, is_short, tmp_path):
    missing = [package for package in PACKAGES[name] if find_spec(package) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    source = (EXAMPLES / f"{name}.py").read_text()
    for old, new in SHORTER.get(name, {}).items() if is_short else ():
        assert old in source
        source = source.replace(old, new)
    done = run("-c", source, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(LAST_LINES[name], done.stdout), done.stdout
    assert not list(tmp_path.iterdir())  # nothing is left behind


@pytest.mark.parametrize(
    ("name", "package"),
    [(HUGGING_FACE, "accelerate"), (LIGHTNING, "lightning")],
)
def test_missing_package_is_one_clear_line(name, package, tmp_path):
    # None in sys.modules makes an import fail as if the package were not there.
    code = (
        "import runpy, sys\n"
        f"sys.modules[{package!r}] = None\n"
        f"runpy.run_path({str(EXAMPLES / name)!r} + '.py', run_name='__main__')"
    )
    done = run("-c", code, folder=tmp_path)
    assert done.returncode == 2
    assert not done.stdout
    [line] = done.stderr.splitlines()
    assert "pip install" in line
    assert "missing" in line


@pytest.mark.parametrize("name", SEARCHES)
def test_a_task_of_one_s_own_is_searched(name, tmp_path):
    """A short search on the example's task by the command, in a worker process."""
    file = EXAMPLES / f"{name}.py"
    assert len(file.read_text().splitlines()) <= 40
    arguments = ["--preset", "smoke", "--budget", "2", "--no-baselines", "--workers", "1", "--json"]
    done = run("-m", "optsmith", "search", f"{file}:task", *arguments, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["settings"]["task"] == SEARCHES[name]
    assert result["counts"]["accepted"] == 2
    assert result["best"]["held_out_score"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_of_one_s_own_beats_adam(name, tmp_path):
    done = run(str(EXAMPLES / f"{name}.py"), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    study = optsmith.Study.load(f"{SEARCHES[name]}-quick-mixture-0", tmp_path / "optsmith-studies")
    adam = next(e for e in study.final.baselines if e.recipe == "torch:adam")
    assert study.best().held_out_score < adam.score


def test_a_search_is_logged(tmp_path):
    # None in sys.modules makes an import fail as if the package were not there.
    source = (EXAMPLES / f"{OBSERVER}.py").read_text()
    assert 'preset="smoke"' in source
    short = source.replace('preset="smoke"', 'preset="smoke", budget=2, workers=0')
    code = f"import sys; sys.modules['torch.utils.tensorboard'] = None\n{short}"
    done = run("-c", code, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^search 2: \d", done.stdout, re.M)
    assert re.search(r"^report/torch:adam\S* 1: \d", done.stdout, re.M)
    assert "digits: mct search for 2 rules" in done.stderr  # beside the progress display


def test_the_notebook_runs_and_is_kept_without_outputs(tmp_path):
    notebook = json.loads((EXAMPLES / "search.ipynb").read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    source = "\n".join("".join(cell["source"]) for cell in cells)
    settings = 'preset="smoke", budget=2, workers=0, baselines=["torch:sgd"]'
    shorter = {
        'max_time="3m"': settings,
        'preset="smoke", progress': f"{settings}, progress",
        "range(2)": "range(1)",
    }
    if find_spec("matplotlib") is None:
        shorter["study.plot()"] = ""
    for old, new in shorter.items():
        assert old in source
        source = source.replace(old, new)
    shown = "\nprint(study._repr_html_(), studies[0].compare(*studies[1:])._repr_html_())"
    done = run("-c", source + shown, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("optsmith-figure") >= 2


def test_every_example_is_tested():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*PACKAGES, *SEARCHES, OBSERVER}
