"""The command as people run it: a process of its own, its two streams and its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import optsmith


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "optsmith", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def test_show_prints_the_rule_and_its_tree():
    result = run("show", "products1")
    assert result.returncode == 0
    assert result.stderr == ""
    assert "ld*sign(m1) - Adam" in result.stdout
    assert "passes" in result.stdout
    assert optsmith.zoo["products1"].rule.tree() in result.stdout


def test_show_json_is_the_same_facts_for_machines():
    facts = json.loads(run("show", "m1 + m1", "--json").stdout)
    rule = optsmith.Rule.parse("m1 + m1")
    screening = optsmith.screen(rule)
    assert facts["rule"] == "m1 + m1"
    assert facts["simplified"] == "2*m1"
    assert facts["length"] == 3
    assert facts["latex"] == rule.latex()
    assert facts["spaces"]["paper"] == {"contains": True, "why_not": ""}
    assert facts["screening"]["ok"] is True
    assert facts["screening"]["cosine"] == pytest.approx(screening.cosine)
    assert facts["screening"]["fingerprint"] == screening.fingerprint


BY_ROLE = "ld*hidden(0.2*fan*orth(mom(g, 0.95)), ema(g)/sqrt(ema(g^2, 0.99))) + 0.1*w"


def test_show_lists_state_and_operations_by_role():
    lines = [" ".join(line.split()) for line in run("show", BY_ROLE).stdout.splitlines()]
    for line in (
        "state hidden: momentum: 4 bytes per parameter",
        "others: average, average.2: 8 bytes per parameter",
        "operations hidden: 7 per element and step: 5 mul, 2 add; on whole tensors: orth, fan",
    ):
        assert line in lines
    facts = json.loads(run("show", BY_ROLE, "--json").stdout)
    assert set(facts["roles"]) == {"hidden", "others"}
    assert facts["roles"]["others"]["rule"] == "ld*(ema(g)/sqrt(|ema(g^2, 0.99)|)) + 0.1*w"
    assert facts["roles"]["hidden"]["tensor_operations"] == {"orth": 1, "fan": 1}
    assert facts["needs_total_steps"]
    assert facts["step_cost"] > 1


def test_show_counts_the_state_of_whole_tensors():
    facts = json.loads(run("show", "whiten(m1, g) + prev(g)", "--json").stdout)
    assert facts["state"]["bytes_per_parameter"] == 24  # of a square matrix
    assert set(facts["state"]["slots"]) >= {"left", "right", "momentum", "previous"}
    assert facts["tensor_operations"] == {"whiten": 1}
    assert facts["roles"] == {}


def test_show_json_of_a_refused_rule_has_no_nan():
    facts = json.loads(run("show", "ld", "--json").stdout, parse_constant=pytest.fail)
    assert facts["screening"]["reason"] == "does not depend on the gradient"
    assert facts["screening"]["cosine"] is None


def test_zoo_lists_every_entry():
    text = run("zoo").stdout
    entries = json.loads(run("zoo", "--json").stdout)
    assert [entry["name"] for entry in entries] == list(optsmith.zoo)
    for entry in entries:
        assert entry["name"] in text
        assert entry["text"] in text
        assert optsmith.Rule.parse(entry["rule"]) == optsmith.zoo[entry["name"]].rule
    assert "paper" not in next(e for e in entries if e["name"] == "cola2")["spaces"]


def test_version():
    assert run("--version").stdout == f"optsmith {optsmith.__version__}\n"


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_without_torch(arguments):
    code = (
        "import sys; from optsmith.cli import main\n"
        f"sys.argv = ['optsmith', *{arguments!r}]\n"
        "main(); sys.exit('torch' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, "torch was imported, or the command failed"
    assert "show" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("show", "prodcts1"), 'did you mean "products1"?'),
        (("show", "foo(g)"), "at position 0"),
        (("show", "m1 +"), "operand is missing"),
        (("show", ""), "empty"),
        (("show", "g\u2212m1"), 'did you mean "-"?'),
        (("show", "g\nm1 zzz"), "missing before"),
        (("show", "orth(ld)"), "orth needs a tensor"),
        (("show", "hidden(g, unit(2))"), "unit needs a tensor"),
        (("show", "ema(g, 1)"), "beta of ema must be a number from 0 to below 1"),
        (("show",), "RULE"),
        (("show", "g", "m1"), "unexpected extra argument"),
        (("show", "-m1"), "Put -- before a rule"),
        (("show", "g", "--jsn"), "--json"),
        (("shw", "g"), "show"),
        (("zoo", "g"), "unexpected extra argument"),
        (("completion", "tcsh"), "bash"),
        (("search", "digits", "--threshold", "low"), "neither a number nor untrained"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, says):
    result = run(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert says in result.stderr
    assert "Traceback" not in result.stderr


def test_a_rule_that_starts_with_a_minus():
    facts = json.loads(run("show", "--json", "--", "-m1").stdout)
    assert facts["rule"] == "-m1"
    assert facts["screening"]["ok"] is False


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(shell):
    result = run("completion", shell)
    assert result.returncode == 0
    assert "_OPTSMITH_COMPLETE" in result.stdout


def test_completion_offers_commands_and_zoo_names():
    code = "import sys; sys.argv[0] = 'optsmith'; from optsmith.cli import main; main()"

    def complete(words: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env={
                **os.environ,
                "_OPTSMITH_COMPLETE": "bash_complete",
                "COMP_WORDS": words,
                "COMP_CWORD": str(words.count(" ")),
            },
            check=False,
        ).stdout

    assert "plain,show" in complete("optsmith sh")
    assert "plain,cola2" in complete("optsmith show co")


def test_rules_may_use_operators_that_the_file_of_the_task_registers(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch, optsmith\n"
        "from torch import nn\n"
        "optsmith.operators.register(optsmith.Operator(\n"
        "    'direction', 1, torch=lambda x: x / (x.norm() + 1e-12), scope='tensor'))\n"
        "x = torch.linspace(-1, 1, 64).view(-1, 1)\n"
        "task = optsmith.Task.from_module(lambda: nn.Linear(1, 1), (x, 2*x),\n"
        "    nn.functional.mse_loss, steps=20, batch_size=16)\n"
    )
    command = (
        "evaluate",
        f"{tmp_path}/mine.py:task",
        "direction(m1)",
        "torch:muon",
        "--preset",
        "smoke",
    )
    for workers in ("0", "1"):
        result = run(*command, "--workers", workers, "--json")
        assert result.returncode == 0, result.stderr
        rows = json.loads(result.stdout)["rows"]
        assert {row["recipe"]: row["status"] for row in rows} == {
            "direction(m1)": "ok",
            "torch:muon": "ok",
        }
