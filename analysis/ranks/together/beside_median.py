"""One rank beside the median of its peers: its step in numbers, and its work by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.ranks.together.causes import Works
from tracetui.analysis.ranks.together.late import lower_median
from tracetui.analysis.ranks.together.tables import common_steps, step_counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.ranks.summary import RankSummary
    from tracetui.analysis.ranks.together.job import Job

BESIDE: dict[str, pl.DataType] = {
    "kind": pl.String(),
    "name": pl.String(),
    "own_ns": pl.Float64(),  # of this rank, per step; null where its summary does not list the name and has a rest
    "median_ns": pl.Float64(),  # of its peers; null where their summaries do not list the name and have a rest
    "over_ns": pl.Float64(),  # at least so much where the median is null
    "own_count": pl.Float64(),
    "median_count": pl.Float64(),
    "longer": pl.Float64(),  # a launch on this rank by one on the median rank; null where either has none
}
NUMBERS = {
    "step_ns": "a step",
    "clean_step_ns": "a step without a profiler",
    "own_gpu_ns": "own GPU work",
    "silent_ns": "silent host time",
    "loader_ns": "waiting for its data loader",
    "wait_ns": "waiting for other ranks",
    "transfer_ns": "transfer",
    "late_ns": "others wait for it",
    "compute_ns": "computing kernels run",
    "communication_ns": "collectives run",
    "exposed_ns": "exposed collectives",
    "idle_ns": "idle GPU",
}
"""The numbers of a rank (`tables.RANKS`) and what they are called."""
STEP = "step"
"""The kind of a row that is one of `NUMBERS`."""
KINDS = {
    "gpu_range": "range, GPU",
    "gpu_module": "module, GPU",
    "kernel": "kernel",
    "copy": "copy",
    "silent": "silent host",
    "loader": "loader",
    "collection": "garbage collection",
}
"""The kinds of `summary.WORK` and what they are called."""
REST = "(the rest)"


def beside_median(job: Job, summaries: Sequence[RankSummary], rank: int) -> pl.DataFrame:
    """A rank beside the median of the ranks that do the same work (`BESIDE`).

    The median is that of each number for itself, the lower of the two in the middle of an even number of ranks: no one
    rank has all of them. Numbers of the step come first, then work, what it has more of before what it has less of.

    Args:
        job: what the ranks say together.
        summaries: those that the job was made of.
        rank: one that the job has.
    """
    chosen = {one.rank: one for one in reversed(summaries) if one.recorded_pass == job.recorded_pass}
    present, _ = common_steps([chosen[number] for number in job.ranks["rank"].to_list()])
    table = job.ranks
    place = table["rank"].to_list().index(rank)
    peers = np.flatnonzero((table["peers"] == table["peers"][place]).to_numpy())
    work = _work(Works.of(present, step_counts(present)), place, peers)
    return pl.concat([_numbers(table, place, peers), work])


def _numbers(table: pl.DataFrame, place: int, peers: np.ndarray) -> pl.DataFrame:
    rows = []
    for column, words in NUMBERS.items():
        values = table[column].cast(pl.Float64).fill_null(float("nan")).to_numpy()
        own, middle = float(values[place]), lower_median(values[peers])
        if not np.isnan(own):
            known = None if np.isnan(middle) else middle
            rows.append((STEP, words, own, known, None if known is None else own - known, None, None, None))
    return pl.DataFrame(rows, schema=BESIDE, orient="row")


def _work(works: Works, place: int, peers: np.ndarray) -> pl.DataFrame:
    """Work by kind and name, what this rank has more of first."""
    frame = works.frame.filter(pl.col("place").is_in(peers.tolist()))
    steps = np.maximum(np.array(works.steps), 1)
    summed = frame.group_by("kind", "name", "place").agg(pl.col("ns").sum(), pl.col("count").sum())
    rows = []
    for (kind,), part in summed.group_by("kind"):
        names = part["name"].unique().sort()
        at = names.search_sorted(part["name"]).to_numpy(), np.searchsorted(peers, part["place"].to_numpy())
        per = steps[part["place"].to_numpy()]
        ns, count = np.zeros((names.len(), peers.size)), np.zeros((names.len(), peers.size))
        listed = np.zeros(ns.shape, np.bool_)
        ns[at], count[at], listed[at] = part["ns"].to_numpy() / per, part["count"].to_numpy() / per, True
        # a name that a rank with a rest does not list takes at most what the smallest one takes that it lists
        named = (names != "").to_numpy()
        smallest = np.min(np.where(listed & named[:, None], ns, np.inf), axis=0, initial=np.inf)
        rest = listed[~named].any(axis=0) & np.isfinite(smallest)
        bound = np.where(rest, smallest, 0.0)
        most = np.where(listed, ns, bound)
        chosen = np.argsort(most, axis=1, kind="stable")[:, (peers.size - 1) // 2]
        me = int(np.searchsorted(peers, place))
        for row, name in enumerate(names.to_list()):
            it = chosen[row]
            if not max(ns[row, me], most[row, it]) or not (listed[row, me] or listed[row, it]):
                continue
            mine, theirs = bool(listed[row, me] or not rest[me]), bool(listed[row, it] or not rest[it])
            over = float(ns[row, me] - most[row, it])
            calls = (count[row, me], count[row, it])
            longer = ns[row, me] / calls[0] / (ns[row, it] / calls[1]) if name and all(calls) and ns[row, it] else None
            rows.append(
                (
                    KINDS.get(str(kind), str(kind)), name or REST, ns[row, me] if mine else None,
                    ns[row, it] if theirs else None, over if mine and (theirs or over > 0) else None,
                    calls[0] if mine else None, calls[1] if theirs else None, longer,
                )
            )  # fmt: skip
    found = pl.DataFrame(rows, schema=BESIDE, orient="row")
    return found.sort("over_ns", "kind", "name", descending=[True, False, False], nulls_last=True)
