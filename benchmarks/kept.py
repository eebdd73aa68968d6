"""An executor that keeps what tunes opponents, so that several studies share it."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Hashable
from pathlib import Path
from typing import Any

from optsmith.evaluation import Evaluation
from optsmith.execution import Executor, Function, Lost, Prepare
from optsmith.optim import is_baseline
from optsmith.study import Context
from optsmith.study._equal import FIRST_BLOCK as EQUALLY


class Kept(Executor):
    """Passes jobs on to another executor, except for those of opponents that are known.

    An evaluation of an opponent depends on the task, the stage and the job alone, not on the seed
    of a search; nor do those that tune the constants of an opponent. Each is a file of `folder`,
    which studies of one version of the program share.

    Args:
        inner: Runs the jobs.
        folder: Directory of the known evaluations.
    """

    def __init__(self, inner: Executor, folder: Path) -> None:
        self._inner, self._folder = inner, folder
        self._context: Context | None = None
        self._files: dict[Hashable, Path] = {}
        self._known: deque[tuple[Hashable, Any]] = deque()
        self.workers, self.time_limit = inner.workers, inner.time_limit

    def start(self, function: Function, context: Any, prepare: Prepare | None = None) -> None:
        """Set the function and context of all jobs."""
        self._context = context
        self._inner.start(function, context, prepare)

    def submit(self, key: Hashable, job: Any) -> None:
        """Append a job to the queue; a known one is not run."""
        if job.block >= EQUALLY or all(is_baseline(recipe) for recipe in job.recipes):
            assert self._context is not None  # noqa: S101 - an executor is started first
            what = self._context.task.name, self._context.stages[job.stage], job
            name = hashlib.blake2b(repr(what).encode(), digest_size=16).hexdigest()
            file = self._folder / f"{name}.json"
            if file.exists():
                rows = json.loads(file.read_text())
                self._known.append((key, [Evaluation.from_json(row, str(file)) for row in rows]))
                return
            self._files[key] = file
        self._inner.submit(key, job)

    def wait(self, timeout: float | None = None) -> list[tuple[Hashable, Any]]:
        """Return new results, and keep those of opponents."""
        if self._known:
            return [self._known.popleft()]
        found = self._inner.wait(timeout)
        for key, result in found:
            file = self._files.pop(key, None)
            if file is not None and not isinstance(result, Lost):
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps([evaluation.to_json() for evaluation in result]))
        return found

    def close(self) -> None:
        """Stop the jobs."""
        self._inner.close()
