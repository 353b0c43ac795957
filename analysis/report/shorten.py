"""Shortens a report by importance until it fits into so many tokens, and says what it left out.

A token is taken for `BYTES_PER_TOKEN` bytes of what is printed: tokenizers differ, and numbers and names of kernels, of
which a report is full, take more tokens per byte than prose (about 4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from msgspec import UNSET, Struct
from msgspec.structs import asdict, replace

from tracetui.analysis.report.model import (
    Headline,
    HeadlineFinding,
    HeadlineVerdict,
    LeftOut,
    MaxTokens,
    Report,
    Run,
    Trace,
)
from tracetui.analysis.report.report import SECTIONS

BYTES_PER_TOKEN = 3
HEADLINE = "tracetui.headline/1"
IMPORTANCE = (
    "findings", "overview", "kernels", "critical_path", "host_lines", "communication", "ranks", "stragglers",
    "operators", "modules", "ranges", "memory", "launches", "memops", "counters", "roofline", "configurations",
    "waiting", "collectives", "api", "host_functions", "range_tree",
)  # fmt: skip
"""The sections, the most important first; all others come after them."""
ORDER = (*IMPORTANCE, *(name for name in SECTIONS if name not in IMPORTANCE))
BESIDE = {
    "findings": ("findings_suppressed", "findings_silenced", "findings_abstained", "findings_checked"),
    "kernels": ("tensor_cores", "kernels_by", "kernel_groups"),
    "counters": ("counters_by_kernel", "counters_missing", "counters_compared"),
    "collectives": ("collective_pairs", "collectives_link"),
    "roofline": ("roofline_peaks",),
    "host_lines": ("host_lines_sampled",),
    "range_tree": ("range_tree_kernels",),
    "configurations": ("configuration_weights",),
    "ranks": ("job",),
}
"""The keys that come and go with a section."""
DETAILS: dict[str, tuple[str, ...]] = {
    "overview": ("per_step", "lanes", "as_recorded"),
    "kernels": ("distribution", "modules", "operators"),
    "kernel_groups": ("distribution", "modules", "operators"),
    "memory": ("curve",),
    "source": ("captured",),
}
"""Keys inside a section that only a program for pictures wants; a shortened JSON has none of them."""
BRIEF = ("findings_checked", "findings_silenced")
"""Keys beside the findings that a shortened JSON does without."""


FEW = 3
"""So many sections were chosen by somebody."""


@dataclass(frozen=True, slots=True)
class Level:
    """How short a report is."""

    sections: int
    """How many of `ORDER`."""
    rows: int
    """Rows of each list."""
    findings: int | None
    """How many findings; null for all."""
    others: bool
    """Whether the recordings besides the main one are in it."""

    @property
    def limit(self) -> int:
        """Rows per list of a report for people, where findings are a list like any other."""
        return self.rows if self.findings is None else self.findings


class TooShort(Exception):  # noqa: N818  what it means, as Cancelled
    """Not even the shortest form fits."""

    def __init__(self, needs: int) -> None:
        self.needs = needs
        """The tokens that the shortest form needs."""
        super().__init__(f"the shortest report needs about {needs}")


def fitting(found: Report, most: int, printed: Callable[[Report, Level], str]) -> str:
    """What is printed of the longest form of a report that fits; all of it where that does.

    Args:
        found: the report.
        most: how many tokens.
        printed: writes a report in a form; called with `cut(found, level)`'s report, which has ``left_out``.

    Raises:
        TooShort: not even the shortest form fits.
    """
    needs = 0
    for level in levels(few=len(_present(found)) <= FEW):
        text = printed(found, level)
        needs = tokens(text)
        if needs <= most:
            return text
    raise TooShort(needs)


def tokens(text: str) -> int:
    """How many tokens a text has, estimated."""
    return -(-len(text.encode("utf-8", "backslashreplace")) // BYTES_PER_TOKEN)


def _present(found: Report) -> list[str]:
    """The sections that a report has."""
    run = found.run
    trace = run.traces[run.main or 0] if run.traces else None
    return [name for name in ORDER if _has(trace, name) or (run.captures if name == "captures" else _has(run, name))]


def _has(part: Trace | Run | None, name: str) -> bool:
    return getattr(part, name, UNSET) is not UNSET


def levels(*, few: bool = False) -> Iterator[Level]:
    """The forms of a report, each shorter than the last.

    Args:
        few: whether only few sections were asked for, so that each keeps its first row rather than be left out.
    """
    for rows in (50, 20, 10, 5, 3):
        yield Level(len(ORDER), rows, None, others=True)
    for rows in (20, 10, 5, 3):
        yield Level(len(ORDER), rows, None, others=False)
    if few:
        for rows in (2, 1):
            yield Level(len(ORDER), rows, None, others=False)
        for findings in (8, 5, 3, 2, 1):
            yield Level(len(ORDER), 1, findings, others=False)
        return
    for sections in range(len(ORDER) - 1, 1, -1):
        yield Level(sections, 3, None, others=False)
    for findings in (8, 5, 3, 2, 1):
        yield Level(2, 1, findings, others=False)
    yield Level(1, 1, 1, others=False)
    for findings in (20, 10, 5, 3, 2, 1, 0):
        yield Level(0, 0, findings, others=False)


def cut(found: Report, level: Level, asked: int, *, lists: bool) -> Report | Headline:
    """A report in a shorter form, with what it lacks under ``left_out``.

    Args:
        found: the report, which stays as it is.
        level: how short.
        asked: how many tokens were asked for.
        lists: whether lists and details are cut here; a report for people is cut when it is laid out.
    """
    if not level.sections:
        return headline(found, level.findings or 0, asked)
    left: list[LeftOut] = []
    run = found.run
    main = run.main or 0
    if run.traces and not level.others:
        if len(run.traces) > 1:
            left.append(LeftOut(what="recordings", shown=1, of=len(run.traces)))
        run = replace(run, traces=[run.traces[main]], main=0)
        main = 0
    for name in ("captures", "other_runs") if not level.others else ():
        if rows := getattr(run, name):
            left.append(LeftOut(what=name, shown=0, of=len(rows)))
            run = replace(run, **{name: []})
    traces = [_cut(trace, level, left if at == main else [], lists=lists) for at, trace in enumerate(run.traces)]
    run = _cut(replace(run, traces=traces), level, left, lists=lists)
    return Report(schema=found.schema, run=run, left_out=left, max_tokens=_counted(asked))


def _counted(asked: int) -> MaxTokens:
    return MaxTokens(asked=asked, bytes_per_token=BYTES_PER_TOKEN)


def headline(found: Report, findings: int, asked: int) -> Headline:
    """What a report comes to, where there is no room for any section: ``tracetui.headline/1``."""
    run = found.run
    trace = run.traces[run.main or 0] if run.traces else None
    overview = trace.overview if trace is not None else None
    waits = overview.waits_for if overview else None
    rows = (trace.findings or []) if trace is not None else []
    whole = trace.counts.get("findings", 0) if trace is not None else 0
    sections = [name for name in ORDER if _has(trace, name) or _has(run, name)]
    return Headline(
        schema=HEADLINE,
        path=run.path,
        base=None if trace is None else trace.base,
        average_step_us=overview.average_step_us if overview else None,
        waits_for=None if waits is None else HeadlineVerdict(what=waits.what, sentence=waits.sentence),
        findings=[
            HeadlineFinding(key=row.key, severity=row.severity, title=row.title, doubted_by=row.doubted_by)
            for row in rows[:findings]
        ],
        left_out=[
            LeftOut(what="findings", shown=min(findings, len(rows)), of=whole),
            LeftOut(what="sections", shown=0, of=len(sections)),
        ],
        max_tokens=_counted(asked),
    )


Part = TypeVar("Part", Trace, Run)


def _cut(part: Part, level: Level, left: list[LeftOut], *, lists: bool) -> Part:
    """One trace, or the run: its sections to so many rows."""
    kept = {name: value for name, value in asdict(part).items() if value is not UNSET}
    counts = kept.get("counts", {})
    for name in ORDER[level.sections :]:
        if name in kept:
            whole = kept.pop(name)
            if name == "captures":  # which every report has
                kept[name] = []
            if whole not in (None, [], {}):
                left.append(LeftOut(what=name, shown=0, of=counts.get(name, _size(whole))))
            for beside in BESIDE.get(name, ()):
                kept.pop(beside, None)
    if "findings" in kept:
        many = counts.get("findings", len(kept["findings"]))
        most = level.findings if lists else level.limit
        if most is not None and most < many:
            if lists:
                kept["findings"] = kept["findings"][:most]
            left.append(LeftOut(what="findings", shown=most, of=many))
        if level.sections < len(ORDER) and lists:
            for name in ("findings_abstained", "findings_suppressed"):
                if gone := kept.pop(name, None):
                    left.append(LeftOut(what=name, shown=0, of=len(gone)))
    if lists:
        for name in BRIEF:
            kept.pop(name, None)
        for name, value in kept.items():
            if name not in ("findings", "traces", "device", "warnings"):
                kept[name] = _shorter(name, value, level.rows, counts.get(name), left)
    return type(part)(**kept)


def _size(whole: Any) -> int:
    """How many rows a section has; of one that is an object, its keys."""
    return len(whole.__struct_fields__ if isinstance(whole, Struct) else whole)


def _shorter(name: str, value: object, rows: int, of: int | None, left: list[LeftOut]) -> Any:
    """A section without its details, its list (or the lists in an object) cut to so many rows."""
    details = DETAILS.get(name, ())
    if isinstance(value, (Struct, dict)):
        inside = asdict(value) if isinstance(value, Struct) else value
        for detail in details:
            if inside.get(detail):
                left.append(LeftOut(what=f"{name}.{detail}", shown=0, of=_size(inside[detail])))
        kept = {
            key: _shorter(f"{name}.{key}", inner, rows, None, left) if isinstance(inner, list) else inner
            for key, inner in inside.items()
            if key not in details
        }
        return type(value)(**kept)
    if not isinstance(value, list):
        return value
    whole = len(value) if of is None else of
    if len(value[:rows]) < whole:
        left.append(LeftOut(what=name, shown=len(value[:rows]), of=whole))
    if details and value and isinstance(value[0], dict):
        left.append(LeftOut(what=f"{name}: {', '.join(details)}", shown=0, of=len(value[:rows])))
        return [{key: cell for key, cell in row.items() if key not in details} for row in value[:rows]]
    return value[:rows]
