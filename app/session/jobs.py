"""Background jobs that never delay quitting."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from textual.message import Message
from textual.message_pump import MessagePump

T = TypeVar("T")


class JobDone(Message, Generic[T], bubble=False):
    """A job has ended: with a result, or with an error to show."""

    def __init__(self, key: str, result: T | None, error: Exception | None) -> None:
        self.key = key
        """The key that the job was started with."""
        self.result = result
        self.error = error
        super().__init__()


_running: set[threading.Thread] = set()
_starting = threading.Lock()
"""Held until a new thread can be waited for, which another thread may want to at once."""


def start(target: MessagePump, key: str, work: Callable[[], object]) -> None:
    """Runs `work` in a daemon thread and posts a `JobDone` to `target`.

    Textual would wait at exit for a thread of its own; a daemon thread that parses a gigabyte is not waited for.
    """

    def run() -> None:
        result: object = None
        failure: Exception | None = None
        try:
            result = work()
        except Exception as error:
            failure = error
        # the app and its event loop may have ended in the meantime
        with suppress(RuntimeError):
            target.post_message(JobDone(key, result, failure))
        _running.discard(threading.current_thread())

    thread = threading.Thread(target=run, name=f"tracetui-{key}", daemon=True)
    with _starting:
        _running.add(thread)
        thread.start()


def busy(key: str = "") -> bool:
    """Returns whether any job is running, or any job with this key."""
    return bool(_of(key))


def wait(key: str, seconds: float) -> None:
    """Waits until the jobs of a key have ended, each for at most this long."""
    for thread in _of(key):
        thread.join(seconds)


def _of(key: str) -> list[threading.Thread]:
    with _starting:
        running = tuple(_running)
    return [thread for thread in running if not key or thread.name == f"tracetui-{key}"]
