"""The attack task: rules change images instead of weights, so that they are misclassified."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn

from optsmith._errors import TaskError
from optsmith.adversarial import (
    ApgdStepper,
    Ball,
    Seen,
    check_ball,
    check_images,
    check_labels,
    look,
)
from optsmith.optim import Baseline, has_lr, with_schedules
from optsmith.task._base import Run, Task, Training
from optsmith.task._metric import PERCENT, Metric, Objective
from optsmith.task._preset import Preset
from optsmith.task._protocol import FINAL_LR_SEEDS, SEARCH_LR_SEEDS, UNTRAINED, Protocol

LRS = (0.001, 0.003, 0.006, 0.01, 0.03, 0.06, 0.1, 0.3, 1.0)
"""The paper's grid."""

Pair = tuple[Tensor, Tensor]


class AttackTask(Task):
    """Attacks a network: the parameter is the image, and each step is an ascent on its loss.

    The step is `x <- Proj(x + lr * rule(gradient))`, as in `optsmith.attack`, from a random point
    of the ball. The signal is the share of all images that are misclassified after a step. A run
    has some of the images, and its seed says which: consecutive seeds have disjoint images, so the
    mean over seeds is the share among all of them.

    Four sets of images are never mixed: those that tune learning rates during a search, those that
    score rules during a search, those that tune learning rates for the final evaluation, and those
    of the final evaluation.

    Rules are compared with PGD, Adam and APGD. APGD (`apgd`) adapts a step size per image by its
    losses instead of having a learning rate, so the task runs it without an optimizer; its score is
    measured in the same way, after the last step.

    Args:
        model: Maps images in [0, 1] to logits.
        search: Images and labels other than those of the final evaluation. In their order, `2 *
            images` tune learning rates during a search, `2 * final_images` tune them for the final
            evaluation, but a third of all at most in either case, and the rest scores rules during
            a search.
        final: Images and labels of the final evaluation.
        eps: Radius of the ball.
        norm: `linf` or `l2`.
        images: Images per run during a search.
        final_images: Images per run of the final evaluation, also of the runs that tune for it.
        presets: Named settings; defaults to those of `attack_presets`.
        name: Name in records and messages.
        description: Description in one line.

    Raises:
        TaskError: Images, labels or a setting are invalid.
    """

    baselines = MappingProxyType({**with_schedules("pgd", "adam"), "apgd": Baseline.parse("apgd")})
    metrics = MappingProxyType(
        {
            "success at any step": Metric("success at any step", unit=PERCENT),
            "loss at the end": Metric("loss at the end", secondary=True),
        }
    )
    applied = "Each step adds the learning rate times this to the image, and projects."

    def __init__(
        self,
        model: nn.Module,
        search: Pair,
        final: Pair,
        *,
        eps: float,
        norm: str = "linf",
        images: int = 400,
        final_images: int = 1000,
        presets: Mapping[str, Preset] | None = None,
        name: str = "attack",
        description: str = "",
    ) -> None:
        check_ball(eps, norm)
        if min(images, final_images) < 1:
            raise TaskError("a run needs images: images and final_images must be at least 1")
        for pixels, labels in (search, final):
            check_labels(labels, len(pixels))
            # Bytes are always in range, so one image suffices to check the shape.
            shown = 1 if pixels.dtype == torch.uint8 else len(pixels)
            check_images(_unit(pixels[:shown]), labels[:shown])
        if len(search[0]) < 3:
            raise TaskError("an attack task needs at least 3 images for the search")
        self.model = copy.deepcopy(model).cpu().eval().requires_grad_(False)
        self.eps, self.norm = eps, norm
        self.images, self.final_images = images, final_images
        third = len(search[0]) // 3
        first = min(2 * images, third)
        second = first + min(2 * final_images, third)
        self.tuning, self.final_tuning, self.search = (
            (search[0][rows], search[1][rows])
            for rows in (slice(first), slice(first, second), slice(second, None))
        )
        self.final = final
        self.objective = Objective("success rate", "maximize", "last", PERCENT)
        self.presets = attack_presets() if presets is None else presets
        self.name, self.description = name, description
        self.usage = (
            "from optsmith import attack\n\n"
            "result = attack(\n"
            "    model, images, labels, {rule},\n"
            f"    eps={eps:g}, steps=100, lr={{lr}}, norm={norm!r}, random_start=True,\n"
            ")"
        )

    def pick(self, run: Run) -> Pair:
        """Return the images of a run and their labels."""
        if run.seed in SEARCH_LR_SEEDS:
            (pixels, labels), size = self.tuning, self.images
        elif run.seed in FINAL_LR_SEEDS:
            (pixels, labels), size = self.final_tuning, self.final_images
        elif run.final:
            (pixels, labels), size = self.final, self.final_images
        else:
            (pixels, labels), size = self.search, self.images
        count = len(labels)
        blocks = max(1, round(count / size))
        at = run.seed % blocks
        rows = slice(at * count // blocks, (at + 1) * count // blocks)
        return _unit(pixels[rows]).to(run.device), labels[rows].to(run.device).long()

    def start(self, run: Run) -> Training:
        """Attack the images of a run."""
        originals, labels = self.pick(run)
        model = self.model
        if run.device.type != "cpu":
            model = copy.deepcopy(model).to(run.device)
        ball = Ball(originals, self.eps, self.norm)
        points = ball.random(run.generator())
        stepper = (
            OptimizerStepper(run, points, ball)
            if has_lr(run.recipe)
            else ApgdStepper(points, self.eps, run.steps)
        )
        seen = look(model, points, labels)
        fooled = seen.fooled
        for t in range(1, run.steps + 1):
            points = stepper.step(t, points, seen, ball)
            seen = look(model, points, labels, gradient=t < run.steps)
            fooled = fooled | seen.fooled
            yield seen.fooled.float().mean()
        if not run.final:
            return None
        return {
            "success at any step": float(fooled.double().mean()),
            "loss at the end": float(seen.losses.double().mean()),
        }


class OptimizerStepper:
    """Stepper that applies the optimizer of a run.

    Args:
        run: The run.
        points: Starting points.
        ball: Where the points must stay.
    """

    def __init__(self, run: Run, points: Tensor, ball: Ball) -> None:
        # The optimizer subtracts its update from this, which adds it to the image: an ascent.
        self.lacking = nn.Parameter(ball.centres - points)
        self.optimizer = run.optimizer([self.lacking])

    def step(self, t: int, points: Tensor, seen: Seen, ball: Ball) -> Tensor:
        """Return the points after step t."""
        before = self.lacking.detach().clone()
        self.lacking.grad = seen.gradients
        self.optimizer.step()
        with torch.no_grad():
            # An update that is not finite leaves the pixel as it is.
            moved = torch.where(self.lacking.isfinite(), self.lacking, before)
            points = ball.project(ball.centres - moved)
            self.lacking.copy_(ball.centres - points)
        return points


def attack_presets() -> Mapping[str, Preset]:
    """Return the presets of attacks.

    `paper` tunes with 20 steps on 400 images and scores with 20 steps on 12 times 400; the final
    evaluation tunes with 100 steps on 1000 images, and has 100 steps on 10 times 1000. `quick` has
    fewer images, a shorter final evaluation, and places learning rates by the size of the rule's
    updates. `smoke` only shows that the task runs.
    """
    paper = Protocol(
        lrs=LRS,
        proxy_steps=20,
        steps=20,
        final_steps=100,
        tune_steps=100,
        score_seeds=12,
        final_seeds=10,
        threshold=0.2,
    )
    relative = paper.replace(threshold=UNTRAINED)
    quick = relative.replace(
        lr_search="auto", score_seeds=4, final_steps=40, tune_steps=20, final_seeds=4
    )
    smoke = relative.replace(
        lrs=(0.01, 0.06), proxy_steps=4, steps=5, final_steps=6, tune_steps=4,
        score_seeds=2, final_seeds=2,
    )  # fmt: skip
    # The trajectory test is made for training: the paper's own attack rules fail it.
    return {
        "paper": Preset(protocol=paper, trajectory=False, warm_start=False),
        "quick": Preset(protocol=quick, budget=32, trajectory=False, dedupe="scale"),
        "smoke": Preset(protocol=smoke, budget=8, trajectory=False, options={"levels": 2}),
    }


def _unit(pixels: Tensor) -> Tensor:
    """Return images in [0, 1], converted from bytes if need be."""
    return pixels.float() / 255 if pixels.dtype == torch.uint8 else pixels
