"""Colours: which theme suits the terminal, and how `--color` is answered."""

from __future__ import annotations

import os

from textual import constants
from textual.theme import Theme

DARK = Theme(
    name="tracetui",
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
    variables={"block-cursor-foreground": "#ffffff", "block-cursor-background": "#005f87"},
)


def theme_name(color: str, *, low_bandwidth: bool) -> str:
    """Our own colours, or the terminal's sixteen where there are no more or where each byte counts."""
    return "ansi-dark" if color in ("never", "16") or low_bandwidth else DARK.name


def settle_color(color: str) -> str:
    """Tells the libraries what was asked for by ``--color`` or NO_COLOR, before an app is made.

    Returns:
        never, 16, 256, truecolor, or auto: what the terminal says it can.
    """
    if "NO_COLOR" in os.environ and color == "auto":
        color = "never"
    if color == "never":
        os.environ["NO_COLOR"] = "1"
    elif color != "auto":
        os.environ.pop("NO_COLOR", None)
        constants.COLOR_SYSTEM = {"16": "standard"}.get(color, color)  # type: ignore[misc]
    return color
