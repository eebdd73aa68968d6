"""Numbers formatted for readers, and the quantity that a search optimizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from optsmith.task import factor_of

MISSING = "–"  # noqa: RUF001 - an en dash, for missing values


EXTREME = 1e100
"""Numbers beyond this, or closer to zero than its inverse, would overflow scales of charts."""


def finite(value: Any) -> float | None:
    """Return a number that can be shown and drawn; None for values that cannot."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= EXTREME:
        return None
    return float(value) if abs(value) >= 1 / EXTREME else 0.0


def finites(values: Iterable[Any]) -> list[float]:
    """Return the values that can be drawn."""
    return [number for number in map(finite, values) if number is not None]


def significant(value: Any, digits: int = 3) -> str:
    """Return a number to some significant digits, with a true minus sign."""
    number = finite(value)
    if number is None:
        return MISSING
    if number and not 1e-4 <= abs(number) < 1e6:
        return _scientific(number, digits)
    before = math.floor(math.log10(abs(number))) + 1 if number else 1
    return _signed(f"{number:,.{max(0, digits - before)}f}")


def shortest(value: Any) -> str:
    """Return a setting such as a learning rate without trailing zeros: 0.1, not 0.1000."""
    text = significant(value, 4)
    return text.rstrip("0").rstrip(".") if "." in text and "·" not in text else text


def _scientific(number: float, digits: int) -> str:
    mantissa, _, exponent = f"{number:.{digits - 1}e}".partition("e")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    power = "10" + str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    if mantissa in ("1", "-1"):
        return _signed(power if number > 0 else f"-{power}")
    return _signed(f"{mantissa}·{power}")


def _signed(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}")


def fixed(value: Any, decimals: int) -> str:
    """Return a number with a fixed number of decimals, for aligned columns."""
    number = finite(value)
    if number is None:
        return MISSING
    # Numbers with more digits would not be aligned anyway.
    return _signed(f"{number:,.{decimals}f}") if abs(number) < 1e6 else significant(number)


def count(value: Any) -> str:
    """Return an integer with thousands separators."""
    number = finite(value)
    return MISSING if number is None else _signed(f"{round(number):,}")


def plural(value: Any, one: str, many: str) -> str:
    """Return `1 seed` or `10 seeds`."""
    return f"{count(value)} {one if value == 1 else many}"


def percent(part: float, whole: float) -> str:
    """Return a share: 7.2 %, 58 %, < 0.1 %."""
    share = 100 * part / whole if whole else 0.0
    if 0 < share < 0.1:
        return "< 0.1 %"
    return f"{share:.0f} %" if share >= 10 or share == 0 else f"{share:.1f} %"


def duration(seconds: Any) -> str:
    """Return a duration in its two largest units."""
    number = finite(seconds)
    if number is None:
        return MISSING
    if number < 10:
        return f"{number:.1f} s"
    minutes, rest = divmod(round(number), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def decimals_for(values: Iterable[Any], spreads: Iterable[Any]) -> int:
    """Return the number of decimals that resolves the smallest value and the median spread."""
    smallest = min((abs(v) for v in finites(values) if v), default=1.0)
    needed = 2 - math.floor(math.log10(smallest))
    positive = sorted(s for s in finites(spreads) if s > 0)
    if positive:
        needed = max(needed, -math.floor(math.log10(positive[len(positive) // 2])))
    return min(6, max(0, needed))


@dataclass(frozen=True, slots=True)
class Quantity:
    """A measured quantity.

    Attributes:
        name: Display name.
        unit: Printed after values; values in `%` are stored as fractions.
    """

    name: str
    unit: str = ""

    @property
    def factor(self) -> float:
        """Factor from stored values to displayed values."""
        return factor_of(self.unit)

    @property
    def suffix(self) -> str:
        """The unit with a space before it, or nothing."""
        return f" {self.unit}" if self.unit else ""

    def shown(self, value: Any) -> float | None:
        """Return a stored value in display units."""
        number = finite(value)
        return None if number is None else number * self.factor

    def text(self, value: Any, digits: int = 4) -> str:
        """Return one value with its unit."""
        number = self.shown(value)
        return MISSING if number is None else significant(number, digits) + self.suffix


@dataclass(frozen=True, slots=True)
class Goal:
    """The quantity that a search optimizes, and the units of the task's metrics.

    Attributes:
        quantity: The quantity of the scores.
        minimize: Whether smaller is better.
        units: Units of metrics, by name.
    """

    quantity: Quantity
    minimize: bool
    units: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, task: Mapping[str, Any]) -> Goal:
        """Return the goal of a search on a task."""
        metrics = task.get("metrics") or {}
        return cls(
            Quantity(task.get("objective") or "score", task.get("unit") or ""),
            task.get("direction") != "maximize",
            {name: declared.get("unit") or "" for name, declared in metrics.items()},
        )

    @classmethod
    def reported(cls, task: Mapping[str, Any]) -> Goal:
        """Return the goal under its name in final runs, which may measure it on other data."""
        return cls.of({**task, "objective": task.get("reported") or task.get("objective")})

    def metric(self, name: str) -> Quantity:
        """Return a metric by name."""
        return Quantity(name, self.units.get(name, ""))

    @property
    def direction(self) -> str:
        """`lower is better` or `higher is better`."""
        return "lower is better" if self.minimize else "higher is better"

    def cost(self, score: float) -> float:
        """Return a number that is smaller for better scores."""
        return score if self.minimize else -score

    def axis(self) -> str:
        """Return the title of the score axis."""
        unit = f", {self.quantity.unit}" if self.quantity.unit else ""
        return f"{self.quantity.name}{unit} ({self.direction})"
