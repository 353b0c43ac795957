"""Writes JSON in the many ways that it allows."""

import json
import random
from typing import Any


class Writer:
    """Writes JSON with its choices drawn from a seed; the values stay."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.escapes, self.floats, self.exponents, self.moves, self.shuffles, self.blanks, self.twice = (
            self._random.random() < 0.6 for _ in range(7)
        )
        self.rare = self._random.choice((0.003, 0.3))
        """How often a string or number is spelled otherwise: in few events, or in most."""

    def whole(self, document: dict[str, Any]) -> str:
        document = dict(document)
        keys = [key for key in document if key != "traceEvents"]
        before = [key for key in keys if not self.moves or self._random.random() < 0.5]
        events = list(document["traceEvents"])
        if self.moves:
            metadata = [event for event in events if event.get("ph") == "M"]
            others = [event for event in events if event.get("ph") != "M"]
            events = self._random.choice([metadata + others, others + metadata])
        parts = [(key, self.value(document[key])) for key in before]
        if self.twice:  # what stands first does not count
            parts = [*((key, "[1]") for key in before), *parts]
            decoys = [{**event, "name": "no event of this trace"} for event in document["traceEvents"]]
            parts += [("traceEvents", self._list([self.value(event) for event in decoys])), ("other", "[]")]
        if self.moves:
            parts.append(("other", self.value({"traceEvents": [{"ph": "X", "name": "no event of this trace"}]})))
        parts.append(("traceEvents", self._list([self.value(event) for event in events])))
        parts += [(key, self.value(document[key])) for key in keys if key not in before]
        return "{" + f",{self._blank()}".join(f"{self._text(key)}:{value}" for key, value in parts) + "}"

    def value(self, value: Any) -> str:
        """Any value but a whole trace."""
        if isinstance(value, dict):
            items = list(value.items())
            if self.shuffles:
                self._random.shuffle(items)
            if self.twice and items and self._random.random() < 0.1:
                # a phase that stands twice is rare: it takes all events around it off the fast path
                often = "args" in value and self._random.random() < 0.999
                items.insert(0, ("args", {"bytes": 99}) if often else (self._random.choice(items)[0], 99))
            inner = [f"{self._text(key)}:{self._blank()}{self.value(one)}" for key, one in items]
            return "{" + f",{self._blank()}".join(inner) + "}"
        if isinstance(value, list):
            return self._list(list(map(self.value, value)))
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**50 and self._rarely():
            if self.floats:
                return f"{value}.0"
            if self.exponents and value % 10 == 0 and value:
                return f"{value // 10}e1"
        return json.dumps(value)

    def _list(self, values: list[str]) -> str:
        return "[" + f",{self._blank()}".join(values) + "]"

    def _text(self, text: str) -> str:
        plain = json.dumps(text, ensure_ascii=self._random.random() < 0.5)
        if not self.escapes or not text or not self._rarely():
            return plain
        at = self._random.randrange(len(text))
        if not text.isascii():
            return plain
        around = (json.dumps(part)[1:-1] for part in (text[:at], text[at + 1 :]))
        return '"' + f"\\u{ord(text[at]):04x}".join(around) + '"'

    def _rarely(self) -> bool:
        return self._random.random() < self.rare

    def _blank(self) -> str:
        return self._random.choice(("", " ", "\n  ", "\t")) if self.blanks and self._random.random() < 0.2 else ""
