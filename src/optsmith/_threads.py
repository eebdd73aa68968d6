"""Control of torch's intra-op threads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Run the body with one torch thread, and restore the number of threads on exit.

    Rounding of sums depends on the number of threads. On small tensors a second thread gains
    nothing and takes processor time from other workers.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
