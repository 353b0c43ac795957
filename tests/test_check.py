"""`tracetui check`: the guide's checklist, point by point, on recordings of every tool."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from made_run import ADD, HGEMM, Made, finding, silent
from msgspec import convert, to_builtins
from sample_runs import recorded, run_of

from tracetui.analysis.checklist import POINTS, RECORDING, CheckReport, _answer, _chosen, _missing, check_report
from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Finding, Findings, Suppressed
from tracetui.analysis.scope import Scope
from tracetui.app.cli.commands.check import check_parts
from tracetui.app.cli.main import main
from tracetui.app.reports.layout import WIDTH, Layout
from tracetui.app.reports.markdown import markdown
from tracetui.app.reports.text import text

TORCH = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"
TRAIN = "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz"
NSYS, NCU = "nsys/vim_tiny_fp32_bs4.sqlite.gz", "ncu/vim_full_raw.csv.gz"
JAX, MEMORY = "jax/h200.trace.json.gz", "memory/gpt_memory_snapshot.pickle.gz"
RANKS = "chrome/ddp_vit_small_2ranks"
SIGNS = {"done": "x", "failed": "!", "not_recorded": "-"}
EXPECTED = {
    TORCH: "!xxxx !x! xxx !x!x",
    TRAIN: "!xxxx !x! xx! !x!x",
    NSYS: "!-xxx !-! --- !x-x",
    NCU: "----- !!- xxx --!!",
    JAX: "--x-- --- --- xx--",
    MEMORY: "----- --- --- ----",
}
"""A sign per point, in the order of the list."""


@cache
def checked(name: str) -> dict[str, Any]:
    return to_builtins(check_report(run_of(name), Scope()))


def signs(found: dict[str, Any]) -> str:
    groups = dict.fromkeys(row["group"] for row in found["points"])
    return " ".join(
        "".join(SIGNS[row["status"]] for row in found["points"] if row["group"] == group) for group in groups
    )


def point(name: str, question: str) -> dict[str, Any]:
    return next(row for row in checked(name)["points"] if row["point"] == question)


@pytest.mark.parametrize("name", EXPECTED)
def test_every_point_is_done_failed_or_not_in_this_recording(name: str) -> None:
    found = checked(name)
    assert signs(found) == EXPECTED[name]
    for row in found["points"]:
        if row["status"] == "failed":
            assert row["findings"]
            assert row["advice"]
        assert bool(row["figure"]) or row["status"] == "not_recorded"
        assert (bool(row["missing"]), bool(row["command"])) == (row["status"] == "not_recorded",) * 2
    assert sum(found["counts"].values()) == len(POINTS) == 15


def test_points_rest_on_rules_that_exist_and_repeat_no_threshold() -> None:
    known = all_rules("run")
    for one in POINTS:
        assert set(one.rules) <= set(known)
        assert {id for group in one.asked for id in group} <= set(one.rules)
        assert one.record in RECORDING


def test_the_figures_are_those_of_the_tabs() -> None:
    assert point(TORCH, "Data loading/transfer?")["figure"].startswith("the wait for data is 0.22 % of the step")
    assert point(TORCH, "SM utilization")["findings"] == ["S1"]
    assert point(TRAIN, "Memory allocation?")["figure"] == (
        "12 calls for memory in the steps, 769.9 µs per step, tensors hold 1.474 GiB at most, the allocator 1.625 GiB"
    )
    assert point(TRAIN, "Mixed precision enabled?")["figure"].startswith("31.6 % of kernel time is on tensor cores")
    assert point(NSYS, "Data in pinned memory?")["figure"].startswith("2.297 MiB of 2.297 MiB copied per step")
    assert point(NCU, "Memory against compute throughput")["figure"].startswith("SMs at 23.8 % of their peak")


def test_a_finding_that_gains_too_little_fails_nothing_but_is_told() -> None:
    row = point(TORCH, "Mixed precision enabled?")
    assert row["status"] == "done"
    assert "set aside as worth too little: Use TF32 or bf16: fp32 matrix work takes 52.5 %" in row["figure"]


def test_jax_and_memory_are_told_in_their_own_terms() -> None:
    assert point(JAX, "torch.compile / jax.jit applied?")["figure"] == "compiled: XLA makes the kernels"
    assert point(JAX, "Synchronization?")["command"] == "nsys profile --trace=cuda,nvtx,osrt python train.py"
    assert "save_device_memory_profile" in point(JAX, "Memory allocation?")["command"]
    held = point(MEMORY, "Memory allocation?")
    assert held["figure"] == "tensors hold 8.495 GiB at most, the allocator 8.723 GiB"
    assert held["missing"].startswith("the GPU's memory size")


def test_of_several_ranks_it_is_the_one_that_the_others_wait_for() -> None:
    assert _chosen(run_of(RANKS), Scope()).info.rank == 1
    read = convert({**checked(JAX), "rank": 1, "ranks": [0, 1]}, CheckReport)
    assert "Rank    1; --rank N checks another (0)" in text(check_parts(read, Layout()), Layout())


def test_a_silenced_rule_fails_nothing_and_says_so() -> None:
    one = next(one for one in POINTS if "G5" in one.rules)
    silenced = Suppressed(Finding("info", "a larger batch fits", (), "", id="G5"), "one request at a time")
    answer = _answer(Facts(run_of(TORCH)), one, Findings((), silenced=(silenced,), checked=("G5",)))
    assert answer.status == "done"
    assert answer.figure is not None
    assert answer.figure.endswith("; silenced (one request at a time): a larger batch fits (G5)")


def test_what_a_refuted_measurement_said_is_no_answer() -> None:
    refuted = Finding("critical", "waits", (), "", id="S7")
    waits = next(one for one in POINTS if one.rules == ("S7",))
    said = _missing(waits, Findings((), (Suppressed(refuted, "V10"),), checked=("S7",)))
    assert said == "a measurement that holds: V10 speaks against this one"
    assert not _missing(waits, Findings((), (Suppressed(refuted, "K14"),), checked=("S7",)))


@pytest.mark.parametrize("name", [TORCH, JAX])
def test_text_of_80_columns_with_and_without_ascii(name: str) -> None:
    for layout in (Layout(), Layout(ascii=True)):
        page = text(check_parts(convert(checked(name), CheckReport), layout), layout)
        assert max(map(len, page.splitlines())) <= WIDTH
        assert page.isascii() or not layout.ascii
    assert "1. What's the actual bottleneck?" in page


def test_commands_are_listed_once_with_the_points_that_they_answer() -> None:
    page = text(check_parts(convert(checked(NSYS), CheckReport), Layout()), Layout())
    assert page.count("tracetui profile -- python train.py") == 1
    assert "Record  tracetui profile --with-memory -- python train.py\nfor     Appropriate batch size\n" in page


def test_a_point_that_failed_says_its_own_figure_too() -> None:
    page = text(check_parts(convert(checked(TORCH), CheckReport), Layout()), Layout())
    assert "the step (S1); SM efficiency 2.57 % of the step, occupancy 14.1 %\n" in page


def test_markdown_has_boxes_to_tick() -> None:
    page = markdown(check_parts(convert(checked(TORCH), CheckReport), Layout()), Layout())
    assert "- [x] Synchronization? " in page
    assert "- [ ] **failed:** CPU preprocessing? " in page


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(recorded(JAX)), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "tracetui.check/1"
    assert signs(found) == EXPECTED[JAX]
    assert main(["check", str(recorded(MEMORY))]) == 0
    assert "[ ] not in this recording: 15.\n" in capsys.readouterr().out
    assert main(["check"]) == 2


# --- the rules that it added: S16 and F19


def _step(*calls: tuple[str, float, float]) -> Made:
    """Two steps of 1000 µs in which the host asks for memory before the second kernel."""
    made = Made()
    for number in range(2):
        at = 1000 * number
        made.step(number, at, at + 1000)
        made.launch(HGEMM, (at + 1, at + 5), (at + 6, at + 300))
        for name, start, end in calls:
            made.host("cuda_runtime", name, at + start, at + end)
        made.launch(ADD, (at + 900, at + 905), (at + 906, at + 990))
    return made


def test_s16_finds_memory_that_is_taken_from_the_driver_in_every_step(tmp_path: Path) -> None:
    found = finding("S16", _step(("cudaFree", 310, 500), ("cudaMalloc", 500, 890)).facts(tmp_path))
    assert found.title == "Allocate less: 2 calls per step for the driver's memory, most cudaMalloc"
    assert found.ceiling_percent == pytest.approx(58, abs=1)
    assert [item.value for item in found.evidence] == [2, 580_000]


@pytest.mark.parametrize(("late", "gain"), [(0, 200_000), (300, 500_000)])
def test_s16_may_gain_what_a_replay_lacks(tmp_path: Path, late: int, gain: int) -> None:
    """After a cudaMalloc a kernel begins 300 µs later than others do, which no latency of the file explains."""
    made = Made()
    for number in range(3):
        at = 1500 * number
        for place in range(10):
            made.launch(HGEMM, (at + 10 * place, at + 10 * place + 5), (at + 10 * place + 8, at + 10 * place + 12))
        made.host("cuda_runtime", "cudaMalloc", at + 110, at + 310)
        made.launch(HGEMM, (at + 320, at + 325), (at + 328 + late, at + 828))
        made.host("cuda_runtime", "cudaDeviceSynchronize", at + 330, at + 830)
        made.step(number, at, at + 850)
    found = finding("S16", made.facts(tmp_path))
    assert found.impact_ns == gain
    assert ("300.0 µs that the replay lacks" in found.formula) == bool(late)


def test_s16_is_silent_about_pools_and_short_calls(tmp_path: Path) -> None:
    assert silent("S16", _step(("cudaMallocAsync", 310, 890)).facts(tmp_path))
    assert silent("S16", _step(("cudaMalloc", 310, 315)).facts(tmp_path))
    assert silent("S16", Facts(run_of(TRAIN)))


def _parallel(wrapper: str, *operations: str, gpus: int) -> Made:
    made = Made()
    made.step(0, 0, 1000)
    made.host("user_annotation", wrapper, 1, 900)
    for number, name in enumerate(operations):
        made.host("cpu_op", name, 500 + 10 * number, 505 + 10 * number)
    for gpu in range(gpus):
        made.launch(HGEMM, (10 + 10 * gpu, 15 + 10 * gpu), (30, 800), device=gpu)
    return made


def test_f19_finds_one_process_for_all_gpus(tmp_path: Path) -> None:
    found = finding("F19", _parallel("DataParallel.forward", gpus=2).facts(tmp_path))
    assert found.title == "DataParallel: one process launches the work of 2 GPUs"
    assert silent("F19", _parallel("DataParallel.forward", gpus=1).facts(tmp_path))


def test_f19_finds_gradients_that_go_through_the_host(tmp_path: Path) -> None:
    wrapper = "DistributedDataParallel.forward"
    found = finding("F19", _parallel(wrapper, "gloo:all_reduce", gpus=1).facts(tmp_path))
    assert found.title == "DistributedDataParallel over gloo: the gradients go through the host"
    assert silent("F19", _parallel(wrapper, "gloo:broadcast", "nccl:all_reduce", gpus=1).facts(tmp_path))
    assert silent("F19", Facts(run_of(RANKS)))
