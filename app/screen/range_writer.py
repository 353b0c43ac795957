"""Writes the marked range as a separate trace, in the background."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from tracetui.app.session import jobs

if TYPE_CHECKING:
    from pathlib import Path

    from textual.message_pump import MessagePump

    from tracetui.app.screen.shell import Shell
    from tracetui.app.session.session import Session
    from tracetui.parsers import Trace

CUT = "cut"
"""The key of the job that writes a range."""
STOP_SECONDS = 2.0
"""How long quitting waits for it, at most."""


class RangeWriter:
    """Writes one range at a time."""

    def __init__(self, session: Session, shell: Shell, target: MessagePump) -> None:
        self._session, self._shell = session, shell
        self._target = target
        """Receives the message when a range is written, for `finish`."""
        self._ends = threading.Event()
        """Set when the program ends: a partly written file is removed."""

    def ask(self) -> None:
        """Asks where to write the marked range, or says why that is not possible."""
        view = self._shell.view
        if "a" not in self._session.runs or view is None:
            return
        from tracetui.app.session import cut
        from tracetui.app.views.common.rows import ask_where

        trace, window = self._session.trace(), self._session.scope.window
        if no := cut.refused(trace.info.kind):
            self._shell.say(no[0].upper() + no[1:])
        elif window is None:
            self._shell.say("No range is marked: [ and ] in Timeline mark one")
        elif jobs.busy(CUT):
            self._shell.say("A range is being written already")
        else:
            ask_where(
                view, str(cut.range_name(trace, window)), lambda path, force: self._start(trace, window, path, force)
            )

    def _start(self, trace: Trace, window: tuple[int, int], target: Path, force: bool) -> None:
        """Writes the range that was marked when the name was asked for."""
        from tracetui.app.session import cut
        from tracetui.parsers.progress import Watch

        watch = Watch(cancel=self._ends)
        self._shell.say("Writing the range ...")
        jobs.start(self._target, CUT, lambda: cut.save_range(trace, window, target, watch, force=force))

    def finish(self, event: jobs.JobDone[Any]) -> None:
        """Reports that a range was written, or why not; ignores other jobs."""
        if event.key != CUT:
            return
        from tracetui.app.session import cut

        if event.error is not None:
            self._shell.log_error(event.error)
        self._shell.say(cut.said(event.result) if event.result is not None else str(event.error))

    def stop(self) -> None:
        """Stops writing, and waits until the partly written file is removed."""
        self._ends.set()
        jobs.wait(CUT, STOP_SECONDS)
