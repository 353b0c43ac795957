"""Lets keys through one at a time, in their order."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")


class Gate(Generic[T]):
    """A queue whose next item comes out once everything that the one before started has ended.

    A key that opens a line or a dialog does so by messages between widgets; whoever gives the next key away before
    they have arrived gives it to the widget that had the keys before.
    """

    def __init__(self) -> None:
        self._waiting: deque[T] = deque()
        self._tickets = 0
        self._out = 0

    @property
    def is_out(self) -> bool:
        """Returns whether an item was taken that is not done."""
        return self._out > 0

    @property
    def ticket(self) -> int:
        """Returns the ticket of the item that is out; 0 if none is."""
        return self._out

    @property
    def waits(self) -> bool:
        """Returns whether items wait."""
        return bool(self._waiting)

    def put(self, item: T) -> None:
        """Adds an item behind all others."""
        self._waiting.append(item)

    def put_first(self, items: Iterable[T]) -> None:
        """Adds items before all others, in the given order."""
        self._waiting.extendleft(reversed(list(items)))

    def take(self) -> tuple[int, T] | None:
        """Returns the next item with a ticket for `done`; null while another one is out, and if none waits."""
        if self._out or not self._waiting:
            return None
        self._tickets += 1
        self._out = self._tickets
        return self._out, self._waiting.popleft()

    def is_current(self, ticket: int) -> bool:
        """Returns whether the item with this ticket is the one that is out."""
        return ticket == self._out

    def give_up(self) -> None:
        """Lets the next item out, because nobody will say that the one before is done."""
        self._out = 0

    def done(self, ticket: int) -> None:
        """Lets the next item out; a ticket of an earlier item does nothing."""
        if ticket == self._out:
            self._out = 0
