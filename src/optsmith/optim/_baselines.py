"""Baselines: published optimizers with learning-rate schedules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch.optim import Optimizer

from optsmith._errors import TaskError
from optsmith._registry import did_you_mean
from optsmith.optim._known import KNOWN, PGD, KnownOptimizer, ScaledRule, find_optimizer
from optsmith.optim._roles import Parameters
from optsmith.optim._schedules import SCHEDULES, Schedule, apply_schedule, lambda_lr
from optsmith.rules import Rule

_TORCH = "torch:"
APGD = "apgd"
"""Auto-PGD, implemented by attack tasks because it needs the loss per image."""

ADAPTIVE = "adaptive"
"""The schedule of `apgd`, which adapts its step sizes and has no learning rate."""

_STEADY = {"warmup": "constant", "warmup-cosine": "cosine"}  # schedules without their warm-up


@dataclass(frozen=True, slots=True)
class RuleForm:
    """A recipe as a rule: `p -= lr * scale * rule`.

    Attributes:
        rule: The rule, including the schedule and, for baselines, the weight decay.
        scale: Factor of the learning rate.
        decay: The schedule, as a rule.
    """

    rule: Rule
    scale: float = 1.0
    decay: Rule | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """A known optimizer with a learning-rate schedule.

    Its text is, for example, `torch:adam+cosine`, `optsmith:lion+warmup-cosine`, `pgd` or `apgd`.

    Attributes:
        optimizer: A name such as `adam` for torch's optimizers and `optsmith:lion` for others.
        schedule: `constant`, `linear`, `cosine` or `warmup-cosine`; `warmup` for Schedule-Free;
            `adaptive` for `apgd` only.
    """

    optimizer: str
    schedule: str = "constant"

    @classmethod
    def parse(cls, text: str) -> Baseline:
        """Return the baseline of a text such as `torch:adam`, `torch:adam+linear` or `pgd`.

        The optimizer need not be installed: see `missing`.

        Raises:
            TaskError: The optimizer or the schedule is unknown.
        """
        if text == APGD:
            return cls(APGD, ADAPTIVE)
        name, _, schedule = text.partition("+")
        if name.removeprefix(_TORCH) == APGD:
            raise TaskError(f'"{text}" must be "apgd": it adapts its own step sizes')
        optimizer, schedule = find_optimizer(name), schedule or "constant"
        if optimizer is None:
            raise _unknown(text, name.removeprefix(_TORCH), KNOWN)
        if schedule not in KNOWN[optimizer].schedules:
            raise _unknown(text, schedule, KNOWN[optimizer].schedules)
        return cls(optimizer, schedule)

    def build(self, params: Parameters, lr: float, total_steps: int) -> Optimizer:
        """Return the optimizer, whose steps apply the schedule.

        Args:
            params: A module, parameters, named parameters, or parameter groups.
            lr: Learning rate.
            total_steps: Number of steps in the run.

        Raises:
            TaskError: The optimizer is not installed; it requires the model (Muon, Schedule-Free)
                and `params` has neither a model nor groups with a `role`; or it is `apgd`, which is
                not an optimizer.
        """
        if not self.has_lr:
            raise TaskError(f"{self} is not an optimizer: only attack tasks run it")
        self.check()
        optimizer = self.known.build(params, lr, str(self))
        if self.schedule != "constant":
            apply_schedule(optimizer, self._schedule, total_steps)
        return optimizer

    @property
    def known(self) -> KnownOptimizer:
        """The optimizer's entry in the table; `apgd` has none."""
        return KNOWN[self.optimizer]

    @property
    def _schedule(self) -> Schedule:
        return SCHEDULES[self.schedule]

    @property
    def has_lr(self) -> bool:
        """Whether there is a learning rate to tune."""
        return self.schedule != ADAPTIVE

    @property
    def missing(self) -> str:
        """Why the optimizer is not available and what to install; empty if it is."""
        return self.known.missing() if self.has_lr else ""

    def check(self) -> None:
        """Check that the optimizer is installed.

        Raises:
            TaskError: It is not.
        """
        if self.missing:
            raise TaskError(f"{self} is not available: {self.missing}")

    def as_rule(self) -> RuleForm | None:
        """Return the equivalent rule (up to rounding), or None if there is none."""
        return self._form(self.known.rule) if self.has_lr else None

    def sized_like(self) -> RuleForm | None:
        """Return a rule by whose updates the learning rate is placed, or None if there is none.

        It is the equivalent rule, or that of an optimizer with updates of about the same size. It
        has no warm-up, in which updates are smaller than in the rest of the run, and neither has
        RAdam's, which is that of Adam.
        """
        if not self.has_lr:
            return None
        steady = Baseline(self.optimizer, _STEADY.get(self.schedule, self.schedule))
        return steady._form(self.known.like or self.known.rule)

    def _form(self, scaled: ScaledRule | None) -> RuleForm | None:
        decay = self._schedule.decay
        if scaled is None or not decay:
            return None
        text, scale = scaled
        whole = text if self.schedule == "constant" else f"{decay}*({text})"
        return RuleForm(Rule.parse(whole), scale, decay=Rule.parse(decay))

    def describe(self) -> str:
        """Return a description such as `Adam, cosine decay to 0`."""
        if not self.has_lr:
            return "APGD, which adapts its own step sizes"
        return f"{self.known.title}, {self._schedule.words}"

    def torch_call(self, lr: float) -> str:
        """Return Python code that constructs the optimizer for `model`, without its schedule.

        It uses the module of `known.path`: `torch.optim.AdamW(model.parameters(), lr=0.001)`.
        """
        given = "model" if self.known.takes_model else "model.parameters()"
        settings = {"lr": lr, **self.known.settings}
        words = [given, *(f"{key}={value!r}" for key, value in settings.items())]
        return f"{self.known.path}({', '.join(words)})"

    def scheduler_call(self) -> str:
        """Return Python code that constructs the scheduler of `optimizer`; empty if constant.

        It uses `math`, `torch` and a variable `total_steps`; its `step` follows each step of the
        optimizer.
        """
        return lambda_lr(self._schedule)

    def __str__(self) -> str:
        suffix = "" if self.schedule in ("constant", ADAPTIVE) else f"+{self.schedule}"
        bare = ":" in self.optimizer or self.optimizer in (PGD, APGD)
        return f"{'' if bare else _TORCH}{self.optimizer}{suffix}"


def _unknown(text: str, wrong: str, known: Iterable[str]) -> TaskError:
    hint = did_you_mean(wrong, known) or f"; known: {', '.join(known)}"
    return TaskError(f'there is no baseline "{text}": "{wrong}" is unknown{hint}')


def is_baseline(text: str) -> bool:
    """Return whether the text of a recipe names a baseline; the text of a rule has no colon."""
    return ":" in text or text.partition("+")[0].strip() in (PGD, APGD)
