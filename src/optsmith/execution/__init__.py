"""Executors, which run jobs in this process or in worker processes.

Torch is imported only when it is needed, so that a worker can be controlled by its coordinator
immediately after it starts.
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
