"""Modules: the tree of nn.Modules with host and GPU time down to operators and kernels; inside, their kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.analysis.kernels import NOT_ATTRIBUTED
from tracetui.analysis.modules import modules
from tracetui.analysis.ranges import containing_rows
from tracetui.analysis.tables.program import MODULES
from tracetui.analysis.tree_kernels import module_tree_kernels, modules_to_kernels
from tracetui.app.session.measured import conventions
from tracetui.app.text.names import tell_work_apart
from tracetui.app.text.tool_words import WORDS
from tracetui.app.text.words import nothing
from tracetui.app.views.common.counted import CountedView, in_units
from tracetui.app.views.common.icicle_view import IcicleView
from tracetui.app.views.common.page import Page
from tracetui.app.views.drill import inside_row, member_page
from tracetui.app.views.ranges import tree_page

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tracetui.analysis.selection import Selection

TRAINING_COLUMNS = tuple(
    replace(column, priority=0 if column.name == "backward_device_ns" else column.priority)
    for column in MODULES.columns
)
"""The columns if GPU work belongs to a backward pass, which runs outside the modules' calls."""
INFERENCE_COLUMNS = tuple(column for column in MODULES.columns if column.name != "backward_device_ns")
HOST_COLUMNS = tuple(
    column
    for column in MODULES.columns
    if not column.name.startswith(("device", "backward", "percent", "kernels", "occupancy", "tensor"))
)
"""The columns if nothing ran on a GPU."""


class ModulesView(CountedView, IcicleView):
    """The module tree; the tree of ranges beside it, or in its place where the trace has no modules."""

    TAB = "modules"
    TABLES = ("modules", "ranges")

    def root(self) -> Page:
        """The tree of all modules in scope, or that of all ranges."""
        selection = self.session.counted()
        has_modules, has_ranges = self._known
        if self.kind == "ranges" and has_ranges:
            return tree_page(self.session, "Ranges as a tree")
        if not has_modules and has_ranges:
            ranges = WORDS[selection.trace.info.kind].ranges
            return tree_page(self.session, f"{ranges} (no nn.Module in this trace)", ranges)
        frame = self._modules()
        work = selection.timed.filter(pl.col("kind").is_in(["kernel", "memcpy", "memset", "graph"]))
        total = int(work["duration"].sum())
        if not has_modules:
            frame = frame.clear()
        trains = bool(frame["backward_device_ns"].sum())
        both = pl.sum_horizontal("device_total_ns", "backward_device_ns")
        share = (both / total * 100) if total else pl.lit(None, dtype=pl.Float64)
        base = f"% of all GPU time{', both passes' if trains else ''}"
        if total and has_modules:
            frame = self._to_kernels()
        page = Page.of(
            MODULES,
            frame.with_columns(share.alias("percent")),
            columns=(TRAINING_COLUMNS if trains else INFERENCE_COLUMNS) if total else HOST_COLUMNS,
            note=f"{selection.describe_totals()} · {base if total else 'no GPU work in this trace'}",
            noun="modules and kernels" if "row_kind" in frame.columns else MODULES.noun,
            empty=nothing("modules", selection.trace.info.kind),
        )
        return in_units(self.session, page)

    def _modules(self) -> pl.DataFrame:
        return self.session.of_counted("modules", lambda counted: modules(counted, conventions(self.session)))

    def _to_kernels(self) -> pl.DataFrame:
        """The modules with the operators and kernels below them."""

        def work(counted: Selection) -> pl.DataFrame:
            work = module_tree_kernels(counted, conventions(self.session))
            return tell_work_apart(modules_to_kernels(self._modules(), work))

        return self.session.of_counted("modules to kernels", work)

    @property
    def _known(self) -> tuple[bool, bool]:
        """Whether the trace has modules, and whether it has ranges."""
        own = self._modules()["path"].is_in(["", NOT_ATTRIBUTED])
        selection = self.session.selection()
        found = self.session.cached("has_ranges", lambda: containing_rows(selection.trace.host).size > 0)
        return not own.all(), found

    def footer_labels(self) -> dict[str, str]:
        """The other tree, where there is one."""
        labels = super().footer_labels()
        if self.state is not None and not all(self._known):
            labels["table.next"] = ""
        return labels

    def action_next_table(self) -> None:
        """Shows the other tree."""
        if self.state is not None and not all(self._known):
            self.host.say("This trace has one tree")
        else:
            super().action_next_table()

    def inside(self, page: Page, row: Mapping[str, Any]) -> Callable[[], Page] | None:
        """A module's or a range's kernels; a kernel's launches."""
        return inside_row(self.session, page, row)

    def members(self, page: Page, row: Mapping[str, Any], kind: str) -> Page | None:
        """A kernel's operators or modules."""
        return member_page(self.session, row, kind) if page.id == "kernels" else None
