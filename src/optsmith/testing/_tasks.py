"""Conformance suite for tasks: checks the contract of `Task.start`."""

from __future__ import annotations

import math
from tempfile import TemporaryFile

import cloudpickle
import torch

from optsmith.optim import Recipe, parse_recipe
from optsmith.task import Metric, Run, Task
from optsmith.training import LOOK, PausableRun, Stopping, train_once

STEPS = 11
"""A prime, so that it does not divide numbers that a task may have fixed."""


def check_task(task: Task, lr: float = 1e-4, device: str = "cpu") -> None:
    """Check that a task fulfils the contract of `Task`, by about twenty short training runs.

    Args:
        task: The task.
        lr: A learning rate at which gradient descent is stable.
        device: The device to train on.

    Raises:
        AssertionError: It does not; the message says which part is violated.
    """
    _TaskCheck(task, lr, torch.device(device)).all()


class _TaskCheck:
    def __init__(self, task: Task, lr: float, device: torch.device) -> None:
        self.task, self.lr, self.device = task, lr, device

    def all(self) -> None:
        self.description()
        self.length()
        self.same_run_same_signal()
        self.every_recipe_starts_alike()
        self.seeds_matter()
        self.closes()
        self.leaves_torch_alone()
        self.pickles()
        self.continues()
        self.final_measures()

    def run(self, recipe: str = "g", **changes: object) -> Run:
        parsed: Recipe = parse_recipe(recipe)
        fields = {"lr": self.lr, "seed": 3, "steps": STEPS, "device": self.device, **changes}
        return Run(parsed, **fields)  # type: ignore[arg-type]

    def signal(self, recipe: str = "g", task: Task | None = None, **changes: object) -> list[float]:
        trace = train_once(task or self.task, self.run(recipe, **changes))
        return [value for _, value in trace.signal]

    def description(self) -> None:
        task = self.task
        assert task.name, "a task needs a name"
        assert task.presets, "a task needs presets"
        for name, preset in task.presets.items():
            stages = preset.protocol.search_stage, preset.protocol.final_stage
            seeds = [{*stage.lr_seeds, *stage.seeds} for stage in stages]
            assert not seeds[0] & seeds[1], (
                f"preset {name}: search and final evaluation share seeds"
            )

    def length(self) -> None:
        for steps in (1, 2, STEPS):
            trace = train_once(
                self.task, self.run(steps=steps)
            )  # fails if the number of steps is wrong
            assert trace.signal[-1][0] == steps
            assert all(math.isfinite(value) for _, value in trace.signal), (
                f"the signal is not finite at a learning rate of {self.lr:g}"
            )
        run = self.run()
        train_once(self.task, run)
        assert run.built, "the task does not use run.optimizer"

    def same_run_same_signal(self) -> None:
        one, two = self.signal(), self.signal()
        assert one == two, "equal runs give different signals: some randomness is not seeded"

    def every_recipe_starts_alike(self) -> None:
        if self.task.objective.over != "mean":
            return  # the signal is measured after different steps
        first = {self.signal(recipe)[0] for recipe in ("g", "sign(m1)", "drop(g)", "torch:adam")}
        assert len(first) == 1, "recipes start from different weights or data"

    def seeds_matter(self) -> None:
        signals = {tuple(self.signal("sign(g)", lr=1e-2, seed=seed)) for seed in range(4)}
        assert len(signals) > 1, "the signal does not depend on the seed"

    def closes(self) -> None:
        training = self.task.start(self.run())
        next(training)
        training.close()
        assert self.signal() == self.signal(), "closing a run changes later runs"

    def leaves_torch_alone(self) -> None:
        before, threads = torch.get_rng_state(), torch.get_num_threads()
        self.signal()
        assert torch.equal(before, torch.get_rng_state()), (
            "a run changes the state of torch's generator"
        )
        assert torch.get_num_threads() == threads, "a run changes the number of threads"
        assert torch.is_grad_enabled(), "a run leaves gradients disabled"

    def pickles(self) -> None:
        copy = cloudpickle.loads(cloudpickle.dumps(self.task))
        assert self.signal() == self.signal(task=copy), "a pickled copy trains differently"

    def continues(self) -> None:
        run = self.run()
        training = PausableRun(self.task, run, Stopping(self.task.objective))
        training.train(LOOK)
        with TemporaryFile() as file:
            training.set_aside(file)
            training.train()
        values = [value for _, value in training.result().signal]
        assert values == self.signal(), (
            "a run restored from a checkpoint gives another signal: the checkpoint is incomplete"
        )

    def final_measures(self) -> None:
        searching = train_once(self.task, self.run()).metrics
        final = train_once(self.task, self.run(final=True)).metrics
        assert not searching, "held-out metrics are measured in runs that are not final"
        for name, value in final.items():
            assert isinstance(value, float), f"the metric {name} is not a number"
        for name, metric in self.task.metrics.items():
            assert isinstance(metric, Metric), f"the declaration of {name} is not a Metric"
            assert metric.name == name, f"the metric {name} is declared as {metric.name}"
            assert name in final, f"the metric {name} is declared but not measured"
