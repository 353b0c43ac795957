"""The figure behind each point of the checklist; empty where the recording does not tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.findings.core import hints, shown, waiting, words

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts


def host_work(facts: Facts) -> str:
    """What the step would gain without work of the host other than launching."""
    from tracetui.analysis.findings.host.launching import without_host

    if facts.missing(("timeline", "gpu", "api")) or facts.unknown(("host",)) or facts.host_model is None:
        return ""
    found = without_host(facts, launching=False)
    if found is None or found.ceiling_percent is None:
        return "the GPU is the limit, not the host"
    share = words.percent(found.ceiling_percent)
    return f"without the host's other work than launching {hints.span(facts)} would be {share} shorter"


def loading(facts: Facts) -> str:
    """How long the step waits for data and copies it."""
    from tracetui.analysis.findings.host.transfers import HTOD, copies_of

    if not facts.trace.has_timeline or not facts.step_ns:
        return ""
    said = []
    if facts.loader is not None:
        share = words.percent(facts.ceiling(facts.loader.waited_ns) or 0)
        said.append(f"the wait for data is {share} of {shown.recorded_span(facts)}")
    if not facts.missing(("gpu",)):
        base = shown.shown(facts)
        spent = float(copies_of(base.of_steps).filter(pl.col("direction") == HTOD)["ns"].sum())
        share = words.percent(base.share(base.per_step(spent)) or 0)
        said.append(f"copies to the GPU take {share} of {base.span}")
    return ", ".join(said)


def longest_kernel(facts: Facts) -> str:
    """The kernel with the most time."""
    known = facts.kernels.filter(pl.col("total_ns").is_not_null() & (pl.col("category") != "communication"))
    whole = int(known["total_ns"].sum())
    if not whole:
        return ""
    first = known.row(0, named=True)
    share = words.percent(100 * first["total_ns"] / whole)
    return f"the longest of {words.things(known.height, 'kernel')}, {first['short_name']}, takes {share} of kernel time"


def allocation(facts: Facts) -> str:
    """What the steps ask the driver for, and the peak."""
    from tracetui.analysis.findings.host.allocation import allocations

    said = []
    if facts.trace.has_timeline and not facts.missing(("api", "steps")):
        calls = allocations(facts)
        spent = words.ns(facts.per_step(float(calls["duration"].sum())))
        many = words.things(calls.height, "call")
        said.append(f"{many} for memory in the steps" + (f", {spent} per step" if calls.height else ""))
    held = facts.memory
    if held.peak_allocated_bytes is not None:
        place = "" if held.on_gpu else " on the host"
        peak = f"tensors hold {words.size(held.peak_allocated_bytes)}{place} at most"
        if held.peak_reserved_bytes:
            peak += f", the allocator {words.size(held.peak_reserved_bytes)}"
        said.append(peak)
    return ", ".join(said)


def waits(facts: Facts) -> str:
    """How often and how long waits of the host leave the GPU idle."""
    if facts.missing(("timeline", "gpu", "api")) or facts.unknown(("host",)):
        return ""
    from tracetui.analysis.findings.host.synchronisation import waits as waits_of

    found = waits_of(facts).frame
    stalls = found.filter(pl.col("stall_ns") > 0)
    if not found.height:
        return "the host never waits for the GPU"
    share = words.percent(facts.ceiling(facts.per_step(float(stalls["stall_ns"].sum()))) or 0)
    many = f"{stalls.height} of {found.height} waits for the GPU"
    return f"{many} leave it idle, for {share} of {shown.recorded_span(facts)}"


def sm_use(facts: Facts) -> str:
    """How much of the multiprocessors is used."""
    if facts.trace.has_timeline and facts.run_overview.gpu.height:
        gpu = facts.run_overview.gpu
        mean = {name: gpu[name].mean() for name in ("sm_efficiency_percent", "occupancy_percent")}
        said = [
            f"{what} {words.percent(float(value))}"  # type: ignore[arg-type]
            for what, value in zip(("SM efficiency", "occupancy"), mean.values(), strict=True)
            if value is not None
        ]
        if mean["sm_efficiency_percent"] is not None:
            return ", ".join(said)
    share = _measured(facts, "sm_percent")
    return "" if share is None else f"SMs work at {words.percent(share)} of their peak in the measured launches"


def bandwidth_use(facts: Facts) -> str:
    """How much of the memory's bandwidth the kernels use."""
    share = _measured(facts, "dram_percent")
    if share is not None:
        return f"DRAM moves {words.percent(share)} of its peak in the measured launches"
    points, peak = _points(facts), facts.roofline.peaks.bandwidth
    if peak is None:
        return ""
    known = points.filter(pl.col("achieved_bytes").is_not_null())
    rate = _weighted(known, "achieved_bytes")
    if rate is None:
        return ""
    share = 100 * rate / peak.value
    return f"by the sizes of their tensors, kernels move {words.percent(share)} of the peak bandwidth{_covered(facts)}"


def idle_gaps(facts: Facts) -> str:
    """How long the GPU has nothing to do, and for how much of that because launches come late."""
    found = facts.run_overview
    if facts.missing(("timeline", "gpu")) or not found.average_step_ns:
        return ""
    share = words.percent(100 * waiting.idle_ns(facts) / found.average_step_ns)
    late = _weighted(found.idle.filter(pl.col("stream").is_null()), "host_wait_percent", "idle_ns")
    why = "" if late is None else f", {words.percent(late)} of that waiting for a launch"
    return f"the GPU is idle for {share} of {shown.shown(facts).span}{why}"


def intensity(facts: Facts) -> str:
    """FLOP per byte of all kernels whose work is known."""
    known = _points(facts).filter(pl.col("flops").is_not_null() & pl.col("bytes").is_not_null())
    flops, moved = (float((known[name] * known["launches"]).sum()) for name in ("flops", "bytes"))
    if not moved:
        return ""
    ridge = facts.roofline.ridge.get("fp32")
    from_ridge = "" if ridge is None else f"; fp32 turns from memory- to compute-bound at {words.number(ridge)}"
    return f"{words.number(flops / moved)} FLOP/byte{_covered(facts)}{from_ridge}"


def roof(facts: Facts) -> str:
    """How near kernels come to their roofs."""
    attained = _weighted(_points(facts).filter(pl.col("attained_percent").is_not_null()), "attained_percent")
    return "" if attained is None else f"kernels attain {words.percent(attained)} of their roofs{_covered(facts)}"


def throughput(facts: Facts) -> str:
    """Compute against memory: measured, else by the roof that limits each kernel."""
    compute, memory = _measured(facts, "sm_percent"), _measured(facts, "memory_percent")
    if compute is not None and memory is not None:
        return f"SMs at {words.percent(compute)} of their peak, memory at {words.percent(memory)}, in measured launches"
    known = _points(facts).filter(pl.col("roof").is_not_null())
    whole = float(known["total_ns"].sum())
    if not whole:
        return ""
    share = 100 * float(known.filter(pl.col("roof") == "memory")["total_ns"].sum()) / whole
    return f"memory limits {words.percent(share)} of the time of the kernels, arithmetic the rest{_covered(facts)}"


def compiled(facts: Facts) -> str:
    """Whether a compiler made kernels of the run."""
    if not facts.kernels.height:
        return ""
    if hints.is_compiled(facts):
        return facts.program.say(
            pytorch="compiled: kernels of torch.compile run", jax="compiled: XLA makes the kernels", other="compiled"
        )
    return facts.program.say(
        pytorch="not compiled: no kernel of torch.compile runs",
        jax="no kernel tells that jax.jit was applied",
        other="no compiler of kernels is known",
    )


def pinned(facts: Facts) -> str:
    """How much is copied from and to memory that may be paged out."""
    from tracetui.analysis.findings.host.transfers import copies

    if not facts.trace.has_timeline:
        return ""
    found = copies(facts)
    known = found.filter(pl.col("pageable").is_not_null())
    if not known.height:
        return "" if found.height or facts.missing(("gpu",)) else "no copies between host and GPU"
    moved = float(known["bytes"].fill_null(0).sum())
    slow = float(known.filter("pageable")["bytes"].fill_null(0).sum())
    slow_size, size = (words.size(facts.per_step(amount)) for amount in (slow, moved))
    return f"{slow_size} of {size} copied {hints.per(facts)} are from or to pageable memory"


def batch(facts: Facts) -> str:
    """The samples of a step, and how full the memory is."""
    from tracetui.analysis.compare.other_work import samples_per_step

    samples = samples_per_step(facts.trace, facts.manifest)
    said = [] if samples is None else [f"a step holds {words.things(samples, 'sample')}"]
    held = facts.memory
    if held.on_gpu and held.peak_allocated_bytes is not None:
        said.append(f"tensors hold {words.size(held.peak_allocated_bytes)} at most")
    return ", ".join(said)


def tensor_core_use(facts: Facts) -> str:
    """The share of kernel time on tensor cores."""
    from tracetui.analysis.counters.tensor_cores import tensor_cores
    from tracetui.analysis.matching.run_join import conventions_of

    found = tensor_cores(facts.of_steps, facts.kernels, conventions_of(facts.counters))
    if found.percent is None:
        return ""
    unclear = f", {words.percent(found.unclear_percent)} unknown" if found.unclear_percent else ""
    return f"{words.percent(found.percent)} of kernel time is on tensor cores{unclear}"


def _measured(facts: Facts, column: str) -> float | None:
    """The mean of a counter over all measured launches, weighted by their durations."""
    return None if not facts.measured.height else _weighted(facts.measured, column, "duration_ns")


def _weighted(frame: pl.DataFrame, column: str, weight: str = "total_ns") -> float | None:
    known = frame.filter(pl.col(column).is_not_null() & pl.col(weight).is_not_null())
    whole = float(known[weight].sum())
    return float((known[column] * known[weight]).sum()) / whole if whole else None


def _points(facts: Facts) -> pl.DataFrame:
    """One point per kernel: from counters where there are any, else from shapes."""
    points = facts.roofline.points
    counted = points.filter(pl.col("origin") == "counters")
    return counted if counted.height else points


def _covered(facts: Facts) -> str:
    share = facts.roofline.covered_percent
    return "" if share is None else f" ({words.percent(share)} of kernel time is covered)"
