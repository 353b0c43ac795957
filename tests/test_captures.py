"""Several captures beside each other: every number measured, what one lacks unknown, no share above its base."""

import csv
import io
import json
from pathlib import Path
from types import SimpleNamespace

import ncu_file
import pytest
from as_json import report
from laid_out import body, report_csv, report_markdown, report_text
from nsys_file import NsysFile
from sample_runs import recorded, run_of

from tracetui.analysis.captures.captures import capture, captures
from tracetui.analysis.captures.model import grid_of
from tracetui.analysis.captures.names import axes_of, names_of
from tracetui.analysis.selection import Scope
from tracetui.app.cli import main as cli
from tracetui.app.text.fitting import cell_width
from tracetui.app.views.sweep import captures_frame
from tracetui.parsers import open_path
from tracetui.parsers.names.range_roles import role_of

GEMM, SOFTMAX, ADD, ADAM = (
    "ampere_sgemm_128x64_tn", "cunn_SoftMaxForward", "vectorized_elementwise_kernel", "multi_tensor_apply_kernel_adam"
)  # fmt: skip
ENGINE = 200
"""The thread on which gradients are computed."""
US = 1000


def training(path: Path, scale: int, *, steps: int = 2, warmup: bool = True, complete: bool = True) -> Path:
    """A capture of training: GPU work grows with `scale`, the host's time does not.

    The forward pass outside of steps is `warmup`; where not `complete`, the step ends in its forward pass.
    """
    file = NsysFile()
    at = 1000 * US
    if warmup:
        file.push_pop("forward_pass", at, at + 90 * US)
        file.launch(GEMM, (at + 10 * US, at + 12 * US), (at + 20 * US, at + 20 * US + 7 * scale))
        at += 100 * US
    for _ in range(steps):
        end = at + (100 if complete else 25) * US
        file.push_pop("train_step", at, end)
        file.push_pop("forward_pass", at, at + (40 if complete else 25) * US)
        file.push_pop("computing attention scores", at + 2 * US, at + 8 * US)
        file.launch(GEMM, (at + 3 * US, at + 4 * US), (at + 5 * US, at + 5 * US + 10 * scale))
        file.push_pop("computing softmax", at + 9 * US, at + 12 * US)
        file.launch(SOFTMAX, (at + 10 * US, at + 11 * US), (at + 12 * US, at + 12 * US + 4 * scale))
        file.launch(ADD, (at + 15 * US, at + 16 * US), (at + 18 * US, at + 18 * US + 6 * scale))
        if complete:
            file.push_pop("backward_pass", at + 40 * US, at + 80 * US)
            file.launch(GEMM, (at + 45 * US, at + 46 * US), (at + 48 * US, at + 48 * US + 25 * scale), tid=ENGINE)
            file.push_pop("optimizer_step", at + 80 * US, at + 95 * US)
            file.launch(ADAM, (at + 82 * US, at + 83 * US), (at + 84 * US, at + 84 * US + 5 * scale))
        at = end + 10 * US
    return file.write(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two models, two context lengths; the last ran out of memory in its only step."""
    folder = tmp_path_factory.mktemp("sweep")
    training(folder / "small_ctx128.sqlite", 100)
    training(folder / "small_ctx1024.sqlite", 200)
    training(folder / "xl_ctx128.sqlite", 400)
    training(folder / "xl_ctx1024.sqlite", 800, steps=1, complete=False)
    return folder


def first(folder):
    """The row of ``a.sqlite``."""
    return next(row for row in captures(open_path(folder, cache=False)) if row.name == "a")


@pytest.fixture(scope="module")
def found(folder):
    return report(open_path(folder, cache=False), sections=["captures"])


@pytest.fixture(scope="module")
def rows(found):
    return {row["name"]: row for row in found["run"]["captures"]}


def test_a_row_per_file_in_the_order_of_size(found):
    rows = found["run"]["captures"]
    assert [row["name"] for row in rows] == ["small_ctx128", "small_ctx1024", "xl_ctx128", "xl_ctx1024"]
    assert [row["axes"] for row in rows][1] == {"model": "small", "ctx": 1024}
    assert {row["kind"] for row in rows} == {"nsys"}


def test_totals_categories_and_top_kernels(rows):
    row = rows["small_ctx128"]
    # of each of two steps 10 + 4 + 6 + 25 + 5, and 7 before them, times 100 ns
    assert (row["kernels"], row["gpu_us"], row["steps"], row["average_step_us"]) == (11, 10.7, 2, 100.0)
    shares = {share["category"]: share["us"] for share in row["categories"]}
    assert shares == {"gemm": 7.7, "elementwise": 1.2, "optimizer": 1.0, "softmax": 0.8}
    assert sum(share["percent"] for share in row["categories"]) == pytest.approx(100)
    top = row["top_kernel"]
    assert (top["name"], top["category"], top["calls"], top["total_us"]) == (GEMM, "gemm", 5, 7.7)
    assert (top["mean_us"], top["percent"]) == (1.54, pytest.approx(100 * 7.7 / 10.7))
    assert [kernel["category"] for kernel in row["top_by_category"]] == ["gemm", "elementwise", "optimizer", "softmax"]


def test_ranges_have_host_and_gpu_time(rows):
    ranges = {phase["name"]: phase for phase in rows["small_ctx128"]["ranges"]}
    forward = ranges["forward_pass"]
    assert (forward["instances"], forward["host_total_us"], forward["host_mean_us"]) == (
        3,
        170.0,
        pytest.approx(170 / 3),
    )
    assert (forward["launched_us"], forward["launched_ops"]) == (4.7, 7)
    assert forward["launched_span_us"] == pytest.approx(0.7 + 2 * 13.6)
    assert (forward["gpu_projected_us"], forward["device_us"]) == (forward["launched_span_us"], 4.7)
    shares = {share["category"]: share["percent"] for share in forward["by_category"]}
    assert shares["gemm"] == pytest.approx(100 * 2.7 / 4.7)
    assert ranges["train_step"]["role"] == "step"


def test_what_another_thread_launches_is_of_the_range_around_it(rows):
    backward = next(phase for phase in rows["small_ctx128"]["ranges"] if phase["name"] == "backward_pass")
    assert (backward["launched_us"], backward["launched_ops"]) == (5.0, 2)
    assert backward["gpu_ops"] == 0  # of its own thread


def test_shares_of_a_step_count_what_is_inside_steps(rows):
    phases = rows["small_ctx128"]["phases"]
    inside = {role: phases[role]["in_steps"] for role in ("forward", "backward", "optimizer")}
    assert {role: part["host_percent"] for role, part in inside.items()} == {
        "forward": 40.0, "backward": 40.0, "optimizer": 15.0,
    }  # fmt: skip
    assert sum(part["launched_percent"] for part in inside.values()) == pytest.approx(100)
    assert inside["forward"]["instances"] == 2
    assert rows["small_ctx128"]["in_steps"] == {"steps": 2, "host_us": 200.0, "launched_us": 10.0}


def test_a_step_that_was_cut_short_gives_no_share_above_all(rows):
    """Forward passes outside of the step, divided by its time, gave 165 % and 113 % in a published report."""
    row = rows["xl_ctx1024"]
    inside = row["phases"]["forward"]["in_steps"]
    assert inside["host_percent"] == 100.0
    assert row["phases"]["forward"]["host_total_us"] == 115.0
    assert "backward" not in row["phases"]
    assert "optimizer" not in row["phases"]


def test_softmax_and_matrix_products_of_attention(rows):
    phases = rows["xl_ctx128"]["phases"]
    assert phases["softmax"]["host_total_us"] == 6.0
    assert phases["softmax"]["launched_us"] == 3.2
    assert phases["matmul"]["launched_us"] == 8.0
    assert phases["matmul"]["names"] == ["computing attention scores"]


def test_every_table_of_the_published_report_comes_from_the_rows(rows):
    """reports/003: forward times by model and context, top kernels, shares of the forward pass, steps, attention."""
    forward = {name: row["phases"]["forward"] for name, row in rows.items()}
    assert {name: (part["host_total_us"], part["launched_us"]) for name, part in forward.items()} == {
        "small_ctx128": (170.0, 4.7), "small_ctx1024": (170.0, 9.4), "xl_ctx128": (170.0, 18.8),
        "xl_ctx1024": (115.0, 21.6),
    }  # fmt: skip
    tops = {name: (row["top_kernel"]["category"], row["top_kernel"]["total_us"]) for name, row in rows.items()}
    assert tops["xl_ctx1024"] == ("gemm", 13.6)
    shares = {name: {s["category"]: s["percent"] for s in part["by_category"]} for name, part in forward.items()}
    assert shares["xl_ctx128"] == pytest.approx({"gemm": 2700 / 47, "elementwise": 1200 / 47, "softmax": 800 / 47})
    steps = {
        name: [(row["phases"].get(role) or {}).get("in_steps", {}).get("host_us") for role in ("forward", "backward")]
        for name, row in rows.items()
    }
    assert steps == {
        "small_ctx128": [80.0, 80.0], "small_ctx1024": [80.0, 80.0], "xl_ctx128": [80.0, 80.0],
        "xl_ctx1024": [25.0, None],
    }  # fmt: skip
    attention = [tuple(row["phases"][role]["launched_us"] for role in ("softmax", "matmul")) for row in rows.values()]
    assert attention == [(0.8, 2.0), (1.6, 4.0), (3.2, 8.0), (3.2, 8.0)]


def test_ranges_inside_ranges_of_their_role_count_once(tmp_path):
    file = NsysFile()
    for at in (0, 100 * US):
        file.push_pop("optimizer_step", at, at + 50 * US)
        file.push_pop("Optimizer.step#AdamW.step", at + 5 * US, at + 45 * US)
        file.launch(ADAM, (at + 10 * US, at + 11 * US), (at + 20 * US, at + 23 * US))
    file.write(tmp_path / "a.sqlite")
    training(tmp_path / "b.sqlite", 1)
    row = first(tmp_path)
    role = row.phases["optimizer"]
    assert (role.instances, role.host_total_us, role.launched_us, role.launched_ops) == (2, 100, 6, 2)
    assert role.in_steps is None


def test_work_belongs_to_ranges_of_its_own_process(tmp_path):
    file = NsysFile()
    for pid, spent in ((100, 3), (101, 5)):
        file.push_pop("forward", 0, 100 * US, pid=pid)
        file.launch(GEMM, (10 * US, 11 * US), (20 * US, (20 + spent) * US), pid=pid)
    file.push_pop("alone", 0, 100 * US, pid=102)
    file.write(tmp_path / "a.sqlite")
    training(tmp_path / "b.sqlite", 1)
    by_name = {phase.name: phase for phase in first(tmp_path).ranges}
    assert (by_name["forward"].launched_us, by_name["forward"].launched_ops) == (8, 2)
    assert by_name["alone"].launched_ops == 0


def test_marks_are_no_ranges(tmp_path):
    file = NsysFile()
    file.mark("forward", 5)
    file.launch(GEMM, (10, 11), (20, 30))
    file.write(tmp_path / "a.sqlite")
    training(tmp_path / "b.sqlite", 1)
    assert first(tmp_path).ranges == []


def test_operators_that_emit_nvtx_names_are_no_phases(tmp_path):
    """``MmBackward0`` of the autograd thread is no backward pass of its own."""
    file = NsysFile()
    file.push_pop("backward", 0, 100)
    for call in range(3):
        file.push_pop(f"MmBackward0, seq = {call}, op_id = {call}", 10 * call, 10 * call + 5, tid=101)
        file.launch(GEMM, (10 * call + 1, 10 * call + 2), (20 * call + 5, 20 * call + 15), tid=101)
    file.write(tmp_path / "a.sqlite")
    training(tmp_path / "b.sqlite", 1)
    backward = first(tmp_path).phases["backward"]
    assert (backward.names, backward.instances, backward.host_total_us) == (["backward"], 1, 0.1)
    assert backward.launched_us == 0.03


def test_a_file_that_can_not_be_read_is_a_row_that_says_why(folder):
    def broken(path):
        if path.name == "xl_ctx128.sqlite":
            return open_path(path.with_name("gone.sqlite")).main
        return open_path(path, cache=False).main

    rows = captures(open_path(folder, cache=False), open_file=broken)
    bad = next(row for row in rows if row.problem)
    assert bad.name == "xl_ctx128"
    assert "no such file" in str(bad.problem)
    assert bad.gpu_us is bad.kernels is bad.average_step_us is None
    assert len(rows) == 4
    whole = report(open_path(folder, cache=False), sections=[])
    found = {**whole, "run": {**whole["run"], "captures": rows}}
    for text in (report_text(found), report_markdown(found)):
        assert "Not read: " in text
        assert "no such file" in " ".join(text.split())  # a long path breaks the line anywhere


def test_a_scope_of_steps(folder):
    row = captures(open_path(folder, cache=False), Scope(skip_steps=1))[0]
    assert (row.kernels, row.gpu_us) == (5, 5)
    assert row.phases["forward"].instances == 1


def test_the_gpt_recording_as_nvidia_prints_it(tmp_path):
    """Sums of nvtx_sum and nvtx_gpu_proj_sum; the backward pass, launched by another thread, has more than theirs."""
    run = run_of("nsys/gpt_small_ctx256.sqlite.gz")
    from tracetui.analysis.captures.captures import capture

    row = capture(run.main, "gpt", {})
    by_name = {phase.name: phase for phase in row.ranges}
    times = {name: (phase.instances, phase.host_total_us, phase.launched_span_us) for name, phase in by_name.items()}
    assert times["forward_pass"] == (3, 41_385.015, 40_597.322)
    assert times["computing softmax"] == (36, 1_855.762, 343.902)
    assert times["train_step"] == (3, 100_813.010, 98_800.546)
    assert by_name["backward_pass"].launched_ops == 1221
    inside = [row.phases[role].in_steps.launched_us for role in ("forward", "backward", "optimizer")]
    assert sum(inside) == pytest.approx(row.gpu_us)
    assert row.in_steps.launched_us == row.gpu_us


def test_nsight_compute_has_ranges_without_a_host(tmp_path):
    metrics = {"gpu__time_duration.sum": "nsecond"}
    for name, spent in (("a_bs1", "100"), ("a_bs2", "200")):
        table = ncu_file.wide_table(
            metrics,
            [(GEMM, [spent]), (SOFTMAX, ["50"])],
            nvtx=['"<default domain>:forward_pass:none:none:none:none:none:none"', ""],
        )
        (tmp_path / f"{name}.csv").write_text(table)
    rows = report(open_path(tmp_path, cache=False))["run"]["captures"]
    assert [row["gpu_us"] for row in rows] == [0.15, 0.25]
    assert rows[1]["axes"] == {"bs": 2}
    assert rows[1]["steps"] is rows[1]["wall_us"] is rows[1]["busy_percent"] is None
    forward = rows[1]["phases"]["forward"]
    assert (forward["launched_us"], forward["launched_ops"], forward["host_total_us"]) == (0.2, 1, None)
    assert "GPU proj." not in report_text(report(open_path(tmp_path, cache=False)))  # no table of nothing but dashes


def test_both_pages_of_a_report_are_one_capture(tmp_path):
    for name, spent in (("a_bs1", "100"), ("a_bs2", "200")):
        (tmp_path / f"{name}.csv").write_text(
            ncu_file.wide_table({"gpu__time_duration.sum": "nsecond"}, [(GEMM, [spent]), (SOFTMAX, ["50"])])
        )
        rows = [(n, k, "GPU Speed Of Light Throughput", "Duration", "nsecond", t) for n, (k, t) in
                enumerate(((GEMM, spent), (SOFTMAX, "50")))]  # fmt: skip
        (tmp_path / f"{name}.details.csv").write_text(ncu_file.long_table(rows))
    found = captures(open_path(tmp_path, cache=False))
    assert [row.name for row in found] == ["a_bs1", "a_bs2"]
    (tmp_path / "a_bs2.csv").unlink()  # without its raw page the details page stands for the report
    assert len(captures(open_path(tmp_path, cache=False))) == 2


def test_chrome_traces_are_compared_when_asked(tmp_path):
    events = [
        {"ph": "X", "cat": "user_annotation", "name": "forward", "pid": 1, "tid": 1, "ts": 0, "dur": 50},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 5, "dur": 2,
         "args": {"correlation": 1}},
        {"ph": "X", "cat": "kernel", "name": GEMM, "pid": 0, "tid": 7, "ts": 9, "dur": 8,
         "args": {"correlation": 1, "stream": 7, "device": 0}},
    ]  # fmt: skip
    for size in (1, 2):
        (tmp_path / f"net_bs{size}.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    run = open_path(tmp_path, cache=False)
    assert report(run)["run"]["captures"] == []
    assert "--section captures" in report_text(report(run))
    rows = report(run, sections=["captures"])["run"]["captures"]
    assert [row["axes"] for row in rows] == [{"bs": 1}, {"bs": 2}]
    assert rows[0]["phases"]["forward"]["launched_us"] == 8.0


def test_jax_traces_are_compared_when_asked(tmp_path):
    recording = recorded("jax/h200.trace.json.gz").read_bytes()
    for size in (1, 2, 4):
        (tmp_path / f"net_bs{size}.trace.json.gz").write_bytes(recording)
    run = open_path(tmp_path, cache=False)
    assert run.main.info.kind == "jax"
    rows = report(run, sections=["captures"])["run"]["captures"]
    assert [row["axes"] for row in rows] == [{"bs": 1}, {"bs": 2}, {"bs": 4}]
    assert len({row["gpu_us"] for row in rows}) == 1


def test_nsys_reports_are_compared_when_asked_and_not_exported_unasked(tool, tmp_path):
    source = training(tmp_path / "source.sqlite", 1)
    tool("nsys", f'for word; do case "$word" in --output=*) cp {source} "${{word#--output=}}";; esac; done')
    folder = tmp_path / "reports"
    folder.mkdir()
    for size in (1, 2):
        (folder / f"net_bs{size}.nsys-rep").write_bytes(b"NVTX")
    run = open_path(folder, cache=False)
    assert run.main.info.kind == "nsys"
    assert report(run)["run"]["captures"] == []
    rows = report(run, sections=["captures"])["run"]["captures"]
    assert [row["axes"] for row in rows] == [{"bs": 1}, {"bs": 2}]
    assert [row["problem"] for row in rows] == [None, None]


def test_one_file_has_no_table(tmp_path):
    run = open_path(training(tmp_path / "a.sqlite", 1), cache=False)
    assert report(run)["run"]["captures"] == []
    asked = report(run, sections=["captures"])
    assert "No captures to compare" in report_text(asked)
    assert report_csv(asked, "captures").startswith("name,path,kind,")


class TestRendering:
    def test_text_has_the_tables_of_the_published_report(self, found):
        text = report_text(found, limit=10)
        assert all(cell_width(line) <= 80 for line in body(text).splitlines())
        for title in ("Captures (4)", "Forward", "Steps by phase", "GPU time by category", "Kind of the top kernel",
                      "Top kernel of each", "Softmax and matrix products"):  # fmt: skip
            assert title in text, title
        lines = text.splitlines()
        forward = lines.index("Forward")
        grid = [line.split() for line in lines[forward : lines.index("Backward")]]
        assert ["model", "ctx128", "ctx1024"] in grid
        assert ["small", "CPU", "56.67", "µs", "56.67", "µs"] in grid
        assert ["xl", "CPU", "40.00", "µs", "-"] in [line.split() for line in lines[lines.index("Backward") :]]

    @pytest.mark.parametrize("contexts", [1, 3, 7])
    def test_no_line_is_too_long(self, tmp_path, contexts):
        for model in ("a_model_whose_name_is_longer_than_the_rest", "b_model_whose_name_is_longer_than_the_rest"):
            for power in range(contexts):
                training(tmp_path / f"{model}_ctx{128 << power}.sqlite", 100_000)
        found = report(open_path(tmp_path, cache=False), sections=["captures"])
        text = report_text(found)
        assert all(cell_width(line) <= 80 for line in body(text).splitlines() if "sqlite" not in line)
        if contexts > 1:
            assert all(text.count(f"ctx{128 << power}") > 4 for power in range(contexts))

    def test_ascii(self, found):
        assert report_text(found, ascii=True).isascii()

    def test_a_limit_says_how_many_there_are(self, found):
        assert "2 of 4; --limit 0 for all" in report_text(found, limit=2)

    def test_markdown(self, found):
        text = report_markdown(found)
        assert "| model |  | ctx128 | ctx1024 |" in text
        for table in text.split("\n\n"):
            assert len({line.replace("\\|", "").count("|") for line in table.splitlines() if line[:1] == "|"}) < 2

    def test_csv_has_a_line_a_file(self, found):
        rows = list(csv.DictReader(io.StringIO(report_csv(found, "captures"))))
        assert [row["axis.ctx"] for row in rows] == ["128", "1024", "128", "1024"]
        assert rows[0]["forward.in_steps.host_percent"] == "40.0"
        assert rows[0]["range.backward_pass.launched_us"] == "5.0"
        assert rows[3]["backward.host_mean_us"] == ""
        assert float(rows[0]["gpu.gemm_us"]) == 7.7

    def test_the_command(self, folder, capsys):
        assert cli.main(["report", str(folder), "--no-cache", "--section", "kernels"]) == 0
        assert "Captures (" not in capsys.readouterr().out
        assert cli.main(["report", str(folder), "--no-cache"]) == 0
        assert "Captures (4)" in capsys.readouterr().out
        assert cli.main(["report", str(folder), "--no-cache", "--section", "captures", "--format", "json"]) == 0
        assert len(json.loads(capsys.readouterr().out)["run"]["captures"]) == 4


class TestNames:
    @pytest.mark.parametrize(
        ("names", "axes"),
        [
            (["small_ctx128", "2.7B_ctx256"], [{"model": "small", "ctx": 128}, {"model": "2.7B", "ctx": 256}]),
            (["vim_bs4_fp32", "vim_bs8_fp16"], [{"bs": 4, "dtype": "fp32"}, {"bs": 8, "dtype": "fp16"}]),
            (["gpt_ctx_128", "gpt_ctx_256"], [{"ctx": 128}, {"ctx": 256}]),
            (["a/128ctx/report", "b/256ctx/report"], [{"model": "a", "ctx": 128}, {"model": "b", "ctx": 256}]),
            (["gpt2-xl_ctx128", "gpt2_ctx256"], [{"model": "gpt2-xl", "ctx": 128}, {"model": "gpt2", "ctx": 256}]),
            (["a_b_ctx128", "gpt2_ctx256"], [{"model": "a_b", "ctx": 128}, {"model": "gpt2", "ctx": 256}]),
            (["n_lr0.1_x", "n_lr0.25_x"], [{"lr": 0.1}, {"lr": 0.25}]),
            (["one", "two_x_y"], [{}, {}]),
            (["same"], [{}]),
        ],
    )
    def test_axes(self, names, axes):
        assert axes_of(names) == axes

    def test_names_lose_their_suffixes(self):
        paths = [Path("/x/a.nsys-rep"), Path("/x/b/c.pt.trace.json.gz"), Path("/x/d.sqlite.gz")]
        assert names_of(paths) == ["a", "b/c", "d"]

    @pytest.mark.parametrize(
        ("name", "role"),
        [
            ("forward_pass", "forward"), ("ForwardPass", "forward"), ("backward", "backward"), ("bwd", "backward"),
            ("optimizer_step", "optimizer"), ("opt_step", "optimizer"), ("options", None),
            ("Optimizer.step#AdamW.step", "optimizer"),
            ("Optimizer.zero_grad#AdamW.zero_grad", None), ("computing softmax", "softmax"),
            ("final matmul", "matmul"), ("scaled dot product attention", "attention"), ("train_step", "step"),
            ("iteration 7", "step"), ("model_eval", "evaluation"), ("aten::softmax", None), ("data", None),
        ],
    )  # fmt: skip
    def test_roles(self, name, role):
        assert role_of(name) == role

    def test_a_grid_needs_one_capture_for_each_pair(self):
        def row(**axes):
            return SimpleNamespace(axes=axes)

        assert grid_of([row(model="a", ctx=1), row(model="a", ctx=2)]) is not None
        assert grid_of([row(model="a", ctx=1), row(model="a", ctx=1)]) is None
        assert grid_of([row(model="a", ctx=1, bs=2), row(model="a", ctx=2, bs=2)]).down == ("model", "ctx")


def test_of_runs_on_the_host_alone_no_gpu_time_is_known(tmp_path):
    sources = {"mlp_bs1": "torch213_cpu_mlp_modules.pt.trace.json.gz", "mlp_bs2": "cpu_only_rank34.json.gz"}
    for name, source in sources.items():
        (tmp_path / f"{name}.json.gz").write_bytes(recorded(f"chrome/forms/{source}").read_bytes())
    found = report(open_path(tmp_path, cache=False), sections=("captures",))
    for row in found["run"]["captures"]:
        assert (row["kernels"], row["gpu_us"], row["busy_percent"]) == (None, None, None)
        assert row["phases"]["step"]["host_mean_us"] > 0
        for key in ("launched_us", "launched_mean_us", "launched_ops", "launched_span_mean_us"):
            assert row["phases"]["step"][key] is None
    text = report_text(found)
    assert "Top kernel" not in text
    assert "projected" not in text
    assert "whole file  GPU work  busy%  kernels" in text


def test_a_step_stands_beside_what_steps_launched(tmp_path: Path) -> None:
    """The forward pass before the steps is in the totals of the file, and in no number beside the step's time."""
    for name in ("a", "b"):
        training(tmp_path / f"{name}.sqlite", scale=100, steps=3)
    row, _ = captures(open_path(tmp_path, cache=False))
    of_a_step = 100 * (10 + 4 + 6 + 25 + 5)
    assert (row.kernels, row.gpu_us) == (16, (700 + 3 * of_a_step) / 1000)
    assert (row.steps, row.kernels_per_step, row.gpu_us_per_step) == (3, 5, of_a_step / 1000)
    shown = captures_frame([row]).row(0, named=True)
    assert (shown["kernels"], shown["gpu_ns"]) == (5, of_a_step)
    text = report_text(report(open_path(tmp_path, cache=False), sections=("captures",)))
    assert next(line for line in text.splitlines() if line.strip().startswith("a ")).split()[5:7] == ["5.000", "µs"]


def test_marked_steps_stand_beside_what_they_launched() -> None:
    """What this recording's steps launched: the report's own sums of kernels and copies in steps."""
    trace = run_of("gpt_small_ctx256.trace.json.gz").traces[0]
    row = capture(trace, "gpt", {})
    found = report(run_of("gpt_small_ctx256.trace.json.gz"), Scope(steps=(0, 1)), ("kernels", "memops"))
    rows = [row for name in ("kernels", "memops") for row in found["run"]["traces"][0][name]]
    assert row.gpu_us_per_step is not None
    assert row.gpu_us_per_step == pytest.approx(sum(row["total_us"] for row in rows) / 2)
    assert row.gpu_us is not None
    assert row.gpu_us > 2 * row.gpu_us_per_step
