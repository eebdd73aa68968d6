"""Vectorised random numbers equal those of `rules.uniform`."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from optsmith.optim._uniforms import uniforms
from optsmith.rules._noise import uniform

CPU = torch.device("cpu")
BITS = st.integers(0, 2**32 - 1)


@given(
    keys=st.lists(BITS, min_size=1, max_size=3),
    step=st.integers(1, 2**40),
    start=st.one_of(st.integers(0, 100), st.integers(2**32 - 50, 2**32 + 50), BITS),
    size=st.integers(0, 70),
)
def test_equal_to_the_bit(keys, step, start, size):
    numbers = uniforms(keys, step, start, start + size, CPU)
    elements = torch.arange(start, start + size)
    assert torch.equal(numbers, torch.stack([uniform(key, step, elements) for key in keys]))


def test_not_on_a_cpu_torch_does_it():
    numbers = uniforms([1, 2], 3, 4, 9, torch.device("meta"))
    assert numbers.shape == (2, 5)
    assert numbers.dtype == torch.float32
    assert numbers.device.type == "meta"
