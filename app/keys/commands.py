"""Declares every command once; bindings, footer, help page and palette are made from this list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from textual.binding import Binding, BindingType

from tracetui.app import tabs
from tracetui.app.keys.keymap import UNBOUND, Command, Remapped, remap
from tracetui.app.settings.theme import THEMES
from tracetui.app.tabs import TABLES, TABS
from tracetui.app.text.exit_codes import UsageError

TABLE_PARTS = ("view", "counted", "table", "tree")
NEED_ROWS = ("Table", "Tree", "Move", "Copy and save")
"""Groups of commands that work on the rows in view."""


def tab_key(number: int) -> str:
    """Returns the key of a tab, counted from 1: the registry's default or the user's own."""
    tab = TABS[number - 1].id
    shown = next((c.shown for c in COMMANDS if c.id == f"tab.{tab}"), "")
    return shown.split()[0] if shown else ""


def _go(tab: tabs.Tab) -> Command:
    return Command(f"tab.{tab.id}", tab.key, tab.key, f"Go to {tab.title}", "Go", f"tab('{tab.id}')", "app", rank=12)


_GROUPED = tabs.that_can(tabs.GROUP)
_LAUNCHES = tabs.that_can(tabs.LAUNCHES)
_IN_TIMELINE = tabs.that_can(tabs.TIMELINE)
_DIFF = frozenset({"diff"})
_OVERVIEW = frozenset({"overview"})
_TABS_OF = {
    **{name: frozenset({name}) for name in ("overview", "findings", "diff", "sweep", "ranks", "timeline", "runs")},
    "view": TABLES, "table": TABLES, "counted": tabs.that_can(tabs.UNITS), "tree": frozenset({"modules"}),
    "lanes": frozenset({"timeline"}),
}  # fmt: skip
"""The tabs in which a command works, by where it is bound; all tabs for those of the application."""

_DECLARED: tuple[Command, ...] = (
    *map(_go, TABS),
    Command("tab.next", "tab", "Tab", "Next tab", "Go", "next_tab(1)", "app", palette=False),
    Command("tab.previous", "shift+tab", "Shift+Tab", "Previous tab", "Go", "next_tab(-1)", "app", palette=False),
    Command("go.in", "enter", "Enter", "Open what is inside the row, or its details", "Go", "drill", "view",
            footer="open", rank=10),
    Command("go.back", "escape", "Esc", "Close the details, go back, or clear the filter", "Go", "back", "view",
            rank=11, palette=False),
    Command("go.gaps", "H", "H", "Why the GPU is idle: gaps by cause and by where the host was", "Go", "gaps", "app",
            rank=44),
    Command("go.return", "ctrl+o", "Ctrl+O", "Back to the previous place: tab, depth, filter, run", "Go", "come_back",
            "app", rank=12),
    Command("app.undo", "backspace", "Bksp", "Undo: the range, filter, order, grouping, silencing or start over", "Go",
            "undo", "app", rank=46),
    Command("app.redo", "ctrl+r", "Ctrl+R", "Redo what was undone", "Go", "redo", "app"),
    Command("go.lines", "f", "f", "Lines of the program that launch this kernel", "Go", "members('lines')", "view",
            _LAUNCHES, rank=12),
    Command("go.modules", "m", "m", "Modules that launch this kernel", "Go", "members('modules')", "view", _LAUNCHES,
            rank=15),
    Command("go.operators", "p", "p", "Operators that launch this kernel", "Go", "members('operators')", "view",
            _LAUNCHES),
    Command("move.down", "down,j", "j ↓", "Down", "Move", "move(1)", "table", palette=False),
    Command("move.up", "up,k", "k ↑", "Up", "Move", "move(-1)", "table", palette=False),
    Command("move.half_down", "ctrl+d", "Ctrl+D", "Half a page down", "Move", "half_page(1)", "table", palette=False),
    Command("move.half_up", "ctrl+u", "Ctrl+U", "Half a page up", "Move", "half_page(-1)", "table", palette=False),
    Command("move.page_down", "pagedown,ctrl+f", "PgDn", "A page down", "Move", "page(1)", "table", palette=False),
    Command("move.page_up", "pageup,ctrl+b", "PgUp", "A page up", "Move", "page(-1)", "table", palette=False),
    Command("move.home", "home,g", "g Home", "First row", "Move", "goto(0)", "table", palette=False),
    Command("move.end", "end,G", "G End", "Last row", "Move", "goto(-1)", "table", palette=False),
    Command("page.down", "down,j", "j ↓", "Scroll down", "Move", "scroll_down", "overview", rank=5, palette=False),
    Command("page.up", "up,k", "k ↑", "Scroll up", "Move", "scroll_up", "overview", palette=False),
    Command("page.home", "home,g", "g Home", "To the top", "Move", "scroll_home", "overview", palette=False),
    Command("page.end", "end,G", "G End", "To the bottom", "Move", "scroll_end", "overview", palette=False),
    Command("tree.expand", "right,l", "l →", "Expand; in the icicle: move right", "Tree", "expand", "tree",
            palette=False),
    Command("tree.collapse", "left,h", "h ←", "Collapse, or go to the parent; in the icicle: move left", "Tree",
            "collapse", "tree", palette=False),
    Command("tree.toggle", "space", "Space", "Expand or collapse; in the icicle: show instances separately", "Tree",
            "fold", "tree", footer="expand", rank=12, palette=False),
    Command("tree.chain", "asterisk", "*", "Expand down to the first fork", "Tree", "expand_chain", "tree"),
    Command("tree.all", "plus", "+", "Expand everything below", "Tree", "expand_all", "tree"),
    Command("tree.none", "minus", "-", "Collapse everything", "Tree", "collapse_all", "tree"),
    Command("table.next", "v", "v", "Next table of this tab, and the list of them", "Table", "next_table(1)", "view",
            rank=11),
    Command("table.previous", "V", "V", "Previous table of this tab", "Table", "next_table(-1)", "view"),
    Command("table.filter", "slash", "/", "Filter as you type", "Table", "filter", "view", footer="filter", rank=14,
            line="/"),
    Command("page.filter", "slash", "/", "Filter the tables of all tabs", "Table", "filter", "app", _OVERVIEW,
            footer="filter", rank=49, line="/"),
    Command("sort.choose", "s", "s", "Sort by a column, named by a part of its title; again: reverse", "Table", "sort",
            "view", footer="sort", rank=16, line="sort by:"),
    Command("sort.next", "greater_than_sign", ">", "Sort by the next column", "Table", "sort_by(1)", "table"),
    Command("sort.previous", "less_than_sign", "<", "Sort by the previous column", "Table", "sort_by(-1)", "table"),
    Command("sort.reverse", "r", "r", "Reverse the order", "Table", "reverse", "table"),
    Command("table.columns", "c", "c", "Choose columns: show, hide", "Table", "columns", "view", footer="columns",
            rank=40),
    Command("table.names", "n", "n", "Short, full or raw names", "Table", "names", "view", footer="names", rank=30),
    Command("table.detail", "d,i", "d i", "Details of the row", "Table", "detail", "view", footer="details", rank=20),
    Command("detail.down", "full_stop", ".", "Scroll the details down", "Table", "scroll_detail(3)", "view", rank=13,
            palette=False),
    Command("table.picture", "D", "D", "Draw: launches as a histogram; modules and ranges as an icicle, and back",
            "Table", "picture", "view", _LAUNCHES, rank=13),
    Command("launch.mark", "L", "L", "To the longest launch; again: the 95th percentile, the median", "Table",
            "launch_mark", "view", _LAUNCHES, rank=18),
    Command("detail.up", "comma", ",", "Scroll the details up", "Table", "scroll_detail(-3)", "view", palette=False),
    Command("table.group", "b", "b", "Next grouping: category, module, shape, stream, name; of gaps, cause", "Table",
            "group(1)", "counted", _GROUPED, footer="group", rank=15),
    Command("table.ungroup", "B", "B", "Previous grouping", "Table", "group(-1)", "counted", _GROUPED),
    Command("table.units", "u", "u", "Totals, per step or per call", "Table", "units", "counted", footer="per step",
            rank=18),
    Command("copy.name", "w", "w", "Copy the full name", "Copy and save", "copy_name", "view"),
    Command("copy.row", "y", "y", "Copy the row with header; for a finding, the command to run", "Copy and save",
            "copy_row", "view", rank=15),
    Command("copy.table", "Y", "Y", "Copy the table (tab-separated)", "Copy and save", "copy_table", "view"),
    Command("table.export", "e", "e", "Save (export) this table: .csv .json .parquet .md", "Copy and save", "export",
            "view", footer="save", rank=45, line="save as"),
    Command("view.comment", "W", "W", "Write, change or remove this row's comment in the run's folder", "Copy and save",
            "comment", "view", rank=47, line="comment"),
    Command("view.chart", "P", "P", "Save this view as a picture for a slide: .svg .png", "Copy and save",
            "save_picture", "view", rank=46, line="save as"),
    *(
        Command(f"{where}.chart", "P", "P", "Save this view as a picture for a slide: .svg", "Copy and save",
                "app.save_chart", where, line="save as")
        for where in tabs.NAMES
        if where not in TABLES
    ),
    *(
        Command(f"{where}.picture", "e", "e", "Save a picture of this view: .svg", "Copy and save", "app.picture",
                where, line="save as")
        for where in tabs.NAMES
        if where not in TABLES
    ),
    Command("timeline.left", "left,h,a", "h a ←", "Pan to earlier", "Timeline", "pan(-1)", "lanes", footer="pan",
            rank=12, palette=False),
    Command("timeline.right", "right,l,d", "l d →", "Pan to later", "Timeline", "pan(1)", "lanes", palette=False),
    Command("timeline.in", "w,plus,equals_sign", "w +", "Zoom in around the cursor", "Timeline", "zoom(1)", "lanes",
            footer="zoom", rank=11, palette=False),
    Command("timeline.out", "s,minus", "s -", "Zoom out", "Timeline", "zoom(-1)", "lanes", palette=False),
    Command("timeline.fit", "F,home", "F Home", "Show the whole recording", "Timeline", "fit", "lanes", footer="fit",
            rank=16),
    Command("timeline.event", "z", "z", "Zoom to the selected event", "Timeline", "fit_event", "lanes",
            footer="zoom to it", rank=21),
    Command("timeline.down", "down,j", "j ↓", "Next row", "Timeline", "row(1)", "lanes", palette=False),
    Command("timeline.up", "up,k", "k ↑", "Previous row", "Timeline", "row(-1)", "lanes", palette=False),
    Command("timeline.next_lane", "pagedown,ctrl+d,J", "J PgDn", "Next lane", "Timeline", "lane(1)", "lanes",
            palette=False),
    Command("timeline.previous_lane", "pageup,ctrl+u,K", "K PgUp", "Previous lane", "Timeline", "lane(-1)", "lanes",
            palette=False),
    Command("timeline.next", "full_stop", ".", "Next event of the row", "Timeline", "event(1)", "lanes", footer="next",
            rank=14, palette=False),
    Command("timeline.previous", "comma", ",", "Previous event of the row", "Timeline", "event(-1)", "lanes",
            palette=False),
    Command("timeline.next_same", "n", "n", "Next hit of the search, else next event of the same name in the lane",
            "Timeline", "same(1)", "timeline", footer="same name", rank=22),
    Command("timeline.previous_same", "N", "N", "Previous hit, or event of the same name", "Timeline",
            "same(-1)", "timeline"),
    Command("timeline.previous_hit", "", "", "Previous hit of the search, while there is one", "Timeline", "hit(-1)",
            "timeline", palette=False),
    Command("timeline.arrows", "semicolon", ";", "Show or hide the arrows of the selected event", "Timeline", "arrows",
            "lanes"),
    Command("timeline.follow", "f", "f", "Go from GPU work to its launch, and from a call to the work it launched",
            "Timeline", "follow", "timeline", footer="follow", rank=15),
    Command("timeline.rows", "enter", "Enter", "Go to the event's row in Kernels or Host", "Timeline", "rows",
            "timeline", footer="its row", rank=23),
    Command("timeline.details", "i", "i", "Everything about the selected event", "Timeline", "details", "timeline",
            footer="info", rank=13),
    Command("timeline.details_down", "greater_than_sign", ">", "Scroll the details down", "Timeline",
            "scroll_detail(3)", "timeline", palette=False),
    Command("timeline.details_up", "less_than_sign", "<", "Scroll the details up", "Timeline", "scroll_detail(-3)",
            "timeline", palette=False),
    Command("timeline.time", "t", "t", "Go to a time: 12.5ms, +3ms, -400us", "Timeline", "time", "timeline",
            footer="time", rank=26, line="go to (12.5ms, 1.2s, +3ms, -400us):"),
    Command("timeline.find", "slash", "/", "Search in all lanes by part of a name; n and N go on", "Timeline", "find",
            "timeline", footer="find", rank=24, line="find:"),
    Command("timeline.bookmark", "quotation_mark", "\"", "Set a bookmark at the cursor, or remove it", "Timeline",
            "bookmark", "timeline"),
    Command("timeline.to_bookmark", "apostrophe", "'", "Go to the next bookmark", "Timeline", "to_bookmark",
            "timeline"),
    Command("timeline.begin", "left_square_bracket", "[", "Mark the start of a range, at the start of the event",
            "Timeline", "mark('begin')", "timeline", footer="range", rank=12),
    Command("timeline.end", "right_square_bracket", "]", "Mark its end, at the end of the event: it restricts all tabs",
            "Timeline", "mark('end')", "timeline", rank=12),
    Command("timeline.area", "v", "v", "What ran in the marked range, by lane: calls, time, share", "Timeline", "area",
            "timeline", footer="what ran", rank=12),
    Command("timeline.ranks", "ampersand", "&", "Choose ranks whose lanes are shown together, on one clock", "Timeline",
            "ranks", "timeline"),
    Command("timeline.fold", "space", "Space", "Expand or collapse the lane", "Timeline", "fold", "lanes",
            footer="fold", rank=27),
    Command("timeline.pin", "underscore", "_", "Pin the lane to the top, or unpin it", "Timeline", "pin", "lanes",
            footer="pin", rank=28),
    Command("timeline.hide", "x", "x", "Hide the lane", "Timeline", "hide", "lanes", footer="hide", rank=29),
    Command("timeline.show", "X", "X", "Show hidden lanes again", "Timeline", "show_all", "lanes"),
    Command("timeline.copy", "y", "y", "Copy everything about the event", "Timeline", "copy", "timeline"),
    Command("timeline.save", "E", "E", "Save the marked range as a smaller Chrome trace", "Timeline", "app.save_range",
            "timeline", rank=11, palette=False, line="save as"),
    Command("range.save", "", "", "Save the marked range as a smaller Chrome trace", "Timeline", "save_range", "app"),
    Command("timeline.back", "escape", "Esc", "Close the details, or end the search or the restriction to the range",
            "Timeline", "back", "timeline", rank=10, palette=False),
    Command("go.timeline", "t", "t", "Show this launch in the timeline", "Go", "timeline", "view", _IN_TIMELINE,
            rank=12),
    Command("finding.silence", "x", "x", "Silence this finding, with the reason; one that is silenced: restore it",
            "Table", "silence", "findings", footer="silence", rank=15, line="because"),
    Command("diff.kernels", "", "", "Compare kernels", "Diff", "show_table('kernels')", "diff"),
    Command("diff.operators", "", "", "Compare operators", "Diff", "show_table('operators')", "diff"),
    Command("diff.modules", "", "", "Compare modules", "Diff", "show_table('modules')", "diff"),
    Command("diff.swap", "x", "x", "Swap A and B", "Diff", "swap_runs", "app", _DIFF, footer="swap", rank=32),
    Command("sweep.measure", "D", "D", "Chart the next number", "Sweep", "measure", "sweep", footer="chart", rank=15),
    Command("ranks.draw", "D", "D", "Draw the next number: steps, own GPU, waiting, idle, silence, arrivals", "Ranks",
            "draw", "ranks", footer="draw", rank=15),
    Command("ranks.beside", "x", "x", "Compare the rank with the median rank", "Ranks", "beside", "ranks",
            footer="compare", rank=12),
    Command("ranks.latest", "L", "L", "The collective that a rank came latest to; again: the next", "Ranks", "latest",
            "ranks", footer="latest call", rank=14),
    Command("run.open", "o", "o", "Open a run to compare with", "Runs", "open_other", "app", footer="compare", rank=48),
    Command("run.list", "A", "A", "List the open runs: A is in view, B is compared with it", "Runs", "runs", "app",
            rank=47),
    *(
        Command(f"runs.{action}", keys, shown, title, "In the list of runs", action, "runs", footer=label,
                palette=False)
        for action, keys, shown, title, label in (
            ("look", "enter", "Enter", "View this run (A)", "view"),
            ("compare_with", "c", "c", "Compare the run in view with this one (B)", "compare"),
            ("open", "o", "o", "Open another run", "open"),
            ("swap", "x", "x", "Swap A and B", "swap"),
            ("captures", "C", "C", "Compare all captures of the folder", "compare all"),
            ("close", "D,delete", "D Del", "Close this run", "close"),
            ("help", "question_mark,f1", "?", "Keys of this list", "help"),
            ("cancel", "escape", "Esc", "Back", "back"),
        )
    ),
    Command("run.afresh", "Z", "Z", "Start over: first tab, no filter, no range, tables in their default order", "Runs",
            "afresh", "app", rank=49),
    Command("run.rank", "R", "R", "Next rank of this run", "Runs", "next_rank", "app", rank=30),
    Command("run.kind", "S", "S", "Next tool's recording of this run", "Runs", "next_kind", "app", rank=31),
    Command("run.captures", "C", "C", "Compare all captures of the folder", "Runs", "captures", "app", rank=33),
    Command("load.stop", "escape", "Esc", "Stop reading and keep what was read; else end the range marked in Timeline",
            "Runs", "stop_loading", "app", rank=10, palette=False),
    Command("app.notes", "exclamation_mark", "!", "Show what was skipped, repaired or missing", "Runs", "notes", "app"),
    Command("app.help", "question_mark,f1", "?", "Help for this view", "Program", "help", "app", footer="help",
            rank=60),
    Command("query.ask", "colon", ":", "Ask the recording in SQL; the result is a table", "Go", "query", "app", rank=44,
            line=":"),
    Command("app.palette", "ctrl+p", "Ctrl+P", "Find a table, finding, kernel, module, step, run, setting or command",
            "Program", "command_palette", "app", footer="find", rank=62, palette=False),
    Command("source.edit", "ctrl+e", "Ctrl+E", "Open the row's or event's line in $EDITOR, if the file is here", "Go",
            "edit_source", "app", rank=46),
    Command("app.redraw", "ctrl+l", "Ctrl+L", "Redraw the screen", "Program", "redraw", "app"),
    Command("app.suspend", "ctrl+z", "Ctrl+Z", "Suspend and go back to the shell; fg returns here", "Program",
            "suspend_process", "app"),
    Command("app.theme", "", "", "Next theme", "Program", "next_theme", "app"),
    *(
        Command(f"theme.{name}", "", "", f"Theme {name}: {about}", "Program", f"theme('{name}')", "app")
        for name, about in THEMES.items()
    ),
    Command("app.low_bandwidth", "", "", "Low bandwidth on or off", "Program", "low_bandwidth", "app"),
    Command("app.quit", "q,ctrl+q,ctrl+c", "q", "Quit", "Program", "quit", "app", footer="quit", rank=70),
)  # fmt: skip
"""The commands, whose tabs are named only where the place that binds them does not tell."""

DEFAULTS = tuple(
    replace(command, tabs=command.tabs or _TABS_OF.get(command.where, frozenset())) for command in _DECLARED
)
"""The commands with their default keys."""

COMMANDS = DEFAULTS
"""The commands with the keys in force, as footer, help and palette show them."""


def use_keys(wishes: Mapping[str, Sequence[str]]) -> Remapped:
    """Gives commands the user's own keys by their ids, others their defaults; the result must be passed to Textual."""
    global COMMANDS
    remapped = remap(DEFAULTS, wishes) if wishes else Remapped(DEFAULTS, {}, ())
    COMMANDS = remapped.commands
    return remapped


def key(id: str) -> str:
    """Returns the key of a command as a text names it; ``Ctrl+P`` if the command has no key."""
    shown = next((c.shown for c in COMMANDS if c.id == id), "")
    return shown.split()[0] if shown else key("app.palette") if id != "app.palette" else "?"


def bindings(where: str) -> list[BindingType]:
    """Returns the bindings of one kind of widget with their default keys; Textual replaces them by the user's own."""
    return [
        Binding(c.keys or UNBOUND, c.action, c.title, show=False, id=c.id, priority=c.action.startswith("next_tab("))
        for c in DEFAULTS
        if c.where == where
    ]


def quits(key: str) -> bool:
    """Returns whether a key quits in dialogs too: Ctrl+Q, which means nothing in a list or a text."""
    return key == "ctrl+q" and any(c.id == "app.quit" and key in c.keys.split(",") for c in COMMANDS)


def is_bound(key: str) -> bool:
    """Returns whether a key does something in any tab."""
    return any(key in c.keys.split(",") for c in COMMANDS)


def meant(key: str, tab: str) -> Command | None:
    """Returns the command of a key in a tab; that of a view goes before one of the application."""
    having = [c for c in in_tab(tab) if c.where != "runs" and key in c.keys.split(",")]
    return next((c for c in having if c.where != "app"), having[0] if having else None)


def in_tab(tab: str) -> list[Command]:
    """Returns the commands that work in a tab, in the order of the registry."""
    return [c for c in COMMANDS if not c.tabs or tab in c.tabs]


def footer(tab: str, width: int, *, labels: dict[str, str] | None = None) -> list[tuple[str, str]]:
    """The (key, label) pairs that fit into `width` columns, the most important ones; an empty label leaves one out."""
    named = [(c, (labels or {}).get(c.id, c.footer)) for c in in_tab(tab) if c.shown]
    hints = sorted(((c.rank, c.shown.split()[0], label) for c, label in named if label), key=lambda hint: hint[0])
    # the last two (help and quit) always stay
    while len(hints) > 3 and sum(len(key) + len(label) + 3 for _, key, label in hints) > width:
        droppable = [hint for hint in hints if hint[0] < 60 or hint[0] == 62]
        hints.remove(max(droppable, key=lambda hint: hint[0] if hint[0] != 62 else 46))
    return [(key, label) for _, key, label in hints]


def elsewhere(key: str, tab: str, *, blank: bool) -> str:
    """Says why a key does nothing in a tab or its message (`blank`); empty if it does something or nothing anywhere."""
    meant = [command for command in COMMANDS if key in command.keys.split(",") and command.where != "runs"]
    here = [command for command in meant if not command.tabs or tab in command.tabs]
    if here:
        rows = all(command.where in TABLE_PARTS and command.group in NEED_ROWS for command in here)
        return "There are no rows here" if rows and here[0].id not in ("table.next", "table.previous") and blank else ""
    if not meant:
        return ""
    titles = [title for name, title in tabs.TITLES.items() if name in meant[0].tabs]
    where = "in tables" if meant[0].tabs == TABLES else f"in {', '.join(titles[:4])}"
    title = meant[0].title.partition(";")[0]
    return f"{meant[0].shown.split()[0]} works {where}: {title[:1].lower()}{title[1:]}"


def find_tab(name: str) -> str:
    """Returns the tab with this name, with a name that starts like this, or with this number.

    Raises:
        UsageError: no tab matches, or several do.
    """
    if name in tabs.BY_KEY:
        return tabs.BY_KEY[name]
    found = [tab for tab in tabs.NAMES if tab.startswith(name.lower())]
    if len(found) != 1:
        from tracetui.parsers.errors import instead

        raise UsageError(f"no tab {name!r}; {instead(name, tabs.NAMES)}")
    return found[0]
