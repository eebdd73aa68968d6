"""Transfer of torch's global settings to workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def _set_deterministic(value: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(value[0], warn_only=value[1])


# Settings of a script that a new process does not inherit.
_SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "device": (torch.get_default_device, torch.set_default_device),
    "matmul": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "deterministic": (
        lambda: (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        _set_deterministic,
    ),
}


def current_settings() -> dict[str, Any]:
    """Return the settings of this process."""
    return {name: get() for name, (get, _) in _SETTINGS.items()}


def apply_settings(settings: dict[str, Any]) -> None:
    """Apply settings to this process."""
    for name, value in settings.items():
        get, change = _SETTINGS[name]
        if get() != value:  # setting a default device, even the same, slows down every call
            change(value)
