"""Commands about the program and the machine: models, rules, doctor, config, completion, cache."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.cli.options.shared import add_ascii, add_plain

if TYPE_CHECKING:
    from tracetui.app.cli.options.shared import Commands


def add_models(commands: Commands) -> None:
    """Adds `tracetui models`."""
    parser = commands.add_parser(
        "models",
        help="list the models that can be profiled by name",
        description="List the models that can be profiled by name: their parameters, their FLOPs, and what they need.",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="show one model: its options and what it needs")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")
    parser.add_argument("--python", metavar="PATH", help="ask this Python what is installed (default: tracetui's own)")
    add_ascii(parser)
    parser.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def add_rules(commands: Commands) -> None:
    """Adds `tracetui rules`."""
    parser = commands.add_parser(
        "rules",
        help="list the rules behind the findings, with their thresholds",
        description="List every rule behind the findings: its thresholds (yours are marked), needs and bases.",
    )
    parser.add_argument("id", nargs="?", metavar="ID", help="one rule, explained")
    parser.add_argument("--format", choices=("text", "json", "markdown"), default="text", help="default: %(default)s")
    add_plain(parser)


def add_doctor(commands: Commands) -> None:
    """Adds `tracetui doctor`."""
    parser = commands.add_parser(
        "doctor",
        help="check terminal, torch, profilers, permissions and machine state",
        description="Check what `tracetui` and `tracetui profile` need, and say how to fix what is missing. Exit "
        "code 1 if something must be fixed.",
    )
    parser.add_argument("--python", metavar="PATH", help="the Python that runs the workload (default: this one)")
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="the folder to which runs will be written (default: here)"
    )
    parser.add_argument(
        "--measure-peaks",
        action="store_true",
        help="measure what the GPU reaches (matrix products, memory) for rooflines; takes some seconds and needs torch",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")
    add_plain(parser)


def add_config(commands: Commands) -> None:
    """Adds `tracetui config`."""
    parser = commands.add_parser(
        "config",
        help="show your settings and where each comes from",
        description="Show the settings in force and where each comes from. The strongest first: command line, "
        "environment, what was chosen on the screen, the project's .tracetui.toml, your config.toml, default.",
    )
    parser.add_argument(
        "path",
        nargs="?",
        type=Path,
        metavar="PATH",
        help="show the settings that hold for this recording (default: for this folder)",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--path", action="store_true", dest="where", help="print only the path of your file")
    what.add_argument("--init", action="store_true", help="write your file, with every setting explained")
    what.add_argument("--keys", action="store_true", help="list the actions with their keys")
    what.add_argument("--columns", action="store_true", help="list the pages with their columns")
    what.add_argument("--reset", action="store_true", help="reset what was chosen on the screen")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")
    add_plain(parser)


def add_completion(commands: Commands) -> None:
    """Adds `tracetui completion`."""
    parser = commands.add_parser(
        "completion",
        help="print a script that completes commands in your shell",
        description="Print the script that completes `tracetui` in a shell. "
        'bash: eval "$(tracetui completion bash)" in ~/.bashrc; '
        "zsh: tracetui completion zsh > _tracetui in a folder of $fpath; "
        "fish: tracetui completion fish > ~/.config/fish/completions/tracetui.fish",
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    parser.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def add_cache(commands: Commands) -> None:
    """Adds `tracetui cache`."""
    parser = commands.add_parser("cache", help="show or empty the cache of parsed traces")
    parser.add_argument("action", nargs="?", choices=("info", "clear"), default="info")
    parser.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
