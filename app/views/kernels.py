"""Kernels: what ran on the GPU, by name; inside, their launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracetui.analysis.kernels import kernels, known_groupings
from tracetui.analysis.memops import memops
from tracetui.analysis.tables.kernels import MEMOPS
from tracetui.app.views.common.counted import CountedView, in_units
from tracetui.app.views.common.launch_picture import PicturedView
from tracetui.app.views.common.page import Page
from tracetui.app.views.drill import inside_row, member_page
from tracetui.app.views.kernel_pages import group_page, kernel_page

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class KernelsView(CountedView, PicturedView):
    """One row per kernel name, or per group of kernels; copies and fills beside them."""

    TAB = "kernels"
    TABLES = ("kernels", "copies")
    GROUPS = True

    def groupings(self) -> tuple[str, ...]:
        """What this recording says of its kernels."""
        return self.session.of_counted("kernel groupings", known_groupings)

    def root(self) -> Page:
        """All kernels in scope, or all copies and fills."""
        session = self.session
        if self.kind == "copies":
            page = Page.of(
                MEMOPS,
                session.of_counted("memops", memops),
                note=session.counted().describe() + session.counted().work_words,
                empty="No memcpy or memset in this trace: \nnothing was copied or filled on the GPU.",
            )
            return in_units(session, page)
        if self.grouped_by != "name":
            return group_page(session, self.grouped_by)
        return kernel_page(session, session.of_counted("kernels", kernels), title="Kernels")

    def inside(self, page: Page, row: Mapping[str, Any]) -> Callable[[], Page] | None:
        """A kernel's launches; the kernels of a module or an operator that launches it."""
        return inside_row(self.session, page, row)

    def members(self, page: Page, row: Mapping[str, Any], kind: str) -> Page | None:
        """A kernel's operators or modules."""
        return member_page(self.session, row, kind) if page.id == "kernels" else None
