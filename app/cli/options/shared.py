"""Options that several commands have."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tracetui.app.cli.options.values import count, memory_size, steps
from tracetui.app.settings.schema import COLORS, NAMES, THEMES
from tracetui.app.text.tool_words import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

Commands: TypeAlias = Any
"""What adds a command's parser; argparse gives its type no name."""
Parents: TypeAlias = "Sequence[argparse.ArgumentParser]"
"""Parsers whose options a command has too."""
FORMATS = ("text", "json", "markdown", "csv", "html")
SAMPLES = {
    "vim_tiny": "vim_tiny",
    "vim_tiny_fp16": "vim_tiny_fp16",
    "topk_deit_sweep": "topk_deit_sweep",
}


def common_options() -> argparse.ArgumentParser:
    """Returns a parser with what nearly every command has: colour, cache, memory, --debug."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--color",
        choices=COLORS,
        help="colours of the screen; reports have none (default: auto)",
    )
    add_ascii(common)
    common.add_argument("--cache", action="store_true", default=None, help=argparse.SUPPRESS)
    common.add_argument(
        "--no-cache",
        action="store_false",
        dest="cache",
        help="do not use or fill the cache, and do not remember what was opened",
    )
    common.add_argument(
        "--max-memory",
        type=memory_size,
        metavar="SIZE",
        help="read no recording for which the program would need more, such as 8GB (default: what is free)",
    )
    common.add_argument(
        "--debug", action="store_true", default=argparse.SUPPRESS, help="show a traceback if something goes wrong"
    )
    return common


def scope_options() -> argparse.ArgumentParser:
    """Returns a parser with what the numbers cover: steps, tool, rank, devices."""
    scope = argparse.ArgumentParser(add_help=False)
    group = scope.add_argument_group("what the numbers cover")
    group.add_argument("--steps", type=steps, metavar="FIRST-LAST", help="only these steps: 3 or 2-5")
    group.add_argument(
        "--steps-by",
        metavar="NAME",
        help="the ranges of this name are the steps (default: the profiler's own, else those that hold most GPU work)",
    )
    group.add_argument("--skip-steps", type=count, default=0, metavar="N", help="leave out the first N steps (warm-up)")
    group.add_argument(
        "--source", choices=KINDS, metavar="KIND", help=f"only this tool's recordings of a run: {', '.join(KINDS)}"
    )
    group.add_argument("--rank", type=count, metavar="N", help="only this rank of a distributed run")
    group.add_argument(
        "--device", type=count, action="append", dest="devices", metavar="N", help="only this GPU (repeatable)"
    )
    return scope


def add_ascii(parser: argparse.ArgumentParser) -> None:
    """Adds --ascii."""
    # both ways, since a settings file may say the opposite; null if neither is given
    parser.add_argument("--ascii", action="store_true", default=None, help="ASCII characters only")
    parser.add_argument("--no-ascii", action="store_false", dest="ascii", help=argparse.SUPPRESS)


def add_looks(parser: argparse.ArgumentParser) -> None:
    """Adds what the screen looks like."""
    looks = parser.add_argument_group("looks", "to make them permanent: `tracetui config --init`")
    looks.add_argument("--theme", choices=THEMES, help="colours: %(choices)s (default: auto)", metavar="NAME")
    looks.add_argument("--names", choices=NAMES, help="how kernel names are shown: %(choices)s (default: short)")
    looks.add_argument(
        "--low-bandwidth",
        action=argparse.BooleanOptionalAction,
        help="use few colours and scroll tables by half pages (default: on over SSH)",
    )


def add_plain(parser: argparse.ArgumentParser) -> None:
    """Adds --ascii and --debug to a command without the common options."""
    add_ascii(parser)
    parser.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def add_sample(parser: argparse.ArgumentParser) -> None:
    """Adds --sample."""
    parser.add_argument(
        "--sample",
        nargs="?",
        const="vim_tiny",
        choices=tuple(SAMPLES),
        metavar="NAME",
        help=f"a recording that ships with tracetui: {', '.join(SAMPLES)}",
    )


def add_run(parser: argparse.ArgumentParser, words: str) -> None:
    """Adds --run; `words` say what it chooses."""
    parser.add_argument("--run", metavar="NAME", help=words)


def add_output(parser: argparse.ArgumentParser, formats: tuple[str, ...] = FORMATS) -> None:
    """Adds the form, length and place of what is printed."""
    parser.add_argument("--format", choices=formats, default="text", help="default: %(default)s")
    parser.add_argument(
        "--limit", type=count, metavar="N", help="rows per list; 0 for all (text shows 10, html 50, json all)"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write to a file instead of standard output")
    parser.add_argument("--force", action="store_true", help="let --output replace a file, though never a recording")
    parser.add_argument(
        "--no-charts", action="store_false", dest="charts", help="leave the charts out of text, Markdown and HTML"
    )
