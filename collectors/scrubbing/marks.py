"""What stands in a copy for what was taken out: one mark for each distinct text, so that no two become one."""

from __future__ import annotations

import re

PATH, HOST, USER, ENVIRONMENT = "path", "host name", "user name", "environment"
COMMAND, ADDRESS, UUID, SECRET, OUTPUT = "command line", "network address", "UUID", "secret", "program output"
SETTING, LOCATION, PROCESS, JOB, IDENTITY = (
    "setting",
    "private place",
    "process name",
    "job name",
    "serial number or id",
)
ZONE = "time zone or locale"
TORN = "damaged text"
"""What damage cut from what tells whether it is private."""
IN_NAME, RANDOM, DAMAGED = "in a name", "random", "damaged"
"""Why something was left that may be private."""
MASK = "***"
PLACE = "/redacted"
_STEMS = {
    HOST: "host", USER: "user", LOCATION: "place", PROCESS: "process", JOB: "job", IDENTITY: "id", ZONE: "zone",
}  # fmt: skip
_DOMAIN, _SIX = "domain", "address of six"
_MARK = re.compile(
    rf"(?:{'|'.join(_STEMS.values())})-(?P<n>\d+)(?:\.domain(?:-\d+)?)?|\*\*\*\d*|redacted|::\d*|0\.\d+\.\d+\.\d+|"
    r"/redacted(?:/\d+)?"
)


def is_mark(text: str) -> bool:
    """Whether a text is what an earlier copy put in the place of something."""
    return _MARK.fullmatch(text) is not None


class Marks:
    """Numbers what is taken out, by kind, in the order in which it is met."""

    def __init__(self) -> None:
        self.trying = False
        """While this is set nothing is remembered."""
        self._numbers: dict[str, dict[str, int]] = {}
        self._last: dict[str, int] = {}

    def number(self, kind: str, text: str) -> int:
        """The number of a text among those of its kind, from 1."""
        known = self._numbers.get(kind, {})
        if text in known:
            return known[text]
        following = self._last.get(kind, 0) + 1
        if not self.trying:
            self._numbers.setdefault(kind, {})[text] = following
            self._last[kind] = following
        return following

    def reserve(self, kind: str, mark: str) -> None:
        """Keeps a mark that a copied file holds already from being given to anything else."""
        match = _MARK.fullmatch(mark)
        if match is not None and match["n"] and not self.trying:
            self._last[kind] = max(self._last.get(kind, 0), int(match["n"]))

    def mark(self, kind: str, text: str) -> str:
        """What stands for a text."""
        if kind == HOST:
            return self._host(text)
        if kind in _STEMS:
            return f"{_STEMS[kind]}-{self.number(kind, text)}"
        if kind == ADDRESS and ":" not in text and text.count("-") != 5:
            number = self.number(ADDRESS, text)
            return f"0.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        number = self.number(_SIX if kind == ADDRESS else kind, text)
        if kind == UUID:
            return f"00000000-0000-0000-0000-{number:012}"
        return f"{'::' if kind == ADDRESS else MASK}{number if number > 1 else ''}"

    def _host(self, text: str) -> str:
        """A machine has one number, with its domain and without."""
        short, _, domain = text.partition(".")
        mark = short if is_mark(short) else f"host-{self.number(HOST, short)}"
        if not domain or _MARK.fullmatch(text):
            return mark if not domain else text
        number = self.number(_DOMAIN, domain)
        return f"{mark}.domain" + (f"-{number}" if number > 1 else "")
