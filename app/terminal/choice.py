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
    """The driver for an app, asked for as one of `DRIVERS`; None is Textual's choice."""
    if asked == "auto":
        named = os.environ.get(VARIABLE, "auto")
        asked = named if named in DRIVERS else "auto"
    if sys.platform == "win32":  # there is no terminal as our driver knows them
        return None
    served = "TEXTUAL_DRIVER" in os.environ  # this is how a browser is served
    if asked == "stock" or served:
        from tracetui.app.terminal.keys import use_in_textual

        use_in_textual()
        if served or shows(sys.__stderr__):
            return None
        from tracetui.app.terminal.driver import StdoutDriver

        return StdoutDriver
    from tracetui.app.terminal.driver import CellDriver

    return CellDriver
