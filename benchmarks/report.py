"""Header of all result files: command, commit, machine, versions and date."""

from __future__ import annotations

import datetime
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent


def _commit() -> str:
    git = shutil.which("git")
    if not git:
        return "unknown"
    where = Path(__file__).parent

    def ask(*words: str) -> str:
        return subprocess.run(
            [git, *words], capture_output=True, text=True, check=False, cwd=where
        ).stdout.strip()

    changed = ask("status", "--porcelain", "--untracked-files=no", "../src")
    return ask("rev-parse", "--short=12", "HEAD") + (" with changes" if changed else "")


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def portable(word: str) -> str:
    """Return an argument without paths of this machine.

    Paths inside the repository become relative to it; of other paths and of URLs, which may contain
    a password, only the name remains.
    """
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    if "://" in value:
        value = f"{value.partition('://')[0]}:///{Path(value).name}"
    path = Path(value)
    if path.is_absolute() or ".." in path.parts:
        path = path.resolve()
        value = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    return f"{option}{equals}{value}"


def header() -> Iterator[str]:
    """Yield the lines of the header."""
    yield f"command  python {shlex.join(map(portable, sys.argv))}"
    yield f"commit   {_commit()}"
    yield f"machine  {_cpu()}, {os.cpu_count()} cores, {torch.get_num_threads()} used"
    yield (
        f"python   {platform.python_version()}, torch {torch.__version__}, numpy {np.__version__}"
    )
    yield f"date     {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC"
