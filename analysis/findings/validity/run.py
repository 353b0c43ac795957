"""Did the run do what was asked for? Rules that compare a recording with its run.json, or with others."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from itertools import combinations

import polars as pl

from tracetui.analysis.base.names import of_kinds, rows_of
from tracetui.analysis.captures.observed_batch import (
    IMAGE_AXES,
    BatchSeen,
    batch_in_name,
    batch_in_shapes,
    explains,
    samples_copied,
)
from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.facts import Facts, Pair
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query, evidence
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.findings.declared.validity import V1, V8, V14, V18, V24, V25, V31
from tracetui.analysis.gpu.step_kinds import grouped, typical_ns
from tracetui.analysis.matching.one_program import COMMON_PERCENT, apart
from tracetui.parsers import Trace
from tracetui.parsers.tool_registry import BY_KIND

FLOAT_BYTES = 4
REFERENCE_CODE = r"\b(selective_scan|causal_conv1d|mamba_inner|layer_norm|rms_norm)_(ref|reference)$"
"""Names of the pure PyTorch stand-ins for CUDA kernels of mamba_ssm and causal_conv1d."""
HEAVY_FLAGS = ("with_stack", "profile_memory", "record_shapes", "with_modules", "with_flops")


@looks_for(V1)
def real_batch(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    asked, source = _asked(facts)
    seen = batch_in_shapes(facts.sel)
    image = _image_bytes(facts, seen)
    copied = samples_copied(facts.sel, image) if image else None
    counted = facts.manifest.workload.batch if facts.manifest else None
    if asked is None:
        return Abstention("the batch asked for: launch with tracetui profile --batch N")
    if counted is None and seen is None and copied is None:
        return Abstention("the batch really seen: record with record_shapes=True")
    real = _contradicting(facts, asked, counted, seen, copied, limits.off_percent)
    if real is None:
        return None
    row = str(facts.trace.host["name"][seen.row]) if seen else ""
    shape = "x".join(map(str, seen.shape)) if seen else None
    clean = facts.trace.clean_step_ns
    step_s = (statistics.median(clean) if clean else facts.run_overview.average_step_ns) / 1e9
    return Finding(
        "critical",
        f"A step holds {words.things(real, 'sample')}, not the {words.count(asked)} asked for",
        evidence(
            (f"asked for ({source})", asked),
            ("counted by the run", counted),
            (f"input of {seen.operator}" if seen else "", shape, "", Query("operators", row=row)),
            ("samples copied to the GPU per step", copied and round(copied, 2), "", Query("kernels:copies")),
            ("samples per second", round(real / step_s, 1) if step_s and facts.step_ranges.frame.height else None),
        ),
        f"{words.number(real)} / {words.count(asked)} = {words.number(real / asked)}",
    )


def _asked(facts: Facts) -> tuple[int | None, str]:
    """The batch that was asked for, and where it is written."""
    if facts.manifest and facts.manifest.workload.requested_batch:
        return facts.manifest.workload.requested_batch, "run.json"
    if facts.manifest is None and (named := batch_in_name(facts.trace.source.path.name)):
        return named, "the file's name"
    return None, ""


def _image_bytes(facts: Facts, seen: BatchSeen | None) -> int | None:
    """Bytes of one image, from the recording, else from run.json, where they are floats as loaders return them."""
    if seen is not None:
        return seen.sample_bytes if len(seen.shape) >= IMAGE_AXES else None
    shapes = facts.manifest.workload.input_shapes if facts.manifest else ()
    image = next((shape for shape in shapes if len(shape) >= IMAGE_AXES), None)
    if image is None:
        return None
    return FLOAT_BYTES * math.prod(image[1:])


def _contradicting(
    facts: Facts, asked: int, counted: int | None, seen: BatchSeen | None, copied: float | None, off_percent: float
) -> float | None:
    """The observed batch from the best source, if it is not the one asked for."""
    ranks = max(facts.trace.info.world_size or 1, 1)

    def off(batch: float) -> bool:
        return 100 * abs(batch - asked) / asked > off_percent and 100 * abs(batch * ranks - asked) / asked > off_percent

    if seen is not None:
        return None if explains(seen, asked, ranks) or not off(seen.batch) else seen.batch
    if counted is not None and off(counted):
        return counted
    # fewer bytes than expected may mean a smaller type; more bytes can't mean fewer samples
    return copied if copied is not None and copied > asked and off(copied) else None


@looks_for(V8)
def profiler_overhead(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    assert facts.manifest is not None
    measured = facts.manifest.measurement
    if not measured.clean_step_ns:
        return Abstention("steps without a profiler: launch with tracetui profile --clean-steps 10")
    clean = typical_ns(measured.clean_step_ns)
    profiled = statistics.median(measured.profiled_step_ns) if measured.profiled_step_ns else facts.step_ns
    if not clean or not profiled or (not measured.profiled_step_ns and not facts.step_ranges.frame.height):
        return Abstention("steps under the profiler: call profiler.step() after each")
    ratio = profiled / clean
    if ratio * limits.ratio < 1 and max(measured.profiled_step_ns, default=profiled) < clean:
        return _slower_without(profiled, clean)
    # one slow step among few is noise, not overhead of the profiler; recorded steps may be of another kind
    kinds = [[measured.clean_step_ns[at] for at in kind] for kind in grouped(measured.clean_step_ns) if kind.size > 1]
    longest = max((min(kind) for kind in kinds), default=clean)
    if ratio <= limits.ratio or min(measured.profiled_step_ns, default=profiled) <= max(clean, longest):
        return None
    busy = _busy_ns(facts)
    left = 100 * max(clean - busy, 0) / clean if busy is not None else None
    flags = [name for name in HEAVY_FLAGS if measured.flags.get(name)]
    return Finding(
        "info",
        f"The profiler slows a step down {words.number(ratio)} times",
        evidence(
            ("step without the profiler", clean, "ns"),
            ("step under the profiler", profiled, "ns"),
            ("GPU busy per step", busy, "ns"),
            ("at most to gain of the clean step from idle time", left, "%"),
            ("flags that cost time", ", ".join(flags) or None),
        ),
        f"{words.ns(profiled)} / {words.ns(clean)} = {words.number(ratio)}"
        + (
            f"; without it the GPU is idle for {words.ns(max(clean - (busy or 0), 0))} = {words.percent(left)}"
            if left is not None
            else ""
        ),
        advice="Compare only runs that were recorded with the same tool and flags"
        + (", or record with --no-stack." if "with_stack" in flags else "."),
        doubts=(),
    )


def _slower_without(profiled: float, clean: float) -> Finding:
    """Says that something slows steps down that the recording does not have."""
    return Finding(
        "warning",
        f"A step takes {words.number(clean / profiled)} times as long without the profiler as under it:"
        f" {words.ns(clean)}, recorded {words.ns(profiled)}; what it waits for is not in this recording",
        evidence(("step without the profiler", clean, "ns"), ("step under the profiler", profiled, "ns")),
        f"{words.ns(clean)} / {words.ns(profiled)} = {words.number(clean / profiled)}",
        advice="Record more steps, until what was loaded ahead is used up; keep other programs off the machine; and see"
        " that run.json is this recording's.",
    )


def _busy_ns(facts: Facts) -> float | None:
    """How long the busiest GPU works per step, ns."""
    if not facts.trace.has_timeline or not facts.launches.height:
        return None
    found = facts.run_overview
    busy = found.gpu["busy_percent"].drop_nulls()
    return float(busy.max()) / 100 * found.average_step_ns if busy.len() else None  # type: ignore[arg-type]


@looks_for(V14)
def not_comparable(pair: Pair, limits: Limits) -> Finding | Abstention | None:
    from tracetui.analysis.compare.comparable import OTHER_WORK

    verdict = pair.comparable
    if verdict.verdict == OTHER_WORK:
        return _other_work(pair)
    if not any(facts.manifest or facts.trace.info.devices or facts.trace.info.captured for facts in (pair.a, pair.b)):
        return Abstention("under which conditions both ran: launch with tracetui profile")
    if verdict.verdict != "not_comparable":
        return None
    matters = [row for row in verdict.differences if row.matters]
    names = words.listed([row.field for row in matters], 4)
    return Finding(
        "warning",
        f"The runs are not comparable: {words.things(len(matters), 'condition')} differ ({names})"
        if len(matters) != 1
        else f"The runs are not comparable: they differ in {names}",
        tuple(Evidence(row.field, f"{row.a} / {row.b}") for row in matters[:12]),
        "; ".join(f"{row.field}: {row.a} / {row.b}" for row in matters[:4]),
        advice="Repeat one of the runs under the conditions of the other, or take the difference as that of all of them"
        " together.",
    )


def _other_work(pair: Pair) -> Finding:
    """Says in what the work differs, and what a sample takes where that is known."""
    rows = [row for row in pair.comparable.differences if row.work]
    step = pair.diff.step
    per_sample = [
        ns / samples
        for ns, samples in zip((step.a_median_ns, step.b_median_ns), pair.samples, strict=True)
        if ns and samples
    ]
    known_both = len(per_sample) == len(pair.samples)
    return Finding(
        "warning",
        "The runs did other work: they differ in " + words.listed([row.field for row in rows], 4),
        (
            *(Evidence(row.field, f"{row.a} / {row.b}") for row in rows),
            *(
                Evidence(f"median step of {letter}, per sample", ns, "ns")
                for letter, ns in zip("AB", per_sample if known_both else (), strict=False)
            ),
        ),
        "; ".join(f"{row.field}: {row.a} / {row.b}" for row in rows)
        + (f"; per sample {words.ns(per_sample[0])} / {words.ns(per_sample[1])}" if known_both else ""),
        threshold="a step of the same work in both",
        advice="Compare the times per sample."
        if known_both
        else "Record both with the same input, or with record_shapes=True, so that times per sample can be told.",
    )


@looks_for(V18)
def reference_backend(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    backend = facts.manifest.workload.backend if facts.manifest else None
    host = facts.trace.host
    code = host["name"].filter(pl.Series(of_kinds(host["kind"], "python", "operator", "annotation", "module")))
    names = code.unique().cast(pl.String).drop_nulls()
    calls = names.filter(names.str.contains(REFERENCE_CODE)).sort().to_list()
    if backend is None and not of_kinds(host["kind"], "python").any() and not calls:
        return Abstention("which code ran: launch with tracetui profile, or record with with_stack=True")
    if backend != "reference" and not calls:
        return None
    return Finding(
        "critical",
        "A reference implementation was profiled instead of the CUDA kernels"
        + (f": {words.listed(calls, 2)}" if calls else ""),
        evidence(
            ("backend, as run.json says", backend or None),
            *(("function", name, "", Query("host", row=name)) for name in calls[:4]),
        ),
        f"backend {backend or 'unknown'}; {words.things(len(calls), 'reference function')} in the recording",
        next_command="tracetui doctor",
    )


KINDS = ("chrome", "nsys", "nvprof", "rocprof", "ncu")
"""What records kernels with the size of their launches."""


@looks_for(V31)
def of_another_run(facts: Facts, limits: Limits) -> Finding | None:
    assert facts.manifest is not None
    if (why := facts.manifest.contradicted) is None:
        return None
    title = f"run.json is not of this recording: {why}; nothing of its steps is used"
    return Finding("invalid", title, evidence(("run.json", why)), why)


@looks_for(V25)
def side_by_side(facts: Facts, limits: Limits) -> Iterator[Finding | Abstention]:
    snapshots = [_of_other_gpu(facts.trace, snapshot) for snapshot in facts.run.of_kind("memory_snapshot")]
    yield from filter(None, snapshots)
    others = [trace for trace in facts.run.traces if trace is not facts.trace and trace.info.kind in KINDS]
    of_others = [other for other in others if _of_other_tool(facts.trace, other)]
    named = [other for other in others if _is_rank_by_name(facts.trace, other)]
    if not of_others and not named and not snapshots:
        yield Abstention("another tool's recording of the same run beside this one")
        return
    agreeing = []  # what differs from this recording differs from what agrees with it too
    for other in of_others:
        if (found := _apart(facts.trace, other, limits)) is None:
            agreeing.append(other)
        else:
            yield found
    yield from filter(None, (_of_other_job(facts.trace, other, limits) for other in named))
    agreeing.sort(key=lambda trace: trace.info.kind == "ncu")
    for first, second in combinations(agreeing, 2):
        if _of_other_tool(first, second) and (found := _apart(first, second, limits)) is not None:
            yield found


def _of_other_gpu(trace: Trace, snapshot: Trace) -> Finding | None:
    """Says that a memory snapshot holds more than the GPU has."""
    from tracetui.analysis.memory.peak import over_capacity

    if (found := over_capacity(snapshot, trace)) is None:
        return None
    held, has = (words.size(size) for size in found)
    file = snapshot.source.path.name
    return Finding(
        "critical",
        f"{file} is of another GPU than {trace.source.path.name}: its allocator held {held} of {has}",
        (Evidence("held by the allocator", found[0], "byte"), Evidence("the GPU's memory", found[1], "byte")),
        f"{held} of {has}",
        threshold="no more than the GPU has",
        advice=f"Open {file} by itself: no finding is of its memory.",
        refutes=(),
        doubts=(),
    )


def _of_other_tool(trace: Trace, other: Trace) -> bool:
    """Whether another tool recorded the same rank; ranks may do other work."""
    ranks = {rank for rank in (trace.info.rank, other.info.rank) if rank is not None}
    return trace.info.kind != other.info.kind and len(ranks) < 2


def _is_rank_by_name(trace: Trace, other: Trace) -> bool:
    """Whether the same tool recorded another rank, as far as the files' names tell: no file says of how many."""
    ours, theirs = trace.info, other.info
    known = None not in (ours.rank, theirs.rank)
    return (
        ours.kind == theirs.kind and known and ours.rank != theirs.rank and ours.world_size is theirs.world_size is None
    )


def _of_other_job(trace: Trace, other: Trace, limits: Limits) -> Finding | None:
    """Says that what is named like a rank has hardly a kernel of this one; sizes and batches of ranks may differ."""
    compared = apart(trace, other)
    if compared.common_percent >= limits.ranks_percent:
        return None
    file, share = other.source.path.name, words.percent(compared.common_percent)
    return Finding(
        "warning",
        f"{file} is named like a rank of {trace.source.path.name}, but is of another program: "
        f"{share} of its kernel time is in kernels of both",
        (Evidence("its kernel time in kernels of both", compared.common_percent, "%"),),
        f"{share} of its kernel time",
        advice=(f"Do not compare them as ranks: open {file} by itself, and give it a name without a rank."),
    )


def _apart(trace: Trace, other: Trace, limits: Limits) -> Finding | None:
    """Says in what another recording differs from this one."""
    compared = apart(trace, other)
    differences = compared.differs(limits.alike_percent)
    if not differences:
        return None
    file, kind = other.source.path.name, other.info.kind
    told = "; ".join(f"{each.what} {each.ours} here, {each.theirs} there" for each in differences)
    return Finding(
        "critical",
        f"{file} is of another run than {trace.source.path.name}: "
        + words.listed([each.what for each in differences])
        + (" differ" if len(differences) > 1 else " differs"),
        (
            *(Evidence(each.what, f"{each.ours} / {each.theirs}") for each in differences),
            Evidence("its kernel time in kernels of both", compared.common_percent, "%"),
            Evidence(
                "its time in launches of a size that this recording has",
                compared.alike_percent,
                "%",
                Query("kernels", row=compared.kernel),
            ),
        ),
        f"{told}; {words.percent(compared.common_percent)} of its kernel time is in kernels of both,"
        f" {words.percent(compared.alike_percent)} of that in launches of equal size",
        threshold=f"the same GPU and batch, {words.percent(COMMON_PERCENT)} of its time in kernels of both, and"
        f" {words.percent(limits.alike_percent)} of that in launches of equal size",
        advice=(f"Do not read its numbers beside these: open {file} by itself, or record this program again with it."),
        # only Nsight Compute's numbers stand beside kernels, and only its findings rest on another file
        refutes=("counters",) if kind == "ncu" else (),
        doubts=(),
    )


@looks_for(V24)
def several_processes(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    from tracetui.analysis.attribution.launch_calls import launch_calls

    trace = facts.trace
    calls = launch_calls(trace)
    launched = rows_of(trace.device.select("kind", "device", "process", "launch"), "kernel", "graph").drop("kind")
    by = pl.Series("by", trace.host["process"].gather(launched["launch"]))
    launched = launched.with_columns(by=pl.coalesce(by, "process")).drop_nulls("by")
    # activities of two processes with the same correlations all seem to be launched by one
    processes = calls.select(by="process") if calls.height else launched.select("by")
    if not processes.height:
        return Abstention("which process launched the GPU work: record the CUDA API too")
    counts = processes.drop_nulls().group_by("by").agg(launches=pl.len())
    counts = counts.filter(100 * pl.col("launches") / processes.height > limits.share_percent)
    if counts.height < 2:
        return None
    shared = launched.filter(pl.col("by").is_in(counts["by"].implode())).group_by("device").agg(pl.col("by").n_unique())
    on_one = shared.height < counts.height or int((shared["by"] > 1).sum()) > 0
    merged = not BY_KIND[trace.info.kind].many_processes
    counts = counts.sort("launches", descending=True)
    where = "on the same GPU" if on_one else "on GPUs of their own"
    return Finding(
        "critical" if merged or on_one else "warning",
        f"{counts.height} processes launched the GPU work, {where}: "
        + ("the file was mixed of several recordings" if merged else "sums are of all of them"),
        tuple(
            Evidence(f"launches of process {process}", launches, query=Query("host:API calls", "Launch"))
            for process, launches in counts.select("by", "launches").head(6).iter_rows()
        ),
        " + ".join(words.count(launches) for launches in counts["launches"].head(6))
        + f" of {words.count(processes.height)} launches",
    )
