"""Separates the terminal's answers to the sender from what the user types."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tracetui.app.terminal.sender import ANSWER

if TYPE_CHECKING:
    from collections.abc import Callable


class Answers:
    """Removes answers from the input; an answer that arrives in pieces is put together first."""

    def __init__(self, answered: Callable[[], None], expected: Callable[[], bool], patience: float) -> None:
        """Sets up.

        Args:
            answered: called for each answer.
            expected: whether one may come.
            patience: seconds to hold the start of an answer while waiting for the rest.
        """
        self._answered, self._expected, self._patience = answered, expected, patience
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
