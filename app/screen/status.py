"""The texts of the header and the notes page about the open runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from tracetui.analysis.base.number_format import format_bytes
from tracetui.app.keys import commands
from tracetui.app.text.fitting import cell_width, fit, fit_all, printable
from tracetui.app.text.tool_words import WORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tracetui.app.session.session import Session
    from tracetui.parsers import Run, Trace
    from tracetui.parsers.trace import Note

    Own = Callable[[str], str]
    """Converts one of our own texts to what the terminal can show."""

EXAMPLE_WIDTH = 200
NARROW = 72
LEAST_LEFT = 20
"""Columns that the names of the runs keep."""


def header_left(session: Session, own: Own, width: int) -> Text:
    """Returns program, runs (with letters if there are several) and GPU; names are cut to `width` columns."""
    text = Text().append(" tracetui", "bold")
    runs = session.runs
    letters = session.sides
    if "a" not in runs:
        first = next(iter(session.open.values()), None)
        text.append(own("  " + " ".join(fit(printable(str(path)), 60) for path in first.paths) if first else ""))
    elif "b" in runs:
        names = [printable(name) for name in session.run_names.values()]
        if sum(map(cell_width, names)) > width - 24:
            text = Text(" ")  # both names are worth more than the program's
        a, b = fit_all(names, width - 14 - text.cell_len)
        text.append(own(f"{'  ' if text.cell_len > 1 else ''}A({letters['a']}) {a}   B({letters['b']}) {b}"))
    else:
        letter = f"({letters['a']}) " if len(session.open) > 1 else ""
        text.append(own(f"  {letter}{printable(runs['a'].name)}"))
        gpu = next((device.name for device in session.trace().info.devices if device.name), "")
        text.append(own(f"  {printable(gpu)}"), "dim")
    return text


def rank_words(run: Run, rank: int | None = None) -> str:
    """``rank 3 of 8``, ``rank 3 of 128, 2 here`` where some are missing; of no rank ``8 ranks``, ``2 of 128 ranks``."""
    here = len(run.ranks)
    whole = max(here, max((file.world_size or 0 for file in run.rank_files), default=0))
    if rank is None:
        return f"{here} of {whole} ranks" if whole > here else f"{here} ranks"
    return f"rank {rank} of {whole}" + (f", {here} here" if whole > here else "")


def header_right(session: Session, loading: Mapping[str, str], own: Own, width: int = NARROW) -> Text:
    """Returns what is being read, how many runs and which rank are in view, and how many notes there are.

    Args:
        session: holds the open runs.
        loading: the reading progress by run letter.
        own: converts one of our own texts to what the terminal can show.
        width: columns of the terminal; below `NARROW` tools have their short names.
    """
    parts: list[str] = []
    least: list[str] = []
    """What goes first where there is no room."""
    if "a" in session.runs:
        parts += [f"{letter}: {share}" for letter, share in loading.items()][:1]
    if "a" in session.runs:
        run = session.runs["a"]
        if len(session.open) > len(session.sides):
            parts.append(f"{len(session.sides)} of {len(session.open)} runs ({commands.key('run.list')})")
            least.append(parts[-1])
        if run.summaries_in is not None:
            parts.append(f"summaries of {rank_words(run)}")
        elif len(run.ranks) > 1:
            parts.append(rank_words(run, session.trace().info.rank))
        if len(session.kinds) > 1:
            words = WORDS[session.trace().info.kind]
            parts.append(f"{words.label if width >= NARROW else words.short} (S)")
            least.insert(0, parts[-1])
        if session.range_words:
            parts.append(f"{session.range_words} ({commands.key('timeline.back')})")
        if session.partial:
            parts.append("PARTIAL")
        notes = len(session.trace().notes) + len(run.warnings)
        notes += 0 if run.manifest is None else len(run.manifest.power.notes)
        if notes:
            parts.append(f"{notes} note{'s' if notes > 1 else ''} ({commands.key('app.notes')})")
    while least and cell_width(" · ".join(parts)) > width - LEAST_LEFT:
        parts.remove(least.pop(0))
    return Text(own(" · ".join(parts) + " "), "bold" if session.partial or session.range_words else "")


def notes_text(session: Session, own: Own) -> Text:
    """Lists every file, how much of it was read, and what was skipped, repaired or missing."""
    text = Text()
    for side, run in sorted(session.runs.items()):
        mark = f"{side.upper()}  " if "b" in session.runs else ""
        for trace in run.traces:
            _notes_of(text, mark, trace, own)
        for one in run.passes[:1]:
            text.append(own(f"{printable(str(one.path))}\n"), "bold")
            text.append("   the light pass of the same run: GPU work and API calls alone\n")
        if run.manifest is not None and run.manifest.power.notes:
            _notes_of_manifest(text, mark, run, own)
        for warning in run.warnings:
            text.append(own(f"   warning: {printable(warning)}\n"))
    return text


def _notes_of(text: Text, mark: str, trace: Trace, own: Own) -> None:
    source = trace.source
    text.append(own(f"{mark}{printable(str(source.path))}\n"), "bold")
    text.append(
        f"   {source.events_parsed:,} of {source.events_total:,} events parsed,"
        f" {format_bytes(source.bytes)}{', PARTIAL: reading was stopped' if source.partial else ''}\n"
    )
    if trace.replays is not None:
        from tracetui.analysis.attribution.launch_calls import replayed_words

        text.append(own(f"   graphs: {printable(replayed_words(trace.replays))}\n"))
    _list(text, trace.notes, own)
    if not trace.notes:
        text.append("   nothing was skipped, repaired or missing\n")


def _notes_of_manifest(text: Text, mark: str, run: Run, own: Own) -> None:
    """Lists what of a run's run.json could not be used; it lies beside the recordings."""
    from tracetui.parsers.runs.manifest import FILE

    assert run.manifest is not None
    text.append(own(f"{mark}{printable(str(run.traces[0].source.path.with_name(FILE)))}\n"), "bold")
    _list(text, run.manifest.power.notes, own)


def _list(text: Text, notes: Iterable[Note], own: Own) -> None:
    for note in notes:
        text.append(own(f"   {note.count:,} {note.kind}: {printable(note.reason)}\n"))
        if note.example:
            text.append(own(f"      such as {fit(printable(note.example), EXAMPLE_WIDTH)}\n"))
