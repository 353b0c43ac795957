"""Collectives of a Chrome trace: what kernels, operators and ranges say of each, one row per call.

A kernel's own arguments are the best source. AMD's kernels and those of older PyTorch carry none: then the operator
`record_param_comms` around the launch says the same, and in 2022 only the range inside it has a name and shapes.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import polars as pl

from tracetui.parsers import categories, schema
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.chrome.layout import whole
from tracetui.parsers.chrome.pieces import json_text
from tracetui.parsers.names import collectives as words
from tracetui.parsers.schema import integers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from tracetui.parsers.chrome.columns import Columns
    from tracetui.parsers.chrome.tokens import Tokens
    from tracetui.parsers.trace import ProcessGroup

COLLECTIVE = "Collective name"
"""The argument that tells that an event describes a collective."""
INTS = {"in_elements": "In msg nelems", "out_elements": "Out msg nelems", "group_size": "Group size",
        "seq": "Seq", "source_rank": "Src Rank", "target_rank": "Dst Rank"}  # fmt: skip
TEXTS = {"said": COLLECTIVE, "said_type": "dtype", "group": "Process Group Name",
         "group_description": "Process Group Description"}  # fmt: skip
LISTS = {"group_ranks": "Process Group Ranks", "in_splits": "In split size", "out_splits": "Out split size"}
"""Lists, written as such or as text."""


def described(position: int, args: dict[str, Any], number: Callable[[dict[str, Any], str], int]) -> dict[str, Any]:
    """A row of the group ``collectives`` from an event's arguments; `number` reads numbers."""
    row: dict[str, Any] = {"offset": position, **{column: number(args, key) for column, key in INTS.items()}}
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
    rows: dict[str, Bools]

    def ints(self, key: str) -> Ints:
        """One whole number per event."""

    def texts(self, key: str, raw: bool, events: Bools | None = None) -> NDArray[np.uint32]:
        """One category code per event, of these events."""


def described_in(scan: Reading) -> Bools | None:
    """Which events describe a collective; None if there are none. Reads their arguments for the whole chunk."""
    found = scan.tokens.field(COLLECTIVE)
    if found is None:
        return None
    called = np.zeros(scan.tokens.events, np.bool_)
    called[scan.tokens.event_of(found)] = True
    called &= scan.rows["host"] | scan.rows["device"]
    for key in INTS.values():
        scan.ints(key)
    for key in TEXTS.values():
        scan.texts(key, raw=False, events=called)
    for key in LISTS.values():
        scan.texts(key, raw=True, events=called)
    return called


def columns_of(scan: Reading, rows: Ints) -> Columns:
    """The columns of the group ``collectives``, without the offset, of these events."""
    return (
        {column: scan.ints(key)[rows] for column, key in INTS.items()}
        | {column: scan.texts(key, raw=False)[rows] for column, key in TEXTS.items()}
        | {column: scan.texts(key, raw=True)[rows] for column, key in LISTS.items()}
    )


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


def with_operators(ranges: pl.DataFrame, host: Columns) -> pl.DataFrame:
    """Describes ranges on CPUs by the operators that they belong to.

    Args:
        ranges: their host rows, kinds and sizes.
        host: columns of the host rows.
    """
    rows = np.flatnonzero(categories.matching(host["name"], f"^{LIBRARY}"))
    ranges = ranges.with_columns(operator=pl.lit(None, pl.Int64))
    on_cpu = ranges["name"].str.contains(words.ON_HOST).to_numpy()
    if not rows.size or not on_cpu.any():
        return ranges
    columns = ("name", "input_shapes", "input_types", "concrete_inputs")
    texts = {name: categories.texts(host[name][rows]) for name in columns if name in host}
    operators = []
    for row in rows[np.argsort(host["start"][rows], kind="stable")].tolist():
        name, shapes, types, given = (
            texts[column].get(int(host[column][row])) if column in texts else None for column in columns
        )
        found = _said(str(name).removeprefix(LIBRARY), listed(shapes), listed(types), listed(given))
        if found is not None:
            operators.append({"operator": row, "start": int(host["start"][row]), **found})
    return _paired(ranges, on_cpu, host["start"], operators)


def _paired(ranges: pl.DataFrame, on_cpu: Bools, start: Ints, operators: list[dict[str, Any]]) -> pl.DataFrame:
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
        "peer": _rank(given[_PEER]) if pairwise and len(given) > _PEER else None,
        "in_splits": list_text(json.dumps(given[_IN_SPLITS])) if splits and len(given) > _IN_SPLITS else None,
        "out_splits": list_text(json.dumps(given[_OUT_SPLITS])) if splits and len(given) > _OUT_SPLITS else None,
    }


def _elements(shapes: list[Any], place: int | None) -> int | None:
    """How many elements the tensor, or list of tensors, at this place has."""
    shape = shapes[place] if place is not None and place < len(shapes) else None
    return elements_of(shape if isinstance(shape, list) else [])


def _rank(value: Any) -> int | None:
    number = None if isinstance(value, bool) else whole(value)
    return number if number is not None and 0 <= number < words.MOST_RANKS else None


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
    distinct, place = np.unique(codes, return_inverse=True)
    texts = categories.texts(distinct)
    values = [function(texts[code]) if code in texts else None for code in distinct.tolist()]
    found: pl.Series = pl.Series(values, dtype=dtype)[place]
    return found


OPERATOR, ANNOTATION = (schema.HOST_KINDS.index(kind) for kind in ("operator", "annotation"))
KERNEL, PROJECTED = (schema.DEVICE_KINDS.index(kind) for kind in ("kernel", "annotation"))
_THREAD = ["process", "thread"]
_SIZES = ("bytes_in", "bytes_out", "in_splits", "out_splits")


def collectives_frame(
    said: Columns,
    host: Columns,
    device: Columns,
    linked: dict[str, Ints],
    parent: Ints,
    groups: Sequence[ProcessGroup],
) -> pl.DataFrame:
    """The collectives of a trace whose host and device rows are sorted and linked.

    Args:
        said: arguments that describe collectives, by the offset of their event.
        host: columns of the host rows.
        device: columns of the device rows.
        linked: the host rows that each device row belongs to.
        parent: the host row around each host row.
        groups: the process groups that the file names.
    """
    on_device, operators, ranges = _kernel_rows(device, said), *_host_rows(host)
    if not (on_device.size or operators.size or ranges.size):
        return schema.empty(schema.COLLECTIVES)
    arguments = told(said)
    calls = _calls(host, operators, ranges, parent, said, arguments)
    kernels = _with_calls(_kernels(device, on_device, linked, arguments), calls)
    together = _coalescing([kernels["range"], calls["outer"]], host["name"])
    kernels = kernels.with_columns(
        coalesced=pl.col("range").is_in(together.implode()).fill_null(value=False)
        | (pl.col("host").is_not_null() & pl.col("host").is_duplicated())
    ).with_columns(pl.when(~pl.col("coalesced")).then(name).alias(name) for name in _SIZES)
    alone = calls.filter(~pl.col("host").is_in(kernels["host"].drop_nulls().implode()))
    shared = kernels.filter("coalesced").drop_nulls("range").unique("range", keep="first", maintain_order=True)
    alone = alone.join(
        shared.select(outer="range", part_of="device"), on="outer", how="left", maintain_order="left"
    ).with_columns(coalesced=pl.col("outer").is_in(together.implode()).fill_null(value=False))
    alone = _before_their_kernel(alone, shared, host)
    kernels, alone = _of_one_operation(kernels, alone)
    kernels = _of_one_kind(kernels, alone)
    rows = pl.concat([kernels, alone], how="diagonal")
    return schema.filled(schema.COLLECTIVES, in_groups(rows, groups))


def _kernel_rows(device: Columns, said: Columns) -> Ints:
    """The device rows that communicate, by their names or arguments."""
    chosen = (device["kind"] == KERNEL) & categories.matching(device["name"], words.KERNEL)
    if said["offset"].size:
        chosen |= np.isin(device["offset"], said["offset"]) & (device["kind"] != PROJECTED)
    return np.flatnonzero(chosen)


def _host_rows(host: Columns) -> tuple[Ints, Ints]:
    """The operators that say what a collective is, and the ranges around one."""
    named = np.flatnonzero(categories.matching(host["name"], f"^{words.PARAMETERS}$|{words.RANGE}"))
    kind = host["kind"][named]
    return named[kind == OPERATOR], named[kind == ANNOTATION]


def _kernels(device: Columns, rows: Ints, linked: dict[str, Ints], arguments: pl.DataFrame) -> pl.DataFrame:
    """The kernels that communicate, and what they say of it themselves."""
    names = categories.decode(device["name"][rows]).cast(pl.String)
    found = pl.DataFrame(
        {
            "device": rows,
            "innermost": linked["operator"][rows],
            "range": linked["range"][rows],
            "offset": device["offset"][rows],
            "kernel": names,
            "kernel_kind": names.replace_strict(
                distinct := names.unique(), [words.kernel_kind(name) for name in distinct], return_dtype=pl.String
            ),
        }
    ).with_columns(pl.col("innermost", "range").replace(-1, None))
    found = found.join(arguments, on="offset", how="left", maintain_order="left")
    return found.with_columns(source=pl.when(pl.col("name").is_not_null()).then(pl.lit("kernel"))).drop("offset")


def _with_calls(kernels: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """The kernels with the calls that launched them, which describe those that say nothing themselves."""
    by_range = calls.select("range", by_range="host").drop_nulls("range").unique("range", keep="first")
    by_operator = calls.select(innermost="host", by_operator="host")
    found = kernels.join(by_range, on="range", how="left", maintain_order="left")
    found = found.join(by_operator, on="innermost", how="left", maintain_order="left")
    found = found.with_columns(host=pl.coalesce("by_operator", "by_range"))
    described = calls.select("host", *(pl.col(name).alias(f"call_{name}") for name in WHAT))
    found = found.join(described, on="host", how="left", maintain_order="left")
    found = found.with_columns(
        pl.when(pl.col("source").is_null()).then(f"call_{name}").otherwise(name).alias(name) for name in WHAT
    )
    return found.with_columns(
        kind=pl.coalesce("kind", "kernel_kind"),
        name=pl.coalesce("name", "kernel"),
        source=pl.coalesce("source", pl.lit("name")),
    )


def _calls(
    host: Columns, operators: Ints, ranges: Ints, parent: Ints, said: Columns, arguments: pl.DataFrame
) -> pl.DataFrame:
    """The host's calls: operators with arguments or a range inside, and ranges of their own."""
    inside = of_ranges(host, ranges).with_columns(
        outer=pl.Series(parent[ranges], dtype=pl.Int64).replace(-1, None), around=_around(host, operators, ranges)
    )
    inside = inside.with_columns(range=pl.col("host"))
    told_by = pl.DataFrame({"host": operators, "offset": host["offset"][operators]})
    found = told_by.join(arguments, on="offset", how="left", maintain_order="left").drop("offset")
    found = found.with_columns(source=pl.when(pl.col("name").is_not_null()).then(pl.lit("operator")))
    # without counts of elements the shapes of its first input say what a rank gives
    shapes = _mapped(host["input_shapes"][operators], lambda text: _elements(listed(text), 0), pl.Int64)
    each = pl.col("element_type").replace_strict(words.BYTES, default=None, return_dtype=pl.Int64)
    given = pl.when(~pl.col("kind").is_in(["send", "recv"])).then(shapes * each)
    found = found.with_columns(bytes_in=pl.coalesce("bytes_in", given))
    first = inside.drop_nulls("around").unique("around", keep="first", maintain_order=True)
    its = (pl.col(name).alias(f"range_{name}") for name in WHAT)
    renamed = first.select(pl.col("around").alias("host"), "range", "outer", *its)
    found = found.join(renamed, on="host", how="left", maintain_order="left")
    found = found.with_columns(
        pl.when(pl.col("source").is_null()).then(f"range_{name}").otherwise(name).alias(name) for name in WHAT
    )
    bare = with_operators(inside.filter(pl.col("around").is_null()), host)
    return (
        pl.concat([found, bare], how="diagonal")
        .drop_nulls("kind")
        .sort("host")
        .select("host", "operator", "range", "outer", *WHAT)
    )


def _placed(host: Columns, rows: Ints, **more: Ints | pl.Series) -> pl.DataFrame:
    """When and on which thread host rows begin, and when they end."""
    end = host["start"][rows] + host["duration"][rows]
    return pl.DataFrame({name: host[name][rows] for name in ("start", *_THREAD)} | {"end": end} | more)


def _around(host: Columns, operators: Ints, ranges: Ints) -> pl.Series:
    """The operator around each range, on its thread; null where there is none."""
    outer = _placed(host, operators, row=operators)
    inner = _placed(host, ranges).with_row_index("place")
    found = inner.sort("start").join_asof(
        outer.sort("start"), on="start", by=_THREAD, suffix="_outer", check_sortedness=False
    )
    found = found.with_columns(row=pl.when(pl.col("end") <= pl.col("end_outer")).then("row"))
    return found.sort("place")["row"]


def _before_their_kernel(alone: pl.DataFrame, shared: pl.DataFrame, host: Columns) -> pl.DataFrame:
    """Operations of a group with the kernel that does them, where its range comes after them.

    PyTorch 2.11 puts the operators of `batch_isend_irecv` before the range that launches them; those before it came
    inside. A thread's operators belong to its next such range: sends, receives, and what its kernel's name says.
    """
    ranges = _placed(host, shared["range"].to_numpy(), kernel=shared["device"], kernel_kind=shared["kind"])
    calls = _placed(host, alone["host"].to_numpy())
    found = (
        calls.with_row_index("place")
        .sort("start")
        .join_asof(ranges.sort("start"), on="start", by=_THREAD, strategy="forward", check_sortedness=False)
    )
    found = found.sort("place")
    kernel = found["kernel"].cast(alone.schema["part_of"])
    of_it = pl.col("kind").is_in(["send", "recv"]) | (pl.col("kind") == found["kernel_kind"])
    free = of_it.fill_null(value=False) & pl.col("part_of").is_null() & ~pl.col("coalesced")
    return alone.with_columns(
        part_of=pl.when(free).then(kernel).otherwise("part_of"),
        coalesced=pl.col("coalesced") | (free & kernel.is_not_null()),
    )


def _of_one_operation(kernels: pl.DataFrame, alone: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Kernels that do a single operation of their range are that operation, with all that it says."""
    parts = alone.drop_nulls("part_of")
    lone = parts.filter(~pl.col("part_of").is_duplicated() & pl.col("kind").is_in(["send", "recv"]))
    if not lone.height:
        return kernels, alone
    its = lone.select(pl.col("part_of").alias("device"), pl.col("host").alias("its_host"),
                      *(pl.col(name).alias(f"its_{name}") for name in WHAT))  # fmt: skip
    found = kernels.join(its, on="device", how="left", maintain_order="left")
    known = pl.col("its_host").is_not_null() & pl.col("host").is_null()
    kernels = found.with_columns(
        *(pl.when(known).then(f"its_{name}").otherwise(name).alias(name) for name in WHAT),
        host=pl.when(known).then("its_host").otherwise("host"),
        coalesced=pl.col("coalesced") & ~known,
    ).select(kernels.columns)
    taken = kernels["host"].drop_nulls()
    return kernels, alone.filter(~pl.col("host").is_in(taken.implode()))


def _of_one_kind(kernels: pl.DataFrame, alone: pl.DataFrame) -> pl.DataFrame:
    """A kernel that does all operations of its range, of one kind in one group, is one collective of their sizes."""
    parts = alone.drop_nulls("part_of")
    totals = {
        name: pl.when(pl.col(name).null_count() == 0).then(pl.col(name).sum()) for name in ("bytes_in", "bytes_out")
    }
    first = [name for name in WHAT if name not in _SIZES]
    its = parts.group_by(pl.col("part_of").alias("device")).agg(
        pl.col(first).first().name.prefix("its_"),
        *(total.alias(f"its_{name}") for name, total in totals.items()),
        alike=(pl.struct("kind", "group", "element_type").n_unique() == 1) & pl.col("peer").is_null().all(),
    )
    found = kernels.join(its.filter("alike"), on="device", how="left", maintain_order="left")
    one = pl.col("alike").is_not_null() & ~pl.col("range").is_duplicated()
    return found.with_columns(
        *(pl.when(one).then(f"its_{name}").otherwise(name).alias(name) for name in (*first, *totals)),
        coalesced=pl.col("coalesced") & ~one,
    ).select(kernels.columns)


def _kinds(texts: pl.Series) -> pl.Series:
    distinct = texts.unique()
    kinds = [words.kind_of(text) for text in distinct]
    found: pl.Series = texts.replace_strict(distinct, kinds, return_dtype=pl.String)
    return found


def _coalescing(ranges: Sequence[pl.Series], names: NDArray[np.uint32]) -> pl.Series:
    """Which of these host rows are ranges around several operations that one kernel does.

    A range such as ``nccl:all_gather_into_tensor_coalesced`` is one operation, on several tensors.
    """
    rows = pl.concat(list(ranges)).drop_nulls().unique().sort()
    texts = categories.decode(names[rows.to_numpy()]).cast(pl.String)
    coalescing: pl.Series = rows.filter(texts.str.contains(words.COALESCED, literal=True) & _kinds(texts).is_null())
    return coalescing
