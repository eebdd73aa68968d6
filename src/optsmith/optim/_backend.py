"""Abstract base class of back ends, which run programs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar, Generic, TypeVar

import torch
from torch import Tensor

from optsmith._errors import OptimizerError
from optsmith._torch import is_sharded
from optsmith.optim._program import Program, whole_operators
from optsmith.rules import Scope

Given = TypeVar("Given")
"""Argument of `Backend.step`: a `Batch`, or the gradients of a stack."""


class Backend(ABC, Generic[Given]):
    """Runs a program on the tensors of one or more copies of a model.

    A back end declares which programs, parameters and devices it supports, and refuses others with
    an `OptimizerError`. For those that it supports:

    - Results equal those of `Program.apply` up to rounding, for every tensor of every copy.
    - Parameters and state are updated in place. Nothing else is modified, including gradients.
    - Functions of scope "tensor" receive one whole tensor of one copy in its original shape.
    - Non-finite values do not spread to other copies or, in rules of scope "element", to other
      elements.
    - Random numbers are those of `Program.uniforms`, which depend on seed, operator, parameter,
      step and element only.

    The probe and exported files give the same results and call functions in the same way; the
    probe has its own random numbers. All are tested in `tests/optim/test_backends.py`.

    Attributes:
        title: Name for error messages.
        advice: What to do if the back end does not support something, for error messages.
        scopes: Supported scopes of operators.
        precisions: Supported types of parameters.
        devices: Supported types of devices; None supports all.
    """

    title: ClassVar[str] = "an optimizer step"
    advice: ClassVar[str] = "use another kind of parameter"
    scopes: ClassVar[frozenset[Scope]] = frozenset({"element", "tensor"})
    precisions: ClassVar[frozenset[torch.dtype]] = frozenset(
        {torch.float16, torch.bfloat16, torch.float32, torch.float64}
    )
    devices: ClassVar[frozenset[str] | None] = None

    @classmethod
    def check(cls, program: Program, params: Iterable[Tensor] = ()) -> None:
        """Check that the back end supports a program and parameters.

        Raises:
            OptimizerError: It does not support the program or one of the parameters.
        """
        whole = ", ".join(whole_operators(program.rule))
        if program.scope not in cls.scopes:
            raise OptimizerError(
                f"{cls.title} does not support operators on whole tensors ({whole}): {cls.advice}"
            )
        for p in params:
            if p.dtype not in cls.precisions:
                raise OptimizerError(f"{cls.title} does not support {p.dtype}: {cls.advice}")
            if cls.devices is not None and p.device.type not in cls.devices:
                raise OptimizerError(f"{cls.title} does not support {p.device.type}: {cls.advice}")
            if program.scope == "tensor" and is_sharded(p):
                raise OptimizerError(
                    f"{whole} needs whole tensors, but a parameter is sharded over processes:"
                    " use a rule with element-wise operators only, or do not shard"
                )

    @abstractmethod
    def step(self, given: Given) -> None:
        """Update parameters and their states in place."""
