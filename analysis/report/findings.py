"""Findings as the JSON contract (`docs/reference/report.md`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import asdict

from tracetui.analysis.base.json_values import us
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

if TYPE_CHECKING:
    from tracetui.analysis.attribution.place import Place
    from tracetui.analysis.findings.core.finding import Finding, Findings
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
        findings_abstained=[AbstainedRow(id=each.id, missing=each.missing) for each in findings.abstained],
        findings_checked=list(findings.checked),
    )


def finding_row(finding: Finding) -> FindingRow:
    """One finding; times at stake in µs, evidence in its own units."""
    return FindingRow(
        id=finding.id,
        severity=finding.severity,
        title=finding.title,
        impact_us=us(finding.impact_ns),
        impact_least_us=us(finding.least_ns),
        impact_after_us=us(finding.after_ns),
        impact_of=finding.impact_of,
        ceiling_percent=finding.ceiling_percent,
        where=[place_row(place) for place in finding.where],
        evidence=[
            Evidence(
                label=item.label,
                value=item.value,
                unit=item.unit,
                tab=item.query.tab if item.query else None,
                filter=item.query.filter if item.query else None,
                row=item.query.row if item.query else None,
            )
            for item in finding.evidence
        ],
        formula=finding.formula,
        threshold=finding.threshold,
        advice=finding.advice,
        next_command=finding.next_command,
        changes=[given.text for given in finding.changes],
        proofs=[proof_row(proof, claim) for proof, claim in finding.proofs],
        reference=finding.reference,
        remarks=list(finding.remarks),
        shared_with=list(finding.shared_with),
        doubted_by=list(finding.doubted_by),
        key=stable_key(finding),
    )


def place_row(place: Place) -> PlaceRow:
    """A place; null for what was not recorded."""
    return PlaceRow(
        frame=place.frame or None,
        module=place.module or None,
        range=place.range or None,
        operator=place.operator or None,
        line=place.line,
        calls=place.calls,
        us=place.ns / 1000,
        percent=place.percent,
        on_gpu=place.on_gpu,
    )


def proof_row(proof: Proof, claim: Claim | None = None) -> ProofRow:
    """What was measured of a change; with the finding's claim, what it promised."""
    compared = proof.compared
    gain, step = proof.gain_ns, proof.step_ns
    return ProofRow(
        change=proof.change,
        explanation=proof.explanation,
        step_us=us(step),
        changed_us=us(proof.changed_ns),
        gain_us=us(gain),
        low_us=us(proof.low_ns),
        high_us=us(proof.high_ns),
        gain_percent=100 * gain / step if gain is not None and step else None,
        rounds=proof.rounds,
        one_process=proof.one_process,
        batch_factor=proof.batch_factor,
        device=proof.device,
        recorded_on=proof.recorded_on,
        bound_us=us(claim.bound_ns) if claim is not None else None,
        bound_percent=claim.bound_percent if claim is not None else None,
        sure_percent=claim.sure_percent if claim is not None else None,
        also=claim.also if claim is not None else None,
        most_us=us(claim.most_ns) if claim is not None else None,
        does_more=claim is not None and proof.does_more(claim),
        exceeds=claim is not None and proof.exceeds(claim),
        compared=None
        if compared is None
        else Agreement(
            what=compared.what,
            numbers=compared.numbers,
            largest=compared.largest,
            scale=compared.scale,
            should_agree=compared.should_agree,
            alike=compared.alike,
        ),
    )
