"""The attack task: a rule changes images, not weights, until a network misclassifies them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn

from optsmith._errors import TaskError
from optsmith.adversarial import Ball, check_ball, check_images, check_labels, look
from optsmith.optim import with_schedules
from optsmith.task._base import Run, Task, Training
from optsmith.task._metric import PERCENT, Metric, Objective
from optsmith.task._protocol import Preset, Protocol

LRS = (0.001, 0.003, 0.006, 0.01, 0.03, 0.06, 0.1, 0.3, 1.0)
"""The paper's grid."""

Pair = tuple[Tensor, Tensor]


class AttackTask(Task):
    """Attacks a network: the parameter is the image, and each step is an ascent on its loss.

    The step is `x <- Proj(x + lr * rule(gradient))`, as in `optsmith.attack`, from a random point
    of the ball. The signal is the share of all images that are misclassified after a step. A run
    has some of the images, and its seed says which: seeds that follow each other have other images,
    so the mean over seeds is the share among all of them.

    Three sets of images are never mixed: those that choose a learning rate, those that score a rule
    during a search, and those of the final evaluation. Rules are compared with PGD and Adam.

    Args:
        model: Maps images in [0, 1] to logits.
        search: Images and labels for the search; the first of them, up to a third, choose learning
            rates, also those of the final evaluation.
        final: Images and labels of the final evaluation.
        eps: Radius of the ball.
        norm: `linf` or `l2`.
        images: Images of a run during a search.
        final_images: Images of a run of the final evaluation.
        presets: Named settings; by default the paper's and shorter ones.
        name: For records.
        description: One line for people.

    Raises:
        TaskError: Images, labels or a setting make no sense.
    """

    baselines = with_schedules("pgd", "adam")
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
            # Bytes are in the box once divided: one shows whether the shape is right.
            shown = 1 if pixels.dtype == torch.uint8 else len(pixels)
            check_images(_unit(pixels[:shown]), labels[:shown])
        if len(search[0]) < 3:
            raise TaskError("a search needs at least 3 images: to choose with, and to score with")
        self.model = copy.deepcopy(model).cpu().eval().requires_grad_(False)
        self.eps, self.norm = eps, norm
        self.images, self.final_images = images, final_images
        tuning = min(2 * max(images, final_images), len(search[0]) // 3)
        self.tuning: Pair = (search[0][:tuning], search[1][:tuning])
        self.search: Pair = (search[0][tuning:], search[1][tuning:])
        self.final = final
        self.objective = Objective("success rate", "maximize", "last", PERCENT)
        self.presets = attack_presets() if presets is None else presets
        stages = [
            stage
            for preset in self.presets.values()
            for stage in (preset.protocol.search_stage, preset.protocol.final_stage)
        ]
        self.tuning_seeds = frozenset(seed for stage in stages for seed in stage.lr_seeds)
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
        if run.seed in self.tuning_seeds:
            pixels, labels = self.tuning
        else:
            pixels, labels = self.final if run.final else self.search
        count, size = len(labels), self.final_images if run.final else self.images
        blocks = max(1, round(count / size))
        at = run.seed % blocks
        rows = slice(at * count // blocks, (at + 1) * count // blocks)
        return _unit(pixels[rows]).to(run.device), labels[rows].to(run.device).long()

    def start(self, run: Run) -> Training:
        """Attack once."""
        originals, labels = self.pick(run)
        model = self.model
        if run.device.type != "cpu":
            model = copy.deepcopy(model).to(run.device)
        ball = Ball(originals, self.eps, self.norm)
        points = ball.random(run.generator())
        # What an optimizer subtracts from this is added to the image: an ascent, by the letter.
        lacking = nn.Parameter(originals - points)
        optimizer = run.optimizer([lacking])
        seen = look(model, points, labels)
        fooled = seen.fooled
        for t in range(1, run.steps + 1):
            before = lacking.detach().clone()
            lacking.grad = seen.gradients
            optimizer.step()
            with torch.no_grad():
                # An update that is not finite leaves the pixel as it is.
                moved = torch.where(lacking.isfinite(), lacking, before)
                points = ball.project(originals - moved)
                lacking.copy_(originals - points)
            seen = look(model, points, labels, gradient=t < run.steps)
            fooled = fooled | seen.fooled
            yield seen.fooled.float().mean()
        if not run.final:
            return None
        return {
            "success at any step": float(fooled.double().mean()),
            "loss at the end": float(seen.losses.double().mean()),
        }


def attack_presets() -> Mapping[str, Preset]:
    """Return the presets of attacks.

    `paper` has 20 steps, 400 images for the grid and 12 times 400 for the score, and in the end 100
    steps on 10 times 1000 images. `quick` has fewer images and shorter runs in the end, and places
    learning rates by the size of the rule's updates. `smoke` only shows that it runs.
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
    quick = paper.replace(
        lr_search="auto", score_seeds=4, final_steps=40, tune_steps=20, final_seeds=4
    )
    smoke = paper.replace(
        lrs=(0.01, 0.06), proxy_steps=4, steps=5, final_steps=6, tune_steps=4,
        score_seeds=2, final_seeds=2,
    )  # fmt: skip
    # The trajectory test is for descents on weights: the paper's own attack rules fail it.
    return {
        "paper": Preset(protocol=paper, trajectory=False),
        "quick": Preset(protocol=quick, budget=32, trajectory=False, dedupe="scale"),
        "smoke": Preset(protocol=smoke, budget=8, trajectory=False, options={"levels": 2}),
    }


def _unit(pixels: Tensor) -> Tensor:
    """Return images in [0, 1]; bytes are kept as bytes until a run needs them."""
    return pixels.float() / 255 if pixels.dtype == torch.uint8 else pixels
