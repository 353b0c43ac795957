"""How a cell looks, read from SGR sequences and written as the shortest sequence from one look to the next."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple


class Style(NamedTuple):
    """Attributes and colours of a cell."""

    attributes: int = 0
    """Bits, one per entry of `ATTRIBUTES`."""
    foreground: str = ""
    """SGR parameters, as ``38;5;12``; empty for the terminal's own colour."""
    background: str = ""


NORMAL = Style()
ATTRIBUTES = {1: 22, 2: 22, 3: 23, 4: 24, 5: 25, 6: 25, 7: 27, 8: 28, 9: 29, 21: 24, 53: 55}
"""SGR code of an attribute, and the code that ends it (ECMA-48 8.3.117; 53 and 55 are overline)."""
BIT = {code: 1 << place for place, code in enumerate(ATTRIBUTES)}
ENDED_BY = {end: sum(BIT[code] for code in ATTRIBUTES if ATTRIBUTES[code] == end) for end in ATTRIBUTES.values()}
UNSEEN_ON_BLANKS = sum(BIT[code] for code in (1, 2, 3, 5, 6))
"""Attributes that change nothing where there is no glyph: bold, dim, italic, blinking."""
LEVELS = (0, 95, 135, 175, 215, 255)
NUMBERED = {
    f"{red};{green};{blue}": 16 + 36 * r + 6 * g + b
    for r, red in enumerate(LEVELS)
    for g, green in enumerate(LEVELS)
    for b, blue in enumerate(LEVELS)
    if r or g  # colours 16 to 21 are given another meaning by some shells' themes
} | {";".join([str(8 + 10 * grey)] * 3): 232 + grey for grey in range(24)}
"""Colours that xterm's palette of 256 has, by red, green and blue: a terminal that takes the three takes its number."""


@lru_cache(4096)
def read_sgr(style: Style, parameters: str) -> Style | None:
    """The look after ``ESC [ parameters m``; None where a parameter is not known."""
    attributes, foreground, background = style
    codes = iter(parameters.split(";"))
    for text in codes:
        code = int(text or 0)
        if code == 0:
            attributes, foreground, background = NORMAL
        elif code in BIT:
            attributes |= BIT[code]
        elif code in ENDED_BY:
            attributes &= ~ENDED_BY[code]
        elif 30 <= code <= 37 or 90 <= code <= 97:
            foreground = text
        elif 40 <= code <= 47 or 100 <= code <= 107:
            background = text
        elif code == 39:
            foreground = ""
        elif code == 49:
            background = ""
        elif code in (38, 48):
            kind = next(codes, "")
            numbers = [next(codes, "") for _ in range({"5": 1, "2": 3}.get(kind, 0))]
            if not numbers or not all(numbers):
                return None
            number = NUMBERED.get(";".join(numbers)) if kind == "2" else None
            color = f"{text};5;{number}" if number else ";".join((text, kind, *numbers))
            if code == 38:
                foreground = color
            else:
                background = color
        else:
            return None
    return Style(attributes, foreground, background)


def on_blank(style: Style) -> Style:
    """The same look on a blank, where letters' colour and weight can't be seen."""
    return style if style.attributes & ~UNSEEN_ON_BLANKS else Style(background=style.background)


@lru_cache(4096)
def blank_pen(pen: Style, blank: Style) -> Style:
    """Returns the style closest to the current one that draws a blank as wanted."""
    return blank if blank.attributes else Style(pen.attributes & UNSEEN_ON_BLANKS, pen.foreground, blank.background)


@lru_cache(16384)
def sgr(pen: Style, style: Style) -> str:
    """The shortest sequence from one look to another; empty where they are one."""
    if pen == style:
        return ""
    codes: list[str] = []
    gone, come = pen.attributes & ~style.attributes, style.attributes & ~pen.attributes
    for end, bits in ENDED_BY.items():
        if gone & bits:
            codes.append(str(end))
            come |= style.attributes & bits  # one code ends bold and dim alike
    codes += [str(code) for code, bit in BIT.items() if come & bit]
    if pen.foreground != style.foreground:
        codes.append(style.foreground or "39")
    if pen.background != style.background:
        codes.append(style.background or "49")
    afresh = ["0", *(str(code) for code, bit in BIT.items() if style.attributes & bit)]
    afresh += [color for color in style[1:] if color]
    return f"\x1b[{min(';'.join(codes), ';'.join(afresh) if afresh[1:] else '', key=len)}m"
