"""Rule on copies between host and GPU that limit the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.base import intervals
from tracetui.analysis.findings.core import basis, gain, program, words
from tracetui.analysis.findings.core.finding import Evidence, Finding, Query, known
from tracetui.analysis.findings.declared.host import S27
from tracetui.analysis.findings.declared.rule import looks_for
from tracetui.analysis.findings.host.transfers import DTOH, HTOD, copies, copies_of
from tracetui.analysis.gpu.activities import activities
from tracetui.analysis.roofline.peaks import host_link_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.analysis.base.intervals import Intervals
    from tracetui.analysis.collectives import Link
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.declared.rule import Limits

_WAY = {HTOD: "to the GPU", DTOH: "to the host"}


@dataclass(frozen=True)
class Moved:
    """The copies of one direction, per step."""

    direction: str
    copies: float
    bytes: float | None
    """Null where the size of one is unknown."""
    busy: Intervals
    """When at least one of them runs, in the whole selection."""
    busy_ns: float
    pageable_percent: float | None
    """Of the bytes; None if kinds of memory were not recorded."""

    @property
    def way(self) -> str:
        """The direction in words."""
        return _WAY[self.direction]

    @property
    def bytes_per_s(self) -> float | None:
        """Bytes by the time in which at least one copy runs."""
        return None if self.bytes is None or not self.busy_ns else 1e9 * self.bytes / self.busy_ns

    def link_percent(self, link: Link | None) -> float | None:
        """The rate, of the link's peak."""
        rate = self.bytes_per_s
        return None if rate is None or link is None else 100 * rate / link.bytes_per_s


@looks_for(S27)
def copies_limit(facts: Facts, limits: Limits) -> Finding | None:
    if facts.verdict.kind != "copies":
        return None
    moved = _moved(facts)
    rows = copies(facts)["row"].to_numpy()
    bound, half = gain.of_kernels(facts, rows), gain.of_kernels(facts, rows, factor=0.5)
    if not moved:
        return None
    link = host_link_of(facts.run, facts.trace)
    first = max(moved, key=lambda one: one.busy_ns)
    return Finding(
        bound.severity,
        f"Copies between host and GPU limit the run: {', '.join(_said(one, link) for one in moved)}"
        f" {program.per(facts)}",
        (
            *(evidence for one in moved for evidence in _evidence(facts, one, link)),
            Evidence("step shorter with half the bytes, at most", half.ceiling_percent or 0.0, "%"),
        ),
        f"{'; '.join(f'{words.ns(one.busy_ns)} {one.way}' for one in moved)}; with these copies free: {bound.why}",
        advice=_advice(facts, limits, moved, first, link),
        impact_ns=bound.ns,
        ceiling_percent=bound.ceiling_percent,
        sure_percent=bound.sure_percent,
        work=rows,
    )


def _moved(facts: Facts) -> list[Moved]:
    """What each direction moves."""
    base = basis.shown(facts)
    found = []
    for (direction,), rows in copies_of(base.of_steps).group_by("direction", maintain_order=True):
        busy = intervals.union(rows["start"].to_numpy(), rows["end"].to_numpy())
        whole = float(rows["bytes"].sum()) if not rows["bytes"].null_count() else None
        pageable = rows.filter(pl.col("pageable").fill_null(value=False))["bytes"].sum()
        told = whole and rows["pageable"].null_count() < rows.height
        found.append(
            Moved(
                str(direction),
                base.per_step(rows.height),
                None if whole is None else base.per_step(whole),
                busy,
                base.per_step(float(intervals.length(busy))),
                100 * float(pageable) / whole if told and whole else None,
            )
        )
    return sorted(found, key=lambda one: one.direction != HTOD)


def _said(one: Moved, link: Link | None) -> str:
    """``192.0 MiB to the GPU at 55.5 GB/s, 88 % of PCIe 5.0 x16``."""
    if one.bytes is None or one.bytes_per_s is None:
        return f"{words.ns(one.busy_ns)} {one.way}"
    of = one.link_percent(link)
    share = f" ({words.percent(of)} of {link.name})" if of is not None and link is not None else ""
    return f"{words.size(one.bytes)} {one.way} at {words.number(one.bytes_per_s / 1e9)} GB/s{share}"


def _evidence(facts: Facts, one: Moved, link: Link | None) -> Iterator[Evidence]:
    proof = Query("kernels:copies", row=one.direction)
    of = f"of the peak of {link.name}" if link is not None else ""
    yield from known(
        (f"bytes {one.way} {program.per(facts)}", one.bytes, "byte", proof),
        (f"copies {one.way} {program.per(facts)}", one.copies, "", proof),
        (f"{one.way}, time {program.per(facts)}", one.busy_ns, "ns", proof),
        (f"{one.way}, achieved", one.bytes_per_s, "byte/s"),
        (f"{one.way}, {of}", one.link_percent(link), "%"),
        (f"{one.way}, from or to pageable memory, of the bytes", one.pageable_percent, "%"),
    )


def _advice(facts: Facts, limits: Limits, moved: list[Moved], first: Moved, link: Link | None) -> str:
    """What fits these copies, what helps most first."""
    said = []
    if (first.pageable_percent or 0.0) > 100 - (first.pageable_percent or 0.0):
        said.append("Pin the host's memory first (S8): from pageable memory the driver copies twice.")
    if first.bytes and first.bytes / first.copies < 1024 * limits.small_kib:
        said.append(f"Copies of {words.size(first.bytes / first.copies)} pay for their start: put many into one.")
    if (first.link_percent(link) or 0.0) >= limits.link_percent:
        said.append("These copies are about as fast as the link; no way to copy is faster.")
    if _apart(facts, moved, limits):
        said.append(
            "Let copies run beside kernels, on a stream of their own with pinned memory."
            if len(moved) == 1
            else "Let copies run beside kernels, and both directions beside each other, which the link carries at once:"
            " a stream for each, with pinned memory."
        )
    said.append(
        "Move fewer bytes: send a smaller type (uint8, bf16) and convert on the GPU, keep there what several steps use"
        " (data, weights, states), and compute again what is cheap to compute."
    )
    return " ".join(said)


def _apart(facts: Facts, moved: list[Moved], limits: Limits) -> bool:
    """Whether copies could run beside kernels, or beside those of the other direction, and mostly don't."""
    work = activities(basis.shown(facts).sel)
    others = [intervals.union(work.start[work.kernel | work.compute], work.end[work.kernel | work.compute])]
    others += [one.busy for one in moved[1:]]
    here = moved[0].busy
    for other in others:
        could = min(intervals.length(here), intervals.length(other))
        worth = 100 * could >= LEAST_PERCENT * intervals.length(here)
        if worth and 100 * intervals.length(intervals.intersect(here, other)) < limits.overlap_percent * could:
            return True
    return False


LEAST_PERCENT = 5
"""Less than this of the copies' time is not worth a stream of its own."""
