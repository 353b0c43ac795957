"""Sums up the samples of a run's machine: what slowed it down, and how hot it got."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.parsers.runs.manifest import SLOWED

if TYPE_CHECKING:
    from tracetui.parsers.runs.manifest import GpuState, Power, PowerState, RunManifest


def own_gpus(manifest: RunManifest, state: PowerState) -> tuple[GpuState, ...]:
    """The GPU that the run was on, where run.json names one (`cuda:1`) and the state has it; else all of them."""
    name = manifest.workload.device or ""
    number = int(name[5:]) if name.startswith("cuda:") and name[5:].isdecimal() else None
    mine = tuple(gpu for gpu in state.gpus if gpu.index == number)
    return mine if number is not None and mine else state.gpus


def slowed_share(manifest: RunManifest) -> tuple[float | None, list[str]]:
    """The share of samples in which something slowed a GPU down, percent, and what; null where no sample says."""
    states = manifest.power.during
    known = [gpu for state in states for gpu in own_gpus(manifest, state) if gpu.throttle_reasons is not None]
    if not known:
        return None, []
    slow = [gpu for gpu in known if SLOWED.intersection(gpu.throttle_reasons or ())]
    reasons = sorted({reason for gpu in slow for reason in gpu.throttle_reasons or () if reason in SLOWED})
    return 100 * len(slow) / len(known), reasons


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
