"""What the diff of two reports of Nsight Compute says in words: there are no steps to compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import format_percent, format_signed_us
from tracetui.app.reports.content.ncu.configurations import stopped_text
from tracetui.app.reports.counter_text import profiled_text

if TYPE_CHECKING:
    from tracetui.analysis.base.json_values import Json
    from tracetui.app.reports.layout import Layout


def sides(found: Json) -> tuple[tuple[str, str], ...]:
    """Both reports, with what they hold."""
    files = found["counters"]["counters_compared"]["files"]
    return tuple(
        (letter, f"{found[letter.lower()]['name']}: {profiled_text(file['launches'], file['kernels'])}")
        for letter, file in zip("AB", files, strict=True)
    )


def verdict(counters: Json, layout: Layout) -> tuple[str, ...]:
    """How the time of the profiled launches changed, and what that is not."""
    a, b = (file["total_us"] for file in counters["counters_compared"]["files"])
    stopped = stopped_text({side.upper(): limit for side, limit in counters["stopped"].items()})
    what = "Nsight Compute measured single launches and no steps"
    if a is None or b is None:
        said = f"{what}, and without their times."
    else:
        share = f", {format_percent(100 * (b - a) / a, signed=True)}" if a else ""
        change = f"{format_signed_us(b - a, ascii=layout.ascii)}{share}"
        said = (
            f"{what}: together they take {layout.time(a)} in A and {layout.time(b)} in B ({change}), at the clocks that"
            " ncu set. Only a time line tells what a step gains."
        )
    return (said, stopped) if stopped else (said,)


def other_work(comparable: Json) -> str:
    """Which launches differ, where one report holds others than the other; empty where that is not so."""
    if comparable["verdict"] != "other_work":
        return ""
    many = [row["field"] for row in comparable["differences"] if row["work"]]
    return f"OTHER WORK: A holds other launches than B ({', '.join(many)}; marked #)."
