"""Ranges of one capture by their role: host time, and the GPU work launched while they were open.

A range's own GPU work (`ranges`) is what its thread launched. PyTorch computes gradients on a thread of their own, so a
``backward_pass`` of the main thread launches next to nothing itself. What was launched *during* a range, by any thread
of its process, is what a person means by "the GPU time of the backward pass": that is counted here.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracetui.analysis.attribution.calltree import NONE, lanes_of
from tracetui.analysis.attribution.operator_tree import device_work
from tracetui.analysis.base import names
from tracetui.analysis.captures import spans
from tracetui.analysis.captures.measure import Measure, Ranges, Sums, category_of
from tracetui.analysis.selection import Selection
from tracetui.parsers import schema
from tracetui.parsers.arrays import Bools
from tracetui.parsers.names.range_roles import NUMBERED, any_of_role, role_of


class Share(Struct, frozen=True):
    """Some of a capture's GPU work of one category."""

    category: str
    calls: int
    ns: int


class Phase(Struct, frozen=True):
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
    """The part of `host_ns` inside steps; None where the capture has neither steps nor a range that is one."""
    step_launched_ns: int | None = None


class Phases(Struct, frozen=True):
    """The ranges of a capture, the most host time first."""

    by_name: tuple[Phase, ...]
    by_role: tuple[Phase, ...]
    steps: int | None
    """How many steps the parts of the phases "in steps" are about; None where there are none."""
    step_ns: int | None
    """Host time of these steps."""
    step_launched_ns: int | None
    """GPU time of what was launched in them."""


def phases(sel: Selection) -> Phases:
    """Measures the ranges in scope by name and by role; numbered steps are one name.

    In a trace without steps, ranges with a name like ``train_step`` stand for them. Nsight Compute's captures have no
    host events: their ranges are known only by the launches inside them.
    """
    chosen = _ranges(sel.trace.host)
    if not chosen.any():
        return _of_counters(sel)
    labelled = _labelled(sel, chosen)
    measure = Measure(sel, labelled.ranges, labelled.is_step)
    named, by_role = _by_name(measure, labelled), _by_role(measure, labelled)
    found = Phases(_sorted(named), _sorted(by_role), *measure.whole_steps())
    return found if sel.trace.device.height else _without_gpu(found)


def named_phases(sel: Selection) -> tuple[Phase, ...]:
    """The phases by name alone, without their shares by category and their parts in steps: a quarter of the work."""
    chosen = _ranges(sel.trace.host)
    if not chosen.any() or not sel.trace.device.height:
        return phases(sel).by_name
    labelled = _labelled(sel, chosen)
    return _sorted(_by_name(Measure(sel, labelled.ranges, labelled.is_step, apart=False), labelled))


def phase_of(sel: Selection, role: str) -> Phase | None:
    """The phase of one role; None where no range has it."""
    known = names.distinct(sel.trace.host["name"])
    # the steps may have any name
    if role != "step" and known and not any_of_role(known, role):
        return None
    return next((phase for phase in phases(sel).by_role if phase.role == role), None)


class _Labelled(Struct, frozen=True):
    """The ranges of a capture, and the sets that they are measured in: those of one name and domain."""

    ranges: Ranges
    name: list[str]
    """The name of each set, without the number of a step; the ranges have the set's number."""
    domain: list[str]
    role: list[str | None]

    @property
    def is_step(self) -> Bools:
        """Whether a set's ranges are steps."""
        return np.array([role == "step" for role in self.role], np.bool_)


_MEASURED = tuple(schema.HOST_KINDS.index(kind) for kind in ("annotation", "dataloader"))


def _ranges(host: pl.DataFrame) -> Bools:
    """Marks the ranges of a host frame that last."""
    kind = host["kind"].to_physical().to_numpy()
    chosen: Bools = (kind == _MEASURED[0]) | (kind == _MEASURED[1])
    style = host["style"]
    if style.null_count() < len(style):
        marks = (style == "mark").fill_null(value=False).to_numpy()
        chosen &= ~marks
    return chosen


def _labelled(sel: Selection, chosen: Bools) -> _Labelled:
    host = sel.trace.host
    step_names = set(sel.trace.steps["name"])
    label, labels = names.numbered(
        host["name"], chosen, lambda text: NUMBERED.sub("", text) if text in step_names else text, ""
    )
    domain, domains = names.numbered(host["domain"], chosen, str, "")
    label *= len(domains)
    label += domain
    sets, number = spans.dense_groups(label)
    steps = {NUMBERED.sub("", text) for text in step_names}
    operators = _operators(sel, chosen)
    of_label = [None if text in operators else _role(text, steps) for text in labels]
    start = host["start"].to_numpy()[chosen]
    end = start + host["duration"].to_numpy()[chosen]
    at = sets // len(domains)
    return _Labelled(
        Ranges(lanes_of(host)[chosen], start, end, number),
        [labels[place] for place in at.tolist()],
        [domains[place] for place in (sets % len(domains)).tolist()],
        [of_label[place] for place in at.tolist()],
    )


def _without_gpu(found: Phases) -> Phases:
    """A recording without GPU work does not tell whether nothing was launched or the tool did not record it."""
    unknown = dict.fromkeys(("launched_ns", "launched_ops", "span_ns", "step_launched_ns"))
    by_name, by_role = (tuple(replace(phase, **unknown) for phase in of) for of in (found.by_name, found.by_role))
    return replace(found, by_name=by_name, by_role=by_role, step_launched_ns=None)


def _operators(sel: Selection, chosen: Bools) -> set[str]:
    """Names of ranges that PyTorch's `emit_nvtx` made, one per call: ``MmBackward0`` is an operator, not a phase."""
    host = sel.trace.host
    numbers = [host[name] for name in ("sequence", "external_id")]
    if sel.trace.info.kind != "nsys" or all(column.null_count() == host.height for column in numbers):
        return set()
    numbered = host["name"].filter(pl.Series(chosen) & (numbers[0].is_not_null() | numbers[1].is_not_null()))
    return set(numbered.unique().cast(pl.String).to_list())


def _role(name: str, steps: set[str]) -> str | None:
    """`role_of`; where the trace has steps, only they are steps."""
    role = role_of(name)
    if name in steps:
        return "step"
    return None if steps and role == "step" else role


def _sorted(found: list[Phase]) -> tuple[Phase, ...]:
    kept = [phase for phase in found if phase.instances or phase.launched_ops]
    return tuple(sorted(kept, key=lambda phase: (-(phase.host_ns or 0), -(phase.launched_ns or 0), phase.name)))


def _by_name(measure: Measure, labelled: _Labelled) -> list[Phase]:
    """One phase for every name and domain."""
    found = measure.sums(measure.ranges, len(labelled.name))
    return [
        _phase(found, at, name, domain, role, (name,))
        for at, (name, domain, role) in enumerate(zip(labelled.name, labelled.domain, labelled.role, strict=True))
        if found.instances[at]
    ]


def _by_role(measure: Measure, labelled: _Labelled) -> list[Phase]:
    """One phase for every role."""
    roles = list(dict.fromkeys(role for role in labelled.role if role is not None))
    of_set = np.array([NONE if role is None else roles.index(role) for role in labelled.role], np.int64)
    number = of_set[measure.ranges.name]
    found = measure.sums(replace(measure.ranges, name=number).take(number >= 0), len(roles))
    there = np.bincount(measure.ranges.name, minlength=of_set.size) > 0
    known: dict[str, set[str]] = {}
    for name, of, occurs in zip(labelled.name, labelled.role, there.tolist(), strict=True):
        if of is not None and occurs:
            known.setdefault(of, set()).add(name)
    return [
        _phase(found, at, role, None, role, tuple(sorted(known[role])))
        for at, role in enumerate(roles)
        if found.instances[at]
    ]


def _phase(found: Sums, at: int, name: str, domain: str | None, role: str | None, of: tuple[str, ...]) -> Phase:
    """The phase with this number."""
    shares = [
        Share(category, int(found.calls[category][at]), int(spent[at]))
        for category, spent in found.spent.items()
        if found.calls[category][at]
    ]
    return Phase(
        name=name,
        domain=domain,
        role=role,
        names=of,
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
