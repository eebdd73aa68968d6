"""Checkpoints: a state dict in a file, in the forms in which robustness papers publish them."""

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
"""Names under which files keep the weights beside other things."""

PREFIXES = ("module.", "model.", "1.")
"""What wrappers put before every name; a number when a model is a pair: normalise, classify."""

NORMALISATION = (
    ("mu", "sigma"),
    ("mean", "std"),
    ("normalize.mean", "normalize.std"),
    ("0.mean", "0.std"),
)
"""Names that files give to mean and spread of the channels."""

UNUSED = ("sub_block1.",)
"""Weights that published files carry but no forward pass uses (Carmon2019 and its heirs)."""


def load_checkpoint(
    path: str | os.PathLike[str],
    architecture: str | nn.Module,
    *,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> nn.Module:
    """Return a model that maps images in [0, 1] to logits, with the weights of a file.

    Takes plain state dicts and those nested under `state_dict` and the like, with or without the
    `module.` that DataParallel puts before names. Images are normalised as `mean` and `std` say,
    else as the file says (`mu`, `sigma`), else as is usual for the architecture, if at all. Nothing
    in the file is executed.

    Args:
        path: The file.
        architecture: A name in `architectures`, or the module that the weights belong to.
        mean: Of each channel, when images are to be normalised.
        std: Of each channel.

    Returns:
        The model on the CPU, in its evaluation mode.

    Raises:
        OptsmithError: There is no architecture of that name.
        DataError: The file is not there or cannot be read, or the weights do not fit.
    """
    if isinstance(architecture, str):
        if architecture not in architectures:
            raise architectures.unknown(architecture)
        known = architectures[architecture]
    else:
        known = Architecture(type(architecture).__name__, lambda: architecture)
    if (mean is None) != (std is None):
        raise DataError("mean and std go together: give both or none")
    weights = _unwrap(_read(Path(path)), Path(path))
    with torch.random.fork_rng([]):  # first weights are drawn, to be thrown away
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
        raise DataError(f"{path} is not a file of weights that torch loads: {reason}") from None


def _unwrap(found: Any, path: Path) -> dict[str, Tensor]:
    """Return the weights from whatever they are kept in."""
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
        f"{path} has no weights: a state dict is expected, or one under {', '.join(NESTS)}"
    )


def _names(weights: dict[str, Tensor], wanted: set[str]) -> tuple[dict[str, Tensor], list[Tensor]]:
    """Return weights without prefixes, and the normalisation apart when the file has one."""
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
    """Put weights into a model; every one must be there and fit."""
    wanted = model.state_dict()
    for key in wanted:
        # Old files do not count the batches; nothing but training reads it.
        if key not in weights and not key.endswith("num_batches_tracked"):
            raise DataError(f'{path} has no "{key}", which {name} needs')
    for key, tensor in weights.items():
        if key.startswith(UNUSED):
            continue
        if key not in wanted:
            raise DataError(f'{path} has "{key}", which {name} does not')
        if tensor.shape != wanted[key].shape:
            raise DataError(
                f'"{key}" in {path} has the shape {tuple(tensor.shape)}, but {name} needs'
                f" {tuple(wanted[key].shape)}"
            )
    model.load_state_dict({k: w for k, w in weights.items() if k in wanted}, strict=False)
