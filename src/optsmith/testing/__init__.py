"""Conformance suites for users' own tasks and searchers."""

from optsmith.testing._searchers import check_searcher
from optsmith.testing._tasks import check_task

__all__ = ["check_searcher", "check_task"]
