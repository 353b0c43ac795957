"""Entries of the cache of parsed traces: whatever stands there, a user sees what the file says."""

import contextlib
import json
import os
import shutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from fuzz import road, values
from fuzz.case import READ, Find, Plan
from fuzz.spans import BYTEWISE, Spans
from tracetui.parsers import Trace

Change = Callable[[Any, Random], None]
FRAMES = ("steps", "host", "device", "memory", "counters")


@dataclass
class CachedDoc:
    """Changes of an entry."""

    bases: list[Any]
    number: int
    changes: list[tuple[Change, int, bool]] = field(default_factory=list)
    """Each with its seed, and whether checksums are made anew behind it, as a writer with another mind would."""

    def write(self, folder: Path) -> Path:
        recording: Path = self.bases[self.number][0]
        entry: Path = self.bases[self.number][1]
        cache = folder / "cache"
        shutil.copytree(entry, cache / entry.name)
        os.environ["TRACETUI_CACHE_DIR"] = str(cache)
        # a seal fits all of a frame, also what an earlier step changed that no schema forbids: those come last
        for change, seed, sealed in sorted(self.changes, key=lambda each: not each[2]):
            # a later step may meet what an earlier one took away
            with contextlib.suppress(
                OSError, KeyError, ValueError, TypeError, AttributeError, RecursionError, *_of_polars()
            ):
                change(Entry(cache / entry.name, self.bases[1 - self.number][1], sealed), Random(seed))
        return recording


@dataclass
class Entry:
    """A folder of the cache, and another trace's."""

    folder: Path
    other: Path
    sealed: bool

    def frame(self, name: str) -> Path:
        return self.folder / f"{name}.arrow"

    def context(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Changes the context, with a checksum that fits where the entry is sealed."""
        file = self.folder / "context.json"
        checked = json.loads(file.read_text())
        context = json.loads(checked["context"])
        change(context)
        checked["context"] = values.written(context)
        if self.sealed:
            checked["check"] = zlib.crc32(checked["context"].encode())
        file.write_text(json.dumps(checked))

    def seal(self, *names: str) -> None:
        """Makes the checksums of these frames fit."""
        if self.sealed:
            from tracetui.parsers.runs import cache

            self.context(lambda context: context["frames"].update({n: cache._check(self.frame(n)) for n in names}))


def _of_polars() -> tuple[type[Exception], ...]:
    import polars as pl

    return (pl.exceptions.PolarsError,)


def _frame(change: Callable[[Any, Random], Any]) -> Change:
    """A change of one frame's columns."""

    def changed(entry: Entry, dice: Random) -> None:
        import polars as pl

        names = [name for name in FRAMES if pl.read_ipc_schema(entry.frame(name))]
        name = dice.choice([n for n in names if pl.read_ipc(entry.frame(n)).height] or names)
        frame = pl.read_ipc(entry.frame(name))
        change(frame, dice).write_ipc(entry.frame(name))
        entry.seal(name)

    return changed


def _ids_out(frame: Any, dice: Random) -> Any:
    import polars as pl

    columns = [name for name, kind in frame.schema.items() if kind == pl.UInt32]
    if not columns:
        return frame
    name = dice.choice(columns)
    column = frame[name].cast(pl.Int64)
    return frame.with_columns(
        (column.fill_null(0) * 0 + dice.choice((frame.height + 10**6, 2**32 - 1))).cast(frame.schema[name]).alias(name)
    )


def _other_type(frame: Any, dice: Random) -> Any:
    import polars as pl

    name = dice.choice(frame.columns)
    others = [kind for kind in (pl.String, pl.Float64, pl.Boolean, pl.Int8) if kind != frame.schema[name]]
    return frame.with_columns(pl.lit(None, dtype=dice.choice(others)).alias(name))


def _odd_context(entry: Entry, dice: Random) -> None:
    def change(context: dict[str, Any]) -> None:
        part = (
            context[key]
            if isinstance(context[(key := dice.choice(list(context)))], dict) and dice.random() < 0.7
            else context
        )
        part[dice.choice(list(part) or ["x"])] = values.anything(dice)

    entry.context(change)


def _other_key(entry: Entry, dice: Random) -> None:
    file = entry.folder / "context.json"
    checked = json.loads(file.read_text())
    checked[dice.choice(list(checked))] = values.plain(values.anything(dice))
    file.write_text(json.dumps(checked))


def _other_trace(entry: Entry, dice: Random) -> None:
    """A frame, the context, or all of another trace's entry."""
    files = dice.choice((["host.arrow"], ["device.arrow"], ["context.json"], [f.name for f in entry.other.iterdir()]))
    for name in files:
        shutil.copy(entry.other / name, entry.folder / name)


def _gone(entry: Entry, dice: Random) -> None:
    dice.choice(sorted(entry.folder.iterdir())).unlink()


def _strange(entry: Entry, dice: Random) -> None:
    """A folder, a link, an empty file or one too many in an entry."""
    file = dice.choice(sorted(entry.folder.iterdir()))
    kind = dice.randrange(4)
    if kind == 3:
        (entry.folder / "mine.txt").write_text("the user's")
        return
    file.unlink()
    if kind == 0:
        file.mkdir()
    elif kind == 1:
        file.symlink_to("/dev/null")
    else:
        file.write_bytes(b"")


def _swapped(entry: Entry, dice: Random) -> None:
    a, b = dice.sample(FRAMES, 2)
    one, two = entry.frame(a).read_bytes(), entry.frame(b).read_bytes()
    entry.frame(a).write_bytes(two)
    entry.frame(b).write_bytes(one)
    entry.seal(a, b)


def _bytes(change: Any) -> Change:
    def changed(entry: Entry, dice: Random) -> None:
        file = dice.choice(sorted(entry.folder.iterdir()))
        spans = Spans(bytearray(file.read_bytes()), [])
        change(spans, dice)
        file.write_bytes(bytes(spans.data))

    return changed


def _later(change: Change, sealed: float = 0.5) -> Any:
    def changed(doc: CachedDoc, dice: Random) -> None:
        doc.changes.append((change, dice.randrange(1 << 32), dice.random() < sealed))

    return changed


def _half(frame: Any, dice: Random) -> Any:
    return frame.head(frame.height // 2)


def _less(frame: Any, dice: Random) -> Any:
    return frame.drop(dice.choice(frame.columns))


def _more(frame: Any, dice: Random) -> Any:
    return frame.with_columns(frame[frame.columns[0]].alias("x"))


def _reversed(frame: Any, dice: Random) -> Any:
    return frame.reverse()


SHAPED = {
    "row ids out of range": _later(_frame(_ids_out)),
    "column gone": _later(_frame(_less)),
    "other type": _later(_frame(_other_type)),
    "rows removed": _later(_frame(_half), 0),
    "other order": _later(_frame(_reversed), 0),
    "odd context": _later(_odd_context, 0),
    "odd checks": _later(_other_key, 0),
    "another trace's": _later(_other_trace, 0),
    "file gone": _later(_gone),
    "strange file": _later(_strange),
    "frames swapped": _later(_swapped),
    "more columns": _later(_frame(_more)),
}
TORN = {name: _later(_bytes(change), 0) for name, change in BYTEWISE.items()}


class Cached:
    """Entries of the cache."""

    name = "cache"
    shaped = SHAPED
    bytewise = TORN

    def __init__(self) -> None:
        self.bases: list[tuple[Path, Path, Trace]] = []

    def prepare(self, folder: Path) -> None:
        from fuzz.chrome import Chrome
        from tracetui.parsers import open_path
        from tracetui.parsers.runs import cache, entries

        cache.MIN_SOURCE_BYTES = 0
        chrome = Chrome()
        chrome.files = (chrome.files[0], chrome.files[2])
        chrome.prepare(folder)
        for number, base in enumerate(chrome.bases):
            path = folder.parent / f"cached-{number}.pt.trace.json"
            path.write_bytes(base.doc().write(folder).read_bytes())
            os.environ["TRACETUI_CACHE_DIR"] = str(folder.parent / "whole")
            fresh = open_path(path, cache=True).main
            self.bases.append((path, entries.folder() / cache.key_of(path), fresh))

    def base(self, dice: Random) -> CachedDoc:
        return CachedDoc(self.bases, dice.randrange(len(self.bases)))

    def examine(self, doc: CachedDoc, plan: Plan, folder: Path) -> str:
        from tracetui.parsers import open_path
        from tracetui.parsers.runs import entries

        recording = doc.write(folder)
        fresh = self.bases[doc.number][2]
        had = any(folder.rglob("mine.txt"))
        for again in ("at first", "again"):
            trace = open_path(recording, cache=True).main
            road.equal(trace, fresh, f"the cache's trace ({again}) and the file's")
            if trace.info != fresh.info or trace.notes != fresh.notes or trace.marked_by != fresh.marked_by:
                raise Find(f"the cache's trace has another context: {trace.info!r:.300}")
        entries.clear()
        if had and not any(folder.rglob("mine.txt")):
            raise Find("the cache removed a file that is not its own")
        return READ
