"""The options of `tracetui prove`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tracetui.app.cli.options.values import count, input_path

LEAST_ROUNDS = 2
"""As `collectors.proving.plan.LEAST_ROUNDS`: of one round there is no interval."""


def add_prove(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Adds the command to the parser's commands."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "prove",
        parents=[common],
        help="do what findings advise, and measure what it gains",
        usage="tracetui prove RUN [FINDING ...] [options]\n       tracetui prove RUN [FINDING ...] -- python SCRIPT …",
        description=(
            "Do what a run's findings advise, where options of the run do it, and measure the gain: the run as it was "
            "and the changed one take turns, without a profiler. Without findings: all that have a change, largest "
            "bound first, each with its best one. The proofs are written into the run and shown with its findings."
        ),
    )
    parser.add_argument("path", type=input_path, metavar="RUN", help="a run that `tracetui profile` made")
    parser.add_argument(
        "findings", nargs="*", default=[], metavar="FINDING", help="ids of findings, such as F6: all their changes"
    )
    parser.add_argument(
        "--change",
        action="append",
        default=[],
        metavar="OPTION=VALUE",
        help="measure this change, such as dtype=bf16, whatever the findings say; commas for several options at once "
        "(repeatable)",
    )
    parser.add_argument("--run", metavar="NAME", help="the run to use if a folder holds several, by letter or name")
    parser.add_argument(
        "--rounds", type=_rounds, metavar="N", help="turns of each variant (default: 12 in one process, else 3 of each)"
    )
    parser.add_argument("--device", metavar="cpu|cuda|cuda:N", help="default: the device that the run used")
    parser.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="end a process that takes longer")
    parser.add_argument("--python", metavar="PATH", help="the Python that has torch (default: this one)")
    parser.add_argument(
        "--model",
        dest="own_model",
        metavar="MODULE:FACTORY",
        help="the run's model if it is your own: code is run only if you name it",
    )
    parser.add_argument(
        "--base",
        metavar="COMMAND",
        help="for a program of your own: the command as it was, if run.json does not say it whole",
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="write proofs.json there (default: into the run)")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")
    parser.add_argument("--dry-run", action="store_true", help="print what would be measured; run nothing")
    return parser


def _rounds(text: str) -> int:
    number = count(text)
    if number < LEAST_ROUNDS:
        raise argparse.ArgumentTypeError(f"at least {LEAST_ROUNDS}, for an interval")
    return number


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return number
