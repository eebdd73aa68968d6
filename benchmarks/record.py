"""Run an optsmith command and keep what it prints, with what is needed to repeat it.

    python benchmarks/record.py FILE evaluate convnet torch:adam conv3 --preset paper --study table

A study that was interrupted goes on from where it was; one that is finished is printed again.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from optsmith._files import write_atomically
from report import header


def main() -> None:
    """Write FILE unless the command fails."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    file, *command = sys.argv[1:]
    done = subprocess.run(
        [sys.executable, "-m", "optsmith", *command], stdout=subprocess.PIPE, text=True, check=False
    )
    print(done.stdout, end="")
    if done.returncode:
        sys.exit(done.returncode)
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    write_atomically(Path(file), "\n".join([*header(), "", *lines, ""]))


if __name__ == "__main__":
    main()
