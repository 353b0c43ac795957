"""The manual page, made from the command line's parser: ``make man``."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from tracetui.app.cli.command import COMMANDS, EXIT_CODES, GROUP, build_parser

PAGE = Path(__file__).resolve().parents[1] / "docs" / "tracetui.1"


def escaped(text: str) -> str:
    """As roff prints it: no line is taken for a request, and a dash can be copied."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return "\n".join(rf"\&{line}" if line[:1] in ("'", ".") else line for line in text.splitlines())


def arguments(parser: argparse.ArgumentParser) -> Iterator[str]:
    """What may follow a command, each with its help."""
    formatter = parser._get_formatter()
    for action in parser._actions:
        if action.dest in ("help", "command") or action.help == argparse.SUPPRESS:
            continue
        value = "" if action.nargs == 0 else formatter._format_args(action, action.dest.upper())
        yield ".TP"
        flags = f"\\fB{escaped(', '.join(action.option_strings))}\\fR " if action.option_strings else ""
        yield f"{flags}\\fI{escaped(value)}\\fR"
        yield escaped(formatter._expand_help(action)) if action.help else r"\&"


def page() -> str:
    """docs/tracetui.1: every command with its options."""
    top = build_parser()
    lines = [
        ".TH TRACETUI 1",
        ".SH NAME",
        r"tracetui \- explore GPU performance traces in the terminal",
        ".SH SYNOPSIS",
        r".B tracetui",
        r"[\fICOMMAND\fR] [\fIPATH\fR ...]",
        ".SH DESCRIPTION",
        escaped(str(top.description)),
        r"Without a command a path is opened. \fBtracetui\fR \fICOMMAND\fR \fB\-\-help\fR has the same text as here.",
        ".SH OPTIONS",
        *arguments(top),
        ".SH COMMANDS",
    ]
    for name, line in COMMANDS.items():
        if name == GROUP:
            continue
        parsers = next(action for action in build_parser(name)._actions if action.dest == "command").choices
        assert parsers is not None
        lines += [f".SS tracetui {escaped(name)}", escaped(line[:1].upper() + line[1:] + ".")]
        lines += arguments(parsers[name])
    codes = [entry.split(maxsplit=1) for entry in EXIT_CODES.replace("\n     ", " ").splitlines()[1:]]
    lines.append(".SH EXIT STATUS")
    for code, meaning in codes:
        lines += [".TP", code, escaped(meaning)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(PAGE.write_text(page(), encoding="utf-8") and 0)
