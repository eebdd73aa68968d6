"""Checks that a task is sound, by a few short runs before a search starts."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

import torch

from optsmith._errors import OptsmithError, TaskError, TaskFailure
from optsmith._failures import is_out_of_memory, one_line, traceback_text
from optsmith.rules import Rule
from optsmith.study._held_out import check_data
from optsmith.study._watch import (
    OptimizerWatch,
    Shapes,
    SubtractionWatch,
    crossed,
    warned_shapes,
    with_watched_loss,
)
from optsmith.task import LoaderBatches, ModuleTask, Protocol, Run, Task
from optsmith.training import Trace, train_once

STEPS = 2
"""Steps of each run."""

SEEDS = 4
"""Maximum number of scoring seeds with which the untrained model is scored."""

MEASURED = 64
"""Examples on which metrics are tried out."""

SMALL = 1e-4
"""Relative difference of equal runs up to which threads are assumed to be the cause."""

_NO_GRADIENT = "does not require grad and does not have a grad_fn"


@dataclass(frozen=True, slots=True)
class Preflight:
    """What is known about a task before a search.

    Attributes:
        first_signal: Signal of two steps of plain descent with a tiny learning rate. It identifies
            model and data: a study is resumed only with those that it was created with.
        untrained: Score of a model that is not trained: on the seed that tunes learning rates, or
            the mean over scoring seeds of the search, whichever is worse. So doing better is
            possible on both.
        notes: Remarks for the user, one sentence each.
    """

    first_signal: float
    untrained: float
    notes: tuple[str, ...] = ()


def preflight(task: Task, protocol: Protocol, device: str) -> Preflight:
    """Check a task by its data, and by up to eight runs of two steps each.

    One of the runs is a final one, so that an error in a metric is found now and not after the
    search; its results are not used.

    Args:
        task: The task.
        protocol: Protocol of the search, which has the seeds and the learning rates.
        device: Device to train on.

    Raises:
        TaskFailure: The task's code raises an error under plain descent.
        TaskError: The task runs but cannot be trained: it does not step the optimizer, its loss
            does not depend on the parameters, its targets broadcast against its outputs, its
            data is too small or is used twice, or equal runs differ.
    """
    notes = check_data(task) if isinstance(task, ModuleTask) else []
    stage = protocol.search_stage
    tiny = Run(
        Rule.parse("g"),
        lr=min(protocol.lrs) * 1e-3,
        seed=stage.lr_seed,
        steps=STEPS,
        device=torch.device(device),
    )
    with _as_failure(task, device):
        first = _watched(task, tiny)
        _watched(task, _changed(tiny, lr=min(protocol.lrs)), moves=True)
        _check_metrics(task, train_once(_with_small_test(task, tiny), _changed(tiny, final=True)))
        seeds = stage.seeds[:SEEDS]
        untrained = [train_once(task, _changed(tiny, seed=seed)) for seed in seeds]
        # Last, to see whether the other runs have left anything behind.
        again = train_once(task, _changed(tiny))
    value = first.signal[-1][1]
    _check_equal(task, value, again.signal[-1][1], notes)
    scores = [task.objective.score(trace.signal) for trace in untrained]
    for score in scores:
        if not math.isfinite(score):
            raise _not_finite(task, score)
    if len(scores) > 1 and len({trace.signal[-1][1] for trace in untrained}) == 1:
        _note_equal_seeds(task, notes)
    both = task.objective.score(first.signal), sum(scores) / len(scores)
    return Preflight(value, max(both, key=task.objective.key), tuple(notes))


def knows_roles(task: Task, protocol: Protocol, device: str) -> bool:
    """Return whether a task gives its model to `run.optimizer`, so that roles are known.

    The task has passed `preflight`, so an error is about the parameters.
    """
    run = Run(
        Rule.parse("hidden(g, g)"),
        lr=min(protocol.lrs) * 1e-3,
        seed=protocol.search_stage.lr_seed,
        steps=STEPS,
        device=torch.device(device),
    )
    try:
        train_once(task, run)
    except TaskError:
        return False
    return True


def _changed(run: Run, **changes: object) -> Run:
    return replace(run, built=[], **changes)  # type: ignore[arg-type]


@contextmanager
def _as_failure(task: Task, device: str) -> Iterator[None]:
    """Raise errors of the task's code as a `TaskFailure`."""
    try:
        yield
    except OptsmithError:
        raise
    except Exception as error:
        line = one_line(error)
        if is_out_of_memory(error):
            raise TaskError(
                f"the task {task.name} does not fit into the memory of {device}: {line}"
            ) from error
        if isinstance(error, RuntimeError) and _NO_GRADIENT in line:
            raise _independent(task, "it has no gradient") from error
        raise TaskFailure(
            f"the task {task.name} does not run: {line} (in a run of {STEPS} steps)",
            traceback_text(error),
        ) from error


def _watched(task: Task, run: Run, moves: bool = False) -> Trace:
    """Train a run and check what it does; with `moves`, also that it changes the weights."""
    watched, loss = with_watched_loss(task)
    watch, shapes = OptimizerWatch(run), list[Shapes]()
    in_loop = nullcontext() if loss is not None else SubtractionWatch(shapes)
    with watch.active(), warned_shapes(shapes), in_loop:
        trace = train_once(watched, run)
    if loss is not None and loss.found is not None:
        shapes.append(loss.found)
    if shapes:
        raise _broadcast(task, *shapes[0])
    if not math.isfinite(trace.signal[-1][1]):
        raise _not_finite(task, trace.signal[-1][1])
    if not run.built:
        raise TaskError(
            f"the task {task.name} never calls run.optimizer: get its optimizer from"
            " run.optimizer(model), which is the rule under test"
        )
    if not watch.steps:
        own = f", but steps one of its own ({watch.others[0]})" if watch.others else ""
        raise TaskError(
            f"the task {task.name} never steps the optimizer from run.optimizer{own}: call its"
            " step() before each yield"
        )
    if not watch.has_gradients:
        raise _independent(task, "the parameters given to run.optimizer have no gradients")
    if not watch.has_nonzero_gradients:
        raise _independent(task, "all gradients are zero")
    if moves and watch.is_stuck:
        raise TaskError(
            f"the weights of the task {task.name} are the same after {run.steps} steps: the loop"
            " must not set them or the learning rate back after optimizer.step()"
        )
    return trace


def _with_small_test(task: Task, run: Run) -> Task:
    """Return a task with one small batch of test data: enough to see whether metrics work."""
    if not isinstance(task, ModuleTask) or task.test is None:
        return task
    batch = next(iter(task.test.once(run.device, MEASURED)), None)
    if batch is None:
        raise TaskError(f"the test data of the task {task.name} is empty")
    small = copy.copy(task)
    small.test = LoaderBatches([batch])
    return small


def _check_metrics(task: Task, trace: Trace) -> None:
    metrics: object = trace.metrics
    if not isinstance(metrics, Mapping):
        raise TaskError(
            f"the task {task.name} must return its metrics by name, such as"
            f' {{"accuracy": 0.9}}, or nothing, not {metrics!r:.40}'
        )
    for name, value in metrics.items():
        try:
            float(value)
        except (TypeError, ValueError, RuntimeError):
            raise TaskError(
                f'the metric "{name}" of the task {task.name} must be one number, not {value!r:.40}'
            ) from None


def _check_equal(task: Task, first: float, again: float, notes: list[str]) -> None:
    if first == again:
        return
    if not abs(first - again) <= SMALL * abs(first):
        raise TaskError(
            f"equal runs of the task {task.name} give different signals ({first:.6g}, then"
            f" {again:.6g}): make the model and everything random anew in each run, with torch's"
            " generator or a generator seeded with run.seed"
        )
    notes.append(
        f"equal runs differ slightly ({abs(first - again) / abs(first):.0e}), as with several"
        " threads or on a GPU: repeating the search may give slightly different scores"
    )


def _note_equal_seeds(task: Task, notes: list[str]) -> None:
    if task.objective.direction == "minimize":  # an accuracy may be equal by chance
        notes.append(
            "all seeds give the same signal: draw the initial weights and the order of the data"
            " with torch's generator or run.seed, or runs with other seeds show nothing new"
        )


def _independent(task: Task, why: str) -> TaskError:
    return TaskError(
        f"the loss of the task {task.name} does not depend on its parameters: {why}; compute the"
        " loss from the model's output, without detach, item or no_grad, and call backward"
    )


def _not_finite(task: Task, value: float) -> TaskError:
    return TaskError(f"the task {task.name} starts with a signal that is not finite: {value}")


def _broadcast(task: Task, output: tuple[int, ...], target: tuple[int, ...]) -> TaskError:
    return TaskError(
        f"the targets of the task {task.name} broadcast against the outputs: shapes {target} and"
        f" {output} give {crossed(output, target)}; reshape the targets to {output}"
    )
