"""Sweeps: points from folders, captures and tables; variants against their baseline; charts; the tab."""

import csv
import io
import itertools
import json
import math
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from as_json import sweep_report
from by_schema import wrong
from laid_out import body, diff_csv, diff_text
from reported import compared, swept
from sample_runs import SWEEP, recorded, run_of
from sweep_maker import write_run, write_sweep, write_trace
from tui_pilot import opened, press, screen_text

from tracetui.analysis.captures.measure import kind_times
from tracetui.analysis.report.sweep import sweep_json
from tracetui.analysis.selection import in_steps, select
from tracetui.analysis.sweeps.compare import baseline, comparisons, kinds_of, scaling
from tracetui.analysis.sweeps.model import Point, Sample, Sweep
from tracetui.analysis.sweeps.reading import read_sweep
from tracetui.app.charts.lines import Line, line_chart
from tracetui.app.cli.main import main
from tracetui.app.reports.content.sweep import kind_blocks, section_csv, section_parts, speedup_chart
from tracetui.app.reports.layout import Layout
from tracetui.app.reports.markdown import markdown
from tracetui.app.reports.text import text
from tracetui.app.views.sweep import _page
from tracetui.parsers import open_path
from tracetui.parsers.errors import TraceError
from tracetui.parsers.names.kernel_names import category, kind_of

Points = list[tuple[dict[str, Any], list[float], float, int]]

REDUCTION: Points = [
    # at small batches the step waits for launches, of which the reduction adds some; FLOPs fall by 68 %
    ({"batch": batch, "keep": keep}, [step * 0.99, step * 1.01], flops * batch, kernels)
    for keep, flops, kernels, steps in (
        (1.0, 35e9, 100, {1: 6000.0, 2: 6100.0, 4: 9000.0, 8: 17000.0}),
        (0.1, 11e9, 120, {1: 7100.0, 2: 7150.0, 4: 7200.0, 8: 7400.0}),
    )
    for batch, step in steps.items()
]


@pytest.fixture(scope="module")
def reduction(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sweep of `REDUCTION`, for tests that only read it."""
    return write_sweep(tmp_path_factory.mktemp("made") / "sweep", REDUCTION)


@pytest.fixture
def changed(tmp_path: Path, reduction: Path) -> Path:
    """The same for tests that change what the sweep says; its traces are links, which the cache knows."""

    def place(source: str, target: str) -> None:
        if source.endswith(".trace.json"):
            Path(target).symlink_to(source)
        else:
            shutil.copy(source, target)

    return Path(shutil.copytree(reduction, tmp_path / "sweep", copy_function=place))


def table(tmp_path: Path, text: str) -> Sweep:
    path = tmp_path / "table.csv"
    path.write_text(text)
    return read_sweep(path)


# --- folders


def test_a_sweep_that_profile_wrote(reduction: Path) -> None:
    sweep = read_sweep(reduction)
    assert (sweep.source, sweep.axes, sweep.x_axis) == ("index", ("batch", "keep"), "batch")
    assert len(sweep.points) == 8
    assert sweep.base == "the median step without a profiler"
    first = sweep.points[0]
    assert first.axes == {"batch": 1, "keep": 0.1}
    assert first.label == "batch 1, keep 0.1"
    assert first.step_ns == pytest.approx(7_100_000)  # the median of each run, then of the repeats
    assert first.std_ns == pytest.approx(7_100_000 * 0.01 * math.sqrt(2))
    assert (first.repeats, first.kernels, first.gpu_ns, first.flops) == (2, 120, 1_200_000, 11e9)
    assert first.images_per_s == pytest.approx(1 / 0.0071)
    assert first.busy_percent == pytest.approx(100 * 1200 / (7100 * 1.2), rel=0.02)  # of the profiled steps
    assert sweep.cv == pytest.approx(0.01 * math.sqrt(2), rel=1e-3)


def test_where_the_variant_overtakes(reduction: Path) -> None:
    (one,) = comparisons(read_sweep(reduction))
    assert one.label == "keep 0.1 against 1"
    assert [row.x for row in one.rows] == [1, 2, 4, 8]
    assert one.rows[0].speedup == pytest.approx(6000 / 7100)
    assert one.rows[0].work_removed_percent == pytest.approx(100 * 24 / 35)
    assert one.rows[3].lost_percent == pytest.approx(100 * (1 - (17000 / 7400) / (35 / 11)))
    gain = [math.log(6100 / 7150), math.log(9000 / 7200)]
    expected = math.exp(math.log(2) + gain[0] / (gain[0] - gain[1]) * math.log(2))
    assert one.crossover.value == pytest.approx(expected)
    assert one.crossover.interval is not None
    low, high = one.crossover.interval
    assert low is not None
    assert high is not None
    assert 2 < low < expected < high < 4
    assert one.crossover.verdict.startswith("0.1 is faster from batch 2.6")


def test_no_crossover_in_range(tmp_path: Path) -> None:
    slower = [(values, [2 * step for step in steps] if values["keep"] == 0.1 else steps, flops, kernels)
              for values, steps, flops, kernels in REDUCTION if values["batch"] < 4]  # fmt: skip
    (one,) = comparisons(read_sweep(write_sweep(tmp_path / "sweep", slower)))
    assert one.crossover.value is None
    assert one.crossover.verdict == "no crossover in range: 0.1 is slower at every batch from 1 to 2"


def test_without_repeats_an_interval_can_not_be_told(tmp_path: Path) -> None:
    once: Points = [(values, steps[:1], flops, kernels) for values, steps, flops, kernels in REDUCTION]
    (one,) = comparisons(read_sweep(write_sweep(tmp_path / "sweep", once)))
    assert one.crossover.value is not None
    assert one.crossover.interval is None
    assert "without repeats" in one.crossover.verdict


def noisy(tmp_path: Path, *steps: tuple[float, float]) -> Sweep:
    """Baseline and variant at batch 1, 2, 4, …, whose repeats differ by 28 % (one standard deviation)."""
    points: Points = [
        ({"batch": 2**n, "keep": keep}, [0.8 * step, 1.2 * step], 1e9, 5)
        for n, pair in enumerate(steps)
        for keep, step in zip((1.0, 0.5), pair, strict=True)
    ]
    return read_sweep(write_sweep(tmp_path / "sweep", points))


def test_an_interval_that_leaves_the_range(tmp_path: Path) -> None:
    (one,) = comparisons(noisy(tmp_path, (1000, 1050), (1000, 900), (3000, 1000)))
    assert one.crossover.interval is not None
    assert one.crossover.interval[0] is None
    assert "maybe below the range" in one.crossover.verdict


def test_noise_everywhere_tells_nothing(tmp_path: Path) -> None:
    (one,) = comparisons(noisy(tmp_path, (1000, 1020), (1000, 980)))
    assert (one.crossover.value, one.crossover.interval) == (None, None)
    assert one.crossover.verdict.startswith("can't be told: the difference is within the noise")


def test_a_failed_point_is_said(changed: Path) -> None:
    folder = changed / "batch=1,keep=0.1" / "repeat-1"
    (folder / "trace.pt.trace.json").unlink()
    sweep = read_sweep(changed)
    assert sweep.points[0].repeats == 1
    assert any("batch=1,keep=0.1/repeat-1" in note for note in sweep.notes)


def test_an_index_that_points_elsewhere_is_not_followed(changed: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "outside", [100.0] * 3, {"k": (1, 1.0)})
    index = json.loads((changed / "sweep.json").read_text())
    index["points"].append({"values": {"batch": 99}, "folder": "../outside", "repeat": 1})
    index["points"].append({"values": "none"})
    (changed / "sweep.json").write_text(json.dumps(index))
    sweep = read_sweep(changed)
    assert 99 not in sweep.values("batch")
    assert len(sweep.notes) == 2


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", '{"schema": "other/1"}'])
def test_without_a_usable_index_the_runs_tell(changed: Path, text: str) -> None:
    (changed / "sweep.json").write_text(text)
    sweep = read_sweep(changed)
    assert (sweep.source, set(sweep.axes), len(sweep.points)) == ("runs", {"batch", "keep"}, 8)


def test_captures_by_their_names(tmp_path: Path) -> None:
    for name, step, calls in (("m_bs1", 500.0, 3), ("m_bs2", 510.0, 3), ("m_bs16", 900.0, 6)):
        write_trace(tmp_path / f"{name}.json", [step, step + 2, step], {"k": (calls, 20.0)})
    sweep = read_sweep(tmp_path)
    assert (sweep.source, sweep.axes) == ("captures", ("batch",))
    assert [(p.axes["batch"], p.step_ns, p.kernels, p.gpu_ns) for p in sweep.points] == [
        (1, 500_000, 3, 60_000), (2, 510_000, 3, 60_000), (16, 900_000, 6, 120_000),
    ]  # fmt: skip
    assert sweep.points[2].images_per_s == pytest.approx(16 / 900e-6)
    assert sweep.points[2].sample_ns == pytest.approx(900e3 / 16)
    assert sweep.best == {"batch 16"}
    assert replace(sweep, points=sweep.points[:1]).best == frozenset()  # nothing to be better than


def test_captures_that_number_their_repeats(tmp_path: Path) -> None:
    for name, step in (("b1_run1", 500.0), ("b1_run2", 520.0), ("b4_run1", 600.0), ("b4_run2", 640.0)):
        write_trace(tmp_path / f"{name}.json", [step] * 3, {"k": (1, 20.0)})
    sweep = read_sweep(tmp_path)
    assert [(p.axes, p.repeats) for p in sweep.points] == [({"batch": 1}, 2), ({"batch": 4}, 2)]


def test_recorded_captures() -> None:
    sweep = read_sweep(recorded("chrome/kineto_samples"))
    assert sweep.axes == ("workers",)
    assert [point.axes["workers"] for point in sweep.points] == [0, 4]
    assert sweep.points[0].step_ns == pytest.approx(177_443_000)


def test_captures_without_any_regularity_are_points_of_their_own(tmp_path: Path) -> None:
    for name in ("alpha", "beta_two_x", "gamma"):
        write_trace(tmp_path / f"{name}.json", [500.0] * 3, {name: (1, 20.0)})
    sweep = read_sweep(tmp_path)
    assert [len(point.samples) for point in sweep.points] == [1, 1, 1]
    assert comparisons(sweep) == []


def test_ranks_are_no_sweep() -> None:
    with pytest.raises(TraceError, match="ranks of one run"):
        read_sweep(recorded("chrome/ddp_vit_small_2ranks"))


def test_repeats_of_one_point(tmp_path: Path) -> None:
    sweep = read_sweep(write_sweep(tmp_path / "sweep", [({"batch": 4}, [1000.0, 1010.0, 990.0], 1e9, 5)]))
    assert (sweep.axes, sweep.x_axis, len(sweep.points)) == ((), None, 1)
    assert sweep_report(sweep)["points"][0]["repeats"] == 3


def test_one_run_is_no_sweep(tmp_path: Path) -> None:
    write_trace(tmp_path / "a.json", [500.0] * 3, {"k": (1, 20.0)})
    with pytest.raises(TraceError, match="no sweep"):
        read_sweep(tmp_path)
    with pytest.raises(TraceError, match="no such"):
        read_sweep(tmp_path / "missing")


# --- tables


def test_it_says_up_to_which_size_more_is_done_per_second(tmp_path: Path) -> None:
    def said(*latencies_ms: float) -> str:
        path = tmp_path / "table.csv"
        rows = [f"{2**at},{ms * factor}" for at, ms in enumerate(latencies_ms) for factor in (0.99, 1.01)]
        path.write_text("batch,latency_ms\n" + "\n".join(rows))
        return scaling(read_sweep(path))

    assert said(3, 3, 4) == "Samples/s grow with batch up to 4, the last (3 times those at 1)."
    assert said(4, 4, 8, 16) == "Samples/s grow with batch up to 2 (2 times those at 1)."
    assert said(4, 4, 7.98, 15.9).startswith("Samples/s grow with batch up to 2 (2 times")  # within the repeats
    assert said(4, 8.5) == "Samples/s grow with batch not at all."


def test_a_table_as_the_guide_writes_it(tmp_path: Path) -> None:
    sweep = table(tmp_path, "batch_size,token_reduction,throughput_img_s,latency_ms\n1,no,100,10\n8,no,400,20\n")
    assert sweep.axes == ("batch",)
    assert [(p.step_ns, p.images_per_s, p.seen) for p in sweep.points] == [(10e6, 100, 1.0), (20e6, 400, 8.0)]


@pytest.mark.parametrize(
    ("head", "row", "step_ns"),
    [
        ("Batch Size;Latency [us]", "{};250", 250e3),
        ("bs\tTime (s)", "{}\t0.5", 0.5e9),
        ("BS,step_ns", "{},1500", 1500),
        ("batch , mean latency ms", "{} , 2.5", 2.5e6),
        ("batch,latency", "{},2.5 ms", 2.5e6),
        ("# made by a script\nbatch,img/s", "{},{}", 1e9),
        ('"Batch","Samples per second"', '"{}","{}"', 1e9),
        ("batch,FPS", "{},{}", 1e9),
        ("batch_size,throughput(img/s)", "{},{}", 1e9),
        ("\ufeffbatch,duration_ms", "{},4", 4e6),
        ("batch,images,img_s,p50_ms", "{},640,{},1000", 1e9),
        ("batch,tokens/s", "{},{}", 1e9),
        ("batch,status,min_ms,max_ms,std_ms,mean_ms", "{},ok,1,9,1,4", 4e6),
        ("batch,load_time_s,total_time_s,latency_ms,p99_latency_ms", "{},3,60,4,9", 4e6),
        ("batch,timestamp,wall_time_ms", "{},1700000000,4", 4e6),
    ],
)
def test_headers_are_matched_loosely(tmp_path: Path, head: str, row: str, step_ns: float) -> None:
    lines = [row.replace("{}", str(batch)) for batch in (1, 2)]
    sweep = table(tmp_path, "\n".join([head, *lines, ""]))
    assert sweep.axes == ("batch",)
    assert [point.step_ns for point in sweep.points] == [pytest.approx(step_ns)] * 2


def test_work_types_and_columns_of_other_things(tmp_path: Path) -> None:
    sweep = table(
        tmp_path,
        "model,precision,bs,GMACs,latency_ms,gpu_mem_mb,speedup,seed\n"
        "a,fp32,1,2.5,10,900,1,0\na,fp16,1,2.5,8,700,1.25,0\na,fp32,1,2.5,12,900,1,1\na,fp16,2,5,OOM,,,0\n",
    )
    assert sweep.axes == ("dtype", "batch")
    assert [p.flops for p in sweep.points] == [5e9, 10e9, 5e9]
    by_label = {p.label: p for p in sweep.points}
    assert by_label["dtype fp32, batch 1"].repeats == 2  # the seed numbers them
    assert by_label["dtype fp16, batch 2"].problem == "line 5 has no time"
    assert "gpu_mem_mb, speedup" in sweep.notes[0]


def test_a_time_per_image_is_multiplied(tmp_path: Path) -> None:
    sweep = table(tmp_path, "batch,throughput,ms per image\n1,100,10\n8,400,2.5\n")
    assert [(p.step_ns, p.seen) for p in sweep.points] == [(10e6, 1.0), (20e6, 8.0)]


def test_rows_that_are_short_or_wrong(tmp_path: Path) -> None:
    sweep = table(tmp_path, "batch,latency_ms\n1,5\n2\n\n4,fast\n8,-1\n16,1e309\n")
    assert [p.step_ns for p in sweep.points][:2] == [5e6, None]
    assert any("line 5" in note for note in sweep.notes)


@pytest.mark.parametrize("text", ["", "\n\n", "a,b\n1,2\n", "batch\n1\n", "latency_ms\n1\n", "\x00\x01\xff,;\n"])
def test_what_is_no_table_of_a_sweep(tmp_path: Path, text: str) -> None:
    with pytest.raises(TraceError, match="no table of a sweep"):
        table(tmp_path, text)


@pytest.mark.parametrize(
    ("axis", "values", "base"),
    [
        ("keep", [0.1, 0.5, 1.0], 1.0),
        ("token_reduction", ["0.1", "none"], "none"),
        ("token_reduction", [0, 1], 0),
        ("token_reduction", ["False", "True"], "False"),
        ("dtype", ["bf16", "fp16", "fp32"], "fp32"),
        ("model", ["first", "second"], "first"),
        ("compile", ["False", "True"], "False"),
    ],
)
def test_the_baseline(axis: str, values: list[Any], base: object) -> None:
    assert baseline(axis, values) == base


# --- reports


def test_the_contract(reduction: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", str(reduction), "--format", "json", "--no-cache"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert not wrong("sweep", found)
    assert found["axes"] == ["batch", "keep"]
    assert found["crossover"]["value"] == pytest.approx(2.668, abs=0.001)
    assert found == json.loads(json.dumps(sweep_report(read_sweep(reduction)) | {"path": str(reduction)}))


def test_the_text_answers_the_question(reduction: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", str(reduction)]) == 0
    text = capsys.readouterr().out
    assert max(map(len, body(text).splitlines())) <= 80
    assert "keep 0.1 against 1: 0.1 is faster from batch 2.67 on" in text.replace("\n", " ")
    assert "less work%" in text  # the work removed, beside the speed-up
    assert "68.6" in text
    flowing = " ".join(text.split())
    assert (
        "- batch 1, keep 0.1: 0.85 times as fast; 68.6 % less work; GPU work +200.0 µs, the rest of the step +900.0 "
        "µs; +20 kernels" in flowing
    )
    assert "step time, log-log" in text
    assert main(["sweep", str(reduction), "--ascii"]) == 0
    assert capsys.readouterr().out.isascii()


def test_csv_and_markdown(reduction: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", str(reduction), "--format", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("batch,keep,step_us,std_us,repeats")
    assert len(lines) == 9
    assert main(["sweep", str(reduction), "--format", "markdown"]) == 0
    assert "| batch | keep | Step |" in capsys.readouterr().out


def test_a_folder_without_a_sweep_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", str(tmp_path)]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


# --- charts


def chart(lines: list[Line], width: int = 60, height: int = 12, **options: Any) -> list[str]:
    return line_chart(lines, width, height, x_title="batch", y_title="time", x_label=lambda v: f"{v:g}",
                      y_label=lambda v: f"{v:.3g}", **options)  # fmt: skip


def test_a_chart_keeps_to_its_room() -> None:
    for case in itertools.product([True, False], [6, 12, 40], [24, 60, 200]):
        log, height, width = case
        lines = [Line("a", ((1, 5), (2, 6), (1024, 9e9))), Line("b" * 40, ((1, 7), (2, 0)))]
        drawn = chart(lines, width, height, log=log, ascii=True)
        assert 0 < len(drawn) <= height, case
        assert max(map(len, drawn)) <= width, case
        assert "".join(drawn).isascii(), case


def test_a_line_in_proportion_is_straight_on_logarithmic_axes() -> None:
    drawn = chart([Line("a", tuple((2.0**n, 3.0 * 2**n) for n in range(5)))], 60, 8)
    marks = [(row, line.index("o")) for row, line in enumerate(drawn) if "o" in line and "│" in line]
    assert len(marks) == 5
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(marks)]
    assert {step[0] for step in steps} == {1}
    assert max(step[1] for step in steps) - min(step[1] for step in steps) <= 1


def test_one_point_and_no_point() -> None:
    assert chart([]) == []
    assert chart([Line("a", ((0, 1), (1, 0)))], log=True)[0] == "time"  # 0 has no place on a logarithmic axis
    assert any("o" in row for row in chart([Line("a", ((1, 5),))]))


# --- the tab


async def test_the_tab(reduction: Path) -> None:
    async with opened(reduction / "batch=1,keep=1.0" / "repeat-1", tab="sweep", size=(100, 40)) as (app, pilot):
        text = screen_text(app)
        assert "keep 0.1 against 1: 0.1 is faster from batch 2.67 on" in text
        assert "step time, log-log" in text
        assert "8 points · step: median without a profiler, busy: under it" in text
        await press(pilot, "D")
        assert "samples per second, log-log" in screen_text(app)
        await press(pilot, "v")
        assert "speed-up" in screen_text(app)
        assert "slower" in screen_text(app)
        await press(pilot, "v")
        assert "D6" in screen_text(app)


async def test_a_run_without_a_sweep_says_how_to_make_one(tmp_path: Path) -> None:
    write_trace(tmp_path / "a.json", [500.0] * 3, {"k": (1, 20.0)})
    async with opened(tmp_path / "a.json", tab="sweep") as (app, _):
        assert "--sweep batch=1,2,4" in screen_text(app)


async def test_a_sweeps_folder_opens_on_its_tab(reduction: Path) -> None:
    async with opened(reduction, size=(100, 40)) as (app, _):
        assert app.tab == "sweep"
        assert "8 points" in screen_text(app)


async def test_enter_opens_a_points_run_and_compares_a_variant(reduction: Path) -> None:
    async with opened(reduction, size=(100, 40)) as (app, pilot):
        await press(pilot, "G", "enter")
        assert app.tab == "overview"
        assert app.session.runs["a"].path == reduction / "batch=8,keep=1.0" / "repeat-1"
        assert "Esc back" in screen_text(app).splitlines()[-1]
        await press(pilot, "escape")
        assert (app.tab, app.view.table.cursor) == ("sweep", 7)
        await press(pilot, "enter", "ctrl+o")
        assert app.tab == "sweep"
        await press(pilot, "1")
        await press(pilot, "0", "v", "enter", "enter")
        assert app.tab == "diff"
        assert [app.session.runs[side].path.parent.name for side in ("a", "b")] == [
            "batch=1,keep=1.0",
            "batch=1,keep=0.1",
        ]
        assert "Explained by keep 1.0 → 0.1" in screen_text(app)


VIM = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"
ADDED = {"top-k", "sort", "gather/scatter", "reduce"}


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return sweep_json(swept(SWEEP))


def test_a_kind_is_the_category_but_for_what_is_too_wide() -> None:
    names = {
        "void at::native::sbtopk::gatherTopK<float, unsigned int, 1, false>(int)": "top-k",
        "void at::native::bitonicSortKVInPlace<2, -1, 16, 16, float, long>(int)": "sort",
        "void at::native::vectorized_gather_kernel<16, long>(char*, char*)": "gather/scatter",
        "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel>(long)": "gather/scatter",
        "void at::native::_scatter_gather_elementwise_kernel<128, 8>(int)": "gather/scatter",
        "void at::native::CatArrayBatchedCopy<int, unsigned int, 3, 64, 64>(int*)": "concatenate",
        "void at::native::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(float*)": "loss",
        "void (anonymous namespace)::indexSelectLargeIndex<float>(int)": "gather/scatter",
        "nchwToNhwcKernel": "copy",
        "void at::native::index_elementwise_kernel<128, 4, at::native::flip_kernel_impl<float> >(long)": "copy",
        "store_kvcache": "copy",
        "trampoline_kernel": "other",
    }
    assert {name: kind_of(name) for name in names} == names
    others = [
        name for name in run_of(VIM).main.device["name"].cast(str).unique() if category(name) not in ("other", "copy")
    ]
    assert len(others) > 5
    assert all(kind_of(name) == category(name) for name in others)


def test_kinds_are_all_the_work_of_the_steps() -> None:
    sel = in_steps(select(run_of(VIM).main))
    table = kind_times(sel)
    work = sel.device.filter(sel.device["kind"].is_in(["kernel", "memcpy", "memset"]))
    assert table["ns"].sum() * sel.step_count == pytest.approx(work["duration"].sum())
    assert table["calls"].sum() * sel.step_count == pytest.approx(work.height)
    copies = work.filter(work["kind"] == "memcpy")
    assert table.filter(kind="memcpy")["ns"].item() == pytest.approx(copies["duration"].sum() / sel.step_count)


def test_what_token_reduction_adds_at_every_batch(found: dict[str, Any]) -> None:
    for batch in (1, 4, 16):
        rows = [row for row in found["kinds"] if row["x"] == batch]
        added = {row["kind"] for row in rows if row["status"] == "added"}
        assert added - {"memset"} == ADDED
        (one,) = (row for one in found["comparisons"] for row in one["points"] if row["x"] == batch)
        assert sum(row["delta_us"] for row in rows) == pytest.approx(one["gpu_delta_us"], rel=0.05)  # medians


def test_the_added_kernels_are_those_of_the_trace(found: dict[str, Any]) -> None:
    run = open_path(SWEEP / "batch=16,keep=0.1" / "repeat-1").main
    counted = Counter(kind_of(name) for name in run.device.filter(run.device["kind"] == "kernel")["name"].cast(str))
    steps = run.steps.height
    for row in found["kinds"]:
        if row["x"] == 16 and row["kind"] not in ("memcpy", "memset"):
            assert row["variant_calls"] == pytest.approx(counted[row["kind"]] / steps), row["kind"]


def test_repeats_count_as_their_median() -> None:
    samples = [
        Sample({}, "a", kinds={"gemm": (2.0, 10.0, "g"), "sort": (1.0, 5.0, "s")}),
        Sample({}, "b", kinds={"gemm": (4.0, 30.0, "g")}),
        Sample({}, "c", kinds={"gemm": (4.0, 20.0, "g")}),
        Sample({}, "d"),
    ]
    assert kinds_of(Point({}, tuple(samples))) == {"gemm": (4.0, 20.0, "g")}


def test_tables_and_csv_say_the_same(found: dict[str, Any]) -> None:
    rows = list(csv.DictReader(io.StringIO(section_csv(swept(SWEEP), "kinds"))))
    assert [(row["kind"], float(row["delta_us"])) for row in rows] == [
        (row["kind"], pytest.approx(row["delta_us"])) for row in found["kinds"]
    ]
    (block,) = kind_blocks(swept(SWEEP), Layout())
    top_k = next(cells for cells in block.cells if cells[0] == "+ top-k")
    assert top_k[1::2] == ["+14.35 µs", "+15.90 µs", "+17.46 µs"]
    assert top_k[2::2] == ["+3", "+3", "+3"]
    layout = Layout()
    assert "| + top-k |" in markdown(section_parts(swept(SWEEP), ("kinds",), layout), layout)


def test_the_speed_up_has_a_picture_and_a_csv(found: dict[str, Any]) -> None:
    (one,) = found["comparisons"]
    chart = speedup_chart(swept(SWEEP).comparisons[0], Layout())
    assert chart is not None
    assert chart.rows[-1].strip() == "o speed-up   x what the removed work allows   + as fast as the baseline"
    assert chart.rows[1].strip().startswith("3.16 │x")  # 35 GFLOPs to 11
    rows = list(csv.DictReader(io.StringIO(section_csv(swept(SWEEP), "comparisons"))))
    for row, point in zip(rows, one["points"], strict=True):
        assert float(row["speedup"]) == pytest.approx(float(row["baseline_us"]) / float(row["variant_us"]))
        lost = 100 * (1 - float(row["speedup"]) / float(row["possible_speedup"]))
        assert float(row["lost_percent"]) == pytest.approx(lost) == pytest.approx(point["lost_percent"])
    for charts in (True, False):
        layout = Layout(charts=charts)
        assert (
            "what the removed work allows" in text(section_parts(swept(SWEEP), ("comparisons",), layout), layout)
        ) == charts


def test_a_point_without_a_number_or_with_one_size_has_no_picture(tmp_path: Path) -> None:
    from tracetui.analysis.report.sweep import sweep_report
    from tracetui.analysis.sweeps.reading import read_sweep

    points = [
        ({"batch": 1, "keep": keep}, [step], flops, 5) for keep, step, flops in ((1.0, 900.0, 2e9), (0.5, 800.0, 1e9))
    ]
    (one,) = sweep_report(read_sweep(write_sweep(tmp_path / "one", points))).comparisons
    assert speedup_chart(one, Layout()) is None


def test_a_diff_lists_the_kinds_of_only_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = (SWEEP / f"batch=16,keep={keep}" / "repeat-1" for keep in ("1.0", "0.1"))
    told = {row["kind"]: row for row in compared(a, b)["kinds"]}
    assert {kind for kind, row in told.items() if row["status"] == "added"} >= ADDED
    assert sum(row["delta_us"] for row in told.values()) == pytest.approx(
        next(row["delta_us"] for row in compared(a, b)["split"] if row["part"] == "gpu_time"), abs=1
    )
    assert main(["diff", str(a), str(b), "--section", "kinds"]) == 0
    said = capsys.readouterr().out
    assert "Kinds of work: " in said
    assert "Operators" not in said
    assert "Kinds of work that only one of them has" in diff_text(compared(a, b))
    assert {row["kind"] for row in csv.DictReader(io.StringIO(diff_csv(compared(a, b), "kinds")))} == set(told)


def test_the_screen_lists_what_differs(found: dict[str, Any]) -> None:
    frame = _page("kinds", swept(SWEEP)).frame
    differing = [row for row in found["kinds"] if row["status"] != "same"]
    assert frame["kind"].to_list() == [row["kind"] for row in differing]
    assert frame["delta_ns"].to_list() == pytest.approx([1000 * row["delta_us"] for row in differing])
