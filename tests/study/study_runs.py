"""Parts for tests of searches: a recorder without a store, and executors of a test's own."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor, wait

from optsmith import Evaluation, Status
from optsmith.execution import Executor, Lost
from optsmith.study import Job


def invented(rule: str, fidelity: float = 1.0) -> Evaluation:
    """Invent an evaluation that depends on the rule alone: two thirds are accepted."""
    digest = hashlib.blake2b(rule.encode(), digest_size=4).digest()
    if digest[0] % 3 == 0:
        return Evaluation(rule, Status.EARLY_STOPPED)
    return Evaluation(rule, Status.OK, score=digest[1] / 256 + fidelity)


class Notes:
    """Keeps in memory what a recorder would make durable."""

    def __init__(self, known: dict | None = None) -> None:
        self._known = known or {}
        self.recorded: dict[tuple[str, float], Evaluation] = {}
        self.told_outcomes: list = []
        self.lines: list[str] = []

    def known(self, candidate):
        return self._known.get(candidate.key)

    def record(self, candidate, evaluation) -> None:
        assert candidate.key not in self.recorded, "recorded twice"
        self.recorded[candidate.key] = evaluation

    def told(self, candidate, outcome) -> None:
        self.told_outcomes.append((candidate, outcome))

    def noted(self, lines) -> None:
        self.lines += lines


class Shuffling(Executor):
    """Finishes jobs in any order, as many workers would; some of them never do."""

    def __init__(self, workers: int, seed: int = 0, deadly: str = "", evaluate=invented) -> None:
        self.workers, self.deadly, self.evaluate = workers, deadly, evaluate
        self.jobs: list[Job] = []
        self._queue: list[tuple[Hashable, Job]] = []
        self._random = random.Random(seed)

    @property
    def groups(self) -> list[tuple[str, ...]]:
        return [job.recipes for job in self.jobs]

    def start(self, function, context, prepare=None) -> None:
        raise AssertionError("the runner's executor is started already")

    def submit(self, key, job) -> None:
        assert job.stage == "search"
        self.jobs.append(job)
        self._queue.append((key, job))

    def wait(self, timeout=None):
        assert self._queue, "the runner waits for nothing"
        # Only what is at the front of the queue can be running.
        place = self._random.randrange(min(self.workers, len(self._queue)))
        key, job = self._queue.pop(place)
        if self.deadly in job.recipes:
            return [(key, Lost("died", "its worker process died, twice", 1.0))]
        return [(key, [self.evaluate(rule, job.fidelity) for rule in job.recipes])]

    def close(self) -> None:
        pass


class Threads(Executor):
    """A user's own executor: a pool of threads, whose results come in a shuffled order."""

    def __init__(self, workers: int = 3, seed: int = 0) -> None:
        self.workers = workers
        self.started = self.closed = 0
        self._pool = ThreadPoolExecutor(1)  # torch's random state is the process's own
        self._futures: dict[Hashable, object] = {}
        self._random = random.Random(seed)

    def start(self, function, context, prepare=None) -> None:
        self.started += 1
        self._work = function, context

    def submit(self, key, job) -> None:
        function, context = self._work
        self._futures[key] = self._pool.submit(function, context, job)

    def wait(self, timeout=None):
        some = self._random.sample(list(self._futures), min(self.workers, len(self._futures)))
        futures = {key: self._futures.pop(key) for key in some}
        wait(futures.values())
        return [(key, future.result()) for key, future in futures.items()]

    def close(self) -> None:
        self.closed += 1
        self._pool.shutdown(cancel_futures=True)
