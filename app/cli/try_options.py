"""What is typed after `tracetui try`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tracetui.app.cli.command import option, switch
from tracetui.app.cli.options import Common, format_option
from tracetui.app.cli.values import count, duration, input_path, number_of_seconds


def _rounds(text: str) -> int:
    from tracetui.collectors.proving import LEAST_ROUNDS

    number = count(text)
    if number < LEAST_ROUNDS:
        raise argparse.ArgumentTypeError(f"at least {LEAST_ROUNDS}, for an interval")
    return number


def _provable() -> Sequence[str]:
    from tracetui.analysis.findings.catalogue import all_rules

    return tuple(id for id, rule in all_rules().items() if rule.changes)


@dataclass(kw_only=True)
class Options(Common):
    """Make changes and measure what they gain: as it was and changed take turns, without a profiler. A program of your
    own is changed from outside, in its process, without an edit: it runs once, and each change that fits what it does
    is measured. Of a run of a known model, its findings say what to change: all that have a change, largest bound
    first, each with its best one. The proofs are written into the run and shown with its findings.
    """

    usage: ClassVar[str] = (
        "tracetui try [RUN] [options] -- python SCRIPT ...\n       tracetui try RUN [FINDING ...] [options]\n"
        "       tracetui try RUN [FINDING ...] -- python CHANGED_SCRIPT ..."
    )
    path: Path | None = option(nargs="?", type=input_path, metavar="RUN", help="a run that `tracetui profile` made")
    findings: list[str] = option(
        nargs="*", default=[], metavar="FINDING", help="ids of findings, such as F6: all their changes", words=_provable
    )
    change: list[str] = option(
        "--change",
        action="append",
        default=[],
        metavar="CHANGE",
        help="measure this change, whatever the findings say: of a program its name (`--dry-run` lists them), of a "
        "model OPTION=VALUE such as dtype=bf16, commas for several options at once (repeatable)",
    )
    join: list[str] = option(
        "--join",
        action="append",
        default=[],
        metavar="CHANGE",
        help="of a program: put this change together with others although it computes something else (repeatable)",
    )
    budget: float = option(
        "--budget", type=duration, default=600.0, metavar="TIME", help="of a program: time for all (default: 10m)"
    )
    own_folders: bool = switch("--own-folders", help="of a program: each run works in an empty folder of its own")
    run: str | None = option(
        "--run", metavar="NAME", help="the run to use if a folder holds several, by letter or name"
    )
    rounds: int | None = option(
        "--rounds", type=_rounds, metavar="N", help="turns of each variant (default: 12 in one process, else 3 of each)"
    )
    device: str | None = option(
        "--device",
        metavar="cpu|cuda|cuda:N",
        help="default: the device that the run used",
        words=lambda: ("cpu", "cuda"),
    )
    timeout: float | None = option(
        "--timeout", type=number_of_seconds, metavar="SECONDS", help="end a process that takes longer"
    )
    python: str | None = option(
        "--python",
        metavar="PATH",
        help="the Python that has torch (default: this or the program's)",
        values="programs",
    )
    own_model: str | None = option(
        "--model", metavar="MODULE:FACTORY", help="the run's model if it is your own: code is run only if you name it"
    )
    base: str | None = option(
        "--base",
        metavar="COMMAND",
        help="for a program of your own: the command as it was, if run.json does not say it whole",
    )
    output: Path | None = option(
        "-o", "--output", type=Path, metavar="DIR", help="write proofs.json there (default: into the run)"
    )
    format: str = format_option("text", "json")
    dry_run: bool = switch("--dry-run", help="print what would be measured; run nothing")
    program: tuple[str, ...] = ()
