"""Verdicts of ranks whose steps were timed without a profiler: what the sentence says is what the verdict is."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from sample_runs import recorded

from tracetui.analysis.findings.core.facts import Facts
from tracetui.parsers import Run, open_path

JOBS = ("ddp_gpu", "ddp_host", "fsdp")
WORDS = {
    "host": ("Waits for the CPU", "Waits for its CPU or for other ranks"),
    "gpu": ("Waits for the GPU",),
    "ranks": ("Waits for other ranks",),
    "communication": ("Waits for communication",),
    "dataloader": ("Waits for the data loader", "Waits for its CPU or for other ranks"),
}


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("rank", range(4))
def test_the_sentence_says_what_the_verdict_is(job: str, rank: int) -> None:
    truth = json.loads(recorded(f"ranks4/{job}/truth_rank{rank}.json").read_text())
    trace = open_path(recorded(f"ranks4/{job}/rich/rank{rank}.pt.trace.json.gz")).main
    trace = replace(trace, clean_step_ns=(int(1e6 * truth["clean_step_ms"]),))
    facts = Facts(Run(trace.source.path, (trace,)))
    assert facts.verdict.kind != "unknown"
    assert facts.verdict.sentence.startswith(WORDS[facts.verdict.kind])
    assert facts.verdict.kind != "gpu" or not facts.leads
