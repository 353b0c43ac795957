"""Findings: what is wrong with the measurement, what is slow, and the possible gain; Enter opens the evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
from rich.text import Text

from tracetui.analysis.findings import config
from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core.finding import HEADLINE, NO_ACT, Finding, Findings, Query
from tracetui.analysis.findings.engine import LEAST_GAIN_PERCENT, stable_key
from tracetui.analysis.ranks.of_run import jobs_of
from tracetui.analysis.report.findings import finding_row, judged
from tracetui.analysis.report.model import FindingRow, SilencedRow, SuppressedRow
from tracetui.analysis.tables.findings import ABSTAINED, EVIDENCE, FINDINGS, SET_ASIDE, TRIED
from tracetui.analysis.tried import tried
from tracetui.app import tabs
from tracetui.app.keys import commands
from tracetui.app.reports.content.tried import NOTHING_TRIED
from tracetui.app.reports.finding_words import (
    LABEL_WIDTH,
    base,
    evidence_text,
    headline,
    looked,
    lower_end,
    page_base,
    parts,
    place_text,
    titled,
    whole_of,
)
from tracetui.app.session.facts import compared_findings, session_findings
from tracetui.app.session.session import Session
from tracetui.app.text.fitting import fit, pad, printable, wrapped
from tracetui.app.text.paths import from_home
from tracetui.app.views.common.counted import filled
from tracetui.app.views.common.messages import ShowEvidence
from tracetui.app.views.common.page import Page
from tracetui.app.views.common.rows import in_a_line
from tracetui.app.views.common.table_view import TableView
from tracetui.app.widgets.prompt import SAVE_HINTS, Question


def finding_text(row: FindingRow, width: int, base: str, *, comment: str = "", ascii: bool = False) -> Text:
    """Everything about a finding, in lines of at most `width` columns.

    Args:
        row: the finding.
        width: columns.
        base: of the numbers, `Selection.describe`.
        comment: what was written about it.
        ascii: no characters outside ASCII.
    """
    text = Text()
    _add(text, "", headline(row), width, ascii=ascii, style="bold")
    if comment:
        _add(text, "Comment", comment, width, ascii=ascii)
    for label, sentence in [*_aside(row), *parts(row, whole_of(base), ascii=ascii)]:
        _add(text, label, sentence, width, ascii=ascii)
    if not row.reference:
        _add(text, "See", f"tracetui reference rules {row.id}", width, ascii=ascii)
    text.rstrip()
    return text


def _aside(row: FindingRow) -> list[tuple[str, str]]:
    """Why a finding was set aside."""
    if isinstance(row, SilencedRow):
        return [("Aside", f"Silenced: {row.reason} ({commands.key('finding.silence')} restores it)")]
    if not isinstance(row, SuppressedRow):
        return []
    if row.by in (HEADLINE, NO_ACT):
        return [("Aside", row.by)]
    if row.by == "K14":
        return [("Aside", f"{row.by}: it would gain less than {LEAST_GAIN_PERCENT:g} % of the step")]
    rule = all_rules().get(row.by)
    return [("Aside", f"{row.by} refutes what it rests on" + (f": {rule.title}" if rule is not None else ""))]


def change_text(row: Mapping[str, Any], width: int, *, ascii: bool = False) -> Text:
    """What a change that was tried is, how to write it, and what it may break."""
    text = Text()
    _add(text, "", str(row["name"]), width, ascii=ascii, style="bold")
    for label, said in (("Write", row["write"]), ("Risk", row["risk"]), ("Failed", row["problem"])):
        if said:
            _add(text, label, str(said), width, ascii=ascii)
    text.rstrip()
    return text


def abstention_text(id: str, missing: str, width: int, *, ascii: bool = False) -> Text:
    """Why a rule could not judge, and what it would have looked for."""
    text = Text()
    rule = all_rules().get(id)
    _add(text, "", f"{id} {rule.title}" if rule is not None else id, width, ascii=ascii, style="bold")
    _add(text, "Needs", missing, width, ascii=ascii)
    if rule is not None:
        for number, paragraph in enumerate(rule.paragraphs):
            plain = paragraph.replace("`", "")  # marks of the generated page, which this is not
            _add(text, "" if number else "What", plain, width, ascii=ascii, indent=True)
    text.rstrip()
    return text


def _add(text: Text, label: str, words: str, width: int, *, ascii: bool, style: str = "", indent: bool = False) -> None:
    indented = bool(label) or indent or not style
    room = max(width - (LABEL_WIDTH if indented else 0), 20)
    lines = wrapped(printable(" ".join(words.split()), ascii=ascii), room) or [""]
    for number, line in enumerate(lines):
        if indented:
            text.append(pad(label if number == 0 else "", LABEL_WIDTH), "bold")
        text.append(f"{line}\n", style)


FILE_WIDTH = 30
"""Columns of the file that silenced findings are written to."""
COMPARED = "what B shows beside A; both in the Diff tab"
OTHER_BASE = "*"
"""Behind a time whose share is not of what the title says."""
UNSAID = "silenced on the screen"
"""The reason where none was typed."""
NO_EVIDENCE = "No table rows support this finding.\n\nEsc goes back."


@dataclass(frozen=True)
class _Page(Page):
    """A table whose rows are findings: the column ``row`` is their index in `findings`."""

    findings: tuple[FindingRow, ...] = ()
    """For a page of evidence: its finding."""
    queries: tuple[Query | None, ...] = ()
    """For a page of evidence: where the rows of each piece are."""


class FindingsView(TableView):
    """The findings, worst first; those set aside and the rules that abstained beside them."""

    BINDINGS = commands.bindings("findings")
    TAB = "findings"
    OF_SUMMARIES = True
    TABLES = ("findings", "tried", "set aside", "abstained", "A and B")
    KEEPS_DETAIL = True

    def __init__(self) -> None:
        super().__init__()
        self._text_wanted = True
        """Whether the whole text stands below the table."""

    def on_mount(self) -> None:
        """Keeps the footer right about whether there is more text."""
        self.follow_scrolling(self.detail)

    # --- what is computed in a thread

    def root(self) -> Page:
        """One of the tables."""
        if self.kind == "A and B":
            page = self._list_page(compared_findings(self.session, self.host.log_error), COMPARED)
            return replace(page, id="findings_compared", title="A and B", noun="findings of both")
        if self.kind == "tried":
            return _tried_page(self.session)
        findings = session_findings(self.session, self.host.log_error)
        if self.kind == "set aside":
            return _aside_page(findings)
        if self.kind == "abstained":
            return _abstained_page(findings)
        return self._list_page(findings, self._base())

    def _base(self) -> str:
        """What the numbers are of; of summaries alone, what each rank's steps were."""
        run = self.session.runs["a"]
        if run.summaries_in is None:
            return self.session.selection().describe()
        jobs = jobs_of(run, make=False)
        return "steps of each rank" if jobs and jobs[0].step_count else "whole recordings"

    def _list_page(self, findings: Findings, covers: str) -> Page:
        checked, aside = len(findings.checked), len(findings.suppressed) + len(findings.silenced)
        counts = looked(checked, len(findings.abstained), aside)
        silenced = f"{len(findings.silenced)} silenced ({commands.key('table.next')})"
        more = "\n\nv shows what was set aside, and what each of the others would need."
        rows, whole, ascii = tuple(map(finding_row, findings.found)), whole_of(self._base()), self.session.ascii
        named = page_base(rows, whole, ascii=ascii)
        others = [OTHER_BASE if base(row, whole, ascii=ascii) not in ("", named) else "" for row in rows]
        own = f" ({OTHER_BASE}: of its own)" if any(others) else ""
        of = (silenced * bool(findings.silenced), f"% of {named}{own} · limit first, then gain" if named else "")
        return _Page(
            id="findings",
            title="Findings",
            frame=_frame(findings.found).with_columns(base_mark=pl.Series(others, dtype=pl.String)),
            columns=FINDINGS.columns,
            noun="findings",
            note=" · ".join(filter(None, (covers, *of))),
            brief=" · ".join(filter(None, of)),
            empty=f"Nothing found: {counts}.{more if aside or findings.abstained else ''}",
            inside="evidence",
            key="name",
            findings=rows,
        )

    @property
    def tables(self) -> tuple[str, ...]:
        """Returns the tables without that of both runs if there is no second one, of changes if none was tried."""
        gone = {"A and B"} if "b" not in self.session.runs else set()
        gone |= set() if self.session.runs["a"].proofs else {"tried"}
        return tuple(kind for kind in self.TABLES if kind not in gone)

    def reload(self) -> None:
        """Recomputes; a second run changes only the findings about both."""
        self.COMPARES = self.kind == "A and B"
        super().reload()

    def inside(self, page: Page, row: Mapping[str, Any]) -> Callable[[], Page] | None:
        """The evidence of a finding."""
        if page.id not in ("findings", "findings_aside", "findings_compared") or not isinstance(page, _Page):
            return None
        finding = page.findings[int(row["row"])]
        return lambda: _evidence_page(finding, ascii=self.session.ascii)

    # --- on the screen

    def _current(self) -> tuple[FindingRow | None, Query | None]:
        """Returns the finding in view, and where the rows of the evidence under the cursor are."""
        state, row = self.state, self.table.current
        if state is None or row is None or not isinstance(state.page, _Page):
            return None, None
        number = row["row"]
        assert isinstance(number, int)
        if state.page.id == "evidence":
            return state.page.findings[0], state.page.queries[number]
        return (state.page.findings[number] if state.page.findings else None), None

    @property
    def place_text(self) -> str:
        """Returns the first place of the finding."""
        finding, _ = self._current()
        return place_text(finding.where[0]) if finding is not None and finding.where else ""

    def action_drill(self) -> None:
        """Opens the evidence of a finding, or goes to the rows that prove it."""
        if self.state is None or self.state.page.id != "evidence":
            super().action_drill()
            return
        _, query = self._current()
        if query is None:
            self.host.say("No table shows the rows of this one")
        else:
            self.post_message(ShowEvidence(query))

    def action_copy_row(self) -> None:
        """Copies the command that the finding says to run next."""
        finding, _ = self._current()
        if finding is not None and finding.next_command:
            self._copy(finding.next_command, "the command")
        elif finding is not None:
            self.host.say("This finding has no command to run next")
        else:
            super().action_copy_row()

    def action_silence(self) -> None:
        """Asks why the finding is to be silenced; one that is silenced is restored."""
        finding, _ = self._current()
        if finding is None:
            self.host.say("There is no finding here to silence")
        elif isinstance(finding, SilencedRow):
            names = sorted({finding.key, finding.id} & self.session.silenced.keys())
            self._go_on_below(lambda: self.host.silence(names, ""))
        elif isinstance(finding, SuppressedRow):
            self.host.say("Only what is found can be silenced, and this one was set aside already")
        else:
            key = finding.key

            def silence(reason: str) -> bool:
                self._go_on_below(lambda: self.host.silence([key], reason.strip() or UNSAID))
                return True

            file = config.silenced_in(self.session.runs["a"].path, Path.cwd())
            below = f" Written to {fit(from_home(str(file)), FILE_WIDTH, keep_end=True)}, for every recording"
            below += " below its folder" if file.name == config.FILE else ""
            asked = Question("silence", "because", silence, hints=SAVE_HINTS, joins=in_a_line, below=below)
            self.host.ask(asked)
            self.host.remark(f"silences {key}")

    def _go_on_below(self, work: Callable[[], None]) -> None:
        """Does something that takes the row under the cursor away, and goes on at the next one."""
        rows = self.table.view()
        if rows.height > 1 and len(self._stack) == 1:
            at = self.table.cursor
            self._wanted = str(rows["name"][at + 1 if at + 1 < rows.height else at - 1])
        self.app.call_later(work)

    def _show_page(self) -> None:
        super()._show_page()
        self.detail.display = self._text_wanted and not self.has_class("-blank")
        self._share_height()
        if self.detail.display:
            self._show_detail()

    def on_resize(self) -> None:
        """Shares the height anew; Textual calls the handler of `TableView` too."""
        self._share_height()
        if self.state is not None and self.detail.display:
            self.call_after_refresh(self._show_detail)

    def action_detail(self) -> None:
        """Shows or hides the whole text."""
        if self.has_class("-blank"):
            return
        self._text_wanted = not self._text_wanted
        super().action_detail()
        self._share_height()

    def _share_height(self) -> None:
        """The table takes what its rows need, at most half; the text below takes the rest."""
        most = max(self.size.height // 2 - 1, 4)
        self.table.styles.height = min(self.table.height_of_view + 1, most) if self.detail.display else "1fr"

    def _show_detail(self) -> None:
        state, row = self.state, self.table.current
        ascii, width = self.session.ascii, self.size.width - 2
        finding, _ = self._current()
        if finding is not None:
            self.detail.show_text(finding_text(finding, width, self._base(), comment=self.comment, ascii=ascii))
        elif state is not None and row is not None and state.page.id == TRIED.id:
            self.detail.show_text(change_text(row, width, ascii=ascii))
        elif state is not None and row is not None:
            self.detail.show_text(abstention_text(str(row["id"]), str(row["name"]), width, ascii=ascii))
        else:
            self.detail.show_text(Text())
        self.host.refresh_lines()

    def footer_labels(self) -> dict[str, str]:
        """What Enter and y do here."""
        labels = super().footer_labels()
        if self.state is None or self.has_class("-blank"):
            return labels
        finding, query = self._current()
        labels["table.detail"] = "hide text" if self.detail.display else "text"
        labels["table.columns"] = labels["table.names"] = ""
        if self.detail.display and self.detail.max_scroll_y:
            labels["detail.down"] = "more text"
        if finding is not None and finding.next_command:
            labels["copy.row"] = "copy Run"
        if isinstance(finding, SilencedRow):
            labels["finding.silence"] = "restore"
        elif finding is None or isinstance(finding, SuppressedRow):
            labels["finding.silence"] = ""
        if self.state.page.id == "evidence":
            labels["go.in"] = "its rows" if query is not None else ""
        elif finding is None:
            labels["go.in"] = ""
        return labels


def _tried_page(session: Session) -> Page:
    rows = tried(session.runs["a"].proofs)
    return Page.of(TRIED, rows, columns=filled(TRIED.columns, rows), note=TRIED.base, empty=NOTHING_TRIED)


def _aside_page(findings: Findings) -> Page:
    away = [*findings.silenced, *findings.suppressed]
    by = [f"silenced: {each.by}" for each in findings.silenced] + [each.by for each in findings.suppressed]
    rows = judged(findings)
    return _Page(
        id="findings_aside",
        title="Set aside",
        frame=_frame([each.finding for each in away]).with_columns(pl.Series("by", by, pl.String)),
        columns=SET_ASIDE.columns,
        noun="findings set aside",
        note="silenced, refuted, too little to gain, said by the headline, or nothing to do about",
        empty="Nothing was set aside: no finding rests on what a validity rule refutes, and none is silenced.",
        inside="evidence",
        key="name",
        findings=(*rows.findings_silenced, *rows.findings_suppressed),
    )


def _abstained_page(findings: Findings) -> Page:
    rules = all_rules()
    rows = [
        (number, each.id, rules[each.id].title if each.id in rules else "", each.missing)
        for number, each in enumerate(findings.abstained)
    ]
    schema = {"row": pl.Int64, "id": pl.String, "title": pl.String, "name": pl.String}
    return _Page(
        id="abstained",
        title="Abstained",
        frame=pl.DataFrame(rows, schema=schema, orient="row"),
        columns=ABSTAINED.columns,
        noun="rules that abstained",
        note="they lack what they would judge by",
        empty="Every rule had what it needs.",
        key="id",
    )


def _frame(findings: Sequence[Finding]) -> pl.DataFrame:
    rows = [
        (
            number, each.severity, each.id, titled(each.title, each.doubted_by),
            lower_end(each.least_ns, each.impact_ns), each.impact_ns or None, each.ceiling_percent,
            len(each.evidence), stable_key(each),
        )
        for number, each in enumerate(findings)
    ]  # fmt: skip
    schema = {
        "row": pl.Int64, "severity": pl.String, "id": pl.String, "name": pl.String, "least_ns": pl.Float64,
        "impact_ns": pl.Float64, "ceiling_percent": pl.Float64, "evidence": pl.Int64, "finding_key": pl.String,
    }  # fmt: skip
    return pl.DataFrame(rows, schema=schema, orient="row")


def _evidence_page(finding: FindingRow, *, ascii: bool) -> Page:
    items = finding.evidence
    queries = tuple(None if item.tab is None else Query(item.tab, item.filter or "", item.row or "") for item in items)
    rows = [
        (number, item.label, evidence_text(item, ascii=ascii), "" if query is None else _where(query))
        for number, (item, query) in enumerate(zip(items, queries, strict=True))
    ]
    schema = {"row": pl.Int64, "name": pl.String, "value": pl.String, "where": pl.String}
    return _Page(
        id="evidence",
        title=f"{finding.id} {finding.title}",
        frame=pl.DataFrame(rows, schema=schema, orient="row"),
        columns=EVIDENCE.columns,
        noun="numbers",
        empty=NO_EVIDENCE,
        key="name",
        findings=(finding,),
        queries=queries,
    )


def _where(query: Query) -> str:
    """``Kernels: gemm``: the tab, and which of its rows."""
    tab, _, table = query.tab.partition(":")
    place = tabs.TITLES.get(tab, tab) + (f", {table}" if table else "")
    rows = ", ".join(part for part in (query.filter and f"/ {query.filter}", query.row) if part)
    return f"{place}: {rows}" if rows else place
