"""Whether two runs may be compared: what their manifests and their recordings' headers say differs between them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.compare.other_work import work_differences
from tracetui.analysis.compare.run_conditions import CLOCK_TOLERANCE_PERCENT, Difference, run_differences
from tracetui.analysis.counters.compared import identities
from tracetui.analysis.roofline.counters import precision_words
from tracetui.analysis.roofline.peaks import SM_CLOCK
from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.kernel_names import short_name
from tracetui.parsers.names.kernel_types import FLOATING, KINETO_TYPES, type_in_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tracetui.analysis.base.json_values import Json
    from tracetui.parsers import Trace
    from tracetui.parsers.runs.manifest import RunManifest


OTHER_WORK = "other_work"
"""The verdict on runs whose steps hold other work."""
NEVER_EQUAL = frozenset({"trace_id", "host_name", "schemaVersion", "export schema", "page"})
"""Header entries that differ in every recording, or that say nothing about its times."""
FLAGS = frozenset({"record_shapes", "with_stack", "profile_memory", "with_flops", "with_modules"})
"""Settings of torch.profiler that slow the host down; it writes only those that are on."""
CONDITIONS = FLAGS | {
    "traced", "capture starts", "CUDA graph trace", "GPU memory usage", "platform", "architecture", "CPU", "CPU cores",
    "hardware platform",
}  # fmt: skip
"""Header entries that times depend on even for the same code: how nsys recorded, and on what machine."""
VERSIONS = frozenset({"NVIDIA driver", "CUDA driver", "cuda_runtime_version", "cuda_driver_version", "cupti_version"})
"""Header entries that may be the very change that is being compared."""
IN_MANIFEST = FLAGS | VERSIONS
"""Header entries that run.json has too."""


def comparable(a: Trace, b: Trace, *, manifests: tuple[RunManifest | None, RunManifest | None] = (None, None)) -> Json:
    """Returns the verdict and every difference.

    Args:
        a: the base.
        b: what is compared with it.
        manifests: their runs' run.json, where they have one.

    Returns:
        ``verdict`` and ``differences``, each with ``field``, ``a``, ``b``, ``matters``, ``intended`` and ``work``. The
        verdict is ``not_comparable`` if any difference matters (another GPU, power mode, clock, tool, profiler setting,
        …): times then prove nothing about the code. Otherwise it is ``other_work`` if a step of one holds other work
        than a step of the other (batch, size of a sample), so that times per step can't be judged. Otherwise it is
        ``explained`` if somebody chose any difference (type, options, code, versions): that is what the comparison is
        about. It is ``comparable`` if nothing of this is so.
    """
    found = [*_of_traces(a, b), *(counter_differences(a, b) or work_differences(a, b, manifests))]
    both = manifests[0] is not None and manifests[1] is not None
    if manifests[0] is not None and manifests[1] is not None:
        found += run_differences(manifests[0], manifests[1])
    found += _of_headers(a, b, skip=IN_MANIFEST if both else frozenset())
    if not both or all(m is not None and m.workload.dtype is None for m in manifests):
        types = element_type(a), element_type(b)
        if None not in types and types[0] != types[1]:
            found.append(Difference("dtype", *types, intended=True))
    seen: dict[str, Difference] = {}
    for row in found:
        seen.setdefault(row.field, row)
    rows = sorted(seen.values(), key=lambda row: (not row.matters, not row.work, not row.intended))
    return {"verdict": verdict_of(rows), "differences": [row.json() for row in rows]}


def verdict_of(rows: list[Difference]) -> str:
    """``not_comparable``, ``other_work``, ``explained`` or ``comparable``."""
    if any(row.matters for row in rows):
        return "not_comparable"
    if any(row.work for row in rows):
        return OTHER_WORK
    return "explained" if any(row.intended for row in rows) else "comparable"


def _of_traces(a: Trace, b: Trace) -> list[Difference]:
    """Differences between the recordings themselves."""
    found: list[Difference] = []

    def compare(field: str, left: object, right: object, *, unknown: object = None) -> None:
        if left != right and unknown not in (left, right):
            found.append(Difference(field, left, right, matters=True))

    compare("tool", a.info.tool, b.info.tool)
    # a recording that does not say how many ranks there were counts as one rank
    if (a.info.world_size or 1) != (b.info.world_size or 1):
        found.append(Difference("world_size", a.info.world_size, b.info.world_size, matters=True))
    compare("gpu", _gpus(a, "name"), _gpus(b, "name"))
    compare("SMs", _gpus(a, "sm_count"), _gpus(b, "sm_count"))
    if a.has_timeline and b.has_timeline:
        marked = a.steps.height, b.steps.height
        if 0 in marked and marked[0] != marked[1]:
            # then the numbers of one are per step and those of the other are of the whole file
            found.append(Difference("steps", marked[0], marked[1], matters=True))
        elif marked[0] != marked[1]:
            found.append(Difference("steps", marked[0], marked[1]))
    return found


def _gpus(trace: Trace, what: str) -> list[object] | None:
    """A property of each GPU that did work (of all, where none did); None where one is unknown."""
    used = set(trace.device["device"].drop_nulls().unique().to_list())
    devices = [device for device in trace.info.devices if device.id in used] or trace.info.devices
    found = [getattr(device, what) for device in devices]
    return None if not found or None in found else found


def _of_headers(a: Trace, b: Trace, *, skip: frozenset[str]) -> list[Difference]:
    left, right = dict(a.info.captured), dict(b.info.captured)
    # what the files of one tool never record is no difference between the runs
    fields = left.keys() | right.keys() if a.info.tool == b.info.tool else left.keys() & right.keys()
    found = []
    for field in sorted(fields - NEVER_EQUAL - skip):
        if (ours := _setting(left, field)) != (theirs := _setting(right, field)):
            known = None not in (ours, theirs)
            condition = field in CONDITIONS
            found.append(Difference(field, ours, theirs, condition and known, known and field in VERSIONS))
    return found


def _setting(captured: Mapping[str, str], field: str) -> str | None:
    """The value of a header entry; a flag that is missing is off, if the header has other flags."""
    if field in FLAGS and field not in captured and FLAGS & captured.keys():
        return "0"
    return captured.get(field)


MULTIPLYING = (
    "aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::convolution", "aten::_convolution", "aten::linear",
)  # fmt: skip
"""Operators whose first input tells what is multiplied. The operators that these call are left out, or they would count
twice."""
LEAST_KNOWN = 0.5
"""Many names tell no type: if less than this share of the time has one, the type of the run is unknown."""


def element_type(trace: Trace) -> str | None:
    """``fp32``, ``tf32``, ``fp16``, ``bf16``, ``fp64`` or ``fp8``; None where neither operators nor kernels tell.

    Operators: the type of the first input of most multiplications (that TF32 was allowed does not show there).
    Kernels: the type in the names of matrix, convolution, attention and scan kernels, by their time.
    """
    return _of_operators(trace) or _of_kernels(trace)


def _of_operators(trace: Trace) -> str | None:
    called = (
        trace.host.filter(pl.col("kind") == "operator")
        .filter(pl.col("name").cast(pl.String).is_in(MULTIPLYING) & pl.col("input_types").is_not_null())
        .group_by(pl.col("input_types").cast(pl.String))
        .len()
    )
    count: dict[str, int] = {}
    for text, many in called.iter_rows():
        if (found := _first_type(text)) is not None:
            count[found] = count.get(found, 0) + many
    return max(count, key=lambda name: (count[name], name)) if count else None


def _first_type(text: str) -> str | None:
    """The first element type in an operator's list of inputs (addmm's bias has the type of what is multiplied)."""
    try:
        inputs = json.loads(text)
    except ValueError:
        return None
    known = (KINETO_TYPES[name][0] for name in inputs if isinstance(name, str) and name in KINETO_TYPES)
    return next((name for name in known if name in FLOATING), None) if isinstance(inputs, list) else None


def _of_kernels(trace: Trace) -> str | None:
    spent = (
        trace.device.filter(pl.col("kind") == "kernel")
        .group_by(pl.col("name").cast(pl.String))
        .agg(pl.col("duration").sum())
    )
    time: dict[str | None, int] = {}
    for name, ns in spent.iter_rows():
        if kernel_names.category(name) in ("gemm", "conv", "attention", "scan"):
            found = type_in_name(name)
            time[found] = time.get(found, 0) + ns
    whole = sum(time.values())
    told = {sort: ns for sort, ns in time.items() if sort is not None}
    if not told or sum(told.values()) < LEAST_KNOWN * whole:
        return None
    return max(told, key=lambda sort: (told[sort], sort))


MOST = 3
"""How many kernels are named at most."""


def counter_differences(a: Trace, b: Trace) -> list[Difference]:
    """Every difference between two reports; empty where either is of another tool."""
    if not a.info.kind == b.info.kind == "ncu":
        return []
    types = precision_words(a), precision_words(b)
    found = [Difference("dtype", *types, intended=True)] if None not in types and types[0] != types[1] else []
    # another type takes other kernels for the same work
    chosen = bool(found) and not any("," in str(words) for words in types)
    return [*found, *_clock(a, b), *_launches(a, b, work=not chosen)]


def _clock(a: Trace, b: Trace) -> Iterator[Difference]:
    """The mean clock of the SMs, at which ncu measured."""
    ours, theirs = sm_clock(a), sm_clock(b)
    if ours and theirs and abs(theirs / ours - 1) > CLOCK_TOLERANCE_PERCENT / 100:
        yield Difference("SM clock of the measurement, Hz", round(ours), round(theirs), matters=True)


def sm_clock(trace: Trace) -> float | None:
    """Mean over the launches; None where it was not collected."""
    rows = trace.counters.filter(
        pl.col("metric").cast(pl.String).is_in([*SM_CLOCK, "SM Frequency"]) & pl.col("value").is_not_null()
    )
    if not rows.height:
        return None
    # one metric of the file, so that launches count alike
    first = str(rows["metric"].cast(pl.String)[0])
    return float(rows.filter(pl.col("metric").cast(pl.String) == first)["value"].sum()) / max(
        rows.filter(pl.col("metric").cast(pl.String) == first).height, 1
    )


def _launches(a: Trace, b: Trace, *, work: bool) -> Iterator[Difference]:
    """How many launches of which kernels, and of what size those of both are.

    Args:
        a: the base.
        b: what is compared with it.
        work: whether other kernels mean other work.
    """
    ours, theirs = (_of(trace) for trace in (a, b))
    kernels = identities([ours["name"].to_list(), theirs["name"].to_list()])
    ours, theirs = (
        rows.with_columns(kernel=pl.Series([kernels[name] for name in rows["name"]], dtype=pl.String))
        for rows in (ours, theirs)
    )
    if ours.height != theirs.height:
        yield Difference("profiled launches", ours.height, theirs.height, work=work)
    mine, its = (set(rows["kernel"]) for rows in (ours, theirs))
    if mine != its:
        yield Difference("kernels", _only(ours, mine - its, "B"), _only(theirs, its - mine, "A"), work=work)
    apart = [
        (kernel, left, right)
        for kernel in dict.fromkeys(ours.sort("ns", descending=True, nulls_last=True)["kernel"])
        if kernel in its and (left := _sizes(ours, kernel)) != (right := _sizes(theirs, kernel))
    ]
    for kernel, left, right in apart[:MOST]:
        name = short_name(str(ours.filter(pl.col("kernel") == kernel)["name"][0]))
        yield Difference(f"grid x block of {name}", left, right, work=True)
    if len(apart) > MOST:
        more = f"{len(apart) - MOST} more kernels"
        yield Difference("grid x block", f"of {more}", "otherwise", work=True)


def _of(trace: Trace) -> pl.DataFrame:
    return trace.device.filter(pl.col("kind") == "kernel").select(
        pl.col("name").cast(pl.String), "grid", "block", ns="duration"
    )


def _only(rows: pl.DataFrame, kernels: set[str], other: str) -> str:
    """Names the kernels that only one report has, the longest first: ``4 not in B: a, b, c and 1 more``."""
    spent = rows.filter(pl.col("kernel").is_in(list(kernels))).group_by("kernel").agg(
        pl.col("ns").sum(), pl.col("name").first()
    )  # fmt: skip
    names = [short_name(str(name)) for name in spent.sort("ns", "name", descending=[True, False])["name"]]
    if not names:
        return f"all in {other} too"
    rest = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return f"{len(names)} not in {other}: {', '.join(names[:MOST])}{rest}"


def _sizes(rows: pl.DataFrame, kernel: str) -> str:
    """Grid and block of a kernel's launches, each with how often: ``96x2x1 x 128x1x1 (3)``."""
    sizes = rows.filter(pl.col("kernel") == kernel).group_by("grid", "block", maintain_order=True).len()
    found = sorted(f"{_words(grid)} x {_words(block)} ({many})" for grid, block, many in sizes.iter_rows())
    return ", ".join(found[:MOST]) + (f" and {len(found) - MOST} more" if len(found) > MOST else "")


def _words(size: list[int] | None) -> str:
    return "unknown" if size is None else "x".join(map(str, size))
