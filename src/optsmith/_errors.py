"""Exception hierarchy; the command line prints each error as one line.

A `TaskFailure` is the exception: its traceback is printed as well.
"""

from __future__ import annotations


class OptsmithError(Exception):
    """Base class of all errors that Optsmith raises for invalid input."""


class RuleError(OptsmithError):
    """Raised when a text or a sequence of operators is not a rule.

    Attributes:
        position: Index of the error in the text; None if there is no text.
    """

    def __init__(self, message: str, position: int | None = None) -> None:
        self.position = position
        super().__init__(message if position is None else f"{message} (at position {position})")


class SpaceError(OptsmithError):
    """Raised when a space cannot be built, or a partial rule is not in a space."""


class OptimizerError(OptsmithError, ValueError):
    """Raised when an optimizer does not support a setting, parameter or gradient."""


class DataError(OptsmithError):
    """Raised when data is missing, cannot be downloaded, or is invalid."""


class TaskError(OptsmithError):
    """Raised when a task, protocol or recipe is invalid."""


class TaskFailure(TaskError):  # noqa: N818 - the task fails, with an error of its own
    """Raised when the code of a task raises an exception that is not due to a rule.

    Its `__cause__` is that exception; if it was raised in a worker process, a `RemoteTraceback`.

    Attributes:
        traceback: Traceback of the exception as text, starting in the task's code.
    """

    def __init__(self, message: str, traceback: str = "") -> None:
        self.traceback = traceback
        super().__init__(message)


class RemoteTraceback(Exception):  # noqa: N818 - like that of concurrent.futures
    """The cause of an error that was raised in a worker process: its traceback as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class StudyError(OptsmithError):
    """Raised when a study cannot be opened, written or resumed."""


class SimplifyWarning(UserWarning):
    """Issued when `Rule.simplify` returns a rule unchanged; the message has the reason."""
