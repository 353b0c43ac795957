"""The options of the commands for questions and for programs; argparse only."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracetui.app.cli.option_values import count
from tracetui.app.text.tool_words import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMATS = ("text", "json", "markdown", "csv")
SECONDS = 30
"""`analysis.query.ask.SECONDS`."""


def add_query(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Adds `tracetui query`; returns its parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "query",
        parents=[common],
        help="ask a recording in SQL (needs tracetui[query])",
        description="Run one SELECT over the frames of a recording (steps, host, device, memory, counters, "
        "collectives) and the report's tables (kernels, operators, ...), with DuckDB. Nothing else can be read, and "
        "nothing written. --schema lists what there is.",
    )
    parser.add_argument(
        "asked",
        nargs="*",
        metavar="PATH SQL",
        help="a recording or a folder, then the query; - reads it from standard input",
    )
    parser.add_argument(
        "--sample", nargs="?", const="vim_tiny", metavar="NAME", help="a recording that ships with tracetui"
    )
    parser.add_argument("--schema", action="store_true", help="list frames and columns with their units")
    parser.add_argument("--source", choices=KINDS, metavar="KIND", help="only this tool's recordings of a run")
    parser.add_argument("--rank", type=count, metavar="N", help="this rank of a distributed run")
    parser.add_argument("--format", choices=FORMATS, default="text", help="default: %(default)s")
    parser.add_argument(
        "--limit", type=count, dest="most_rows", metavar="N", help="rows; 0 for all (text shows 100, json and csv all)"
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=SECONDS,
        metavar="SECONDS",
        help="how long the query may run (default: %(default)s)",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write to a file instead of standard output")
    parser.add_argument("--force", action="store_true", help="let --output replace a file, though never a recording")
    return parser


def seconds(text: str) -> float:
    """Returns a time limit in seconds.

    Raises:
        argparse.ArgumentTypeError: it is none, or not between 0 and an hour.
    """
    try:
        found = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None
    if not 0 < found <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 3600 seconds")
    return found


def split_asked(words: Sequence[str], *, sample: bool) -> tuple[list[str], str]:
    """Returns the paths and the query of a command line.

    Raises:
        ValueError: one of the two is missing; says which.
    """
    given = list(words)
    if not given:
        raise ValueError("no query given; `tracetui query --schema` lists what can be asked")
    if len(given) == 1 and not sample:
        if Path(given[0]).exists():
            raise ValueError("no query given; it is the last word: tracetui query PATH 'select ...'")
        raise ValueError("no path given; `tracetui query --sample 'select ...'` takes one that ships with it")
    return given[:-1], given[-1]
