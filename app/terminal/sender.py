"""Sends to the terminal in a thread: the newest picture, as soon as the line has room for one."""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

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
