"""Diff: two runs per step, by impact."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from tracetui.analysis.base.number_format import format_ns, format_percent, format_signed_ns
from tracetui.analysis.compare.comparable import Comparable, comparable
from tracetui.analysis.compare.compared_passes import RECORDED
from tracetui.analysis.compare.diff import PART_WORDS, Diff, diff, kernels_inside
from tracetui.analysis.selection import Selection, select
from tracetui.analysis.tables.comparison import CONDITIONS
from tracetui.analysis.tables.registry import COMPARED
from tracetui.analysis.tables.table import Field
from tracetui.app.keys import commands
from tracetui.app.reports.content.diff import SIGNS, comparable_words, partners, plain_value, with_waits
from tracetui.app.tables import totals
from tracetui.app.tables.totals import Per
from tracetui.app.text.fitting import printable, wrapped
from tracetui.app.text.names import tell_apart
from tracetui.app.text.words import nothing
from tracetui.app.views.common.counted import CountedView, filled
from tracetui.app.views.common.page import Page
from tracetui.parsers.names.kernel_names import short_name


class DiffView(CountedView):
    """Kernels, operators, modules and the waterfall of two runs."""

    TAB = "diff"
    ABOVE = True
    COMPARES = True
    USUAL_PER = "step"
    _verdict: Comparable | None = None
    _seen = ""
    """The smallest change that such recordings show, in a few words."""
    BINDINGS = commands.bindings("diff")
    TABLES = ("kernels", "operators", "modules", "ranges", "waterfall", "step", "conditions")

    @property
    def per(self) -> Per:
        """Returns what the numbers cover: by default one step, unless neither run has steps."""
        per = self.session.per_in_diff
        return "total" if per == "step" and not self.has_steps else per

    @per.setter
    def per(self, per: Per) -> None:
        self.session.per_in_diff = per

    @property
    def has_steps(self) -> bool:
        """Returns whether a run has steps; a run without steps counts as one step."""
        return "b" in self.session.runs and any(self.session.selection(side).steps.height for side in ("a", "b"))

    def reload(self) -> None:
        """Computes the difference, or says how to open a second run."""
        if "b" in self.session.runs:
            super().reload()
            return
        self._computing = ""
        self._stack.clear()
        problem = self.host.failure("b")
        name = printable(self.session.runs["a"].name) if "a" in self.session.runs else "this run"
        again = next((entry for entry in self.session.open.values() if entry.remark), None)
        key = commands.key("run.open")
        if again is not None and not problem:
            problem = f"{again.name} was B last time: {key}, then Enter, reads it again."
        self.blank(
            (f"{printable(problem)}\n\n" if problem else "") + f"There is no second run to compare {name} with.\n\n"
            f"{key:<19}chooses one from the folder of this run, or takes a path\n"
            "tracetui open A B  opens both at once"
            if not self.host.is_loading("b")
            else "Reading the second run …"
        )
        self.host.refresh_lines()
        self.call_after_refresh(self.take_focus)

    def action_show_table(self, kind: str) -> None:
        """Shows one of the comparisons, once there is a second run."""
        if "b" in self.session.runs:
            super().action_show_table(kind)
        else:
            self.host.say(f"There is no second run to compare: {commands.key('run.open')} opens one")

    def _sides(self) -> tuple[Selection, Selection]:
        # a range is marked on the clock of A: compared are the whole runs
        whole = replace(self.session.scope, window=None)
        return select(self.session.trace("a"), whole), select(self.session.trace("b"), whole)

    @property
    def base(self) -> str:
        """Which steps of both are compared."""
        return ", ".join(f"{side} {of.describe()}" for side, of in zip("AB", self._sides(), strict=True))

    def root(self) -> Page:
        """One of the comparisons."""
        session = self.session
        result = self._result()
        kind = self.kind
        self._verdict, self._seen = self._comparable(), _seen(result)
        if kind == "step":
            rows = with_waits(result.split.rows(named=True), result.waiting.rows(named=True))
            frame = pl.DataFrame(
                [{**row, "what": PART_WORDS[row["part"]]} for row in rows],
                schema={**result.split.schema, "what": pl.String},
            )
        elif kind == "conditions":
            frame = _conditions(self._verdict)
        elif kind == "waterfall":
            frame = result.waterfall.with_columns(
                (pl.col("count_effect_ns") + pl.col("mean_effect_ns")).alias("delta_ns")
            )
        else:
            frame = getattr(result, kind)
            line = _step_line(result)
            page = self._compared(kind, kind.capitalize(), frame, line, result.steps_of(kind))
            return replace(page, brief=_step_line(result, brief=True))
        # reports of Nsight Compute hold single launches
        of_launches = all(session.trace(side).info.kind == "ncu" for side in ("a", "b"))
        return Page.of(
            LAYOUTS[kind],
            frame,
            unit="per step" if kind == "waterfall" and (self.has_steps or not of_launches) else "",
            note=_step_line(result, interval_too=kind == "step"),
            brief=_step_line(result, brief=True),
            empty=_nothing_in_both(kind, session.trace("a").info.kind),
        )

    def _result(self) -> Diff:
        found: Diff = self.session.cached("diff", lambda: diff(*self._sides()))
        return found

    def _compared(self, kind: str, title: str, frame: pl.DataFrame, note: str, steps: tuple[int, int]) -> Page:
        """Rows of both runs side by side; inside a module, an operator or a category, its kernels."""
        per = self.per
        return Page.of(
            LAYOUTS[kind],
            compared(_as_tree(frame) if kind == "modules" else _with_partners(tell_apart(frame)), per, steps),
            title=title,
            unit=totals.WORDS[per] or "in all",
            columns=filled(tuple(_told(column, per) for column in LAYOUTS[kind].columns), frame),
            saved_as=f"diff_{kind}_{'total' if per == 'total' else f'per_{per}'}",
            note=note,
            empty=_nothing_in_both(kind, self.session.trace("a").info.kind),
        )

    def inside(self, page: Page, row: Mapping[str, Any]) -> Callable[[], Page] | None:
        """The kernels of a module, an operator or a category, compared."""
        of = INSIDE.get(page.id)
        if of is None:
            return None
        name = str(row["category" if of == "categories" else "name"])

        def work() -> Page:
            frame = kernels_inside(*self._sides(), of, name)
            title = name.rpartition("/")[2] if of == "modules" else name
            note = f"{format_ns(float(frame['a_ns'].sum()))} → {format_ns(float(frame['b_ns'].sum()))} per step"
            steps = self._result().steps_of("waterfall" if of == "categories" else of)
            page = self._compared("kernels", title, frame, note if frame.height else "", steps)
            return replace(page, empty=f"No kernels of {printable(name)} in either run: Esc goes back.")

        return work

    def _comparable(self) -> Comparable:
        session = self.session
        a, b = session.runs["a"], session.runs["b"]
        return session.cached(
            "comparable",
            lambda: comparable(session.trace("a"), session.trace("b"), manifests=(a.manifest, b.manifest)),
        )

    def above(self, width: int, height: int) -> list[str]:
        """The verdict, and how many rows were added, removed and changed."""
        text = _said(self._verdict) if self._verdict is not None else ""
        if self.state is not None and "status" in self.state.page.frame.columns:
            statuses = self.state.page.frame["status"].to_list()
            counts = {word: statuses.count(word) for word in SIGNS}
            words = ", ".join(f"{count:,} {word}" for word, count in counts.items())
            if len(text) + len(words) + 5 > width:  # the same as the column of signs has
                words = " ".join(f"{SIGNS[word]}{count:,}" for word, count in counts.items())
            text += f" · {words}"
        lines, more = (
            wrapped(self.host.own(printable(one)), max(width - 2, 1)) for one in (text, f"{text} · {self._seen}")
        )
        # it costs no row of the table, except where it is what the table is about
        if self._seen and (self.kind == "step" or len(more) == len(lines)):
            lines = more
        return [f" {line}" for line in lines]

    def footer_labels(self) -> dict[str, str]:
        """The comparison that comes next."""
        labels = super().footer_labels()
        if "b" not in self.session.runs:
            return {**labels, "run.open": "choose a run", "table.next": "", "diff.swap": ""}
        labels["run.open"] = ""
        return labels


def _with_partners(frame: pl.DataFrame) -> pl.DataFrame:
    """Short names of kernels with those that replaced them, ``sgemm_64x64 → nvjet_tst``, and those of B."""
    if "a_names" not in frame.columns:
        return frame
    others = [None if name is None else short_name(name) for name in frame["b_name"]]
    names = [
        partners(short, ours, theirs) if ours else short
        for short, ours, theirs in frame.select("short_name", "a_names", "b_names").iter_rows()
    ]
    return frame.with_columns(pl.Series("short_name", names, pl.String), pl.Series("b_short_name", others, pl.String))


def _as_tree(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of modules depth first, siblings in their order, with ``depth``; ``short_name`` is the end of a path."""
    rows = {path: row for row, path in enumerate(frame["name"])}
    below: dict[str, list[str]] = {}
    for path in rows:
        above = path.rpartition("/")[0]
        while above and above not in rows:
            above = above.rpartition("/")[0]
        below.setdefault(above, []).append(path)
    order, short, depths = [], [], []
    waiting = [(path, path, 0) for path in reversed(below.get("", []))]
    while waiting:
        path, name, depth = waiting.pop()
        order.append(rows[path])
        short.append(name)
        depths.append(depth)
        waiting += [(inner, inner[len(path) + 1 :], depth + 1) for inner in reversed(below.get(path, []))]
    told = {"short_name": pl.Series(short, dtype=pl.String), "depth": pl.Series(depths, dtype=pl.Int64)}
    return frame[order].with_columns(**told, row_kind=pl.lit("module"))


def compared(frame: pl.DataFrame, per: Per, steps: tuple[int, int]) -> pl.DataFrame:
    """Rows of a `Diff` in all, per step or per call, with ``delta_percent``; the largest difference first.

    Calls stay those of a step where times are of a call. What a run never calls has neither a time per call nor a
    difference.

    Args:
        frame: a_ns, b_ns, delta_ns, a_calls and b_calls per step.
        per: what the numbers are to be of.
        steps: how many steps A and B have.
    """
    a_ns, b_ns, a_calls, b_calls = (pl.col(name) for name in ("a_ns", "b_ns", "a_calls", "b_calls"))
    if per == "total":
        frame = frame.with_columns(a_ns * steps[0], b_ns * steps[1], a_calls * steps[0], b_calls * steps[1])
    elif per == "call":
        frame = frame.with_columns(
            pl.when(a_calls > 0).then(a_ns / a_calls).alias("a_ns"),
            pl.when(b_calls > 0).then(b_ns / b_calls).alias("b_ns"),
        )
    if per != "step":
        frame = frame.with_columns(delta_ns=b_ns - a_ns)
    if per != "step" and "depth" not in frame.columns:  # a tree stays one
        frame = frame.sort(pl.col("delta_ns").abs(), "name", descending=[True, False], nulls_last=True)
    return frame.with_columns(
        pl.when(pl.col("a_ns") > 0).then(pl.col("delta_ns") / pl.col("a_ns") * 100).alias("delta_percent")
    )


def _told(column: Field, per: Per) -> Field:
    """Returns the column with a description that says what its numbers cover."""
    if not column.sums:
        return column
    if per == "call" and column.kind == "count":
        return replace(column, about=f"{column.about}, per step", saved_as=f"{column.name}_per_step")
    words = totals.WORDS[per] or "in all steps"
    return replace(column, about=f"{column.about}, {words}",
                   saved_as=column.name if per == "total" else f"{column.name}_per_{per}")  # fmt: skip


INSIDE = {
    "diff_modules": "modules", "diff_operators": "operators", "diff_ranges": "ranges", "diff_waterfall": "categories",
}  # fmt: skip
"""Pages whose rows contain kernels, and what those rows are (`kernels_inside`)."""
ROLES = {"matters": "matters", "work": "other work", "intended": "chosen", "": "noted"}
"""What the table says of a difference between two runs, by its role."""
LAYOUTS = COMPARED | {"step": COMPARED["split"], "conditions": CONDITIONS}
"""The table of each kind."""


def _said(verdict: Comparable) -> str:
    """The verdict with the differences that decide it: ``Explained by dtype fp32 → fp16``."""
    rows = verdict.differences
    deciding = [row for row in rows if row.role and row.role == rows[0].role]
    listed = "; ".join(f"{row.field} {plain_value(row.a)} → {plain_value(row.b)}" for row in deciding)
    if verdict.verdict == "not_comparable":
        return f"NOT COMPARABLE: {listed}"
    if verdict.verdict == "other_work":
        return f"OTHER WORK: {listed}"
    return f"Explained by {listed}" if listed else comparable_words(verdict)


def _conditions(verdict: Comparable) -> pl.DataFrame:
    rows = [(row.field, plain_value(row.a), plain_value(row.b), ROLES[row.role]) for row in verdict.differences]
    return pl.DataFrame(rows, schema=dict.fromkeys(("field", "a", "b", "sort"), pl.String), orient="row")


def _nothing_in_both(what: str, kind: str) -> str:
    if what == "conditions":
        return "The two runs differ only in what they did, as far as is known."
    if what == "step":
        return "Without steps or GPU work in both runs, the step can't be split."
    if what == "waterfall":
        return f"Neither run has GPU work to compare: {commands.key('table.next')} shows other tables."
    if what == "modules":
        return f"Neither run has nn.Modules to compare: {commands.key('table.next')} shows the ranges."
    return f"Neither run has anything to compare here. About A:\n\n{nothing(what, kind)}"


def _step_line(result: Diff, *, interval_too: bool = False, brief: bool = False) -> str:
    """The difference in step time; of a `brief` line only the difference itself."""
    step = result.step
    if step.a_ns is None and step.b_ns is None:
        return "no steps to compare"
    if step.median_delta_percent is None:
        return f"step  A {format_ns(step.a_ns)}  B {format_ns(step.b_ns)}"
    # as wide as 80 columns allow beside the longest title
    # "clean", "light": which steps they are
    which = "median" if result.compared.rests_on == RECORDED else result.compared.rests_on
    times = "step " if brief else f"{which} {format_ns(step.a_median_ns)} → {format_ns(step.b_median_ns)}, "
    line = f"{times}{format_percent(step.median_delta_percent, signed=True)}"
    if step.beyond_noise is None:
        return line
    line += ", in these runs" if step.beyond_noise else ", may be chance"
    interval = " to ".join(format_signed_ns(ns) for ns in (step.low_ns, step.high_ns))
    return f"{line}: 95 % interval {interval}" if interval_too else line


def _seen(result: Diff) -> str:
    """The smallest change that such recordings show, in a few words; empty where it is unknown."""
    step = result.step
    if step.detectable_ns is None or step.detectable_percent is None:
        return ""
    return f"shows changes from {format_percent(step.detectable_percent)} of the step"
