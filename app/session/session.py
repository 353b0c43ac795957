"""The only state of the screen: the open runs, what the numbers cover, and the cache of analyses."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypeVar, cast

from tracetui.analysis.scope import Scope
from tracetui.app.session.open_runs import OpenRun
from tracetui.app.text.fitting import letter_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from pathlib import Path

    import polars as pl

    from tracetui.analysis.findings.config import Config
    from tracetui.analysis.selection import Selection
    from tracetui.app.tables.totals import Per
    from tracetui.app.text.names import Names
    from tracetui.parsers import Run, Trace

Side = Literal["a", "b"]
Key: TypeAlias = "tuple[Hashable, int, int, int | None, str | None, Scope]"
"""The key of a cached analysis: what was computed, the readings of run A and (if used) B, rank, tool and scope."""
_SIDES: tuple[Side, Side] = ("a", "b")
PARTS_OF_B = frozenset({"diff", "comparable", "compared findings", ("b", "selection")})
"""Cached analyses that depend on run B."""
JUDGED = frozenset({"findings", "compared findings", "verdict"})
"""Cached analyses that depend on the settings of rules, beside those of sweeps."""
KEPT = 6
"""How many runs other than A and B stay in memory; any more are read again when needed."""
Columns: TypeAlias = tuple[frozenset[str], frozenset[str]]
"""Which columns of a page are hidden, and which were asked for."""
Arranged: TypeAlias = "dict[tuple[object, ...], tuple[tuple[str, bool] | None, str, Columns]]"
"""By tab and place of a page: its order (column, whether the largest comes first) and its own filter."""
T = TypeVar("T")


class State(NamedTuple):
    """What the screen shows of its runs, as far as keys change it: undo brings all of it back."""

    sides: dict[Side, str]
    """The letters of A and B."""
    rank: int | None
    kind: str | None
    scope: Scope
    range_words: str
    per: tuple[Per, Per]
    """What the totals cover, of one run and of two."""
    silenced: dict[str, str]
    grouped: dict[str, str]
    filter: str
    sorts: dict[str, tuple[str, bool]]
    """Of every page whose order is not its own."""
    arranged: Arranged
    """The order, the own filter and the columns of every page in view, by tab and place, with the page's id last."""

    @property
    def about(self) -> tuple[object, ...]:
        """Returns what the numbers of a page depend on, beside the run and what a tab groups its rows by."""
        return self.rank, self.kind, self.scope, self.per, self.silenced


@dataclass(frozen=True)
class Visit:
    """A place that the user has visited: a run, a tab, the position in it, and what was in force there."""

    tab: str
    numbers: tuple[int, int]
    """The readings of A and B (`OpenRun.number`); 0 if there was none."""
    state: State
    inside: object
    """The position in the tab (`View.place`)."""


@dataclass
class Session:
    """The open runs, which are A (in view) and B (compared), their scope, the filter and the choices made."""

    scope: Scope = field(default_factory=Scope)
    rank: int | None = None
    """The distributed rank in view; None is the first one."""
    kind: str | None = None
    """The tool whose recording is in view (`TraceInfo.kind`); None is the run's main one."""
    filter: str = ""
    """The filter in force on the main table of every tab."""
    ascii: bool = False
    names: Names = "short"
    """The form of names; raw is as the file has them, if that differs from what the program's author wrote."""
    per: Per = "total"
    """What the tables' totals cover: the whole range, one of its steps, or one call."""
    per_in_diff: Per = "step"
    """The same if two runs are compared."""
    grouped: dict[str, str] = field(default_factory=dict)
    """What a tab's rows are grouped by, if not by name."""
    open: dict[str, OpenRun] = field(default_factory=dict)
    """Every run of the list by its letter."""
    sides: dict[Side, str] = field(default_factory=dict)
    """The letters of A, the run in view, and of B, the one it is compared with."""
    config: Config | None = None
    """The user's rule thresholds, and which rules are silenced."""
    hidden: dict[str, frozenset[str]] = field(default_factory=dict)
    """Columns switched off, by page id."""
    pinned: dict[str, frozenset[str]] = field(default_factory=dict)
    """Columns that the user asked for, by page id; they have priority if space is short."""
    sorts: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """The initial sort column of a page and whether the largest comes first, if not the page's default."""
    asked: str = ""
    """The latest query whose result is a tab; empty before the first."""
    range_words: str = ""
    """The text for the marked range, while `scope.window` restricts everything to it."""
    _results: dict[Key, object] = field(default_factory=dict, repr=False)
    _locks: dict[Key, Lock] = field(default_factory=dict, repr=False)
    _guard: Lock = field(default_factory=Lock, repr=False)

    @property
    def runs(self) -> dict[Side, Run]:
        """Returns A and B, as far as they are read."""
        found = {side: self.open[letter].run for side, letter in self.sides.items() if letter in self.open}
        return {side: run for side, run in found.items() if run is not None}

    @property
    def run_names(self) -> dict[Side, str]:
        """Returns what A and B are called, with the folders that they are in where both have one name."""
        runs = dict(sorted(self.runs.items()))
        alike = len({run.name for run in runs.values()}) < len(runs)
        return {
            side: f"{run.path.absolute().parent.name}/{run.name}" if alike else run.name for side, run in runs.items()
        }

    @property
    def silenced(self) -> dict[str, str]:
        """Returns which rules and findings are silenced, with the reasons."""
        return {} if self.config is None else self.config.silenced

    def configure(self, config: Config) -> None:
        """Takes over other settings of rules; what was found by the former ones is found again."""
        self.config = config
        self._drop(lambda key: key[0] in JUDGED or (isinstance(key[0], tuple) and key[0][0] == "sweep"))

    def add(self, paths: tuple[Path, ...], *, origin: Path | None = None, label: str = "") -> OpenRun:
        """Adds a run to the list, under the first free letter."""
        letter = next(letter for letter in map(letter_of, range(len(self.open) + 1)) if letter not in self.open)
        entry = OpenRun(letter, paths, origin or paths[0], label)
        self.open[letter] = entry
        self.open = dict(sorted(self.open.items(), key=lambda item: (len(item[0]), item[0])))
        return entry

    def take(self, side: Side, letter: str) -> None:
        """Makes an open run A or B; swaps A and B if it already has the other role."""
        other: Side = "b" if side == "a" else "a"
        sides = {**self.sides, side: letter}
        if self.sides.get(other) == letter:
            if side in self.sides:
                sides[other] = self.sides[side]
            else:
                del sides[other]
        self._share(sides)

    def close(self, letter: str) -> None:
        """Removes a run from the list."""
        self._share({side: used for side, used in self.sides.items() if used != letter})
        self.forget(self.open.pop(letter).number)

    def spare(self) -> None:
        """Releases the least recently used runs, if too many are in memory."""
        idle = [e for e in self.open.values() if e.run is not None and e.letter not in self.sides.values()]
        for entry in sorted(idle, key=lambda entry: -entry.looked)[KEPT:]:
            self.forget(entry.number)
            entry.drop()

    def forget(self, number: int) -> None:
        """Drops the cached analyses that used a reading of a run."""
        self._drop(lambda key: number in key[1:3])

    def _drop(self, is_old: Callable[[Key], bool]) -> None:
        with self._guard:
            for full in list(filter(is_old, self._locks)):
                self._results.pop(full, None)
                del self._locks[full]

    def swap(self) -> None:
        """Exchanges A and B."""
        self._share({"a": self.sides["b"], "b": self.sides["a"]})

    def _share(self, sides: dict[Side, str]) -> None:
        """Assigns the roles A and B; a marked range and thresholds stay with their run."""
        before, after = self.open.get(self.sides.get("a", "")), self.open.get(sides.get("a", ""))
        if before is not None and before is not after:
            before.window, before.window_words = self.scope.window, self.range_words
        self.sides = sides
        latest = 1 + max((entry.looked for entry in self.open.values()), default=0)
        for letter in sides.values():
            self.open[letter].looked = latest
        if after is not None:
            self.config = after.config
        if before is not after:
            window, words = (after.window, after.window_words) if after is not None else (None, "")
            self.scope, self.range_words = replace(self.scope, window=window), words

    def frozen(self) -> Session:
        """Returns a copy that does not change when another run comes into view; both share the cache of analyses."""
        same = copy(self)
        same.open = {letter: copy(entry) for letter, entry in self.open.items()}
        same.sides = dict(self.sides)
        return same

    def restrict(self, window: tuple[int, int] | None, words: str = "") -> None:
        """Restricts everything to a time range, or ends that; drops the analyses of an earlier range.

        Args:
            window: start and end, ns on the clock of run A's trace.
            words: the text for the range.
        """
        if self.scope.window is not None:
            self._drop(lambda key: key[-1].window is not None)
        self.scope = replace(self.scope, window=window)
        self.range_words = words if window is not None else ""

    def trace(self, side: Side = "a") -> Trace:
        """Returns the trace in view: of the chosen rank and tool if the run has them, else the run's main one."""
        from tracetui.parsers.runs.run import main_of

        traces = self.runs[side].traces
        if self.rank is not None:
            traces = tuple(trace for trace in traces if trace.info.rank == self.rank) or traces
        if self.kind is not None:
            traces = tuple(trace for trace in traces if trace.info.kind == self.kind) or traces
        return main_of(traces)

    def selection(self, side: Side = "a") -> Selection:
        """Returns the trace in view restricted to the scope; the same object as long as neither changes."""
        from tracetui.analysis.matching.light_times import with_light_times
        from tracetui.analysis.selection import select

        trace = self.trace(side)
        # a range is marked on the clock of A
        scope = self.scope if side == "a" else replace(self.scope, window=None)
        return self.cached((side, "selection"), lambda: with_light_times(select(trace, scope)))

    @property
    def has_steps(self) -> bool:
        """Returns whether numbers per step exist."""
        return self.selection().steps.height > 0

    @property
    def per_step(self) -> bool:
        """Returns whether the tables' numbers are of the average step."""
        return self.per == "step" and self.has_steps

    def counted(self) -> Selection:
        """Returns what the tables count: the selection, or only its steps if numbers are per step."""
        from tracetui.analysis.selection import in_steps

        selection = self.selection()
        return self.cached("in steps", lambda: in_steps(selection)) if self.per_step else selection

    def of_counted(self, key: Hashable, compute: Callable[[Selection], T]) -> T:
        """Returns the result of an analysis of `counted`, computed once."""
        counted = self.counted()
        return self.cached(("in steps", key) if self.per_step else key, lambda: compute(counted))

    def cached(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Returns the result of an analysis, computed once per run, rank, tool and scope; thread-safe."""
        numbers = [self.open[self.sides[side]].number if side in self.sides else 0 for side in _SIDES]
        full = (key, numbers[0], numbers[1] if key in PARTS_OF_B else 0, self.rank, self.kind, self.scope)
        with self._guard:
            if full in self._results:
                return cast("T", self._results[full])
            lock = self._locks.setdefault(full, Lock())
        with lock:
            with self._guard:
                if full in self._results:
                    return cast("T", self._results[full])
            result = compute()
            with self._guard:
                # if the run was replaced in the meantime, the result is not cached
                if self._locks.get(full) is lock:
                    self._results[full] = result
        return result

    @property
    def filled_tabs(self) -> frozenset[str]:
        """Returns the tabs that run A has something for, that of a second run, and that of a query if one was asked."""
        found = self.cached("filled tabs", self._filled) if "a" in self.runs else frozenset()
        return found | ({"diff"} if "b" in self.sides else set()) | ({"query"} if self.asked else set())

    def _filled(self) -> frozenset[str]:
        # imported here because they import Polars
        from tracetui.analysis.base.names import of_kinds
        from tracetui.analysis.ranges import containing_rows
        from tracetui.parsers.runs.run import sweep_folder

        run, trace = self.runs["a"], self.trace()
        host, device = trace.host, trace.device

        def told(values: pl.Series) -> bool:
            return values.null_count() < values.len()

        has = {
            "kernels": device.height > 0,
            "operators": of_kinds(host["kind"], "operator").any(),
            "host": host.height > 0,
            "modules": bool(containing_rows(host).size)
            or of_kinds(host["kind"], "module").any()
            or told(device["scope"]),
            # without counters there is a roofline from shapes
            "counters": bool(run.of_kind("ncu")) or (told(host["input_shapes"]) and device.height > 0),
            "memory": trace.memory.height > 0 or any(one.memory.height for one in run.of_kind("memory_snapshot")),
            "sweep": sweep_folder(run) is not None,
            "timeline": trace.has_timeline and host.height + device.height > 0,
            "collectives": any(one.collectives.height for one in run.traces),
            "ranks": len(run.ranks) > 1,
        }
        return frozenset(tab for tab, filled in has.items() if filled)

    @property
    def partial(self) -> bool:
        """Returns whether reading was stopped before the end of a file in view."""
        return any(trace.source.partial for run in self.runs.values() for trace in run.traces)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Returns the tools whose recordings of run A have a time line of their own."""
        traces = self.runs["a"].traces if "a" in self.runs else ()
        return tuple(dict.fromkeys(trace.info.kind for trace in traces if trace.has_timeline))

    def next_kind(self) -> str | None:
        """Switches to the recording of the run's next tool and returns it; None if there is only one."""
        kinds = self.kinds
        if len(kinds) < 2:
            return None
        current = self.trace().info.kind
        self.kind = kinds[(kinds.index(current) + 1) % len(kinds)] if current in kinds else kinds[0]
        return self.kind

    def next_rank(self) -> int | None:
        """Switches to the run's next rank and returns it; None if there is only one.

        A rank that was not read is returned without switching: reading it comes first.
        """
        ranks = self.runs["a"].ranks if "a" in self.runs else ()
        if len(ranks) < 2:
            return None
        current = self.trace().info.rank
        rank = ranks[(ranks.index(current) + 1) % len(ranks)] if current in ranks else ranks[0]
        if rank not in self.runs["a"].unread:
            self.rank = rank
        return rank
