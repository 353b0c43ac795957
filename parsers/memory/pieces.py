"""Reassembles a memory snapshot from the objects of a pickle that ends early."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def recovered(pieces: Sequence[Any]) -> dict[str, Any] | None:
    """The snapshot as far as it was read, marked ``cut`` if the end of its history is lost; None if it has nothing.

    Entries are dicts in the memo, in file order. The list of a device's history precedes its entries, and an entry's
    own list of frames follows it. So an empty list right before an entry starts the next device's history, unless it is
    the previous entry's list of frames.
    """
    segments: list[Any] = []
    histories: list[list[Any]] = []
    annotations: list[Any] = []
    before: Any = None
    last: dict[Any, Any] = {}
    seen_entry = False
    for piece in pieces:
        if isinstance(piece, dict):
            if "total_size" in piece and "blocks" in piece:
                segments.append(piece)
            elif "action" in piece:
                # a list already filled holds the entry, one that was cut off is still empty
                begins = isinstance(before, list) and before is not last.get("frames") and _begins(before, piece)
                if begins or not histories:
                    histories.append([])
                histories[-1].append(piece)
                last, seen_entry = piece, True
            elif "stage" in piece and "name" in piece:
                annotations.append(piece)
        before = piece
    if not segments and not seen_entry:
        return None
    found: dict[str, Any] = {"device_traces": histories, "external_annotations": annotations, "cut": True}
    if segments:
        found["segments"] = segments
    return found


def _begins(history: list[Any], entry: dict[Any, Any]) -> bool:
    return not history or history[0] is entry
