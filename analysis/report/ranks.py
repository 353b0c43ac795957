"""A job of many ranks as the JSON contract, from the summaries of its ranks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tracetui.analysis.ranks.present import missing, of_one_pass, rank_rows, world_size
from tracetui.analysis.ranks.rank_table import judged
from tracetui.analysis.ranks.together.job import jobs
from tracetui.analysis.report.job import SECTIONS, of_jobs
from tracetui.analysis.report.rows import table_rows
from tracetui.analysis.scope import Scope
from tracetui.analysis.tables.runs import RANKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.base.json_values import Json
    from tracetui.analysis.ranks.files.reading import Summaries
    from tracetui.analysis.ranks.summary import RankSummary

SCHEMA = "tracetui.ranks/1"
UNNAMED = "unknown"
"""What a recording is called that does not say which of its run's it is."""


def ranks_report(found: Summaries, path: str, scope: Scope | None = None, limit: int | None = None) -> Json:
    """What the summaries of a job say.

    Args:
        found: the summaries, and which recordings have none.
        path: what was opened.
        scope: the steps that the numbers are about.
        limit: at most so many rows of the table of ranks.
    """
    together = jobs(found.ranks)
    rows = judged(rank_rows(found.ranks, scope or Scope()), together)
    absent = set(missing(found.ranks))
    return {
        "schema": SCHEMA,
        "path": path,
        "world_size": world_size(found.ranks),
        "here": len({one.rank for one in found.ranks}),
        "missing": sorted(absent),
        "recordings": dict(sorted(Counter(one.recorded_pass or UNNAMED for one in found.ranks).items())),
        "ranks": table_rows(rows, RANKS, limit),
        **of_jobs(together, SECTIONS, limit),
        "environment": _differences(of_one_pass(found.ranks)),
        "problems": [{"rank": rank, "path": name, "problem": why} for rank, name, why in found.problems],
        "notes": [
            {"rank": one.rank, "path": one.path, "kind": note.kind, "reason": note.reason, "count": note.count}
            for one in found.ranks
            for note in one.notes
        ],
        "counts": {"ranks": rows.height},
    }


def _differences(summaries: Sequence[RankSummary]) -> list[Json]:
    """What of the machines and versions is not the same on all ranks, with the ranks that have each value."""
    said: dict[str, dict[str | None, list[int]]] = {}
    own = [(one.rank, {**dict(one.environment), "GPU": one.device}) for one in summaries]
    for name in sorted({name for _, values in own for name in values}):
        for rank, values in own:
            said.setdefault(name, {}).setdefault(values.get(name), []).append(rank)
    return [
        {"name": name, "values": [{"value": value, "ranks": ranks} for value, ranks in values.items()]}
        for name, values in said.items()
        if len(values) > 1
    ]
