"""Finds texts in base64 in a text, and what they say."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SHORTEST = 12
_WORD = re.compile(rf"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{{{SHORTEST},}}={{0,2}}(?![A-Za-z0-9+/_=-])")

_LOGIN = re.compile(r"[\w.@+-]+:\S{4,}")
"""A user and a password, as in a header of HTTP."""


def without_encoded(text: str, is_private: Callable[[str], bool], mark: Callable[[str], str]) -> str:
    """Replaces the words of a text that are private texts in base64.

    Args:
        text: any text.
        is_private: whether what a word says, decoded, would be changed.
        mark: what stands in the word's place.
    """

    def one(match: re.Match[str]) -> str:
        said = decoded(match[0])
        if said is not None and (_LOGIN.fullmatch(said) or is_private(said)):
            return mark(match[0])
        return match[0]

    return _WORD.sub(one, text)


def decoded(word: str) -> str | None:
    """What a word says in base64, in UTF-8 or as PowerShell writes it in UTF-16; None if that is no text.

    Names of programs decode to bytes that are no text: of 12 letters one in 100,000 does.
    """
    plain = word.rstrip("=").replace("-", "+").replace("_", "/")
    if len(plain) % 4 == 1:
        return None
    try:
        content = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except binascii.Error:
        return None
    encoding = "utf-16-le" if len(content) % 2 == 0 and not any(content[1::2]) else "utf-8"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        return None
    return text if all(c.isprintable() or c.isspace() for c in text) else None
