"""The options of the commands for questions and for programs; argparse only."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracetui.app.cli.options.values import count, input_path

if TYPE_CHECKING:
    from collections.abc import Sequence

OUTPUTS = (
    "report", "headline", "diff", "sweep", "ranks", "check", "query", "frames", "rules", "models", "doctor", "config",
)  # fmt: skip
"""`analysis.schemas.others.OUTPUTS`."""
FORMATS = ("text", "json", "markdown", "csv")
SECONDS = 30
"""`analysis.query.ask.SECONDS`."""


def add_query(commands: Any, parents: Sequence[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Adds `tracetui query` with the options of these parsers too; returns its parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "query",
        parents=parents,
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


def add_schema(commands: Any) -> None:
    """Adds `tracetui schema`."""
    parser = commands.add_parser(
        "schema",
        help="print the JSON Schema of a command's JSON",
        description="Print the JSON Schema (draft 2020-12) of what a command prints with --format json; of the report "
        "also of one section: tracetui schema report kernels.",
    )
    parser.add_argument("output", choices=OUTPUTS, help=f"one of {', '.join(OUTPUTS)}", metavar="OUTPUT")
    parser.add_argument("key", nargs="?", metavar="KEY", help="only this key, such as a section of the report")
    parser.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def add_skill(commands: Any) -> None:
    """Adds `tracetui skill`."""
    parser = commands.add_parser(
        "skill",
        help="print what a coding agent needs to know",
        description="Print a file for coding agents: how to record, report, compare, ask and prove, and which numbers "
        "rest on what. Write it where your agent looks for skills (SKILL.md), or append it to AGENTS.md.",
    )
    parser.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def add_mcp(commands: Any, common: argparse.ArgumentParser) -> None:
    """Adds `tracetui mcp`."""
    parser = commands.add_parser(
        "mcp",
        parents=[common],
        help="answer a program over the Model Context Protocol (needs tracetui[mcp])",
        description="Answer a program over the Model Context Protocol on standard input and output. It may read what "
        "is given here and nothing else; nothing is written or run unless --allow-run says so.",
    )
    parser.add_argument("paths", nargs="+", type=input_path, metavar="PATH", help="a recording, or a folder of them")
    parser.add_argument(
        "--allow-run", action="store_true", help="also offer to record: tracetui profile with a model, into PATH"
    )


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
