"""The stacks of the sampled program as a tree: its own frames, and below them in one line what libraries did."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.host_lines import NO_LINE, frame_words, is_own

if TYPE_CHECKING:
    from tracetui.analysis.host_lines import Path, Sampled

LEAST_PERCENT = 0.1
"""Of the sampled steps: what takes less is part of what called it."""
_SCHEMA = {
    "name": pl.String, "step_ns": pl.Float64, "percent": pl.Float64, "samples": pl.Int64, "self_percent": pl.Float64,
    "thread": pl.String, "other": pl.Boolean, "path": pl.String, "depth": pl.Int64,
}  # fmt: skip


def folded(stack: Path) -> Path:
    """The program's own frames, the outermost first, and the innermost of a library's below them."""
    return (*(frame for frame in stack if is_own(frame)), *(frame for frame in stack[-1:] if not is_own(frame)))


def host_stacks(of: Sampled | None) -> pl.DataFrame:
    """A row per chain of calls, depth first: the thread that runs the steps first, of siblings the longest first.

    Columns: `name` (`train.py:12 step`), time per clean step, share of the sampled steps with and without what it
    called, samples, `thread`, whether it is another one, `path` (`thread/name/name`) and `depth`.
    """
    spent: Counter[tuple[int, tuple[str, ...]]] = Counter()
    inner: Counter[tuple[int, tuple[str, ...]]] = Counter()
    for thread, stack, ns in of.stays() if of is not None else ():
        own = folded(stack)
        names = tuple(map(frame_words, own)) if own and is_own(own[0]) else (NO_LINE, *map(frame_words, own))
        inner[thread, names] += ns
        for depth in range(1, len(names) + 1):
            spent[thread, names[:depth]] += ns
    if of is None or not of.whole_ns:
        return pl.DataFrame(schema=_SCHEMA)
    least = LEAST_PERCENT / 100 * of.whole_ns
    kept = {key: ns for key, ns in spent.items() if ns >= least}
    own_time: Counter[tuple[int, tuple[str, ...]]] = Counter()
    for (thread, names), ns in inner.items():
        while names and (thread, names) not in kept:
            names = names[:-1]
        own_time[thread, names] += ns

    def order(key: tuple[int, tuple[str, ...]]) -> tuple[object, ...]:
        thread, names = key
        way = ((-kept[thread, names[:depth]], names[depth - 1]) for depth in range(1, len(names) + 1))
        return (not of.file.threads[thread].steps, thread, *(part for step in way for part in step))

    told = of.threads
    rows = []
    for thread, names in sorted(kept, key=order):
        rows.append(
            {
                **of.spent(kept[thread, names]),
                "self_percent": 100 * own_time[thread, names] / of.whole_ns,
                "thread": told[thread],
                "other": not of.file.threads[thread].steps,
                "name": names[-1],
                "path": "/".join((told[thread], *names)),
                "depth": len(names) - 1,
            }
        )
    return pl.DataFrame(rows, schema=_SCHEMA)
