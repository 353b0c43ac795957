"""The fast path's part for collectives: which events of a chunk describe one, and their arguments as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from tracetui.parsers import categories
from tracetui.parsers.chrome.collectives import arguments as told

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tracetui.parsers.chrome.columns import Columns
    from tracetui.parsers.chrome.tokens import Tokens


class Reading(Protocol):
    """What is needed of the scan of a chunk."""

    tokens: Tokens
    rows: dict[str, NDArray[np.bool_]]

    def ints(self, key: str) -> NDArray[np.int64]:
        """One whole number per event."""

    def texts(self, key: str, raw: bool, events: NDArray[np.bool_] | None = None) -> NDArray[np.uint32]:
        """One category code per event, of these events."""


_CALLS = categories.encode(sorted(told.CALLS))


def described(scan: Reading, names: NDArray[np.uint32]) -> NDArray[np.bool_] | None:
    """Which events describe a collective; None if there are none. Reads their arguments for the whole chunk."""
    found = scan.tokens.field(told.COLLECTIVE)
    called = np.zeros(names.size, np.bool_)
    for call in _CALLS:
        called |= names == call
    if found is None and not called.any():
        return None
    if found is not None:
        called[scan.tokens.event_of(found)] = True
    called &= scan.rows["host"] | scan.rows["device"]
    for key in told.INTS.values():
        scan.ints(key)
    for key in told.TEXTS.values():
        scan.texts(key, raw=False, events=called)
    for key in told.LISTS.values():
        scan.texts(key, raw=True, events=called)
    return called


def columns_of(scan: Reading, rows: NDArray[np.int64]) -> Columns:
    """The columns of the group ``collectives``, without the offset, of these events."""
    return (
        {column: scan.ints(key)[rows] for column, key in told.INTS.items()}
        | {column: scan.texts(key, raw=False)[rows] for column, key in told.TEXTS.items()}
        | {column: scan.texts(key, raw=True)[rows] for column, key in told.LISTS.items()}
    )
