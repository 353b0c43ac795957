"""A Textual driver for slow lines: sends only what differs, and never more than the line takes.

Textual repaints widgets, and its own driver sends each repaint whole, up to thirty of them behind one another. This one
reads a repaint as cells, keeps the picture of what is wanted and of what the terminal shows, and lets a thread send the
difference when the line has room; a picture that was not sent yet is replaced by the next.
"""

from __future__ import annotations

import asyncio
import os
import select
import selectors
import signal
import termios
import threading
import time
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from textual import constants, events
from textual._ansi_sequences import SYNC_END, SYNC_START
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from tracetui.app.terminal.grid import Grid, Painter, Palette, is_frame, is_quiet, read_frame, turns_page
from tracetui.app.terminal.keys import KeyParser
from tracetui.app.terminal.screen_file import screen_file

QUESTION, ANSWER = "\x1b[5n", b"\x1b[0n"
"""Device status report (ECMA-48 8.3.35): a terminal answers once it has got so far."""
IN_FLIGHT_BYTES = 1024
"""If more than this is in transit, a picture waits, and a newer one replaces it."""
PATIENCE_SECONDS = 3.0
"""After this time without an answer, the next picture is sent anyway."""
MOST_UNANSWERED = 2
"""After this many pictures without an answer, no more questions are sent."""


class Sender:
    """Sends texts in order, and pictures only when there is room; callers never wait.

    A question goes along with each picture. Bytes wait in places that this program can't look into (the SSH server,
    TCP, a modem), so its answer is the only sign that they have arrived. Where a terminal answers no questions, what
    the operating system takes is what is sent.
    """

    def __init__(
        self,
        descriptor: int,
        paint: Callable[[], str],
        lost: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Takes what to send so that the newest picture shows, which is called with the lock held.

        In the thread, `lost` is called once the terminal is gone, and `failed` where a picture could not be painted.
        """
        self.lock = threading.RLock()
        """Held while pictures change."""
        self._change = threading.Condition(self.lock)
        self._descriptor = descriptor
        self._paint, self._lost, self._failed = paint, lost, failed
        self._texts: deque[str] = deque()
        self._painting = False
        self._asking = False
        self._waiting: deque[int] = deque()
        self._asked_at = 0.0
        self._unanswered = 0
        self._ended = False
        self._gone = False
        self._thread = threading.Thread(target=self._run, name="tracetui-output", daemon=True)

    def start(self) -> None:
        """Begins to send."""
        self._thread.start()

    def text(self, data: str) -> None:
        """Sends this after all that came before."""
        with self._change:
            if self._painting:
                self._painting = False
                self._texts.append(self._painted())
            self._texts.append(data)
            self._change.notify_all()

    def ask(self) -> None:
        """Finds out whether the terminal answers questions."""
        with self._change:
            self._waiting.append(0)
            self._asked_at = time.monotonic()
            self.text(QUESTION)

    def picture(self) -> None:
        """There is a newer picture."""
        with self._change:
            self._painting = True
            self._change.notify_all()

    def answered(self) -> None:
        """The terminal has got to the next question."""
        with self._change:
            if self._waiting:
                self._waiting.popleft()
            self._asking, self._unanswered = True, 0
            self._asked_at = time.monotonic()
            self._change.notify_all()

    @property
    def awaits_answer(self) -> bool:
        """Whether an answer may still come."""
        with self.lock:
            return bool(self._waiting)

    def settle(self, seconds: float) -> None:
        """Gives up the unsent picture and waits for answers, which would else turn up in the shell as if typed."""
        with self._change:
            self._painting = False
            self._asking = False
            self._change.wait_for(lambda: not self._waiting or self._gone, seconds)

    def stop(self, seconds: float) -> None:
        """Sends the texts there still are and ends the thread; gives up where the line takes nothing."""
        with self._change:
            self._painting, self._ended = False, True
            self._change.notify_all()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def abandon(self) -> None:
        """Sends nothing more."""
        self._gone = True

    def _painted(self) -> str:
        try:
            return self._paint()
        except Exception as error:
            self._failed(error)
            return ""

    def _room(self) -> bool:
        """Whether a picture may go; called with the lock held."""
        if self._waiting and time.monotonic() - self._asked_at >= PATIENCE_SECONDS:
            self._waiting.clear()
            self._unanswered += 1
            self._asking = self._asking and self._unanswered < MOST_UNANSWERED
        return not self._asking or sum(self._waiting) <= IN_FLIGHT_BYTES

    def _next(self) -> bytes | None:
        """What is to be sent now, once there is anything; None at the end."""
        with self._change:
            while True:
                if self._gone:
                    return None
                if self._texts:
                    data = "".join(self._texts)
                    self._texts.clear()
                    return _encode(data)
                if self._ended:
                    return None
                if self._painting and self._room():
                    self._painting = False
                    if not (data := self._painted()):
                        continue
                    if self._asking:
                        data += QUESTION
                        if not self._waiting:
                            self._asked_at = time.monotonic()
                        self._waiting.append(len(data))
                    return _encode(data)
                self._change.wait(PATIENCE_SECONDS / 10 if self._painting else None)

    def _run(self) -> None:
        try:
            while (data := self._next()) is not None:
                write(self._descriptor, data)
        except OSError:
            with self._change:
                self._gone = True
                self._change.notify_all()
            self._lost()


def write(descriptor: int, data: bytes) -> None:
    """Writes all of it, even if another process made the terminal non-blocking.

    Raises:
        OSError: the terminal is gone.
    """
    while data:
        select.select([], [descriptor], [])
        with suppress(BlockingIOError):
            data = data[os.write(descriptor, data) :]


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")


SYNC_FROM_BYTES = 512
"""Larger pictures use synchronized output, if the terminal has it; smaller ones arrive too fast to tear."""
LEAVING_SECONDS = 1.0
"""The longest wait for the line when the program ends."""
RESTORE = (
    "\x1b[<u\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[?1004l\x1b[?2004l\x1b[?2048l"
    "\x1b[?2026l\x1b[?7h\x1b[m\x1b[?1049l\x1b[?25h"
)
"""Takes back every mode that Textual sets."""
DEADLY = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class StdoutDriver(LinuxDriver):
    """Textual's driver, drawing on standard output where errors go to a file."""

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._file = screen_file()


class CellDriver(StdoutDriver):
    """Textual's driver for Linux and macOS, with its own output and more careful input."""

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._palette = Palette()
        self._painter = Painter(erases_in_color=erases_in_color())
        self._wanted = Grid()
        self._shown = Grid()
        self._cursor = (0, 0)
        self._output = self._file.fileno() if self._file is not None else 2
        self._syncs = False
        self._stale = False
        self._sender: Sender | None = None
        self._former: dict[signal.Signals, Any] = {}

    # --- out

    def write(self, data: str) -> None:
        """Draws a frame into the wanted picture; sends anything else unchanged."""
        sender = self._sender
        if sender is None or not data:
            return
        if data in (SYNC_START, SYNC_END):
            self._syncs = True
            return
        with sender.lock:
            if is_frame(data):
                self._take(data, sender)
            else:
                sender.text(data)
                if turns_page(data):
                    self._forget()
                elif not is_quiet(data):
                    self._forget()
                    sender.picture()

    def _take(self, data: str, sender: Sender) -> None:
        size = self._app.size
        if (size.width, size.height) != (self._wanted.width, self._wanted.height):
            self._wanted = Grid(size.width, size.height)
            self._stale = True
        if self._stale:
            self._stale = False
            self._forget()
        frame = read_frame(data, size.width, size.height, self._palette)
        if frame is None:  # send it unchanged; the terminal's cells are unknown until the next frame
            sender.text(data)
            self._wanted = Grid(size.width, size.height)
            self._forget()
            return
        for span in frame.spans:
            self._wanted.put(*span, self._palette)
        self._cursor = frame.cursor or self._cursor
        sender.picture()

    def _forget(self) -> None:
        """Forgets what the terminal shows, because it may differ from what was sent."""
        self._shown = Grid(self._wanted.width, self._wanted.height)

    def _paint(self) -> str:
        data = self._painter.paint(self._wanted, self._shown)
        if data and self._cursor != (0, 0):  # an input method shows its window there
            data += f"\x1b[{self._cursor[1] + 1};{self._cursor[0] + 1}H"
        return f"{SYNC_START}{data}{SYNC_END}" if self._syncs and len(data) >= SYNC_FROM_BYTES else data

    def redraw(self) -> None:
        """Sends everything again, over whatever another program has left on the screen."""
        sender = self._sender
        if sender is not None:
            with sender.lock:
                sender.text("\x1b[m\x1b[?7l\x1b[?25l")
                self._forget()
                sender.picture()

    # --- in

    def run_input_thread(self) -> None:
        """Reads keys and answers until told to stop, or until the terminal is gone."""
        sender = self._sender
        if sender is None:
            return
        selector = selectors.SelectSelector()
        selector.register(self.fileno, selectors.EVENT_READ)
        parser = KeyParser(self._debug)
        decode = getincrementaldecoder("utf-8")("replace").decode
        answers = Answers(sender.answered, lambda: sender.awaits_answer, constants.ESCAPE_DELAY)
        try:
            while not self.exit_event.is_set():
                data = b""
                if selector.select(0.02 if answers.holding else 0.1):
                    data = os.read(self.fileno, 4096)
                    if not data:
                        self._hung_up()
                        return
                if typed := decode(answers.keys(data)):
                    for event in parser.feed(typed):
                        self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)
        except OSError:
            self._hung_up()
        finally:
            selector.close()

    def process_message(self, message: Message) -> None:
        """Notes when the terminal changes its size: it may have moved what it showed."""
        if isinstance(message, events.Resize):
            self._stale = True
        super().process_message(message)

    def _hung_up(self) -> None:
        """The terminal is gone: ends the program."""
        with suppress(RuntimeError):  # the loop has ended already
            self._loop.call_soon_threadsafe(self._app.exit)

    def _failed(self, error: Exception) -> None:
        """A picture could not be painted: ends the program as any error of its own does."""
        from rich.traceback import Traceback

        trace = Traceback.from_exception(type(error), error, error.__traceback__)
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._app.panic, trace)

    # --- from start to end

    def start_application_mode(self) -> None:
        """Takes the terminal over, at the start or after the program was suspended."""
        self._loop = asyncio.get_running_loop()
        self._sender = Sender(self._output, self._paint, self._hung_up, self._failed)
        self._sender.start()
        self._forget()
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if self._key_thread is None or not self._key_thread.is_alive():
            return  # still in the background: Textual stops again and comes back here
        self._sender.ask()
        if self._wanted.width:
            self._sender.picture()
        if threading.current_thread() is threading.main_thread():
            self._handle_signals()

    def _sigtstp_application(self, *arguments: object) -> None:
        """Stops, and goes on here once continued."""
        super()._sigtstp_application(*arguments)
        # CPython 3.10 waits for events again before it looks at the SIGCONT that has come: this is an event
        self._loop.call_soon_threadsafe(bool)

    def _handle_signals(self) -> None:
        resized = signal.getsignal(signal.SIGWINCH)

        def note_resize(number: int, frame: FrameType | None) -> None:
            self._stale = True
            if callable(resized):
                resized(number, frame)

        signal.signal(signal.SIGWINCH, note_resize)
        for number in DEADLY:
            # an ignored signal (nohup) stays ignored
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._former[number] = signal.signal(number, self._killed)

    def _killed(self, number: int, frame: FrameType | None) -> None:
        """Restores the terminal, and lets the signal end the process."""
        if self._sender is not None:
            self._sender.abandon()
        signal.signal(number, signal.SIG_DFL)  # a second one need not wait for the line
        with suppress(OSError):
            if select.select([], [self._output], [], LEAVING_SECONDS)[1]:
                write(self._output, RESTORE.encode())
        if self.attrs_before is not None:
            with suppress(termios.error):
                termios.tcsetattr(self.fileno, termios.TCSANOW, self.attrs_before)
        os.kill(os.getpid(), number)

    def disable_input(self) -> None:
        """Stops reading, once the terminal has answered."""
        if self._sender is not None and self._key_thread is not None and self._key_thread.is_alive():
            self._sender.settle(LEAVING_SECONDS)
        super().disable_input()

    def close(self) -> None:
        """Sends what is left, and releases the terminal."""
        super().close()
        if self._sender is not None:
            self._sender.stop(LEAVING_SECONDS)
            self._sender = None
        for number, handler in self._former.items():
            signal.signal(number, handler)
        self._former.clear()


def erases_in_color() -> bool:
    """Whether erased cells take on the background in force (``bce``); GNU screen does not do so, tmux does."""
    return "TMUX" in os.environ or not os.environ.get("TERM", "").startswith(("screen", "vt", "ansi", "dumb"))


class Answers:
    """Removes answers from the input; an answer that arrives in pieces is put together first."""

    def __init__(self, answered: Callable[[], None], expected: Callable[[], bool], patience: float) -> None:
        self._answered, self._expected = answered, expected
        self._patience = patience
        """Seconds to hold the start of an answer while waiting for the rest."""
        self._held = b""
        self._since = 0.0

    @property
    def holding(self) -> bool:
        """Whether something is held back."""
        return bool(self._held)

    def keys(self, data: bytes) -> bytes:
        """Returns what was typed; `data` is the latest input, empty if nothing came in time."""
        if not data:
            if self._held and (not self._expected() or time.monotonic() - self._since >= self._patience):
                return self._release()
            return b""
        pieces = (self._release() + data).split(ANSWER)
        for _ in pieces[1:]:
            self._answered()
        typed = b"".join(pieces)
        if self._expected():
            for length in range(len(ANSWER) - 1, 0, -1):
                if pieces[-1].endswith(ANSWER[:length]):
                    self._held, self._since = ANSWER[:length], time.monotonic()
                    return typed[:-length]
        return typed

    def _release(self) -> bytes:
        held, self._held = self._held, b""
        return held
