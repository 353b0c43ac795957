"""Chooses the driver that draws the screen."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from tracetui.app.terminal.screen_file import shows

if TYPE_CHECKING:
    from textual.driver import Driver

DRIVERS = ("auto", "cells", "stock")
"""``cells`` is ours, ``stock`` Textual's; ``auto`` asks the environment and takes ours where it works."""
VARIABLE = "TRACETUI_DRIVER"


def driver_class(asked: str) -> type[Driver] | None:
    """The driver for an app; None is Textual's choice.

    Args:
        asked: one of `DRIVERS`.
    """
    if asked == "auto":
        named = os.environ.get(VARIABLE, "auto")
        asked = named if named in DRIVERS else "auto"
    if sys.platform != "win32" and (asked == "stock" or "TEXTUAL_DRIVER" in os.environ):
        from tracetui.app.terminal.keys import use_in_textual

        use_in_textual()
    if (
        asked == "stock"
        and sys.platform != "win32"
        and "TEXTUAL_DRIVER" not in os.environ
        and not shows(sys.__stderr__)
    ):
        from tracetui.app.terminal.driver import StdoutDriver

        return StdoutDriver
    # TEXTUAL_DRIVER is how a browser is served; on Windows there is no terminal as this driver knows them
    if asked == "stock" or sys.platform == "win32" or "TEXTUAL_DRIVER" in os.environ:
        return None
    from tracetui.app.terminal.driver import CellDriver

    return CellDriver
