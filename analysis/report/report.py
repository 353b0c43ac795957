"""The report: one JSON contract for scripts, CI and the text reports; `docs/reference/report.md` has every key."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from tracetui.analysis.base.json_values import Json, filled, us
from tracetui.analysis.captures.model import CaptureRow
from tracetui.analysis.findings.config import Config
from tracetui.analysis.matching.join import Joined
from tracetui.analysis.report import model
from tracetui.analysis.report import sections as report_sections
from tracetui.analysis.report.model import JoinRow, LightRecording, OtherRun, PassRow, Report, UnmatchedKernel
from tracetui.analysis.report.ranks import SECTIONS as JOB_SECTIONS
from tracetui.analysis.report.ranks import job_sections
from tracetui.analysis.report.rows import table_rows
from tracetui.analysis.selection import Scope, Selection, select
from tracetui.analysis.tables.ranks import RANKS
from tracetui.analysis.tables.registry import SECTIONS as TABLES_OF
from tracetui.parsers import Run, Trace
from tracetui.parsers.errors import instead
from tracetui.parsers.runs.samples import FILE as SAMPLES
from tracetui.parsers.tool_registry import BY_KIND

LIGHT, RICH, BOTH = "light", "rich", "both"
RESTS_ON = {
    "overview": LIGHT,
    "launches": LIGHT,
    "kernels": LIGHT,
    "kernel_groups": LIGHT,
    "memops": LIGHT,
    "communication": LIGHT,
    "roofline": LIGHT,
    "operators": BOTH,
    "modules": BOTH,
    "ranges": BOTH,
    "range_tree": BOTH,
    "findings": BOTH,
    "critical_path": RICH,
    "gaps": RICH,
    "host_functions": RICH,
    "api": RICH,
    "memory": RICH,
    "collectives": RICH,
}
"""By section, which recording its times are of; names, counts and steps of tables are always those of the rich one.
``both``: GPU times of the light one, host times of the rich one, as recorded; findings take verdict and gains of GPU
work from the light one, what they say of the host from the rich one."""
OF_SELECTION = frozenset({"overview", "launches"})
"""Those that are of the light recording alone, and so of the rich one where only a part of the run was asked for."""


def light_recording(sel: Selection) -> LightRecording | None:
    """What of a recording was found in the light one of its run; null where the run has none."""
    if sel.trace.light is None:
        return None
    from tracetui.analysis.matching.light_times import light_times

    found = light_times(sel.trace)
    if found is None:
        return None
    return filled(
        LightRecording,
        found,
        path=None if found.light is None else str(found.light.source.path),
        used=found.times is not None,
        problem=found.problem or None,
        steps=None if found.light is None else found.light.steps.height,
        matched_percent=found.percent,
        unmatched_us_per_step=us(found.lost_ns),
        kept_launches=found.kept,
    )


def rests_on(sel: Selection, sections: Iterable[str]) -> dict[str, str] | None:
    """By section, on which recording it rests: ``light``, ``rich`` or ``both``; null where the run has no light one."""
    if sel.trace.light is None:
        return None
    from tracetui.analysis.matching.light_times import light_selection

    used, whole = sel.work_times is not None, light_selection(sel) is not None
    return {
        name: RESTS_ON[name] if used and (whole or name not in OF_SELECTION) else RICH
        for name in sections
        if name in RESTS_ON
    }


SCHEMA = "tracetui.report/1"
SOURCE_LINES = "source_lines"
"""The section of ncu's source page, which has nothing else."""
SECTIONS = (*model.SECTIONS, "ranks", *JOB_SECTIONS, "captures", "configurations")
"""What ``--section`` takes: a trace's sections, the run's table of ranks and what they say together, the folder's
table of captures, and that of configurations by their counters."""


def report(
    run: Run,
    scope: Scope | None = None,
    sections: Iterable[str] | None = None,
    limit: int | None = None,
    open_file: Callable[[Path], Trace] | None = None,
    config: Config | None = None,
    on_error: Callable[[Exception], None] | None = None,
    by: str = "name",
    sections_of: Callable[[Run, list[Json]], list[Collection[str] | None]] | None = None,
    range_kernels: bool = False,
) -> Report:
    """The numbers of a run.

    Args:
        run: what `open_path` returned.
        scope: the steps, devices or stretch of time the numbers are about.
        sections: names out of `SECTIONS`; by default all but `sections.ON_REQUEST`, which read the file again. Only
            these are computed.
        limit: at most so many rows of each list; `counts` still tells how many there are.
        open_file: opens one of the folder's other files for the table of captures. For Chrome traces that table is
            filled only if it is asked for by name: reading many takes long.
        config: thresholds of the rules, and which rules are silenced.
        on_error: called with the error of a rule that failed; the other rules still run.
        by: what kernels are grouped by, one of `kernels.GROUPINGS`; for any but ``name``, the groups are listed
            too.
        sections_of: says, given the run and its table of ranks, which sections are used of each trace (None for all);
            the others are left out, keys and all.
        range_kernels: whether the kernels under each range of `range_tree` and each module are listed too.

    Returns:
        Times in µs (float), shares in percent, sizes in bytes; null where a value can't be known.
    """
    wanted = tuple(_by_default(run) if sections is None else sections)
    unknown = [name for name in wanted if name not in SECTIONS]
    if unknown:
        raise ValueError(f"no section named {unknown[0]!r}; {instead(unknown[0], SECTIONS)}")
    scope = scope or Scope()
    # where only some of a job's recordings are printed, it is the same one whatever is asked of it
    chooses = sections_of is not None and not run.unread and any(map(model.SECTIONS.__contains__, wanted))
    ranks = _ranks(run, scope) if "ranks" in wanted or chooses else []
    used: list[Collection[str] | None] = [None] * len(run.traces) if sections_of is None else sections_of(run, ranks)
    of_traces = [wanted if names is None else set(names).intersection(wanted) for names in used]
    body: Json = {
        "path": str(run.path),
        "traces": [
            trace_report(trace, scope, names, limit, run, config, on_error, by, range_kernels=range_kernels)
            for trace, names in zip(run.traces, of_traces, strict=True)
        ],
        "main": run.traces.index(run.main) if run.traces else None,
        "joins": _joins(run) if "kernels" in wanted else [],
        "comparable": None,
        "captures": _captures(run, scope, limit, open_file) if _wants_captures(run, sections and wanted) else [],
        "passes": [PassRow(name=each.name, path=str(each.path), steps=each.steps) for each in run.passes],
        "warnings": list(run.warnings),
        "other_runs": [OtherRun(name=name, paths=[str(path) for path in paths]) for name, paths in run.others],
    }
    if "counters" in wanted or "configurations" in wanted:
        body |= _of_counters(run, wanted, limit, open_file)
    if "ranks" in wanted:
        body["ranks"] = ranks
    body |= job_sections(run, scope, {*wanted, *(["ranks"] if ranks else [])}, limit)
    return Report(schema=SCHEMA, run=model.Run(**body))


def _by_default(run: Run) -> list[str]:
    """All sections but those that are read on request, or that only another recording has."""
    from tracetui.analysis.counters.source_lines import has_lines, is_page

    if run.traces and all(map(is_page, run.traces)):
        return [SOURCE_LINES]
    left_out = {*report_sections.ON_REQUEST} | (set() if any(map(has_lines, run.traces)) else {SOURCE_LINES})
    if run.manifest is None or not (run.main.source.path.parent / SAMPLES).exists():
        left_out |= {"host_lines", "host_stacks"}
    if not run.proofs:
        left_out.add("tried")
    return [name for name in SECTIONS if name not in left_out]


def trace_report(
    trace: Trace,
    scope: Scope,
    sections: Iterable[str],
    limit: int | None = None,
    run: Run | None = None,
    config: Config | None = None,
    on_error: Callable[[Exception], None] | None = None,
    by: str = "name",
    *,
    range_kernels: bool = False,
) -> model.Trace:
    """One trace's part of the report: its source, its devices, the requested sections, and what its run adds."""
    sel = select(trace, scope)
    if trace.light is not None:
        from tracetui.analysis.matching.light_times import with_light_times

        sel = with_light_times(sel)
    has_base = trace.has_timeline or sel.by_steps
    found: Json = {}
    counts: dict[str, int] = {}
    filled = report_sections.Sections(sel, limit, run, config, on_error)
    for name in model.SECTIONS:
        if name in sections:
            if name in report_sections.NEED_TIMELINE and not trace.has_timeline:
                is_list = name in TABLES_OF and name not in ("communication", "critical_path")
                found[name], count = ([], 0) if is_list else (None, None)
            else:
                found[name], count = filled.section(name)
            if count is not None:
                counts[name] = count
    if "kernels" in found and by != "name":
        groups, many = filled.kernel_groups(by)
        found |= {"kernels_by": by, "kernel_groups": groups}
        counts["kernel_groups"] = many or 0
    if range_kernels:
        for name in ("range_tree", "modules"):
            if found.get(name):
                below, rows, many = filled.kernels_below(name)
                found[below], counts[below] = rows, many
    for name in ("kernels", "host_lines", "counters", "collectives", "roofline", "findings"):
        if name in found:
            found |= getattr(filled, f"{name}_extras")()
    return model.Trace(
        source=report_sections.source(trace),
        device=report_sections.devices(trace),
        base=sel.describe() if has_base else "whole recording",
        totals_base=sel.describe_totals() if has_base else "whole recording",
        **found,
        light=light_recording(sel) if RESTS_ON.keys() & found.keys() else None,
        rests_on=rests_on(sel, found),
        counts=counts,
    )


def _joins(run: Run) -> list[JoinRow]:
    if len({trace.info.kind for trace in run.traces}) < 2:
        return []
    from tracetui.analysis.matching.join import run_joins

    return [join_row(joined) for joined in run_joins(run)]


def join_row(joined: Joined) -> JoinRow:
    """How the kernels of another recording match those of the main one."""
    from tracetui.analysis.matching.one_program import reason

    join = joined.join
    return JoinRow(
        trace=str(joined.other.source.path),
        with_=str(joined.main.source.path),
        kind=joined.other.info.kind,
        launches=join.launches.height,
        matched=join.count("matched"),
        placed=int(join.launches["main_row"].is_not_null().sum()),
        ambiguous=join.count("ambiguous"),
        unmatched=[UnmatchedKernel(**row) for row in join.named("unmatched").to_dicts()],
        gpu_time_percent=join.gpu_time_percent,
        own_time_percent=join.other_time_percent,
        set_aside=reason(joined.main, joined.other) or None,
    )


def _wants_captures(run: Run, sections: Iterable[str] | None) -> bool:
    if not run.traces:
        return False
    if sections is not None:
        return "captures" in sections
    tool = BY_KIND[run.main.info.kind]
    files = (path for _, paths in run.others for path in paths)
    # the tool's own reports have to be exported first, which takes long
    return tool.compared_unasked and not any(path.name.lower().endswith(tool.reports) for path in files)


def _captures(run: Run, scope: Scope, limit: int | None, open_file: Callable[[Path], Trace] | None) -> list[CaptureRow]:
    from tracetui.analysis.captures.captures import captures

    return captures(run, scope, open_file)[:limit]


def _of_counters(
    run: Run, wanted: Collection[str], limit: int | None, open_file: Callable[[Path], Trace] | None
) -> Json:
    if not run.of_kind("ncu"):
        without: Json = {"counters_compared": None} if "counters" in wanted else {}
        return without | ({"configurations": [], "configuration_weights": {}} if "configurations" in wanted else {})
    from tracetui.analysis.report.counters import of_run

    return of_run(run, wanted, limit, open_file)


def _ranks(run: Run, scope: Scope) -> list[Json]:
    if len(run.ranks) < 2:
        return []
    from tracetui.analysis.ranks.of_run import ranks_of

    return table_rows(ranks_of(run, scope), RANKS)
