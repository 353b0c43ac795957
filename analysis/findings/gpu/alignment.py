"""Matrix work on tensor cores whose operands can't be read 16 bytes at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.findings.core import gain, hints, words
from tracetui.analysis.findings.core.finding import Evidence, Finding
from tracetui.analysis.findings.core.rule import Threshold, rule
from tracetui.analysis.findings.gpu import kernel_kinds as kernel_sorts
from tracetui.analysis.findings.gpu.kernel_facts import attained
from tracetui.parsers.names.kernel_types import bytes_at_a_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.gain import Bools
    from tracetui.analysis.findings.core.rule import Limits

WHOLE_BYTES = 16
"""What a thread reads at a time at most, and TMA needs."""


def _is_narrow(name: str) -> bool:
    return (bytes_at_a_time(name) or WHOLE_BYTES) < WHOLE_BYTES


def _left_at_roof(facts: Facts, mask: Bools) -> float:
    """Which part of their time these launches would need at their roofs; nothing of those whose roof is not known."""
    spent = facts.launches.select(pl.col("name").cast(pl.String), "duration").filter(pl.Series(mask))
    known = attained(facts)
    least = whole = 0.0
    for name, ns in spent.group_by("name").agg(pl.col("duration").sum()).iter_rows():
        whole += ns
        least += ns * min(known[name][0] / 100, 1.0) if name in known else 0.0
    return least / whole if whole else 0.0


def _sizes(facts: Facts, mask: Bools) -> Iterator[Evidence]:
    """Evidence on the shapes behind most of this time, if shapes were recorded."""
    operators = facts.launches["operator"].filter(pl.Series(mask)).drop_nulls()
    shapes = facts.trace.host["input_shapes"].gather(operators).cast(pl.String).drop_nulls()
    most = shapes.filter(shapes != "").value_counts(sort=True)
    if most.height:
        yield Evidence("shapes of most launches", str(most["input_shapes"][0]))


@rule(
    "F3",
    "Matrix sizes that do not suit tensor cores",
    needs=("timeline", "gpu"),
    rests_on=("gpu", "shares"),
    thresholds={
        "share_percent": Threshold(
            3, "%", "matrix work that reads less than 16 bytes at a time, of kernel time", own=True
        )
    },
    advice="Pad the sizes to multiples of 8 in 16-bit types (4 in TF32, 16 in 8-bit types).",
    source="PyTorch's profiler pattern matcher; NVIDIA's guide to matrix multiplication: operands aligned to 16 bytes",
)
def unaligned_products(facts: Facts, limits: Limits) -> Finding | None:
    """Products run on tensor cores with kernels for operands whose rows do not begin at multiples of 16 bytes.

    A row of a contiguous matrix begins there if its length is a multiple of 16 bytes: 8 elements of a 16-bit type. For
    other lengths, libraries choose kernels that read a few bytes at a time, and often those of an older architecture.
    Their names tell how much they read (``align1``, ``ldg2``). What aligned kernels would take is not known; the bound
    supposes that they reach their roofs, or where these are not known that they take no time.
    """
    if not hints.is_nvidia(facts):
        return None
    mask = kernel_sorts.by_name(facts.launches, _is_narrow)
    spent, share = kernel_sorts.spent(facts, mask)
    if share is None or share <= limits.share_percent:
        return None
    rows = facts.launches["row"].to_numpy()[mask].astype(np.int64)
    left = _left_at_roof(facts, mask)
    bound = gain.of_kernels(facts, rows, factor=left)
    proof = kernel_sorts.proof(facts, mask)
    return Finding(
        "F3",
        bound.severity,
        f"Operands not aligned to {WHOLE_BYTES} bytes: matrix work on them takes {words.percent(share)} of"
        f" {kernel_sorts.base(facts)}",
        (
            Evidence(f"such products {hints.per(facts)}", facts.per_step(spent), "ns", proof),
            Evidence(f"of {kernel_sorts.base(facts)}", share, "%", proof),
            *_sizes(facts, mask),
        ),
        f"{kernel_sorts.worked_out(facts, mask)}; {'at their roofs' if left else 'without them'}: {bound.why}",
        f"above {words.percent(limits.share_percent)} of kernel time",
        facts.program.say(
            pytorch="Make channels, hidden, head and vocabulary sizes multiples of 8 in fp16 and bf16 (of 4 in TF32):"
            " pad weights and inputs once, where they are made, and cut the result. Batch and sequence length count"
            " too where they are the inner size, as in weight gradients.",
            other="Make the leading dimensions multiples of 16 bytes (8 elements of a 16-bit type, 4 of fp32 as TF32)"
            " and allocate operands at such addresses: pad once, where the arrays are made.",
        ),
        impact_ns=bound.ns,
        ceiling_percent=bound.ceiling_percent,
        sure_percent=bound.sure_percent,
        work=rows,
    )
