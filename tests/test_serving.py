"""Iterations of inference servers: what their names say, their kinds, and what is told of each."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pytest
from chrome_file import ChromeFile
from graph_files import replay
from sample_runs import OUTSIDE

from tracetui.analysis.gpu.step_kinds import iterations, page_kinds, served_rows, typical_steps
from tracetui.analysis.overview import overview
from tracetui.analysis.roofline.iterations import iteration_work
from tracetui.analysis.roofline.peaks import Peak, Peaks
from tracetui.analysis.selection import select
from tracetui.app.charts.steps import Step, marked
from tracetui.app.cli import main as cli
from tracetui.app.reports.content.sections import _growth
from tracetui.parsers import Trace, open_path
from tracetui.parsers.names.serving import Iteration, iteration_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("execute_context_1(337)_generation_5(5)", Iteration("mixed", 6, 342, 5)),
        ("execute_context_0(0)_generation_4(4)", Iteration("decode", 4, 4, 4)),
        ("execute_context_2(900)_generation_0(0)", Iteration("prefill", 2, 900, 0)),
        (
            "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)",
            Iteration("mixed", 46, 8192, 37, 42919, 3967906.5),
        ),
        (
            "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)",
            Iteration("decode", 32, 32, 32, 32785, 32785),
        ),
        ("step[EXTEND bs=15 toks=15360]", Iteration("prefill", 15, 15360, 0)),
        ("step[DECODE bs=32]", Iteration("decode", 32, 32, 32)),
        ("step[TARGET_VERIFY bs=4 toks=20]", Iteration("verify", 4, 20)),
        ("step[DRAFT_EXTEND_V2 bs=4]", Iteration("draft", 4)),
        (
            "step[MIXED bs=2 c=1 g=1 c_sq=5 c_sk=8 c_sqsq=25 c_sqsk=40 g_sq=1 g_sk=12 g_sqsq=1 g_sqsk=12]",
            Iteration("mixed", 2, 6, 1, 20, 39.5),
        ),
        (
            "step[EXTEND bs=8 toks=4096 c_sq=4096 c_sk=4096 c_sqsq=2097152 c_sqsk=2097152]",
            Iteration("prefill", 8, 4096, 0, 4096, 1048576),
        ),
        ("step[DECODE bs=8 g_sq=8 g_sk=4104 g_sqsq=8 g_sqsk=4104]", Iteration("decode", 8, 8, 8, 4104, 4104)),
        ("prefill[bs=2 tok=16384]", Iteration("prefill", 2, 16384, 0)),
        ("[Executor] _forward_step 12: 1 ctx reqs, 5 gen reqs", Iteration("mixed", 6, None, None)),
        ("[Executor] _forward_step: 0 ctx reqs, 5 gen reqs", Iteration("decode", 5, None, None)),
        ("execute_diffusion_1_256x256", Iteration("diffusion", 1)),
        ("attention of 8 requests, 1 new tokens each, to 640", Iteration("decode", 8, 8, 8, 5120, 5120)),
        ("attention of 8 requests, 512 new tokens each, to several", Iteration("prefill", 8, 4096, 0)),
        (
            "attention of 8 requests, 512 new tokens each, to 512 and attention of 8 requests, 1 new tokens each, to 9",
            Iteration("mixed", 8, 4104, 8, 4168),
        ),
        ("execute_model", None),
        ("decode", None),
        ("step[decode]", None),
        ("ProfilerStep#3", None),
    ],
)
def test_what_a_name_says(name, said):
    assert iteration_of(name) == said


Work = tuple[str, float]
"""The name of an iteration and how long its kernel takes, µs."""
VLLM = [
    *(("execute_context_2(900)_generation_0(0)", 400.0) for _ in range(2)),
    *((f"execute_context_0(0)_generation_{batch}({batch})", 80.0 + batch) for batch in (4, 4, 8, 8, 8, 4)),
    ("execute_context_1(300)_generation_4(4)", 200.0),
]
"""Of 10 µs more each, for the host's call: prefill, prefill, decode in two sizes, mixed."""


def written(folder: Path, works: list[Work]) -> Path:
    """Iterations one after another, 10 µs apart: one kernel each, which begins 9 µs after its range."""
    file = ChromeFile()
    now = 1000.0
    for name, lasting in works:
        file.launch("kernel", (now + 2, now + 5), (now + 9, now + 9 + lasting))
        file.event("cuda_runtime", "cudaDeviceSynchronize", (now + 6, now + 9.5 + lasting))
        file.annotation(name, now, now + 10 + lasting)
        now += 20 + lasting
    folder.mkdir(exist_ok=True)
    return file.write(folder / "server.pt.trace.json")


def opened(folder: Path, works: list[Work]) -> Trace:
    return open_path(written(folder, works), cache=False).main


def test_each_phase_is_a_kind_and_no_iteration_is_dropped(tmp_path):
    trace = opened(tmp_path, VLLM)
    assert trace.marked_by is not None
    assert (trace.marked_by.name, trace.marked_by.warm_up, trace.steps.height) == ("vLLM iteration", 0, 9)
    kinds = page_kinds(select(trace))
    assert kinds is not None
    assert [(one.phase, one.steps) for one in kinds.kinds] == [
        ("decode", (2, 3, 4, 5, 6, 7)), ("prefill", (0, 1)), ("mixed", (8,)),
    ]  # fmt: skip
    assert [one.mean_ns for one in kinds.kinds] == [96_000, 410_000, 210_000]
    assert kinds.rare == ()
    typical = typical_steps(select(trace))
    assert typical is not None
    assert typical.tolist() == [False, False, *[True] * 6, False]


def test_what_is_told_of_a_phase(tmp_path):
    served, sizes = served_rows(page_kinds(select(opened(tmp_path, VLLM))))
    decode, prefill, mixed = served.iter_rows(named=True)
    assert decode["batch"] == decode["tokens"] == 6
    assert decode["context"] is None
    # 36 tokens in 6 × (80 + 20) µs and the batches' own 36 µs
    assert decode["tokens_per_s"] == pytest.approx(36 / 636e-6)
    assert prefill["tokens_per_s"] == pytest.approx(1800 / 840e-6)
    assert decode["busy_percent"] == pytest.approx(100 * 86 / 96)
    assert (decode["gap_ns"], decode["launches"], decode["kernels"]) == (10_000, 1, 1)
    assert (mixed["tokens"], mixed["tokens_per_s"]) == (304, pytest.approx(304 / 210e-6))
    assert sizes.select("kind", "by", "least", "most", "steps", "mean_ns").rows() == [
        ("decode", "batch", 4, 4, 3, 94_000), ("decode", "batch", 8, 8, 3, 98_000),
    ]  # fmt: skip


def test_many_sizes_are_put_together(tmp_path):
    works = [(f"step[DECODE bs={batch}]", 50.0 + batch) for batch in range(1, 65)]
    _, sizes = served_rows(page_kinds(select(opened(tmp_path, works))))
    assert sizes["steps"].to_list() == [8] * 8
    assert sizes["least"].to_list() == [1 + 8 * place for place in range(8)]
    assert sizes["mean_ns"].is_sorted()


def test_what_a_larger_batch_costs_is_said_where_rates_are_known():
    rows = [
        {"kind": "decode", "by": "batch", "least": 8, "most": 8, "mean_us": 100.0, "tokens_per_s": 80_000.0},
        {"kind": "decode", "by": "batch", "least": 32, "most": 32, "mean_us": 125.0, "tokens_per_s": 256_000.0},
        {"kind": "verify", "by": "batch", "least": 8, "most": 8, "mean_us": 100.0, "tokens_per_s": None},
    ]
    (said,) = _growth(rows)
    assert said.startswith("Decode: with 4.00 times the batch an iteration takes 1.25 times as long")
    assert said.endswith("3.906 µs for each new token in place of 12.50 µs.")


def test_at_one_batch_the_context_is_what_grows(tmp_path):
    names = (f"execute_4_context_0(sq0sk0sqsq0sqsk0)_generation_4(sq4sk{4 * size}sqsq4sqsk{4 * size})"
             for size in (100, 200, 300))  # fmt: skip
    _, sizes = served_rows(page_kinds(select(opened(tmp_path, [(name, 50.0) for name in names]))))
    assert sizes.select("by", "least").rows() == [("context", 100), ("context", 200), ("context", 300)]


def test_drafts_have_no_rate_since_nobody_knows_what_is_accepted(tmp_path):
    works = [("step[TARGET_VERIFY bs=4 toks=20]", 50.0), ("step[DRAFT_EXTEND_V2 bs=4]", 20.0)] * 3
    served, _ = served_rows(page_kinds(select(opened(tmp_path, works))))
    assert sorted(served["kind"]) == ["draft", "verify"]
    assert served["tokens_per_s"].to_list() == [None, None]


def test_of_a_lone_iteration_its_work_is_the_time(tmp_path):
    """What it waited for at its begin was not recorded."""
    trace = opened(tmp_path, [("step[EXTEND bs=15 toks=15360]", 500.0)])
    assert not trace.steps.height
    served, _ = served_rows(page_kinds(select(trace)))
    assert served.select("kind", "busy_percent", "launches").rows() == [("prefill", 100, 1)]
    assert served["tokens_per_s"].to_list() == [pytest.approx(15360 / 500e-6)]


def test_a_growing_batch_is_no_kind_and_nothing_is_rare(tmp_path, capsys):
    works = [(f"step[DECODE bs={batch}]", 50.0 * batch) for batch in (1, 1, 1, 1, 1, 1, 20, 20)]
    path = written(tmp_path, works)
    kinds = page_kinds(select(open_path(path, cache=False).main))
    assert kinds is not None
    assert len(kinds.kinds) == 1
    assert cli.main(["report", str(path), "--format", "json"]) == 0
    trace = json.loads(capsys.readouterr().out)["run"]["traces"][0]
    assert "S28" not in {one["id"] for one in trace["findings"]}
    assert [row["kind"] for row in trace["overview"]["served"]] == ["decode"]


def test_the_headline_has_each_phase_and_no_mean_over_them(tmp_path, capsys):
    path = written(tmp_path, VLLM)
    assert cli.main(["report", str(path)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "an iteration of kind decode takes" in text
    assert "6 of kind decode (mean 96.00 µs)" in text
    every = overview(select(open_path(path, cache=False).main)).average_step_ns
    assert every is not None
    assert f"{every / 1000:.1f} µs" not in text


def test_steps_are_marked_as_long_among_their_like():
    steps = [Step(str(at), ns, [ns], phase=phase) for at, (phase, ns) in enumerate(
        [("decode", 10), ("prefill", 90), ("decode", 10), ("prefill", 90), ("decode", 40), ("prefill", 95)]
    )]  # fmt: skip
    assert [step.slow for step in marked(steps)] == [False, False, False, False, True, False]


PIECEWISE = OUTSIDE / "serving" / "vllm_piecewise"


@pytest.mark.skipif(not PIECEWISE.is_dir(), reason="the recordings beside the checkout are not here")
def test_attention_s_roof_and_cache_are_those_of_tracelens():
    run = open_path(PIECEWISE, cache=False)
    peaks = Peaks(compute={"bf16_tensor": Peak(1e15, "", ""), "fp32": Peak(1e15, "", "")}, bandwidth=Peak(4e12, "", ""))
    (row,) = iteration_work(run, select(run.main), peaks).iter_rows(named=True)
    assert (row["kind"], row["gpu_ns"], row["attention_ns"]) == ("mixed", 156_085_905, 5_146_906)
    # 24 layers with 64 and 8 heads of 64 in bf16; 42,919 attended tokens
    assert row["cache_bytes"] == 24 * 2 * 2 * 64 * 8 * 42_919
    # TraceLens has 65.01 GFLOP and 211.83 MiB for each call: 65.0 µs of arithmetic, 55.5 µs of memory
    assert row["attention_percent"] == pytest.approx(100 * 24 * 65_010 / 5_146_906, rel=1e-3)
    assert row["cache_percent"] == pytest.approx(100 * row["cache_bytes"] / 4e3 / 156_085_905)


def test_a_server_s_iterations_within_the_profiler_s_steps_are_kinds(tmp_path):
    file = ChromeFile()
    for step in range(2):
        begin = 1000 * step
        file.step(step, begin, begin + 900)
        file.annotation("step[EXTEND bs=2 toks=64]", begin + 10, begin + 400)
        for number in range(3):
            file.annotation("step[DECODE bs=2]", begin + 410 + 100 * number, begin + 490 + 100 * number)
    main = open_path(file.write(tmp_path / "in_steps.pt.trace.json"), cache=False).main
    assert main.steps.height == 2
    found = page_kinds(select(main))
    assert [(one.phase, len(one.steps)) for one in found.kinds] == [("decode", 6), ("prefill", 2)]
    assert [one.served.busy_percent for one in found.kinds] == [None, None]  # no GPU was recorded


def test_in_little_room_whole_parts_are_left_out():
    from tracetui.analysis.gpu.served import Point, Served
    from tracetui.app.views.overview import _served

    one = Served(60.5, 5, 997, 63920, 8, 8, 520.5, 2047, ())
    assert _served(one, 60) == "2,047 tokens/s, batch 8, context 520.5, 60.5 % busy"
    assert _served(one, 40) == "2,047 tokens/s, batch 8, context 520.5"
    assert _served(one, 20) == "2,047 tokens/s"
    # the rate of two sizes, of which one has none
    curve = (Point("context", 513, 513, 1, 4e6, None), Point("context", 528, 528, 1, 4e6, 2047))
    one = Served(60.5, 5, 997, 63920, 8, 8, 520.5, 2047, curve)
    assert _served(one, 40) == "2,047 tokens/s without the last, batch 8"


def test_ranges_that_a_program_calls_replay_are_no_phase():
    assert iteration_of("replay") is None
    assert iteration_of("other") is None


ATTENDS = "aten::scaled_dot_product_attention"


def generating(folder: Path, steps: list[list[list[int]]], operator: str = ATTENDS) -> Trace:
    """Steps of the profiler of 100 µs each, with a call of attention for each of their queries' and keys' shapes."""
    file = ChromeFile()
    for number, calls in enumerate(steps):
        now = 1000.0 + 100 * number
        file.step(number, now, now + 100)
        for place, (batch, new, attended) in enumerate(calls):
            at = now + 1 + 20 * place
            file.operator(operator, at, at + 10, [[batch, 8, new, 64], [batch, 2, attended, 64]])
            file.launch("attention", (at + 1, at + 2), (at + 4, at + 9))
    folder.mkdir(exist_ok=True)
    return open_path(file.write(folder / "generate.pt.trace.json"), cache=False).main


def told(trace: Trace) -> list[tuple[str | None, tuple[int, ...]]] | None:
    kinds = page_kinds(select(trace))
    return None if kinds is None else [(one.phase, one.steps) for one in kinds.kinds]


def test_attention_tells_prefill_from_decode_where_no_range_names_them(tmp_path):
    steps = [[[4, 512, 512]] * 2, *([[4, 1, 512 + place]] * 2 for place in (1, 2, 3))]
    trace = generating(tmp_path, steps)
    assert told(trace) == [("decode", (1, 2, 3)), ("prefill", (0,))]
    served, sizes = served_rows(page_kinds(select(trace)))
    assert served["batch"].to_list() == [4, 4]
    assert served["tokens"].to_list() == [4, 2048]
    assert served["context"].to_list() == [514, 512]
    # the last iteration has none after it
    assert served["tokens_per_s"].to_list() == pytest.approx([4 / 100e-6, 2048 / 100e-6])
    assert sizes["least"].to_list() == [513, 514, 515]


@pytest.mark.parametrize(
    ("flags", "pairs"),
    [
        (["", "", "", "", "False", "0.", "True", "False", "0.125"], 2 * 4 * 5 / 2),
        (["", "", "", "", "True", "0.10000000000000001", "False", "False", ""], 2 * 4 * 4),
        (["", "", "", "0.", "True", "False", ""], 2 * 4 * 5 / 2),
        (["", "", "", "0.", "0.125", "False"], 2 * 4 * 4),
        (["", "", ""], None),
    ],
    ids=("cuDNN, causal", "cuDNN, not", "flash, causal", "flash_attn, not", "not recorded"),
)
def test_what_a_mask_leaves_of_prefill_is_read_from_its_inputs(tmp_path, flags, pairs):
    trace = generating(tmp_path, [[[2, 4, 4]], [[2, 1, 5]]])
    given = pl.when(pl.col("kind") == "operator").then(pl.lit(json.dumps(flags), pl.Categorical))
    said = replace(trace, host=trace.host.with_columns(concrete_inputs=given))
    _, names = iterations(select(said))
    assert [iteration_of(name).pairs for name in names.values()] == [pairs, 10]


@pytest.mark.parametrize(
    ("steps", "operator"),
    [
        ([[[4, 197, 197]], [[4, 197, 197]]], ATTENDS),
        ([[[4, 1, 1]], [[4, 1, 1]]], ATTENDS),
        ([[[4, 196, 196], [4, 1, 197]], [[4, 196, 196], [4, 1, 197]]], ATTENDS),
        ([[[4, 512, 512]], [[4, 1, 513]]], "aten::_scaled_dot_product_flash_attention_backward"),
    ],
    ids=("a picture's", "of one token", "a class token beside others", "training"),
)
def test_other_attention_tells_no_phase(tmp_path, steps, operator):
    found = told(generating(tmp_path, steps, operator))
    assert found is not None
    assert {phase for phase, _ in found} == {None}


def test_a_step_that_replays_one_graph_and_another_the_next_is_told_apart(tmp_path):
    file = ChromeFile()
    now = 1000.0
    for number, kernels in enumerate((["a", "b"], ["a", "b", "c"])):
        file.step(number, now, now + 400)
        file.launch("prefill", (now + 1, now + 2), (now + 3, now + 30))
        for place in range(5):
            now_at = now + 50 + 50 * place
            replay(file, kernels, now_at)
        now += 400
    trace = open_path(file.write(tmp_path / "graphs.pt.trace.json"), cache=False).main
    assert told(trace) == [("replay", (1, 2, 3, 4, 5, 7, 8, 9, 10, 11)), ("other", (0, 6))]


def test_the_clean_steps_time_a_phase_that_all_steps_are_of(tmp_path):
    trace = generating(tmp_path, [[[4, 1, 513]] * 2] * 3)
    lengths = (60_000, 62_000, 61_000, 61_000)
    timed = replace(trace, clean_step_ns=lengths, light=lambda: trace)
    kinds = page_kinds(select(timed))
    assert kinds is not None
    assert (kinds.of, kinds.typical.phase, kinds.typical.steps) == ("clean", "decode", (1, 2, 3, 4))
    assert kinds.mean_ns == 61_000
    served, sizes = served_rows(kinds)
    assert served["tokens_per_s"].to_list() == [pytest.approx(4 / 61e-6)]
    assert served["busy_percent"].to_list() == [pytest.approx(100 * 10 / 61)]
    assert not sizes.height
    uneven = replace(trace, clean_step_ns=(60_000, 61_000, 60_000, 600_000, 60_000, 60_500), light=lambda: trace)
    kinds = page_kinds(select(uneven))
    assert kinds is not None
    assert kinds.of == "recorded"
