"""Collectives of an nsys export: NCCL's kernels, the ranges of its NVTX domain, and their payloads.

A payload is what NCCL hands to NVTX with a range: the communicator's number, the size of one message and, for a send or
receive, the other rank. It stands in ``NVTX_EVENTS.binaryData``: 32 bytes that say which schema it has and how long it
is, then the values, at the places that ``NVTX_PAYLOAD_SCHEMA_ENTRIES`` gives. The kernels of a group of
calls are launched in its ``ncclGroupEnd``.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from typing import Any

import polars as pl

from tracetui.parsers import categories, schema
from tracetui.parsers.names import collectives as words
from tracetui.parsers.nsys import tables
from tracetui.parsers.nsys.database import Database, quoted
from tracetui.parsers.tally import Tally

EVENTS, ENTRIES = "NVTX_EVENTS", "NVTX_PAYLOAD_SCHEMA_ENTRIES"
COMMUNICATOR, MESSAGE, PEER, RANKS = "NCCL communicator ID", "Message size [bytes]", "Peer rank", "No. of ranks"
"""What NCCL calls the values (src/include/nvtx_payload_schemas.h)."""
GROUP_START, GROUP_END = "ncclGroupStart", "ncclGroupEnd"
UNREADABLE = "NVTX payload of NCCL that does not fit its schema"
_HEADER = struct.Struct("<IIIIQQ")
"""Domain, reserved, schema, reserved, bytes of the values, bytes of all."""
_FORMS = {5: "<i", 6: "<I", 15: "<i", 16: "<I", 17: "<q", 18: "<Q", 22: "<Q"}
"""How whole numbers are stored, by NVTX_PAYLOAD_ENTRY_TYPE_…: int, unsigned int, int32, uint32, int64, uint64, size."""
_MOST_BYTES = 4096
PAYLOADS = {"start": pl.Int64, "process": pl.Int64, "thread": pl.Int64, "group": pl.String, "message": pl.Int64,
            "peer": pl.Int64, "ranks": pl.Int64}  # fmt: skip
_SPREAD = ("all_gather", "all_to_all", "gather")
"""Kinds in which a rank gets a message from each rank."""


def payloads(database: Database, connection: sqlite3.Connection, tally: Tally) -> pl.DataFrame:
    """What NCCL said with each of its ranges, by when and where they begin; without rows where it said nothing."""
    found = pl.DataFrame(schema=PAYLOADS)
    events, entries = database.tables.get(EVENTS), database.tables.get(ENTRIES)
    if events is None or entries is None or not {"start", "globalTid", "binaryData"} <= events.columns:
        return found
    if not {"domainId", "schemaId", "type", "name", "offset"} <= entries.columns:
        return found
    try:
        fields = _fields(connection)
        if not fields:
            return found
        rows = list(_values(connection, fields, tally))
    except (sqlite3.Error, UnicodeDecodeError) as error:
        tally.missing("NVTX payloads, which could not be read", 1, str(error))
        return found
    return pl.DataFrame(rows, schema=PAYLOADS, orient="row")


def _fields(connection: sqlite3.Connection) -> dict[tuple[int, int], dict[str, tuple[int, str]]]:
    """By domain and schema, where each value of NCCL's stands in a payload, and how."""
    chosen = ", ".join(map(quoted, ("domainId", "schemaId", "type", "name", "offset")))
    found: dict[tuple[int, int], dict[str, tuple[int, str]]] = {}
    for domain, number, kind, name, offset in connection.execute(f"SELECT {chosen} FROM {quoted(ENTRIES)}"):
        text = name.decode("utf-8") if isinstance(name, bytes) else str(name)
        place = 0 if offset is None else offset  # the first has none
        if text in (COMMUNICATOR, MESSAGE, PEER, RANKS) and kind in _FORMS and isinstance(place, int):
            found.setdefault((domain, number), {})[text] = (place, _FORMS[kind])
    return {key: fields for key, fields in found.items() if COMMUNICATOR in fields}


def _values(
    connection: sqlite3.Connection, fields: dict[tuple[int, int], dict[str, tuple[int, str]]], tally: Tally
) -> Iterator[tuple[Any, ...]]:
    start, thread, binary = map(quoted, ("start", "globalTid", "binaryData"))
    raw = f"CAST({binary} AS BLOB)"
    query = (
        f"SELECT {start}, {thread}, {raw} FROM {quoted(EVENTS)} "
        f"WHERE length({raw}) BETWEEN {_HEADER.size} AND {_MOST_BYTES}"
    )
    for begin, owner, content in connection.execute(query):
        if not isinstance(begin, int) or not isinstance(owner, int):
            continue
        content = _unhexed(content)
        if len(content) < _HEADER.size:
            continue
        domain, _, number, _, size, _ = _HEADER.unpack_from(content)
        places = fields.get((domain, number))
        if places is None:
            continue
        values = {name: _value(content, size, *place) for name, place in places.items()}
        if values[COMMUNICATOR] is None:
            tally.repaired(UNREADABLE, 1)
            continue
        yield (
            begin,
            (owner >> tables.PID_BITS) & tables.PID_MASK,
            owner & tables.TID_MASK,
            f"{values[COMMUNICATOR]:x}",
            _at_most(values.get(MESSAGE), words.MOST_ELEMENTS),
            _at_most(values.get(PEER), words.MOST_RANKS),
            _at_most(values.get(RANKS), words.MOST_RANKS),
        )


def _at_most(value: int | None, most: int) -> int | None:
    """The value; None where it is damage."""
    return value if value is not None and 0 <= value <= most else None


def _unhexed(raw: bytes) -> bytes:
    """The bytes themselves, which some exports spell in hexadecimal digits."""
    try:
        return bytes.fromhex(raw.decode("ascii"))
    except ValueError:
        return raw


def _value(content: bytes, size: int, offset: int, form: str) -> int | None:
    end = offset + struct.calcsize(form)
    if offset < 0 or end > size or _HEADER.size + end > len(content):
        return None
    value: int = struct.unpack_from(form, content, _HEADER.size + offset)[0]
    return value


def collectives_frame(host: pl.DataFrame, device: pl.DataFrame, said: pl.DataFrame) -> pl.DataFrame:
    """The collectives of an export: kernels of NCCL with the calls that launched them, then calls without a kernel."""
    codes = device["name"].to_physical().fill_null(categories.NULL_CODE).to_numpy()
    is_kernel = (device["kind"] == "kernel").to_numpy()
    chosen = pl.Series(is_kernel & categories.matching(codes, words.KERNEL))
    if not chosen.any() and not said.height:
        return schema.empty(schema.COLLECTIVES)
    kernels = device.with_row_index("device_row").filter(chosen)
    kernels = kernels.select("device_row", "range", "start", pl.col("name").cast(pl.String))
    calls = _described(_calls(host), said)
    rows = _rows(kernels.to_dicts(), calls)
    layout: dict[str, Any] = {
        name: pl.String if isinstance(dtype, pl.Categorical | pl.Enum) else dtype
        for name, dtype in schema.COLLECTIVES.items()
    }
    made = pl.DataFrame([tuple(row.get(name) for name in layout) for row in rows], schema=layout, orient="row")
    return made.cast(schema.COLLECTIVES)  # type: ignore[arg-type]


def _calls(host: pl.DataFrame) -> pl.DataFrame:
    """The ranges of NCCL's calls, ``ncclGroupEnd`` included, in order of thread and time."""
    codes = host["name"].to_physical().fill_null(categories.NULL_CODE).to_numpy()
    chosen = pl.Series(categories.matching(codes, words.CALL)) & (host["kind"] == "annotation")
    found = host.with_row_index("host").filter(chosen)
    return found.select("host", pl.col("name").cast(pl.String), "start", "duration", "process", "thread").sort(
        "process", "thread", "start", maintain_order=True
    )


def _described(calls: pl.DataFrame, said: pl.DataFrame) -> pl.DataFrame:
    """The calls with what their payloads say."""
    sizes = said.drop_nulls("ranks").unique("group", keep="first", maintain_order=True)
    sizes = sizes.select("group", group_size="ranks")
    own = said.drop("ranks").unique(["start", "process", "thread"], keep="first", maintain_order=True)
    found = calls.join(own, on=["start", "process", "thread"], how="left", maintain_order="left")
    return found.join(sizes, on="group", how="left", maintain_order="left")


def _rows(kernels: list[dict[str, Any]], calls: pl.DataFrame) -> list[dict[str, Any]]:
    """One row per kernel, then one per call without a kernel of its own."""
    within: dict[int, list[dict[str, Any]]] = {}
    for kernel in kernels:
        if kernel["range"] is not None:
            within.setdefault(kernel["range"], []).append(kernel)
    of_kernel: dict[int, dict[str, Any]] = {}
    alone: list[dict[str, Any]] = []
    for calls_together, hosts in _groups(calls):
        launched = [kernel for host in hosts for kernel in within.get(host, [])]
        alone += _assigned(launched, calls_together, of_kernel) if launched else calls_together
    rows = [of_kernel.get(kernel["device_row"], _of_name(kernel)) for kernel in kernels]
    return rows + sorted(alone, key=lambda row: row["host"])


def _groups(calls: pl.DataFrame) -> Iterator[tuple[list[dict[str, Any]], list[int]]]:
    """(calls, the ranges that their kernels are launched in) of each call by itself, and of each group of calls."""
    for _, on_thread in calls.group_by("process", "thread", maintain_order=True):
        depth = 0
        together: list[dict[str, Any]] = []
        hosts: list[int] = []
        for call in on_thread.iter_rows(named=True):
            kind = words.kind_of(call["name"])
            if kind is not None:
                together.append({**_sized(kind, call), "kind": kind})
            if kind is not None or call["name"] == GROUP_END:
                hosts.append(call["host"])
            depth += (call["name"] == GROUP_START) - (call["name"] == GROUP_END)
            if depth <= 0:
                depth = 0
                if together:
                    yield together, hosts
                together, hosts = [], []
        if together:  # the recording ends within a group
            yield together, hosts


def _assigned(
    launched: list[dict[str, Any]], calls: list[dict[str, Any]], of_kernel: dict[int, dict[str, Any]]
) -> list[dict[str, Any]]:
    """Puts a group's calls to its kernels, one to one where their kinds allow; returns calls that share kernels."""
    named = [words.kernel_kind(kernel["name"]) for kernel in launched]
    if len(named) == len(calls) and all(
        name in (None, call["kind"]) or (name == "send_recv" and call["kind"] in ("send", "recv", "all_to_all"))
        for name, call in zip(named, calls, strict=True)
    ):
        for kernel, call in zip(launched, calls, strict=True):
            of_kernel[kernel["device_row"]] = {**call, "device": kernel["device_row"]}
        return []
    groups = {(call["group"], call["group_size"]) for call in calls}
    group = dict(zip(("group", "group_size"), groups.pop(), strict=True)) if len(groups) == 1 else {}
    for kernel in launched:
        of_kernel[kernel["device_row"]] = {**_of_name(kernel), **group, "coalesced": bool(calls)}
    return [{**call, "coalesced": True, "part_of": launched[0]["device_row"]} for call in calls]


def _of_name(kernel: dict[str, Any]) -> dict[str, Any]:
    """A kernel that nothing describes."""
    name = kernel["name"]
    kind = words.kernel_kind(name)
    return {"device": kernel["device_row"], "kind": kind, "name": name, "coalesced": False, "source": "name"}


def _sized(kind: str, call: dict[str, Any]) -> dict[str, Any]:
    """What a call says; the size of a message is that of one rank's part."""
    message, ranks = call["message"], call["group_size"]
    whole = None if message is None or ranks is None else message * ranks
    given, got = message, message
    if kind == "reduce_scatter":
        given = whole
    elif kind in _SPREAD:
        got = whole
        given = whole if kind == "all_to_all" else message
    elif kind == "scatter":
        given = whole
    elif kind in ("send", "recv"):
        given, got = (message, None) if kind == "send" else (None, message)
    return {
        "host": call["host"], "name": call["name"], "group": call["group"], "group_size": ranks, "bytes_in": given,
        "bytes_out": got, "peer": call["peer"] if kind in ("send", "recv") else None, "coalesced": False,
        "source": "range",
    }  # fmt: skip
