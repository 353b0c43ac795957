"""A Chrome trace in the making: events and what stands around them."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz import values
from fuzz.spans import Spans
from fuzz.values import Pairs, Raw

LAYOUTS = {
    "kineto": ('{\n  "schemaVersion": 1,\n', '  "traceEvents": [\n  ', ",\n  ", "\n  ]\n}\n"),
    "lines": ('{\n  "schemaVersion": 1,\n', '  "traceEvents": [\n  ', ",\n  ", "\n  ]\n}\n"),
    "minified": ("{", '"traceEvents":[', ",", "]}"),
    "indented": ("{\n ", '"traceEvents": [\n  ', ",\n  ", "\n ]\n}"),
    "crlf": ("{\r\n", '"traceEvents": [\r\n', ",\r\n", "\r\n]\r\n}\r\n"),
    "list": (None, "[\n", ",\n", "\n]"),
    "open list": (None, "[\n", ",\n", ",\n"),
    "blanks": ("{ \n\n", '"traceEvents" : [ \n\t ', " \t,\n\n ", " \n ] }   \n\n"),
}
"""What stands before the header and the events, between two of them, and behind them. In "lines", as Kineto writes
them, the braces of an event stand on lines of their own."""


def lined(event: bytes) -> bytes:
    """An object's text with its braces on lines of their own."""
    return b"{\n    " + event[1:-1] + b"\n  }"


@dataclass
class ChromeDoc:
    """Events and what stands around them."""

    base: ChromeBase
    events: list[Any]
    header: dict[str, Any]
    origin: list[int | None]
    """Which of the base's events each one is; null for one that is new."""
    touched: set[int] = field(default_factory=set)
    """Places of events that were changed."""
    context: bool = False
    """Whether something was changed that says what all events are."""
    may_refuse: bool = False
    layout: str = "kineto"
    before: bytes = b""
    packed: bool = False
    spans: Spans | None = None
    torn: bool = False

    def touch(self, place: int) -> None:
        self.touched.add(place)
        event = self.events[place]
        if (isinstance(event, dict) and event.get("ph") in ("M", "s", "f", "B", "E")) or not isinstance(event, dict):
            self.context |= isinstance(event, dict) and event.get("ph") == "M"

    def spread(self) -> Spans:
        """The file's bytes, from here on changed only as bytes."""
        if self.spans is None:
            begin, start, between, end = LAYOUTS[self.layout]
            out = bytearray(self.before)
            if begin is not None:
                out += begin.encode()
                for key, value in self.header.items():
                    out += f"{json.dumps(key)}: {values.written(value)},\n".encode("utf-8", "surrogatepass")
            out += start.encode()
            places: list[tuple[int, int] | None] = []
            for place, event in enumerate(self.events):
                if place:
                    out += between.encode()
                text = self.base.text(event, self.layout)
                places.append((len(out), len(out) + len(text)))
                out += text
            out += end.encode()
            self.spans = Spans(out, places)
        return self.spans

    def write(self, folder: Path) -> Path:
        path = folder / "in.pt.trace.json"
        content = bytes(self.spread().data)
        path.write_bytes(gzip.compress(content, 1) if self.packed else content)
        return path


@dataclass
class ChromeBase:
    """Events of a recording, and what the program reads in them."""

    events: list[dict[str, Any]]
    header: dict[str, Any]
    texts: dict[int, dict[str, bytes]] = field(default_factory=dict)
    host: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    """Rows by the number of the event."""
    device: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    memory: Counter[tuple[object, ...]] = field(default_factory=Counter)
    counters: Counter[tuple[object, ...]] = field(default_factory=Counter)
    kind: str = "chrome"

    def text(self, event: Any, layout: str) -> bytes:
        """An event as JSON; those of the base as they always are."""
        known = self.texts.get(id(event))
        if known is not None:
            return known.get(layout, known["spaced"])
        text = self._written(event)
        return lined(text) if layout == "lines" and isinstance(event, (dict, Pairs)) and len(text) > 2 else text

    @staticmethod
    def _written(event: Any) -> bytes:
        if isinstance(event, (dict, Pairs)):
            return values.written(event).encode("utf-8", "surrogatepass")
        return (str(event) if isinstance(event, Raw) else values.written(event)).encode("utf-8", "surrogatepass")

    def doc(self) -> ChromeDoc:
        return ChromeDoc(self, list(self.events), dict(self.header), list(range(len(self.events))))
