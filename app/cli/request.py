"""The request of a report: the options that `open`, `report` and `diff` share."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tracetui.analysis.scope import Scope

TEXT_LIMIT = 10
"""Rows per list of a text or Markdown report, unless --limit says otherwise."""
HTML_LIMIT = 50
"""The same of a page, whose tables fold and sort."""
LAID_OUT = {"text": TEXT_LIMIT, "markdown": TEXT_LIMIT, "html": HTML_LIMIT}
"""The formats for people, which are laid out from one list of parts, with the rows per list of each."""


@dataclass(frozen=True, slots=True)
class Request:
    """The options of one command."""

    scope: Scope
    rank: int | None = None
    source: str | None = None
    """Restricts to the recordings of this tool (`TraceInfo.kind`)."""
    run: str | None = None
    """Which run of a folder that holds several, by letter or name."""
    format: str = "text"
    sections: tuple[str, ...] | None = None
    by: str = "name"
    """What kernels are grouped by: one of `analysis.kernels.GROUPINGS`."""
    range_kernels: int | None = None
    """How many kernels text shows under each module or range of a tree; null for these alone."""
    limit: int | None = None
    """The value as typed: null if not given, 0 for all rows."""
    output: Path | None = None
    force: bool = False
    """Whether `output` may replace a file, though never a recording."""
    ascii: bool = False
    charts: bool = True
    """Whether text, Markdown and HTML have charts."""
    max_tokens: int | None = None
    """How long a report may be, in estimated tokens; null for as long as it is."""
    cache: bool = True
    debug: bool = False
    """Whether a rule that fails shows its traceback; otherwise it abstains and says so."""

    @property
    def on_error(self) -> Callable[[Exception], None] | None:
        """Returns what to do with the exception of a failed rule."""
        return traceback.print_exception if self.debug else None

    @property
    def rows(self) -> int | None:
        """Returns how many rows of each list are printed; null for all."""
        if self.limit is None:
            return LAID_OUT.get(self.format)
        return self.limit or None
