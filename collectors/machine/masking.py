"""Masks what looks like a secret in command lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tracetui.collectors.machine.secret_forms import NUMBER, assigned, holds_secret, names_secret, without_forms

if TYPE_CHECKING:
    from collections.abc import Sequence

MASK = "***"
_ASSIGNED = re.compile(r"(-{0,2}[A-Za-z_][\w.-]*)(=|:)(.+)", re.DOTALL)
_SHORT = re.compile(r"-p(?=.*\d)(?=.*[a-z]).{6,}", re.DOTALL)
"""``-pPASSWORD``, as clients of databases take it; ``-print0`` and ``-pthread`` have no number, or only a short one."""


def masked(words: Sequence[str]) -> tuple[str, ...]:
    """Returns a command's words with the value of each option like ``--token`` replaced by ``***``.

    A number is not a secret: ``--max-token 512`` stays.
    """
    found = []
    follows = False
    for word in words:
        if follows and not word.startswith("-"):
            found.append(word if NUMBER.fullmatch(word) else MASK)
            follows = False
            continue
        follows = False
        parts = _ASSIGNED.fullmatch(word)
        if parts and names_secret(parts[1]) and not NUMBER.fullmatch(parts[3]):
            found.append(f"{parts[1]}{parts[2]}{MASK}")
            continue
        follows = word.startswith("-") and not parts and names_secret(word)
        found.append(f"-p{MASK}" if _SHORT.fullmatch(word) else without_secrets(word))
    return tuple(found)


def masked_line(line: str) -> str:
    """A command line in one text, without the values of such options and without what looks like a secret."""
    return " ".join(masked(line.split(" ")))


def without_secrets(text: str) -> str:
    """A text, such as one word with a whole command in it, without what looks like a secret."""
    text = without_forms(text, lambda _: MASK)
    return assigned(text, lambda name, sign, value: MASK if holds_secret(name, sign, value) else None)
