"""Settings for tiny tensors: what large ones do must happen to some of them."""

import pytest

from optsmith.optim import _eager


@pytest.fixture(autouse=True)
def some_tensors_are_large(monkeypatch):
    monkeypatch.setattr(_eager, "SMALL", 3)
