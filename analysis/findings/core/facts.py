"""What rules look at: a run's frames and analyses, each computed on first use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import polars as pl
from msgspec import Struct

from tracetui.analysis.findings.declared.needs import NEEDS, NO_SHAPES, NOT_OF_TORCH
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import Selection, in_steps, select
from tracetui.parsers.arrays import Ints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tracetui.analysis.base.intervals import Intervals
    from tracetui.analysis.captures.step_ranges import StepRanges
    from tracetui.analysis.compare.comparable import Comparable
    from tracetui.analysis.compare.diff import Diff
    from tracetui.analysis.compare.regression import Regression
    from tracetui.analysis.compare.repeats import RunsDifference
    from tracetui.analysis.dependencies.critical_path import CriticalPath
    from tracetui.analysis.dependencies.limit import Limit
    from tracetui.analysis.dependencies.model import Model
    from tracetui.analysis.findings.core.framework import Program
    from tracetui.analysis.host_lines import Sampled
    from tracetui.analysis.matching.clean_step import PageStep
    from tracetui.analysis.matching.join import Measured
    from tracetui.analysis.memory.peak import Memory
    from tracetui.analysis.overview import Overview
    from tracetui.analysis.ranks.job import Job
    from tracetui.analysis.roofline.roofline import Roofline
    from tracetui.parsers import Run, Trace
    from tracetui.parsers.runs.manifest import RunManifest


class Subject(Protocol):
    """What the engine needs from any subject that rules look at."""

    @property
    def kind(self) -> str:
        """One of `rule.SUBJECTS`."""

    def missing(self, needs: Iterable[str]) -> str:
        """The first of these needs that is not met and how to record it, in words; empty if all are met."""

    def unknown(self, bases: Iterable[str]) -> str:
        """Why nothing can rest on one of these `rule.BASES`, in words; empty if something can on all."""


class Loader(Struct, frozen=True):
    """How long the host waits for the next batch, per step."""

    waited_ns: float
    """How long the host waited."""
    exposed_ns: float
    """The part of it in which the GPU had nothing to do."""
    name: str
    """Name of the events or ranges that record the wait."""
    waits: Intervals
    """When the host waited."""

    @property
    def in_main_process(self) -> bool:
        """Whether PyTorch's loader has no workers, so that the step waits while the batch is made."""
        return "SingleProcess" in self.name


class Facts:
    """A run as one tool recorded it, within a scope."""

    kind = "run"

    def __init__(self, run: Run, trace: Trace | None = None, scope: Scope | None = None) -> None:
        self.run = run
        self.trace = run.main if trace is None else trace
        self.scope = scope or Scope()

    @classmethod
    def of(cls, run: Run, sel: Selection) -> Facts:
        """The facts of an existing selection, which reuse everything already computed for it."""
        facts = Facts(run, sel.trace, sel.scope)
        facts.sel = sel
        return facts

    # --- what was recorded

    def missing(self, needs: Iterable[str]) -> str:
        """See `Subject.missing`; the names are the keys of `needs.NEEDS`."""
        for name in needs:
            if not _HAS[name](self):
                return self._in_its_words(name, NEEDS[name])
        return ""

    def _in_its_words(self, need: str, words: str) -> str:
        """What to record for a need that is not met, for this recording and this kind of program."""
        if need == "shapes" and self.records_shapes:
            return NO_SHAPES
        return NOT_OF_TORCH.get(need, words) if self.program.framework in ("jax", "native") else words

    def unknown(self, bases: Iterable[str]) -> str:
        """See `Subject.unknown`: what a recording of this kind can't tell."""
        untold, words = UNKNOWN.get(self.trace.info.kind, (frozenset(), ""))
        return "" if untold.isdisjoint(bases) else words

    # --- frames and analyses

    @cached_property
    def sel(self) -> Selection:
        """The trace within the scope, GPU work with the times of the run's light recording where it has one."""
        from tracetui.analysis.matching.light_times import with_light_times

        return with_light_times(select(self.trace, self.scope))

    @property
    def recorded(self) -> Selection:
        """`sel` with the trace's own times: for rules on the recording itself."""
        return self.sel.recorded

    @cached_property
    def run_overview(self) -> Overview:
        """Steps, categories, GPU metrics, idle causes: of the light recording where the run has one."""
        from tracetui.analysis.matching.join import conventions_of
        from tracetui.analysis.matching.light_overview import run_overview

        return run_overview(self.sel, conventions_of(self.counters))

    @property
    def overview(self) -> Overview:
        """The same of the trace itself, whose host times and steps other analyses share."""
        return self.run_overview.as_recorded or self.run_overview

    @property
    def page_step(self) -> PageStep:
        """The one step that the page is of."""
        from tracetui.analysis.matching.clean_step import page_step

        return page_step(self.run_overview)

    @cached_property
    def verdict(self) -> Limit:
        """What the run waits for; of one rank of a job, as all of them know it."""
        if self.job is None:
            return self.run_overview.verdict
        from tracetui.analysis.ranks.one_rank import in_its_job

        return in_its_job(self.run_overview.verdict, self.job, self.trace.info.rank)

    @cached_property
    def of_steps(self) -> Selection:
        """`sel` without GPU work that no step launched; `sel` itself if there is no such work or there are no steps."""
        inside = in_steps(self.sel)
        return self.sel if inside.device.height == self.sel.device.height else inside

    @cached_property
    def kernels(self) -> pl.DataFrame:
        """`analysis.kernels.kernels` of the steps: one row per kernel name."""
        from tracetui.analysis.kernels import summarize

        return summarize(self.of_steps, self.launches)

    @cached_property
    def launches(self) -> pl.DataFrame:
        """The kernels that the steps launched, one row each (`schema.DEVICE` and ``row``), graphs included."""
        from tracetui.analysis.kernels import kernel_rows

        return kernel_rows(self.of_steps)

    @cached_property
    def recorded_launches(self) -> pl.DataFrame:
        """`launches` with the trace's own times."""
        if self.of_steps.recorded is self.of_steps:
            return self.launches
        from tracetui.analysis.kernels import kernel_rows

        return kernel_rows(self.of_steps.recorded)

    @cached_property
    def api(self) -> pl.DataFrame:
        """`analysis.host.api_calls` of the steps: what set the program up is not theirs."""
        from tracetui.analysis.host import api_calls

        return api_calls(in_steps(self.sel))

    @cached_property
    def host_functions(self) -> pl.DataFrame:
        """`analysis.host.host_functions`."""
        from tracetui.analysis.host import host_functions

        return host_functions(self.sel)

    @cached_property
    def ranges(self) -> pl.DataFrame:
        """`analysis.ranges.ranges`."""
        from tracetui.analysis.ranges import ranges

        return ranges(self.sel)

    @cached_property
    def step_ranges(self) -> StepRanges:
        """`analysis.captures.step_ranges.step_ranges`: the steps, or the ranges that are named as steps."""
        from tracetui.analysis.captures.step_ranges import step_ranges

        return step_ranges(self.sel)

    @cached_property
    def memops(self) -> pl.DataFrame:
        """`analysis.memops.memops`."""
        from tracetui.analysis.memops import memops

        return memops(self.sel)

    @cached_property
    def loader(self) -> Loader | None:
        """The wait for data: from the loader's own events, else from ranges named like `loading.LOADING`, else None."""
        from tracetui.analysis.base import intervals
        from tracetui.analysis.dependencies.host_layers import loading_rows, loading_time
        from tracetui.analysis.gpu.activities import activities
        from tracetui.analysis.gpu.steps import step_slots

        rows, slots = loading_rows(self.sel.trace), step_slots(self.sel)
        if not rows.height or not slots.start.size:
            return None
        waits, work = loading_time(self.sel.trace), activities(self.sel)
        exposed = intervals.subtract(waits, intervals.union(work.start, work.end))
        waited_ns, exposed_ns = (
            self.per_step(float(intervals.covered(spans, slots.start, slots.end).sum())) for spans in (waits, exposed)
        )
        name = str(rows["name"].cast(pl.String).value_counts(sort=True)["name"][0])
        return Loader(waited_ns, exposed_ns, name, waits)

    @cached_property
    def model(self) -> Model | None:
        """`dependencies.limit.run_model`: what the steps would take if GPU work were faster or absent."""
        from tracetui.analysis.dependencies.limit import run_model

        return run_model(self.sel)

    @cached_property
    def host_model(self) -> Model | None:
        """The model of the trace itself, whose calls have names: for what the host does."""
        from tracetui.analysis.dependencies.model import model

        return model(self.sel, self.sel.clean_step_ns)

    @cached_property
    def is_without_gpu(self) -> bool:
        """Whether all that its steps do is the host's: no GPU work, nor a call that might have launched some."""
        calls = self.host_kinds.isdisjoint(("runtime", "driver"))
        return calls and not self.trace.device.height and self.trace.has_timeline and self.sel.steps.height > 0

    @cached_property
    def sampled(self) -> Sampled | None:
        """What samples of the clean program saw; None where there are none."""
        from tracetui.analysis.host_lines import sampled

        return sampled(self.trace)[0]

    @cached_property
    def model_rows(self) -> Ints:
        """The device row of `trace` of each activity in `model`; -1 for work of the light recording that it lacks."""
        assert self.model is not None
        replayed, rows = self.model.sel.trace, self.model.graph.work.row
        if replayed is self.trace:
            return rows
        from tracetui.analysis.matching.light_times import rows_in_rich

        return rows_in_rich(replayed, self.trace)[rows]

    @cached_property
    def path(self) -> CriticalPath | None:
        """`analysis.dependencies.critical_path.critical_path` of `host_model`."""
        from tracetui.analysis.dependencies.critical_path import critical_path

        return critical_path(self.sel, self.host_model) if self.host_model is not None else None

    @cached_property
    def memory(self) -> Memory:
        """`analysis.memory.peak.memory` of the snapshot if the run has one of this GPU, else of the trace."""
        from tracetui.analysis.memory.peak import memory, over_capacity

        found = self.run.of_kind("memory_snapshot")
        snapshots = [snapshot for snapshot in found if over_capacity(snapshot, self.trace) is None]
        return memory(select(snapshots[0]) if snapshots else self.sel)

    @cached_property
    def counters(self) -> Measured | None:
        """What Nsight Compute measured of this trace's kernels (`analysis.matching.join.kernel_counters_of`)."""
        from tracetui.analysis.matching.join import kernel_counters_of

        return kernel_counters_of(self.run, self.trace)

    @cached_property
    def measured(self) -> pl.DataFrame:
        """Every launch in the run's Nsight Compute reports (`analysis.counters.counters.launch_counters`)."""
        from tracetui.analysis.counters.counters import launch_counters

        frames = [launch_counters(trace) for trace in self.run.of_kind("ncu")]
        return pl.concat(frames) if frames else pl.DataFrame()

    @cached_property
    def roofline(self) -> Roofline:
        """`analysis.roofline.roofline.roofline`: points from counters and from shapes, and the GPU's peaks."""
        from tracetui.analysis.roofline.roofline import roofline

        return roofline(self.run, self.sel, measured=self.counters)

    @property
    def manifest(self) -> RunManifest | None:
        """The run's run.json."""
        return self.run.manifest

    @cached_property
    def machine(self) -> RunManifest | None:
        """What says how the machine was during the run: run.json, else a log of the board in its words."""
        if self.manifest is not None and (self.manifest.power.before or self.manifest.power.during):
            return self.manifest
        logs = self.run.of_kind("tegrastats")
        if not logs:
            return None
        from tracetui.parsers.runs.board import as_of_run

        return as_of_run(logs[0])

    @cached_property
    def program(self) -> Program:
        """`framework.program_of`: the framework, whose language advice speaks."""
        from tracetui.analysis.findings.core.framework import program_of

        return program_of(self.trace, self.launches["name"])

    @cached_property
    def job(self) -> Job | None:
        """What all ranks of the run say together, of its rich recordings; None for one rank, or if not all were read.

        Rules read no other recordings: a table of ranks does, and leaves at hand what it found.
        """
        run = self.run.whole or self.run
        if len(run.ranks) < 2:
            return None
        from tracetui.analysis.ranks.of_run import jobs_of

        # of one rank alone no table was made, and its job is only read where its recordings were
        found = jobs_of(run, make=run is not self.run and not run.unread)
        return found[0] if found else None

    @property
    def records_shapes(self) -> bool:
        """Whether the file says that record_shapes was on, whether or not its operators have any."""
        return dict(self.trace.info.captured).get("record_shapes") == "1"

    @cached_property
    def host_kinds(self) -> frozenset[str]:
        """The kinds of host rows (`schema.HOST_KINDS`) that the recording has."""
        return frozenset(self.trace.host["kind"].unique().drop_nulls().cast(pl.String))

    # --- figures

    @cached_property
    def step_count(self) -> int:
        """The number of steps that "per step" divides by."""
        return self.sel.step_count

    @cached_property
    def step_ns(self) -> float:
        """The recorded step: the page's where that is it, else the mean; without steps, from first to last GPU work."""
        return self.page_step.ns if self.page_step.of == "recorded" else self.overview.average_step_ns

    @cached_property
    def kernel_ns(self) -> int:
        """The sum of all kernel durations in scope: the base of kernel shares."""
        return int(self.kernels["total_ns"].sum()) if self.kernels.height else 0

    def per_step(self, ns: float) -> float:
        """A time of the whole scope, divided by the number of steps."""
        return ns / self.step_count

    def ceiling(self, ns_per_step: float) -> float | None:
        """A recorded time in percent of the recorded step, at most 100."""
        return 100 * min(ns_per_step, self.step_ns) / self.step_ns if self.step_ns > 0 else None

    def share_of_kernels(self, ns: float | None) -> float | None:
        """A time in percent of all kernel time; None where either is unknown."""
        return 100 * ns / self.kernel_ns if ns is not None and self.kernel_ns else None


@dataclass(frozen=True)
class Pair:
    """Two runs: A is the base."""

    a: Facts
    b: Facts
    between: RunsDifference | None = None
    """The difference of their repeats, of which both are the middle ones; None for two single runs."""
    kind: str = "pair"

    def missing(self, needs: Iterable[str]) -> str:
        """See `Subject.missing`: both runs must have it."""
        return self._first(Facts.missing, needs)

    def unknown(self, bases: Iterable[str]) -> str:
        """See `Subject.unknown`: neither run's kind may leave one of them open."""
        return self._first(Facts.unknown, bases)

    def _first(self, ask: Callable[[Facts, tuple[str, ...]], str], wanted: Iterable[str]) -> str:
        names = tuple(wanted)
        answers = ((letter, ask(facts, names)) for letter, facts in (("A", self.a), ("B", self.b)))
        return next((f"{letter}: {words}" for letter, words in answers if words), "")

    @cached_property
    def diff(self) -> Diff:
        """`analysis.compare.diff.diff`."""
        from tracetui.analysis.compare.diff import diff

        return diff(self.a.sel, self.b.sel)

    def regression(self, noise: float = 1.0) -> Regression:
        """`analysis.compare.regression.regression`."""
        from tracetui.analysis.compare.regression import regression

        return regression(self.diff, self.between, noise)

    @cached_property
    def comparable(self) -> Comparable:
        """`analysis.compare.comparable.comparable`: the verdict and what differs."""
        from tracetui.analysis.compare.comparable import comparable

        return comparable(self.a.trace, self.b.trace, manifests=(self.a.manifest, self.b.manifest))

    @cached_property
    def samples(self) -> tuple[float | None, float | None]:
        """How many samples a step of A and of B holds (`analysis.compare.comparable.samples_per_step`)."""
        from tracetui.analysis.compare.comparable import samples_per_step

        ours, theirs = (samples_per_step(facts.trace, facts.manifest) for facts in (self.a, self.b))
        return ours, theirs


UNKNOWN: dict[str, tuple[frozenset[str], str]] = {
    "jax": (
        frozenset({"host", "whole"}),
        "what the host does between launches, which JAX's profiler does not record: record with nsys profile",
    ),
    "ncu": (
        frozenset({"host", "whole", "shares", "steps"}),
        "the run: Nsight Compute measured single launches; add a Chrome trace or an nsys export of the same run",
    ),
    "memory_snapshot": (
        frozenset({"host", "whole", "shares", "steps", "counters"}),
        "times: a memory snapshot holds allocations only; add a Chrome trace or an nsys export",
    ),
}
"""By kind of recording: the bases of which it tells nothing, so that rules that rest on them abstain, and why."""


def _has_kind(*kinds: str) -> Callable[[Facts], bool]:
    return lambda facts: not facts.host_kinds.isdisjoint(kinds)


_HAS: dict[str, Callable[[Facts], bool]] = {
    "timeline": lambda facts: facts.trace.has_timeline,
    "steps": lambda facts: facts.sel.steps.height > 0,
    "job_steps": lambda facts: facts.job is not None and facts.job.step_count > 0,
    "several_steps": lambda facts: facts.sel.steps.height > 1,
    "gpu": lambda facts: facts.launches.height > 0,
    "host": lambda facts: facts.trace.host.height > 0,
    "operators": _has_kind("operator"),
    "loader": lambda facts: facts.loader is not None,
    "frames": _has_kind("python"),
    "modules": _has_kind("module"),
    "annotations": _has_kind("annotation"),
    "api": _has_kind("runtime", "driver"),
    "shapes": lambda facts: facts.trace.host["input_shapes"].count() > 0,
    "counters": lambda facts: bool(facts.run.of_kind("ncu")),
    "manifest": lambda facts: facts.manifest is not None,
    "power": lambda facts: facts.machine is not None,
    "ranks": lambda facts: facts.job is not None,
    "collectives": lambda facts: facts.job is not None and facts.job.collectives.height > 0,
    "memory": lambda facts: facts.memory.peak_allocated_bytes is not None,
}
"""By name of `needs.NEEDS`: whether the run has it."""
