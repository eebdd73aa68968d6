"""Numbers as people read them, and what the score of a task means."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from optsmith.task import factor_of

MISSING = "–"  # noqa: RUF001 - an en dash, as tables print what is not there


def finite(value: Any) -> float | None:
    """Return a number that can be shown or drawn, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def finites(values: Iterable[Any]) -> list[float]:
    """Return the numbers among values that can be drawn."""
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
    """Return a setting such as a learning rate as people write it: 0.1, not 0.1000."""
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
    """Return a number to some decimals, for columns that line up."""
    number = finite(value)
    if number is None:
        return MISSING
    # Beyond six digits alignment is lost anyway, and the size is what matters.
    return _signed(f"{number:,.{decimals}f}") if abs(number) < 1e6 else significant(number)


def count(value: Any) -> str:
    """Return a whole number with thousands set apart."""
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
    """Return a time in its two largest units."""
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
    """Return the decimals that show the smallest value and the usual spread well."""
    smallest = min((abs(v) for v in finites(values) if v), default=1.0)
    needed = 2 - math.floor(math.log10(smallest))
    positive = sorted(s for s in finites(spreads) if s > 0)
    if positive:
        needed = max(needed, -math.floor(math.log10(positive[len(positive) // 2])))
    return min(6, max(0, needed))


@dataclass(frozen=True, slots=True)
class Quantity:
    """Something measured.

    Attributes:
        name: For people.
        unit: Follows a shown value; values in `%` are stored as shares.
    """

    name: str
    unit: str = ""

    @property
    def factor(self) -> float:
        """What stored values are multiplied by to be shown."""
        return factor_of(self.unit)

    @property
    def suffix(self) -> str:
        """What follows a shown value."""
        return f" {self.unit}" if self.unit else ""

    def shown(self, value: Any) -> float | None:
        """Return a stored value as it is shown."""
        number = finite(value)
        return None if number is None else number * self.factor

    def text(self, value: Any, digits: int = 4) -> str:
        """Return one value with its unit."""
        number = self.shown(value)
        return MISSING if number is None else significant(number, digits) + self.suffix


@dataclass(frozen=True, slots=True)
class Goal:
    """What a search improves, and what else its task measures.

    Attributes:
        quantity: What the scores measure.
        minimize: Whether smaller is better.
        units: The units of metrics, by name.
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

    def metric(self, name: str) -> Quantity:
        """Return what is known of a metric."""
        return Quantity(name, self.units.get(name, ""))

    @property
    def direction(self) -> str:
        """Which way is good, in words."""
        return "lower is better" if self.minimize else "higher is better"

    def cost(self, score: float) -> float:
        """Return a number that is smaller for better scores."""
        return score if self.minimize else -score

    def axis(self) -> str:
        """Return the title of an axis of scores."""
        unit = f", {self.quantity.unit}" if self.quantity.unit else ""
        return f"{self.quantity.name}{unit} ({self.direction})"
