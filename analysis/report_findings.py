"""Findings as the JSON contract (`docs/report.md`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.report_rows import Json, us

if TYPE_CHECKING:
    from tracetui.analysis.findings.finding import Finding, Findings


def finding_rows(found: Findings) -> list[Json]:
    """What was found, in its order; times at stake in µs, evidence in its own units."""
    return [finding_row(finding) for finding in found.found]


def finding_row(finding: Finding) -> Json:
    """One finding."""
    return {
        "id": finding.id,
        "severity": finding.severity,
        "title": finding.title,
        "impact_us": us(finding.impact_ns),
        "ceiling_percent": finding.ceiling_percent,
        "evidence": [
            {
                "label": item.label,
                "value": item.value,
                "unit": item.unit,
                "tab": item.query.tab if item.query else None,
                "filter": item.query.filter if item.query else None,
                "row": item.query.row if item.query else None,
            }
            for item in finding.evidence
        ],
        "formula": finding.formula,
        "threshold": finding.threshold,
        "advice": finding.advice,
        "next_command": finding.next_command,
        "reference": finding.reference,
        "remarks": list(finding.remarks),
    }
