"""Communication between GPUs that no computation hides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from tracetui.analysis.base import intervals, names
from tracetui.analysis.findings.core import basis, gain, program, words
from tracetui.analysis.findings.core.finding import Evidence, Finding, Query
from tracetui.analysis.findings.declared.gpu import S14
from tracetui.analysis.findings.declared.rule import looks_for
from tracetui.analysis.findings.gpu import kernel_kinds as kernel_sorts
from tracetui.analysis.gpu.activities import activities, distinct
from tracetui.analysis.gpu.steps import step_slots
from tracetui.parsers.names import kernel_names

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.finding import Severity
    from tracetui.analysis.findings.declared.rule import Limits


class Talk(Struct, frozen=True):
    """What a GPU communicates, per step."""

    gpu: int
    ns: float
    """The time in which a collective runs."""
    exposed_ns: float
    """The part of it in which this GPU computes nothing."""


def talks(facts: Facts) -> list[Talk]:
    """The GPUs that communicate, the most exposed first.

    A GPU's collectives are compared with its own kernels only: what another GPU computes hides nothing. Copies and
    fills do not count as work that hides them.
    """
    base = basis.shown(facts)
    work = activities(base.sel)
    slots = step_slots(base.sel)
    device = work.column("device")
    talking = work.kernel & names.matching(work.frame["name"], _talks)
    found = []
    for gpu in distinct(device[talking]):
        here = device == gpu
        talk, compute = (
            intervals.union(work.start[here & rows], work.end[here & rows])
            for rows in (talking, work.compute & ~talking)
        )
        parts = (talk, intervals.subtract(talk, compute))
        whole, alone = (float(np.sum(intervals.covered(part, slots.start, slots.end))) for part in parts)
        if whole:
            found.append(Talk(gpu, base.per_step(whole), base.per_step(alone)))
    return sorted(found, key=lambda talk: -talk.exposed_ns)


def _talks(name: str) -> bool:
    return kernel_names.category(name) == "communication"


@looks_for(S14)
def exposed_communication(facts: Facts, limits: Limits) -> Finding | None:
    found = talks(facts)
    base = basis.shown(facts)
    share = base.share(found[0].exposed_ns) if found else None
    if share is None or share < limits.exposed_percent:
        return None
    worst = found[0]
    rows = facts.launches["row"].to_numpy()[kernel_sorts.by_name(facts.launches, _talks)].astype(np.int64)
    bound = gain.of_kernels(facts, rows)
    saved = min(bound.ns, worst.exposed_ns)
    alone: Severity = gain.severity(base.share(saved))
    where = f"GPU {worst.gpu}" if len(found) > 1 else "the GPU"
    return Finding(
        "warning" if alone == "critical" else alone,
        f"Exposed communication: for {words.percent(share)} of {base.span} {where} communicates and computes nothing",
        (
            *(
                Evidence(
                    f"exposed on GPU {talk.gpu}, {program.per(facts)}",
                    talk.exposed_ns,
                    "ns",
                    Query("kernels", "communication"),
                )
                for talk in found[:4]
            ),
            Evidence("collectives there", worst.ns, "ns", Query("kernels", "communication")),
            Evidence("hidden by computation", 100 * (1 - worst.exposed_ns / worst.ns), "%", Query("timeline")),
        ),
        f"{words.ns(worst.exposed_ns)} of {words.ns(base.step_ns)} = {words.percent(share)}; without collectives:"
        f" {bound.why}",
        advice=facts.program.say(pytorch=_IN_TORCH, jax=_IN_JAX, other=_IN_C) + _WHO_IS_LATE,
        impact_ns=saved,
        work=rows,
    )


_WHO_IS_LATE = (
    " First open the recordings of all ranks together: a rank that comes late makes the others wait inside the"
    " collective, and then its own work is what to shorten."
)
_IN_TORCH = (
    "DistributedDataParallel: other bucket_cap_mb, gradient_as_bucket_view=True, no_sync() while gradients are"
    " accumulated, the bf16_compress_hook; FSDP: prefetch forward and backward, larger units."
)
_IN_JAX = (
    "XLA's latency-hiding scheduler and collective pipelining (xla_gpu_enable_latency_hiding_scheduler) start"
    " collectives early; other shardings move fewer bytes."
)
_IN_C = (
    "Give NCCL (RCCL) a stream of its own, split the work so that a part can be sent while the next is computed, and"
    " send a smaller type."
)
