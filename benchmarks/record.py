"""Run an optsmith command and write its output to a file, with the header of result files.

    python benchmarks/record.py FILE evaluate convnet torch:adam conv3 --preset paper --study table

An interrupted study is resumed; the result of a finished study is printed again.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from optsmith._files import write_atomically
from report import header


def main() -> None:
    """Run the command; write FILE if it succeeds."""
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
