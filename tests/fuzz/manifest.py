"""run.json, beside the recording that it describes."""

from __future__ import annotations

import copy
import gzip
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from fuzz import road, same, values
from fuzz.case import NOTED, READ, REFUSED, Find, Plan
from fuzz.spans import BYTEWISE, Spans

Path_ = tuple[Any, ...]


@dataclass
class ManifestDoc:
    """The document, and the places in it that were changed."""

    base: ManifestBase
    value: Any
    touched: set[Path_] = field(default_factory=set)
    torn: bool = False
    before: bytes = b""
    data: bytes | None = None

    def content(self) -> bytes:
        if self.data is None:
            self.data = self.before + values.written(self.value).encode("utf-8", "surrogatepass")
        return self.data

    def write(self, folder: Path) -> Path:
        run = folder / "run"
        run.mkdir(exist_ok=True)
        shutil.copy(self.base.recording, run / self.base.recording.name)
        (run / "run.json").write_bytes(self.content())
        return run


@dataclass
class ManifestBase:
    """A run.json, the recording beside it, and what the program reads in it."""

    value: Any
    recording: Path
    leaves: dict[Path_, Any] = field(default_factory=dict)
    host: int = 0


def _places(value: Any, above: Path_ = ()) -> list[Path_]:
    """The paths to everything in a document."""
    found = [above] if above else []
    if isinstance(value, dict):
        for key, item in value.items():
            found += _places(item, (*above, key))
    elif isinstance(value, list):
        for at, item in enumerate(value[:6]):
            found += _places(item, (*above, at))
    return found


def _holder(doc: ManifestDoc, dice: Random) -> tuple[Any, Any]:
    """A container and a key in it, to change; shallow places as often as deep ones."""
    places = _places(doc.value)
    depth = dice.choice(sorted({len(place) for place in places}))
    place = dice.choice([p for p in places if len(p) == depth])
    at = doc.value
    for key in place[:-1]:
        at = at[key]
    doc.touched.add(tuple(part for part in place if not isinstance(part, int))[:2])
    return at, place[-1]


def odd_value(doc: ManifestDoc, dice: Random) -> None:
    for _ in range(dice.choice((1, 3, 10))):
        if isinstance(doc.value, (dict, list)) and doc.value:
            holder, key = _holder(doc, dice)
            holder[key] = values.anything(dice)


def missing(doc: ManifestDoc, dice: Random) -> None:
    for _ in range(dice.choice((1, 3, 10))):
        if isinstance(doc.value, (dict, list)) and doc.value:
            holder, key = _holder(doc, dice)
            del holder[key]


def new_key(doc: ManifestDoc, dice: Random) -> None:
    if isinstance(doc.value, dict):
        doc.value[dice.choice(("later", "", "noted", "\x1b[0m", "samples"))] = values.anything(dice)


def swapped(doc: ManifestDoc, dice: Random) -> None:
    """Two values of the document in each other's place."""
    if isinstance(doc.value, dict) and len(doc.value) > 1:
        (a, x), (b, y) = _holder(doc, dice), _holder(doc, dice)
        try:
            a[x], b[y] = copy.deepcopy(b[y]), copy.deepcopy(a[x])
        except (KeyError, IndexError):
            doc.touched.update((key,) for key in doc.value)


def twice(doc: ManifestDoc, dice: Random) -> None:
    """A list twice as long, or a thousand times."""
    if isinstance(doc.value, dict) and doc.value:
        holder, key = _holder(doc, dice)
        if isinstance(holder[key], list):
            holder[key] = holder[key][:50] * dice.choice((2, 40))


def other_schema(doc: ManifestDoc, dice: Random) -> None:
    if isinstance(doc.value, dict):
        doc.value["schema"] = dice.choice(("tracetui.run/2", "tracetui.run/", "other", "", None, 1, "tracetui.run/1\n"))
        doc.touched.update((key,) for key in doc.value)


def with_mark(doc: ManifestDoc, dice: Random) -> None:
    doc.before = dice.choice((b"\xef\xbb\xbf", b" \n\t", b"// x\n"))
    doc.torn |= doc.before.startswith(b"/")


def _bytewise(change: Any) -> Any:
    def changed(doc: ManifestDoc, dice: Random) -> None:
        spans = Spans(bytearray(doc.content()), [])
        change(spans, dice)
        doc.data, doc.torn = bytes(spans.data), True

    return changed


SHAPED = {
    "odd value": odd_value, "key missing": missing, "new key": new_key, "swapped": swapped, "longer list": twice,
    "other schema": other_schema, "byte order mark": with_mark,
}  # fmt: skip
TORN = {name: _bytewise(change) for name, change in BYTEWISE.items()}


class Manifest:
    """What `tracetui profile` says of a run."""

    name = "run.json"
    shaped = SHAPED
    bytewise = TORN

    def __init__(self) -> None:
        self.bases: list[ManifestBase] = []

    def prepare(self, folder: Path) -> None:
        from sample_runs import SAMPLES, recorded

        from tracetui.parsers.runs import manifest

        light = recorded("mlp_profiled/light.pt.trace.json.gz")
        kept = folder.parent / "light.pt.trace.json.gz"
        document = json.loads(gzip.decompress(light.read_bytes()))
        document["traceEvents"] = document["traceEvents"][:120]
        kept.write_bytes(gzip.compress(json.dumps(document).encode()))
        for path in (recorded("mlp_profiled/run.json"), SAMPLES / "vim_tiny_fp16" / "run.json"):
            value = _short(json.loads(path.read_text()))
            base = ManifestBase(value, kept)
            known = manifest.load(ManifestDoc(base, value).write(folder))
            base.leaves = leaves(known)
            self.bases.append(base)

    def base(self, dice: Random) -> ManifestDoc:
        base = dice.choice(self.bases)
        return ManifestDoc(base, copy.deepcopy(base.value))

    def examine(self, doc: ManifestDoc, plan: Plan, folder: Path) -> str:
        from tracetui.collectors.scrub import scrub
        from tracetui.collectors.scrubbing.redactor import Redactor
        from tracetui.parsers import TraceError, open_path
        from tracetui.parsers.runs import manifest

        path = doc.write(folder)
        known = manifest.load(path)
        doc.torn |= not _is_json(doc.content())
        try:
            run = open_path(path, cache=False)
        except TraceError as error:
            raise Find(f"a damaged run.json hides the recording beside it: {error}") from error
        same.counts(run.main)
        if known is None:
            if (
                not doc.torn
                and isinstance(doc.value, dict)
                and str(doc.value.get("schema")).startswith("tracetui.run/")
            ):
                raise Find("run.json was not taken for one")
            return REFUSED
        for note in known.notes:
            road.one_line(f"{note.reason} {note.example}")
        if not doc.torn:
            _compare(doc, leaves(known))
        road.follow(run, plan, folder)
        if plan.dice("scrub").random() < 0.1:
            try:
                scrub([path / "run.json"], folder / "copy.json", redactor=Redactor(("ada",)))
            except TraceError as error:
                road.one_line(str(error))
        return NOTED if known.notes else READ


def _short(value: Any) -> Any:
    """The document with long lists cut: samples are all alike."""
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_short(item) for item in value[:12]]
    return value


def _is_json(content: bytes) -> bool:
    """Whether it is JSON at all; tokens that are none make the whole unreadable."""
    try:
        json.loads(content.decode("utf-8", "replace").removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return False
    return True


def leaves(manifest: Any) -> dict[Path_, Any]:
    """What was read, by the first two keys of its place."""
    from msgspec import to_builtins

    found: dict[Path_, Any] = {}
    for key in manifest.__struct_fields__:
        if key == "noted":
            continue
        value = to_builtins(
            getattr(manifest, key), enc_hook=lambda raw: bytes(memoryview(raw)).decode("utf-8", "replace").split()
        )
        if isinstance(value, dict):
            found |= {(key, inner): item for inner, item in value.items()}
        else:
            found[key,] = value
    return found


def _compare(doc: ManifestDoc, now: dict[Path_, Any]) -> None:
    """What stands at untouched places is read as before."""
    for place, value in doc.base.leaves.items():
        untouched = place not in doc.touched and place[:1] not in doc.touched and not (
            len(place) == 1 and any(touched[:1] == place for touched in doc.touched))  # fmt: skip
        if untouched and now.get(place) != value:
            raise Find(f"{'.'.join(place)} was {value!r:.200}, is {now.get(place)!r:.200}")
