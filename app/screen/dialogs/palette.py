"""The palette (Ctrl+P): commands, tables, settings, runs, and what has a name in the run in view."""

from __future__ import annotations

import asyncio
import re
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.widgets import Input

from tracetui.app import tabs
from tracetui.app.keys import commands
from tracetui.app.settings.schema import SCHEMA
from tracetui.app.text.fitting import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from textual.dom import DOMNode
    from textual.screen import Screen

    from tracetui.app.keys.keymap import Command
    from tracetui.app.screen.history import Navigation
    from tracetui.app.screen.keyboard import Keyboard
    from tracetui.app.screen.opening import RunLoader
    from tracetui.app.screen.preferences import Preferences
    from tracetui.app.screen.shell import Shell
    from tracetui.app.session.session import Session
    from tracetui.app.settings.schema import Option


class Place(NamedTuple):
    """A table of a tab, or a tab without tables."""

    tab: str
    table: str
    """As the view calls it; empty for the whole tab."""
    words: str = ""
    """What nsys, ncu, TensorBoard, Perfetto and HTA call it, or what it answers."""


PLACES = (
    Place(
        "overview",
        "",
        "summary step time breakdown limit bottleneck diagnosis gpu utilization performance serving phases"
        " prefill decode tokens per second token batch throughput",
    ),
    Place("kernels", "kernels", "cuda_gpu_kern_sum gpu kernels top kernel view occupancy tensor cores"),
    Place("kernels", "copies", "memcpy memset transfers htod dtoh dtod cuda_gpu_mem_time_sum bandwidth pcie"),
    Place("operators", "operators", "aten ops torch operator view framework"),
    Place("operators", "by shape", "input shapes group by input shape"),
    Place("host", "functions", "python functions cpu time profile hotspots"),
    Place("host", "lines", "source lines samples py-spy flame graph hot lines"),
    Place("host", "stacks", "call stack flame graph call tree top-down bottom-up backtrace"),
    Place("host", "critical path", "critical path analysis longest path what limits"),
    Place("host", "API calls", "cuda_api_sum cuda api runtime driver cudaLaunchKernel synchronize"),
    Place("host", "launches", "launch latency queue delay overhead cuda_kern_exec_sum launch statistics"),
    Place("host", "ranges", "nvtx nvtx_pushpop_sum user annotations record_function markers"),
    Place("host", "gaps", "idle time gpu idle bubbles starvation gaps idle time breakdown"),
    Place("host", "steps", "iterations step times iteration time per step durations slowest outlier table"),
    Place("host", "lanes", "threads streams lanes overlap concurrency utilization"),
    Place("host", "threads", "osrt scheduling context switches running blocked"),
    Place("host", "CPU samples", "cpu sampling ip samples hotspots"),
    Place("host", "OS calls", "osrt_sum os runtime syscalls system calls"),
    Place("host", "GPU metrics", "gpu metrics sampling sm active dram bandwidth nvlink"),
    Place("host", "unified memory", "um page faults managed memory migrations"),
    Place("modules", "modules", "nn.module layers module view model tree icicle"),
    Place("modules", "ranges", "nvtx ranges projected nvtx_gpu_proj_sum"),
    Place("counters", "kernels", "ncu metrics speed of light sol details occupancy"),
    Place("counters", "launches", "ncu results each launch registers shared memory block grid"),
    Place("counters", "rules", "ncu rules advice estimated speedup"),
    Place("counters", "lines", "ncu source page sass lines stalls sampling hotspots"),
    Place("counters", "metrics", "ncu raw metrics page counters"),
    Place("counters", "files", "ncu reports recordings sources"),
    Place("counters", "roofline", "roofline arithmetic intensity flops bandwidth roof peak"),
    Place("memory", "by stack", "allocations peak memory stack trace memory snapshot"),
    Place("memory", "by operator", "memory view allocations by operator"),
    Place("memory", "by module", "allocations by module layer"),
    Place("memory", "by range", "allocations by range nvtx"),
    Place("memory", "long-lived", "leaks long lived allocations memory timeline growth"),
    Place("memory", "steps", "memory timeline curve growth per step"),
    Place("memory", "segments", "fragmentation caching allocator reserved segments"),
    Place("memory", "out of memory", "oom cuda out of memory"),
    Place("findings", "findings", "advice recommendations rules expert system what to do"),
    Place("findings", "tried", "experiments proofs try prove measured changes"),
    Place("findings", "set aside", "suppressed silenced hidden"),
    Place("findings", "abstained", "not judged missing data"),
    Place("findings", "A and B", "findings compared"),
    Place("diff", "kernels", "compare trace diff regression"),
    Place("diff", "operators", "compare operators ops diff"),
    Place("diff", "modules", "compare modules layers"),
    Place("diff", "ranges", "compare nvtx ranges"),
    Place("diff", "waterfall", "waterfall bridge what makes the difference"),
    Place("diff", "step", "compare step time breakdown"),
    Place("diff", "conditions", "compare environment machine clocks versions"),
    Place("sweep", "points", "scaling batch size curve experiments"),
    Place("sweep", "variants", "sweep runs configurations"),
    Place("sweep", "findings", "sweep advice"),
    Place("sweep", "kinds", "sweep kernel categories"),
    Place("sweep", "counters", "sweep metrics ncu baselines"),
    Place("sweep", "captures", "models contexts forward backward attention"),
    Place("timeline", "", "trace view gantt events tracks perfetto chrome"),
    Place(
        "collectives", "collectives", "nccl communication allreduce all-reduce comm distributed bus bandwidth overlap"
    ),
    Place("collectives", "pairs", "send recv point to point peers"),
    Place("ranks", "ranks", "straggler slow rank distributed view load imbalance"),
    Place("ranks", "arrivals", "straggler late arrival skew"),
    Place("ranks", "waiting", "who waits for whom blocked synchronisation"),
    Place("ranks", "transfers", "links nvlink bandwidth slow link"),
    Place("ranks", "stages", "pipeline bubbles stages"),
    Place("query", "", "sql select query"),
)


LIMIT = 50
"""The maximum number of kernels, of modules and of steps offered at once."""
SHOWN_AFTER = 0.3
"""Seconds: a little more than Textual collects hits before it shows them, and less than Enter waits for them."""
MOST_ALIKE = 1000
"""Kernels of the same short names among which those offered are told apart."""


def words_of(query: str) -> list[str]:
    """Returns the words of what was typed; signs tell nothing apart, unless there is nothing else."""
    return re.findall(r"\w+", query.lower()) or query.lower().split()


def fits(text: str, words: list[str]) -> float:
    """Tells how well words fit a text: 0 if one is no part of it, 2 if each begins a word, 3 if they are its words."""
    lower = text.lower()
    if not words or not all(word in lower for word in words):
        return 0.0
    begun = sum(re.search(rf"(?<![^\W_]){re.escape(word)}", lower) is not None for word in words) / len(words)
    whole = " ".join(re.split(r"[\W_]+", lower))
    return 1 + begun + (f" {' '.join(words)} " in f" {whole} ")


class Rank(IntEnum):
    """What goes first of what fits equally well: a table's names are looked for more often than anything else."""

    STEP, MODULE, KERNEL, SETTING, RUN, ELSEWHERE, COMMAND, FINDING, TABLE = range(9)


class Named(NamedTuple):
    """Something of a recording that has a name: what it is, how it is shown, where it is."""

    rank: Rank
    noun: str
    label: str
    tab: str
    name: str
    searched: str
    """What the words are looked for in, where that is more than the label."""


def named(session: Session, words: list[str]) -> list[Named]:
    """Returns the steps, kernels and modules that have all of these words; may take seconds, so call it in a thread.

    Names are compared where they lie, and only those offered are made into texts.
    """
    import polars as pl

    from tracetui.analysis.kernels import kernels
    from tracetui.analysis.modules import modules
    from tracetui.app.text.names import tell_apart

    def having(frame: pl.DataFrame, *texts: pl.Expr) -> pl.DataFrame:
        text = pl.concat_str([each.cast(pl.String) for each in texts], separator=" ", ignore_nulls=True)
        lower = text.str.to_lowercase()
        each = [lower.str.contains(word, literal=True) for word in words]
        begins = [lower.str.contains(rf"(^|[\W_]){re.escape(word)}").cast(pl.Int8) for word in words]
        found = frame.with_columns(searched=text).filter(*each)
        return found.sort(pl.sum_horizontal(begins), descending=True, maintain_order=True).head(LIMIT)

    found: list[Named] = []
    steps = having(session.trace().steps.with_row_index("row"), pl.format("step {} {}", "index", "name"))
    for row, number, name, text in steps.select("row", "index", "name", "searched").iter_rows():
        found.append(Named(Rank.STEP, "step", f"{number}  {name}", "timeline", str(row), text))
    selection = session.selection()
    work = session.cached("kernels", lambda: kernels(selection))
    offered = having(work, pl.lit("kernel"), pl.col("short_name"), pl.col("name"))
    alike = work.filter(pl.col("short_name").is_in(offered["short_name"].to_list()))
    told = tell_apart(pl.concat([offered.drop("searched"), alike.head(MOST_ALIKE)]).unique("name", maintain_order=True))
    for (name, short), text in zip(told.select("name", "short_name").iter_rows(), offered["searched"], strict=False):
        found.append(Named(Rank.KERNEL, "kernel", str(short or name), "kernels", str(name), text))
    tree = session.cached("modules", lambda: modules(selection)).filter(pl.col("path") != "")
    for path, text in having(tree, pl.lit("module"), pl.col("path")).select("path", "searched").iter_rows():
        found.append(Named(Rank.MODULE, "module", str(path), "modules", str(path), text))
    return found


def _home(command: Command) -> str:
    """Returns the first tab that a command works in."""
    return next(tab for tab in tabs.NAMES if tab in command.tabs)


def still_cursor(palette: Screen[object], text: str = "") -> None:
    """Stops the cursor of a palette's line from blinking, says what is found there, and looks a text up."""
    for line in palette.query(Input):
        line.cursor_blink = False
        line.placeholder = "table, finding, kernel, step, setting, command"
        line.value = text


class Parts(Protocol):
    """The parts of the application that the palette uses."""

    session: Session
    shell: Shell
    keyboard: Keyboard
    runs: RunLoader
    navigation: Navigation
    preferences: Preferences


class EverythingProvider(Provider):
    """Offers commands and destinations."""

    @property
    def _parts(self) -> Parts:
        return cast("Parts", self.app)

    def _own(self, text: str) -> str:
        return self._parts.shell.own(text)

    def _commands(self) -> list[Command]:
        return [command for command in commands.in_tab(self._parts.shell.tab) if command.palette]

    def _elsewhere(self) -> list[Command]:
        """Returns the commands that only work in other tabs."""
        tab = self._parts.shell.tab
        here = {command.title for command in commands.in_tab(tab)}
        return [
            command
            for command in commands.COMMANDS
            if command.palette and command.tabs and tab not in command.tabs and command.title not in here
        ]

    def _recent(self) -> list[tuple[Path, str]]:
        """Returns recent recordings that still exist and are not open: path and name."""
        from tracetui.app.settings.recent import recents

        now = {entry.origin.absolute() for entry in self._parts.session.open.values()}
        return [
            (recent.path, str(recent.path))
            for recent in recents()
            if recent.path.absolute() not in now and recent.is_there
        ]

    def _do(self, command: Command) -> None:
        """Runs a command in its tab, after the palette has closed."""
        self.app.call_later(self._run, command)

    def _do_there(self, command: Command) -> None:
        """Goes to the tab that a command works in, and presses its key there, which waits for the tab's rows."""
        if self._parts.shell.tab not in command.tabs:  # it may have been on its way when this was looked up
            self._parts.navigation.to_tab(_home(command))
        if command.keys:
            self.app.call_later(self._parts.keyboard.press, command.keys.split(",")[0])
        else:
            self._do(command)

    async def _run(self, command: Command) -> None:
        if command.where != "app" and command.keys and self._parts.shell.awaits_rows:
            self._parts.keyboard.press(command.keys.split(",")[0])  # which waits, or opens its line at once
            return
        target: DOMNode | None = self.app
        if command.where in ("view", "counted", "findings", "diff", "sweep", "ranks", "timeline"):
            target = self._parts.shell.view
        elif command.where in ("table", "tree", "overview", "lanes"):
            target = self.app.focused
        if target is not None:
            await self.app.run_action(command.action, default_namespace=target)

    async def discover(self) -> Hits:
        """Offers all commands before anything is typed."""
        for command in self._commands():
            label = f"{command.title}  [{command.shown}]" if command.shown else command.title
            yield DiscoveryHit(self._own(label).replace("[", "\\["), partial(self._do, command), text=label)

    async def search(self, query: str) -> Hits:
        """Finds whatever has all the words that were typed: first what is known at once, then what is computed."""
        parts, words = self._parts, words_of(query)

        def hit(rank: Rank, text: str, go: Callable[[], object], searched: str = "") -> Hit | None:
            score = fits(f"{text} {searched}", words)
            shown = printable(parts.shell.own(text))
            return Hit(10 * score + rank - len(shown) / 1000, self._marked(shown, words), go, shown) if score else None

        offered = [*self._at_once(hit)]
        for each in offered[:-1]:
            yield each
        last = offered[-1] if offered else None
        run = parts.session.runs.get("a")
        computes = (named, self._findings) if run is None or run.summaries_in is None else (self._findings,)
        session = parts.session.frozen()
        for compute in computes if run is not None and words else ():
            work = asyncio.ensure_future(asyncio.to_thread(compute, session, words))
            try:
                # Textual shows what it has when one more comes after `SHOWN_AFTER`
                if last is not None and (await asyncio.wait((work,), timeout=SHOWN_AFTER))[1]:
                    yield last
                    last = None
                rows = await work
            except Exception as error:  # the rest of the palette works without
                parts.shell.log_error(error)
                continue
            finally:
                work.cancel()
            for row in rows:
                shown = f"{row.noun}  {row.label}"
                if found := hit(row.rank, shown, partial(self._go, row), row.searched):
                    yield found
        if last is not None:
            yield last

    def _at_once(self, hit: Callable[..., Hit | None]) -> Iterator[Hit]:
        """Finds commands, tables, settings and runs."""
        parts = self._parts
        offered: list[Hit | None] = []
        for command in self._commands():
            title = f"{command.title}  ({command.shown})" if command.shown else command.title
            offered.append(hit(Rank.COMMAND, title, partial(self._do, command)))
        for command in self._elsewhere():
            title = f"{command.title}  (in {tabs.TITLES[_home(command)]})"
            offered.append(hit(Rank.ELSEWHERE, title, partial(self._do_there, command)))
        for place in PLACES:
            title = " > ".join(filter(None, (tabs.TITLES[place.tab], place.table)))
            go = partial(parts.navigation.open_rows, place.tab, place.table, "")
            offered.append(hit(Rank.TABLE, title, go, place.words))
        for option in SCHEMA:
            about = f"setting  {option.key}: {option.about}"
            offered.append(hit(Rank.SETTING, about, partial(self._explain, option)))
        for path, label in self._recent():
            offered.append(hit(Rank.RUN, f"open  {label}", partial(parts.runs.open_run, "a", (path,))))
        if len(parts.session.open) > 1:
            for entry in parts.session.open.values():
                label = f"run  {entry.letter}  {entry.name}"
                offered.append(hit(Rank.RUN, label, partial(parts.runs.look_at, entry.letter)))
        return filter(None, offered)

    def _findings(self, session: Session, words: list[str]) -> list[Named]:
        """Returns all findings, also those set aside, by rule and title."""
        from tracetui.app.reports.finding_words import titled
        from tracetui.app.session.facts import session_findings

        found = session_findings(session, self._parts.shell.log_error)
        away = [(each.finding, "set aside") for each in (*found.suppressed, *found.silenced)]
        return [
            Named(Rank.FINDING, "finding", f"{each.id} {titled(each.title, each.doubted_by)}", table,
                  titled(each.title, each.doubted_by), "")
            for each, table in [*((each, "findings") for each in found.found), *away]
        ]  # fmt: skip

    def _explain(self, option: Option) -> None:
        """Shows what a setting is, its value, and where it is set."""
        from rich.text import Text

        from tracetui.analysis.findings.config import FILE, user_file
        from tracetui.app.screen.dialogs.common import TextScreen

        parts = self._parts
        lines = (
            f"{option.about}.",
            parts.preferences.in_force(option.key),
            f"Allowed: {option.allowed}",
            f"It is set in {user_file()}, in a project's {FILE}, or by {option.variable}.",
        )
        text = "\n\n".join(printable(parts.shell.own(line)) for line in lines)
        self.app.push_screen(TextScreen(f" Setting: {option.key}", Text(text)))

    def _go(self, row: Named) -> None:
        navigation = self._parts.navigation
        if row.rank is Rank.STEP:
            navigation.show_in_timeline("steps", int(row.name))
        elif row.rank is Rank.FINDING:
            navigation.open_rows("findings", row.tab, row.name)
        else:
            navigation.go_to(row.tab, row.name)

    def _marked(self, text: str, words: list[str]) -> Content:
        """Highlights the words; brackets in names are no markup."""
        shown, lower, style = Content(text), text.lower(), self.matcher("").match_style
        for word in words:
            if (at := lower.find(word)) >= 0:
                shown = shown.stylize(style, at, at + len(word))
        return shown
