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
"""Parameters to train: a module, parameters, named parameters, or parameter groups."""

Group = dict[str, Any]
"""A parameter group as in torch: `params` and their settings."""


def roles(model: nn.Module) -> dict[str, str]:
    """Return the role of every named parameter of a model.

    Weights with more than two dimensions, such as those of convolutions, count as matrices of the
    first dimension times the others.

    - `vector`: fewer than two dimensions, or a matrix with one row or column (biases, weights of
      normalization layers, an output layer with one output).
    - `embedding`: the weight of an `nn.Embedding` or `nn.EmbeddingBag`, including one that is
      shared with the output layer.
    - `output`: a matrix of the output layer, which is the last layer, in order of definition, with
      a weight of two or more dimensions.
    - `hidden`: all other matrices.

    Parametrized weights belong to the layer that they are computed for. Frozen parameters have
    roles, too. A `role` in a parameter group takes precedence.

    Args:
        model: The model; a weight that several layers share is listed once.

    Raises:
        TaskError: A lazy parameter is not initialized.
    """
    owners: dict[Tensor, list[tuple[str, nn.Module]]] = {}
    last = ""  # the output layer
    for name, p in model.named_parameters(remove_duplicate=False):
        if isinstance(p, UninitializedParameter):
            raise TaskError(f"{name} is not initialized: run the model once before training")
        layer = _layer(name)
        owners.setdefault(p, []).append((layer, model.get_submodule(layer)))
        if p.ndim >= 2:
            last = layer
    return {name: _role(p, owners[p], last) for name, p in model.named_parameters()}


def hidden_parameters(model: nn.Module) -> frozenset[int]:
    """Return the indices of hidden matrices among the parameters of a model."""
    return frozenset(i for i, role in enumerate(roles(model).values()) if role == HIDDEN)


def _layer(parameter: str) -> str:
    """Return the name of the layer of a parameter."""
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
    """Return the parameters of a module, or `params` itself if it is not a module."""
    return list(params.parameters()) if isinstance(params, nn.Module) else params


def with_roles(model: nn.Module, groups: Iterable[Mapping[str, Any]]) -> list[Group]:
    """Return parameter groups split by role; groups with a `role` are not split.

    Args:
        model: The model of the groups' parameters.
        groups: Parameter groups; their order and the order of their parameters are kept.
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
    """Return parameter groups that each have a role.

    Args:
        params: A module, or parameter groups with a `role`.
        recipe: Text of the recipe, for the error message.

    Raises:
        TaskError: A group has no role, or an unknown one.
    """
    if isinstance(params, nn.Module):
        return with_roles(params, [{"params": list(params.parameters())}])
    groups = list(params)
    if not all(isinstance(group, dict) and "role" in group for group in groups):
        raise TaskError(
            f"{recipe} trains matrices and vectors differently: pass the model, or parameter"
            f" groups with a role ({', '.join(ROLES)})"
        )
    for group in groups:
        if group["role"] not in ROLES:
            raise TaskError(f'a role must be one of {", ".join(ROLES)}, not "{group["role"]}"')
    return groups


def decay_groups(model: nn.Module) -> list[Group]:
    """Return two parameter groups: matrices, and vectors (biases, norms) without weight decay.

    They can be passed as `groups` of `Task.from_module` and to any torch optimizer.
    """
    role = roles(model)
    named = list(model.named_parameters())
    vectors = [p for name, p in named if role[name] == VECTOR]
    matrices = [p for name, p in named if role[name] != VECTOR]
    groups: list[Group] = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
