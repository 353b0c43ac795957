"""Ranges of one capture by their role: host time, and the GPU work launched while they were open.

A range's own GPU work (`ranges`) is what its thread launched. PyTorch computes gradients on a thread of their own, so a
``backward_pass`` of the main thread launches next to nothing itself. What was launched *during* a range, by any thread
of its process, is what a person means by "the GPU time of the backward pass": that is counted here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.attribution.calltree import NONE, numbered_by
from tracetui.analysis.attribution.operator_tree import device_work
from tracetui.analysis.base import names
from tracetui.analysis.captures.measure import Measure, category_of
from tracetui.parsers.names.range_roles import NUMBERED, role_of

if TYPE_CHECKING:
    from tracetui.analysis.selection import Selection


@dataclass(frozen=True, slots=True)
class Share:
    """Some of a capture's GPU work of one category."""

    category: str
    calls: int
    ns: int


@dataclass(frozen=True, slots=True)
class Phase:
    """All ranges of one name, or of one role. Times in ns; null where the source can't tell."""

    name: str
    domain: str | None
    role: str | None
    names: tuple[str, ...]
    instances: int | None
    """The number of instances that are not inside another instance of the phase."""
    host_ns: int | None
    """Time that the ranges were open, on each thread; a range inside another of the phase adds nothing."""
    launched_ns: int | None
    """GPU time of the work that any thread of the process launched while the ranges were open."""
    launched_ops: int | None
    span_ns: int | None
    """From the first start to the last end of that work, summed over the stretches of time the ranges were open."""
    shares: tuple[Share, ...] = ()
    """`launched_ns` by category, the most time first."""
    step_instances: int | None = None
    """The number of instances that began in steps."""
    step_host_ns: int | None = None
    """The part of `host_ns` inside steps; null where the capture has neither steps nor a range that is one."""
    step_launched_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Phases:
    """The ranges of a capture, the most host time first."""

    by_name: tuple[Phase, ...]
    by_role: tuple[Phase, ...]
    steps: int | None
    """How many steps the parts of the phases "in steps" are about; null where there are none."""
    step_ns: int | None
    """Host time of these steps."""
    step_launched_ns: int | None
    """GPU time of what was launched in them."""


def phases(sel: Selection) -> Phases:
    """Measures the ranges in scope by name and by role; numbered steps are one name.

    In a trace without steps, ranges with a name like ``train_step`` stand for them. Nsight Compute's captures have no
    host events: their ranges are known only by the launches inside them.
    """
    host = _ranges(sel)
    if not host.height:
        return _of_counters(sel)
    labels = _labels(sel, host)
    measure = Measure(sel, _labelled(host, labels))
    named, by_role = _measured(measure, labels, "label"), _measured(measure, labels, "role")
    found = Phases(_sorted(named), _sorted(by_role), *measure.whole_steps())
    return found if sel.trace.device.height else _without_gpu(found)


def named_phases(sel: Selection) -> tuple[Phase, ...]:
    """The phases by name alone, without their shares by category and their parts in steps: a quarter of the work."""
    host = _ranges(sel)
    if not host.height or not sel.trace.device.height:
        return phases(sel).by_name
    labels = _labels(sel, host)
    return _sorted(_measured(Measure(sel, _labelled(host, labels), apart=False), labels, "label"))


def phase_of(sel: Selection, role: str) -> Phase | None:
    """The phase of one role; None where no range has it."""
    known = names.distinct(sel.trace.host["name"])
    # the steps may have any name
    if role != "step" and known and not any(role in (role_of(name), role_of(NUMBERED.sub("", name))) for name in known):
        return None
    return next((phase for phase in phases(sel).by_role if phase.role == role), None)


@dataclass(frozen=True, slots=True)
class _Labels:
    """What the ranges of a capture are called."""

    label: dict[str, str]
    """The phase of each name: itself, without the number of a step."""
    role: dict[str, str | None]
    """Of each phase."""


def _ranges(sel: Selection) -> pl.DataFrame:
    return (
        sel.trace.host.lazy()
        .filter(pl.col("kind").is_in(["annotation", "dataloader"]))
        .filter(pl.col("style").is_null() | (pl.col("style") != "mark"))
        .select("name", "domain", "process", "thread", "start", "duration", "sequence", "external_id")
        .collect()
    )


def _labels(sel: Selection, host: pl.DataFrame) -> _Labels:
    step_names = set(sel.trace.steps["name"])
    distinct = names.distinct(host["name"])
    if host["name"].null_count():
        distinct.append("")
    label = {text: NUMBERED.sub("", text) if text in step_names else text for text in distinct}
    steps = {label.get(text, text) for text in step_names}
    operators = _operators(sel, host)
    return _Labels(label, {name: None if name in operators else _role(name, steps) for name in set(label.values())})


def _labelled(host: pl.DataFrame, labels: _Labels) -> pl.DataFrame:
    codes = pl.Categorical()
    role = names.mapped(host["name"], lambda text: labels.role[labels.label[text]], labels.role.get(""), codes)
    return host.select(
        pl.col("process", "thread").fill_null(NONE), "start", end=pl.col("start") + pl.col("duration"),
        label=names.mapped(host["name"], labels.label.__getitem__, "", codes),
        domain=names.mapped(host["domain"], str, "", codes),
        role=role,
    )  # fmt: skip


def _without_gpu(found: Phases) -> Phases:
    """A recording without GPU work does not tell whether nothing was launched or the tool did not record it."""

    def told(phases: tuple[Phase, ...]) -> tuple[Phase, ...]:
        return tuple(
            replace(phase, launched_ns=None, launched_ops=None, span_ns=None, step_launched_ns=None) for phase in phases
        )

    return replace(found, by_name=told(found.by_name), by_role=told(found.by_role), step_launched_ns=None)


def _operators(sel: Selection, host: pl.DataFrame) -> set[str]:
    """Names of ranges that PyTorch's `emit_nvtx` made, one per call: ``MmBackward0`` is an operator, not a phase."""
    if sel.trace.info.kind != "nsys":
        return set()
    numbered = host.filter(pl.col("sequence").is_not_null() | pl.col("external_id").is_not_null())
    return set(numbered["name"].unique().cast(pl.String).to_list())


def _role(name: str, steps: set[str]) -> str | None:
    """`role_of`; where the trace has steps, only they are steps."""
    role = role_of(name)
    if name in steps:
        return "step"
    return None if steps and role == "step" else role


def _sorted(found: list[Phase]) -> tuple[Phase, ...]:
    kept = [phase for phase in found if phase.instances or phase.launched_ops]
    return tuple(sorted(kept, key=lambda phase: (-(phase.host_ns or 0), -(phase.launched_ns or 0), phase.name)))


def _measured(measure: Measure, labels: _Labels, key: str) -> list[Phase]:
    """One phase for every name and domain, or for every role."""
    ranges = measure.ranges
    if key == "role":
        ranges = ranges.drop_nulls("role")
    keys = ["label", "domain"] if key == "label" else ["role"]
    number = numbered_by(ranges.select(pl.col(keys).to_physical().cast(pl.Int64)), keys)
    size = int(number.max(initial=-1)) + 1
    first = np.zeros(size, np.int64)
    first[number[::-1]] = np.arange(number.size)[::-1]  # of several values for a place the last one stays
    order = np.argsort(first)
    place = np.empty(size, np.int64)
    place[order] = np.arange(size)
    sets = ranges[first[order]].select(*keys, of="role").cast(pl.String)
    found = measure.sums(ranges.with_columns(number=pl.Series(place[number])), size=size)
    known = names.distinct(ranges["label"])
    phases = []
    for at, row in enumerate(sets.iter_rows(named=True)):
        shares = [
            Share(category, int(found.calls[category][at]), int(spent[at]))
            for category, spent in found.spent.items()
            if found.calls[category][at]
        ]
        phases.append(
            Phase(
                name=row[key],
                domain=row.get("domain"),
                role=row["of"],
                names=tuple(sorted(n for n in known if labels.role[n] == row["of"])) if key == "role" else (row[key],),
                instances=int(found.instances[at]),
                host_ns=int(found.host[at]),
                launched_ns=sum(share.ns for share in shares),
                launched_ops=sum(share.calls for share in shares),
                span_ns=int(found.span[at]),
                shares=tuple(sorted(shares, key=lambda share: (-share.ns, share.category))),
                step_instances=None if found.step_instances is None else int(found.step_instances[at]),
                step_host_ns=None if found.step_host is None else int(found.step_host[at]),
                step_launched_ns=None if found.step_launched is None else int(found.step_launched[at]),
            )
        )
    return phases


def _of_counters(sel: Selection) -> Phases:
    """Ranges as Nsight Compute names them beside each launch: ``train_step/forward_pass``, outermost first."""
    texts = (
        sel.trace.counters.filter((pl.col("section") == "NVTX") & pl.col("text").is_not_null())
        .select(row="device_row", range=pl.col("text").str.split("/"))
        .explode("range")
        .unique(maintain_order=True)
    )
    device = device_work(sel)
    work = device.select("row", "duration", category=category_of(device))
    joined = texts.join(work, on="row").with_columns(
        role=pl.col("range").map_elements(role_of, return_dtype=pl.String, skip_nulls=True)
    )
    named = [_counted(str(name), role_of(str(name)), group) for (name,), group in joined.group_by("range")]
    by_role = [
        _counted(str(role), str(role), group.unique("row"))
        for (role,), group in joined.drop_nulls("role").group_by("role")
    ]
    return Phases(_sorted(named), _sorted(by_role), None, None, None)


def _counted(name: str, role: str | None, rows: pl.DataFrame) -> Phase:
    shares = rows.group_by("category").agg(pl.len().alias("calls"), pl.col("duration").sum().alias("ns"))
    shares = shares.sort("ns", "category", descending=[True, False])
    return Phase(
        name=name,
        domain=None,
        role=role,
        names=tuple(sorted(rows["range"].unique().to_list())),
        instances=None,
        host_ns=None,
        launched_ns=int(rows["duration"].sum()),
        launched_ops=rows.height,
        span_ns=None,
        shares=tuple(Share(*row) for row in shares.iter_rows()),
    )
