"""Cuts part of a Chrome trace into a smaller one: which kinds can be cut, the file's name, the marked range."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import format_bytes
from tracetui.app.text.paths import is_there
from tracetui.app.text.times import file_stretch, zero_of
from tracetui.app.text.tool_words import WORDS

if TYPE_CHECKING:
    from tracetui.parsers import Trace
    from tracetui.parsers.chrome.cut import Cut
    from tracetui.parsers.progress import Watch

CHROME = ("chrome", "jax")
"""Kinds of recordings that are Chrome traces."""
SUFFIXES = (".pt.trace.json", ".trace.json", ".json")


def refused(kind: str) -> str:
    """Says in a line why this kind of recording can't be cut and what to do instead; empty if it can be cut."""
    if kind in CHROME:
        return ""
    return f"only Chrome traces can be cut, and this is from {WORDS[kind].label}; {WORDS[kind].shorter}"


def cut_name(source: Path, words: str) -> Path:
    """Returns the file name for the part of a trace, in the working directory."""
    name = source.name.removesuffix(".gz")
    stem = next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)
    return Path(f"{stem}.cut-{words}.trace.json.gz")


def free_name(path: Path) -> Path:
    """Returns the path, or the first numbered one beside it that does not exist."""
    stem, _, rest = path.name.partition(".trace.json")
    number, free = 1, path
    while is_there(free):
        number += 1
        free = path.with_name(f"{stem}-{number}.trace.json{rest}")
    return free


def range_name(trace: Trace, window: tuple[int, int]) -> Path:
    """Returns a name for a file with the part of a trace in a range, that no file in the working directory has."""
    zero = zero_of(trace)
    return free_name(cut_name(trace.source.path, file_stretch(window[0] - zero, window[1] - zero)))


def save_range(trace: Trace, window: tuple[int, int], target: Path, watch: Watch, *, force: bool) -> Cut:
    """Writes a range of a trace; with `force`, over a file that is there."""
    from tracetui.parsers.chrome.cut import cut

    return cut(trace.source.path, target, window, force=force, watch=watch)


def said(found: Cut) -> str:
    """Says in one line what was written."""
    size = format_bytes(found.target_bytes)
    return f"wrote {found.target}: {size}, {found.kept:,} of {found.events:,} events"
