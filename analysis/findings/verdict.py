"""What a run waits for, as far as its recording is valid."""

from __future__ import annotations

from dataclasses import replace

from tracetui.analysis.base.number_format import format_percent
from tracetui.analysis.dependencies.limit import Limit
from tracetui.analysis.findings import catalogue
from tracetui.analysis.findings.config import Config
from tracetui.analysis.findings.core import basis, program
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Finding
from tracetui.analysis.findings.engine import find
from tracetui.analysis.host_lines import longest_line


def verdict(facts: Facts, config: Config | None = None) -> Limit:
    """The verdict; of a recording that a rule refutes, that it is not valid, and nothing as a fact."""
    by = _refuting(facts, config)
    if by is None:
        return _with_its_work(facts) if facts.verdict.why in _GPU_ALONE else _with_its_line(facts)
    sentence = f"The recording is not valid: {by.title} ({by.id}). What limits the run can't be told from it."
    return replace(facts.verdict, kind="unknown", sentence=sentence, why="invalid")


_GPU_ALONE = ("launches", "jax", "runtime")
"""Reasons for which a recording that can't tell still tells how long the GPU works."""


def _with_its_work(facts: Facts) -> Limit:
    """The verdict, with how much of the step the GPU works, which the layers of an engine don't tell."""
    idle_ns, step_ns = basis.idle_ns(facts), facts.page_step.ns
    if not step_ns or facts.trace.info.kind == "trtexec":
        return facts.verdict
    share = format_percent(100 * max(step_ns - idle_ns, 0.0) / step_ns)
    span = "the step" if facts.sel.steps.height else "that time"
    return replace(facts.verdict, sentence=f"{facts.verdict.sentence} The GPU works for {share} of {span}.")


def _with_its_line(facts: Facts) -> Limit:
    """The verdict; of a run that waits for its host, with the line that it is in the longest."""
    found = facts.verdict
    on_host = found.kind == "host" or found.why == "no_gpu"
    if found.why == "no_gpu" and (waited := basis.loading_ns(facts)):
        share = format_percent(100 * waited / facts.page_step.ns)
        found = replace(found, sentence=f"{found.sentence} It waits for data for {share} of {program.span(facts)}.")
    line = longest_line(facts.trace) if on_host else None
    if line is None:
        return found
    place = f"Longest in {line.short}: {format_percent(line.percent)} of the sampled steps."
    return replace(found, sentence=f"{found.sentence} {place}")


def _refuting(facts: Facts, config: Config | None) -> Finding | None:
    """The first finding that makes the recording invalid."""
    rules = {id: rule for id, rule in catalogue.all_rules(facts.kind).items() if rule.refutes}
    found = find(facts, config, rules, looks=catalogue.looks_on_measurement()).found
    return next((finding for finding in found if finding.severity == "invalid"), None)
