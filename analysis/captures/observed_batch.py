"""The observed batch: how many samples a step really holds, from its first operators' shapes and copies to the GPU."""

from __future__ import annotations

import json
import re
from math import prod
from typing import Any

import polars as pl
from msgspec import Struct

from tracetui.analysis.attribution.operator_tree import scope_mask
from tracetui.analysis.base.names import of_kinds, rows_where
from tracetui.analysis.selection import Selection, in_steps
from tracetui.parsers.categories import encode, matching

_CONVOLUTION = re.compile(r"aten::(conv[123]d|convolution|_convolution|cudnn_convolution)$")
_EMBEDDING = re.compile(r"aten::embedding$")
_LINEAR = re.compile(r"aten::linear$")
BYTES = {
    "float": 4, "double": 8, "int": 4, "long int": 8, "long": 8, "short": 2, "unsigned char": 1, "signed char": 1,
    "bool": 1, "c10::half": 2, "c10::bfloat16": 2, "half": 2, "bfloat16": 2,
}  # fmt: skip
"""Size of an element in bytes, by the type names that torch writes."""
IMAGE_AXES = 4
"""Inputs with this many dimensions are images; labels copied beside them are too small to matter."""
LOOKED_AT = 20
"""How many calls of a kind are searched for one with shapes."""
_BATCH_IN_NAME = re.compile(r"(?:^|[^a-z0-9])(?:bs|batch|batch[_-]?size)[_=-]?(\d+)(?![a-z0-9])", re.IGNORECASE)


class BatchSeen(Struct, frozen=True):
    """The first input of a step whose shape shows the batch."""

    operator: str
    row: int
    """Host row of the operator."""
    batch: int
    """The size of its first dimension."""
    calls_per_step: float
    """Calls with exactly these shapes: the micro-batches, if a step accumulates gradients."""
    shape: tuple[int, ...]
    sample_bytes: int | None
    """Size of one sample of this input, bytes; None if the type is not known."""


def batch_in_shapes(sel: Selection) -> BatchSeen | None:
    """The first dimension of the first convolution's input, else of the first embedding's, else of the first linear's.

    Matrices alone prove nothing: their rows may be tokens of several samples. Where there are steps, calls outside of
    them (warm-up, evaluation, setup) don't count. Returns None if no shape shows the batch.
    """
    sel = in_steps(sel)
    host = sel.trace.host.with_row_index("row")
    shaped = of_kinds(host["kind"], "operator") & host["input_shapes"].is_not_null().to_numpy()
    host = rows_where(host, shaped & scope_mask(sel))
    names = encode(host["name"])
    for pattern, place, least in ((_CONVOLUTION, 0, 3), (_EMBEDDING, 1, 2), (_LINEAR, 0, 3)):
        rows = host.filter(pl.Series(matching(names, pattern.pattern))).sort("start")
        rows = rows.with_columns(name=pl.col("name").cast(pl.String), shapes=pl.col("input_shapes").cast(pl.String))
        known = [(row, _shape(row["shapes"], place)) for row in rows.head(LOOKED_AT).iter_rows(named=True)]
        # positions, which all samples share, are looked up once
        for row, shape in sorted(known, key=lambda entry: entry[1][:1] == (1,)):
            if len(shape) < least:
                continue
            same = rows.filter((pl.col("name") == row["name"]) & (pl.col("shapes") == row["shapes"]))
            same = same.filter(~pl.col("parent").is_in(same["row"].implode()).fill_null(value=False))
            size = BYTES.get(str(_item(row["input_types"], place)).lower())
            return BatchSeen(
                row["name"], row["row"], shape[0], same.height / sel.step_count, shape,
                size * prod(shape[1:]) if size else None,
            )  # fmt: skip
    return None


def explains(seen: BatchSeen, wanted: int, ranks: int) -> bool:
    """Whether these shapes are possible for a batch of this size.

    The batch may be split among ranks or micro-batches, be the second dimension, or be folded with the tokens.
    """
    if wanted in (seen.batch, seen.batch * ranks):
        return True
    if (
        abs(seen.batch * seen.calls_per_step - wanted) < 0.5
        or abs(seen.batch * seen.calls_per_step * ranks - wanted) < 0.5
    ):
        return True
    if len(seen.shape) < IMAGE_AXES and wanted in seen.shape[1:2]:
        return True
    return bool(_LINEAR.match(seen.operator)) and wanted > 0 and prod(seen.shape[:-1]) % wanted == 0


def samples_copied(sel: Selection, sample_bytes: int) -> float | None:
    """How many samples of this size a step copies to the GPU; None without steps or copies."""
    if not sel.steps.height:
        return None
    copies = sel.device.filter((pl.col("kind") == "memcpy") & pl.col("step").is_not_null())
    to_device = copies["name"].cast(pl.String).str.contains(r"HtoD|Host-to-Device")
    total = int(copies.filter(to_device)["bytes"].sum())
    return total / sel.step_count / sample_bytes if total and sample_bytes else None


def batch_in_name(name: str) -> int | None:
    """The batch in a file's name: ``vim_tiny_fp32_bs4``, ``batch_8``."""
    found = _BATCH_IN_NAME.search(name)
    return int(found[1]) if found else None


def _shape(text: str, place: int) -> tuple[int, ...]:
    item = _item(text, place)
    if isinstance(item, list) and item and all(isinstance(size, int) for size in item):
        return tuple(item)
    return ()


def _item(text: Any, place: int) -> Any:
    try:
        items = json.loads(text)
        return items[place] if isinstance(items, list) and len(items) > place else None
    except (TypeError, ValueError, RecursionError):
        return None
