"""The diff of two reports of Nsight Compute: their counters and launches; there are no steps to compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import format_percent, format_signed_us
from tracetui.app.reports.content import configurations
from tracetui.app.reports.content.counters import kernel_blocks
from tracetui.app.reports.content.diff import changes, comparable_words, conditions, waterfall
from tracetui.app.reports.counter_text import profiled_text
from tracetui.app.reports.parts import Facts, FindingList, Sentences, Title

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.analysis.base.json_values import Json
    from tracetui.app.reports.layout import Layout
    from tracetui.app.reports.parts import Part


def parts(found: Json, layout: Layout) -> Iterator[Part]:
    """The whole diff.

    Args:
        found: what `analysis.report.diff_report` returned, with its lists whole.
        layout: rows per list, ASCII.
    """
    counters = found["counters"]
    files = counters["counters_compared"]["files"]
    yield Title("tracetui diff: what changed from A to B, of the profiled launches")
    yield Facts(tuple(
        (letter, f"{found[letter.lower()]['name']}: {profiled_text(file['launches'], file['kernels'])}")
        for letter, file in zip("AB", files, strict=True)
    ))  # fmt: skip
    yield Sentences((_comparable(found["comparable"]),))
    yield conditions(found["comparable"])
    yield Sentences((verdict(files, layout),))
    yield FindingList(found)
    yield from configurations.blocks(counters["configurations"], counters["configuration_weights"], layout)
    yield from waterfall(found["waterfall"], layout, "profiled time")
    yield from changes("kernels", found["kernels"], layout)
    yield from kernel_blocks(counters["counters_compared"], ("A", "B"), layout, counts=False)


def verdict(files: list[Json], layout: Layout) -> str:
    """How the time of the profiled launches changed, and what that is not."""
    a, b = (file["total_us"] for file in files)
    what = "Nsight Compute measured single launches and no steps"
    if a is None or b is None:
        return f"{what}, and without their times."
    share = f", {format_percent(100 * (b - a) / a, signed=True)}" if a else ""
    change = f"{format_signed_us(b - a, ascii=layout.ascii)}{share}"
    return (
        f"{what}: together they take {layout.time(a)} in A and {layout.time(b)} in B ({change}), at the clocks that ncu"
        " set. Only a time line tells what a step gains."
    )


def _comparable(comparable: Json) -> str:
    """The sentence of `comparable_words`, of launches where that speaks of steps."""
    if comparable["verdict"] != "other_work":
        return comparable_words(comparable)
    many = [row["field"] for row in comparable["differences"] if row["work"]]
    return f"OTHER WORK: A holds other launches than B ({', '.join(many)}; marked #)."
