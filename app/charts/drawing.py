"""An SVG picture as text: shapes with a class each, which the page's style colours for light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from tracetui.app.text.fitting import fit, printable

WIDTH = 760
"""Units of every picture; at its full width on a page, one is a pixel."""
LETTER = 7.3
"""The width of a letter of labels, at most: they are set in a monospaced font of 12 units."""
LINE = 16
"""From one line of labels to the next."""


class Drawing:
    """Collects shapes; every name becomes text that neither ends an element nor misleads."""

    def __init__(self, height: float, about: str) -> None:
        self.height, self.about = height, about
        self._shapes: list[str] = []

    def rect(self, x: float, y: float, width: float, height: float, style: str, title: str = "") -> None:
        """A rectangle, with what a pointer on it shows."""
        at = f'x="{decimal(x)}" y="{decimal(y)}" width="{decimal(width)}" height="{decimal(height)}"'
        self._add("rect", at, style, title)

    def line(self, x0: float, y0: float, x1: float, y1: float, style: str) -> None:
        """A straight line."""
        self._add("line", f'x1="{decimal(x0)}" y1="{decimal(y0)}" x2="{decimal(x1)}" y2="{decimal(y1)}"', style)

    def level(self, y: float, label: str, left: float, right: float) -> None:
        """A line across a plot, at the height of the value that stands before it."""
        self.line(left, y, right, y, "grid")
        self.text(left - 6, y + 4, label, anchor="end")

    def path(self, points: Sequence[tuple[float, float]], style: str, *, closed: bool = False, title: str = "") -> None:
        """A line through points, or the area inside it."""
        way = "L".join(f"{decimal(x)} {decimal(y)}" for x, y in points)
        self._add("path", f'd="M{way}{"Z" if closed else ""}"', style, title)

    def shape(self, way: str, style: str, title: str = "") -> None:
        """A path in SVG's own words, made of numbers alone."""
        self._add("path", f'd="{way}"', style, title)

    def circle(self, x: float, y: float, radius: float, style: str, title: str = "") -> None:
        """A circle around a point."""
        self._add("circle", f'cx="{decimal(x)}" cy="{decimal(y)}" r="{decimal(radius)}"', style, title)

    def text(self, x: float, y: float, text: str, *, anchor: str = "start", style: str = "", room: float = 0) -> None:
        """A label on a line, cut to its room where that is given."""
        text = printable(text)
        if room:
            text = fit(text, int(room / LETTER))
        if text:
            more = "" if anchor == "start" else f' text-anchor="{anchor}"'
            more += f' class="{style}"' if style else ""
            self._shapes.append(f'<text x="{decimal(x)}" y="{decimal(y)}"{more}>{escape(text)}</text>')

    def _add(self, name: str, what: str, style: str, title: str = "") -> None:
        inside = f"<title>{escape(printable(title))}</title>" if title else ""
        self._shapes.append(f'<{name} {what} class="{style}">{inside}</{name}>')

    def svg(self) -> str:
        """The whole picture."""
        about = escape(printable(self.about), quote=True)
        box = f"0 0 {WIDTH} {decimal(self.height)}"
        head = f'<svg class="chart" viewBox="{box}" width="{WIDTH}" height="{decimal(self.height)}"'
        return f'{head} role="img" aria-label="{about}">' + "".join(self._shapes) + "</svg>"


def decimal(value: float) -> str:
    """A coordinate with one decimal at most."""
    return f"{value:.1f}".removesuffix(".0")


def swatches(drawing: Drawing, x: float, y: float, parts: Iterable[tuple[str, str]]) -> None:
    """A legend in one line: a square of each style with its meaning."""
    for style, meaning in parts:
        drawing.rect(x, y - 9, 10, 10, style)
        drawing.text(x + 14, y, meaning)
        x += 14 + LETTER * len(meaning) + 14
