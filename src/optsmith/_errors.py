"""Exception hierarchy; the command line prints each error as one line."""

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


class StudyError(OptsmithError):
    """Raised when a study cannot be opened, written or resumed."""


class SimplifyWarning(UserWarning):
    """Issued when `Rule.simplify` returns a rule unchanged; the message has the reason."""
