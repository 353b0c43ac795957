"""The line of a source file that a row or an event names, and the user's editor for it.

Names come from other people's recordings. Nothing is opened but a regular Python file of this machine that has the line
and the function, by its whole path, and no shell sees the name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

from tracetui.app.text.exit_codes import UsageError

_SAMPLED = re.compile(r"(?P<file>.+\.py):(?P<line>\d+)(?:, (?P<function>.+))?")
_RECORDED = re.compile(
    r"(?:backward of )?(?P<file>.+?\.py)\((?P<first>\d+)\): (?P<function>[\w.<>]+)(?:, line (?P<line>\d+))?(?:, .*)?"
)
_MOST_BYTES = 16 << 20
_WITH_COLON = frozenset({"code", "codium", "cursor", "hx", "subl", "zed"})
"""Editors that take a line as `file:line`; all others take `+line`."""


class SourceLine(NamedTuple):
    """A line as a recording names it."""

    file: str
    line: int
    function: str


def source_line(text: str) -> SourceLine | None:
    """The first line that a text names: `train.py(12): step`, `/home/ann/train.py:14`."""
    match = _SAMPLED.fullmatch(text) or _RECORDED.fullmatch(text)
    if match is None:
        return None
    named = match.groupdict()
    return SourceLine(named["file"], int(named["line"] or named["first"]), named["function"] or "")


def file_here(of: SourceLine, folders: Iterable[str | Path | None]) -> Path:
    """The file on this machine; relative names are looked for in these folders.

    Raises:
        UsageError: it is not here, or another one.
    """
    name = of.file.removeprefix("~/")
    roots = [Path.home()] if name != of.file else [Path(folder) for folder in folders if folder]
    for root in [Path("/")] if name.startswith("/") else roots:
        try:
            path = (root / name).resolve()
            about = path.stat()
            if not S_ISREG(about.st_mode) or about.st_size > _MOST_BYTES:
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
        except (OSError, ValueError):
            continue
        function = of.function.rpartition(".")[2]
        known = not function.isidentifier() or re.search(rf"\bdef\s+{function}\b", text)
        if not known or of.line > len(text.splitlines()):
            raise UsageError(f"{path} is another file than the one recorded: no line {of.line} or no {function}()")
        return path
    raise UsageError(f"{of.file} is not on this machine, or not where the run was started")


def editor_command(path: Path, line: int, environment: Mapping[str, str]) -> list[str]:
    """The command that opens a line of a file, whose words no shell reads.

    Raises:
        UsageError: no editor is set.
    """
    try:
        words = shlex.split(environment.get("EDITOR", ""))
    except ValueError as problem:
        raise UsageError(f"$EDITOR: {str(problem).lower()}") from problem
    if not words:
        raise UsageError("$EDITOR is not set: it names the program that opens files (export EDITOR=nano)")
    if Path(words[0]).name in _WITH_COLON:
        return [*words, *(["--goto"] if Path(words[0]).name in ("code", "codium", "cursor") else []), f"{path}:{line}"]
    return [*words, f"+{line}", str(path)]
