"""Symbols: stand-ins for tensors that record the operations applied to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import Tensor

from optsmith.optim._code import Value

if TYPE_CHECKING:
    from optsmith.optim._trace import Tracer


class Symbol:
    """Represents a tensor or a scalar while a function is traced."""

    __slots__ = ("tracer", "value")
    __hash__ = None  # type: ignore[assignment]  # == is traced

    def __init__(self, tracer: Tracer, value: Value) -> None:
        self.tracer = tracer
        self.value = value

    def __getattr__(self, name: str) -> Callable[..., Symbol]:
        # Functions that read attributes such as shape cannot be traced.
        if name.startswith("_") or not callable(getattr(Tensor, name, None)):
            raise AttributeError(name)
        return lambda *args, **kwargs: self.tracer.emit(name, self, *args, **kwargs)

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Symbol:
        """Record `torch.tanh(x)` as `x.tanh()`."""
        first = next(a for a in args if isinstance(a, Symbol))
        return first.tracer.emit(function.__name__, *args, **(kwargs or {}))

    def __bool__(self) -> bool:
        raise TypeError("a symbol has no truth value")

    def where(self, condition: Any, other: Any) -> Symbol:
        """Record the method as the function, whose first argument is the condition."""
        return self.tracer.emit("where", condition, self, other)

    def __abs__(self) -> Symbol:
        return self.tracer.emit("abs", self)

    def __neg__(self) -> Symbol:
        return self.tracer.emit("neg", self)


def _infix(name: str, swapped: bool) -> Callable[[Symbol, Any], Symbol]:
    def method(self: Symbol, other: Any) -> Symbol:
        pair = (other, self) if swapped else (self, other)
        return self.tracer.emit(name, *pair)

    return method


for _python, _torch in {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "truediv": "div",
    "pow": "pow",
    "mod": "remainder",
}.items():
    setattr(Symbol, f"__{_python}__", _infix(_torch, swapped=False))
    setattr(Symbol, f"__r{_python}__", _infix(_torch, swapped=True))
for _python in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Symbol, f"__{_python}__", _infix(_python, swapped=False))
