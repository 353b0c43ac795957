"""What events of a Chrome trace say about their collectives, put into the words of the collectives' frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.parsers import categories
from tracetui.parsers.chrome.collectives.arguments import elements_of, list_text, listed
from tracetui.parsers.frame_columns import integers
from tracetui.parsers.names import collectives as words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from tracetui.parsers.chrome.columns import Columns
    from tracetui.parsers.nesting import Ints
    from tracetui.parsers.trace import ProcessGroup

WHAT = {
    "kind": pl.String, "name": pl.String, "group": pl.String, "group_description": pl.String,
    "group_ranks": pl.String, "group_size": pl.Int64, "seq": pl.Int64, "bytes_in": pl.Int64, "bytes_out": pl.Int64,
    "element_type": pl.String, "in_splits": pl.String, "out_splits": pl.String, "peer": pl.Int64, "source": pl.String,
}  # fmt: skip
"""What describes a collective, whoever says it."""
SIZE = {"elements": pl.Int64, "bytes_each": pl.Int64}
"""What the inputs of a range are."""
_SAME_SIZE = {"all_reduce", "broadcast", "reduce"}
"""Kinds that give back as many elements as they take; of an all-to-all the splits decide."""


def told(said: Columns) -> pl.DataFrame:
    """The arguments of kernels and operators, by the offset of their event."""
    by_name = said["said"] != categories.NULL_CODE
    said = {name: values[by_name] for name, values in said.items()}
    raw = pl.DataFrame({name: integers(values) for name, values in said.items() if values.dtype.kind == "i"})
    most = {
        "in_elements": words.MOST_ELEMENTS, "out_elements": words.MOST_ELEMENTS, "group_size": words.MOST_RANKS,
        "source_rank": words.MOST_RANKS, "target_rank": words.MOST_RANKS,
    }  # fmt: skip
    raw = raw.with_columns(
        pl.when(pl.col(name).is_between(0, limit)).then(name).alias(name) for name, limit in most.items()
    )
    kind = _mapped(said["said"], words.kind_of, pl.String)
    bytes_each = _mapped(said["said_type"], lambda text: words.element_type(text)[1], pl.Int64)
    named_peer = _mapped(said["said"], words.peer_of, pl.Int64)
    return raw.select(
        "offset",
        "group_size",
        "seq",
        kind=kind,
        name=categories.decode(said["said"]).cast(pl.String),
        group=categories.decode(said["group"]).cast(pl.String),
        group_description=categories.decode(said["group_description"]).cast(pl.String),
        group_ranks=_mapped(said["group_ranks"], list_text, pl.String),
        bytes_in=pl.col("in_elements") * bytes_each,
        bytes_out=pl.col("out_elements") * bytes_each,
        element_type=_mapped(said["said_type"], lambda text: words.element_type(text)[0], pl.String),
        in_splits=_mapped(said["in_splits"], list_text, pl.String),
        out_splits=_mapped(said["out_splits"], list_text, pl.String),
        peer=pl.coalesce(
            pl.when(kind == "send").then("target_rank").when(kind == "recv").then("source_rank"), named_peer
        ),
    )


def of_ranges(host: Columns, rows: Ints) -> pl.DataFrame:
    """What ranges such as ``nccl:all_reduce`` say by their names and the shapes of their inputs."""
    columns = ("name", "input_shapes", "input_types")
    texts = {name: categories.decode(host[name][rows]).cast(pl.String) for name in columns}
    found = pl.DataFrame({"host": rows, **texts})
    distinct = found.select(columns).unique(maintain_order=True)
    described = [_of_range(*row) for row in distinct.iter_rows()]
    layout = {**WHAT, **SIZE}
    schema = {f"its_{name}": dtype for name, dtype in layout.items()}
    details = pl.DataFrame([tuple(row.get(name) for name in layout) for row in described], schema=schema, orient="row")
    found = found.join(
        pl.concat([distinct, details], how="horizontal"),
        on=list(columns),
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    return found.select("host", *(pl.col(f"its_{name}").alias(name) for name in layout))


def in_groups(rows: pl.DataFrame, groups: Sequence[ProcessGroup]) -> pl.DataFrame:
    """Adds what the file's header says of the process groups, and the size that follows from it.

    A call that names none is of the only one there is, and of the size that all have.
    """
    several = [group for group in groups if group.size is None or group.size > 1]
    if len(several) == 1:
        rows = rows.with_columns(pl.col("group").fill_null(several[0].name))
    sizes = {group.size for group in several}
    only_size = sizes.pop() if len(sizes) == 1 else None
    known = pl.DataFrame(
        [
            (group.name, group.description, group.size, str(list(group.ranks)) if group.ranks else None)
            for group in {group.name: group for group in groups}.values()
        ],
        schema={"group": pl.String, "its_description": pl.String, "its_size": pl.Int64, "its_ranks": pl.String},
        orient="row",
    )
    rows = rows.join(known, on="group", how="left", maintain_order="left")
    cut = pl.col("group_ranks").str.contains("...", literal=True)
    rows = rows.with_columns(
        group_description=pl.coalesce("group_description", "its_description"),
        group_size=pl.coalesce("group_size", "its_size", pl.lit(only_size, pl.Int64)),
        group_ranks=pl.coalesce(pl.when(~cut).then("group_ranks"), "its_ranks", "group_ranks"),
    )
    gathered = pl.when(pl.col("kind") == "all_gather").then(pl.col("bytes_in") * pl.col("group_size"))
    return rows.with_columns(bytes_out=pl.coalesce("bytes_out", gathered))


def _of_range(name: str, shapes: str | None, types: str | None) -> dict[str, Any]:
    """What one range says: its kind, its peer, and its size where the shapes of its inputs are recorded."""
    kind = words.kind_of(name)
    found: dict[str, Any] = {"kind": kind, "name": name, "peer": words.peer_of(name), "source": "range"}
    elements, said_type = elements_of(listed(shapes)), _one_type(types)
    found["elements"] = elements
    if said_type is not None:
        found["element_type"], bytes_each = words.element_type(said_type)
        found["bytes_each"] = bytes_each
        if elements is not None and bytes_each is not None:
            found["bytes_out" if kind == "recv" else "bytes_in"] = elements * bytes_each
            if kind in _SAME_SIZE:
                found["bytes_out"] = elements * bytes_each
    return found


def _one_type(types: str | None) -> str | None:
    """The element type of all inputs; None where they have several or none is recorded."""
    named = {text for text in listed(types) if isinstance(text, str) and text}
    return named.pop() if len(named) == 1 else None


def _mapped(codes: NDArray[Any], function: Callable[[str], Any], dtype: Any) -> pl.Series:
    """The function's result for each text, computed once per distinct text; null for null."""
    texts = categories.texts(codes)
    values = pl.Series([function(text) for text in texts.values()], dtype=dtype)
    keys = pl.Series(list(texts), dtype=pl.UInt32)
    found: pl.Series = pl.Series(codes, dtype=pl.UInt32).replace_strict(keys, values, default=None, return_dtype=dtype)
    return found
