"""Reads what a terminal sends as Textual does, but for Esc and a character that come together."""

from __future__ import annotations

from collections.abc import Iterable

from textual._xterm_parser import XTermParser
from textual.events import Key
from textual.keys import KEY_NAME_REPLACEMENTS, _character_to_key

ESC = "\x1b"
BEGIN_SEQUENCES = ("[", "O")
"""What follows Esc in the sequences of arrows and other keys."""


class KeyParser(XTermParser):
    """Makes one key of Esc and a character: ``alt+slash`` with the character.

    Textual waits for more, loses the Esc before a sign, and reads some letters as arrows and digits as other signs. A
    terminal sends the same for Alt; whoever gets the key tells what was meant.

    A line feed is Enter: what is typed before the program has taken the terminal over, the terminal turns into one.
    """

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[Key]:
        alone = len(sequence) == 1 and alt
        together = len(sequence) == 2 and sequence[0] == ESC and sequence[1] not in BEGIN_SEQUENCES
        if (alone or together) and sequence[-1].isprintable():
            return [Key(with_alt(sequence[-1]), sequence[-1])]
        return super()._sequence_to_key_events("\r" if sequence == "\n" else sequence, alt)


def use_in_textual() -> None:
    """Lets Textual's own drivers, those of terminals and of browsers, read keys in the same way."""
    from textual.drivers import linux_driver, web_driver

    for module in (linux_driver, web_driver):
        module.XTermParser = KeyParser  # type: ignore[attr-defined]


def with_alt(character: str) -> str:
    """Returns Textual's name of Alt and a character."""
    name = key_of(character).key
    return f"alt+shift+{name.lower()}" if len(name) == 1 and name.isupper() else f"alt+{name}"


def key_of(character: str) -> Key:
    """Returns the key of a printable character."""
    name = character if character.isalnum() else _character_to_key(character)
    return Key(KEY_NAME_REPLACEMENTS.get(name, name), character)
