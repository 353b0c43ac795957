"""Masks what looks like a secret in command lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MASK = "***"
_NAMES = (
    r"(?:token|secret|passw(?:or)?d|passphrase|pass|pwd|credentials?|auth(?:orization)?|bearer|cookie|api[-_]?key|"
    r"(?:access|private|secret|signing|encryption|license|wandb|account|storage)[-_]?key)s?"
)
_OPTION = re.compile(rf"(?:^|[-_.]){_NAMES}(?:$|[-_.](?!file|path|ids?$|len|size|count|num))", re.IGNORECASE)
_ASSIGNED = re.compile(r"(-{0,2}[A-Za-z_][\w.-]*)(=|:)(.+)", re.DOTALL)
KNOWN_SECRETS = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-[\w-]{16,}|"
    r"xox[abpr]-[\w-]{10,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)"
)
URL_LOGIN = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)[^/@\s]+@", re.IGNORECASE)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def names_secret(name: str) -> bool:
    """Whether a key or option of this name may hold a secret: ``hf_token``, ``api-key``, also ``max_tokens``."""
    return bool(_OPTION.search(name.lstrip("-")))


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
        assigned = _ASSIGNED.fullmatch(word)
        if assigned and names_secret(assigned[1]) and not NUMBER.fullmatch(assigned[3]):
            found.append(f"{assigned[1]}{assigned[2]}{MASK}")
            continue
        follows = word.startswith("-") and not assigned and names_secret(word)
        found.append(KNOWN_SECRETS.sub(MASK, URL_LOGIN.sub(rf"\g<scheme>{MASK}@", word)))
    return tuple(found)
