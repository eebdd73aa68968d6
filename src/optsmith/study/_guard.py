"""Stops a search when the task or the machine fails, rather than a rule."""

from __future__ import annotations

from optsmith._errors import RemoteTraceback, StudyError, TaskFailure
from optsmith.evaluation import Evaluation, Status
from optsmith.optim import Baseline, is_baseline

FIRST = 4
"""Number of first evaluations that must not all fail."""

MOST_LOST = 4
"""Number of evaluations in a row that must not all be lost."""


class Guard:
    """Tells failures of the task and of the machine from failures of a rule.

    An error is the task's if it is raised under plain gradient descent, or in all of the first
    evaluations. Later errors are the rule's.

    Args:
        task: Name of the task.
        first: Number of first evaluations that must not all fail; None: they may.

    Attributes:
        passed: Whether an evaluation has ended without an error.
    """

    def __init__(self, task: str, first: int | None = FIRST) -> None:
        self._task, self._first = task, first
        self._failed: list[Evaluation] = []
        self._lost = 0
        self.passed = False

    def check(self, evaluation: Evaluation) -> None:
        """Take note of an evaluation, in the order in which candidates were asked for.

        Raises:
            TaskFailure: The error is the task's.
            StudyError: Too many evaluations in a row were lost.
        """
        if evaluation.status is Status.LOST:
            self._lose(evaluation)
            return
        self._lost = 0
        if evaluation.status is not Status.FAILED:
            self.passed = True
            return
        if _is_plain(evaluation.recipe):
            raise self._failure(evaluation, "under plain gradient descent")
        self._failed.append(evaluation)
        if len(self._failed) == self._first and not self.passed:
            raise self._failure(self._failed[0], f"in all of the first {self._first} evaluations")

    def blames_rule(self, evaluation: Evaluation) -> bool:
        """Return whether the error of an evaluation is known to be the rule's."""
        return self.passed and not _is_plain(evaluation.recipe)

    def end(self) -> None:
        """Check that not all evaluations have failed.

        Raises:
            TaskFailure: They have.
        """
        if self._failed and not self.passed and self._first is not None:
            raise self._failure(self._failed[0], "in all evaluations")

    def _failure(self, evaluation: Evaluation, where: str) -> TaskFailure:
        failure = TaskFailure(
            f"the task {self._task} does not run: {evaluation.error} ({where})",
            evaluation.traceback,
        )
        if evaluation.traceback:
            failure.__cause__ = RemoteTraceback(evaluation.traceback)
        return failure

    def _lose(self, evaluation: Evaluation) -> None:
        self._lost += 1
        if self._lost == MOST_LOST:
            raise StudyError(
                f"{MOST_LOST} evaluations in a row were lost, the last because:"
                f" {evaluation.error}; if there is too little memory, use fewer --workers or"
                " --stack 1; the same command resumes the search and evaluates them again"
            )


def _is_plain(recipe: str) -> bool:
    """Return whether a recipe is plain gradient descent, with any schedule."""
    return Baseline.parse(recipe).optimizer == "sgd" if is_baseline(recipe) else recipe == "g"
