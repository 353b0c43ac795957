"""Whether two recordings may be compared: what their own headers say differs between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracetui.analysis.report_rows import Json
    from tracetui.parsers import Trace

NEVER_EQUAL = frozenset({"trace_id", "host_name", "schemaVersion"})
"""What every recording writes anew, or what says nothing about its times."""


def comparable(a: Trace, b: Trace) -> Json:
    """The verdict and every difference that the two headers show.

    Another GPU, another number of ranks or another tool makes a difference in time prove nothing about the code
    (``not_comparable``). Other capture settings and library versions are listed, since stacks, shapes and memory
    events slow the host down, but may be what the comparison is about.
    """
    differences: list[Json] = []

    def compare(field: str, left: object, right: object, *, matters: bool) -> None:
        if left != right:
            differences.append({"field": field, "a": left, "b": right, "matters": matters})

    compare("tool", a.info.tool, b.info.tool, matters=True)
    compare("world_size", a.info.world_size, b.info.world_size, matters=True)
    compare("gpu", _gpus(a), _gpus(b), matters=True)
    left, right = dict(a.info.captured), dict(b.info.captured)
    # what one tool's files never record says nothing about the other's run
    fields = left.keys() | right.keys() if a.info.tool == b.info.tool else left.keys() & right.keys()
    for field in sorted(fields - NEVER_EQUAL):
        compare(field, left.get(field), right.get(field), matters=False)
    verdict = "not_comparable" if any(row["matters"] for row in differences) else "comparable"
    return {"verdict": verdict, "differences": differences}


def _gpus(trace: Trace) -> list[str | None]:
    return [device.name for device in trace.info.devices]
