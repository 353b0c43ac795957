"""Commands and their keys: reads keys as users write them, and gives commands the user's own."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from textual.keys import KEY_NAME_REPLACEMENTS, Keys

UNBOUND = "no key"
"""The key of a command without keys: no terminal sends it."""


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that a user can do with a key."""

    id: str
    """Stable name, as ``sort.next``."""
    keys: str
    """Textual key names, separated by commas; empty where only the palette offers it."""
    shown: str
    """The keys as the user reads them."""
    title: str
    """What it does, as the help page and the palette say it."""
    group: str
    """Heading in the help page."""
    action: str
    """Textual action."""
    where: str
    """Where it is bound: in the app, a kind of view, or a widget (``table``, ``tree``, ``lanes``)."""
    tabs: frozenset[str] = frozenset()
    """The tabs it works in; empty means all."""
    footer: str = ""
    """Its short label in the footer; a command without a label is not shown there."""
    rank: int = 50
    """Position in the footer; labels that do not fit are dropped from the end."""
    line: str = ""
    """The label of the line that it opens, if it opens one: what is typed next belongs to that line."""
    palette: bool = True
    """Whether the palette offers it."""


NAMES = {
    "esc": "escape", "return": "enter", "del": "delete", "ins": "insert", "pgup": "pageup", "pgdn": "pagedown",
    "pagedn": "pagedown", "backtab": "shift+tab", "bksp": "backspace",
}  # fmt: skip
SHOWN = {
    "escape": "Esc", "pagedown": "PgDn", "pageup": "PgUp", "up": "↑", "down": "↓", "left": "←", "right": "→",
    "delete": "Del", "insert": "Ins", "backspace": "Bksp",
}  # fmt: skip
SAME = {"ctrl+i": "tab", "ctrl+m": "enter", "ctrl+j": "enter", "ctrl+h": "backspace", "ctrl+@": "ctrl+space"}
"""Keys that a terminal can't tell apart from other keys."""
_KNOWN = frozenset(key.value for key in Keys if not key.value.startswith("<")) | {
    f"shift+f{number}" for number in range(1, 13)
}


class WrongKeyError(ValueError):
    """A key that can't be used; the message says why."""


def key_name(written: str) -> str:
    """Returns Textual's name of a key written as ``f``, ``/``, ``ctrl+x``, ``F5``, ``Esc`` or ``full_stop``.

    Raises:
        WrongKeyError: there is no such key, or a terminal sends another one in its place.
    """
    text = written if len(written) == 1 else written.strip()
    if len(text) == 1:
        return _character(text)
    *modifiers, last = text.lower().split("+") if not text.endswith("+") else (*text[:-2].lower().split("+"), "plus")
    if len(last) == 1 and not last.isalnum():
        last = _character(last)
    if modifiers == ["shift"] and len(last) == 1 and last.isalpha():
        raise WrongKeyError(f"{written} is written as {last.upper()}")
    last = NAMES.get(last, last)
    name = "+".join([*sorted(modifiers), last])
    if name in SAME:
        raise WrongKeyError(f"a terminal sends {written} as {SAME[name]}")
    if any(modifier not in ("ctrl", "shift", "alt") for modifier in modifiers):
        raise WrongKeyError(f"{written!r} is no key; there are characters, Esc, Tab, F5, ctrl+x, PgDn")
    if name in _KNOWN or name in _SIGNS or (modifiers == ["alt"] and len(last) == 1):
        return name
    raise WrongKeyError(f"{written!r} is no key; there are characters, Esc, Tab, F5, ctrl+x, PgDn")


def _character(character: str) -> str:
    if character == " ":
        return "space"
    if character.isalnum() or (not character.isascii() and character.isprintable()):
        return character
    if not character.isprintable():
        raise WrongKeyError(f"{character!r} is no key")
    name = unicodedata.name(character).lower().replace("-", "_").replace(" ", "_")
    return KEY_NAME_REPLACEMENTS.get(name, name)


_SIGNS = {_character(sign): sign for sign in string.punctuation}
"""Maps Textual's long names of characters to the characters."""


def shown_key(name: str) -> str:
    """Returns a key as it is printed: ``/``, ``Ctrl+X``, ``Esc``."""
    *modifiers, last = name.split("+")
    if last in SHOWN or last in _SIGNS:
        text = SHOWN.get(last) or _SIGNS[last]
    else:
        text = last if len(last) == 1 and not modifiers else last.capitalize()
    return "+".join([*(modifier.capitalize() for modifier in modifiers), text])


def shown_keys(keys: Iterable[str]) -> str:
    """Returns several keys as they are printed, separated by spaces."""
    return " ".join(shown_key(key) for key in keys)


@dataclass(frozen=True)
class Remapped:
    """The registry with the user's own keys."""

    commands: tuple[Command, ...]
    changed: Mapping[str, str]
    """For Textual: keys by command id, for commands whose keys are not the default."""
    problems: tuple[str, ...]
    """Requests that could not be met, and commands that lost a key, one line each."""


def remap(defaults: Sequence[Command], wishes: Mapping[str, Sequence[str]]) -> Remapped:
    """Gives commands the keys that the user asked for.

    A requested key is taken from every command that has it by default in the same tab, unless the two commands share
    it by default (the inner one goes first). If two requests name the same key, the first one wins.

    Args:
        defaults: the registry.
        wishes: keys as the user wrote them, by command id; an empty list removes a command's keys.
    """
    problems: list[str] = []
    known = {command.id: command for command in defaults}
    keys = {command.id: tuple(key for key in command.keys.split(",") if key) for command in defaults}
    asked: dict[str, tuple[str, ...]] = {}
    for id, written in wishes.items():
        if id not in known:
            from tracetui.parsers.errors import near

            found = near(id, known)
            problems.append(f"keys: there is no action {id}" + (f"; did you mean {found}?" if found else ""))
            continue
        wanted: list[str] = []
        for text in written:
            try:
                key = key_name(text)
            except WrongKeyError as problem:
                problems.append(f"keys.{id}: {problem}")
                continue
            rival = next(
                (other for other in asked if key in asked[other] and _meet(known[id], known[other])
                 and not _shared(known[id], known[other], key)), None
            )  # fmt: skip
            if rival is not None:
                problems.append(f"keys.{id}: {shown_key(key)} already belongs to {rival}")
            elif key not in wanted:
                wanted.append(key)
        if written and not wanted:
            continue  # none of the keys is valid: the default stays
        asked[id] = tuple(wanted)
    keys |= asked
    for id, wanted_keys in asked.items():
        for other in defaults:
            if other.id in asked or not _meet(known[id], other):
                continue
            taken = [key for key in wanted_keys if key in keys[other.id] and not _shared(known[id], other, key)]
            if taken:
                keys[other.id] = tuple(key for key in keys[other.id] if key not in taken)
                left = f"still has {shown_keys(keys[other.id])}" if keys[other.id] else "has no key now"
                problems.append(f"keys.{id}: {shown_keys(taken)} is taken from {other.id}, which {left}")
    if "app.quit" in keys and not keys["app.quit"]:
        keys["app.quit"] = ("ctrl+q",)
        problems.append("keys.app.quit: there must be a way out; it keeps Ctrl+Q")
    changed = {
        command.id: ",".join(keys[command.id]) or UNBOUND
        for command in defaults
        if ",".join(keys[command.id]) != command.keys
    }
    made = tuple(
        command
        if command.id not in changed
        else replace(command, keys=",".join(keys[command.id]), shown=shown_keys(keys[command.id]))
        for command in defaults
    )
    return Remapped(made, changed, tuple(problems))


def _meet(a: Command, b: Command) -> bool:
    """Returns whether two commands can both work in one tab."""
    return a.id != b.id and (not a.tabs or not b.tabs or bool(a.tabs & b.tabs))


def _shared(a: Command, b: Command, key: str) -> bool:
    """Returns whether both have this key by default, so that the inner one goes first on purpose."""
    return key in a.keys.split(",") and key in b.keys.split(",")
