"""One module per tab: an analysis function and a table that shows its frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracetui.app.views.common.base import View


def view_class(tab: str) -> type[View]:
    """The view of a tab; imported only now, because views bring Polars with them.

    Raises:
        KeyError: there is no such tab.
    """
    if tab == "overview":
        from tracetui.app.views.overview import OverviewView

        return OverviewView
    if tab == "kernels":
        from tracetui.app.views.kernels import KernelsView

        return KernelsView
    if tab == "operators":
        from tracetui.app.views.operators import OperatorsView

        return OperatorsView
    if tab == "host":
        from tracetui.app.views.host import HostView

        return HostView
    if tab == "modules":
        from tracetui.app.views.modules import ModulesView

        return ModulesView
    if tab == "counters":
        from tracetui.app.views.counters.counters import CountersView

        return CountersView
    if tab == "memory":
        from tracetui.app.views.memory.memory import MemoryView

        return MemoryView
    if tab == "findings":
        from tracetui.app.views.findings import FindingsView

        return FindingsView
    if tab == "diff":
        from tracetui.app.views.diff import DiffView

        return DiffView
    if tab == "sweep":
        from tracetui.app.views.sweep import SweepView

        return SweepView
    if tab == "timeline":
        from tracetui.app.views.timeline import TimelineView

        return TimelineView
    raise KeyError(tab)
