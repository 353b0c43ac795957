"""One thing that a key can do: the record that the registry is made of."""

from __future__ import annotations

from dataclasses import dataclass

UNBOUND = "no key"
"""Stands for the keys of a command that has none: no terminal sends it."""


@dataclass(frozen=True, slots=True)
class Command:
    """One thing a person can do with a key."""

    id: str
    """Stable name, as ``sort.next``."""
    keys: str
    """Textual key names, separated by commas; empty where only the palette offers it."""
    shown: str
    """The keys as a person reads them."""
    title: str
    """What it does, in the help page and the palette."""
    group: str
    """Heading in the help page."""
    action: str
    """Textual action."""
    where: str
    """What binds it: the app, a kind of view, or a widget: ``table``, ``tree``, ``lanes``."""
    tabs: frozenset[str] = frozenset()
    """Tabs it works in; empty for all."""
    footer: str = ""
    """Its short label in the footer; none, and it is not shown there."""
    rank: int = 50
    """Place in the footer; what does not fit is left out from the end."""
    palette: bool = True
    """Whether the palette offers it."""
