"""What is open and what the numbers are about: the only state of the screen, and the cache of its analyses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, cast

from tracetui.analysis.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from pathlib import Path

    from tracetui.analysis.findings.config import Config
    from tracetui.analysis.selection import Selection
    from tracetui.parsers import Run, Trace

Side = Literal["a", "b"]
Names = Literal["short", "full", "raw"]
Per = Literal["total", "step", "call"]
Key: TypeAlias = "tuple[Hashable, int | None, str | None, Scope]"
PARTS_OF_B = frozenset({"diff", "comparable", "compared findings", ("b", "selection")})
"""Keys of cached analyses that change with run B."""
T = TypeVar("T")


@dataclass
class Session:
    """Run A, run B, their scope, the filter and the choices made on the way."""

    paths: tuple[Path, ...] = ()
    scope: Scope = field(default_factory=Scope)
    rank: int | None = None
    """The distributed rank in view; the first one where not chosen."""
    kind: str | None = None
    """The tool whose recording is in view (`TraceInfo.kind`); the run's main one where not chosen."""
    filter: str = ""
    """The filter in force on the main table of every tab."""
    ascii: bool = False
    names: Names = "short"
    """How names are written; raw is as the file has them, where that is not what the program's author wrote."""
    per: Per = "total"
    """What the tables' totals are of: the whole range, one of its steps, one call."""
    per_in_diff: Per = "step"
    """The same where two runs are compared."""
    grouped: dict[str, str] = field(default_factory=dict)
    """What a tab's rows are grouped by, where not by name."""
    runs: dict[Side, Run] = field(default_factory=dict)
    config: Config | None = None
    """The user's thresholds of rules, and which are silenced."""
    hidden: dict[str, frozenset[str]] = field(default_factory=dict)
    """Columns switched off, by page id."""
    pinned: dict[str, frozenset[str]] = field(default_factory=dict)
    """Columns asked for, by page id: they go before others where room is short."""
    range_words: str = ""
    """What the marked range is called, while `scope.window` restricts everything to it."""
    _results: dict[Key, object] = field(default_factory=dict, repr=False)
    _locks: dict[Key, Lock] = field(default_factory=dict, repr=False)
    _guard: Lock = field(default_factory=Lock, repr=False)

    def put(self, side: Side, run: Run) -> None:
        """Makes a run A or B; the analyses that it had a part in are forgotten."""
        self.runs[side] = run
        self.forget(only_b=side == "b")

    def forget(self, *, only_b: bool = False) -> None:
        """Drops cached analyses: all, or those that run B has a part in."""
        with self._guard:
            stale = [full for full in self._locks if not only_b or full[0] in PARTS_OF_B]
            for full in stale:
                self._results.pop(full, None)
                del self._locks[full]

    def swap(self) -> None:
        """Exchanges A and B."""
        self.runs = {"a": self.runs["b"], "b": self.runs["a"]}
        self.forget()

    def restrict(self, window: tuple[int, int] | None, words: str = "") -> None:
        """Restricts everything to a stretch of time, or nothing; what an earlier stretch gave is forgotten.

        Args:
            window: start and end, ns on the clock of run A's trace.
            words: what the stretch is called.
        """
        if self.scope.window is not None:
            with self._guard:
                for full in [full for full in self._locks if full[3].window is not None]:
                    self._results.pop(full, None)
                    del self._locks[full]
        self.scope = replace(self.scope, window=window)
        self.range_words = words if window is not None else ""

    def trace(self, side: Side = "a") -> Trace:
        """The trace in view: of the chosen rank and tool as far as the run has them, else the run's main one."""
        from tracetui.parsers.trace import main_of  # brings Polars, which the first paint does without

        traces = self.runs[side].traces
        if self.rank is not None:
            traces = tuple(trace for trace in traces if trace.info.rank == self.rank) or traces
        if self.kind is not None:
            traces = tuple(trace for trace in traces if trace.info.kind == self.kind) or traces
        return main_of(traces)

    def selection(self, side: Side = "a") -> Selection:
        """The trace in view restricted to the scope; one object for as long as neither changes."""
        from tracetui.analysis.selection import select

        trace = self.trace(side)
        # a range is marked on the clock of A
        scope = self.scope if side == "a" else replace(self.scope, window=None)
        return self.cached((side, "selection"), lambda: select(trace, scope))

    @property
    def has_steps(self) -> bool:
        """Whether there is a number per step."""
        return self.selection().steps.height > 0

    @property
    def per_step(self) -> bool:
        """Whether the tables' numbers are of the average step."""
        return self.per == "step" and self.has_steps

    def counted(self) -> Selection:
        """What the tables count: the selection; where they give numbers per step, what of it lies in steps."""
        from tracetui.analysis.selection import in_steps

        selection = self.selection()
        return self.cached("in steps", lambda: in_steps(selection)) if self.per_step else selection

    def of_counted(self, key: Hashable, compute: Callable[[Selection], T]) -> T:
        """The result of an analysis of what the tables count, computed once."""
        counted = self.counted()
        return self.cached(("in steps", key) if self.per_step else key, lambda: compute(counted))

    def cached(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The result of an analysis, computed once per run, rank, tool and scope; safe in threads."""
        full = (key, self.rank, self.kind, self.scope)
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
                # a run that was replaced meanwhile has no place left for it
                if self._locks.get(full) is lock:
                    self._results[full] = result
        return result

    @property
    def partial(self) -> bool:
        """Whether reading was stopped before the end of a file in view."""
        return any(trace.source.partial for run in self.runs.values() for trace in run.traces)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The tools whose recordings of run A have a time line of their own."""
        traces = self.runs["a"].traces if "a" in self.runs else ()
        return tuple(dict.fromkeys(trace.info.kind for trace in traces if trace.has_timeline))

    def next_kind(self) -> str | None:
        """Goes on to the recording of the run's next tool; null where there is but one."""
        kinds = self.kinds
        if len(kinds) < 2:
            return None
        current = self.trace().info.kind
        self.kind = kinds[(kinds.index(current) + 1) % len(kinds)] if current in kinds else kinds[0]
        return self.kind

    def next_rank(self) -> int | None:
        """Goes on to the run's next rank; null where there is but one."""
        ranks = self.runs["a"].ranks if "a" in self.runs else ()
        if len(ranks) < 2:
            return None
        current = self.trace().info.rank
        self.rank = ranks[(ranks.index(current) + 1) % len(ranks)] if current in ranks else ranks[0]
        return self.rank
