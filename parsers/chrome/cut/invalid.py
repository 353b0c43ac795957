"""Finds events whose text is no JSON, although the fast path reads all it needs of them.

What is copied must be readable for every program; the decoder mends these events first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tracetui.parsers.chrome.tokens import Tokens

    Bools = NDArray[np.bool_]

_SPACE, _MINUS, _BACKSLASH, _U = b" -\\u"


def _among(characters: bytes) -> Bools:
    table = np.zeros(256, np.bool_)
    table[list(characters)] = True
    return table


_BEGINS_VALUE = _among(b'"{[-0123456789')
_DIGIT, _HEX = _among(b"0123456789"), _among(b"0123456789abcdefABCDEF")
_ESCAPED = _among(b'"\\/bfnrtu')
_WORDS = tuple(np.uint64(int.from_bytes(word, "little")) for word in (b"true", b"fals", b"null"))
_FOUR = np.uint64(0xFFFFFFFF)


def invalid(tokens: Tokens) -> Bools:
    """Which events have a value that is none, such as a bare ``inf``, or an escape that JSON doesn't know."""
    found = np.zeros(tokens.events, np.bool_)
    found[tokens.event_at(_no_values(tokens))] = True
    if tokens.has_escapes:
        found[tokens.event_at(_bad_escapes(tokens))] = True
    return found


def _no_values(tokens: Tokens) -> NDArray[np.int64]:
    """Where a key is followed by no value; after more blanks than one, this is for the decoder to say."""
    at = tokens.values
    at = at + (tokens.buffer[at] <= _SPACE)
    at = at[~_BEGINS_VALUE[tokens.buffer[at]] | ((tokens.buffer[at] == _MINUS) & ~_DIGIT[tokens.buffer[at + 1]])]
    words: NDArray[np.uint64] = tokens.words[at] & _FOUR
    found: NDArray[np.int64] = at[~np.isin(words, _WORDS)]
    return found


def _bad_escapes(tokens: Tokens) -> NDArray[np.int64]:
    """Where a backslash is followed by what it can't escape; also some of two backslashes, which are none."""
    buffer = tokens.buffer
    at = np.flatnonzero(buffer[: tokens.size] == _BACKSLASH)
    bad = ~_ESCAPED[buffer[at + 1]]
    unicode = np.flatnonzero(buffer[at + 1] == _U)
    bad[unicode] = ~_HEX[buffer[at[unicode][:, None] + np.arange(2, 6)]].all(axis=1)
    return at[bad]
