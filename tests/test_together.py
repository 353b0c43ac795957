"""Recordings of one folder must be of one program at one size on one machine (V25)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
from judged import abstains, facts, find, fires, silent
from sample_runs import VIM, recorded

from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Finding
from tracetui.analysis.findings.core.rule import Rule
from tracetui.parsers import Run, open_path

if TYPE_CHECKING:
    from tracetui.parsers import Trace


def ops() -> Run:
    return open_path(recorded("ops"), cache=False)


def beside(run: Run, kind: str, changed: Trace) -> Facts:
    """The run with its recording of a kind replaced."""
    traces = tuple(changed if trace.info.kind == kind else trace for trace in run.traces)
    return Facts(replace(run, traces=traces))


def on_gpu(trace: Trace, name: str, sms: int) -> Trace:
    devices = tuple(replace(device, name=name, sm_count=sms) for device in trace.info.devices)
    return replace(trace, info=replace(trace.info, devices=devices))


def at_batch(trace: Trace, factor: int) -> Trace:
    """As if every kernel had been launched for more samples."""
    grid = pl.concat_list(pl.col("grid").arr.get(0) * factor, *(pl.col("grid").arr.get(n) for n in (1, 2)))
    return replace(trace, device=trace.device.with_columns(grid=grid.list.to_array(3).cast(trace.device["grid"].dtype)))


def test_recordings_of_one_run_stand_side_by_side() -> None:
    assert silent("V25", Facts(ops()))
    assert silent("V25", Facts(open_path(VIM, cache=False)))
    assert "another tool's recording" in abstains("V25", facts(recorded("ops/ops.trace.json.gz")))


def test_counters_of_another_gpu_are_set_aside() -> None:
    run = open_path(VIM, cache=False)
    (ncu,) = run.of_kind("ncu")
    subject = beside(run, "ncu", on_gpu(ncu, "NVIDIA A100-SXM4-80GB", 108))
    finding = fires("V25", subject)
    assert finding.title.startswith("ncu.csv is of another run than trace.pt.trace.json.gz: GPU, SMs differ")
    assert "NVIDIA H200 here, NVIDIA A100-SXM4-80GB there" in finding.formula
    said = Finding("K5", "warning", "L2 is missed", (), "", "", "")
    resting = Rule("K5", "", "run", (), ("gpu", "counters"), {}, "", lambda facts, limits: said)
    rules = {"V25": all_rules("run")["V25"], "K5": resting}
    assert [each.id for each in find(Facts(run), rules=rules).found] == ["K5"]
    mixed = find(subject, rules=rules)
    assert ([each.id for each in mixed.found], [each.by for each in mixed.suppressed]) == (["V25"], ["V25"])


def test_a_recording_at_another_batch() -> None:
    run = ops()
    (nsys,) = run.of_kind("nsys")
    finding = fires("V25", beside(run, "nsys", at_batch(nsys, 16)))
    assert "grid of " in finding.title
    assert finding.severity == "critical"
