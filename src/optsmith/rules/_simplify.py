"""Simplification of rules with SymPy, in a separate process.

SymPy can hang, run out of memory or raise on nested powers; a separate process can be killed at
any time. It is started on first use and reused for later rules.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import subprocess
import sys
import threading
import warnings
from queue import Empty, Queue
from typing import IO, Any

from optsmith._errors import SimplifyWarning
from optsmith.rules._operator import find_operator
from optsmith.rules._rule import Rule

MAX_LENGTH = 100


class _Worker:
    """A SymPy process that answers each line of JSON with another."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "optsmith.rules._sympy_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.answers: Queue[str] = Queue()
        stdin, stdout = self.process.stdin, self.process.stdout
        if stdin is None or stdout is None:
            raise BrokenPipeError
        self.stdin = stdin
        # Reading in a thread is the portable way to wait for a line with a timeout.
        threading.Thread(target=self._read, args=(stdout,), daemon=True).start()

    def _read(self, stdout: IO[str]) -> None:
        with stdout:
            for line in stdout:
                self.answers.put(line)
        self.answers.put("")

    def ask(self, request: dict[str, Any], timeout: float) -> dict[str, Any]:
        self.stdin.write(json.dumps(request) + "\n")
        self.stdin.flush()
        answer = self.answers.get(timeout=timeout)
        if not answer:
            raise BrokenPipeError
        result: dict[str, Any] = json.loads(answer)
        return result

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):  # unsent data no longer matters
            self.stdin.close()


_lock = threading.Lock()
_worker: _Worker | None = None


def _close() -> None:
    global _worker
    if _worker is not None:
        _worker.close()
    _worker = None


atexit.register(_close)


def _ask(request: dict[str, Any], timeout: float) -> dict[str, Any]:
    global _worker
    with _lock:
        try:
            _worker = _worker or _Worker()
            return _worker.ask(request, timeout)
        except Empty:
            _close()
            return {"error": f"SymPy did not finish within {timeout:g} s"}
        except OSError:
            _close()
            return {"error": "the SymPy process ended (out of memory?)"}


def _same_function(rule: Rule, other: Rule) -> bool:
    # The only import of a higher layer in this package. SymPy assumes exact real numbers, while x/y
    # is guarded against 0 and powers can be NaN, so the result is compared on the probe.
    from optsmith.screening import agree

    return agree(rule, other)


def _effort(rule: Rule) -> tuple[int, int]:
    """Return the cost to minimise: number of operators, then of inputs (2*g rather than g + g)."""
    return rule.length, sum(o.arity == 0 and o.feed != "nothing" for o in rule.operators)


def simplify(rule: Rule, timeout: float) -> Rule:
    """Return a shorter equivalent rule, or `rule` itself, with a warning if SymPy failed."""
    if rule.length > MAX_LENGTH:
        return _unchanged(rule, f"it has more than {MAX_LENGTH} operators")
    modules = {o.sympy.__module__ for o in rule.operators if o.sympy is not None}
    request = {
        "operators": [[o.name, o.values, o.arity, o.random] for o in rule.operators],
        "modules": sorted(modules - {"__main__"}),
        "path": sys.path,
    }
    answer = _ask(request, timeout)
    if "error" in answer:
        return _unchanged(rule, answer["error"])
    simpler = Rule(tuple(find_operator(name, tuple(v)) for name, v in answer["operators"]))
    if _effort(simpler) >= _effort(rule):
        return rule
    if not _same_function(rule, simpler):
        return _unchanged(rule, f"SymPy's result {simpler} is a different function on the probe")
    return simpler


def _unchanged(rule: Rule, why: str) -> Rule:
    warnings.warn(f"{rule} was not simplified: {why}", SimplifyWarning, stacklevel=4)
    return rule
