"""Collectives on CPUs: the operators ``c10d::*`` say what each is, gloo's ranges when it ran.

Neither names the other: gloo's threads take the calls from a queue, so each operator belongs to the first range of its
kind and size that begins after it. Reduce-scatter is an all-reduce there, of which each rank keeps its part.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tracetui.parsers import categories
from tracetui.parsers.chrome.collectives.arguments import elements_of, list_text, listed
from tracetui.parsers.names import collectives as words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tracetui.parsers.chrome.columns import Columns
    from tracetui.parsers.nesting import Ints

LIBRARY = "c10d::"
_TENSORS: dict[str, tuple[int | None, int | None]] = {
    "allreduce_": (0, 0), "allreduce_coalesced_": (0, 0), "broadcast_": (0, 0), "reduce_": (0, 0),
    "allgather_": (1, None), "_allgather_base_": (1, 0), "allgather_into_tensor_coalesced_": (1, 0),
    "reduce_scatter_": (None, 0), "_reduce_scatter_base_": (1, 0), "reduce_scatter_tensor_coalesced_": (1, 0),
    "alltoall_base_": (1, 0), "alltoall_": (1, 0), "gather_": (1, None), "scatter_": (None, 0),
    "send": (0, None), "recv_": (None, 0), "recv_any_source_": (None, 0), "barrier": (None, None),
}  # fmt: skip
"""Of each operator, which of its inputs is what a rank gives, and which what it gets."""
_PEER, _OUT_SPLITS, _IN_SPLITS = 2, 3, 4
"""Places among the concrete inputs of ``send`` and ``recv_``, and of ``alltoall_base_``."""
_DONE_AS = {"reduce_scatter": "all_reduce"}
"""Kinds that gloo does as another."""


def with_operators(ranges: pl.DataFrame, host: Columns, said: Columns) -> pl.DataFrame:
    """Describes ranges on CPUs by the operators that they belong to.

    Args:
        ranges: their host rows, kinds and sizes.
        host: columns of the host rows.
        said: what events say of collectives; of operators their concrete inputs.
    """
    rows = np.flatnonzero(categories.matching(host["name"], f"^{LIBRARY}"))
    ranges = ranges.with_columns(operator=pl.lit(None, pl.Int64))
    on_cpu = ranges["name"].str.contains(words.ON_HOST).to_numpy()
    if not rows.size or not on_cpu.any():
        return ranges
    concrete = dict(zip(said["offset"].tolist(), said["inputs"].tolist(), strict=True))
    texts = {name: categories.texts(host[name][rows]) for name in ("name", "input_shapes", "input_types")}
    texts["inputs"] = categories.texts(said["inputs"])
    operators = []
    for row in rows[np.argsort(host["start"][rows], kind="stable")].tolist():
        name, shapes, types = (texts[column].get(int(host[column][row])) for column in list(texts)[:3])
        given = texts["inputs"].get(concrete.get(int(host["offset"][row]), categories.NULL_CODE))
        found = _said(str(name).removeprefix(LIBRARY), listed(shapes), listed(types), listed(given))
        if found is not None:
            operators.append({"operator": row, "start": int(host["start"][row]), **found})
    return _paired(ranges, on_cpu, host["start"], operators)


def _paired(
    ranges: pl.DataFrame, on_cpu: NDArray[np.bool_], start: Ints, operators: list[dict[str, Any]]
) -> pl.DataFrame:
    """Each range with the first operator that it can belong to, in order."""
    rows = ranges.to_dicts()
    waiting: dict[tuple[str | None, int | None], list[dict[str, Any]]] = {}
    for found in operators:
        key = _key(_DONE_AS.get(found["kind"], found["kind"]), found.pop("elements"))
        waiting.setdefault(key, []).append(found)
    for queue in waiting.values():
        queue.reverse()
    by_start = sorted(np.flatnonzero(on_cpu).tolist(), key=lambda number: int(start[rows[number]["host"]]))
    for number in by_start:
        row = rows[number]
        queue = waiting.get(_key(row["kind"], row["elements"]), [])
        if queue and queue[-1]["start"] <= int(start[row["host"]]):
            _describe(row, queue.pop())
    return pl.DataFrame(rows, schema=ranges.schema)


def _key(kind: str | None, elements: int | None) -> tuple[str | None, int | None]:
    """What an operator and its range have in common: a scatter's range on its root has all ranks' parts."""
    return kind, None if kind == "scatter" else elements


def _describe(row: dict[str, Any], found: dict[str, Any]) -> None:
    size = found["bytes_each"] or row["bytes_each"]
    for side in ("in", "out"):
        elements = found[f"{side}_elements"]
        row[f"bytes_{side}"] = None if elements is None or size is None else elements * size
    for name in ("operator", "kind", "name", "peer", "in_splits", "out_splits"):
        row[name] = found[name]
    row["source"] = "operator"


def _said(name: str, shapes: list[Any], types: list[Any], given: list[Any]) -> dict[str, Any] | None:
    """What one operator says; None for one that is no collective."""
    if name not in _TENSORS:
        return None
    kind = words.kind_of(name)
    taken, returned = _TENSORS[name]
    elements = {"in_elements": _elements(shapes, taken), "out_elements": _elements(shapes, returned)}
    first = taken if taken is not None else returned
    said_type = types[first] if first is not None and first < len(types) else ""
    pairwise = kind in ("send", "recv")
    splits = name == "alltoall_base_"
    return {
        "kind": kind,
        "name": name,
        **elements,
        "elements": elements["in_elements" if taken is not None else "out_elements"],
        "bytes_each": words.element_type(said_type)[1] if isinstance(said_type, str) else None,
        "peer": _whole(given[_PEER]) if pairwise and len(given) > _PEER else None,
        "in_splits": list_text(json.dumps(given[_IN_SPLITS])) if splits and len(given) > _IN_SPLITS else None,
        "out_splits": list_text(json.dumps(given[_OUT_SPLITS])) if splits and len(given) > _OUT_SPLITS else None,
    }


def _elements(shapes: list[Any], place: int | None) -> int | None:
    """How many elements the tensor, or list of tensors, at this place has."""
    shape = shapes[place] if place is not None and place < len(shapes) else None
    return elements_of(shape if isinstance(shape, list) else [])


def _whole(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if 0 <= number < words.MOST_RANKS else None
