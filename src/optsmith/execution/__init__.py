"""Executors: they run jobs, here or in worker processes, and know nothing of rules or tasks.

Nothing here imports torch before it is needed, so a worker is under its coordinator's control
from the first milliseconds on.
"""

from optsmith.execution._base import Executor, Function, Lost, Prepare, default_workers
from optsmith.execution._in_process import InProcess
from optsmith.execution._make import make_executor
from optsmith.execution._processes import Processes

__all__ = [
    "Executor",
    "Function",
    "InProcess",
    "Lost",
    "Prepare",
    "Processes",
    "default_workers",
    "make_executor",
]
