"""Keeps what torch.compile wrote about its kernels, and where it broke its graphs and compiled again.

Inductor's cache is of this machine and may be emptied, so what a reader of the recording needs of it is copied: the
comments that name each kernel's source nodes, and the program's lines that each kernel was made from. No source code
is copied, and nothing is where the program did not compile.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

PROVENANCE = "INDUCTOR_PROVENANCE"
"""The variable by which Inductor remembers the lines that its kernels are made from."""
FOLDER = "inductor"
STACKS = "inductor_provenance_tracking_kernel_stack_traces.json"
MOST_GRAPHS, MOST_BYTES, MOST_FRAMES, MOST_PLACES = 256, 4 << 20, 16, 32
"""So many graphs are kept, of files of so many bytes; of a stack its innermost frames; and so many places are told."""
_OWN = f"/{__name__.partition('.')[0]}/"
"""In the files of this package, which the program did not write."""
_COMMENT = re.compile(r"# (?:kernel path: |(?:\w+ )*Source Nodes: )|\s+# \[Provenance debug handles\] (?P<call>\S+)")
_AT_WORK = re.compile(
    r"/torch/(?:_dynamo/convert_frame\.py:|_inductor/compile_fx\.py:\w*compile|_(?:dynamo|inductor)/.*:<module>$)"
)
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')


def kept(out: Path) -> dict[str, Any] | None:
    """Writes what is known into a folder of the run; returns where graphs broke and were compiled again.

    Returns:
        ``graph_breaks`` and ``recompilations``: lists of ``reason``, ``at`` (file:line, or null) and ``count``, the
        most frequent first. None where nothing was compiled.
    """
    dynamo = sys.modules.get("torch._dynamo.utils")
    metrics: list[Any] = getattr(dynamo, "get_compilation_metrics", list)()
    if not (metrics or getattr(dynamo, "counters", {}).get("frames")):  # of fullgraph=True no frames are counted
        return None
    compiled = [*_provenance(metrics)]
    stacks: dict[str, list[str]] = {}
    for one in compiled:
        for kernel, several in one.items():
            stacks[kernel] = [*dict.fromkeys([*stacks.get(kernel, ()), *several])]
    graphs = {name: text for name, text in _graphs(compiled) if text}
    if stacks or graphs:
        folder = out / FOLDER
        folder.mkdir(exist_ok=True)
        for name, text in graphs.items():
            (folder / name).write_text(text)
        if stacks:
            (folder / STACKS).write_text(json.dumps(stacks, indent=1) + "\n")
    return {
        "graph_breaks": _counted(map(_broken, getattr(dynamo, "graph_break_reasons", ()))),
        "recompilations": _counted(
            (_line(one.recompile_reason), _place(one.co_filename, one.co_firstlineno))
            for one in metrics
            if getattr(one, "recompile_reason", None)
        ),
    }


def is_under_way() -> bool:
    """Whether any thread is inside of torch.compile's work, its import or autotuning too, and not in what it made."""
    found = False
    for top in sys._current_frames().values():
        frame: Any = top
        while frame is not None and not found:
            found = _AT_WORK.search(f"{frame.f_code.co_filename}:{frame.f_code.co_name}") is not None
            frame = frame.f_back
    return found


def _provenance(metrics: list[Any]) -> Iterator[dict[str, list[str]]]:
    """Of each graph, by the call of a kernel the frames of the program that it was made from, the innermost last."""
    for one in metrics:
        told = getattr(one, "inductor_provenance", None) or ()
        for text in (told,) if isinstance(told, str) else told:
            found: dict[str, list[str]] = {}
            for kernel, stacks in json.loads(text).items():
                for stack in stacks:
                    frames = [
                        f'File "{_without_home(match["file"])}", line {match["line"]}, in {match["function"]}'
                        for match in _FRAME.finditer(stack)
                        if _OWN not in match["file"]
                    ]
                    if frames:
                        found.setdefault(kernel, []).append("\n".join(frames[-MOST_FRAMES:]))
            yield {kernel: [*dict.fromkeys(stacks)] for kernel, stacks in found.items()}


def _graphs(compiled: list[dict[str, list[str]]]) -> Iterator[tuple[str, str]]:
    """The files of the graphs that were loaded, with the comments alone that tell of their kernels.

    Calls are numbered from 1 in several graphs: behind each stands where it is from, by the graph that has all of them.
    """
    cache = getattr(sys.modules.get("torch._inductor.codecache"), "PyCodeCache", None)
    paths = dict.fromkeys(str(getattr(module, "__file__", "")) for module in getattr(cache, "modules", ()))
    for path in [*paths][-MOST_GRAPHS:]:
        file = Path(path)
        try:
            lines = file.read_text().splitlines() if file.stat().st_size <= MOST_BYTES else []
        except (OSError, ValueError):
            continue
        chosen = [match for match in map(_COMMENT.match, lines) if match]
        calls = {match["call"] for match in chosen if match["call"]}
        having = [stacks for stacks in compiled if calls and calls <= stacks.keys()]  # of a backward pass more are told
        alike = [stacks for stacks in having if len(stacks) == min(map(len, having))]
        text: list[str] = []
        for match in chosen:
            text.append(re.sub(r"(?<=^# kernel path: ).*/", "", match.string.lstrip()))
            several = dict.fromkeys(stack for stacks in alike for stack in stacks.get(match["call"], ()))
            text += [f"#  {stack}".replace("\n", "; ") for stack in several]
        yield file.name, "".join(f"{line}\n" for line in text)


def _broken(told: Any) -> tuple[str, str | None]:
    stack = getattr(told, "user_stack", None) or [None]
    return _line(told.reason), _place(getattr(stack[-1], "filename", None), getattr(stack[-1], "lineno", None))


def _line(text: object) -> str:
    return _without_home(str(text).strip().partition("\n")[0])


def _place(file: str | None, line: int | None) -> str | None:
    return None if file is None or line is None or _OWN in file else f"{_without_home(file)}:{line}"


def _without_home(text: str) -> str:
    home = str(Path.home())
    text = text.replace(f"{Path.cwd()}/", "")
    return text.replace(home, "~") if len(home) > 1 else text


def _counted(places: Any) -> list[dict[str, Any]]:
    counts = Counter(places).most_common(MOST_PLACES)
    return [{"reason": reason, "at": at, "count": count} for (reason, at), count in counts]
