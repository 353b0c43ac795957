"""Options that several commands have, as base classes of their `Options`, and what is needed to use them."""

from __future__ import annotations

import sys
import traceback
from argparse import BooleanOptionalAction
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tracetui.app.cli.command import HIDDEN, option, switch
from tracetui.app.cli.values import count, memory_size, steps
from tracetui.app.settings.schema import COLORS, NAMES, THEMES, Settings
from tracetui.app.text.exit_codes import UsageError
from tracetui.app.text.tool_words import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tracetui.analysis.scope import Scope

FORMATS = ("text", "json", "markdown", "csv", "html")
PICTURES = ("svg", "png")
"""Formats of one picture, which `report` and `diff` have."""
TEXT_LIMIT = 10
"""Rows per list of a text or Markdown report, unless --limit says otherwise."""
HTML_LIMIT = 50
"""The same of a page, whose tables fold and sort."""
LAID_OUT = {"text": TEXT_LIMIT, "markdown": TEXT_LIMIT, "html": HTML_LIMIT}
"""The formats for people, which are laid out from one list of parts, with the rows per list of each."""
SAMPLES = {"vim_tiny": "vim_tiny", "vim_tiny_fp16": "vim_tiny_fp16", "topk_deit_sweep": "topk_deit_sweep"}
ANY_RUN = "the run to use if a folder holds several, by letter or name (default: the newest)"


@dataclass(kw_only=True)
class Request:
    """What of recordings is read, and how it is printed, if a command has no option for it."""

    steps: tuple[int, int] | None = None
    steps_by: str | None = None
    skip_steps: int = 0
    devices: Sequence[int] | None = None
    rank: int | None = None
    source: str | None = None
    """Restricts to the recordings of this tool (`TraceInfo.kind`)."""
    run: str | None = None
    """Which run of a folder that holds several, by letter or name."""
    format: str = "text"
    section: Sequence[str] | str | None = None
    by: str = "name"
    """What kernels are grouped by: one of `analysis.kernels.GROUPINGS`."""
    range_kernels: int | None = None
    """How many kernels text shows under each module or range of a tree; None for these alone."""
    all: bool = False
    """Whether every finding is printed with what it rests on; text and Markdown begin with five in short."""
    limit: int | None = None
    """The value as typed: None if not given, 0 for all rows."""
    output: Path | None = None
    force: bool = False
    """Whether `output` may replace a file, though never a recording."""
    ascii: bool = False
    charts: bool = True
    """Whether text, Markdown and HTML have charts."""
    max_tokens: int | None = None
    """How long a report may be, in estimated tokens; None for as long as it is."""
    cache: bool = True
    debug: bool = False
    """Whether a rule that fails shows its traceback; otherwise it abstains and says so."""

    @property
    def scope(self) -> Scope:
        """Returns what of a recording the numbers cover."""
        from tracetui.analysis.scope import Scope

        devices = frozenset(self.devices) if self.devices else None
        return Scope(steps=self.steps, skip_steps=self.skip_steps, devices=devices, steps_by=self.steps_by)

    @property
    def sections(self) -> tuple[str, ...] | None:
        """Returns the sections that were asked for; None for all."""
        if self.section is None:
            return None
        return (self.section,) if isinstance(self.section, str) else tuple(self.section)

    @property
    def on_error(self) -> Callable[[Exception], None] | None:
        """Returns what to do with the exception of a failed rule."""
        return traceback.print_exception if self.debug else None

    @property
    def rows(self) -> int | None:
        """Returns how many rows of each list are printed; None for all."""
        if self.limit is None:
            return LAID_OUT.get(self.format)
        return self.limit or None


def _ascii() -> Any:
    """Both ways, since a settings file may say the opposite; None if neither is given."""
    opposite = ("--no-ascii", HIDDEN, False)
    return switch("--ascii", default=None, help="ASCII characters only", opposite=opposite)


@dataclass(kw_only=True)
class Common(Request):
    """What nearly every command that reads recordings has."""

    color: str = option("--color", choices=COLORS, help="colours of the screen; reports have none (default: auto)")
    ascii: bool = _ascii()
    cache: bool = switch(
        "--cache",
        default=None,
        help=HIDDEN,
        opposite=("--no-cache", "do not use or fill the cache, and do not remember what was opened", False),
    )
    max_memory: int | None = option(
        "--max-memory",
        type=memory_size,
        metavar="SIZE",
        help="read no recording for which the program would need more, such as 8GB (default: what is free)",
    )
    export: bool = switch("--export", help="let nsys export reports of Nsight Systems (.nsys-rep), without asking")
    debug: bool = switch("--debug", default=HIDDEN, help="show a traceback if something goes wrong")


@dataclass(kw_only=True)
class Bare:
    """What a command has that reads no recording."""

    debug: bool = switch("--debug", default=HIDDEN, help=HIDDEN)


@dataclass(kw_only=True)
class Plain(Bare):
    """The same of one that prints more than a script."""

    last: ClassVar = True
    ascii: bool = _ascii()


@dataclass(kw_only=True)
class Covered(Request):
    """What the numbers cover."""

    group: ClassVar[tuple[str, ...]] = ("what the numbers cover",)

    steps: tuple[int, int] | None = option(
        "--steps", type=steps, metavar="FIRST-LAST", help="only these steps: 3 or 2-5"
    )
    steps_by: str | None = option(
        "--steps-by",
        metavar="NAME",
        help="the ranges of this name are the steps (default: the profiler's own, else those that hold most GPU work)",
    )
    skip_steps: int = option(
        "--skip-steps", type=count, default=0, metavar="N", help="leave out the first N steps (warm-up)"
    )
    source: str | None = option(
        "--source", choices=KINDS, metavar="KIND", help=f"only this tool's recordings of a run: {', '.join(KINDS)}"
    )
    rank: int | None = option("--rank", type=count, metavar="N", help="only this rank of a distributed run")
    devices: list[int] | None = option(
        "--device", type=count, action="append", metavar="N", help="only this GPU (repeatable)"
    )


@dataclass(kw_only=True)
class Recordings(Request):
    """Paths, which each command describes itself, and the recordings that ship with tracetui."""

    command: str = ""
    paths: list[Path] = field(default_factory=list)
    sample: str | None = option(
        "--sample",
        nargs="?",
        const="vim_tiny",
        choices=tuple(SAMPLES),
        metavar="NAME",
        help=f"a recording that ships with tracetui: {', '.join(SAMPLES)}",
    )

    def given_paths(self) -> tuple[Path, ...]:
        """Returns the paths to open: the sample first, then the given paths."""
        paths = list(self.paths)
        if not paths and isinstance(self.section, list):
            # `report --section kernels PATH`: argparse took the path as one more section.
            while len(self.section) > 1 and Path(self.section[-1]).exists():
                paths.insert(0, Path(self.section.pop()))
        if self.sample is not None:
            paths.insert(0, sample_path(self.sample))
        if not paths:
            raise UsageError(f"no path given; `tracetui {self.command} --sample` takes a recording that ships with it")
        return tuple(paths)


@dataclass(kw_only=True)
class Looks:
    """What the screen looks like."""

    group: ClassVar[tuple[str, ...]] = ("looks", "to make them permanent: `tracetui config --init`")
    last: ClassVar = True

    theme: str | None = option("--theme", choices=THEMES, help="colours: %(choices)s (default: auto)", metavar="NAME")
    names: str | None = option(
        "--names", choices=NAMES, help="how kernel names are shown: %(choices)s (default: short)"
    )
    low_bandwidth: bool | None = option(
        "--low-bandwidth",
        action=BooleanOptionalAction,
        help="use few colours and scroll tables by half pages (default: on over SSH)",
    )


def format_option(*formats: str, last: bool = False) -> Any:
    """Declares the form of what is printed."""
    return option("--format", choices=formats, default="text", help="default: %(default)s", last=last)


OUTPUT = "write to a file instead of standard output"
FORCE = "let --output replace a file, though never a recording"


@dataclass(kw_only=True)
class Printed(Request):
    """The form, length and place of what is printed."""

    last: ClassVar = True

    format: str = format_option(*FORMATS)
    limit: int | None = option(
        "--limit", type=count, metavar="N", help="rows per list; 0 for all (text shows 10, html 50, json all)"
    )
    output: Path | None = option("-o", "--output", type=Path, metavar="FILE", help=OUTPUT)
    force: bool = switch("--force", help=FORCE)
    charts: bool = option(
        "--no-charts", action="store_false", default=True, help="leave the charts out of text, Markdown and HTML"
    )


def sample_path(name: str) -> Path:
    """Returns the path of a recording that ships with tracetui."""
    from tracetui import samples

    return Path(samples.__path__[0], SAMPLES[name])


def check_there(paths: Sequence[Path]) -> None:
    """Raises an error for the first path where nothing is."""
    for path in paths:
        if not path.exists():
            from tracetui.parsers.errors import no_such

            raise no_such(path)


def warn(settings: Settings, *, unread: bool) -> None:
    """Prints on standard error which settings could not be used.

    Args:
        settings: the settings in force.
        unread: whether to name unreadable files too; false if the command does so when it reads thresholds.
    """
    from tracetui.app.text.fitting import printable

    for problem in settings.problems:
        if problem in settings.unread and not unread:
            continue
        print(f"tracetui: warning: {printable(problem)}", file=sys.stderr)
