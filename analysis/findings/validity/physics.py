"""Is the recording possible on this GPU? A rate above the GPU's peak means that something was recorded wrongly."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
from msgspec import Struct

from tracetui.analysis.base import names
from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query, evidence
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.findings.declared.validity import V15

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.roofline.peaks import Peak, Peaks
    from tracetui.parsers.runs.manifest import RunManifest

PRODUCTS = frozenset({"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::linear", "aten::matmul"})
"""Operators whose FLOPs are certain. Convolutions are left out: Winograd and FFT need fewer than the definition."""
STREAMS = frozenset(
    {"aten::add", "aten::add_", "aten::mul", "aten::mul_", "aten::sub", "aten::div", "aten::div_", "aten::copy_"}
)
"""Operators that read and write each element once."""
ALSO = {"fp32": "tf32_tensor", "fp64": "fp64_tensor", "fp16": "fp16_tensor", "bf16": "bf16_tensor"}
"""Precisions in which a product of this type may be computed, whatever the kernel is called."""
OF_TYPE = {"fp32": "fp32", "tf32": "tf32_tensor", "bf16": "bf16", "fp64": "fp64"}
"""The precision of each type that a run may name; other types get the fastest common one."""
CACHE_MIB = {"6.0": 4, "6.1": 3, "7.0": 6, "7.2": 0.5, "7.5": 6, "8.0": 40, "8.6": 6, "8.7": 4, "8.9": 72, "9.0": 60}
"""Size of the L2 cache by compute capability; other GPUs get the largest that exists."""
LARGEST_CACHE_MIB = 128
MHZ = 1e6
_NO_WORK = (
    "work whose size is known: shapes were recorded, but of no matrix product, elementwise operator or copy that takes"
    " long enough"
)


class Rate(Struct, frozen=True):
    """An achieved rate and the peak that it is compared with."""

    what: str
    achieved: float
    """FLOP/s or byte/s."""
    peak: Peak
    unit: str
    query: Query | None = None

    @property
    def percent(self) -> float:
        """The achieved rate in percent of the peak."""
        return 100 * self.achieved / self.peak.value


@looks_for(V15)
def physics(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    from tracetui.analysis.roofline.peaks import peaks_of

    mislabelled = _mode_and_caps(facts, limits) or _name_and_capability(facts)
    mislabelled = mislabelled or _context_of_two_gpus(facts) or _in_turns_on_two_gpus(facts)
    if mislabelled is not None:
        return mislabelled
    # peaks from another tool's recording hold at the clocks of that recording
    peaks = peaks_of(replace(facts.run, traces=(facts.trace,)), facts.trace, measured=False)
    if not peaks.compute and peaks.bandwidth is None:
        return Abstention("; ".join(peaks.unknown) or "the GPU's peaks")
    rates = [*_of_operators(facts, peaks, limits), *_of_copies(facts, peaks, limits), *_of_steps(facts, peaks)]
    if not rates:
        return Abstention(
            _NO_WORK if facts.records_shapes else "work whose size is known: record with record_shapes=True"
        )
    over = [rate for rate in rates if rate.percent > _allowed(rate, limits)]
    if not over:
        return None
    over.sort(key=lambda rate: -rate.percent)
    worst = over[0]
    allowed = _allowed(worst, limits)
    before = facts.manifest.power.before if facts.manifest else None
    clock = "memory bandwidth" if worst.unit == "byte/s" else "clock"
    return Finding(
        "critical",
        f"{worst.what} reaches {words.percent(worst.percent)} of the peak of this GPU: what is recorded can't be right",
        evidence(
            *((rate.what, rate.achieved, rate.unit, rate.query) for rate in over[:6]),
            ("peak", worst.peak.value, worst.unit),
            ("peak from", worst.peak.source),
            ("power mode", before.mode_name if before else None),
        ),
        f"{_rate(worst.achieved, worst.unit)} / {_rate(worst.peak.value, worst.unit)} = "
        f"{words.percent(worst.percent)}; peak: {worst.peak.about}",
        threshold=f"more than {words.percent(allowed)} of the peak ({worst.peak.source})",
        advice=f"The run needs at least {words.number(worst.percent / 100)} times the recorded {clock}:"
        " look up the power mode, the clocks and the GPU it really had, and the real shapes.",
        next_command="tracetui doctor",
        doubts=("gpu", "shares", "whole", "clock") if worst.percent > limits.wrong_percent else None,
    )


def _allowed(rate: Rate, limits: Limits) -> float:
    return limits.table_percent if rate.peak.source == "table" else limits.known_percent


def _rate(value: float, unit: str) -> str:
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if value >= scale:
            return f"{words.number(value / scale)} {prefix}{'B' if unit == 'byte/s' else 'FLOP'}/s"
    return f"{words.number(value)} {unit}"


def _of_operators(facts: Facts, peaks: Peaks, limits: Limits) -> list[Rate]:
    """Rates of operators with known shapes, summed over the launches of each kernel and operator."""
    from tracetui.analysis.roofline.shapes import shape_work
    from tracetui.parsers.names import kernel_names

    table = shape_work(facts.recorded, kernel_names.uses_tensor_cores)
    long = pl.col("total_ns") >= 1000 * limits.least_us * pl.col("launches")
    table = table.filter(long & (pl.col("total_ns") > 0) & pl.col("flops").is_not_null())
    rates = []
    for row in table.iter_rows(named=True):
        seconds = row["total_ns"] / 1e9 / row["launches"]
        query = Query("kernels", row=row["name"])
        if row["operator"] in PRODUCTS and (peak := _compute_peak(peaks, row["precision"])) is not None:
            rates.append(
                Rate(f"{row['operator']} in {row['precision']}", row["flops"] / seconds, peak, "FLOP/s", query)
            )
        elif row["operator"] in STREAMS and peaks.bandwidth and row["bytes"] >= _far_larger(peaks, limits):
            rates.append(Rate(str(row["operator"]), row["bytes"] / seconds, peaks.bandwidth, "byte/s", query))
    return rates


def _compute_peak(peaks: Peaks, precision: str) -> Peak | None:
    """The highest peak at which products of this type may be computed."""
    known = [peaks.compute.get(name) for name in (precision, ALSO.get(precision.removesuffix("_tensor"), ""))]
    return max((peak for peak in known if peak is not None), key=lambda peak: peak.value, default=None)


def _far_larger(peaks: Peaks, limits: Limits) -> float:
    """The size above which no large part of the data fits in the L2 cache, bytes."""
    return limits.caches * CACHE_MIB.get(peaks.capability or "", LARGEST_CACHE_MIB) * (1 << 20)


def _of_copies(facts: Facts, peaks: Peaks, limits: Limits) -> list[Rate]:
    """Rates of copies within the GPU, which count as both read and written, and of copies to or from it."""
    if peaks.bandwidth is None:
        return []
    copies = facts.sel.device.filter((pl.col("kind") == "memcpy") & (pl.col("duration") > 0))
    copies = copies.filter(pl.col("duration") >= 1000 * limits.least_us)
    copies = copies.filter(pl.col("bytes") >= _far_larger(peaks, limits)).select(
        pl.col("name").cast(pl.String), "bytes", seconds=pl.col("duration") / 1e9
    )
    rates = []
    for (name,), rows in copies.group_by("name"):
        factor = 2 if "DtoD" in str(name) or "Device-to-Device" in str(name) else 1
        fastest = float((factor * rows["bytes"] / rows["seconds"]).max())  # type: ignore[arg-type]
        rates.append(Rate(str(name), fastest, peaks.bandwidth, "byte/s", Query("kernels:copies", row=str(name))))
    return rates


def _of_steps(facts: Facts, peaks: Peaks) -> list[Rate]:
    """The rate of whole steps: the work counted in run.json over the time of the kernels."""
    manifest = facts.manifest
    if manifest is None or not manifest.workload.flops_per_step or not facts.sel.steps.height or not facts.kernel_ns:
        return []
    peak = _compute_peak(peaks, OF_TYPE.get(manifest.workload.dtype or "", "fp16"))
    seconds = facts.per_step(facts.kernel_ns) / 1e9
    return [Rate("The whole step", manifest.workload.flops_per_step / seconds, peak, "FLOP/s")] if peak else []


def _mode_clock(manifest: RunManifest, mode: str) -> float | None:
    """The GPU's highest clock in the Jetson power mode of this name, Hz; None if it is not known."""
    from tracetui.analysis.roofline.peaks import table

    words_of = [w for d in manifest.device[:1] for w in (d.board, d.module_id, *d.compatible) if w]
    module = next((row for row in table()["jetson"] if re.search(row["match"], " ".join(words_of))), None)
    modes = (module or {}).get("modes", ())
    found = next((row for row in modes if re.fullmatch(f"(?:{row['mode']})(?:_SUPER)?", mode, re.IGNORECASE)), None)
    return None if found is None else found["mhz"] * MHZ


def _mode_and_caps(facts: Facts, limits: Limits) -> Finding | None:
    """Finds a power mode whose name implies another clock than the cap in force."""
    manifest = facts.manifest
    before = manifest.power.before if manifest else None
    if manifest is None or before is None or not before.mode_name or not before.gpus or not before.gpus[0].max_clock_hz:
        return None
    cap, expected = before.gpus[0].max_clock_hz, _mode_clock(manifest, before.mode_name)
    if expected is None or 100 * abs(cap - expected) / expected <= limits.mode_percent:
        return None
    return Finding(
        "critical",
        f"The power mode is called {before.mode_name}, which has {expected / MHZ:.0f} MHz, but the GPU was capped at "
        f"{cap / MHZ:.0f} MHz",
        (
            Evidence("power mode", before.mode_name),
            Evidence("clock of that mode", expected, "Hz"),
            Evidence("cap in force", cap, "Hz"),
        ),
        f"{cap / MHZ:.0f} / {expected / MHZ:.0f} MHz = {words.percent(100 * cap / expected)}",
        advice="Believe the caps, not the name: sudo nvpmodel -m ID and a restart make them agree.",
        next_command="tracetui doctor",
    )


def _name_and_capability(facts: Facts) -> Finding | None:
    """Finds a GPU of another name, memory or compute capability than its work or another part of the file has."""
    from tracetui.analysis.memory.peak import over_capacity
    from tracetui.analysis.roofline.peaks import named_capability
    from tracetui.parsers.names.kernel_names import built_for

    used = set(facts.trace.device["device"].unique().drop_nulls())
    if (found := over_capacity(facts.trace, facts.trace)) is not None:
        held, has = (words.size(size) for size in found)
        return _misnamed(f"The GPU has {has} as recorded, and {held} of it were in use", "memory", held, has)
    names = {device.id: device.name for device in reversed(facts.trace.info.devices) if device.name}
    for device in facts.trace.info.devices:
        if device.id in used and device.name not in (None, first := names.get(device.id)):
            told = f"GPU {device.id} is called {first} and {device.name}"
            return _misnamed(told, "name", device.name, first)
    for device in facts.trace.info.devices:
        stated = device.compute_capability
        if device.id not in used or not stated or not re.fullmatch(r"\d+\.\d", stated):
            continue
        of_name = named_capability(device)
        if of_name not in (None, stated):
            told = f"The GPU is called {device.name}, which has compute capability {of_name}, but is recorded with"
            return _misnamed(f"{told} {stated}", "compute capability", of_name, stated)
        own = facts.trace.device.filter(pl.col("device") == device.id)["name"].unique().cast(pl.String).drop_nulls()
        built = {made: name for name in own.sort() if (made := built_for(name))}
        if (newest := max(built, default=0)) > int(stated.replace(".", "")):
            needs = f"{newest // 10}.{newest % 10}"
            told = f"The GPU is recorded with compute capability {stated}, but ran {built[newest][:40]}, which needs"
            return _misnamed(f"{told} {needs}", "compute capability", needs, stated)
    return None


def _misnamed(title: str, what: str, elsewhere: str | None, stated: str | None) -> Finding:
    return Finding(
        "critical",
        title,
        evidence((f"{what} recorded", stated), ("elsewhere in the file", elsewhere)),
        f"{elsewhere} and {stated}",
        threshold=f"the same {what}",
        advice="Find out which GPU it was (nvidia-smi), or take the file as the profiler wrote it. The peaks of the"
        " named GPU are not used.",
    )


QUEUED_NS, OVERLAP_NS, LEAST_TURNS, MOST_IN_TURN = 20_000, 5_000, 20, 0.95
"""GPU work that was launched so long before the work in front of it ended waits in a queue. Of so many changes from one
GPU to another nearly all that waited for the other GPU to end are no chance. A kernel may begin while the one in front
of it runs out (programmatic dependent launch)."""
_ORDERED = re.compile(r"(Stream(WaitEvent|WaitValue)|Memcpy.*Peer|GraphLaunch|LaunchCooperativeKernelMulti)")
"""Calls by which work of one GPU may wait for another's."""


def _in_turns_on_two_gpus(facts: Facts) -> Finding | None:
    """Finds work that waits in one queue though it is said to be on several GPUs, where nothing orders theirs."""
    host = facts.trace.host
    work = facts.trace.device.select("start", "duration", "device", "launch").drop_nulls().sort("start")
    if work["device"].n_unique() < 2 or names.matching(host["name"], lambda name: bool(_ORDERED.search(name))).any():
        return None
    start, launch, gpu = (work[name].to_numpy() for name in ("start", "launch", "device"))
    end, process = start + work["duration"].to_numpy(), host["process"].gather(launch).to_numpy()
    launched = (host["start"].gather(launch) + host["duration"].gather(launch)).to_numpy()
    turns = (gpu[1:] != gpu[:-1]) & (process[1:] == process[:-1]) & (launched[1:] < end[:-1] - QUEUED_NS)
    waited = int((start[1:] >= end[:-1] - OVERLAP_NS)[turns].sum())
    number = int(turns.sum())
    if number < LEAST_TURNS or waited < MOST_IN_TURN * number:
        return None
    return _wrong_gpus(
        f"Work on GPUs {_listed(work['device'].unique())} waits in one queue, as that of a single GPU does",
        (
            Evidence("changes from one GPU to another while the next work was launched already", number),
            Evidence("of these, begun when the other GPU's work had ended", waited, query=Query("kernels")),
        ),
        f"{words.count(waited)} of {words.count(number)} = {words.percent(100 * waited / number)}",
        f"{words.percent(100 * MOST_IN_TURN)} or more, where no event, copy or graph makes one GPU wait for another",
    )


def _listed(gpus: pl.Series) -> str:
    return words.listed([str(device) for device in gpus.sort()], 4)


def _wrong_gpus(title: str, shown: tuple[Evidence, ...], formula: str, threshold: str) -> Finding:
    return Finding(
        "critical",
        f"{title}: which GPU did what is wrong",
        shown,
        formula,
        threshold=threshold,
        advice="Take the file as the profiler wrote it. Sums over all GPUs hold, what is said of each does not.",
        doubts=("gpu", "shares", "whole"),
    )


def _context_of_two_gpus(facts: Facts) -> Finding | None:
    """Finds work of one context on several GPUs, though CUDA makes each context for one."""
    trace = facts.trace
    work = trace.device.select("name", "device", "context", "launch").drop_nulls()
    # files that were mixed have equal contexts of several processes; 0 is none
    by = pl.Series("by", trace.host["process"].gather(work["launch"]))
    counts = work.with_columns(by).filter(pl.col("context") > 0).group_by("by", "context", "device").agg(n=pl.len())
    counts = counts.filter(pl.len().over("by", "context") > 1).sort(
        "by", "context", "n", descending=[False, False, True]
    )
    if not counts.height:
        return None
    context, of_it = (
        counts["context"][0],
        counts.filter(pl.struct("by", "context") == pl.struct("by", "context").first()),
    )
    return _wrong_gpus(
        f"Work of one context is on GPUs {_listed(of_it['device'])}, though a context belongs to one",
        tuple(
            Evidence(f"activities of context {context} on GPU {device}", n, query=Query("kernels"))
            for device, n in of_it.select("device", "n").head(6).iter_rows()
        ),
        " and ".join(words.count(n) for n in of_it["n"].head(6)),
        "one GPU for each context",
    )
