"""A sweep's variants: the picture of their speed-up, and the kinds of work that they add and remove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracetui.analysis.base.number_format import UNKNOWN, format_signed_us
from tracetui.analysis.tables.sweeps import KINDS
from tracetui.app.charts.lines import Line, line_chart, lines_svg
from tracetui.app.reports.layout import WIDTH, Shown
from tracetui.app.reports.parts import Block, Chart

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tracetui.analysis.base.json_values import Json
    from tracetui.app.reports.layout import Layout

CHART_ROWS = 13
ACROSS = 3
"""The most sizes beside each other in a table of kinds."""
SIGNS = {"added": "+", "removed": "-", "changed": "~"}


def speedup_chart(one: Json, layout: Layout) -> Chart | None:
    """The speed-up over size, beside what the removed work allows; the gap between both is lost."""
    lines = speedup_lines(one)
    if not lines:
        return None
    labels: dict[str, Any] = {
        "x_title": layout.text(one["x_axis"] or ""),
        "y_title": "speed-up",
        "x_label": lambda value: f"{value:g}",
        "y_label": lambda value: f"{value:.2f}",
    }

    def drawn() -> str:
        return lines_svg(lines, f"speed-up by {labels['x_title']}", **labels)

    return Chart("", tuple(line_chart(lines, WIDTH - 2, CHART_ROWS, **labels, ascii=layout.ascii)), drawn)


def speedup_lines(one: Json) -> list[Line]:
    """The lines of that picture, with a standard error to both sides; none where there are not two sizes."""
    rows = [row for row in one["points"] if isinstance(row["x"], int | float)]
    if len(rows) < 2:
        return []
    error = [(row, row["speedup_error"]) for row in rows if row["speedup_error"]]
    measured = Line(
        "speed-up",
        tuple((row["x"], row["speedup"]) for row in rows),
        tuple((row["x"], max(row["speedup"] - by, 1e-3), row["speedup"] + by) for row, by in error),
    )
    possible = tuple((row["x"], row["possible_speedup"]) for row in rows if row["possible_speedup"])
    allowed = [Line("what the removed work allows", possible)] if len(possible) > 1 else []
    return [measured, *allowed, Line("as fast as the baseline", tuple((row["x"], 1.0) for row in (rows[0], rows[-1])))]


def kind_blocks(found: Json, layout: Layout) -> Iterator[Block]:
    """For each variant the kinds of work that differ from its baseline, with launches and time at each size."""
    for one in found["comparisons"]:
        rows = [row for row in found["kinds"] if row["comparison"] == one["label"]]
        sizes = list(dict.fromkeys(row["x"] for row in rows))
        kinds = _ordered(rows)
        for first in range(0, len(sizes), ACROSS):
            yield _block(one, kinds, sizes[first : first + ACROSS], layout)


def _ordered(rows: Sequence[Json]) -> dict[str, dict[object, Json]]:
    """The rows of each kind by size: kinds that were added, removed, then changed, each by their largest difference."""
    found: dict[str, dict[object, Json]] = {}
    for row in rows:
        found.setdefault(row["kind"], {})[row["x"]] = row
    changed = {kind: of for kind, of in found.items() if any(row["status"] != "same" for row in of.values())}

    def place(kind: str) -> tuple[int, float]:
        return list(SIGNS).index(_status(changed[kind])), -max(abs(row["delta_us"]) for row in changed[kind].values())

    return {kind: changed[kind] for kind in sorted(changed, key=place)}


def _status(of: dict[object, Json]) -> str:
    """``added`` if it is so at every size that has it; of several changes the one that all can be called."""
    told = {row["status"] for row in of.values()} - {"same"}
    return told.pop() if len(told) == 1 else "changed"


def _block(one: Json, kinds: dict[str, dict[object, Json]], sizes: Sequence[object], layout: Layout) -> Block:
    axis = one["x_axis"] or ""
    titles = [f"{axis} {size:g}" if isinstance(size, int | float) else str(size) for size in sizes]
    named = len(sizes) < ACROSS  # else there is no room
    cells = []
    for kind, of in list(kinds.items())[: layout.limit]:
        row = [f"{SIGNS[_status(of)]} {kind}"]
        for size in sizes:
            row += _cells(of.get(size), layout)
        top = next(iter(of.values()))
        cells.append([*row, top["short_name"] or top["name"]] if named else row)
    columns = [Shown("kind", right=False)]
    for title in titles:
        columns += [Shown(title), Shown("kernels")]
    if named:
        columns.append(Shown("kernel", right=False, share=1, is_name=True))
    return Block(
        f"{KINDS.title}: {one['label']}",
        note="GPU time and kernels per step more (+) or fewer than the baseline; + before a kind: only the variant has "
        "it, -: only the baseline, ~: both",
        columns=tuple(columns),
        cells=cells,
        whole=len(kinds),
    )


def _cells(row: Json | None, layout: Layout) -> list[str]:
    if row is None:
        return [UNKNOWN, UNKNOWN]
    more = row["variant_calls"] - row["baseline_calls"]
    return [format_signed_us(row["delta_us"], ascii=layout.ascii), f"{more:+,.6g}" if more else "0"]
