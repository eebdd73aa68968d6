"""Treats tensors of more than 3 elements as large, so that small tests cover large tensors."""

import pytest

from optsmith.optim import _eager


@pytest.fixture(autouse=True)
def some_tensors_are_large(monkeypatch):
    monkeypatch.setattr(_eager, "SMALL", 3)
