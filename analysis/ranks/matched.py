"""Which collectives of different ranks are one: by process group and sequence number, else by order.

A group's name may stand for other ranks elsewhere, so a group is its name and its ranks.

A recording may begin within another step than its neighbour's, and hold work that was queued before it began. So order
is counted from the end of each recording, which the ranks have in common; where sizes or times speak against that, the
longest run that fits is taken. What can't be matched is counted with its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import polars as pl
from msgspec import Struct, structs
from numpy.typing import NDArray

from tracetui.analysis.ranks import summary as contract
from tracetui.analysis.ranks.clocks import MOST_DRIFT
from tracetui.analysis.ranks.summary import Calls, Members, RankSummary
from tracetui.parsers.arrays import Floats, Ints

POINT_TO_POINT = ("send", "recv")
CHANNEL_BITS = 24
"""A channel is the sender's rank, shifted by so many bits, and the receiver's."""
EXCHANGE = 1 << 2 * CHANNEL_BITS
"""What a channel has more whose calls send and receive at once: of its ranks the lower is the first."""


class GroupedCalls(Struct, frozen=True):
    """All calls with the number of their group."""

    calls: Calls
    """`summary.COLLECTIVES` without group, order, peer and type, with ``place``, ``rank``, ``group_id`` (-1: unknown),
    ``channel`` (-1: not point-to-point), and ``signature``: what is the same for one collective on all ranks."""
    names: tuple[str, ...]
    ranks: tuple[Members, ...]
    here: tuple[int, ...]
    """By group: how many of its ranks have a recording."""


def grouped_calls(summaries: Sequence[RankSummary]) -> GroupedCalls:
    """The calls of all ranks with their groups.

    A name may stand for other ranks elsewhere (each pipeline has its ``pp``), so a group is a name and its ranks. Calls
    without a group are those of the one group that their rank has, if it has only one.
    """
    numbers: dict[tuple[str, Members], int] = {}
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
    table = pl.DataFrame(
        owners, schema={"place": pl.Int64(), "group": pl.String(), "group_id": pl.Int64()}, orient="row"
    ).unique(["place", "group"], keep="first", maintain_order=True)
    calls = Calls.of(_in_parts(summaries, table))
    keys = list(numbers)
    members = tuple(key[1] for key in keys)
    channel = _channels(calls, members)
    return GroupedCalls(
        calls.with_frame(calls.frame.drop("peer").with_columns(channel=channel)),
        _told_apart(titles, members),
        members,
        tuple(here),
    )


def _in_parts(summaries: Sequence[RankSummary], groups: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The calls of some ranks after the other: what all need of them, without texts that differ between few of them."""
    codes: dict[int, int] = {}
    for first in range(0, max(len(summaries), 1), IN_PART):
        some = [one.collectives for one in summaries[first : first + IN_PART]]
        frame = pl.concat(some or [pl.DataFrame(schema=contract.COLLECTIVES)])
        place = np.repeat(np.arange(first, first + len(some)), [part.height for part in some])
        rank = np.array([one.rank for one in summaries], np.int64)[place]
        frame = frame.with_columns(place=pl.Series(place, dtype=pl.Int64), rank=pl.Series(rank, dtype=pl.Int64))
        signature = frame.select(pl.when(_known()).then(pl.struct(*SIGNATURE).hash())).to_series()
        for value in signature.unique().drop_nulls():
            codes.setdefault(value, len(codes) + 1)
        signature = signature.replace_strict(codes, default=0, return_dtype=pl.Int64)
        same = ["place", "group"]
        frame = frame.join(groups, on=same, how="left", nulls_equal=True, maintain_order="left")
        frame = frame.with_columns(pl.col("group_id").fill_null(-1), signature=signature)
        yield frame.drop("group", "order", "element_type")


IN_PART = 64
"""So many ranks' calls are looked at together."""


def _channels(calls: Calls, ranks: tuple[Members, ...]) -> pl.Series:
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


def _told_apart(titles: list[str], ranks: tuple[Members, ...]) -> tuple[str, ...]:
    """What people read: the description, with its first ranks where several groups have it."""
    found, often = [], Counter(titles)
    for title, members in zip(titles, ranks, strict=True):
        text = title
        if often[title] > 1 and members:
            text += f" {_spoken(members)}"
        found.append(text)
    return tuple(found)


def _spoken(ranks: Members) -> str:
    """``0-3``, ``0,4,8…28``."""
    step = ranks[1] - ranks[0] if len(ranks) > 1 else 1
    even = all(b - a == step for a, b in pairwise(ranks))
    if even and step == 1 and len(ranks) > 1:
        return f"{ranks[0]}-{ranks[-1]}"
    return ",".join(map(str, ranks)) if len(ranks) <= 3 else f"{ranks[0]},{ranks[1]}…{ranks[-1]}"


STEADY_NS = 200_000
"""The ends of one collective differ between ranks by the same amount, up to some ten µs and the drift of their clocks
(100 ppm of two seconds); a wrong alignment shows the jitter of steps instead. Beyond this another one is tried."""
MOST_PERCENT = 90
"""So many ends tell how steady an alignment is: one place off, the even gaps within a step look steady, and most gaps
may be such, but not those between steps."""
APART_NS = 2_000_000
"""Clocks of hosts differ by hundreds of µs; ends that lie further apart than this may be those of another step."""
LEAST_RUN = 3
"""Fewer collectives than this prove no alignment."""
SAMPLED, MOST_TRIED, AT_ONCE = 128, 32, 4096
"""So many calls of each alignment are looked at, then all calls of the best so many; so many alignments at once."""
AGAIN = 64
"""More calls of one number than that are not told apart."""
_PAIRED = pl.col("kind").is_in(POINT_TO_POINT).fill_null(value=False) & pl.col("peer").is_not_null()
SIGNATURE = (
    # what one rank sends the other receives
    pl.when(_PAIRED).then(pl.lit("p2p")).otherwise("kind"),
    # ranks send each other shares of any size
    pl.when(_PAIRED)
    .then(pl.sum_horizontal("bytes_in", "bytes_out"))
    .otherwise(pl.when(pl.col("kind") == "all_to_all").then(0).otherwise("bytes_in")),
    pl.col("element_type"),
)
"""What is the same for one collective on all ranks."""
_TELLING = ("place", "group_id", "channel", "seq", "step", "begin", "end")
_BY = pl.Enum(["seq", "order"])
NO_STEP = -1
ALONE = -1 << 40
"""Keys from here downwards are of calls that no other rank has."""


def keyed(frame: pl.DataFrame) -> pl.DataFrame:
    """The calls with ``key``, the same for one collective on all ranks of its group and channel, and ``by``.

    They are found on the columns that tell them, which are sorted and copied some times.
    """
    found = _keyed(frame.select(*_TELLING, "signature").with_row_index("row")).sort("row")
    return frame.drop("signature").with_columns(found["key"], found["by"])


def _keyed(frame: pl.DataFrame) -> pl.DataFrame:
    where = ("group_id", "channel")
    # a group that has numbers on some ranks only (work queued before the window lacks them) is numbered where it can be
    # sends and receives are counted by each rank for itself
    numbered = pl.col("seq").is_not_null() & (pl.col("channel") < 0)
    if not frame.select(numbered.any()).item():
        return _from_the_end(frame)
    with_seq = frame.filter(numbered)
    with_seq = with_seq.with_columns(key=pl.col("seq").cast(pl.Int64) * AGAIN + _again(with_seq), by=pl.lit("seq"))
    without = frame.filter(~numbered)
    counted = with_seq.select(*where).unique()
    lone = without.join(counted, on=list(where), how="semi")
    lone = lone.with_columns(key=-1 - pl.int_range(pl.len()), by=pl.lit("seq"))  # each by itself: matched with nothing
    by_order = _from_the_end(without.join(counted, on=list(where), how="anti"))
    return pl.concat([*(part.select("row", "key", pl.col("by").cast(_BY)) for part in (with_seq, lone)), by_order])


def _again(frame: pl.DataFrame) -> pl.Series:
    """Which of several calls of one number each is: several may share one, as those of a coalesced call."""
    place, group, seq = (frame[name].cast(pl.Int64).to_numpy() for name in ("place", "group_id", "seq"))
    code = np.sort((place << 48) ^ (group << 32) ^ seq)
    if not (code[1:] == code[:-1]).any():
        return pl.zeros(frame.height, pl.Int64, eager=True)
    return frame.select(pl.int_range(pl.len()).over("place", "group_id", "seq")).to_series()


def _from_the_end(frame: pl.DataFrame) -> pl.DataFrame:
    """Order counted back from the last call of each rank, moved where that does not fit: row, key and by."""
    mine = ("place", "group_id", "channel")
    frame = frame.drop("seq").sort(*mine, "begin").drop("begin")
    back = pl.len().over(*mine) - 1 - pl.int_range(pl.len()).over(*mine)
    frame = frame.with_columns(key=back.cast(pl.Int64))
    for (group, channel), places in _unsteady(frame).items():
        frame = _moved(frame, group, channel, places)
    return frame.select("row", "key", by=pl.lit("order", _BY))


def _unsteady(frame: pl.DataFrame) -> dict[tuple[int, int], list[int]]:
    """By group and channel: the places that don't fit the others as they stand; all where sizes differ."""
    where = ("group_id", "channel")
    away = frame.select(
        "place", *where, "end", "step",
        away=pl.col("end") - pl.col("end").median().over(*where, "key"),
        other=pl.col("step") != pl.col("step").median().over(*where, "key"),
    )  # fmt: skip
    pieces = 1 + frame.height // PIECE
    parts = (away.filter(pl.col("place") % pieces == number) for number in range(pieces))
    by_rank = pl.concat(map(_steadiness_of, parts))
    # one place off, some are of another step: where none is, it is the clock that is off, however far
    apart = (pl.col("apart") > APART_NS) & ((pl.col("other").fill_null(1.0) > 0) | (pl.col("steps") < 2))
    off = (pl.col("spread") > STEADY_NS) | apart | (pl.col("other") > 0.5).fill_null(value=False)
    loose = by_rank.filter(off & (pl.col("calls") >= LEAST_RUN))
    known = pl.col("signature") != 0
    signatures = frame.group_by(*where, "key").agg(pl.col("signature").filter(known).n_unique())
    mixed = signatures.filter(pl.col("signature") > 1).select(*where).unique()
    odd = by_rank.join(mixed, on=list(where), how="semi")
    found: dict[tuple[int, int], list[int]] = {}
    for group, channel, place in (
        pl.concat([part.select(*where, "place") for part in (loose, odd)]).unique().sort(*where, "place").iter_rows()
    ):
        found.setdefault((group, channel), []).append(place)
    return found


PIECE = 1 << 18
"""About so many calls of all ranks are looked at together where each rank's are looked at by themselves."""


def _steadiness_of(away: pl.DataFrame) -> pl.DataFrame:
    """How steady the ends of each rank in each group and channel are beside the others': spread, apart, other, steps.

    Args:
        away: group_id, channel, place; end, step; how far it is away from the others', and whether of another step.
    """
    mine = ("group_id", "channel", "place")
    third = pl.len() // 3
    ends = away.group_by(mine, maintain_order=True).agg(
        *(pl.col(name).head(third).median().alias(f"{name}_0") for name in ("away", "end")),
        *(pl.col(name).tail(third).median().alias(f"{name}_1") for name in ("away", "end")),
        middle=pl.col("away").median(),
        about=pl.col("end").median(),
    )
    # clocks of hosts drift apart, which makes no alignment unsteady
    slope = (pl.col("away_1") - pl.col("away_0")) / (pl.col("end_1") - pl.col("end_0"))
    slope = pl.when(slope.abs() <= MOST_DRIFT).then(slope).otherwise(0.0)
    left = pl.col("away") - pl.col("middle") - slope * (pl.col("end") - pl.col("about"))
    return (
        away.join(ends, on=list(mine), maintain_order="left")
        .group_by(mine)
        .agg(
            spread=left.abs().quantile(MOST_PERCENT / 100),
            apart=pl.col("middle").first().abs(),
            other=pl.col("other").mean(),
            steps=pl.col("step").n_unique(),
            calls=pl.len(),
        )
    )


def _known() -> pl.Expr:
    return (
        pl.when(_PAIRED)
        .then(pl.any_horizontal(pl.col("bytes_in", "bytes_out").is_not_null()))
        .otherwise(pl.col("bytes_in").is_not_null())
    )


def _moved(frame: pl.DataFrame, group: int, channel: int, places: list[int]) -> pl.DataFrame:
    """The frame with these ranks aligned to the one of the others that has most calls, or of all.

    A rank whose recording lacks a step in the middle fits nowhere as a whole: its calls go by the numbers of steps,
    where that makes them steadier.
    """
    here = (frame["group_id"] == group) & (frame["channel"] == channel)
    rows = np.flatnonzero(here.to_numpy())
    place, key, end, signature = (frame[name].to_numpy()[rows] for name in ("place", "key", "end", "signature"))
    step = frame["step"].fill_null(NO_STEP).to_numpy()[rows]
    every, counts = np.unique(place, return_counts=True)
    steady = np.where(np.isin(every, places), 0, counts)
    reference = place == every[(steady if steady.any() else counts).argmax()]
    base = _Sequence(signature[reference], end[reference], step[reference])
    moved = key.copy()
    for one in places:
        mine = place == one
        own = _Sequence(signature[mine], end[mine], step[mine])
        shift, spread, elsewhere = base.fit(own)
        moved[mine] = key[mine] + shift
        if spread > STEADY_NS or elsewhere:
            by_steps, steadier = base.by_steps(own)
            if steadier < max(spread, STEADY_NS):
                # a sequence begins with the last call
                moved[mine] = np.where(by_steps < 0, ALONE - key[mine], key[reference][::-1][by_steps])[::-1]
    whole = frame["key"].to_numpy().copy()
    whole[rows] = moved
    return frame.with_columns(key=pl.Series(whole))


class _Sequence:
    """What one rank did in a group, the last first."""

    def __init__(self, signature: NDArray[np.uint64], end: Ints, step: Ints) -> None:
        self.signature, self.end, self.step = signature[::-1], end[::-1].astype(np.int64), step[::-1]

    def fit(self, other: _Sequence) -> tuple[int, float, bool]:
        """How many places later than its own end the other's last call stands here, and how well it fits there.

        That is how unsteady the distances of ends are, ns, and whether most calls are of other steps.

        Of the places where nothing differs, the one whose ends keep the steadiest distance; of those that are as
        steady, one in which steps have the same numbers, then one whose ends lie near each other, then the one nearest
        to the common end.
        """
        least = max(LEAST_RUN, min(self.end.size, other.end.size) // 2)
        shifts = np.arange(-(other.end.size - least), self.end.size - least + 1)
        best: tuple[float, bool, bool, float, int] = (np.inf, True, True, np.inf, 0)
        found, unsteady, odd = 0, np.inf, False
        for shift in self._likely(other, shifts).tolist():
            here, there = self._overlap(other, shift)
            a, b = self.signature[here], other.signature[there]
            if np.any((a != b) & (a != 0) & (b != 0)):
                continue
            away = other.end[there] - self.end[here]
            spread = float(_spreads(self.end[here][None], away[None])[0])
            known = (self.step[here] != NO_STEP) & (other.step[there] != NO_STEP)
            elsewhere = 2 * int((known & (self.step[here] != other.step[there])).sum()) > int(known.sum())
            steady = int(_steadiness(np.array(spread)))
            far = abs(float(np.median(away))) > APART_NS
            rank = (steady, elsewhere, far, spread if steady else 0.0, abs(shift))
            if rank < best:
                best, found, unsteady, odd = rank, shift, spread, elsewhere
        return found, unsteady, odd

    def _likely(self, other: _Sequence, shifts: Ints) -> Ints:
        """The places that fit best by a sample of the calls of each, so that cost does not grow with their square."""
        if shifts.size <= MOST_TRIED:
            return shifts
        kept, keys = [], []
        # parts of the golden ratio keep no step with what repeats
        at = np.sort((np.arange(SAMPLED) * 0.6180339887) % 1.0)
        for first in range(0, shifts.size, AT_ONCE):
            some = shifts[first : first + AT_ONCE]
            low = np.maximum(0, some)
            high = np.minimum(self.end.size, other.end.size + some)
            here = (low[:, None] + at * (high - low)[:, None]).astype(np.int64)
            there = here - some[:, None]
            a, b = self.signature[here], other.signature[there]
            some_fit = ~np.any((a != b) & (a != 0) & (b != 0), axis=1)
            some, here, there = some[some_fit], here[some_fit], there[some_fit]
            away = other.end[there] - self.end[here]
            spread = _spreads(self.end[here], away)
            known = (self.step[here] != NO_STEP) & (other.step[there] != NO_STEP)
            elsewhere = 2 * (known & (self.step[here] != other.step[there])).sum(axis=1) > known.sum(axis=1)
            far = np.abs(np.median(away, axis=1)) > APART_NS
            steady = _steadiness(spread)
            kept.append(some)
            keys.append(np.stack((np.abs(some), np.where(steady > 0, spread, 0.0), far, elsewhere, steady)))
        order = np.lexsort(np.concatenate(keys, axis=1))
        likely: Ints = np.concatenate(kept)[order[:MOST_TRIED]]
        return likely

    def by_steps(self, other: _Sequence) -> tuple[Ints, float]:
        """Where each call of the other stands here by its step and its place in it, and how unsteady that is, ns.

        -1 for calls of steps that are not here, that differ, or that have another number of calls.
        """
        found = np.full(other.end.size, -1, np.int64)
        for step in np.intersect1d(self.step[self.step != NO_STEP], other.step).tolist():
            here, there = np.flatnonzero(self.step == step), np.flatnonzero(other.step == step)
            if here.size != there.size:
                continue
            a, b = self.signature[here], other.signature[there]
            if not np.any((a != b) & (a != 0) & (b != 0)):
                found[there] = here
        told = found >= 0
        if told.sum() < LEAST_RUN:
            return found, np.inf
        return found, _spread(self.end[found[told]], other.end[told] - self.end[found[told]])

    def _overlap(self, other: _Sequence, shift: int) -> tuple[slice, slice]:
        low = max(0, shift)
        high = min(self.end.size, other.end.size + shift)
        return slice(low, high), slice(low - shift, high - shift)


def _spread(time: Ints, away: Ints) -> float:
    """How far nearly all of these distances lie from their line."""
    return float(_spreads(time[None], away[None])[0])


def _spreads(time: Ints, away: Ints) -> Floats:
    """The same of each row: clocks drift apart, so distances may grow evenly."""
    third = time.shape[1] // 3
    middle, about = np.median(away, axis=1, keepdims=True), np.median(time, axis=1, keepdims=True)
    slope = np.zeros_like(middle)
    if third:
        y = np.median(away[:, -third:], axis=1) - np.median(away[:, :third], axis=1)
        x = np.median(time[:, -third:], axis=1) - np.median(time[:, :third], axis=1)
        slope[:, 0] = np.divide(y, x, out=np.zeros_like(y), where=x != 0)
        slope[np.abs(slope) > MOST_DRIFT] = 0.0
    left = np.abs(away - middle - slope * (time - about))
    found: Floats = np.percentile(left, MOST_PERCENT, axis=1)
    return found


def _steadiness(spread: Floats) -> Floats:
    """As a power of four: what lies below the noise of clocks is alike."""
    found: Floats = np.log2(np.maximum(spread / (STEADY_NS / 4), 1.0)) // 2
    return found


SAME_BYTES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
"""Kinds whose calls have one size on all ranks; others may be uneven, as all-to-all."""
UNMATCHED = {"rank": pl.Int64(), "reason": pl.String(), "count": pl.Int64(), "exposed_ns": pl.Int64()}
"""``exposed_ns`` is of the calls of shared steps: how long they kept their rank from computing."""
COALESCED, NO_GROUP, NOT_EVERYWHERE, DIFFERENT, UNSHARED = (
    "of several operations in one kernel, of which the recording does not say that all are with one other rank: whom"
    " it waits for can't be told",
    "of a process group that is not recorded, where the job has several",
    "not in the recordings of all of their ranks",
    "of another size or kind than on the other ranks",
    "in steps that not all ranks have",
)


class Matched(Struct, frozen=True):
    """The collectives that all present ranks of a group share."""

    calls: Calls
    """One rank's call a row: the columns of `GroupedCalls.calls` and ``instance``, by instance, then rank."""
    group_names: tuple[str, ...]
    """By ``group_id``: what people call the group."""
    group_ranks: tuple[Members, ...]
    """By ``group_id``; empty where they are not known."""
    unmatched: pl.DataFrame
    parts: pl.DataFrame
    """Sends and receives that share a kernel with others, in the columns of `calls` but ``instance``."""
    by: str
    """``seq``, ``order``, or both as ``seq, order``; empty where nothing was matched."""

    @property
    def none_shared(self) -> bool:
        """Whether none of the collectives is another rank's, though their groups' members and steps are recorded."""
        known = bool(self.group_ranks) and all(self.group_ranks)
        why = self.unmatched["reason"]
        return known and not self.calls.height and len(why) > 0 and why.is_in([NOT_EVERYWHERE, DIFFERENT]).all()

    def without_groups(self) -> Matched:
        """The same with every call unmatched, since its group is not recorded."""
        told = _counted(self.calls.frame, NO_GROUP)
        none = self.calls.with_frame(self.calls.frame.clear())
        return structs.replace(self, calls=none, unmatched=pl.concat([self.unmatched, told]), by="")


def match(summaries: Sequence[RankSummary], steps: Sequence[int] = ()) -> Matched:
    """Matches the collectives of all ranks.

    Args:
        summaries: of all ranks.
        steps: those that all ranks have: collectives of others are left out, as times per step are of these.
    """
    known = grouped_calls(summaries)
    frame = known.calls.frame
    calls = known.calls.with_frame(frame.clear())  # a frame that is sorted needs no other
    known = structs.replace(known, calls=calls)
    lost: list[pl.DataFrame] = []

    def set_aside(rows: pl.Expr, reason: str) -> None:
        nonlocal frame
        gone = frame.filter(rows)
        if gone.height:
            lost.append(_counted(gone, reason, steps))
            frame = frame.filter(~rows)

    shared = pl.col("coalesced").fill_null(value=False)
    parts = frame.filter(shared & (pl.col("channel") >= 0))
    if parts.height:
        frame = _with_exchanges(frame.filter(~(shared & (pl.col("channel") >= 0))), parts)
    set_aside(shared, COALESCED)
    set_aside(pl.col("group_id") < 0, NO_GROUP)
    frame = keyed(frame)
    by = ", ".join(frame["by"].unique().sort().to_list()) if frame.height else ""
    frame = frame.sort("group_id", "channel", "key", "place")
    instance = pl.struct("group_id", "channel", "key").rle_id() if frame.height else pl.lit(0, dtype=pl.UInt32)
    frame = frame.with_columns(instance=instance)
    frame = frame.with_columns(odd=_odd(frame))
    set_aside(pl.col("odd"), DIFFERENT)
    here = _members_here(frame, known)
    frame = frame.with_columns(here=here)
    set_aside((pl.len().over("instance") < pl.col("here")) | (pl.len().over("instance") < 2), NOT_EVERYWHERE)
    if steps:
        # a rank whose mark of a step is missing has its calls, but they are of no step
        step = pl.col("step").max().over("instance").cast(pl.Int64)
        set_aside((step.is_not_null() & ~step.is_in(list(steps))), UNSHARED)
    if frame.height:
        frame = frame.with_columns(instance=pl.col("instance").rle_id())
    unmatched = pl.concat(lost).sort("rank", "reason") if lost else pl.DataFrame(schema=UNMATCHED)
    kept = calls.with_frame(frame.drop("odd", "by", "key", "here", strict=False))
    return Matched(kept, known.names, known.ranks, unmatched, calls.with_frame(parts).select(), by)


def _counted(gone: pl.DataFrame, reason: str, steps: Sequence[int] = ()) -> pl.DataFrame:
    """How many calls of each rank are not matched for this reason (`UNMATCHED`)."""
    of_step = pl.col("step").cast(pl.Int64).is_in(list(steps)) if steps else pl.lit(value=True)
    counted = gone.group_by(pl.col("rank").cast(pl.Int64)).agg(
        count=pl.len().cast(pl.Int64), exposed_ns=pl.col("exposed_ns").cast(pl.Int64).filter(of_step).sum()
    )
    return counted.select("rank", pl.lit(reason).alias("reason"), "count", "exposed_ns")


def _with_exchanges(frame: pl.DataFrame, parts: pl.DataFrame) -> pl.DataFrame:
    """The calls, in which kernels whose sends and receives are all with one other rank are exchanges of two ranks.

    Such a kernel ends when both are done, so it tells as much as a collective of the two. One with several peers ends
    when the last of them is done, which may have waited for a third.
    """
    channel = pl.col("channel").cast(pl.Int64)
    source, target = channel // (1 << CHANNEL_BITS), channel % (1 << CHANNEL_BITS)
    pair = pl.min_horizontal(source, target) * (1 << CHANNEL_BITS) + pl.max_horizontal(source, target)
    size, sends = pl.max_horizontal("bytes_in", "bytes_out").cast(pl.Int64), pl.col("kind") == "send"
    same = ("place", "begin", "end")
    known = size.null_count() == 0
    told = (
        parts.with_columns(pair=pair)
        .group_by(*same)
        .agg(
            its_group=pl.col("group_id").first(),
            pair=pl.col("pair").first(),
            lone=(pl.col("pair").n_unique() == 1) & (pl.col("group_id").n_unique() == 1),
            sent=pl.when(known).then(size.filter(sends).sum()),
            got=pl.when(known).then(size.filter(~sends).sum()),
        )
        .filter("lone")
    )
    found = frame.join(told, on=list(same), how="left", maintain_order="left")
    chosen = pl.col("pair").is_not_null() & pl.col("coalesced").fill_null(value=False)
    return found.with_columns(
        group_id=pl.when(chosen).then("its_group").otherwise("group_id"),
        channel=pl.when(chosen).then(pl.col("pair") + EXCHANGE).otherwise("channel"),
        bytes_in=pl.when(chosen).then("sent").otherwise("bytes_in"),
        bytes_out=pl.when(chosen).then("got").otherwise("bytes_out"),
        coalesced=pl.col("coalesced") & ~chosen,
    ).select(frame.columns)


def _odd(frame: pl.DataFrame) -> pl.Series:
    """Which calls differ from what most ranks of their instance did."""
    if not frame.height:
        return pl.Series([], dtype=pl.Boolean)
    kind = pl.when(pl.col("channel") >= 0).then(-1).otherwise(pl.col("kind").to_physical().cast(pl.Int64))
    size = pl.when(pl.col("kind").is_in(SAME_BYTES)).then(pl.col("bytes_in"))
    told = frame.select("instance", kind=kind, size=size)
    several = told.group_by("instance").agg(
        mixed=(pl.col("kind").n_unique() > 1) | (pl.col("size").drop_nulls().n_unique() > 1)
    )
    mixed = several.filter("mixed")["instance"]
    if not mixed.len():
        return pl.repeat(value=False, n=frame.height, eager=True)
    # few instances are mixed: what most have is looked for among them only
    usual = (
        told.filter(pl.col("instance").is_in(mixed.implode()))
        .group_by("instance")
        .agg(pl.col("kind").mode().min().alias("k"), pl.col("size").drop_nulls().mode().min().alias("s"))
    )
    joined = told.join(usual, on="instance", how="left", maintain_order="left")
    differs = (pl.col("kind") != pl.col("k")) | (pl.col("size") != pl.col("s"))
    return joined.select(differs.fill_null(value=False)).to_series()


def _members_here(frame: pl.DataFrame, known: GroupedCalls) -> pl.Series:
    """Of each call: how many ranks of its group there are recordings of."""
    count = np.array([*known.here, 0], np.int64)
    here = count[frame["group_id"].to_numpy()]
    return pl.Series(np.where(frame["channel"].to_numpy() >= 0, 2, here))
