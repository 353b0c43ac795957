"""Was the machine at full and steady speed? Rules on clocks, caps, heat and memory."""

from __future__ import annotations

import statistics

import polars as pl

from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Abstention, Finding, Query, evidence
from tracetui.analysis.findings.declared.machine import T1, T2, T3, T4, T5
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.gpu.served import phases
from tracetui.analysis.gpu.steps import extent
from tracetui.analysis.roofline.peaks import counters_raised, hottest, own_gpus, raised_alarms, slowed_share
from tracetui.parsers.names import kernel_names
from tracetui.parsers.runs.board import BUSY_PERCENT
from tracetui.parsers.runs.manifest import Device, GpuState, PowerState, RunManifest

MHZ = 1e6
ORIN_EMC_HZ = 3_199_000_000
"""The highest memory clock of every Orin module."""
PAGE = 4096


@looks_for(T1)
def throttled(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    manifest = _manifest(facts)
    power = manifest.power
    share, reasons = slowed_share(manifest, limits.full_percent, limits.clock_percent)
    rose, alarms = counters_raised(power), raised_alarms(power)
    zone, degrees = hottest(power)
    clocks = busy_clocks(facts)
    highest = max(clocks, default=0.0)
    drop = 100 * (1 - min(clocks) / highest) if highest else 0.0
    hot_and_slow = degrees is not None and degrees >= limits.hot_c and drop >= limits.clock_percent
    if share is None and not (power.after and power.after.alarms) and not clocks:
        return Abstention("samples that say why the clock was what it was, or the board's alarms before and after")
    if (share or 0.0) <= limits.share_percent and not rose and not alarms and not hot_and_slow:
        return None
    title = f"At {degrees or 0:.0f} °C the GPU's clock fell by {words.percent(drop)}"
    if (share or 0.0) > limits.share_percent and reasons:
        title = f"The GPU was slowed down in {words.percent(share or 0.0)} of the samples: {', '.join(reasons)}"
    elif rose or alarms:
        title = f"The board raised alarms during the run: {words.listed([*rose, *alarms], 2)}"
    elif not hot_and_slow:
        title = f"The GPU's clock fell under full load, in {words.percent(share or 0.0)} of the samples"
    only_power = reasons == ["sw_power_cap"] and not rose and not alarms and drop < limits.clock_percent
    return Finding(
        "info" if only_power else "warning",
        title,
        evidence(
            ("samples slowed down", share, "%"),
            *(("reason", reason) for reason in reasons),
            *((name, f"+{count}") for name, count in rose.items()),
            *((name, "on") for name in alarms),
            (f"hottest: {zone}", degrees, "C"),
            ("lowest clock under load", min(clocks, default=None), "Hz"),
        ),
        f"{words.percent(share or 0.0)} of the samples; {words.things(len(rose) + len(alarms), 'alarm')}; "
        f"clock down by {words.percent(drop)}" + (f" at {degrees:.0f} °C" if degrees is not None else ""),
    )


@looks_for(T2)
def unsteady_clock(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    clocks = busy_clocks(facts)
    ratio, compared = last_over_first(facts, limits.least_us * 1000)
    if len(clocks) < 3 and ratio is None:
        return Abstention("three samples of the clock under load (tracetui profile), or three steps of equal kernels")
    mean = statistics.fmean(clocks) if clocks else 0.0
    cv = 100 * statistics.pstdev(clocks) / mean if len(clocks) >= 3 and mean else 0.0
    faster = ratio is not None and ratio < limits.faster_ratio
    slower = ratio is not None and ratio > limits.slower_ratio
    if cv <= limits.cv_percent and not faster and not slower:
        return None
    steps = facts.sel.steps.height > 0
    part = "step" if steps else "third"
    # without steps nothing says that equal kernels did equal work
    far = steps and ratio is not None and max(ratio, 1 / ratio) > limits.averages_ratio
    title = f"The GPU's clock varied by {words.percent(cv)} around {mean / MHZ:.0f} MHz during the run"
    if slower:
        more = words.percent(100 * ((ratio or 1) - 1))
        title = f"The GPU was slowed down: the same kernels take {more} more time at the end than at first"
    elif faster and (far or cv <= limits.cv_percent):
        less = words.percent(100 * (1 - (ratio or 1)))
        title = f"The GPU sped up: the same kernels take {less} less time at the end than at first"
    return Finding(
        "critical" if far else "warning",
        title,
        evidence(
            ("lowest clock", min(clocks, default=None), "Hz"),
            ("highest clock", max(clocks, default=None), "Hz"),
            (f"kernels' time, last {part} over first", ratio and round(ratio, 3), "", Query("kernels")),
            ("launches compared", compared),
        ),
        f"deviation {words.percent(cv)} of {len(clocks)} samples; last over first {part} "
        + (words.number(ratio) if ratio is not None else "unknown"),
        advice="Run more warm-up (three seconds and more), and lock the clock: sudo nvidia-smi -lgc MHZ, on a Jetson "
        "sudo jetson_clocks."
        + (
            " Look for heat, a power cap and other programs on the GPU (T1 names them from run.json)." if slower else ""
        ),
        doubts=None if faster or slower else ("clock",),
    )


THIRDS = 3
LEAST_LAUNCHES = 3
"""In a recording without steps, launches of a kernel in its first and in its last third that make a median."""


def _in_thirds(rows: pl.DataFrame) -> pl.DataFrame:
    """The launches with the third of the recording that they are in as their step."""
    begin, end = rows["start"].min(), rows["start"].max()
    third = (pl.col("start") - begin) * THIRDS // (pl.lit(end) - begin + 1)
    return rows.with_columns(step=third.cast(pl.UInt32))


def last_over_first(facts: Facts, least_ns: float) -> tuple[float | None, int]:
    """How much longer equal launches take in the last step than in the first; and their number.

    Without steps, in the last third of the recording than in the first. The median over kernels, weighted by time:
    where the GPU changes its speed, nearly all of them change. Without steps its base is all kernel time of both
    thirds, of which what is in one of them only counts as unchanged: a few kernels of other work are no change of
    speed.
    """
    rows = facts.recorded_launches.filter(pl.col("kind") == "kernel").drop_nulls("start")
    marked = facts.sel.steps.height > 0
    rows = rows.drop_nulls("step") if marked else _in_thirds(rows)
    if named := phases(facts.trace.steps["name"].to_list()):
        # kernels of one name and grid work on other sizes in prefill than in decode
        rows = rows.filter(pl.col("step").is_in(named[0][1].tolist()))
    steps = sorted(rows["step"].unique().to_list())
    if len(steps) < 3:
        return None, 0
    key = ["name", "grid", "block", "shapes"]
    shapes = facts.trace.host["input_shapes"]
    rows = rows.with_columns(shapes=shapes.gather(rows["operator"].cast(pl.Int64)))
    rows = rows.filter(pl.col("step").is_in([steps[0], steps[-1]]) & (pl.col("duration") >= least_ns))
    names = rows["name"].cast(pl.String)
    # communication lasts as long as the other ranks keep it waiting
    waiting = [name for name in names.unique().to_list() if kernel_names.category(name or "") == "communication"]
    rows = rows.filter(~names.is_in(waiting))
    means = rows.group_by(*key, "step").agg(ns=pl.col("duration").median(), n=pl.len(), all_ns=pl.col("duration").sum())
    first, last = (means.filter(pl.col("step") == step) for step in (steps[0], steps[-1]))
    both = first.join(last, on=key, suffix="_last", nulls_equal=True)
    enough = pl.min_horizontal("n", "n_last") >= LEAST_LAUNCHES
    both = both.filter(pl.col("n") == pl.col("n_last") if marked else enough)
    both = both.filter(pl.col("ns") > 0).with_columns(
        ratio=pl.col("ns_last") / pl.col("ns"), weight=pl.col("all_ns") + pl.col("all_ns_last")
    )
    if not both.height:
        return None, 0
    changes = both.select("ratio", "weight")
    if not marked:
        rest = int(means["all_ns"].sum()) - int(both["weight"].sum())
        changes = pl.concat([changes, pl.DataFrame({"ratio": [1.0], "weight": [rest]}, changes.schema)])
    changes = changes.sort("ratio")
    weight = changes["weight"].cum_sum()
    return float(changes["ratio"][int((weight < weight[-1] / 2).sum())]), int(both["n"].sum())


@looks_for(T3)
def below_maximum(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    manifest = _manifest(facts)
    capped = [
        (device, state, cap)
        for device, state in _gpus(manifest)
        if (cap := min((c for c in (state.max_clock_hz, state.applications_clock_hz) if c), default=None))
        and device.max_clock_hz
    ]
    if not capped:
        return Abstention("the clock's cap and the chip's highest clock: launch with tracetui profile")
    device, state, cap = min(capped, key=lambda entry: entry[2] / (entry[0].max_clock_hz or 1))
    share = 100 * cap / (device.max_clock_hz or 1)
    if share >= limits.share_percent:
        return None
    mode = _states(manifest)[0].mode_name
    jetson = bool(device.integrated or device.module_id)
    return Finding(
        "info",
        f"The GPU's clock was capped at {words.percent(share)} of its highest: {cap / MHZ:.0f} of "
        f"{(device.max_clock_hz or 0) / MHZ:.0f} MHz",
        evidence(
            ("cap", cap, "Hz"),
            ("highest clock of the chip", device.max_clock_hz, "Hz"),
            ("power mode", mode),
            ("TPCs switched off (mask)", None if state.tpc_pg_mask is None else f"{state.tpc_pg_mask:#x}"),
        ),
        f"{cap / MHZ:.0f} / {(device.max_clock_hz or 0) / MHZ:.0f} MHz = {words.percent(share)}",
        advice="sudo nvpmodel -m ID with the fastest mode (grep POWER_MODEL /etc/nvpmodel.conf), then sudo"
        " jetson_clocks; or keep it, and say the cap with every figure."
        if jetson
        else f"sudo nvidia-smi -i {device.index or 0} -rac resets the application clocks, -rgc a locked clock.",
    )


@looks_for(T4)
def capped_memory(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    manifest = _manifest(facts)
    state = next((found for found in _states(manifest) if found.emc is not None), None)
    if state is None or state.emc is None:
        return Abstention("a Jetson's memory controller: launch with tracetui profile on the board")
    emc = state.emc
    cap = emc.cap_hz or emc.max_hz
    orin = any((device.module_id or "").startswith(("p3767", "p3701")) for device in manifest.device)
    highest = max((hz for hz in (emc.max_hz, ORIN_EMC_HZ if orin else None) if hz), default=None)
    if not cap or not highest:
        return Abstention("the memory controller's cap and highest clock, which need root on this board")
    share = 100 * cap / highest
    if share >= limits.share_percent:
        return None
    return Finding(
        "warning",
        f"The memory clock was capped at {words.percent(share)} of its highest: {cap / MHZ:.0f} of "
        f"{highest / MHZ:.0f} MHz",
        evidence(("EMC cap", cap, "Hz"), ("highest EMC clock", highest, "Hz"), ("power mode", state.mode_name or None)),
        f"{cap / MHZ:.0f} / {highest / MHZ:.0f} MHz = {words.percent(share)}; kernels bound by memory take "
        f"{words.number(highest / cap)} times as long",
    )


@looks_for(T5)
def swapping(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    states = [state.memory for state in _states(_manifest(facts)) if state.memory]
    swapped = [memory.pages_swapped_in for memory in states if memory.pages_swapped_in is not None]
    used = [memory.swap_used_bytes for memory in states if memory.swap_used_bytes is not None]
    available = [memory.available_bytes for memory in states if memory.available_bytes is not None]
    if len(swapped) < 2 and len(used) < 2:
        return Abstention("swap before and after the run: launch with tracetui profile")
    pages = swapped[-1] - swapped[0] if len(swapped) > 1 else 0
    grown = max(used) - used[0] if len(used) > 1 else 0
    if pages < limits.pages and grown < limits.grown_mib * (1 << 20):
        return None
    return Finding(
        "warning",
        f"The machine swapped during the run: {words.size(pages * PAGE)} came back from swap, "
        f"{words.size(grown)} more of it were used",
        evidence(
            ("pages read from swap", pages),
            ("growth of the used swap", grown, "byte"),
            ("used before", used[0] if used else 0, "byte"),
            ("least memory available", min(available, default=None), "byte"),
        ),
        f"{words.count(pages)} pages of 4 KiB; {words.size(used[0] if used else 0)} + {words.size(grown)} of swap",
    )


def _manifest(facts: Facts) -> RunManifest:
    assert facts.machine is not None  # guaranteed by the need "power"
    return facts.machine


def _states(manifest: RunManifest) -> list[PowerState]:
    power = manifest.power
    return [state for state in (power.before, *power.during, power.after) if state is not None]


def _gpus(manifest: RunManifest) -> list[tuple[Device, GpuState]]:
    """Each GPU and its first known state."""
    known = {device.index or 0: device for device in manifest.device}
    return [
        (known[gpu.index or 0], gpu) for gpu in own_gpus(manifest, _states(manifest)[0]) if (gpu.index or 0) in known
    ]


def busy_clocks(facts: Facts) -> list[float]:
    """The clock of the busiest GPU in samples taken during the recording, or else in samples under load; Hz."""
    manifest = facts.machine
    if manifest is None:
        return []
    samples = manifest.power.during
    window = _recorded(facts)
    inside = [
        state for state in samples if window and state.time_unix_ns and window[0] <= state.time_unix_ns <= window[1]
    ]
    if len(inside) >= 3:
        samples = tuple(inside)
    return [
        float(gpu.clock_hz)
        for state in samples
        if (gpu := _working(own_gpus(manifest, state))) is not None and gpu.clock_hz
    ]


def _working(gpus: tuple[GpuState, ...]) -> GpuState | None:
    """The GPU with the highest load, if the load is high enough to count as working."""
    loaded = [gpu for gpu in gpus if gpu.load_percent is not None and gpu.load_percent >= BUSY_PERCENT]
    return max(loaded, key=lambda gpu: gpu.load_percent or 0.0) if loaded else None


def _recorded(facts: Facts) -> tuple[int, int] | None:
    """When the recording was made, Unix ns; None if the file does not relate its clock to Unix time."""
    zero, when = facts.trace.info.base_time, extent(facts.trace)
    return (zero + when[0], zero + when[1]) if zero is not None and when is not None else None
