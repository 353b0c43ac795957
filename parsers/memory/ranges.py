"""Turns the annotations of a memory snapshot into host rows, and those that are iterations into steps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.parsers import schema
from tracetui.parsers.categories import encodable
from tracetui.parsers.nesting import NONE

if TYPE_CHECKING:
    from tracetui.parsers.tally import Tally

_NUMBERED = re.compile(r"(?:ProfilerStep|(?:train|training)?[ _-]?(?:step|iter|iteration|batch))[ #_:-]*(\d+)", re.I)
_BARE = re.compile(r"step|iteration|(?:train|training)[ _-]?step|batch", re.I)


def annotation_rows(found: Any, end: int | None, tally: Tally) -> pl.DataFrame:
    """`schema.HOST` rows of ``external_annotations``: a list of {stage: START|END, name, device, time_us}.

    An END closes the innermost open range of its name. A range that is still open at the end lasts until `end`, ns.
    """
    rows: list[list[Any]] = []
    stack: list[int] = []
    for event in found if isinstance(found, list) else ():
        stage, name, time = _event(event)
        if stage == "START":
            rows.append([name, time, None, stack[-1] if stack else NONE, len(stack)])
            stack.append(len(rows) - 1)
        elif stage == "END":
            place = next((at for at in range(len(stack) - 1, -1, -1) if rows[stack[at]][0] == name), None)
            if place is None:
                tally.missing("annotation that began before the recording", 1, name)
            else:
                rows[stack.pop(place)][2] = time
        else:
            tally.skipped("annotation that is neither a start nor an end")
    for number in stack:
        rows[number][2] = max(end or 0, rows[number][1])
        tally.repaired("annotation still open at the snapshot", 1, rows[number][0])
    order = sorted(range(len(rows)), key=lambda n: (rows[n][1], -rows[n][2], n))
    place_of = {number: place for place, number in enumerate(order)}
    frame = pl.DataFrame(
        {
            "kind": pl.Series(["annotation"] * len(rows), dtype=pl.String),
            "name": pl.Series([rows[n][0] for n in order], dtype=pl.String),
            "start": pl.Series([rows[n][1] for n in order], dtype=pl.Int64),
            "duration": pl.Series([max(rows[n][2] - rows[n][1], 0) for n in order], dtype=pl.Int64),
            "parent": pl.Series([place_of.get(rows[n][3]) for n in order], dtype=pl.UInt32),
            "depth": pl.Series([rows[n][4] for n in order], dtype=pl.Int16),
        }
    )
    absent = [pl.lit(None).alias(name) for name in schema.HOST if name not in frame.columns]
    return frame.with_columns(absent).select(schema.HOST.keys()).cast(schema.HOST)  # type: ignore[arg-type]


def _event(event: Any) -> tuple[str, str, int]:
    if not isinstance(event, dict):
        return "", "", 0
    stage, name, time = event.get("stage"), event.get("name"), event.get("time_us")
    if not isinstance(stage, str) or not isinstance(name, str) or type(time) is not int or not 0 <= time < 1 << 53:
        return "", "", 0
    return stage, encodable(name), time * 1000


def step_rows(host: pl.DataFrame) -> pl.DataFrame:
    """`schema.STEPS`: ranges named as iterations (``ProfilerStep#3``, ``step 3``), else one name that repeats.

    Such a name must be step, iteration, train_step or batch, and its ranges not inside another of these; they are
    numbered from 0.
    """
    ranges = host.select(pl.col("name").cast(pl.String), "start", "duration", "depth").sort("start")
    numbered = [(match[1], row) for row in ranges.iter_rows() if (match := _NUMBERED.fullmatch(row[0]))]
    chosen = [(int(number[:18]), *row[:3]) for number, row in numbered]
    if not chosen:
        bare = [row for row in ranges.iter_rows() if _BARE.fullmatch(row[0])]
        shallow = min((row[3] for row in bare), default=0)
        names = {row[0] for row in bare if row[3] == shallow}
        if len(names) == 1 and len(bare) > 1:
            chosen = [(place, *row[:3]) for place, row in enumerate(row for row in bare if row[3] == shallow)]
    return pl.DataFrame(chosen, schema=schema.STEPS, orient="row")
