"""Applies the rules to one recording of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.parsers.resources import freed_blocks_stay

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracetui.analysis.findings.config import Config
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.finding import Findings


def findings_of(
    facts: Facts, config: Config | None = None, on_error: Callable[[Exception], None] | None = None
) -> Findings:
    """Returns what the rules found in a recording.

    If the run has a time line, its facts include what Nsight Compute or a memory snapshot recorded beside it. Such a
    recording by itself is then checked only by the rules on its file, so that no finding appears twice.
    """
    from tracetui.analysis.findings.catalogue import all_rules
    from tracetui.analysis.findings.engine import find

    rules = all_rules(facts.kind)
    if not facts.trace.has_timeline and facts.run.main.has_timeline:
        rules = {id: rule for id, rule in rules.items() if rule.on_measurement and not rule.needs}
    with freed_blocks_stay():
        return find(facts, config, rules, on_error)
