"""Loads checkpoints of robust networks, in the formats in which papers publish them."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from optsmith._errors import DataError
from optsmith.adversarial._architectures import Architecture, architectures
from optsmith.adversarial._normalised import Normalised

NESTS = ("state_dict", "model_state_dict", "model", "net", "last")
"""Keys under which files nest the state dict."""

PREFIXES = ("module.", "model.", "1.")
"""Prefixes that wrappers add to every name; `1.` is a `Sequential` of normalisation and model."""

NORMALISATION = (
    ("mu", "sigma"),
    ("mean", "std"),
    ("normalize.mean", "normalize.std"),
    ("0.mean", "0.std"),
)
"""Names of the mean and the standard deviation per channel."""

UNUSED = ("sub_block1.",)
"""Weights in published files that no forward pass uses (Carmon2019 and its derivatives)."""


def load_checkpoint(
    path: str | os.PathLike[str],
    architecture: str | nn.Module,
    *,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> nn.Module:
    """Return a model with the weights of a checkpoint; it maps images in [0, 1] to logits.

    Plain state dicts and state dicts nested under `state_dict` or a similar key are supported, with
    or without DataParallel's `module.` prefix. Images are normalised with `mean` and `std` if
    given, else with the values in the file (`mu`, `sigma`), else with the architecture's defaults,
    if it has any. No code in the file is executed.

    Args:
        path: Path of the checkpoint.
        architecture: A name in `architectures`, or the module to load the weights into.
        mean: Mean per channel for normalisation.
        std: Standard deviation per channel.

    Returns:
        The model, on the CPU and in evaluation mode.

    Raises:
        OptsmithError: The name of the architecture is unknown.
        DataError: The file does not exist or cannot be read, or the weights do not match.
    """
    if isinstance(architecture, str):
        if architecture not in architectures:
            raise architectures.unknown(architecture)
        known = architectures[architecture]
    else:
        known = Architecture(type(architecture).__name__, lambda: architecture)
    if (mean is None) != (std is None):
        raise DataError("mean and std must be given together")
    weights = _unwrap(_read(Path(path)), Path(path))
    with torch.random.fork_rng([]):  # the initial weights are random and will be replaced
        model = known.make()
    weights, given = _names(weights, set(model.state_dict()))
    _fill(model, weights, Path(path), known.name)
    if mean is not None and std is not None:
        model = Normalised(model, mean, std)
    elif given:
        model = Normalised(model, *(tensor.flatten().tolist() for tensor in given))
    elif known.mean:
        model = Normalised(model, known.mean, known.std)
    return model.eval()


def _read(path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise DataError(f"cannot read the checkpoint {path}: {error.strerror}") from None
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise DataError(f"{path} is not a checkpoint that torch can load: {reason}") from None


def _unwrap(found: Any, path: Path) -> dict[str, Tensor]:
    """Return the state dict, from inside nested mappings and lists of one item."""
    for _ in range(4):
        if isinstance(found, list | tuple) and len(found) == 1:
            found = found[0]
        if not isinstance(found, Mapping):
            break
        if found and all(isinstance(value, Tensor) for value in found.values()):
            return {str(key): value for key, value in found.items()}
        inner = next((name for name in NESTS if name in found), None)
        if inner is None:
            break
        found = found[inner]
    raise DataError(
        f"{path} has no state dict, neither at the top level nor under {', '.join(NESTS)}"
    )


def _names(weights: dict[str, Tensor], wanted: set[str]) -> tuple[dict[str, Tensor], list[Tensor]]:
    """Return the weights without prefixes, and mean and std separately if the file has them."""
    given: list[Tensor] = []
    while True:
        for pair in NORMALISATION:
            if set(pair) <= weights.keys() and not set(pair) & wanted:
                given = [weights[name] for name in pair]
                weights = {name: w for name, w in weights.items() if name not in pair}
        if wanted & weights.keys():
            return weights, given
        prefix = next((p for p in PREFIXES if all(name.startswith(p) for name in weights)), None)
        if prefix is None:
            return weights, given
        weights = {name.removeprefix(prefix): w for name, w in weights.items()}


def _fill(model: nn.Module, weights: dict[str, Tensor], path: Path, name: str) -> None:
    """Load weights into a model; names and shapes must match."""
    wanted = model.state_dict()
    for key in wanted:
        # Missing in old files, and used in training only.
        if key not in weights and not key.endswith("num_batches_tracked"):
            raise DataError(f'{path} has no "{key}", which {name} requires')
    for key, tensor in weights.items():
        if key.startswith(UNUSED):
            continue
        if key not in wanted:
            raise DataError(f'{path} has "{key}", which {name} does not have')
        if tensor.shape != wanted[key].shape:
            raise DataError(
                f'"{key}" in {path} has the shape {tuple(tensor.shape)}, but {name} requires'
                f" {tuple(wanted[key].shape)}"
            )
    model.load_state_dict({k: w for k, w in weights.items() if k in wanted}, strict=False)
