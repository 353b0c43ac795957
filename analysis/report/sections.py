"""The report's sections, each from one analysis function; an analysis is imported when its section is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from statistics import median
from typing import TYPE_CHECKING

import polars as pl
from msgspec import UNSET
from msgspec.structs import asdict

from tracetui.analysis.attribution.launch_calls import replayed_words
from tracetui.analysis.base.json_values import Json, filled, known, us
from tracetui.analysis.gpu.step_kinds import kind_rows, page_kinds, served_rows, typical_ns
from tracetui.analysis.report.model import (
    Averages,
    Bandwidth,
    Bounds,
    BusyLane,
    Communication,
    Cost,
    CriticalPath,
    Device,
    DeviceIdle,
    Graphs,
    HostSamples,
    Idle,
    Judged,
    LaneEvent,
    Launches,
    Link,
    Note,
    Overview,
    PageStep,
    Roof,
    Roofs,
    Source,
    Step,
    StepLanes,
    TensorCores,
    WaitsFor,
)
from tracetui.analysis.report.rows import rows, table_rows
from tracetui.analysis.tables.collectives import COLLECTIVES, PAIRS
from tracetui.analysis.tables.critical_path import CRITICAL_PATH, GAPS, STRETCHES
from tracetui.analysis.tables.findings import TRIED
from tracetui.analysis.tables.kernels import COMMUNICATION, KERNEL_GROUPS, KERNELS, UNCLEAR
from tracetui.analysis.tables.nsight.counters import ROOFLINE, SOURCE_LINES
from tracetui.analysis.tables.program import (
    HOST_LINES,
    HOST_STACKS,
    MODULE_KERNELS,
    MODULES,
    OPERATORS,
    RANGE_TREE_KERNELS,
)
from tracetui.analysis.tables.registry import SECTIONS as TABLES_OF
from tracetui.analysis.tables.runs import GPUS, SERVED, SERVED_SIZES, SERVED_WORK, STEP_KINDS
from tracetui.parsers.runs.samples import Samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tracetui.analysis.base.conventions import Conventions
    from tracetui.analysis.dependencies.limit import Limit
    from tracetui.analysis.findings.config import Config
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.finding import Findings
    from tracetui.analysis.host_lines import Sampled
    from tracetui.analysis.matching.clean_step import PageStep as OneStep
    from tracetui.analysis.matching.join import Measured
    from tracetui.analysis.overview import Overview as Averaged
    from tracetui.analysis.roofline.roofline import Roofline
    from tracetui.analysis.selection import Selection
    from tracetui.analysis.tables.table import Table
    from tracetui.analysis.timeline.step_lanes import BusyLane as Lane
    from tracetui.parsers import Run, Trace
    from tracetui.parsers.trace import Replays

Section = tuple[object, "int | None"]
ON_REQUEST = ("gaps", "threads", "cpu_functions", "os_calls", "gpu_samples", "unified_memory")
"""The sections that read the file again (what nsys recorded beside CUDA), and the list of gaps: where asked for."""
NEED_TIMELINE = {
    "overview", "critical_path", "operators", "modules", "host_functions", "host_lines", "host_stacks", "api", "ranges",
    "range_tree",
    "launches",
    "communication", "collectives", *ON_REQUEST,
}  # fmt: skip
"""The sections that are empty for a recording without a timeline."""
OF_SELECTION = {
    "api": "host:api_calls",
    "range_tree": "ranges:range_tree",
    "threads": "nsys.threads:threads",
    "cpu_functions": "nsys.threads:cpu_functions",
    "os_calls": "nsys.threads:os_calls",
    "gpu_samples": "nsys.gpu_samples:gpu_samples",
    "unified_memory": "nsys.unified_memory:unified_memory",
}
"""The sections that are a table of the selection and nothing else, with what makes it, which is imported then."""
OF_FACTS = ("memops", "host_functions", "ranges")
"""Those that are a table which rules look at too."""
IDLE_SHARES = ("host_wait_percent", "kernel_wait_percent", "other_percent")


def _waits_for(found: Limit) -> WaitsFor:
    """The verdict, and the numbers that it rests on."""
    free = found.kernels_free_ns
    return filled(
        WaitsFor,
        found,
        what=found.kind,
        gpu_free_us=None if free is None else Bounds(least=us(free[0]), most=us(free[1])),
        unexplained_steps=found.unexplained,
    )


def source(trace: Trace) -> Source:
    """Where the numbers come from, and which parts of that could not be read."""
    info, origin = trace.info, trace.source
    return filled(
        Source,
        info,
        origin,
        path=str(origin.path),
        captured=dict(info.captured),
        graphs=UNSET if trace.replays is None else _graphs(trace.replays),
        skipped=_notes(trace, "skipped"),
        repaired=_notes(trace, "repaired"),
        missing=_notes(trace, "missing"),
    )


def _graphs(found: Replays) -> Graphs:
    return filled(
        Graphs,
        found,
        sentence=replayed_words(found),
        captured=found.pieces,
        replayed_us=us(found.ns),
        attributed_us=us(found.named_ns),
        attributed_percent=100 * found.named_ns / found.ns if found.ns else None,
    )


def devices(trace: Trace) -> list[Device]:
    """The GPUs the trace describes."""
    return [filled(Device, device) for device in trace.info.devices]


def host_samples(trace: Trace, found: Sampled | None, problem: str | None) -> HostSamples | None:
    """How a trace's lines were sampled (`analysis.host_lines.sampled`); None where they were not."""
    if found is None and problem is None:
        return None
    file = Samples() if found is None else found.file
    return filled(
        HostSamples,
        file,
        lost=file.errors,
        steps=len(file.host_ns),
        in_steps=None if file.rate_hz is None else round(file.rate_hz * sum(file.host_ns) / 1e9),
        step_us=us(median(file.step_ns)) if file.step_ns else None,
        clean_step_us=us(typical_ns(trace.clean_step_ns)) if trace.clean_step_ns else None,
        problem=problem,
    )


@dataclass
class Sections:
    """The sections of one selection: a method for each besides those of `OF_SELECTION` and `OF_FACTS`.

    A method returns what the section holds, and how many rows its whole list has (null where it is no list).
    """

    sel: Selection
    limit: int | None = None
    run: Run | None = None
    """The run that the selection's trace belongs to: its other recordings know more about the kernels."""
    config: Config | None = None
    """The rules' thresholds."""
    on_error: Callable[[Exception], None] | None = None

    def section(self, name: str) -> Section:
        """The section of this name."""
        if name in OF_FACTS:
            return self._table(getattr(self._facts, name), TABLES_OF[name])
        if name in OF_SELECTION:
            module, function = OF_SELECTION[name].split(":")
            frame = getattr(import_module(f"tracetui.analysis.{module}"), function)(self.sel)
            return self._table(frame, TABLES_OF[name])
        found: Section = getattr(self, name)()
        return found

    @cached_property
    def _overview(self) -> Averaged:
        return self._facts.run_overview

    @cached_property
    def _kernels(self) -> pl.DataFrame:
        """All kernels in scope: every section's totals cover the same work, in and outside steps."""
        if self._facts.of_steps is self.sel:
            return self._facts.kernels
        from tracetui.analysis.kernels import kernels

        return kernels(self.sel)

    @cached_property
    def _measured(self) -> Measured | None:
        return None if self.run is None else self._facts.counters

    @cached_property
    def _conventions(self) -> Conventions:
        from tracetui.analysis.matching.join import conventions_of

        return conventions_of(self._measured)

    def overview(self) -> Section:
        """Step time by category, GPU metrics, idle time, and what the run waits for."""
        from tracetui.analysis.findings.verdict import verdict
        from tracetui.analysis.roofline.iterations import iteration_work

        found = self._overview
        steps = found.per_step if self.limit is None else found.per_step.head(self.limit)
        served, sizes = served_rows(page_kinds(self.sel))
        return filled(
            Overview,
            found,
            warm_up_steps=found.warm_up,
            step=_page_step(self._facts.page_step),
            categories=_categories(found.average),
            kinds=table_rows(kind_rows(page_kinds(self.sel)), STEP_KINDS),
            served=table_rows(served, SERVED),
            served_work=table_rows(iteration_work(self.run, self.sel), SERVED_WORK),
            served_sizes=table_rows(sizes, SERVED_SIZES),
            per_step=_steps(steps, found.average["category"].to_list()),
            gpu=table_rows(found.gpu, GPUS),
            idle=_idle(found.idle),
            lanes=_lanes(self.sel.trace, found.as_recorded or found),
            as_recorded=None if found.as_recorded is None else _as_recorded(found.as_recorded),
            waits_for=_waits_for(verdict(self._facts, self.config)),
        ), found.per_step.height

    def critical_path(self) -> Section:
        """What each step waited for: resources, and the longest stretches."""
        from tracetui.analysis.matching.clean_step import path_of

        path = self._facts.path
        if path is None:
            return None, None
        window = self.sel.trace.info.window
        of, step = path_of(self.sel), self._facts.page_step
        scale = step.ns / path.step_ns if step.of == of and path.step_ns else 1.0
        stretches = path.stretches.with_columns(
            pl.col("ns") * scale, at_ns=pl.col("start") - (window[0] if window else 0)
        )
        return CriticalPath(
            of=of,
            steps=path.steps,
            step_us=us(path.step_ns * scale),
            resources=table_rows(path.resources.with_columns(pl.col("ns") * scale), CRITICAL_PATH),
            stretches=table_rows(stretches, STRETCHES, self.limit),
        ), stretches.height

    def gaps(self) -> Section:
        """The longest gaps of the GPUs: what the host did in them, and what ended them."""
        from tracetui.analysis.timeline.gaps import longest_gaps

        return self._table(longest_gaps(self.sel, self._facts.host_model), GAPS)

    def communication(self) -> Section:
        """Collectives against compute: averages per step, and the kernels that communicate."""
        found = self._overview
        frame = self._kernels
        frame = frame.filter(frame["category"] == "communication")
        return Communication(
            communication_us=_mean_us(found.per_step["collective_ns"]),
            compute_us=_mean_us(found.per_step["computation_ns"]),
            overlap_us=_mean_us(found.per_step["overlap_ns"]),
            overlap_percent=known(found.overlap_percent),
            kernels=table_rows(frame, COMMUNICATION, self.limit),
        ), frame.height

    def collectives(self) -> Section:
        """Collectives by kind, group and size."""
        from tracetui.analysis.collectives import by_size
        from tracetui.analysis.roofline.peaks import link_of

        matched = None
        if self.run is not None and len(self.run.ranks) > 1:
            from tracetui.analysis.ranks.of_run import jobs_of
            from tracetui.analysis.ranks.one_rank import own_calls

            matched = own_calls(jobs_of(self.run, make=False), self.sel.trace)
        return self._table(by_size(self.sel.recorded, link_of(self.run, self.sel.trace), matched), COLLECTIVES)

    def collectives_extras(self) -> Json:
        """What accompanies the section `collectives`: sends and receives by pair of ranks, and the link of the GPUs."""
        from tracetui.analysis.collectives import by_pair
        from tracetui.analysis.roofline.peaks import link_of

        pairs, link = by_pair(self.sel.recorded), link_of(self.run, self.sel.trace)
        return {
            "collective_pairs": table_rows(pairs, PAIRS, self.limit),
            "collectives_link": None
            if link is None
            else Link(name=link.name, gbps=link.bytes_per_s / 1e9, ranks=link.ranks, source=link.source),
        }

    def kernels(self) -> Section:
        """One row per kernel name."""
        from tracetui.analysis.base.distribution import distributions
        from tracetui.analysis.kernels import kernel_rows
        from tracetui.analysis.matching.join import COUNTERS, with_counters

        measured = self._measured
        counters: dict[str, Json] = {}
        if measured is not None:
            counters = dict(zip(measured.kernels["name"], rows(measured.kernels, COUNTERS), strict=True))
        frame = with_counters(self._kernels, measured)
        found = table_rows(frame, KERNELS, self.limit)
        spread = distributions(kernel_rows(self.sel), {row["name"] for row in found})
        for row in found:
            row |= spread.get(row["name"], {})
            row["counters"] = counters.get(row["name"], {})
        return found, frame.height

    def kernels_extras(self) -> Json:
        """What accompanies the section `kernels`: how much of their time runs on tensor cores."""
        from tracetui.analysis.operators import tensor_cores, tensor_marks

        found = tensor_cores(self.sel, self._kernels, self._conventions)
        unclear = self._kernels["name"].filter(tensor_marks(self._kernels, self._conventions) == UNCLEAR)
        return {"tensor_cores": filled(TensorCores, found, unclear=unclear.to_list())}

    def kernel_groups(self, by: str) -> Section:
        """One row per group of kernels, and how many there are."""
        from tracetui.analysis.kernels import kernel_groups

        return self._table(kernel_groups(self.sel, by), KERNEL_GROUPS)

    def kernels_below(self, tree: str) -> tuple[str, list[Json], int]:
        """The kernels under each range of the tree, or under each module: their key, the rows, and how many."""
        from tracetui.analysis.tree_kernels import module_tree_kernels, range_tree_kernels

        of_ranges = tree == "range_tree"
        table = RANGE_TREE_KERNELS if of_ranges else MODULE_KERNELS
        frame = range_tree_kernels(self.sel) if of_ranges else module_tree_kernels(self.sel)
        return table.id, table_rows(frame, table, self.limit), frame.height

    def operators(self) -> Section:
        """One row per framework operator."""
        from tracetui.analysis.operators import operators

        return self._table(operators(self.sel, conventions=self._conventions), OPERATORS)

    def modules(self) -> Section:
        """The nn.Module tree, depth first."""
        from tracetui.analysis.modules import modules

        return self._table(modules(self.sel, self._conventions), MODULES)

    @cached_property
    def _sampled(self) -> tuple[Sampled | None, str | None]:
        from tracetui.analysis.host_lines import sampled

        return sampled(self.sel.trace)

    def host_lines(self) -> Section:
        """Which lines of the program its threads were in, as a sampler saw without a profiler."""
        from tracetui.analysis.host_lines import host_lines
        from tracetui.analysis.sampled_calls import path_by_line

        found, model = self._sampled[0], self._facts.host_model
        path = {} if found is None or model is None else path_by_line(self.sel, model)
        return self._table(host_lines(found, path), HOST_LINES)

    def host_lines_extras(self) -> Json:
        """How the lines were sampled; null where they were not."""
        return {"host_lines_sampled": host_samples(self.sel.trace, *self._sampled)}

    def host_stacks(self) -> Section:
        """The stacks in which its threads were, as a tree."""
        from tracetui.analysis.host_stacks import host_stacks

        return self._table(host_stacks(self._sampled[0]), HOST_STACKS)

    def tried(self) -> Section:
        """The changes of the program that were measured."""
        from tracetui.analysis.tried import tried

        is_main = self.run is not None and self.sel.trace is self.run.main
        return self._table(tried(self.run.proofs if self.run is not None and is_main else ()), TRIED)

    def launches(self) -> Section:
        """How kernels reach the GPU: how many, how short, how late."""
        from tracetui.analysis.host import launches
        from tracetui.analysis.matching.light_times import launching

        return filled(Launches, launches(launching(self.sel))), None

    def memory(self) -> Section:
        """The allocator's peaks, who held them, what stays, and how fragmented the rest is."""
        from tracetui.analysis.report.memory import memory_section

        return memory_section(self.sel, self.limit), None

    def counters(self) -> Section:
        """Hardware counters per profiled launch."""
        if not self._has_counters:
            return [], 0
        from tracetui.analysis.report.counters import launch_rows

        return launch_rows(self.sel.trace, self.limit)

    def counters_extras(self) -> Json:
        """What accompanies the section `counters`: the same by kernel, and what was not collected."""
        if not self._has_counters:
            return {"counters_by_kernel": [], "counters_missing": None}
        from tracetui.analysis.report.counters import kernel_rows, missing

        trace = self.sel.trace
        return {"counters_by_kernel": kernel_rows(trace, self.limit), "counters_missing": missing(trace)}

    def roofline(self) -> Section:
        """How near each kernel comes to what the GPU's arithmetic and memory allow."""
        return self._table(self._facts.roofline.points, ROOFLINE)

    def roofline_extras(self) -> Json:
        """What accompanies the section `roofline`: the roofs and their sources."""
        return {"roofline_peaks": roofs(self._facts.roofline)}

    @property
    def _has_counters(self) -> bool:
        return self.sel.trace.info.kind == "ncu"

    def findings(self) -> Section:
        """What is wrong and what to do about it."""
        return self._judged.findings, len(self._findings.found)

    def findings_extras(self) -> Json:
        """What accompanies the section `findings`: what was set aside, and what could not be judged."""
        return asdict(self._judged)

    @cached_property
    def _judged(self) -> Judged:
        from tracetui.analysis.report.findings import judged

        return judged(self._findings, self.limit)

    @cached_property
    def _findings(self) -> Findings:
        from tracetui.analysis.findings.engine import findings_of

        return findings_of(self._facts, self.config, self.on_error)

    @cached_property
    def _facts(self) -> Facts:
        from tracetui.analysis.findings.core.facts import Facts
        from tracetui.parsers import Run

        return Facts.of(self.run or Run(self.sel.trace.source.path, (self.sel.trace,)), self.sel)

    def source_lines(self) -> Section:
        """Where in the source a kernel waits and how it accesses memory."""
        from tracetui.analysis.counters.source_lines import source_lines

        return self._table(source_lines(self.sel.trace), SOURCE_LINES)

    def _table(self, frame: pl.DataFrame, table: Table) -> Section:
        return table_rows(frame, table, self.limit), frame.height


def _categories(average: pl.DataFrame) -> dict[str, Cost]:
    """A step by category."""
    rows = average.select("category", "ns", "percent").iter_rows()
    return {category: Cost(us=us(ns), percent=known(percent)) for category, ns, percent in rows}


def _page_step(found: OneStep) -> PageStep:
    return filled(
        PageStep,
        found,
        replay_off_percent=known(found.off_percent),
        categories=_categories(found.average),
        gpu=table_rows(found.gpu, GPUS),
        idle=_idle(found.idle),
    )


def _as_recorded(found: Averaged) -> Averages:
    """The rich recording's own average step and GPU, beside those of the light one."""
    return filled(
        Averages,
        found,
        categories=_categories(found.average),
        gpu=table_rows(found.gpu, GPUS),
        idle=_idle(found.idle),
    )


def _lanes(trace: Trace, found: Averaged) -> StepLanes:
    """The most typical step as lanes in equal parts."""
    from tracetui.analysis.timeline.step_lanes import typical_picture

    picture = typical_picture(trace, found.per_step, marked=bool(found.steps))
    if picture is None:
        return StepLanes(step=None, us=None, lanes=[])
    return StepLanes(step=picture.step, us=us(picture.lasting), lanes=list(map(_lane, picture.lanes)))


def _lane(busy: Lane) -> BusyLane:
    """A lane, how busy it is in all and in each part, in percent."""
    return filled(
        BusyLane,
        busy.lane,
        name=busy.lane.name or None,
        busy_percent=100 * busy.share,
        cells=[round(100 * share, 2) for share in busy.busy],
        events=[
            LaneEvent(name=event.name, begin_percent=100 * event.begin, end_percent=100 * event.end)
            for event in busy.events
        ],
    )


def _steps(frame: pl.DataFrame, categories: Sequence[str]) -> list[Step]:
    columns = ("index", "name", "duration_ns", *(f"{name}_ns" for name in categories))
    return [
        Step(
            index=index,
            name=name,
            us=us(lasting),
            categories={
                category: Cost(us=us(cost), percent=100 * cost / lasting if lasting and cost is not None else None)
                for category, cost in zip(categories, costs, strict=True)
            },
        )
        for index, name, lasting, *costs in frame.select(columns).iter_rows()
    ]


def _mean_us(values: pl.Series) -> float | None:
    return us(int(values.sum()) / len(values)) if len(values) else None


def _notes(trace: Trace, kind: str) -> list[Note]:
    return [filled(Note, note) for note in trace.notes if note.kind == kind]


def _idle(frame: pl.DataFrame) -> Idle:
    """The shares of the idle time of every GPU together, and per device."""
    of_devices = rows(frame.filter(frame["stream"].is_null()), ("device", "idle_ns", *IDLE_SHARES))
    per_device = [DeviceIdle(**row) for row in of_devices]
    total = sum(device.idle_us for device in per_device if device.idle_us is not None)

    def share(shares: Iterable[float | None]) -> float | None:
        pairs = zip(shares, per_device, strict=True)
        return sum((share or 0) * (device.idle_us or 0) for share, device in pairs) / total if total else None

    return Idle(
        host_wait_percent=share(device.host_wait_percent for device in per_device),
        kernel_wait_percent=share(device.kernel_wait_percent for device in per_device),
        other_percent=share(device.other_percent for device in per_device),
        idle_us=total if per_device else None,
        per_device=per_device,
    )


def roofs(found: Roofline) -> Roofs:
    """The roofs of the points: each peak with its source, and what is not known."""
    bandwidth, ridge = found.peaks.bandwidth, found.ridge
    return Roofs(
        device=found.peaks.device,
        compute_capability=found.peaks.capability,
        compute=[
            filled(Roof, peak, precision=name, flops=peak.value, ridge=known(ridge.get(name)))
            for name, peak in found.peaks.compute.items()
        ],
        bandwidth=None if bandwidth is None else filled(Bandwidth, bandwidth, bytes=bandwidth.value),
        covered_percent=known(found.covered_percent),
        unknown=list(found.peaks.unknown),
    )
