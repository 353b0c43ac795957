"""The record of one command: what it does, its keys, and where it works. The registry is made of these records."""

from __future__ import annotations

from dataclasses import dataclass

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
