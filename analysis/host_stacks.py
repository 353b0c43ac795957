"""The stacks of the sampled program as a tree: its own frames, and below them in one line what libraries did."""

from __future__ import annotations

import polars as pl

from tracetui.analysis.host_lines import NO_LINE, Path, Sampled, frame_words, is_own

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
    if of is None or not of.whole_ns:
        return pl.DataFrame(schema=_SCHEMA)
    roots = {thread: _Chain() for thread in range(len(of.threads))}
    for thread, stack, ns in of.stays():
        own, at = folded(stack), roots[thread]
        for name in map(frame_words, own) if own and is_own(own[0]) else (NO_LINE, *map(frame_words, own)):
            at = at.below.setdefault(name, _Chain())
            at.ns += ns
    least, told = LEAST_PERCENT / 100 * of.whole_ns, of.threads
    rows: list[dict[str, object]] = []
    for thread in sorted(roots, key=lambda thread: (not of.file.threads[thread].steps, thread)):
        left: list[tuple[tuple[str, ...], _Chain]] = [((told[thread],), roots[thread])]
        while left:
            path, chain = left.pop()
            below = [(name, each) for name, each in chain.below.items() if each.ns >= least]
            for name, each in sorted(below, key=lambda one: (-one[1].ns, one[0]), reverse=True):
                left.append(((*path, name), each))
            if len(path) > 1:
                rows.append(
                    {
                        **of.spent(chain.ns),
                        "self_percent": of.spent(chain.ns - sum(each.ns for _, each in below))["percent"],
                        "thread": told[thread],
                        "other": not of.file.threads[thread].steps,
                        "name": path[-1],
                        "path": "/".join(path),
                        "depth": len(path) - 2,
                    }
                )
    return pl.DataFrame(rows, schema=_SCHEMA)


class _Chain:
    """A frame below others, and what it called."""

    def __init__(self) -> None:
        self.ns = 0
        self.below: dict[str, _Chain] = {}
