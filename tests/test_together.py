"""Recordings of one folder must be of one program at one size on one machine (V25)."""

from dataclasses import replace
from pathlib import Path

import polars as pl
from judged import abstains, facts, find, fires, silent
from made_run import HGEMM, Made
from sample_runs import VIM, recorded

from tracetui.analysis.captures.observed_batch import batch_in_shapes
from tracetui.analysis.findings import catalogue
from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Finding
from tracetui.analysis.findings.declared.rule import Rule
from tracetui.analysis.matching.join import joined, run_joins
from tracetui.analysis.matching.one_program import one_program, reason
from tracetui.analysis.report.report import join_row
from tracetui.app.reports.content.run import join_sentences
from tracetui.parsers import Run, Trace, open_path


def ops() -> Run:
    return open_path(recorded("ops"))


def opened(name: str) -> Trace:
    return open_path(recorded(name)).main


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
    assert silent("V25", Facts(open_path(VIM)))
    assert "another tool's recording" in abstains("V25", facts(recorded("ops/ops.trace.json.gz")))


def test_a_snapshot_of_another_gpu_is_told_and_not_used() -> None:
    run = open_path(VIM)
    (snapshot,) = run.of_kind("memory_snapshot")
    held = int(snapshot.memory["reserved"].max())  # type: ignore[arg-type]
    for has in (held, held - 1):
        devices = tuple(replace(device, memory_bytes=has) for device in run.main.info.devices)
        main = replace(run.main, info=replace(run.main.info, devices=devices))
        subject = Facts(replace(run, traces=(main, *run.traces[1:])))
        if has == held:
            assert silent("V25", subject)
            assert subject.memory.peak_reserved_bytes == held
        else:
            assert fires("V25", subject).title.startswith("memory.pickle is of another GPU than trace.pt.trace.json.gz")
            assert subject.memory.peak_reserved_bytes is None


def test_counters_of_another_gpu_are_set_aside() -> None:
    run = open_path(VIM)
    (ncu,) = run.of_kind("ncu")
    subject = beside(run, "ncu", on_gpu(ncu, "NVIDIA A100-SXM4-80GB", 108))
    finding = fires("V25", subject)
    assert finding.title.startswith("ncu.csv is of another run than trace.pt.trace.json.gz: GPU, SMs differ")
    assert "NVIDIA H200 here, NVIDIA A100-SXM4-80GB there" in finding.formula
    said = Finding("warning", "L2 is missed", (), "", id="K5")
    rules = {"V25": all_rules()["V25"], "K5": Rule("K5", "", "", rests_on=("gpu", "counters"))}
    looks = {**catalogue.looks("run"), "K5": lambda facts, limits: said}
    assert [each.id for each in find(Facts(run), rules=rules, looks=looks).found] == ["K5"]
    mixed = find(subject, rules=rules, looks=looks)
    assert ([each.id for each in mixed.found], [each.by for each in mixed.suppressed]) == (["V25"], ["V25"])


def test_a_recording_at_another_batch() -> None:
    run = ops()
    (nsys,) = run.of_kind("nsys")
    finding = fires("V25", beside(run, "nsys", at_batch(nsys, 16)))
    assert "grid of " in finding.title
    assert finding.severity == "critical"


def test_a_recording_of_another_program_is_not_matched() -> None:
    """Hardly a kernel in common, so that no size of a launch can tell."""
    run = ops()
    subject = beside(run, "nsys", opened("nsys/gpt_small_ctx256.sqlite.gz"))
    finding = fires("V25", subject)
    assert "longest kernel" in finding.title
    assert [each.other.info.kind for each in joined(run, run.main)] == ["nsys", "ncu"]
    assert [each.other.info.kind for each in joined(subject.run, run.main)] == ["ncu"]
    rows = {row.kind: row for row in map(join_row, run_joins(subject.run))}
    assert rows["ncu"].set_aside is None
    assert "longest kernel" in rows["nsys"].set_aside
    (told,) = join_sentences(rows["nsys"])
    assert told.startswith("gpt_small_ctx256.sqlite.gz is set aside: it is of another run than ops.trace.json.gz")


def test_ranks_by_name_alone_are_of_one_program() -> None:
    ours, other = opened("nsys/vim_tiny_fp32_bs4.sqlite.gz"), opened("nsys/gpt_small_ctx256.sqlite.gz")

    def ranks(second: Trace, world: int | None = None) -> Facts:
        named = [replace(t, info=replace(t.info, rank=n, world_size=world)) for n, t in enumerate((ours, second))]
        return Facts(Run(ours.source.path.parent, tuple(named)), named[0])

    finding = fires("V25", ranks(other))
    assert finding.title.startswith("gpt_small_ctx256.sqlite.gz is named like a rank of vim_tiny_fp32_bs4.sqlite.gz")
    assert silent("V25", ranks(ours))
    abstains("V25", ranks(other, 2))  # the files themselves say so, and ranks of a pipeline may do other work


def test_batches_that_operators_show_must_be_equal() -> None:
    trace = opened("vim_tiny_fp32_bs4.pt.trace.json.gz")
    assert one_program(trace, trace)
    shapes = trace.host["input_shapes"].cast(pl.String).str.replace("[[4,", "[[8,", literal=True).cast(pl.Categorical)
    larger = replace(trace, host=trace.host.with_columns(input_shapes=shapes))
    assert reason(trace, larger) == "batch 4 here, 8 there"


def test_two_files_beside_the_main_one_are_compared_too() -> None:
    """Each has its own kernels in common with the main recording, and none with the other."""
    run = ops()
    (nsys,), (ncu,) = run.of_kind("nsys"), run.of_kind("ncu")
    subject = Facts(replace(run, traces=(run.main, at_batch(nsys, 1), on_gpu(ncu, "NVIDIA A100-SXM4-80GB", 108))))
    nameless = replace(run.main, info=replace(run.main.info, devices=()))
    subject = Facts(replace(subject.run, traces=(nameless, *subject.run.traces[1:])), nameless)
    finding = fires("V25", subject)
    assert finding.title.startswith("ops.ncu.csv.gz is of another run than ops.sqlite.gz: GPU, SMs differ")


def test_calls_outside_the_steps_do_not_count_for_the_batch(tmp_path: Path) -> None:
    """A warm-up at batch 2 before the steps, with as many calls as they have."""
    made = Made()
    for at, batch in ((0, 2), (5, 2), (1000, 8), (2000, 8)):
        made.host("cpu_op", "aten::conv2d", at + 1, at + 4, **{"Input Dims": [[batch, 3, 224, 224], [8, 3, 3, 3]]})
        made.launch(HGEMM, (at + 2, at + 3), (at + 3, at + 4))
    made.step(1, 1000, 2000)
    made.step(2, 2000, 3000)
    seen = batch_in_shapes(made.facts(tmp_path).sel)
    assert seen is not None
    assert (seen.batch, seen.calls_per_step) == (8, 1)
