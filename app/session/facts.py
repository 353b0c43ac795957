"""Runs the rules on the run on the screen, with the same analyses that its tabs show."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import polars as pl

from tracetui.analysis.compare.diff import diff
from tracetui.analysis.findings.core.facts import Facts, Pair
from tracetui.analysis.findings.core.finding import Findings
from tracetui.analysis.findings.engine import find, findings_of
from tracetui.analysis.kernels import kernels
from tracetui.analysis.matching.light_overview import run_overview
from tracetui.analysis.memops import memops
from tracetui.analysis.overview import Overview
from tracetui.analysis.ranges import ranges
from tracetui.analysis.selection import Selection
from tracetui.app.session.measured import conventions
from tracetui.app.session.session import Session


def compared_findings(session: Session, on_error: Callable[[Exception], None]) -> Findings:
    """Returns the findings about runs A and B together."""

    def look() -> Findings:
        a, b = session.selection("a"), session.selection("b")
        pair = Pair(SessionFacts(session), Facts.of(session.runs["b"], b))
        vars(pair)["diff"] = session.cached("diff", lambda: diff(a, b))  # as the Diff tab caches it
        return find(pair, session.config, on_error=on_error)

    return session.cached("compared findings", look)


class SessionFacts(Facts):
    """Facts for the rules that share cached analyses with the tabs."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.runs["a"], session.trace(), session.scope)
        self._session = session
        self._selection = session.selection()

    @cached_property
    def sel(self) -> Selection:
        """Returns the selection of all tabs."""
        return self._selection

    @cached_property
    def run_overview(self) -> Overview:
        """Returns the analysis of the Overview tab."""
        session = self._session
        return session.cached("overview", lambda: run_overview(self._selection, conventions(session)))

    @cached_property
    def kernels(self) -> pl.DataFrame:
        """Returns the Kernels tab's kernels, if the steps launched all of them."""
        if self.of_steps is not self.sel:
            return kernels(self.of_steps)
        return self._session.cached("kernels", lambda: kernels(self._selection))

    @cached_property
    def memops(self) -> pl.DataFrame:
        """Returns the Kernels tab's copies and fills."""
        return self._session.cached("memops", lambda: memops(self._selection))

    @cached_property
    def ranges(self) -> pl.DataFrame:
        """Returns the Host tab's ranges."""
        return self._session.cached("ranges", lambda: ranges(self._selection))


def session_findings(session: Session, on_error: Callable[[Exception], None]) -> Findings:
    """Returns the findings about the recording in view, computed once; call it in a thread, it may take seconds."""
    return session.cached("findings", lambda: findings_of(SessionFacts(session), session.config, on_error))
