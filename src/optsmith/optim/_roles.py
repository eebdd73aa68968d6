"""Roles of parameters: hidden matrices, embeddings, the output layer and vectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from optsmith._errors import TaskError

HIDDEN, EMBEDDING, OUTPUT, VECTOR = "hidden", "embedding", "output", "vector"
ROLES = (HIDDEN, EMBEDDING, OUTPUT, VECTOR)

Parameters = nn.Module | Iterable[Any]
"""What an optimizer is given: a module, parameters, named parameters, or groups of them."""

Group = dict[str, Any]
"""A parameter group as in torch: `params`, and settings of their own."""


def roles(model: nn.Module) -> dict[str, str]:
    """Return the role of every named parameter of a model.

    A weight is seen as a matrix of its first dimension times all others, as convolutions are.

    - `vector`: fewer than two dimensions, or a matrix with a single row or column: biases, weights
      of norms, an output layer with one output.
    - `embedding`: the weight of an `nn.Embedding` or `nn.EmbeddingBag`, also when an output layer
      shares it.
    - `output`: a matrix of the last layer, in the order in which layers are defined, that has a
      weight with two or more dimensions.
    - `hidden`: every other matrix.

    Parametrised weights count as those of the layer that they are computed for. Frozen parameters
    have roles too. Parameter groups with a key `role` override what is said here.

    Args:
        model: The model; a weight that several layers share is named once.

    Raises:
        TaskError: Some weights are lazy, and not made yet.
    """
    owners: dict[Tensor, list[tuple[str, nn.Module]]] = {}
    last = ""  # the output layer
    for name, p in model.named_parameters(remove_duplicate=False):
        if isinstance(p, UninitializedParameter):
            raise TaskError(f"{name} has no shape yet: run the model once before it is trained")
        layer = _layer(name)
        owners.setdefault(p, []).append((layer, model.get_submodule(layer)))
        if p.ndim >= 2:
            last = layer
    return {name: _role(p, owners[p], last) for name, p in model.named_parameters()}


def _layer(parameter: str) -> str:
    """Return the name of the layer that a parameter belongs to."""
    path = parameter.split(".")[:-1]
    if len(path) >= 2 and path[-2] == "parametrizations":  # made by torch.nn.utils.parametrize
        path = path[:-2]
    return ".".join(path)


def _role(p: Tensor, owners: list[tuple[str, nn.Module]], last: str) -> str:
    if p.ndim < 2 or p.shape[0] == 1 or p.shape[1:].numel() == 1:
        return VECTOR
    if any(isinstance(module, nn.Embedding | nn.EmbeddingBag) for _, module in owners):
        return EMBEDDING
    return OUTPUT if any(layer == last for layer, _ in owners) else HIDDEN


def parameters_of(params: Parameters) -> Iterable[Any]:
    """Return what torch's optimizers take: the parameters of a module, or what was given."""
    return list(params.parameters()) if isinstance(params, nn.Module) else params


def with_roles(model: nn.Module, groups: Iterable[Mapping[str, Any]]) -> list[Group]:
    """Return parameter groups split by role; those with a key `role` keep theirs.

    Args:
        model: The model that the groups' parameters belong to.
        groups: Parameter groups; their order and that of their parameters are kept.
    """
    named, role_by_name = dict(model.named_parameters()), roles(model)
    role_of: dict[Tensor, str] = {p: role_by_name[name] for name, p in named.items()}
    split: list[Group] = []
    for group in groups:
        if "role" in group:
            split.append(dict(group))
            continue
        params = group["params"]
        parts: dict[str, list[Any]] = {}
        for item in [params] if isinstance(params, Tensor) else params:
            p = item[1] if isinstance(item, tuple) else item  # torch allows (name, parameter)
            parts.setdefault(role_of.get(p, VECTOR if p.ndim < 2 else HIDDEN), []).append(item)
        split += [{**group, "params": part, "role": role} for role, part in parts.items()]
    return split


def role_groups(params: Parameters, recipe: str) -> list[Group]:
    """Return parameters as groups that each have a role.

    Args:
        params: A module, or groups with a key `role`.
        recipe: What needs the roles, for the message.

    Raises:
        TaskError: Roles are not known, or there is no such role.
    """
    if isinstance(params, nn.Module):
        return with_roles(params, [{"params": list(params.parameters())}])
    groups = list(params)
    if not all(isinstance(group, dict) and "role" in group for group in groups):
        raise TaskError(
            f"{recipe} trains matrices and vectors differently: give it the model, or parameter"
            f" groups with a role ({', '.join(ROLES)})"
        )
    for group in groups:
        if group["role"] not in ROLES:
            raise TaskError(f'a role is one of {", ".join(ROLES)}, not "{group["role"]}"')
    return groups


def decay_groups(model: nn.Module) -> list[Group]:
    """Return two parameter groups: weights that decay, and vectors (biases, norms) that do not.

    For the setting `groups` of `Task.from_module`, and for any optimizer of torch.
    """
    role = roles(model)
    named = list(model.named_parameters())
    vectors = [p for name, p in named if role[name] == VECTOR]
    matrices = [p for name, p in named if role[name] != VECTOR]
    groups: list[Group] = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
