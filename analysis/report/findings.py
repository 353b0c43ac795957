"""Findings as the JSON contract (`docs/reference/report.md`)."""

from __future__ import annotations

from msgspec.structs import asdict

from tracetui.analysis.attribution.place import Place
from tracetui.analysis.base.json_values import filled, us
from tracetui.analysis.findings.core.finding import Finding, Findings
from tracetui.analysis.findings.engine import stable_key
from tracetui.analysis.report.model import (
    AbstainedRow,
    Agreement,
    Evidence,
    FindingRow,
    Judged,
    PlaceRow,
    ProofRow,
    SilencedRow,
    SuppressedRow,
)
from tracetui.parsers.runs.proofs import Claim, Proof


def judged(findings: Findings, limit: int | None = None) -> Judged:
    """The first findings, what was set aside, what could not be judged, and which rules ran."""
    return Judged(
        findings=[finding_row(finding) for finding in findings.found[:limit]],
        findings_suppressed=[
            SuppressedRow(**asdict(finding_row(each.finding)), by=each.by) for each in findings.suppressed
        ],
        findings_silenced=[
            SilencedRow(**asdict(finding_row(each.finding)), reason=each.by) for each in findings.silenced
        ],
        findings_abstained=[filled(AbstainedRow, each) for each in findings.abstained],
        findings_checked=list(findings.checked),
    )


def finding_row(finding: Finding) -> FindingRow:
    """One finding; times at stake in µs, evidence in its own units."""
    return filled(
        FindingRow,
        finding,
        impact_least_us=us(finding.least_ns),
        impact_after_us=us(finding.after_ns),
        where=[place_row(place) for place in finding.where],
        evidence=[filled(Evidence, item, item.query, value=item.value) for item in finding.evidence],
        changes=[given.text for given in finding.changes],
        proofs=[proof_row(proof, claim) for proof, claim in finding.proofs],
        key=stable_key(finding),
    )


def place_row(place: Place) -> PlaceRow:
    """A place; null for what was not recorded."""
    named = {name: getattr(place, name) or None for name in ("frame", "module", "range", "operator")}
    return filled(PlaceRow, place, **named)


def proof_row(proof: Proof, claim: Claim | None = None) -> ProofRow:
    """What was measured of a change; with the finding's claim, what it promised."""
    gain, step = proof.gain_ns, proof.step_ns
    return filled(
        ProofRow,
        proof,
        claim,
        gain_percent=100 * gain / step if gain is not None and step else None,
        does_more=claim is not None and proof.does_more(claim),
        exceeds=claim is not None and proof.exceeds(claim),
        compared=None if proof.compared is None else filled(Agreement, proof.compared),
    )
