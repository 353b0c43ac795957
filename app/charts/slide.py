"""A chart as a picture of its own, in the shape of a slide: a title, what it is of, the chart, how to open it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path

from tracetui.app.charts.drawing import decimal
from tracetui.app.text.exit_codes import UsageError
from tracetui.app.text.fitting import fit, printable

WIDE, TALL = 1280, 720
"""Units of a slide, 16 by 9."""
SIDE, TOP, BOTTOM = 48, 124, 62
"""Room beside, above and below the chart."""
NOTES = 330
"""The width of what stands beside a chart."""
MOST = 2.0
"""A small chart is magnified so much at most, and then stands in the middle."""
TITLE, SAID, FOOT = 30, 18, 15
"""Sizes of letters."""
LETTER = 0.6
"""The width of a letter by its size, at most on average: enough for any font that a viewer may take."""
NOTE_LETTERS = int((NOTES - 16) / (LETTER * FOOT)) - 2
"""Letters of a note, behind the sign that it begins with."""
FOOT_LINE = 19
"""From one line below the chart to the next."""
_OUTSIDE = re.compile(r'<svg class="chart" viewBox="0 0 ([\d.]+) ([\d.]+)"[^>]*aria-label="([^"]*)">(.*)</svg>', re.S)
_NAMED = re.compile(r"--([\w-]+): ([^;]+);")
_TEXT = (
    ".slide{{font-family:Helvetica,Arial,'Liberation Sans','DejaVu Sans',sans-serif;fill:{ink}}}"
    ".chart text{{font-family:'DejaVu Sans Mono',Menlo,Consolas,'Liberation Mono',monospace;font-size:12px}}"
)


def slide(
    chart: str, title: str, said: str = "", foot: str = "", *, notes: Sequence[str] = (), ascii: bool = False
) -> str:
    """The chart as a whole SVG document, in light colours, with fonts of the machine that shows it.

    Args:
        chart: what `Drawing.svg` returned.
        title: what it shows.
        said: a line below: the run, the base of the numbers.
        foot: what stands below the chart, in as many lines as it needs: a command that is cut opens nothing.
        notes: lines beside the chart, such as what its letters stand for.
        ascii: no characters outside ASCII.

    Raises:
        ValueError: this is no chart.
    """
    svg = _OUTSIDE.fullmatch(chart)
    if svg is None:
        raise ValueError("this is no chart of `Drawing`")
    width, height, about, shapes = float(svg[1]), float(svg[2]), svg[3], svg[4]
    beside = NOTES if notes else 0
    below = _folded(printable(foot, ascii=ascii), int((WIDE - 2 * SIDE) / (LETTER * FOOT)))
    room = WIDE - 2 * SIDE - beside, TALL - TOP - BOTTOM - FOOT_LINE * (len(below) - 1)
    scale = min(room[0] / width, room[1] / height, MOST)
    x, y = SIDE + (room[0] - scale * width) / 2, TOP + max((room[1] - scale * height) / 3, 0)

    def line(at: float, text: str, size: int, style: str) -> str:
        text = fit(printable(text, ascii=ascii), int((WIDE - 2 * SIDE) / (LETTER * size)), ascii=ascii)
        return f'<text class="{style}" x="{SIDE}" y="{decimal(at)}" font-size="{size}">{escape(text)}</text>'

    light = _light()
    style = _TEXT.format(ink=light["ink"]) + _resolved(light)
    parts = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {TALL}" width="{WIDE}" height="{TALL}"',
        f' role="img" aria-label="{about}"><style>{style}</style>',
        f'<rect width="{WIDE}" height="{TALL}" fill="{light["paper"]}"/>',
        line(62, title, TITLE, "slide"),
        line(96, said, SAID, "slide soft"),
        f'<g class="chart" transform="translate({decimal(x)} {decimal(y)}) scale({scale:.4f})">{shapes}</g>',
        *(
            f'<text class="slide" x="{WIDE - SIDE - NOTES + 16}" y="{decimal(y + 24 * at + 24)}" font-size="{FOOT}">'
            f"{escape(fit(printable(note, ascii=ascii), int((NOTES - 16) / (LETTER * FOOT)), ascii=ascii))}</text>"
            for at, note in enumerate(notes)
        ),
        *(
            line(TALL - 24 - FOOT_LINE * at, text, FOOT, "slide soft")
            for at, text in reversed([*enumerate(below[::-1])])
        ),
        "</svg>\n",
    )
    return "".join(parts)


def _folded(text: str, width: int) -> list[str]:
    """A text in lines, which end between words where they can."""
    lines: list[str] = []
    while len(text) > width:
        end = text.rfind(" ", 1, width + 1)
        end = end if end > 0 else width
        lines.append(text[:end])
        text = text[end:].lstrip(" ")
    return [*lines, text]


@cache
def chart_style() -> str:
    """The style of charts on a page: colours by name, light and dark, and what has which."""
    return Path(__file__).with_name("chart.css").read_text(encoding="ascii")


def _light() -> dict[str, str]:
    """The colours of a light page by name."""
    return dict(_NAMED.findall(chart_style().split("@media", 1)[0]))


@cache
def _rules() -> str:
    """The rules of shapes alone: what follows the blocks of colours."""
    text = chart_style()
    return text[text.index(".chart text") :]


def _resolved(colours: dict[str, str]) -> str:
    """The rules with colours in place of their names, which many viewers of SVG do not know."""
    rules = re.sub(r"var\(--([\w-]+)\)", lambda match: colours[match[1]], _rules())
    rules = re.sub(r"font: 12px [^;]*;", "", rules)
    return " ".join(rules.split())


SCALE = 1.5
"""A slide of 1280 by 720 becomes 1920 by 1080."""


def png(svg: str) -> bytes:
    """The picture in pixels. Nothing that it names is fetched.

    Raises:
        UsageError: CairoSVG or the library that it needs is missing.
    """
    try:
        import cairosvg
    except ImportError:
        raise UsageError("PNG needs CairoSVG: pip install 'tracetui[png]'") from None
    except OSError:  # cairocffi found no libcairo
        raise UsageError("PNG needs the library cairo (Debian and Ubuntu: apt install libcairo2)") from None
    content: bytes = cairosvg.svg2png(bytestring=svg.encode(), scale=SCALE, unsafe=False)
    return content
