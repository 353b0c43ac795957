"""What a report says about a run's recordings by several tools: how well their kernels match."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import format_count, format_percent
from tracetui.app.text.fitting import printable
from tracetui.app.text.tool_words import WORDS
from tracetui.parsers.names.kernel_names import short_name

if TYPE_CHECKING:
    from tracetui.analysis.report.model import JoinRow

NAMES_SHOWN = 5


def sentences(found: JoinRow) -> list[str]:
    """What a recording covers, and what of it matches nothing; or why it is set aside."""
    if found.set_aside:
        return [
            f"{Path(found.trace).name} is set aside: it is of another run than {Path(found.with_).name}"
            f" ({printable(found.set_aside)})."
        ]
    return [_coverage(found), *_missing(found)]


def _coverage(found: JoinRow) -> str:
    """How much of the GPU time a recording covers."""
    name = Path(found.trace).name
    share = format_percent(found.gpu_time_percent)
    launches = _launches(found.launches)
    if found.kind == "ncu":
        return (
            f"Counters of {name}: {format_count(found.matched)} of {launches} found their kernel; these kernels "
            f"take {share} of the kernel time."
        )
    return f"{WORDS[found.kind].recording} {name}: {share} of the kernel time is of kernels that match."


def _missing(found: JoinRow) -> list[str]:
    texts = []
    if found.ambiguous:
        texts.append(f"{_launches(found.ambiguous)} could be of several kernels.")
    names = found.unmatched
    if names:
        listed = ", ".join(
            short_name(row.name) + (f" ×{row.launches}" if row.launches > 1 else "") for row in names[:NAMES_SHOWN]
        )
        more = f" and {len(names) - NAMES_SHOWN} more kernels" if len(names) > NAMES_SHOWN else ""
        count = sum(row.launches for row in names)
        verb = "is" if count == 1 else "are"
        texts.append(f"{_launches(count)} {verb} not in {Path(found.with_).name}: {listed}{more}.")
    return texts


def _launches(count: int) -> str:
    return f"{format_count(count)} {'launch' if count == 1 else 'launches'}"
