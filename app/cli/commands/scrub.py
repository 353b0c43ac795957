"""`tracetui scrub`: copies recordings and prints what was removed from each file, counted by kind."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import format_bytes
from tracetui.app.cli.command import option, switch
from tracetui.app.cli.options import Plain
from tracetui.app.cli.values import input_path
from tracetui.app.text.exit_codes import DONE, UNREADABLE
from tracetui.app.text.fitting import printable

if TYPE_CHECKING:
    from tracetui.collectors.scrub import LeftOut, Scrubbed

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


@dataclass(kw_only=True)
class Options(Plain):
    """Make a copy that can be shared: Chrome JSON, nsys SQLite, ncu CSV, memory snapshot, run.json or a folder of them.
    Names of kernels, operators and ranges, times and sizes stay; removed items are counted.
    """

    paths: list[Path] = option(nargs="+", type=input_path, metavar="FILE", help="a recording, or a folder of them")
    output: Path | None = option(
        "-o", "--output", type=Path, metavar="OUT", help="the copy, or a folder for several (default: X.scrubbed.json)"
    )
    force: bool = switch("--force", help="replace existing copies")
    names: bool = switch("--names", help="also in names of kernels, operators, ranges and functions; none merge")
    strict: bool = switch("--strict", help="write no copy that holds what can't be judged")


def run(options: Options) -> int:
    """Copies the files and prints what was removed; stops at the first file that can't be copied."""
    from tracetui.collectors.scrub import NO_RECORDING, LeftOut, Scrubbed, redactor_of_this_machine, scrub

    ascii = options.ascii
    copies = scrub(
        options.paths,
        options.output,
        force=options.force,
        strict=options.strict,
        redactor=redactor_of_this_machine(names=options.names),
        done=lambda copy: _say(copy, ascii=ascii),
    )
    others = [one.source for one in copies if isinstance(one, LeftOut) and one.reason == NO_RECORDING]
    if others:
        shown = ", ".join(dict.fromkeys(path.name for path in others[:SHOWN]))
        more = ", ..." if len(others) > SHOWN else ""
        count = f"{len(others):,} other file{'' if len(others) == 1 else 's'}"
        print(f"left out: {count} ({printable(shown, ascii=ascii)}{more})")
    if not any(isinstance(one, Scrubbed) for one in copies):
        print("tracetui: nothing was copied: no recording found", file=sys.stderr)
        return UNREADABLE
    return DONE


def _say(one: Scrubbed | LeftOut, *, ascii: bool) -> None:
    from tracetui.collectors.scrub import NO_RECORDING, LeftOut, said_of

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
