"""`tracetui scrub`: copies recordings and prints what was removed from each file, counted by kind."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import format_bytes
from tracetui.app.text.exit_codes import DONE, UNREADABLE, UsageError
from tracetui.app.text.fitting import printable
from tracetui.collectors.scrub import NO_RECORDING, LeftOut, Scrubbed, redactor_of_this_machine, said_of, scrub

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SHOWN = 6
"""How many names of skipped files are listed."""
NOUNS = {
    "path": ("path", "paths"),
    "host name": ("host name", "host names"),
    "user name": ("user name", "user names"),
    "environment": ("environment entry", "environment entries"),
    "command line": ("command line", "command lines"),
    "network address": ("network address", "network addresses"),
    "UUID": ("UUID", "UUIDs"),
    "secret": ("secret", "secrets"),
    "program output": ("line or text of the program's output", "lines or texts of the program's output"),
    "private place": ("private place", "private places"),
    "process name": ("name of another process", "names of other processes"),
    "job name": ("name of a job", "names of jobs"),
    "serial number or id": ("serial number or id", "serial numbers or ids"),
    "time zone or locale": ("time zone or locale", "time zones or locales"),
    "setting": ("setting of the recorder or machine", "settings of the recorder or machine"),
}
"""The counted kinds, singular and plural."""


def scrub_command(
    paths: Sequence[Path], output: Path | None, *, force: bool, names: bool, strict: bool, ascii: bool
) -> int:
    """Copies the files and prints what was removed; stops at the first file that can't be copied."""
    if not paths:
        raise UsageError("no path given; `tracetui scrub FILE` writes FILE's copy beside it")
    found = scrub(
        paths,
        output,
        force=force,
        strict=strict,
        redactor=redactor_of_this_machine(names=names),
        done=lambda one: _say(one, ascii=ascii),
    )
    others = [one.source for one in found if isinstance(one, LeftOut) and one.reason == NO_RECORDING]
    if others:
        shown = ", ".join(dict.fromkeys(path.name for path in others[:SHOWN]))
        more = ", ..." if len(others) > SHOWN else ""
        count = f"{len(others):,} other file{'' if len(others) == 1 else 's'}"
        print(f"left out: {count} ({printable(shown, ascii=ascii)}{more})")
    if not any(isinstance(one, Scrubbed) for one in found):
        print("tracetui: nothing was copied: no recording found", file=sys.stderr)
        return UNREADABLE
    return DONE


def _say(one: Scrubbed | LeftOut, *, ascii: bool) -> None:
    source = printable(str(one.source), ascii=ascii)
    if isinstance(one, LeftOut):
        if one.reason != NO_RECORDING:  # these are summarized at the end
            print(f"{source}: left out: {printable(one.reason, ascii=ascii)}", flush=True)
        return
    size = format_bytes(one.target.stat().st_size)
    print(f"{source} -> {printable(str(one.target), ascii=ascii)} ({size})")
    removed = [_counted(kind, count) for kind, count in one.counts.items()]
    print(f"  removed: {', '.join(removed) if removed else 'nothing; the file held no such data'}", flush=True)
    if one.unjudged:
        print(f"  look at: {printable(said_of(one.unjudged), ascii=ascii)}", flush=True)


def _counted(kind: str, count: int) -> str:
    one, several = NOUNS.get(kind, (kind, kind))
    return f"{count:,} {one if count == 1 else several}"
