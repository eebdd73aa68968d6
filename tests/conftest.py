"""Settings and fixtures shared by all tests."""

import signal
from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, settings

settings.register_profile(
    "optsmith",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("optsmith")

# Small tensors: more threads only wait for each other.
torch.set_num_threads(1)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Reset SIGINT for child processes, which inherit an ignored signal (`nohup make test &`)."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
