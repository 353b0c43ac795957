"""The arguments with which an event describes a collective, and how both paths take them over."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tracetui.parsers import categories
from tracetui.parsers.chrome.pieces import json_text
from tracetui.parsers.names import collectives as words

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tracetui.parsers.chrome.columns import Columns
    from tracetui.parsers.chrome.tokens import Tokens

COLLECTIVE = "Collective name"
"""The argument that tells that an event describes a collective."""
INTS = {"in_elements": "In msg nelems", "out_elements": "Out msg nelems", "group_size": "Group size",
        "seq": "Seq", "source_rank": "Src Rank", "target_rank": "Dst Rank"}  # fmt: skip
TEXTS = {"said": COLLECTIVE, "said_type": "dtype", "group": "Process Group Name",
         "group_description": "Process Group Description"}  # fmt: skip
LISTS = {"group_ranks": "Process Group Ranks", "in_splits": "In split size", "out_splits": "Out split size",
         "inputs": "Concrete Inputs"}  # fmt: skip
"""Lists, written as such or as text."""


CALLS = frozenset({"c10d::send", "c10d::recv_", "c10d::alltoall_base_"})
"""Operators whose concrete inputs say more than shapes do: the other rank, or what each rank gets."""


def tells(name: str, args: dict[str, Any]) -> bool:
    """Whether an event describes a collective."""
    return COLLECTIVE in args or name in CALLS


def described(position: int, args: dict[str, Any], whole: Callable[[dict[str, Any], str], int]) -> dict[str, Any]:
    """A row of the group ``collectives`` from an event's arguments; `whole` reads numbers."""
    row: dict[str, Any] = {"offset": position, **{column: whole(args, key) for column, key in INTS.items()}}
    for column, key in TEXTS.items():
        value = args.get(key)
        row[column] = None if value is None or value == "" else str(value)
    for column, key in LISTS.items():
        row[column] = json_text(args.get(key))
    return row


def list_text(written: str) -> str | None:
    """A list's JSON text, however the file writes it; null for an empty one, and as it is where it is cut short."""
    try:
        value = json.loads(written, strict=False)
        if isinstance(value, str):
            written = value
            value = json.loads(value, strict=False)
    except (ValueError, RecursionError):
        return written
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) and value else None


def listed(text: str | None) -> list[Any]:
    """The list of a JSON text; empty if it is none."""
    try:
        found = json.loads(text or "")
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def elements_of(shape: list[Any]) -> int | None:
    """How many elements a tensor of this shape, or tensors of these shapes, have; None where it is not recorded."""
    try:
        if shape and isinstance(shape[0], list):
            total = sum(math.prod(int(size) for size in one) for one in shape if one)
        else:
            total = math.prod(int(size) for size in shape)
    except (TypeError, ValueError, OverflowError):
        return None
    return total if shape and 0 <= total <= words.MOST_ELEMENTS else None


class Reading(Protocol):
    """What is needed of the scan of a chunk."""

    tokens: Tokens
    rows: dict[str, NDArray[np.bool_]]

    def ints(self, key: str) -> NDArray[np.int64]:
        """One whole number per event."""

    def texts(self, key: str, raw: bool, events: NDArray[np.bool_] | None = None) -> NDArray[np.uint32]:
        """One category code per event, of these events."""


_CALLS = categories.encode(sorted(CALLS))


def described_in(scan: Reading, names: NDArray[np.uint32]) -> NDArray[np.bool_] | None:
    """Which events describe a collective; None if there are none. Reads their arguments for the whole chunk."""
    found = scan.tokens.field(COLLECTIVE)
    called = np.zeros(names.size, np.bool_)
    for call in _CALLS:
        called |= names == call
    if found is None and not called.any():
        return None
    if found is not None:
        called[scan.tokens.event_of(found)] = True
    called &= scan.rows["host"] | scan.rows["device"]
    for key in INTS.values():
        scan.ints(key)
    for key in TEXTS.values():
        scan.texts(key, raw=False, events=called)
    for key in LISTS.values():
        scan.texts(key, raw=True, events=called)
    return called


def columns_of(scan: Reading, rows: NDArray[np.int64]) -> Columns:
    """The columns of the group ``collectives``, without the offset, of these events."""
    return (
        {column: scan.ints(key)[rows] for column, key in INTS.items()}
        | {column: scan.texts(key, raw=False)[rows] for column, key in TEXTS.items()}
        | {column: scan.texts(key, raw=True)[rows] for column, key in LISTS.items()}
    )
