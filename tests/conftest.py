"""Settings shared by every test."""

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
