"""Treats tensors of more than 3 elements as large, so that small tests cover large tensors."""

import pytest

from optsmith.optim import _eager, _fused


@pytest.fixture(autouse=True)
def some_tensors_are_large(monkeypatch):
    monkeypatch.setattr(_eager, "SMALL", 3)


@pytest.fixture(autouse=True)
def no_kernels_of_other_tests(monkeypatch):
    monkeypatch.setattr(_fused, "_kernels", type(_fused._kernels)())
