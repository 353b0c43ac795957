"""Splits a C++ name into tokens and bracketed groups.

Each group is reduced to the normal form of its parts when it closes. This takes one pass and no recursion, so that any
text of any depth is read in linear time.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Callable

_DEEPEST = 200
"""The most nested groups; no name is so deep, and deeper text is treated as plain text."""
ANONYMOUS = "<unnamed>"
"""The normal form of an anonymous namespace, however a tool writes it."""
_TOKEN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<anonymous>\(anonymous\ (?:namespace|class)\)|<unnamed>|\{anonymous\}|`anonymous[- ]namespace')
    | (?P<operator>operator\s*(?:\(\s*\)|\[\s*\]|<=>|->\*?|<<=?|>>=?|&&|\|\||\+\+|--|[-+*/%^&|=!<>]=?|[~,]))
    | (?P<closure>'(?:lambda|unnamed)\d{0,6}')
    | (?P<letter>'(?:\\.|[^'\\])')
    | (?P<word>auto:\d+|(?:[^\W\d]|\$)[\w$]*(?:\.\w[\w$]*)*)
    | (?P<number>\d(?:\w|\.(?!\.)|(?<=[eEpP])[+-](?=\d))*)
    | (?P<mark>::|->|&&|\.\.\.|.)
    """,
    re.VERBOSE | re.DOTALL,
)
"""`auto:1` is how libiberty writes the type of a generic lambda's parameter."""
_OPENS = frozenset("(<[{")
_NEVER_TEMPLATES = frozenset({"const", "volatile", "true", "false", "nullptr"})
CLOSES = {")": "(", ">": "<", "]": "[", "}": "{"}


class Group(Struct, eq=False):
    """A bracketed group."""

    kind: str
    """The bracket that opens the group."""
    items: list[str | Group] = field(default_factory=list)
    parts: tuple[str, ...] = ()
    """The parts between its commas, in normal form, once the group is closed."""


def read(text: str, normal: Callable[[list[str | Group]], str]) -> tuple[list[str | Group], bool]:
    """The tokens of a text with its bracketed groups reduced, and whether a group was left open.

    Args:
        text: a name, or any text.
        normal: returns the normal form of the items between two commas of a group.
    """
    outer = Group("")
    open_groups = [outer]
    kinds = dict.fromkeys(_OPENS, 0)

    def close() -> None:
        group = open_groups.pop()
        kinds[group.kind] -= 1
        group.parts = tuple(filter(None, (normal(part) for part in _split(group.items))))

    for match in _TOKEN.finditer(text):
        token, kind = match.group(), match.lastgroup
        group = open_groups[-1]
        if kind == "space":
            continue
        if kind == "operator":
            group.items.append("".join(token.split()))
        elif kind == "mark" and token in _OPENS and (token != "<" or _takes_arguments(group.items)):
            if len(open_groups) > _DEEPEST:
                return [], True
            inner = Group(token)
            group.items.append(inner)
            open_groups.append(inner)
            kinds[token] += 1
        elif kind == "mark" and token in CLOSES and (group.kind == CLOSES[token] or token != ">"):
            if kinds[CLOSES[token]]:  # else it closes nothing
                while open_groups[-1].kind != CLOSES[token]:
                    close()
                close()
        else:
            group.items.append(ANONYMOUS if kind == "anonymous" else token)
    cut = len(open_groups) > 1
    while len(open_groups) > 1:
        close()
    return outer.items, cut


def _takes_arguments(items: list[str | Group]) -> bool:
    """Whether a ``<`` after these items opens a list of template arguments; else it means "less than"."""
    if not items:
        return False
    last = items[-1]
    if isinstance(last, Group):
        return last.kind == "["  # a tag, f[abi:cxx11]<int>, or a lambda
    return (last[0].isalpha() or last[0] in "_$'") and last not in _NEVER_TEMPLATES


def _split(items: list[str | Group]) -> list[list[str | Group]]:
    parts: list[list[str | Group]] = [[]]
    for item in items:
        if item == ",":
            parts.append([])
        else:
            parts[-1].append(item)
    return parts
