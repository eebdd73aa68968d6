"""The contract of back ends: the ways to run a program."""

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
"""What a back end is given at each step: a `Batch`, or the gradients of a stack."""


class Backend(ABC, Generic[Given]):
    """One way to run a program on copies of tensors; a single model is one copy.

    A back end declares which programs, parameters and devices it serves, and refuses others with an
    `OptimizerError`. It promises, for what it serves:

    - the numbers of `Program.apply`, up to rounding, on every tensor of every copy;
    - parameters and state are updated in place, and nothing else is touched, gradients included;
    - calls of scope "tensor" get one whole tensor of one copy, in its own shape: no piece of it, no
      flat view, no two tensors together;
    - numbers that are not finite stay in their copy and, in rules of scope "element", in their
      element;
    - random numbers are those of `Program.uniforms`: a function of seed, operator, parameter, step
      and element.

    The probe and the exported file promise the same of numbers and calls; the probe has random
    numbers of its own. `tests/optim/test_backends.py` holds all of them to it.

    Attributes:
        title: What it is called in messages.
        advice: What to do where it cannot serve.
        scopes: Scopes of operators that it serves.
        precisions: Types of parameters that it serves.
        devices: Types of devices that it serves; None is any.
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
        """Refuse what the back end does not serve.

        Raises:
            OptimizerError: It does not serve the program, or one of the parameters.
        """
        whole = ", ".join(whole_operators(program.rule))
        if program.scope not in cls.scopes:
            raise OptimizerError(f"{cls.title} cannot run {whole} on whole tensors: {cls.advice}")
        for p in params:
            if p.dtype not in cls.precisions:
                raise OptimizerError(f"{cls.title} does not serve {p.dtype}: {cls.advice}")
            if cls.devices is not None and p.device.type not in cls.devices:
                raise OptimizerError(f"{cls.title} does not serve {p.device.type}: {cls.advice}")
            if program.scope == "tensor" and is_sharded(p):
                raise OptimizerError(
                    f"{whole} needs whole tensors, and a parameter is sharded over processes:"
                    " use a rule of element-wise operators, or do not shard"
                )

    @abstractmethod
    def step(self, given: Given) -> None:
        """Update parameters and their states in place."""
