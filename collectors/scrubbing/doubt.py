"""Tells what cannot be judged: words that look random, which may be a key or only a hash."""

from __future__ import annotations

import re

_WORD = re.compile(r"(?<![\w/+.:<%-])[A-Za-z0-9+/_-]{24,}={0,2}(?![\w.:(<%])")
_HEX = re.compile(r"[0-9a-f]{32,}|[0-9A-F]{32,}")
_MANGLED = ("_Z", "triton_", "__omp", "nvjet_", "sm")
_PARTS = re.compile(r"[a-z]{4,}|[A-Z][a-z]{2,}|[A-Z]{4,}")
_MOST_WORDS = 0.6


def looks_random(text: str) -> bool:
    """Whether a text holds a long word of letters and digits in which no words can be read."""
    return len(text) >= 24 and any(_is_random(match[0]) for match in _WORD.finditer(text))


def _is_random(word: str) -> bool:
    if _HEX.fullmatch(word):
        return any(c.isdigit() for c in word) and any(c.isalpha() for c in word)
    if word.startswith(_MANGLED) or "/" in word[:1]:
        return False
    kinds = sum((any(map(str.isdigit, word)), any(map(str.islower, word)), any(map(str.isupper, word))))
    read = sum(len(part) for part in _PARTS.findall(word))
    digits = sum(map(str.isdigit, word))
    return kinds == 3 and digits >= 3 and read < _MOST_WORDS * len(word) and word.count("_") < len(word) / 8
