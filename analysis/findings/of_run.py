"""The rules on one recording of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.engine import find

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracetui.analysis.findings.config import Config
    from tracetui.analysis.findings.core.finding import Findings
    from tracetui.analysis.selection import Selection
    from tracetui.parsers import Run


def facts_of(run: Run, sel: Selection) -> Facts:
    """The facts of a selection that is there already, with all that was computed of it."""
    facts = Facts(run, sel.trace, sel.scope)
    facts.sel = sel
    return facts


def findings_of(
    facts: Facts, config: Config | None = None, on_error: Callable[[Exception], None] | None = None
) -> Findings:
    """What the rules say of a recording.

    What Nsight Compute or a memory snapshot know beside a time line is among the facts of that time line; of such a
    recording itself only the rules on its file are asked, lest all be said twice.
    """
    rules = all_rules()
    if not facts.trace.has_timeline and facts.run.main.has_timeline:
        rules = {id: rule for id, rule in rules.items() if id.startswith("V") and not rule.needs}
    return find(facts, config, rules, on_error)
