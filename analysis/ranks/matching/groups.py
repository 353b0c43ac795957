"""Process groups over all ranks: which names mean the same ranks, and who sends to whom."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.ranks import summary as contract

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.ranks.summary import RankSummary

POINT_TO_POINT = ("send", "recv")
CHANNEL_BITS = 24
"""A channel is the sender's rank, shifted by so many bits, and the receiver's."""
EXCHANGE = 1 << 2 * CHANNEL_BITS
"""What a channel has more whose calls send and receive at once: of its ranks the lower is the first."""


class Known(Struct, frozen=True):
    """All calls with the number of their group."""

    calls: pl.DataFrame
    """`summary.COLLECTIVES` with ``place``, ``rank``, ``group_id`` (-1: not known) and ``channel`` (-1: not
    point-to-point)."""
    names: tuple[str, ...]
    ranks: tuple[tuple[int, ...], ...]
    here: tuple[int, ...]
    """By group: how many of its ranks have a recording."""


def of_job(summaries: Sequence[RankSummary]) -> Known:
    """The calls of all ranks with their groups.

    A name may stand for other ranks elsewhere (each pipeline has its ``pp``), so a group is a name and its ranks. Calls
    without a group are those of the one group that their rank has, if it has only one.
    """
    numbers: dict[tuple[str, tuple[int, ...]], int] = {}
    titles: list[str] = []
    owners: list[tuple[int, str | None, int]] = []
    here: list[int] = []
    for place, one in enumerate(summaries):
        mine = [(name, description, ranks) for name, description, ranks in one.groups if not ranks or one.rank in ranks]
        for name, description, ranks in mine:
            number = numbers.setdefault((name, ranks), len(numbers))
            if number == len(titles):
                titles.append(description or name)
                here.append(0)
            here[number] += 1
            owners.append((place, name, number))
        larger = [group for group in mine if len(group[2]) != 1]
        if len(larger) == 1:
            owners.append((place, None, numbers[larger[0][0], larger[0][2]]))
        elif not mine:
            number = numbers.setdefault(("", ()), len(numbers))
            if number == len(titles):
                titles.append("all ranks")
                here.append(0)
            here[number] += 1
            owners.append((place, None, number))
    calls = _together(summaries)
    table = pl.DataFrame(
        owners, schema={"place": pl.Int64(), "group": pl.String(), "group_id": pl.Int64()}, orient="row"
    ).unique(["place", "group"], keep="first", maintain_order=True)
    calls = calls.join(table, on=["place", "group"], how="left", nulls_equal=True, maintain_order="left")
    calls = calls.with_columns(pl.col("group_id").fill_null(-1))
    keys = list(numbers)
    members = tuple(key[1] for key in keys)
    return Known(
        calls.with_columns(channel=_channels(calls, members)), _told_apart(titles, members), members, tuple(here)
    )


def _together(summaries: Sequence[RankSummary]) -> pl.DataFrame:
    if not summaries:
        empty = {**contract.COLLECTIVES, "place": pl.Int64(), "rank": pl.Int64()}
        return pl.DataFrame(schema=empty)
    heights = [one.collectives.height for one in summaries]
    frame = pl.concat([one.collectives for one in summaries])
    place = np.repeat(np.arange(len(summaries)), heights)
    rank = np.array([one.rank for one in summaries], np.int64)[place]
    return frame.with_columns(place=pl.Series(place, dtype=pl.Int64), rank=pl.Series(rank, dtype=pl.Int64))


def _channels(calls: pl.DataFrame, ranks: tuple[tuple[int, ...], ...]) -> pl.Series:
    """Who sends to whom, as a number; peers are ranks of the job or places in the group, which is found out."""
    paired = (
        calls["kind"].is_in(POINT_TO_POINT).fill_null(value=False).to_numpy() & calls["peer"].is_not_null().to_numpy()
    )
    channel = np.full(calls.height, -1, np.int64)
    if not paired.any():
        return pl.Series(channel)
    rank, group = calls["rank"].to_numpy()[paired], calls["group_id"].to_numpy()[paired]
    peer = calls["peer"].fill_null(-1).to_numpy()[paired].copy()
    sends = (calls["kind"] == "send").to_numpy()[paired]
    for number in np.unique(group[group >= 0]).tolist():
        members = np.array(ranks[number], np.int64)
        mine = group == number
        local = members.size and (not np.isin(peer[mine], members).all() or bool((peer[mine] == rank[mine]).any()))
        if local and int(peer[mine].max()) < members.size:
            peer[mine] = members[peer[mine]]
    source, target = np.where(sends, rank, peer), np.where(sends, peer, rank)
    channel[paired] = (source << CHANNEL_BITS) | target
    return pl.Series(channel)


def _told_apart(titles: list[str], ranks: tuple[tuple[int, ...], ...]) -> tuple[str, ...]:
    """What people read: the description, with its first ranks where several groups have it."""
    found = []
    for title, members in zip(titles, ranks, strict=True):
        text = title
        if titles.count(title) > 1 and members:
            text += f" {_spoken(members)}"
        found.append(text)
    return tuple(found)


def _spoken(ranks: tuple[int, ...]) -> str:
    """``0-3``, ``0,4,8…28``."""
    step = ranks[1] - ranks[0] if len(ranks) > 1 else 1
    even = all(b - a == step for a, b in pairwise(ranks))
    if even and step == 1 and len(ranks) > 1:
        return f"{ranks[0]}-{ranks[-1]}"
    return ",".join(map(str, ranks)) if len(ranks) <= 3 else f"{ranks[0]},{ranks[1]}…{ranks[-1]}"
