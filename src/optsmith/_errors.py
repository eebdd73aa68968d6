"""What can go wrong, as a small hierarchy; the command line turns each into one line."""

from __future__ import annotations


class OptsmithError(Exception):
    """Base of every error that Optsmith raises on purpose: bad input, never a bug."""


class RuleError(OptsmithError):
    """A text or a sequence of operators that is not a rule.

    Attributes:
        position: Index into the text where the fault is, or None when there is no text.
    """

    def __init__(self, message: str, position: int | None = None) -> None:
        self.position = position
        super().__init__(message if position is None else f"{message} (at position {position})")


class SpaceError(OptsmithError):
    """A space that cannot be built, or a partial rule that does not belong to one."""


class OptimizerError(OptsmithError, ValueError):
    """A setting, parameter or gradient that an optimizer cannot work with."""


class DataError(OptsmithError):
    """Data that is not there, cannot be fetched, or is not what it should be."""


class TaskError(OptsmithError):
    """A task, protocol or recipe that makes no sense."""


class StudyError(OptsmithError):
    """A study that cannot be opened, written or continued."""


class SimplifyWarning(UserWarning):
    """`Rule.simplify` returned the rule unchanged; the message says why."""
