"""What every result file starts with: how to repeat the run, and where it ran."""

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


def header() -> Iterator[str]:
    """Yield what is needed to repeat the run."""
    arguments = shlex.join([Path(sys.argv[0]).as_posix(), *sys.argv[1:]])
    yield f"command  python {arguments}"
    yield f"commit   {_commit()}"
    yield f"machine  {_cpu()}, {os.cpu_count()} cores, {torch.get_num_threads()} used"
    yield (
        f"python   {platform.python_version()}, torch {torch.__version__}, numpy {np.__version__}"
    )
    yield f"date     {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC"
