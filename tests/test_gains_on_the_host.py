"""S2 and S13: which recording's model their gains rest on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_run import finding
from sample_runs import run_of

from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.facts import Facts


def test_gains_on_the_host_rest_on_the_verdicts_model_where_the_rich_recording_says_another_limit() -> None:
    """A rich recording of few steps, of other kinds than most, must not silence what the light one tells."""
    facts = Facts(run_of("mlp_profiled"))
    assert facts.verdict.kind == "host"
    named = facts.host_model
    assert named is not None
    usual = finding("S2", facts)
    other = Facts(facts.run)
    assert named.clean_ns is not None
    other.__dict__["host_model"] = replace(named, clean_ns=named.host_free_ns)
    assert other.host_model is not None
    assert other.host_model.waits_for == "gpu"
    # in the light recording the host's time lies before the first launch of each step, so it is S13 that tells
    said = finding("S13", other)
    assert other.model is not None
    assert f"of {words.ns(other.model.step_ns)}" in said.formula
    assert "the median of 9 steps" in said.formula
    assert said.ceiling_percent == pytest.approx(usual.ceiling_percent, abs=1)
