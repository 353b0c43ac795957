"""Copies a CUDA memory snapshot with the same history and segments, and stacks without private folders.

It loads only plain containers, with the reader that executes nothing, and writes them again.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from tracetui.collectors.scrubbing.keys import EMPTIED, kind_of, replaced
from tracetui.collectors.scrubbing.marks import SECRET
from tracetui.collectors.scrubbing.paths import is_absolute
from tracetui.collectors.scrubbing.redactor import Redactor
from tracetui.parsers.errors import TraceError
from tracetui.parsers.memory.pickle_scan import Refused, load_plain, no_collecting, recovered

PROTOCOL = 4
KEY = "\0key"
"""Stands for the key of a text that is a key itself."""
PATH_KEYS = frozenset({"filename", "file"})


def scrub_snapshot(path: Path, content: bytes, redactor: Redactor) -> bytes:
    """Returns the pickle of the copy; for a damaged snapshot, of what could be read.

    Raises:
        TraceError: it is not a memory snapshot, or holds more than plain containers.
    """
    with no_collecting():
        try:
            loaded = load_plain(content)
        except Refused as refused:
            raise TraceError(path, str(refused), "give what torch.cuda.memory._dump_snapshot wrote") from None
        value = recovered(loaded.pieces) if loaded.damage else loaded.value
        if value is None or not isinstance(value, (dict, list)):
            raise TraceError(path, "no memory snapshot that could be read", "record it again")
        return pickle.dumps(_Walk(redactor).cleaned(value), PROTOCOL)


class _Walk:
    """Rebuilds nested containers; an object that the original shares is shared in the copy too."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._done: dict[int, Any] = {}
        self._texts: dict[tuple[str, str], str | None] = {}

    def cleaned(self, root: Any) -> Any:
        """The value without its private parts; works without recursion, so nesting may be deep."""
        top: list[object] = [None]
        waiting: list[tuple[Any, Any, Any, str]] = [(top, 0, root, "value")]
        while waiting:
            owner, place, value, key = waiting.pop()
            owner[place] = self._one(value, key, waiting)
        return top[0]

    def _one(self, value: object, key: str, waiting: list[tuple[Any, Any, Any, str]]) -> Any:
        if isinstance(value, str):
            return self._text(value, key)
        if isinstance(value, bytes):
            text = value.decode("utf-8", "surrogateescape")
            return value if self._text(text, key) == text else b""
        if isinstance(value, (dict, list)):
            known = self._done.get(id(value))
            if known is not None:
                return known
            if isinstance(value, dict):
                if kind_of(key) in EMPTIED or (key.isupper() and "_" in key):
                    self._redactor.count("environment", len(value))
                    return {}
                keys = {k: self._key(k) for k in value}
                copy: Any = dict.fromkeys(keys.values())
                waiting.extend((copy, keys[k], item, k if isinstance(k, str) else key) for k, item in value.items())
            else:
                copy = [None] * len(value)
                waiting.extend((copy, n, item, key) for n, item in enumerate(value))
            self._done[id(value)] = copy
            return copy
        if isinstance(value, (tuple, set, frozenset)):
            # what a tuple holds is known before it is; a dictionary in it is filled later
            return type(value)(self._one(item, key, waiting) for item in value)
        return value

    def _key(self, key: Any) -> Any:
        """A key of a dictionary, which may be a text, or several in a tuple."""
        if isinstance(key, tuple):
            return tuple(map(self._key, key))
        if isinstance(key, bytes):  # two keys that are replaced must not become one
            text = key.decode("utf-8", "surrogateescape")
            return key if self._text(text, KEY) == text else self._redactor.mark(SECRET, text).encode()
        return self._text(key, KEY) if isinstance(key, str) else key

    def _text(self, text: str, key: str) -> str | None:
        if (key, text) not in self._texts:
            self._texts[key, text] = self._judged(text, key)
        return self._texts[key, text]

    def _judged(self, text: str, key: str) -> str | None:
        if key == KEY:
            return self._redactor.value(text)
        if key in PATH_KEYS:
            return self._redactor.path(text) if is_absolute(text) else self._redactor.value(text)
        if key.isupper() and "_" in key and text:  # the settings include the variable that they came from
            self._redactor.count("environment")
            return ""
        return replaced(self._redactor, kind_of(key), text)
