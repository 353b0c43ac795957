"""Whether two runs may be compared: what their manifests and their recordings' headers say differs between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.compare.counter_conditions import counter_differences
from tracetui.analysis.compare.element_types import element_type
from tracetui.analysis.compare.other_work import work_differences
from tracetui.analysis.compare.run_conditions import Difference, run_differences

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    """A property of each GPU that did work (of all, where none did); null where one is unknown."""
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
