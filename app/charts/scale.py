"""Where values lie on an axis, whoever draws it, and the round values beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tracetui.app.text.fitting import to_ascii

_UNITS = ((10**9, "s"), (10**6, "ms"), (10**3, "µs"), (1, "ns"))


class Axis(NamedTuple):
    """The range of an axis; linear, or logarithmic with both ends above 0."""

    low: float
    high: float
    log: bool

    @classmethod
    def of(cls, values: Sequence[float], *, log: bool) -> Axis:
        """The axis on which all these values just lie."""
        return cls(min(values), max(values), log)

    @property
    def is_point(self) -> bool:
        """Whether it has no extent."""
        return self._scaled(self.high) <= self._scaled(self.low)

    def _scaled(self, value: float) -> float:
        return math.log(value) if self.log else value

    def share(self, value: float) -> float:
        """How far along the axis a value lies, 0 to 1; in the middle of an axis without extent."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        return 0.5 if high <= low else (self._scaled(value) - low) / (high - low)

    def cell(self, value: float, room: int) -> int:
        """The cell of a value, of `room` from 0."""
        return room // 2 if self.is_point else round(self.share(value) * (room - 1))

    def value(self, share: float) -> float:
        """The value at a share of the axis."""
        if self.log:
            return float(self.low * (self.high / self.low) ** share)
        return self.low + share * (self.high - self.low)

    @property
    def decades(self) -> range:
        """The powers of ten on it."""
        return range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)


def round_step(span: int, columns: int) -> int:
    """Returns the distance between marks: 1, 2 or 5 times a power of ten."""
    wanted = max(span * 14 // max(columns, 1), 1)
    power = 1
    while power * 10 <= wanted:
        power *= 10
    return next(power * times for times in (1, 2, 5, 10) if power * times >= wanted)


def time_label(time: int, step: int, *, reach: int = 0, ascii: bool) -> str:
    """Writes a time with enough digits to tell it from one a step away.

    Args:
        time: ns.
        step: the smallest difference that must show, ns.
        reach: a longer time whose unit is used, so that both can be compared at a glance.
        ascii: no characters outside ASCII.
    """
    if not time and not reach:
        return "0"
    largest = max(abs(time), abs(reach))
    unit, name = next(((u, n) for u, n in _UNITS if largest >= u), _UNITS[-1])
    digits = 0
    while unit // 10**digits > max(step, 1):
        digits += 1
    parts = unit // 10**digits
    whole, rest = divmod((abs(time) + parts // 2) // parts, 10**digits)
    fraction = f".{rest:0{digits}d}" if digits else ""
    return f"{'-' if time < 0 else ''}{whole}{fraction} {to_ascii(name) if ascii else name}"


def stretch(start: int, end: int, *, ascii: bool) -> str:
    """Writes a time range in one unit: ``3.1-9.0 ms``."""
    step = max((end - start) // 500, 1)
    low = time_label(start, step, reach=end, ascii=ascii).rpartition(" ")[0]
    return f"{low}-{time_label(end, step, reach=start, ascii=ascii)}"
