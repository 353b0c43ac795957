"""What of the original's rows must still be there, value by value."""

from collections import Counter
from collections.abc import Sequence

import polars as pl

from fuzz.case import Find
from tracetui.parsers import Trace


def rows(frame: pl.DataFrame, columns: Sequence[str]) -> Counter[tuple[object, ...]]:
    """How often each row stands in a frame; arrays as text, since a tuple must be hashable."""
    import polars as pl

    chosen = frame.select(columns)
    wide = [name for name, kind in chosen.schema.items() if isinstance(kind, pl.Array)]
    if wide:
        chosen = chosen.with_columns(
            pl.col(name).arr.to_list().cast(pl.List(pl.String)).list.join(",") for name in wide
        )
    return Counter(chosen.rows())


def kept(before: Counter[tuple[object, ...]], after: Counter[tuple[object, ...]], allowed: int, what: str) -> None:
    """Raises a find if more rows than `allowed` are no longer there as they were."""
    gone = before - after
    lost = sum(gone.values())
    if lost > allowed:
        some = next(iter(gone))
        raise Find(f"{what}: {lost} untouched rows are gone or changed, at most {allowed} may be: {some!r:.300}")


def counts(trace: Trace) -> None:
    """Parsed and skipped make up what the file holds."""
    source = trace.source
    skipped = sum(note.count for note in trace.notes if note.kind == "skipped")
    if source.events_parsed + skipped != source.events_total:
        raise Find(f"parsed {source.events_parsed} + skipped {skipped} != held {source.events_total}")
    if min(source.events_parsed, skipped, source.events_total) < 0:
        raise Find(f"a count is negative: {source}")
    for note in trace.notes:
        if note.count <= 0 or "\n" in note.reason:
            raise Find(f"an odd note: {note}")


def ids(trace: Trace) -> None:
    """Row ids point into the frames that they are of."""
    import polars as pl

    heights = {"host": trace.host.height, "device": trace.device.height, "steps": trace.steps.height}
    frames = ((trace.host, {"parent": "host", "forward": "host"}),
              (trace.device, {"launch": "host", "operator": "host", "module": "host", "forward_module": "host",
                              "range": "host", "step": "steps"}),
              (trace.memory, {"operator": "host"}), (trace.counters, {"device_row": "device"}))  # fmt: skip
    for frame, columns in frames:
        if frame.height:
            most = frame.select(pl.col(name).max() for name in columns).row(0, named=True)
            for name, of in columns.items():
                if most[name] is not None and most[name] >= heights[of]:
                    raise Find(f"{name} points at row {most[name]} of {heights[of]}")
    for name in ("host", "device"):
        frame = getattr(trace, name)
        least = frame["duration"].min() if frame.height else None
        if isinstance(least, int) and least < 0:
            raise Find(f"{name}: a negative duration: {least}")
