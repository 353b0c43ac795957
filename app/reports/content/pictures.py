"""The pictures of a report: for each, the section that it is made of, and the chart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import convert

from tracetui.analysis.base.number_format import format_ns
from tracetui.analysis.ranks.sentences import in_title
from tracetui.app.charts.bars import Bar, bars_svg
from tracetui.app.charts.heat import cells_of, heat_svg
from tracetui.app.charts.slide import NOTE_LETTERS, slide
from tracetui.app.reports.content import sections
from tracetui.app.reports.content.job import DRAWN, cells_to_draw, first_drawn
from tracetui.app.reports.content.roofline import Kernel
from tracetui.app.reports.layout import Layout
from tracetui.app.reports.parts import Block
from tracetui.app.text.fitting import fit_apart, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tracetui.analysis.ranks.job import Job
    from tracetui.analysis.report.diff import DiffReport
    from tracetui.analysis.report.model import Trace
    from tracetui.analysis.scope import Scope
    from tracetui.parsers import Run

BARS = 12
"""Rows of a bar chart, the most important ones."""
HEAT_ROWS, HEAT_COLUMNS = 64, 96
"""The most rows and columns of a heat map."""
ALIKE = ("comparable", "explained")
"""The verdicts under which a diff says how the step changed."""
BESIDE, SIDES = 2, 3
"""Columns of numbers behind a bar; of a diff the difference and both sides."""


def _own_chart(section: str) -> Callable[[Trace, Layout], tuple[str, str] | None]:
    """A section's own chart."""

    def drawn(trace: Trace, layout: Layout) -> tuple[str, str] | None:
        for part in sections.SECTIONS[section](trace, layout):
            chart = part.chart if isinstance(part, Block) else None
            if isinstance(part, Block) and chart is not None and chart.drawn is not None and chart.rows:
                title = chart.caption or chart.title or part.heading
                own = section.replace("_", " ").capitalize()
                return title.replace("The same as boxes, the largest first", own), chart.drawn()
        return None

    return drawn


def _lanes(trace: Trace, layout: Layout) -> tuple[str, str] | None:
    """One step as lanes, also of a recording without steps."""
    from tracetui.app.reports.content.charts import lanes_chart

    if not trace.overview:
        return None
    chart = lanes_chart(trace.overview, sections.CHART_WIDTH, ascii=layout.ascii)
    return None if chart.drawn is None or not chart.rows else (chart.title, chart.drawn())


def _bars(section: str) -> Callable[[Trace, Layout], tuple[str, str] | None]:
    """The first table of a section as bars: by its column that the screen draws as bars, else by its first number."""

    def drawn(trace: Trace, layout: Layout) -> tuple[str, str] | None:
        for part in sections.SECTIONS[section](trace, layout):
            if isinstance(part, Block) and part.cells and part.values and (svg := _of_block(part)) is not None:
                base = f" ({part.base})" if part.base else ""
                return f"{part.heading}{base}", svg
        return None

    return drawn


def of_diff(found: DiffReport, section: str, foot: str, *, ascii: bool = False) -> str | None:
    """What changed from A to B in a section as bars, what grew and what shrank in two colours; None if nothing did."""
    from tracetui.app.reports.content.diff import comparable_words, section_parts, verdict

    layout = Layout(BARS, ascii=ascii, charts=True)
    for part in section_parts(found, section, layout):
        if (
            isinstance(part, Block)
            and part.cells
            and part.values
            and (svg := _of_block(part, SIDES, changes=True)) is not None
        ):
            alike = found.counters is None and found.comparable.verdict in ALIKE
            said = verdict(found, layout) if alike else comparable_words(found.comparable)
            # one sentence, without the signs of a list that is not here
            said = said.partition(". ")[0].replace(" (marked !)", "").replace("; marked #", "")
            return slide(svg, f"{part.heading} (B - A)", said, foot, ascii=ascii)
    return None


def _of_block(block: Block, beside: int = BESIDE, *, changes: bool = False) -> str | None:
    numbers = [at for at, column in enumerate(block.columns) if column.right and _numbers(block, at)]
    texts = [at for at, column in enumerate(block.columns) if not column.right and not column.is_bar]
    # what has most room in text is what the rows are
    names = sorted(texts, key=lambda at: (block.columns[at].is_name, block.columns[at].share, -at))
    if not numbers or not names:
        return None
    by = next((at for at in numbers if block.columns[at].has_bar), numbers[0])
    said = [by, *(at for at in numbers if at != by)][:beside]
    bars = [
        Bar(cells[names[-1]].strip(), float(values[by] or 0), tuple(cells[at] for at in said))  # type: ignore[arg-type]
        for cells, values in list(zip(block.cells, block.values, strict=True))[:BARS]
    ]
    return bars_svg(bars, [block.columns[at].title for at in said], block.heading, changes=changes)


def _numbers(block: Block, at: int) -> bool:
    return all(value is None or isinstance(value, int | float) for value in (row[at] for row in block.values))


PICTURES: Mapping[str, Callable[[Trace, Layout], tuple[str, str] | None]] = {
    "timeline": _lanes,
    "steps": _own_chart("overview"),
    "kernels": _bars("kernels"),
    "durations": _own_chart("kernels"),
    "operators": _bars("operators"),
    "host_functions": _bars("host_functions"),
    "host_lines": _bars("host_lines"),
    "host_stacks": _own_chart("host_stacks"),
    "modules": _own_chart("modules"),
    "range_tree": _own_chart("range_tree"),
    "ranges": _bars("ranges"),
    "critical_path": _bars("critical_path"),
    "memops": _bars("memops"),
    "api": _bars("api"),
    "collectives": _bars("collectives"),
    "counters": _bars("counters"),
    "roofline": _own_chart("roofline"),
    "memory": _own_chart("memory"),
}
"""What makes the title and the chart of a recording, None where there is nothing to draw; by the name that `--section`
has. `durations` is of the kernel with most time, `timeline` is one step as lanes."""
SECTION_OF = {"timeline": "overview", "steps": "overview", "durations": "kernels"}
"""The section of the report that a picture is made of, where it has another name."""
OF_JOB = "ranks"
"""The picture of a run of several ranks."""


def picture(name: str, trace: Trace, said: str, foot: str, *, ascii: bool = False) -> str | None:
    """One of `PICTURES` as a slide, of a report whose lists are whole; None where the recording has nothing to draw."""
    found = PICTURES[name](trace, Layout(BARS, ascii=ascii, charts=True))
    if found is None:
        return None
    rows = convert((trace.roofline or [])[:BARS] if name == "roofline" else [], list[Kernel])
    notes = letters({row.letter: row.short_name or row.name for row in rows if row.letter}, ascii=ascii)
    return slide(found[1], found[0], said, foot, notes=notes, ascii=ascii)


def letters(names: Mapping[str, str], *, ascii: bool = False) -> tuple[str, ...]:
    """What the letters of a chart stand for, cut to a slide's room so that no two look alike."""
    shown = {letter: printable(name, ascii=ascii) for letter, name in list(names.items())[:BARS]}
    cut = fit_apart(shown.values(), NOTE_LETTERS, ascii=ascii)
    return tuple(f"{letter} {cut[name]}" for letter, name in shown.items())


def of_job(run: Run, scope: Scope, foot: str, *, ascii: bool = False) -> str | None:
    """The ranks of a job by step, what the latest of them has more of; None for fewer than two ranks."""
    from tracetui.analysis.ranks.of_run import jobs_of

    found = jobs_of(run, scope)
    drawn = first_drawn(found[0]) if found else ""
    chart = job_heat(found[0], drawn, ascii=ascii) if found else None
    if chart is None:
        return None
    title = in_title(found[0])
    said = f"{run.name} · {found[0].here} ranks · {DRAWN[drawn].title}: {DRAWN[drawn].about}"
    return slide(chart, title[:1].upper() + title[1:], said, foot, ascii=ascii)


def job_heat(job: Job, drawn: str, *, ascii: bool = False) -> str | None:
    """The heat map of a job's ranks, of one of `DRAWN`; None where nothing is known."""
    frame, column = cells_to_draw(job, drawn)
    ranks, values = cells_of(frame, "rank", column, drawn, HEAT_COLUMNS)
    if not ranks or np.isnan(values).all():
        return None
    # of too many, neighbours stand for each other, and the largest of them is drawn
    many = -(-len(ranks) // HEAT_ROWS)
    groups = [ranks[at : at + many] for at in range(0, len(ranks), many)]
    rows = np.array([np.fmax.reduce(values[at : at + many], axis=0) for at in range(0, len(ranks), many)])
    late = {one.rank for one in job.answers.program}
    cells = [[None if np.isnan(value) else float(value) for value in row] for row in rows.tolist()]
    return heat_svg(
        cells,
        [f"rank {part[0]}" if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in groups],
        f"{DRAWN[drawn].title}: {in_title(job)}",
        ends=(format_ns(float(np.nanmin(rows)), ascii=ascii), format_ns(float(np.nanmax(rows)), ascii=ascii)),
        labels=_ends(job, drawn),
        marked=frozenset(at for at, part in enumerate(groups) if late & set(part)),
    )


def _ends(job: Job, drawn: str) -> tuple[str, str]:
    """What stands below the first and the last column."""
    if drawn == "late_ns":
        return "the first collective", "the last one"
    first, last = (int(end or 0) for end in (job.steps["step"].min(), job.steps["step"].max()))  # type: ignore[arg-type]
    return (f"step {first}", f"step {last}") if first >= 0 else ("the whole recording", "")
