"""A recipe that a study recommends or found, with the one learning rate to use it with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch.optim import Optimizer

from optsmith._errors import RuleError, StudyError
from optsmith._files import write_atomically
from optsmith.evaluation import Evaluation, shown
from optsmith.optim import Baseline, Parameters, export_recipe, is_baseline, parse_recipe
from optsmith.rules import Rule
from optsmith.study._known import known_name


@dataclass(frozen=True)
class Finding:
    """A rule or an opponent: how it scored in the search, and in the final evaluation.

    Attributes:
        search: Its evaluation during the search, usually on shorter runs; for an opponent, its
            final evaluation.
        held_out: Its final evaluation: full length, on seeds and data that the search did not use.
            None before the end of the search, and for rules that were not proposed.
    """

    search: Evaluation
    held_out: Evaluation | None = None

    @property
    def recipe(self) -> str:
        """Text of the rule, or name of the opponent."""
        return self.search.recipe

    @property
    def is_rule(self) -> bool:
        """Whether it is a rule, not an opponent."""
        return not is_baseline(self.recipe)

    @property
    def rule(self) -> Rule:
        """The rule.

        Raises:
            StudyError: It is an opponent.
        """
        if not self.is_rule:
            raise StudyError(f"{self.recipe} is an optimizer, not a rule: use `optimizer`")
        return self.search.rule

    @cached_property
    def known(self) -> str:
        """Name of the known optimizer that the rule is, such as `optsmith:lion`; else empty.

        `torch:nesterov, tuned` is a rule that differs from Nesterov only in its constants.
        """
        try:
            return known_name(self.rule) if self.is_rule else ""
        except RuleError:  # its operators are not registered here
            return ""

    @property
    def simplified(self) -> str:
        """Text of the rule as simplified by SymPy, or the recipe if that fails."""
        return shown(self.recipe)

    @property
    def tuned(self) -> Evaluation:
        """The evaluation that tuned the learning rate: the final one, if it found a rate."""
        final = self.held_out
        return self.search if final is None or final.lr is None else final

    @property
    def lr(self) -> float | None:
        """The learning rate, as tables, reports and `optimizer` use it."""
        return self.tuned.lr

    @property
    def search_score(self) -> float | None:
        """Score during the search, which ranked the rule; None for an opponent."""
        return self.search.score if self.is_rule else None

    @property
    def held_out_score(self) -> float | None:
        """Score of the final evaluation; None without one."""
        return None if self.held_out is None else self.held_out.score

    def optimizer(
        self, params: Parameters, total_steps: int | None = None, **settings: Any
    ) -> Optimizer:
        """Return the optimizer that was evaluated: with its learning rate and its schedule.

        Args:
            params: A model; parameters, named parameters or parameter groups if the recipe does
                not train matrices and vectors differently.
            total_steps: Length of the run, which decays and schedules need.
            settings: `lr` replaces the tuned learning rate; for a rule, also the other arguments of
                `RuleOptimizer`.

        Raises:
            OptsmithError: A setting is invalid, or `params` are not enough for this recipe.
        """
        if self.is_rule:
            return self.tuned.optimizer(params, total_steps, **settings)
        lr = settings.pop("lr", self.lr)
        if settings:
            raise StudyError(
                f"{self.recipe} is used with the settings that were evaluated; only lr may be"
                f" given, not {', '.join(settings)}"
            )
        baseline = Baseline.parse(self.recipe)
        if total_steps is None and baseline.schedule != "constant":
            raise StudyError(
                f"{self.recipe} has a schedule: pass total_steps, the length of the run"
            )
        return baseline.build(params, lr, total_steps or 1)

    def export(self, path: str | Path | None = None, name: str | None = None) -> str:
        """Return the source of a Python file with the optimizer, which requires only torch.

        Its `make_optimizer` has the tuned learning rate as a default.

        Args:
            path: File to write as well; an existing one is replaced.
            name: Name of the class of a rule.

        Raises:
            OptsmithError: The recipe cannot be exported, or the file cannot be written.
        """
        text = export_recipe(parse_recipe(self.recipe), name=name, lr=self.lr)
        if path is not None:
            write_atomically(Path(path), text)
        return text

    def _repr_html_(self) -> str:
        from optsmith.report import finding_html  # late, because report depends on this package

        return finding_html(self)
