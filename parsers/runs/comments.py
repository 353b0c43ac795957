"""What people write about the rows of a run: a file beside its recordings, one JSON object a line, only appended to.

Lines of several people can be merged in any order; none holds a path but the recording's name. A line that names the
text that it replaces takes the place of that comment on its row; one without a text of its own removes it.
"""

from __future__ import annotations

import json
import os
import stat
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.parsers.errors import TraceError
from tracetui.parsers.runs.side_files import opened, read_text
from tracetui.parsers.written import read_only

if TYPE_CHECKING:
    from tracetui.parsers.runs.run import Run

FILE = "comments.tracetui.jsonl"
"""In the folder of the recordings."""
LONGEST = 2000
"""Letters of one comment."""
MOST_BYTES = 4 << 20
"""Of the file that are read."""


@dataclass(frozen=True, slots=True)
class Comment:
    """One line of the file."""

    at: str
    """When it was written: ``2026-11-23T06:12:00Z``."""
    recording: str
    """The name of the run's first recording, in the same folder."""
    tab: str
    """Where the row stands: a tab, and one of its pages."""
    page: str
    row: str
    """What names the row there."""
    text: str


def file_of(run: Run) -> Path:
    """Where the comments on a run stand."""
    if run.summaries_in is not None:
        return run.summaries_in / FILE
    return run.traces[0].source.path.parent / FILE


def recording_of(run: Run) -> str:
    """What comments on a run name it by: several runs may lie in one folder."""
    return "" if run.summaries_in is not None else run.traces[0].source.path.name


def comments_on(run: Run) -> tuple[Comment, ...]:
    """The comments on a run, the oldest first; lines that are none are passed over, as another program's may be."""
    if not run.traces:
        return ()
    mine = recording_of(run)
    kept: list[Comment] = []
    for one, replaced in sorted(_all(file_of(run)), key=lambda line: line[0].at):
        if one.recording != mine:
            continue
        if replaced:
            kept = [former for former in kept if (_place(former), former.text) != (_place(one), replaced)]
        if one.text:
            kept.append(one)
    return tuple(kept)


def problem_in(folder: Path) -> str | None:
    """Why the comments in a folder can't be read, if there are any."""
    try:
        with opened(folder / FILE) as (_, size):
            return f"left out, since it is larger than {MOST_BYTES >> 20} MiB" if size > MOST_BYTES else None
    except FileNotFoundError:
        return None
    except OSError as error:
        return (error.strerror or str(error)).lower()


def _place(comment: Comment) -> tuple[str, str, str]:
    return comment.tab, comment.page, comment.row


def _all(file: Path) -> list[tuple[Comment, str]]:
    """Every line, with the text that it replaces; empty if it replaces none."""
    try:
        lines = read_text(file, MOST_BYTES).splitlines()
    except OSError:
        return []
    return [found for line in lines if (found := _comment(line)) is not None]


def _comment(line: str) -> tuple[Comment, str] | None:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    names = Comment.__dataclass_fields__
    if not isinstance(said, dict) or not all(isinstance(said.get(name), str) for name in names):
        return None
    replaced = said.get("replaces", "")
    comment = Comment(**{name: said[name][: LONGEST if name == "text" else None] for name in names})
    return comment, replaced if isinstance(replaced, str) else ""


def add_comment(run: Run, tab: str, page: str, row: str, text: str, *, replaces: str = "") -> Comment:
    """Appends a comment to the file of a run.

    Args:
        run: what it is about.
        tab: where the row stands.
        page: the page of that tab.
        row: what names the row.
        text: one line; empty to remove the comment that it replaces.
        replaces: the text of the row's comment whose place it takes; empty if it stands beside what is there.

    Returns:
        What was written.

    Raises:
        TraceError: it can't be written there, and why.
    """
    file = file_of(run)
    if read_only():
        raise TraceError(file, "nothing is written from here", "write the comment where the run can be changed")
    if ships(file):
        raise TraceError(file.parent, "ships with tracetui and takes no comments", "copy the recording")
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    comment = Comment(now, recording_of(run), tab, page, row, " ".join(text.split())[:LONGEST])
    said = asdict(comment) | ({"replaces": replaces} if replaces else {})
    line = json.dumps(said, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    try:
        _append(file, line, private=_is_private(run))
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise TraceError(file, f"can't be written: {why}", "copy the recording to comment on it") from error
    return comment


def _append(file: Path, line: bytes, *, private: bool) -> None:
    """Adds a line in one write; no link is followed, and a line that was cut short ends first."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(file, flags, 0o600 if private else 0o666)
    try:
        size = os.fstat(descriptor).st_size
        torn = bool(size) and os.pread(descriptor, 1, size - 1) != b"\n"
        os.write(descriptor, (b"\n" if torn else b"") + line)
    finally:
        os.close(descriptor)


def _is_private(run: Run) -> bool:
    """Whether the recordings are for their owner alone."""
    try:
        mode = run.traces[0].source.path.stat().st_mode
    except OSError:
        return True
    return not mode & (stat.S_IRWXG | stat.S_IRWXO)


def ships(file: Path) -> bool:
    """Whether this is a folder of the samples."""
    from tracetui import samples

    return any(file.resolve().is_relative_to(Path(place).resolve()) for place in samples.__path__)
