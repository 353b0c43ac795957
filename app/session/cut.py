"""A stretch of a Chrome trace as a smaller one: what can be cut, what the part is called, and the range in force."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import format_bytes
from tracetui.app.text.paths import is_there
from tracetui.app.text.times import file_stretch, zero_of
from tracetui.app.text.tool_words import WORDS

if TYPE_CHECKING:
    from tracetui.parsers import Trace
    from tracetui.parsers.chrome.cut.cutting import Cut
    from tracetui.parsers.progress import Watch

CHROME = ("chrome", "jax")
"""Kinds of recordings that are Chrome traces."""
SUFFIXES = (".pt.trace.json", ".trace.json", ".json")


def refused(kind: str) -> str:
    """Why a recording of this kind can't be cut and what to do instead, in a line; empty where it can."""
    if kind in CHROME:
        return ""
    return f"only Chrome traces can be cut, and this is from {WORDS[kind].label}; {WORDS[kind].shorter}"


def cut_name(source: Path, words: str) -> Path:
    """What the part of a trace is called, in the working directory."""
    name = source.name.removesuffix(".gz")
    stem = next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)
    return Path(f"{stem}.cut-{words}.trace.json.gz")


def free_name(path: Path) -> Path:
    """The path, or the first numbered one beside it that is not there."""
    stem, _, rest = path.name.partition(".trace.json")
    number, free = 1, path
    while is_there(free):
        number += 1
        free = path.with_name(f"{stem}-{number}.trace.json{rest}")
    return free


def save_range(trace: Trace, window: tuple[int, int], watch: Watch) -> Cut:
    """Writes the range that is in force on the screen, beside no file that is there."""
    from tracetui.parsers.chrome.cut.cutting import cut

    zero = zero_of(trace)
    source = trace.source.path
    target = free_name(cut_name(source, file_stretch(window[0] - zero, window[1] - zero)))
    return cut(source, target, window, watch=watch)


def said(found: Cut) -> str:
    """What was written, in one line."""
    size = format_bytes(found.target_bytes)
    return f"wrote {found.target}: {size}, {found.kept:,} of {found.events:,} events"
