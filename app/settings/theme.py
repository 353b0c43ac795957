"""The colour themes, which of them suits the terminal, and the effect of `--color`."""

from __future__ import annotations

import os
import re

from textual import constants
from textual.theme import Theme

THEMES = {
    "dark": "light on dark",
    "light": "dark on light",
    "high-contrast": "white on black, strong colours",
    "ansi": "the terminal's own sixteen colours on its dark background",
    "ansi-light": "the terminal's own sixteen colours on its light background",
}
"""What each theme is, by name."""

_LANES = ("gpu", "copy", "op", "api", "module", "python", "range", "wait", "idle")


def _lanes(*colors: str) -> dict[str, str]:
    """Returns style variables for the timeline's kinds of events: colour, and text and background of named slices."""
    lanes: dict[str, str] = {}
    for lane, three in zip(_LANES, colors, strict=True):
        lanes[f"lane-{lane}"], lanes[f"lane-{lane}-text"], lanes[f"lane-{lane}-slice"] = three.split()
    return lanes


def _plain_lanes(*colors: str) -> dict[str, str]:
    """Returns the same in the terminal's colours: slices differ by their names, not by their background."""
    return _lanes(*(f"ansi_{color} ansi_{color} ansi_default" for color in colors))


DEFAULTS = {
    "muted": "#949494",
    "block-cursor-foreground": "#ffffff",
    "block-cursor-background": "#005f87",
    "selected-foreground": "#000000",
    "selected-background": "#ffffff",
    **_lanes(
        "#87d787 #d7ffd7 #1c4f1c",
        "#ffaf5f #ffe7c0 #5f3a00",
        "#5fafff #d7ecff #0f3a5f",
        "#87d7d7 #d7ffff #0f4a4a",
        "#d7afff #f0e0ff #43245f",
        "#b2b2b2 #e4e4e4 #3a3a3a",
        "#afaf5f #f5f5c8 #45451a",
        "#ff87af #ffd7e4 #5f1a36",
        "#ff6b6b #ffd0d0 #6a1010",
    ),
}
"""Our own variables of the style sheet, with the values of the dark theme."""

DARK = Theme(
    name="dark",
    primary="#5fafff",
    secondary="#87d7d7",
    accent="#5fafff",
    warning="#ffaf5f",
    error="#ff6b6b",
    success="#87d787",
    foreground="#d0d0d0",
    background="#121212",
    surface="#121212",
    panel="#262626",
    dark=True,
    variables=DEFAULTS,
)
LIGHT = Theme(
    name="light",
    primary="#0b57a4",
    secondary="#005f63",
    accent="#0b57a4",
    warning="#7a4100",
    error="#a80016",
    success="#175f17",
    foreground="#1c1c1c",
    background="#fafafa",
    surface="#fafafa",
    panel="#e4e4e4",
    dark=False,
    variables={
        "muted": "#5a5a5a",
        "block-cursor-foreground": "#ffffff",
        "block-cursor-background": "#005f87",
        "selected-foreground": "#ffffff",
        "selected-background": "#000000",
        **_lanes(
            "#175f17 #003000 #c3e8c3",
            "#7a4100 #3f2100 #ffdcae",
            "#0b57a4 #002a55 #c9e1fb",
            "#005f63 #003235 #bfe9ea",
            "#6a2ea0 #34105a #e6d3f7",
            "#4e4e4e #1c1c1c #d5d5d5",
            "#5f5f00 #303000 #eaeab4",
            "#a0245c #550a2c #fbd0e0",
            "#a80016 #5c000c #ffcccc",
        ),
    },
)
HIGH_CONTRAST = Theme(
    name="high-contrast",
    primary="#5fd7ff",
    secondary="#5fffff",
    accent="#5fd7ff",
    warning="#ffff00",
    error="#ff9c9c",
    success="#5fff5f",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#303030",
    dark=True,
    variables={
        "muted": "#d0d0d0",
        "block-cursor-foreground": "#000000",
        "block-cursor-background": "#ffff00",
        "selected-foreground": "#000000",
        "selected-background": "#ffffff",
        **_lanes(
            "#5fff5f #ffffff #005000",
            "#ffaf00 #ffffff #5f3000",
            "#5fd7ff #ffffff #003f7f",
            "#5fffff #ffffff #004f4f",
            "#e0b0ff #ffffff #4f1f7f",
            "#d0d0d0 #ffffff #404040",
            "#ffff5f #ffffff #4a4a00",
            "#ff9cc8 #ffffff #6f0038",
            "#ff9c9c #ffffff #7f0000",
        ),
    },
)
# only those of the sixteen that are readable on black: on most terminals plain red and all blues are not
ANSI = Theme(
    name="ansi",
    ansi=True,
    primary="ansi_cyan",
    secondary="ansi_cyan",
    accent="ansi_green",
    warning="ansi_yellow",
    error="ansi_bright_red",
    success="ansi_green",
    dark=True,
    variables={
        "ansi-background": "ansi_black",
        "ansi-foreground": "ansi_white",
        "border-blurred": "ansi_black",
        "block-cursor-foreground": "ansi_black",
        "block-cursor-background": "ansi_white",
        "input-cursor-background": "ansi_white",
        "input-cursor-foreground": "ansi_black",
        "input-cursor-text-style": "none",
        "input-selection-background": "ansi_white",
        "input-selection-foreground": "ansi_black",
        **_plain_lanes(
            "green", "yellow", "default", "cyan", "bright_magenta", "default", "yellow", "bright_magenta", "bright_red"
        ),
    },
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    boost="ansi_default",
    foreground="ansi_default",
)
# and on white: green, cyan and yellow are not readable
ANSI_LIGHT = Theme(
    name="ansi-light",
    ansi=True,
    primary="ansi_blue",
    secondary="ansi_blue",
    accent="ansi_blue",
    warning="ansi_red",
    error="ansi_red",
    success="ansi_blue",
    dark=False,
    variables={
        "ansi-background": "ansi_white",
        "ansi-foreground": "ansi_black",
        "border-blurred": "ansi_black",
        "block-cursor-foreground": "ansi_bright_white",
        "block-cursor-background": "ansi_blue",
        "input-cursor-background": "ansi_blue",
        "input-cursor-foreground": "ansi_bright_white",
        "input-cursor-text-style": "none",
        "input-selection-background": "ansi_blue",
        "input-selection-foreground": "ansi_bright_white",
        **_plain_lanes("blue", "red", "default", "default", "blue", "default", "default", "red", "red"),
    },
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    boost="ansi_default",
    foreground="ansi_default",
)
ALL = (DARK, LIGHT, HIGH_CONTRAST, ANSI, ANSI_LIGHT)
"""In the order of `THEMES`."""


def theme_name(wanted: str, color: str, *, low_bandwidth: bool) -> str:
    """Returns the initial theme.

    Args:
        wanted: one of `THEMES`, or auto: our own colours, or the terminal's sixteen on a slow connection.
        color: with never and 16, themes with more colours are replaced by the terminal's.
        low_bandwidth: whether the connection is slow.
    """
    few = color in ("never", "16")
    if wanted != "auto" and not (few and not wanted.startswith("ansi")):
        return wanted
    if not (few or low_bandwidth):
        return DARK.name
    return ANSI_LIGHT.name if wanted == LIGHT.name or _is_light() else ANSI.name


def _is_light() -> bool:
    """Returns whether the terminal says that its background is light; most say nothing, and count as dark."""
    return os.environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")


def settle_color(color: str) -> str:
    """Passes ``--color`` or NO_COLOR on to the libraries, before an app is made.

    Returns:
        never, 16, 256, truecolor, or auto (what the terminal says it supports, if more than 16).
    """
    if os.environ.get("NO_COLOR") == "":
        del os.environ["NO_COLOR"]  # by no-color.org, an empty NO_COLOR has no effect
    if color == "auto" and ("NO_COLOR" in os.environ or _has_no_colors()):
        color = "never"
    if color == "never":
        os.environ["NO_COLOR"] = "1"
    elif color != "auto":
        os.environ.pop("NO_COLOR", None)
        constants.COLOR_SYSTEM = {"16": "standard"}.get(color, color)  # type: ignore[misc]
    elif constants.COLOR_SYSTEM == "auto" and _has_few_colors():
        return "16"
    return color


_NO_COLORS = re.compile(r"(vt[1-4]\d\d|vt52)(-.*)?|.*-(m|mono)|dumb")
"""Names of terminals without colours."""


def _has_no_colors() -> bool:
    """Returns whether the terminal is one without colours, as a vt100 is."""
    term = os.environ.get("TERM", "").strip().lower()
    return not os.environ.get("COLORTERM") and _NO_COLORS.fullmatch(term) is not None


def _has_few_colors() -> bool:
    """Returns whether the terminal reports at most sixteen colours, by the signs that Rich uses."""
    if os.environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return False
    return os.environ.get("TERM", "").strip().lower().rpartition("-")[2] not in ("256color", "kitty")
