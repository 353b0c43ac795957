"""What the difference between two runs' steps is made of: the loader, synchronisation, launching, or GPU work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.compare.compared_passes import RECORDED
from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.declared.pairs import D12
from tracetui.analysis.findings.declared.rule import looks_for

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Pair
    from tracetui.analysis.findings.declared.rule import Limits

CAUSES = {
    "gpu": "GPU work",
    "loader": "the data loader",
    "synchronisation": "synchronisation",
    "launching": "launching and other work of the host",
}


def causes(parts: pl.DataFrame, side: str) -> dict[str, float]:
    """The average step of a run in ns per step, divided among `CAUSES`: they add up to it exactly.

    Args:
        parts: `Diff.split` and `Diff.waiting`, one after the other.
        side: ``a`` or ``b``.
    """
    ns = dict(parts.select("part", f"{side}_ns").iter_rows())
    return {
        "gpu": ns["gpu_time"] + ns["overlap"],
        "loader": ns["loader"],
        "synchronisation": ns["synchronisation"],
        "launching": ns["launching"] + ns["kernel_wait"] + ns["other"],
    }


@looks_for(D12)
def difference_by_cause(pair: Pair, limits: Limits) -> Finding | Abstention | None:
    found = pair.diff
    parts, step = pl.concat([found.split, found.waiting]), found.split_step
    a, b = (causes(parts, side) if parts.height else {} for side in ("a", "b"))
    whole = sum(a.values())
    if not whole:
        return Abstention("GPU work in the steps of both runs")
    which = "" if found.split_rests_on == found.compared.rests_on == RECORDED else f"{found.split_rests_on} "
    delta = sum(b.values()) - whole
    percent = 100 * delta / whole
    if abs(percent) <= limits.change_percent or abs(delta) <= (step.noise_ns or 0.0):
        return None
    changes = {name: b[name] - a[name] for name in CAUSES}
    with_it = sorted(CAUSES, key=lambda name: -changes[name] if delta > 0 else changes[name])
    first = with_it[0]
    listed = ", ".join(f"{CAUSES[name]} {words.signed_ns(changes[name])}" for name in with_it)
    return Finding(
        "info",
        f"The {which}step is {words.ns(abs(delta))} {'longer' if delta > 0 else 'shorter'} in B, most by "
        f"{CAUSES[first]} ({words.signed_ns(changes[first])})",
        tuple(
            Evidence(
                CAUSES[name],
                f"{words.ns(a[name])} became {words.ns(b[name])}: {words.signed_ns(changes[name])}",
                "",
                Query("diff"),
            )
            for name in with_it
        ),
        f"{listed}: together {words.signed_ns(delta)} = {percent:+.1f} % of A's average {which}step",
        advice=_ADVICE[first],
        impact_ns=max(delta, 0.0),
    )


_ADVICE = {
    "gpu": "Look at the kernels: D2, D3 and D11 say whether there are more, others or longer ones.",
    "loader": "Look at how batches are made: workers, prefetching, storage, decoding (S5 of each run).",
    "synchronisation": "Look for the calls that wait (S7 of each run, and the API calls of the Host tab).",
    "launching": "Look at what the host does between launches (S2 and S13 of each run, and the Host tab).",
}
