"""The peaks of a GPU: FLOP/s by precision and memory bandwidth, each with its source.

The first that is known counts: Nsight Compute's sustained peaks at the clock it measured (``counters``); what
`tracetui doctor --measure-peaks` reached on this GPU (``measured``); the clocks and caps of run.json, or of what the
recording says of the GPU, put into the formula (``metadata``); the table of products in ``peaks.toml`` (``table``).
Peak FLOP/s = SMs x FMA per SM and clock x 2 x clock. A GPU that none of these knows has no peaks.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.resources import files
from typing import Any

import polars as pl
from msgspec import Struct

from tracetui.analysis.base.names import matching
from tracetui.analysis.base.remembered import kept
from tracetui.analysis.collectives import Link
from tracetui.analysis.gpu.occupancy import SmLimits
from tracetui.analysis.roofline.peaks_measured import measured_peaks
from tracetui.analysis.roofline.words import PRECISIONS, Roofs
from tracetui.parsers import Run, Trace
from tracetui.parsers.runs.manifest import SLOWED, GpuState, Power, PowerState, RunManifest
from tracetui.parsers.trace import DeviceInfo

SM_CLOCK = ("sm__cycles_elapsed.avg.per_second", "smsp__cycles_elapsed.avg.per_second")
DRAM_CLOCK = "dram__cycles_elapsed.avg.per_second"
DRAM_PEAK = ("dram__bytes.sum.peak_sustained", "dram__bytes_read.sum.peak_sustained")
PLAIN = {"fp64": ("dfma", 2), "fp32": ("ffma", 2), "fp16": ("hfma", 4)}
"""The instruction and its FLOPs per thread: a half-precision one works on two numbers."""
_TENSOR = re.compile(
    r"sm__ops_path_tensor_op_(?:(?!sparsity_on)\w)+?_src_(?P<type>fp64|tf32|fp16|bf16|fp8|e4m3|e5m2|int8)"
    r"(?:(?!sparsity_on)\w)*\.sum\.peak_sustained_elapsed\.per_second"
)


def tensor_precision(kind: str) -> str:
    """``fp16`` → ``fp16_tensor``; the formats of 8 bits are one."""
    return {"e4m3": "fp8", "e5m2": "fp8"}.get(kind, kind) + "_tensor"


@kept
def counter_peaks(trace: Trace) -> Roofs | None:
    """The medians over the launches; None where the report has no such metric."""
    metrics = trace.counters.filter((pl.col("kind") == "metric") & pl.col("value").is_not_null())
    names = metrics["metric"].unique().cast(pl.String).drop_nulls().to_list()
    wanted = [name for name in names if "peak_sustained" in name or name in (*SM_CLOCK, DRAM_CLOCK)]
    if not wanted:
        return None
    found = metrics.filter(pl.Series(matching(metrics["metric"], frozenset(wanted).__contains__)))
    found = found.filter(pl.col("value") > 0)
    table = found.group_by(pl.col("metric").cast(pl.String)).agg(pl.col("value").median())
    median = dict(table.iter_rows())
    clock = next((median[name] for name in SM_CLOCK if name in median), None)
    compute: dict[str, tuple[float, str, str]] = {}
    for precision, (instruction, flops) in PLAIN.items():
        name = f"_sass_thread_inst_executed_op_{instruction}_pred_on.sum.peak_sustained"
        per_cycle = next((median[part + name] for part in ("sm_", "smsp_") if part + name in median), None)
        if clock and per_cycle:
            about = f"{per_cycle:,.0f} {instruction}/cycle × {flops} × {clock / 1e9:.3f} GHz, medians of launches"
            compute[precision] = (flops * per_cycle * clock, "counters", about)
    for name, value in median.items():
        match = _TENSOR.fullmatch(name)
        if match is not None:
            precision = tensor_precision(match["type"])
            if value > compute.get(precision, (0.0,))[0]:
                compute[precision] = (value, "counters", f"{name}, median of launches")
    rate = next((median[name] for name in DRAM_PEAK if name in median), None)
    memory = median.get(DRAM_CLOCK)
    bandwidth = None
    if rate and memory:
        about = f"{rate:,.0f} byte/cycle × {memory / 1e9:.3f} GHz, medians of launches"
        bandwidth = (rate * memory, "counters", about)
    return (compute, bandwidth) if compute or bandwidth else None


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SOURCES = ("counters", "measured", "metadata", "table")
"""Where a peak can be from, the preferred source first."""


class Peak(Struct, frozen=True):
    """One roof."""

    value: float
    """FLOP/s or byte/s."""
    source: str
    """One of `SOURCES`."""
    about: str
    """How it is computed, with the numbers filled in."""


@dataclass(frozen=True)
class Peaks:
    """The roofs of one GPU, without those that are not known."""

    device: str | None = None
    capability: str | None = None
    compute: Mapping[str, Peak] = field(default_factory=dict)
    """By precision (`PRECISIONS`), FLOP/s."""
    bandwidth: Peak | None = None
    """DRAM, byte/s."""
    unknown: tuple[str, ...] = ()
    """What is not known and how to find it out, one line each."""

    def flops(self, precision: str) -> float | None:
        """The peak of a precision, FLOP/s."""
        peak = self.compute.get(precision)
        return None if peak is None else peak.value


@lru_cache(maxsize=1)
def table() -> dict[str, Any]:
    """The content of ``peaks.toml``."""
    content: dict[str, Any] = tomllib.loads(
        files("tracetui.analysis.roofline").joinpath("peaks.toml").read_text(encoding="utf-8")
    )
    return content


def sm_limits(device: DeviceInfo) -> SmLimits | None:
    """What an SM of this GPU holds, as the recording states it where it does; None for an unknown capability."""
    row = table()["capability"].get(device.compute_capability or "")
    if row is None or _is_other_maker(device):
        return None
    warp = device.warp_size or 32
    return SmLimits(
        warps=device.max_threads_per_sm // warp if device.max_threads_per_sm else row["warps"],
        blocks=device.max_blocks_per_sm or row["blocks"],
        registers=device.registers_per_sm or row["registers"],
        shared=device.shared_memory_per_sm or row["shared"],
        shared_unit=row["shared_unit"],
        shared_reserved=row["shared_reserved"],
        partitions=row["partitions"],
    )


def peaks_of(run: Run | None, trace: Trace, *, measured: bool = True) -> Peaks:
    """The roofs of the GPU that a recording ran on.

    Args:
        run: the run that the recording is of: its run.json and its other recordings know more.
        trace: the recording.
        measured: whether to look for peaks that were measured on this machine.
    """
    traces = [trace, *(other for other in (run.traces if run else ()) if other is not trace)]
    manifest = run.manifest if run else None
    device = known_device(traces, manifest)
    if device is None:
        return Peaks(unknown=("the recording does not say what GPU it ran on",))
    found = _calculated(device, manifest)
    for better in (
        measured_peaks(device, _cap(manifest)) if measured else None,
        *(counter_peaks(other) for other in reversed(traces) if other.info.kind == "ncu"),
    ):
        if better is not None:
            known = {**found.compute, **{name: Peak(*peak) for name, peak in better[0].items()}}
            bandwidth = found.bandwidth if better[1] is None else Peak(*better[1])
            found = replace(found, compute=known, bandwidth=bandwidth)
    in_order = {name: found.compute[name] for name in PRECISIONS if name in found.compute}
    return replace(found, compute=in_order, unknown=_unknown(device, found))


def known_device(traces: list[Trace], manifest: RunManifest | None) -> DeviceInfo | None:
    """The first recording's GPU, completed from what the others and run.json say of that name and number."""
    devices = [_busiest(trace) for trace in traces]
    distinct = [device for device in devices if device is not None]
    if manifest is not None and manifest.device:
        distinct += [_of_manifest(manifest, distinct[0].id if distinct else 0)]
    if not distinct:
        return None
    first = distinct[0]
    for other in distinct[1:]:
        if None not in (first.name, other.name) and first.name != other.name:
            continue
        if None not in (first.compute_capability, other.compute_capability) and (
            first.compute_capability != other.compute_capability
        ):
            continue
        missing = {
            name: getattr(other, name)
            for name in first.__dataclass_fields__
            if getattr(first, name) is None and getattr(other, name) is not None
        }
        first = replace(first, **missing)
    return first


@kept
def _busiest(trace: Trace) -> DeviceInfo | None:
    """The GPU with the first kernel; without kernels the first."""
    used = trace.device["device"].drop_nulls()
    number = int(used[0]) if used.len() else 0
    return next((device for device in trace.info.devices if device.id == number), next(iter(trace.info.devices), None))


def _of_manifest(manifest: RunManifest, number: int) -> DeviceInfo:
    from tracetui.parsers.trace import DeviceInfo

    own = next((gpu for gpu in manifest.device if gpu.index == number), manifest.device[0])
    return DeviceInfo(
        id=number,
        name=own.name,
        compute_capability=own.compute_capability,
        sm_count=own.sm_count,
        memory_bytes=own.memory_bytes,
        clock_hz=own.max_clock_hz,
    )


def _is_other_maker(device: DeviceInfo) -> bool:
    """Whether the capability is not CUDA's: ROCm's traces have the architecture's number there, and wide warps."""
    if device.architecture:
        return True
    return device.warp_size not in (None, 32) or re.search(r"\b(AMD|Radeon|Instinct)\b", device.name or "") is not None


def _cap(manifest: RunManifest | None) -> int | None:
    """The clock of the SMs that run.json says was allowed, Hz.

    An applications clock is not a cap: data-centre GPUs boost above it.
    """
    before = manifest.power.before if manifest is not None else None
    gpus = own_gpus(manifest, before) if manifest is not None and before is not None else ()
    return gpus[0].max_clock_hz if gpus else None


_FAMILY = re.compile(r"^((NVIDIA|AMD|Tesla|GeForce|Instinct)\s+)+")
"""What names of products begin with, and what tells none from another."""
_SUMMED = ("tf32_tensor", "fp16_tensor", "bf16_tensor", "fp8_tensor")
"""Precisions whose products are summed in fp32: GeForce cards do so at half the rate."""


def _product(device: DeviceInfo) -> dict[str, Any] | None:
    """The product of exactly this name; one that is only nearly known is another chip."""
    if device.name is None:
        return None
    name = _FAMILY.sub("", device.name.strip())
    return next((dict(row) for row in table()["gpu"] if re.fullmatch(row["match"], name) and _fits(device, row)), None)


def named_capability(device: DeviceInfo) -> str | None:
    """The compute capability of the product that the GPU is called; None where the table has no such product."""
    row = _product(replace(device, compute_capability=None, architecture=None, sm_count=None))
    return None if row is None else row.get("capability")


def _fits(device: DeviceInfo, row: dict[str, Any]) -> bool:
    """Whether what the recording says of the chip agrees; a part of one (MIG) has fewer SMs."""
    if device.sm_count is not None and device.sm_count > row["sms"]:
        return False
    stated = (device.compute_capability, row.get("capability")), (device.architecture, row.get("architecture"))
    return all(None in pair or pair[0] == pair[1] for pair in stated)


def _jetson(device: DeviceInfo, manifest: RunManifest | None) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The module's row and its power mode's."""
    gpu = manifest.device[0] if manifest is not None and manifest.device else None
    words = [device.name or "", *((gpu.board or "", gpu.module_id or "", *gpu.compatible) if gpu else ())]
    text = " ".join(words)
    row = next((module for module in table()["jetson"] if re.search(module["match"], text)), None)
    before = manifest.power.before if manifest is not None else None
    if row is None or before is None or before.mode_name is None:
        return row, None
    label = before.mode_name
    return row, next((mode for mode in row["modes"] if re.search(mode["mode"], label, re.IGNORECASE)), None)


def _fp32_sum(name: str | None, row: dict[str, Any]) -> float:
    """The share of its tensor rate that a GPU has left with sums in fp32; half on a GeForce that the table lacks."""
    unnamed = 0.5 if not row and "GeForce" in (name or "") else 1.0
    share: float = row.get("fp32_sum", unnamed)
    return share


def fma_per_clock(device: DeviceInfo, precision: str) -> float | None:
    """What an SM of this GPU multiplies and adds per clock, with sums in fp32; None for an unknown capability."""
    row = table()["capability"].get(device.compute_capability or "")
    if row is None or _is_other_maker(device) or not row["fma"].get(precision):
        return None
    share = _fp32_sum(device.name, _product(device) or {}) if precision in _SUMMED else 1.0
    return float(row["fma"][precision] * share)


def _calculated(device: DeviceInfo, manifest: RunManifest | None) -> Peaks:
    """Peaks by formula from clocks that are recorded, else from the table."""
    product = _product(device)
    module, mode = (None, None) if product else _jetson(device, manifest)
    row = product or mode or {}
    capability = device.compute_capability or (product or module or {}).get("capability")
    per_sm = {} if _is_other_maker(device) else table()["capability"].get(capability or "", {})
    cap = _cap(manifest) or device.clock_hz
    clock = cap or row.get("mhz", 0) * 1e6
    sms = device.sm_count or row.get("sms")
    compute: dict[str, Peak] = {}
    if clock and sms:
        source = "metadata" if cap else "table"
        reason = row.get("source", per_sm.get("source", ""))
        summed = _fp32_sum(device.name, row)
        for name, fma in per_sm.get("fma", {}).items():
            tensor = name.endswith("_tensor")
            hz = min(clock, row.get("tensor_mhz", 1e6) * 1e6) if tensor else clock
            share = summed if name in _SUMMED else 1.0
            about = f"{sms} SMs × {fma} FMA × 2 × {hz / 1e9:.3f} GHz"
            about += f" × {share:g} (sums in fp32)" if share != 1 else ""
            compute[name] = Peak(sms * fma * 2 * hz * share, source, f"{about}; {reason}")
        slower = min(1.0, clock / (row["mhz"] * 1e6)) if "mhz" in row else 1.0
        for name, tflops in row.get("tflops", {}).items():
            compute[name] = Peak(tflops * 1e12 * slower, source, reason)
    return Peaks(device.name, capability, compute, _bandwidth(device, manifest, module, row))


def _bandwidth(
    device: DeviceInfo, manifest: RunManifest | None, module: dict[str, Any] | None, row: dict[str, Any]
) -> Peak | None:
    before = manifest.power.before if manifest is not None else None
    emc = before.emc if before is not None else None
    rate = (emc.cap_hz or emc.max_hz or emc.rate_hz) if emc is not None else None
    if module is not None and rate:
        about = f"{module['bus']} bit / 8 × 2 × {rate / 1e9:.3f} GHz (EMC)"
        return Peak(module["bus"] / 8 * 2 * rate, "metadata", about)
    if device.memory_bandwidth:
        return Peak(float(device.memory_bandwidth), "metadata", "bus width × memory clock × 2, as recorded")
    if "gbs" in row:
        return Peak(row["gbs"] * 1e9, "table", row.get("source", "NVIDIA's power modes"))
    return None


def _unknown(device: DeviceInfo, peaks: Peaks) -> tuple[str, ...]:
    name = device.name or "this GPU"
    lacking = []
    if not peaks.compute:
        lacking.append("peak FLOP/s (its clock is not recorded)")
    if peaks.bandwidth is None:
        lacking.append("peak memory bandwidth")
    what = f"{' and '.join(lacking)} of {name}, which is not in the table; tracetui doctor --measure-peaks measures it"
    return (what,) if lacking else ()


def link_of(run: Run | None, trace: Trace) -> Link | None:
    """The link of the GPU that a recording ran on; None where the GPU or its link is not known."""
    return _known("link", run, trace)


def host_link_of(run: Run | None, trace: Trace) -> Link | None:
    """What connects that GPU with its host: at most, since a slot or a virtual machine may give it less."""
    return _known("host_link", run, trace)


def _known(kind: str, run: Run | None, trace: Trace) -> Link | None:
    device = known_device([trace], run.manifest if run else None)
    return None if device is None or device.name is None else link_named(device.name, kind)


def link_named(gpu: str, kind: str = "link") -> Link | None:
    """What connects GPUs of this name with each other; None where it is not in the table."""
    row = next((row for row in table()[kind] if re.search(row["match"], gpu)), None)
    if row is None:
        return None
    measured = row.get("reached"), row.get("latency_us", 0.0) / 1e6
    return Link(row["name"], row["gbs"] * 1e9, row.get("ranks", 8), row["source"], *measured)


def own_gpus(manifest: RunManifest, state: PowerState) -> tuple[GpuState, ...]:
    """The GPU that the run was on, where run.json names one (`cuda:1`) and the state has it; else all of them."""
    name = manifest.workload.device or ""
    number = int(name[5:]) if name.startswith("cuda:") and name[5:].isdecimal() else None
    mine = tuple(gpu for gpu in state.gpus if gpu.index == number)
    return mine if number is not None and mine else state.gpus


def slowed_share(manifest: RunManifest, full: float, fall: float) -> tuple[float | None, list[str]]:
    """The share of samples in which something slowed a GPU down, percent, and what; None where no sample says.

    Where no sample has reasons, those of fully loaded GPUs tell by their clock, which no governor lowers then.

    Args:
        manifest: what has the samples.
        full: load from which a GPU is fully loaded, percent.
        fall: by how much its clock is then below an earlier one, percent.
    """
    states = [own_gpus(manifest, state) for state in manifest.power.during]
    gpus = [gpu for of_state in states for gpu in of_state if gpu.throttle_reasons is not None]
    if gpus:
        slow = [gpu for gpu in gpus if SLOWED.intersection(gpu.throttle_reasons or ())]
        reasons = sorted({reason for gpu in slow for reason in gpu.throttle_reasons or () if reason in SLOWED})
        return 100 * len(slow) / len(gpus), reasons
    highest: dict[int | None, int] = {}
    fell = loaded = 0
    for gpu in (gpu for of_state in states for gpu in of_state):
        if gpu.clock_hz and (gpu.load_percent or 0.0) >= full:
            highest[gpu.index] = max(gpu.clock_hz, highest.get(gpu.index, 0))
            fell += gpu.clock_hz <= highest[gpu.index] * (1 - fall / 100)
            loaded += 1
    return (100 * fell / loaded, []) if fell else (None, [])


def counters_raised(power: Power) -> dict[str, int]:
    """Throttling counters (``oc1_event_cnt``) that rose between the start and the end of the run, and by how much."""
    if power.before is None or power.after is None:
        return {}
    old, new = power.before.alarms, power.after.alarms
    return {
        name: new[name] - old[name]
        for name in sorted(old.keys() & new.keys())
        if _counts(name) and new[name] > old[name]
    }


def raised_alarms(power: Power) -> list[str]:
    """Alarms that were raised during the run."""
    before = power.before.alarms if power.before else {}
    later = [state.alarms for state in (*power.during, power.after) if state is not None]
    return sorted(
        {name for alarms in later for name, on in alarms.items() if on and not _counts(name) and not before.get(name)}
    )


def _counts(name: str) -> bool:
    return name.endswith("_cnt")


def hottest(power: Power) -> tuple[str, float | None]:
    """The hottest zone at any time, and its temperature, °C."""
    found: dict[str, float] = {}
    for state in (power.before, *power.during, power.after):
        if state is None:
            continue
        zones = dict(state.temperatures_c)
        zones |= {f"GPU {gpu.index or 0}": gpu.temperature_c for gpu in state.gpus if gpu.temperature_c is not None}
        for name, degrees in zones.items():
            found[name] = max(degrees, found.get(name, degrees))
    return max(found.items(), key=lambda zone: zone[1]) if found else ("", None)
