"""Commands that copy recordings: scrub and cut."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.cli.options.shared import add_plain
from tracetui.app.cli.options.values import input_path, steps

if TYPE_CHECKING:
    from tracetui.app.cli.options.shared import Commands


def add_scrub(commands: Commands) -> None:
    """Adds `tracetui scrub`."""
    parser = commands.add_parser(
        "scrub",
        help="copy a recording without host names, paths, commands and environments",
        description="Make a copy that can be shared: Chrome JSON, nsys SQLite, ncu CSV, memory snapshot, run.json or a "
        "folder of them. Names of kernels, operators and ranges, times and sizes stay; removed items are counted.",
    )
    parser.add_argument("paths", nargs="+", type=input_path, metavar="FILE", help="a recording, or a folder of them")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="the copy, or a folder for several (default: X.scrubbed.json)"
    )
    parser.add_argument("--force", action="store_true", help="replace existing copies")
    parser.add_argument(
        "--names", action="store_true", help="also in names of kernels, operators, ranges and functions; none merge"
    )
    parser.add_argument("--strict", action="store_true", help="write no copy that holds what can't be judged")
    add_plain(parser)


def add_cut(commands: Commands) -> None:
    """Adds `tracetui cut`."""
    parser = commands.add_parser(
        "cut",
        help="copy part of a Chrome trace into a smaller one",
        description="Make a smaller Chrome trace of some steps or of a stretch of time: what lies in it byte for byte, "
        "with the launches of its GPU work, and all that the file says of the recording. Environment, paths and names "
        "in it stay: tracetui scrub takes them out.",
    )
    parser.add_argument("path", type=input_path, metavar="FILE", help="a Chrome trace, plain or gzipped")
    parser.add_argument("--steps", type=steps, metavar="FIRST-LAST", help="these steps and their GPU work: 3 or 2-5")
    parser.add_argument("--from", dest="begin", metavar="TIME", help="start, as Timeline shows it: 3.1ms")
    parser.add_argument("--to", dest="end", metavar="TIME", help="end: 9ms")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="the copy; .gz compresses (default: X.cut-....trace.json.gz)"
    )
    parser.add_argument("--force", action="store_true", help="replace an existing copy, though never the recording")
    parser.add_argument("--no-cache", action="store_false", dest="cache", help="do not use or fill the cache")
    add_plain(parser)
