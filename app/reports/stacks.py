"""The stacks that a sampler saw, whole, as other tools read them: collapsed lines and speedscope's JSON."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from tracetui.app.text.fitting import printable

if TYPE_CHECKING:
    from tracetui.analysis.host_lines import Path, Sampled
    from tracetui.parsers.runs.samples import Frame

_SPEEDSCOPE = "https://www.speedscope.app/file-format-schema.json"


def collapsed(of: Sampled) -> str:
    """A line per thread and stack, as flamegraph.pl and inferno read them; its number is µs of the sampled steps."""
    lines, threads = [], of.threads
    for (thread, stack), ns in _spent(of).items():
        words = [f"thread {threads[thread]}", *map(_words, stack)]
        lines.append(f"{';'.join(word.replace(';', ':') for word in map(printable, words))} {round(ns / 1e3)}")
    return "\n".join(sorted(lines)) + "\n"


def speedscope(of: Sampled, name: str) -> str:
    """A profile per thread, the one that runs the steps first; weights are ns within the sampled steps."""
    profiles = []
    spent = _spent(of)
    for number in sorted(range(len(of.threads)), key=lambda number: not of.file.threads[number].steps):
        mine = [([of.places[frame] for frame in stack], ns) for (at, stack), ns in spent.items() if at == number]
        if mine:
            profiles.append(
                {
                    "type": "sampled",
                    "name": printable(of.threads[number]),
                    "unit": "nanoseconds",
                    "startValue": 0,
                    "endValue": sum(ns for _, ns in mine),
                    "samples": [stack for stack, _ in mine],
                    "weights": [ns for _, ns in mine],
                }
            )
    frames = [
        {"name": printable(frame.function), "file": printable(frame.file), "line": frame.line}
        for frame in of.file.frames
    ]
    whole = {"$schema": _SPEEDSCOPE, "name": printable(name), "exporter": "tracetui", "activeProfileIndex": 0}
    return json.dumps({**whole, "shared": {"frames": frames}, "profiles": profiles}) + "\n"


def _spent(of: Sampled) -> Counter[tuple[int, Path]]:
    spent: Counter[tuple[int, Path]] = Counter()
    for thread, stack, ns in of.stays():
        spent[thread, stack] += ns
    return spent


def _words(frame: Frame) -> str:
    return f"{frame.function} ({frame.file}:{frame.line})"
