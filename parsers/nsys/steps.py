"""Finds the NVTX ranges that are iterations of the program."""

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
_LIKELY = r"(?i)step|iter|batch"
_WORD = r"(?:steps?|iters?|iterations?|(?:mini)?batch(?:es)?)"
_NUMBERED = re.compile(
    rf"(?P<word>(?:[A-Za-z]+[\s_.\-]+)*{_WORD})(?:\s*[#:=_\-(\[]\s*|\s+)?(?P<index>\d{{1,18}})[)\]]?(?:\s*(?:/|of)\s*\d+)?",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"(?:(?:train|training)[\s_\-]?)?(?:step|iteration|batch|iter)", re.IGNORECASE)


def find(
    name: NDArray[np.uint32], start: Ints, duration: Ints, thread: NDArray[np.int32], depth: NDArray[np.int16]
) -> pl.DataFrame:
    """The steps among push/pop ranges that are in nesting order; of several families the outermost, then the largest.

    A family is one spelling (``batch``, ``train_step``) on one thread: `ProfilerStep#N`, else a word for an iteration
    with a number, else such a word alone that occurs twice or more without ever lying within itself.
    """
    texts = _candidates(name)
    for pattern in (_PROFILER_STEP, _NUMBERED):
        matches = {code: match for code, text in texts.items() if (match := pattern.fullmatch(text.strip()))}
        words = {code: match.groupdict().get("word", "").lower() for code, match in matches.items()}
        if rows := _best_family(name, words, thread, depth, duration):
            index = [int(matches[code]["index"]) for code in name[rows].tolist()]
            return _frame([texts[code] for code in name[rows].tolist()], index, start[rows], duration[rows])
    plain = {code: text.lower() for code, text in texts.items() if _PLAIN.fullmatch(text.strip())}
    rows = _best_family(name, plain, thread, depth, duration, at_least=2)
    return _frame([texts[code] for code in name[rows].tolist()], list(range(len(rows))), start[rows], duration[rows])


def _candidates(name: NDArray[np.uint32]) -> dict[int, str]:
    """The names that may be steps, by code: few, however many names there are."""
    codes = np.unique(name)
    names = categories.decode(codes[codes != categories.NULL_CODE]).cast(pl.String)
    likely = names.str.contains(_LIKELY).fill_null(value=False)
    return dict(zip(codes[: len(names)][likely.to_numpy()].tolist(), names.filter(likely).to_list(), strict=True))


def _best_family(
    name: NDArray[np.uint32],
    words: dict[int, str],
    thread: NDArray[np.int32],
    depth: NDArray[np.int16],
    duration: Ints,
    at_least: int = 1,
) -> list[int]:
    rows = np.flatnonzero(np.isin(name, np.array(list(words), np.uint32)))
    families: dict[tuple[int, str], list[int]] = {}
    for row, code, owner in zip(rows.tolist(), name[rows].tolist(), thread[rows].tolist(), strict=True):
        families.setdefault((owner, words[code]), []).append(row)
    usable = []
    for family in families.values():
        level = depth[family].min()
        outermost = [row for row in family if depth[row] == level]
        if len(outermost) >= at_least:
            usable.append((-int(level), len(outermost), int(duration[outermost].sum()), outermost))
    return max(usable)[3] if usable else []


def _frame(names: list[str], index: list[int], start: Ints, duration: Ints) -> pl.DataFrame:
    columns = {"index": index, "name": names, "start": start, "duration": duration}
    return pl.DataFrame(columns, schema=schema.STEPS).sort("start")
