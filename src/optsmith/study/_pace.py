"""Measurement of how long the runs of a task take, one at a time and in stacks."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from optsmith._threads import one_thread
from optsmith.optim import form_of, parse_recipe
from optsmith.rules import Rule
from optsmith.study._rates import MIXTURE_COST
from optsmith.task import Run, Task, seeded
from optsmith.training import Stacking, Stopping, train

MOST_SECONDS = 10.0
"""Default limit of a measurement; the shortest possible pieces may take longer."""

SHARE = 0.03
"""Share of the user's time that a measurement may take."""

TYPICAL_STACK = 28
"""Runs that are usually trained together: the grids of four candidates."""

FEW_COPIES = 4
"""Copies of the smaller of the two stacks that are timed."""

FEWEST = 4
"""Steps of the shortest run that is timed."""

CHECKPOINTS = 10
"""Measurements on validation data per run that short runs may not have room for."""

_RULE, _LR, _SEED = Rule.parse("Adam"), 1e-9, 0

_MOMENTUM = "g + 0.9*mom(g, 0.9)"

FOUND_RULE = Rule.parse(
    f"cd(0.5)^2*hidden(cols(orth({_MOMENTUM})), ema(g, 0.9)/sqrt(ema(g^2, 0.999))"
    f" + 0.1*(fan*orth({_MOMENTUM})) + 0.1*rows({_MOMENTUM}))"
)
"""What searchers of constants find where a model has hidden matrices. On a small model, its steps
take several times as long as those of Adam; on a large one hardly more."""

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class RunTime:
    """Time of a training run, as a function of its length.

    Attributes:
        step: Seconds per step.
        run: Seconds per run on top: construction, evaluation on validation and test data.
        loop: Seconds per step of a stack on top, which its copies share.
    """

    step: float
    run: float = 0.0
    loop: float = 0.0

    def seconds(self, steps: float, copies: float = TYPICAL_STACK) -> float:
        """Return the seconds of a run of this length, in a stack of so many copies."""
        return self.run + steps * (self.step + self.loop / copies)


@dataclass(frozen=True, slots=True)
class Speed:
    """Time of the runs of a task on one worker.

    Attributes:
        plain: Time of a run that is trained alone.
        stacked: Time of a run in a stack: that of the stack, divided by its copies; equal to
            `plain` if runs are not stacked.
        rule_cost: Cost of a run of a rule that a searcher of constants finds, relative to a known
            one, in stacks.
    """

    plain: RunTime
    stacked: RunTime
    rule_cost: float = MIXTURE_COST

    @property
    def is_stacked(self) -> bool:
        """Whether runs are trained in stacks."""
        return self.stacked != self.plain


def time_to_measure(max_time: float) -> float:
    """Return the seconds that a measurement may take of the user's time."""
    return min(MOST_SECONDS, SHARE * max_time)


def step_ratio(speed: Speed, search: Speed, steps: int, final_steps: int) -> float:
    """Return the time of a step of a full run, relative to one of the search.

    Args:
        speed: Time of the task's runs.
        search: Time of the search's runs: that of the proxy, or the same.
        steps: Steps of a run of the search.
        final_steps: Steps of a full run.
    """
    full = speed.stacked.seconds(final_steps) / final_steps
    return full * steps / max(search.stacked.seconds(steps), 1e-12)


def plain_share(recipes: Iterable[str]) -> float:
    """Return the share of recipes that cannot be trained in stacks, because they are not rules."""
    forms = [form_of(parse_recipe(text)) for text in recipes]
    return sum(form is None for form in forms) / max(1, len(forms))


def measure_speed(
    task: Task,
    stacking: Stacking,
    device: str,
    steps: int,
    most: float = MOST_SECONDS,
    clock: Clock = time.perf_counter,
    found: Rule | None = None,
) -> Speed:
    """Measure the runs of a task, with one torch thread as in worker processes.

    Runs are final ones, so that they include metrics on test data; these are not looked at.

    Args:
        task: The task.
        stacking: Which runs are trained together.
        device: Device to train on.
        steps: Steps of a full run.
        most: Seconds that the measurement may take.
        clock: Returns the time in seconds.
        found: A rule as searchers find it, to measure what its steps cost; None: not measured.
    """
    where = torch.device(device)
    with one_thread():
        if stacking.copies == 1:
            plain = _plain(task, where, steps, most, clock)
            return Speed(plain, plain)
        plain = _plain(task, where, steps, most / 2, clock)
        stacks = _Stacks(task, stacking, where, steps, most / 4, clock)
        whole = stacks.timed(stacks.copies)
        stacked = _stacked(stacks, whole, plain)
        cost = MIXTURE_COST if found is None else _rule_cost(stacks, whole, stacked, found)
    return Speed(plain, stacked, cost)


def _run(device: torch.device, steps: int, seed: int = _SEED, rule: Rule = _RULE) -> Run:
    return Run(rule, _LR, seed, steps, final=True, device=device)


def _plain(task: Task, device: torch.device, steps: int, most: float, clock: Clock) -> RunTime:
    """Time the first steps of a full run, then a short run from its start to its end."""
    end = clock() + 2 * most
    first = _timed(task, _run(device, steps), clock, most=FEWEST)
    length = min(steps, max(FEWEST, int(most / max(first.step, 1e-9))))
    short = _timed(task, _run(device, length), clock, until=end)
    step = short.step if short.is_bare or not first.is_bare else first.step
    return RunTime(step, short.construction(step) + short.measuring(step, steps) + short.end)


@dataclass(frozen=True, slots=True)
class _Timed:
    """Seconds of a run, or of the beginning of one.

    Attributes:
        steps: Seconds of each step, and whether the signal was measured at it.
        end: Seconds of the final metrics.
    """

    steps: list[tuple[float, bool]]
    end: float = 0.0

    @property
    def _later(self) -> list[tuple[float, bool]]:
        return self.steps[1:] or self.steps  # the first one includes the construction of the model

    @property
    def is_bare(self) -> bool:
        """Whether there are steps at which nothing is measured."""
        return not all(is_measured for _, is_measured in self._later)

    @property
    def step(self) -> float:
        """Mean seconds of a step at which nothing is measured, if there are such steps.

        Not the median: time that other processes take is part of a run.
        """
        bare = [seconds for seconds, is_measured in self._later if not is_measured]
        return statistics.fmean(bare or [seconds for seconds, _ in self._later])

    def construction(self, step: float) -> float:
        """Return the seconds before the first step."""
        return max(0.0, self.steps[0][0] - step)

    def measuring(self, step: float, steps: int) -> float:
        """Return the seconds of all measurements of a full run, on top of its steps."""
        extra = [seconds - step for seconds, is_measured in self._later if is_measured]
        if not extra:
            return 0.0
        # A short run has fewer of them.
        return max(0.0, statistics.fmean(extra)) * max(len(extra), min(CHECKPOINTS, steps))


def _timed(
    task: Task, run: Run, clock: Clock, *, most: int | None = None, until: float = math.inf
) -> _Timed:
    """Time the steps of a run: all of them, at most some, or until a time."""
    found: list[tuple[float, bool]] = []
    with seeded(run.seed, run.device):
        training = task.start(run)
        while len(found) != most and (len(found) < FEWEST or clock() < until):
            start = clock()
            try:
                value = next(training)
            except StopIteration:
                return _Timed(found, clock() - start)
            if isinstance(value, Tensor):
                value.item()  # synchronizes with the device
            elif run.device.type == "cuda":
                torch.cuda.synchronize(run.device)
            found.append((clock() - start, value is not None))
        training.close()
    return _Timed(found)


@dataclass(frozen=True, slots=True)
class _Stacks:
    """Times stacks of runs.

    Attributes:
        task: The task.
        stacking: Which runs are trained together.
        device: Device to train on.
        steps: Steps of a full run.
        most: Seconds that the measurement of a stack may take.
        clock: Returns the time in seconds.
    """

    task: Task
    stacking: Stacking
    device: torch.device
    steps: int
    most: float
    clock: Clock

    @property
    def copies(self) -> int:
        """Runs of a large stack."""
        return min(self.stacking.fitting(2), TYPICAL_STACK)

    def timed(self, copies: int, rule: Rule = _RULE) -> dict[int, float]:
        """Return the seconds of a stack by its length, which is doubled until the time is over."""
        end, length, found = self.clock() + self.most, min(FEWEST, self.steps), dict[int, float]()
        self._train(copies, length, rule)
        while True:
            start = self.clock()
            self._train(copies, length, rule)
            found[length] = self.clock() - start
            if length == self.steps or self.clock() + 2 * found[length] > end:
                return found
            length = min(2 * length, self.steps)

    def _train(self, copies: int, length: int, rule: Rule) -> None:
        runs = [_run(self.device, length, seed, rule) for seed in range(copies)]
        train(self.task, runs, Stopping(self.task.objective), self.stacking)


def _stacked(stacks: _Stacks, whole: Mapping[int, float], plain: RunTime) -> RunTime:
    """Return the time of a run in stacks, from a large and a small one.

    They have the same cost per step and different copies. The cost per run is as many steps as in a
    run that is trained alone: a difference of two measurements would be unreliable on a busy
    machine.

    Args:
        stacks: Times the small stack.
        whole: Seconds of the large one by its length.
        plain: Time of a run that is trained alone.
    """
    copies, (length, seconds) = stacks.copies, max(whole.items())
    share = plain.run / max(plain.seconds(length), 1e-12)
    per_step, per_run = (1 - share) * seconds / length, share * seconds / copies
    few = min(FEW_COPIES, copies - 1)
    length, part = max(stacks.timed(few).items())
    per_copy = max(0.0, per_step - (1 - share) * part / length) / (copies - few)
    per_copy = min(per_copy, per_step / copies)
    return RunTime(per_copy, per_run, per_step - copies * per_copy)


def _rule_cost(stacks: _Stacks, whole: Mapping[int, float], known: RunTime, found: Rule) -> float:
    """Return the cost of a full run of a found rule, relative to one of a known rule.

    Args:
        stacks: Times a stack of the found rule.
        whole: Seconds of a stack of the known rule by its length.
        known: Time of a run of the known rule.
        found: The found rule.
    """
    length, seconds = max(stacks.timed(stacks.copies, found).items())
    common = min(length, max(whole))  # the found rule is slower, as a rule
    more = (seconds * common / length - whole[common]) / common
    one = stacks.copies * known.seconds(stacks.steps, stacks.copies)
    return 1 + max(0.0, more) * stacks.steps / max(one, 1e-12)
