"""Textual's own driver, drawing on standard output where errors go to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.drivers.linux_driver import LinuxDriver

from tracetui.app.terminal.screen_file import screen_file

if TYPE_CHECKING:
    from textual.app import App


class StdoutDriver(LinuxDriver):
    """Textual's driver with another file to write to."""

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._file = screen_file()
