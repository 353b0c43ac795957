"""`tracetui cut`: copies part of a Chrome trace into a smaller one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import format_bytes
from tracetui.app.cli.command import option, switch
from tracetui.app.cli.options import Plain
from tracetui.app.cli.values import input_path, steps
from tracetui.app.session.cut import CHROME, cut_name, free_name, refused
from tracetui.app.text.exit_codes import DONE, UsageError
from tracetui.app.text.fitting import printable
from tracetui.app.text.times import file_stretch, parse_time, zero_of

if TYPE_CHECKING:
    from tracetui.parsers import Run, Trace
    from tracetui.parsers.chrome.cut import Cut


@dataclass(kw_only=True)
class Options(Plain):
    """Make a smaller Chrome trace of some steps or of a stretch of time: what lies in it byte for byte, with the
    launches of its GPU work, and all that the file says of the recording. Environment, paths and names in it stay:
    tracetui scrub takes them out.
    """

    path: Path = option(type=input_path, metavar="FILE", help="a Chrome trace, plain or gzipped")
    steps: tuple[int, int] | None = option(
        "--steps", type=steps, metavar="FIRST-LAST", help="these steps and their GPU work: 3 or 2-5"
    )
    begin: str | None = option("--from", metavar="TIME", help="start, as Timeline shows it: 3.1ms")
    end: str | None = option("--to", metavar="TIME", help="end: 9ms")
    output: Path | None = option(
        "-o", "--output", type=Path, metavar="OUT", help="the copy; .gz compresses (default: X.cut-....trace.json.gz)"
    )
    force: bool = switch("--force", help="replace an existing copy, though never the recording")
    cache: bool = option("--no-cache", action="store_false", default=True, help="do not use or fill the cache")


def chrome_trace(run: Run) -> Trace:
    """Returns the only Chrome trace of a run.

    Raises:
        UsageError: there is no Chrome trace, or there are several.
    """
    found = [trace for trace in run.traces if trace.info.kind in CHROME]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"{run.path} holds {len(found)} Chrome traces: give the file of one, such as {found[0].source.path}"
        )
    raise UsageError(f"{run.path}: {refused(run.main.info.kind)}")


def of_steps(trace: Trace, first: int, last: int) -> tuple[tuple[int, int], list[int]]:
    """Returns the time range that steps and their GPU work take, and when the steps start, in ns.

    Raises:
        UsageError: there are no such steps.
    """
    from tracetui.analysis.gpu.steps import step_slots
    from tracetui.analysis.scope import Scope
    from tracetui.analysis.selection import select

    sel = select(trace, Scope(steps=(first, last)))
    if not sel.steps.height:
        known = trace.steps["index"].to_list()
        there = f"it has steps {min(known)} to {max(known)}" if known else "it has no steps: give --from and --to"
        raise UsageError(f"{trace.source.path}: no step {first}{f' to {last}' if last != first else ''}; {there}")
    slots = step_slots(sel)
    marks = sel.steps["start"].to_list()
    ends = (sel.steps["start"] + sel.steps["duration"]).to_list()
    return (min(*marks, int(slots.start[0])), max(*ends, int(slots.end[-1]))), marks


def between(trace: Trace, begin: str | None, end: str | None) -> tuple[int, int]:
    """Returns the range between two times that the user wrote; a missing one is the start or end of the recording.

    Raises:
        UsageError: one of them is not a time, or nothing lies between them.
    """
    zero = zero_of(trace)
    ends = [frame.select((frame["start"] + frame["duration"]).alias("end"))["end"].max()
            for frame in (trace.host, trace.device) if frame.height]  # fmt: skip
    window = [zero, max((int(last) for last in ends if last is not None), default=zero) + 1]  # type: ignore[arg-type]
    for place, (text, flag) in enumerate(((begin, "--from"), (end, "--to"))):
        if text is None:
            continue
        time = parse_time(text, zero, zero)
        if time is None:
            raise UsageError(f"{flag} {text}: give a number and ns, us, ms or s, such as 12.5ms")
        window[place] = time
    if window[0] >= window[1]:
        raise UsageError("--from must be before --to")
    return window[0], window[1]


def run(options: Options) -> int:
    """Writes the part, and prints what was kept."""
    from tracetui.parsers.chrome.cut import cut
    from tracetui.parsers.runs.opening import open_path

    steps = options.steps
    if (steps is None) == (options.begin is None and options.end is None):
        raise UsageError("give either --steps 3-5, or --from 3.1ms --to 9ms")
    trace = chrome_trace(open_path(options.path, cache=options.cache))
    source = trace.source.path
    if steps is not None:
        window, marks = of_steps(trace, *steps)
        one = steps[0] == steps[1]
        words = f"step{steps[0]}" if one else f"steps{steps[0]}-{steps[1]}"
        range_words = f"in step {steps[0]}" if one else f"in steps {steps[0]} to {steps[1]}"
    else:
        window, marks = between(trace, options.begin, options.end), None
        zero = zero_of(trace)
        words = file_stretch(window[0] - zero, window[1] - zero)
        range_words = f"from {words.replace('-', ' to ')}"
    target = options.output if options.output is not None else free_name(cut_name(source, words))
    copy = cut(source, target, window, steps=marks, force=options.force)
    print("\n".join(cut_lines(copy, range_words, ascii=options.ascii)))
    return DONE


def cut_lines(found: Cut, words: str, *, ascii: bool) -> list[str]:
    """Returns lines that say what was written, what is in it, and why."""
    kept = found.choice
    parts = (
        (kept.in_range, words),
        (kept.within, "after the range, inside calls that start in it"),
        (kept.launches, "launches outside the range whose GPU work is inside, and the reverse"),
        (kept.around, "calls and ranges around those"),
        (kept.held, "earlier allocations that the range still holds, and later frees"),
        (kept.arrows, "other ends of arrows"),
        (kept.metadata, "about the recording"),
    )
    source, target = (printable(str(path), ascii=ascii) for path in (found.source, found.target))
    lines = [f"{source} -> {target} ({format_bytes(found.target_bytes)})"]
    lines += [f"  kept {found.kept:,} of {found.events:,} events, left out {found.events - found.kept:,}:"]
    lines += [f"  {count:>11,}  {what}" for count, what in parts if count]
    for note in found.notes:
        lines.append(f"  {note.kind}: {note.count:,} x {printable(note.reason, ascii=ascii)}")
    return lines
