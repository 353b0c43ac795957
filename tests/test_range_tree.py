"""The tree of ranges: paths, times that add up, kernels of a path; and where it stands on the screen and in reports."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from nsys_file import NsysFile
from nvtx_trace import nvtx_trace
from sample_runs import FP32 as VIM
from sample_runs import GPT as GPT_FILE
from sample_runs import recorded
from tui_pilot import opened, press, screen_text

from tracetui.analysis.attribution.calltree import LONGEST_PATH
from tracetui.analysis.kernels import NOT_IN_ANY_RANGE
from tracetui.analysis.ranges import LAYOUT, range_kernels, range_launches, range_tree
from tracetui.analysis.selection import Scope, select
from tracetui.app.cli import main as cli
from tracetui.app.tables.trees import largest, merged_ranges, tree_rows
from tracetui.app.text.words import nothing
from tracetui.parsers import Source, Trace, TraceInfo

Recording = Callable[[str], Trace]

GPT = "chrome/gpt_small_ctx256.trace.json.gz"
DDP = "chrome/ddp_vit_small_2ranks/rank0.pt.trace.json.gz"
NSYS_GPT = "nsys/gpt_small_ctx256.sqlite.gz"
NSYS_VIM = "nsys/vim_tiny_fp32_bs4.sqlite.gz"


def two_steps() -> Trace:
    return nvtx_trace(
        ("range", "step", 0, 100),
        ("range", "forward", 10, 50),
        ("range", "all_reduce", 20, 30, {"domain": "NCCL"}),
        ("range", "backward", 60, 90),
        ("range", "step", 100, 200),
        ("range", "forward", 110, 140),
        ("call", "cudaLaunchKernel", 12, 14),
        ("call", "cudaLaunchKernel", 22, 24),
        ("call", "cudaLaunchKernel", 55, 57),
        ("call", "cudaLaunchKernel", 62, 64, {"thread": 2}),
        ("call", "cudaLaunchKernel", 112, 114),
        ("kernel", "gemm", 300, 310, {"launch": 12}),
        ("kernel", "ncclAllReduce", 310, 330, {"launch": 22}),
        ("kernel", "relu", 330, 333, {"launch": 55}),
        ("kernel", "gemm_backward", 333, 373, {"launch": 62}),
        ("memcpy", "[CUDA memcpy Host-to-Device]", 400, 405, {"launch": 112}),
    )


def test_ranges_with_the_same_ranges_around_them_are_one_row() -> None:
    found = range_tree(select(two_steps()))
    assert found.select("path", "depth", "calls", "host_total_ns", "host_self_ns").rows() == [
        ("step", 0, 2, 200, 100),
        ("step/forward", 1, 2, 70, 60),
        ("step/forward/NCCL:all_reduce", 2, 1, 10, 10),
        ("step/backward", 1, 1, 30, 30),
        (NOT_IN_ANY_RANGE, 0, 0, None, None),
    ]
    assert found.select("device_self_ns", "device_total_ns", "gpu_ops", "gpu_projected_ns").rows() == [
        (3, 38, 4, 38),  # 300 to 333 and 400 to 405
        (15, 35, 3, 35),
        (20, 20, 1, 20),
        (0, 0, 0, 0),
        (40, 40, 1, None),
    ]
    assert found.schema == pl.Schema(LAYOUT)


def test_the_kernels_of_a_path_are_those_of_what_is_inside_too() -> None:
    sel = select(two_steps())
    number = dict(range_tree(sel).select("path", "number").rows())
    kernels = {path: set(range_kernels(sel, at)["name"]) for path, at in number.items()}
    assert kernels == {
        "step": {"gemm", "ncclAllReduce", "relu"},
        "step/forward": {"gemm", "ncclAllReduce"},
        "step/forward/NCCL:all_reduce": {"ncclAllReduce"},
        "step/backward": set(),
        NOT_IN_ANY_RANGE: {"gemm_backward"},
    }
    rows, paths = range_launches(sel, number["step/forward"])
    assert paths == ["step/forward", "step/forward/NCCL:all_reduce"]
    assert rows.height == 2


def test_ranges_that_overlap_stand_beside_each_other() -> None:
    trace = nvtx_trace(
        ("range", "epoch", 0, 100, {"style": "start_end"}),
        ("range", "load", 50, 150, {"style": "start_end"}),
        ("range", "step", 60, 90),
        ("range", "request", 0, 500, {"style": "cross_thread"}),
        ("range", "mark", 65, 65, {"style": "mark"}),
        ("call", "cudaLaunchKernel", 40, 42),
        ("call", "cudaLaunchKernel", 70, 72),
        ("call", "cudaLaunchKernel", 99, 101),
        ("kernel", "a", 200, 201, {"launch": 40}),
        ("kernel", "b", 210, 212, {"launch": 70}),
        ("kernel", "c", 220, 224, {"launch": 99}),
    )
    found = range_tree(select(trace))
    assert found.select("path", "depth", "host_self_ns", "device_self_ns", "device_total_ns").rows() == [
        ("epoch", 0, 100, 1, 1),
        ("load", 0, 70, 4, 6),
        ("load/step", 1, 30, 2, 2),
    ]


def test_a_range_inside_one_of_its_name_is_one_level_deeper() -> None:
    trace = nvtx_trace(
        ("range", "fold", 0, 100),
        ("range", "fold", 10, 60),
        ("call", "cudaLaunchKernel", 20, 25),
        ("kernel", "a", 30, 50, {"launch": 20}),
    )
    found = range_tree(select(trace))
    assert found.select("path", "calls", "host_self_ns", "device_self_ns", "device_total_ns").rows() == [
        ("fold", 1, 50, 0, 20),
        ("fold/fold", 1, 50, 20, 20),
    ]


def test_paths_of_ranges_deep_inside_each_other_take_no_more_each() -> None:
    deep = 4000
    found = range_tree(select(nvtx_trace(*(("range", f"r{at}", at, 2 * deep - at) for at in range(deep)))))
    assert found["depth"].to_list() == [*range(deep)]
    assert found["path"].str.len_chars().max() == LONGEST_PATH + len(f"…{deep - 1}…")
    assert found["path"].n_unique() == deep
    assert found["path"][2] == "r0/r1/r2"
    assert str(found["path"][-1]).endswith(f"/r{deep - 2}/r{deep - 1}")


def test_a_trace_without_ranges_has_no_tree(tmp_path: Path) -> None:
    assert range_tree(select(Trace.empty(TraceInfo("nsys", "made"), Source(tmp_path, 0)))).is_empty()
    alone = nvtx_trace(("call", "cudaLaunchKernel", 1, 2), ("kernel", "a", 3, 4, {"launch": 1}))
    assert range_tree(select(alone)).is_empty()


@pytest.mark.parametrize("path", [GPT, DDP, NSYS_GPT, NSYS_VIM])
def test_the_roots_hold_all_gpu_time(recording: Recording, path: str) -> None:
    trace = recording(path)
    work = trace.device.filter(pl.col("kind").is_in(["kernel", "memcpy", "memset", "graph"]))
    found = range_tree(select(trace))
    assert found["device_self_ns"].sum() == found.filter(depth=0)["device_total_ns"].sum() == work["duration"].sum()
    assert found.filter(depth=0)["gpu_ops"].sum() == work.height
    for row in found.filter(pl.col("number") >= 0).head(12).iter_rows(named=True):
        assert row["device_self_ns"] <= row["device_total_ns"]
        assert 0 <= row["host_self_ns"] <= row["host_total_ns"]
    kernels = range_kernels(select(trace), int(found["number"][0]))
    assert kernels["total_ns"].sum() <= found["device_total_ns"][0]


def test_the_ranges_of_a_training_run(recording: Recording) -> None:
    found = range_tree(select(recording(NSYS_GPT)))
    assert found["path"].to_list() == [
        "train_step",
        "train_step/forward_pass",
        "train_step/forward_pass/scaled dot product attention",
        "train_step/forward_pass/scaled dot product attention/computing attention scores",
        "train_step/forward_pass/scaled dot product attention/computing softmax",
        "train_step/forward_pass/scaled dot product attention/final matmul",
        "train_step/backward_pass",
        "train_step/optimizer_step",
        NOT_IN_ANY_RANGE,
    ]
    # as nvtx_gpu_proj_sum of nsys has them
    projected = dict(found.select("name", "gpu_projected_ns").rows())
    assert projected["train_step"] == 98_800_546
    assert projected["computing softmax"] == 343_902


def test_a_scope_restricts_the_tree(recording: Recording) -> None:
    trace = recording(NSYS_VIM)
    one = range_tree(select(trace, Scope(steps=(1, 1))))
    assert [name for name in one["name"] if name.startswith("batch")] == ["batch_1"]
    whole = range_tree(select(trace))
    assert (
        one.filter(pl.col("name") == "batch_1")
        .drop("number")
        .equals(whole.filter(pl.col("name") == "batch_1").drop("number"))
    )


def test_the_shorter_of_two_overlapping_ranges_is_the_inner_one() -> None:
    trace = nvtx_trace(
        ("range", "step", 0, 80),
        ("range", "save", 20, 200, {"style": "start_end"}),
        ("range", "log", 30, 40, {"style": "start_end"}),
        ("range", "reduce", 50, 60),
        ("call", "cudaLaunchKernel", 32, 34),
        ("call", "cudaLaunchKernel", 52, 54),
        ("call", "cudaLaunchKernel", 70, 72),
        ("call", "cudaLaunchKernel", 120, 122),
        *(("kernel", f"k{at}", at + 300, at + 300 + at, {"launch": at}) for at in (32, 52, 70, 120)),
    )
    found = range_tree(select(trace))
    assert found.select("path", "device_self_ns", "device_total_ns").rows() == [
        ("step", 70, 154),
        ("step/log", 32, 32),
        ("step/reduce", 52, 52),
        ("save", 120, 120),
    ]


# --- the screen and the text report


async def test_the_modules_tab_shows_ranges_where_there_are_no_modules() -> None:
    async with opened(recorded(NSYS_GPT), tab="modules", size=(100, 24)) as (app, pilot):
        text = screen_text(app)
        assert "NVTX ranges (no nn.Module in this trace)" in text
        assert "▾ train_step" in text
        assert "(not in any range)" in text
        await press(pilot, "v")
        assert "This tab has one table" in screen_text(app)
        await press(pilot, "h")
        assert "▸ train_step" in screen_text(app)
        assert "forward_pass" not in screen_text(app)
        await press(pilot, "l", "j", "enter")
        text = screen_text(app)
        assert "› forward_pass" in text
        assert "9.741 ms" in text  # the longest of its kernels
        await press(pilot, "enter")
        assert "1/108" in screen_text(app)
        assert "train_step/forward_pass" in screen_text(app)
        await press(pilot, "escape", "m")
        text = screen_text(app)
        assert "ranges" in text
        assert "train_step/forward_pass" in text
        await press(pilot, "enter")
        assert "1/18" in screen_text(app)


async def test_v_switches_between_modules_and_ranges() -> None:
    async with opened(VIM, tab="modules") as (app, pilot):
        assert "VisionMamba_0" in screen_text(app)
        assert "v table 1/2" in screen_text(app)
        await press(pilot, "v")
        assert "Ranges as a tree" in screen_text(app)
        assert "ProfilerStep" in screen_text(app)
        await press(pilot, "v")
        assert "VisionMamba_0" in screen_text(app)


async def test_the_host_tab_of_an_nsys_export(tmp_path: Path) -> None:
    file = NsysFile()
    file.push_pop("step", 0, 900, domain=4)
    file.domain("trainer", 4)
    file.launch("gemm", (10, 60), (100, 300))
    file.os_call("open64", 400, 450)
    file.os_call("pthread_cond_wait", 0, 800, tid=7)
    async with opened(file.write(tmp_path / "a.sqlite"), tab="host", size=(100, 24)) as (app, pilot):
        rows = [line for line in screen_text(app).splitlines() if " os " in line]
        assert ["open64" in line for line in rows] == [True, False]  # the one that only waits comes last
        assert rows[1].rstrip().endswith("yes")
        await press(pilot, "v")
        assert "Critical path" in screen_text(app).splitlines()[2]
        await press(pilot, "v")
        assert "cudaLaunchKernel" in screen_text(app)
        await press(pilot, "v", "v", "enter")
        assert "trainer" in screen_text(app)


@pytest.mark.parametrize(
    ("kind", "words"),
    [("nsys", "nsys profile --trace"), ("chrome", "ProfilerActivity.CUDA"), ("jax", "jax"), ("ncu", "Nsight Compute")],
)
def test_empty_tables_speak_of_the_tool_that_recorded(kind: str, words: str) -> None:
    texts = [nothing(what, kind) for what in ("kernels", "operators", "host", "api", "ranges", "modules")]
    assert all(text.startswith("No ") and "in this trace.\n\n" in text for text in texts)
    assert any(words in text for text in texts)
    if kind != "chrome":
        assert not any("ProfilerActivity" in text or "with_stack" in text for text in texts)


async def test_no_tab_of_an_nsys_export_asks_for_the_profiler_of_pytorch() -> None:
    async with opened(recorded("nsys/graph_whole.sqlite.gz")) as (app, pilot):
        for key in ("1", "2", "3", "4", "5"):
            await press(pilot, key)
            assert "ProfilerActivity" not in screen_text(app)
            assert "with_stack" not in screen_text(app)


def test_the_text_report_shows_the_tree_where_there_are_no_modules(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["report", str(GPT_FILE), "--section", "modules", "range_tree", "--limit", "0"])
    out = capsys.readouterr().out
    assert "Ranges as a tree" in out
    assert "    scaled dot product attention" in out
    cli.main(["report", "--sample", "--section", "modules", "range_tree"])
    assert "Ranges as a tree" not in capsys.readouterr().out


def test_numbered_ranges_are_one_line_of_the_text_report() -> None:
    def row(depth: int, name: str, device: float) -> dict[str, object]:
        times = {"host_total_us": 2.0} | dict.fromkeys(
            ("device_self_us", "device_total_us", "device_meanwhile_us"), device
        )
        return {"path": name, "depth": depth, "name": name, "domain": "", "calls": 1, "gpu_ops": 1, **times}

    rows = [
        row(0, "step 1", 9), row(1, "forward", 5), row(0, "step 2", 8), row(1, "forward", 4), row(1, "log", 1),
        row(0, "conv1", 1), row(0, "conv2", 1),
    ]  # fmt: skip
    nodes = merged_ranges(tree_rows(rows))
    assert [(node.depth, node.label, node.calls, node.device_total_us) for node in nodes] == [
        (0, "step ×2", 2, 17),
        (1, "forward", 2, 9),
        (1, "log", 1, 1),
        (0, "conv1", 1, 1),
        (0, "conv2", 1, 1),
    ]
    assert [node.label for node in largest(nodes, 2)] == ["step ×2", "forward"]
