"""Finds the steps that PyTorch's profiler marks with NVTX; other ranges that are iterations: `parsers.iterations`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.parsers import categories, schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tracetui.parsers.nesting import Ints

_PROFILER_STEP = re.compile(r"ProfilerStep#(?P<index>\d{1,18})")
_LIKELY = "ProfilerStep#"


def find(
    name: NDArray[np.uint32], start: Ints, duration: Ints, thread: NDArray[np.int32], depth: NDArray[np.int16]
) -> pl.DataFrame:
    """The ``ProfilerStep#N`` among push/pop ranges that are in nesting order: those of the thread with the most."""
    texts = _candidates(name)
    numbers = {code: int(match["index"]) for code, text in texts.items() if (match := _PROFILER_STEP.fullmatch(text))}
    rows = _best_thread(np.flatnonzero(np.isin(name, np.array(list(numbers), np.uint32))), thread, depth, duration)
    columns = {
        "index": [numbers[code] for code in name[rows].tolist()],
        "name": [texts[code] for code in name[rows].tolist()],
        "start": start[rows],
        "duration": duration[rows],
    }
    return pl.DataFrame(columns, schema=schema.STEPS).sort("start")


def _candidates(name: NDArray[np.uint32]) -> dict[int, str]:
    """The names that may be steps, by code: few, however many names there are."""
    codes = np.unique(name)
    names = categories.decode(codes[codes != categories.NULL_CODE]).cast(pl.String)
    likely = names.str.contains(_LIKELY, literal=True).fill_null(value=False)
    found = names.filter(likely).str.strip_chars().to_list()
    return dict(zip(codes[: len(names)][likely.to_numpy()].tolist(), found, strict=True))


def _best_thread(rows: Ints, thread: NDArray[np.int32], depth: NDArray[np.int16], duration: Ints) -> Ints:
    """Of the thread whose steps are outermost, then most, then longest: those that lie in no other."""
    best: tuple[int, int, int] | None = None
    chosen = rows[:0]
    for owner in np.unique(thread[rows]).tolist():
        mine = rows[thread[rows] == owner]
        level = depth[mine].min()
        mine = mine[depth[mine] == level]
        rank = -int(level), int(mine.size), int(duration[mine].sum())
        if best is None or rank > best:
            best, chosen = rank, mine
    return chosen
