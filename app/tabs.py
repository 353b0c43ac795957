"""Declares the tabs, one record each: title, key, what can be done in it, where its view is. Data only."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

TABLE = "table"
"""The tab shows tables: rows that can be opened, sorted, filtered, copied and saved."""
GROUP = "group"
"""Its rows can be grouped."""
UNITS = "units"
"""Its totals can be per step or per call."""
LAUNCHES = "launches"
"""A row opens kernel launches, also as a histogram, and the modules and operators that launched them."""
TIMELINE = "timeline"
"""The event of a row can be shown in the timeline."""
OWN_FILTER = "own filter"
"""Its tables have a filter of their own, in place of the one that all tabs share."""


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab of the screen."""

    id: str
    title: str
    short: str
    """A shorter title for narrow terminals."""
    key: str
    view: str
    """``module:class`` below `tracetui.app.views`; imported on the first visit, since views bring Polars with them."""
    can: frozenset[str] = frozenset()
    """What can be done in it, and so which keys it has: `TABLE`, `GROUP`, …"""


def _rows(*abilities: str) -> frozenset[str]:
    return frozenset((TABLE, *abilities))


TABS = (
    Tab("overview", "Overview", "Over", "1", "overview:OverviewView"),
    Tab("kernels", "Kernels", "Kern", "2", "kernels:KernelsView", _rows(GROUP, UNITS, LAUNCHES, TIMELINE)),
    Tab("operators", "Operators", "Ops", "3", "operators:OperatorsView", _rows(GROUP, UNITS, LAUNCHES, TIMELINE)),
    Tab("host", "Host", "Host", "4", "host:HostView", _rows(GROUP, UNITS, TIMELINE)),
    Tab("modules", "Modules", "Mod", "5", "modules:ModulesView", _rows(UNITS, LAUNCHES, TIMELINE)),
    Tab("counters", "Counters", "Ctrs", "6", "counters:CountersView", _rows()),
    Tab("memory", "Memory", "Mem", "7", "memory:MemoryView", _rows()),
    Tab("findings", "Findings", "Find", "8", "findings:FindingsView", _rows(OWN_FILTER)),
    Tab("diff", "Diff", "Diff", "9", "diff:DiffView", _rows(UNITS)),
    Tab("sweep", "Sweep", "Swp", "0", "sweep:SweepView", _rows()),
    Tab("timeline", "Timeline", "Time", "T", "timeline:TimelineView"),
    Tab("collectives", "Collectives", "Coll", "I", "collectives:CollectivesView", _rows(GROUP, UNITS, TIMELINE)),
    Tab("ranks", "Ranks", "Rank", "U", "ranks:RanksView", _rows(TIMELINE)),
    Tab("query", "Query", "SQL", "Q", "query:QueryView", _rows(OWN_FILTER)),
)
"""In the order of the screen."""
NAMES = tuple(tab.id for tab in TABS)
BY_NAME = {tab.id: tab for tab in TABS}
BY_KEY = {tab.key: tab.id for tab in TABS}
ALWAYS = frozenset({"overview", "findings"})
"""The tabs that say something of every run; the bar has others where the run fills them (`Session.filled_tabs`)."""
TITLES = {tab.id: tab.title for tab in TABS}


def shown(active: str, filled: Collection[str]) -> tuple[Tab, ...]:
    """Returns the tabs of the bar: those that every run has, those that this one fills, and the active one."""
    return tuple(tab for tab in TABS if tab.id in ALWAYS or tab.id == active or tab.id in filled)


def that_can(*abilities: str) -> frozenset[str]:
    """Returns the tabs in which all of this can be done."""
    return frozenset(tab.id for tab in TABS if tab.can.issuperset(abilities))


TABLES = that_can(TABLE)
"""Tabs that show tables."""
