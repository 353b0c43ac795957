"""Rules on the state of the machine, on manifests as the collectors write them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from chrome_file import ChromeFile
from judged import abstains, facts, fires, manifest, silent
from machine_trees import AGX_ORIN_30W, H200, MHZ, ORIN_NANO_25W, ORIN_NX_10W, Board, jetson, smi, x86

from tracetui.analysis.findings.core.facts import Facts
from tracetui.collectors.machine import recording as machine
from tracetui.parsers import Run, Trace, open_path

Recording = Callable[[str], Trace]

VIM = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"
VIM_NSYS = "nsys/vim_tiny_fp32_bs4.sqlite.gz"
GPT_NSYS = "nsys/gpt_small_ctx256.sqlite.gz"
SECOND = 1_000_000_000


def on_board(tmp_path: Path, board: Board) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The state of a Jetson and its devices, as the collectors see them."""
    root, tools = jetson(tmp_path, board)
    return machine.power_state(root=root, runner=tools), list(machine.devices(root=root, runner=tools))


def on_server(tmp_path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    root, tools = x86(tmp_path), smi(H200)
    return machine.power_state(root=root, runner=tools), list(machine.devices(root=root, runner=tools))


def run(trace: Trace, device: list[dict[str, Any]] | None = None, **power: Any) -> Facts:
    said = manifest(power=power, device=device or [])
    return Facts(Run(Path("run"), (trace,), manifest=said))


def sample(at: int = 0, **gpu: Any) -> dict[str, Any]:
    """A sample of a GPU under load."""
    return {"time_unix_ns": at, "gpus": [{"index": 0, "load_percent": 99.0, "throttle_reasons": [], **gpu}]}


# --- T1


def test_slowed_down_by_heat(recording: Recording, tmp_path):
    trace = recording(VIM)
    hot = [sample(clock_hz=1980 * MHZ)] * 8 + [
        sample(clock_hz=1500 * MHZ, throttle_reasons=["sw_thermal_slowdown"], temperature_c=88)
    ] * 2
    finding = fires("T1", run(trace, during=hot))
    assert finding.title == "The GPU was slowed down in 20.0 % of the samples: sw_thermal_slowdown"
    capped = [sample(clock_hz=1900 * MHZ, throttle_reasons=["sw_power_cap"])] * 10
    assert (finding.severity, fires("T1", run(trace, during=capped)).severity) == ("warning", "info")
    assert silent("T1", run(trace, during=[sample(clock_hz=1980 * MHZ, throttle_reasons=["gpu_idle"])] * 10))


def test_other_gpus_of_the_machine_do_not_count(recording: Recording):
    slow = {"index": 1, "load_percent": 99.0, "clock_hz": 900 * MHZ, "throttle_reasons": ["hw_slowdown"]}
    samples = [{"gpus": [*sample(clock_hz=1980 * MHZ)["gpus"], slow]}] * 5

    def on(device: str) -> Facts:
        said = manifest(power={"during": samples}, workload={"device": device})
        return Facts(Run(Path("run"), (recording(VIM),), manifest=said))

    assert silent("T1", on("cuda:0"))
    assert "hw_slowdown" in fires("T1", on("cuda:1")).title


def test_alarms_of_a_board(recording: Recording, tmp_path):
    state, device = on_board(tmp_path, ORIN_NANO_25W)
    assert state["alarms"]
    later = state | {"alarms": {name: value + 3 * name.endswith("_cnt") for name, value in state["alarms"].items()}}
    assert silent("T1", run(recording(VIM), device, before=state, after=state))  # an alarm that was on before
    finding = fires("T1", run(recording(VIM), device, before=state, after=later))
    assert "_event_cnt" in finding.title


def test_hot_and_slow(recording: Recording):
    def at(degrees: float, load: float = 60.0) -> Facts:
        known = {"temperature_c": degrees, "throttle_reasons": None, "load_percent": load}
        samples = [sample(clock_hz=hz * MHZ, **known) for hz in (700, 1000, 950, 700)]
        return run(recording(VIM), during=samples)

    assert fires("T1", at(90)).title == "At 90 °C the GPU's clock fell by 30.0 %"
    assert silent("T1", at(70))
    # under full load no governor lowers the clock; what comes before the highest is no fall
    assert fires("T1", at(70, 99)).title == "The GPU's clock fell under full load, in 25.0 % of the samples"


def test_nothing_known_of_throttling(recording: Recording):
    assert "launch with tracetui profile" in abstains("T1", facts(recording(VIM)))
    assert "alarms" in abstains("T1", run(recording(VIM), before={"mode_name": "MAXN"}))


# --- T2


def test_a_clock_that_changes(recording: Recording):
    ramp = [sample(clock_hz=hz * MHZ) for hz in (306, 612, 918, 1020, 1020)]
    finding = fires("T2", run(recording(VIM), during=ramp))
    assert "around 775 MHz" in finding.title
    assert silent("T2", run(recording(VIM), during=[sample(clock_hz=1020 * MHZ)] * 5))


def test_clocks_of_an_idle_gpu_do_not_count(recording: Recording):
    idle = {"gpus": [{"clock_hz": 345 * MHZ, "load_percent": 0.0}]}
    assert silent("T2", run(recording(VIM), during=[idle, *[sample(clock_hz=1980 * MHZ)] * 4, idle]))


def test_samples_of_the_recording_count_where_there_are_some(recording: Recording):
    trace = recording(VIM)
    trace = replace(trace, info=replace(trace.info, base_time=100 * SECOND - int(trace.host["start"].min())))
    before = [sample(at * SECOND, clock_hz=306 * MHZ) for at in range(90, 99)]
    during = [sample(100 * SECOND + at * 50_000_000, clock_hz=1980 * MHZ) for at in range(1, 6)]
    assert silent("T2", run(trace, during=before + during))


def test_kernels_that_get_faster(recording: Recording):
    trace = recording(VIM)
    slower = pl.when(pl.col("step") == 0).then(pl.col("duration") * 3 // 2).otherwise("duration")
    finding = fires("T2", facts(replace(trace, device=trace.device.with_columns(duration=slower))))
    assert finding.title == "The GPU sped up: the same kernels take 33.3 % less time at the end than at first"
    for name in (VIM, GPT_NSYS, "chrome/ddp_vit_small_2ranks/rank0.pt.trace.json.gz"):
        assert silent("T2", facts(recording(name)))
    for name in (VIM_NSYS, "ops/ops.sqlite.gz"):  # two steps after the warm-up, and none
        assert "three samples" in abstains("T2", facts(recording(name)))


def test_kernels_of_other_shapes_are_not_compared(tmp_path):
    """A server's step may answer more requests: kernels of one name and grid take longer then."""
    took = {}
    for shapes in (([8, 64],) * 3, ([1, 64], [4, 64], [8, 64])):
        file = ChromeFile()
        for number, shape in enumerate(shapes):
            now = 1000.0 * (number + 1)
            file.step(number, now, now + 900)
            for place in range(4):
                at = now + 10 + 200 * place
                file.operator("aten::mul", at, at + 10, [shape])
                file.launch("mul", (at + 1, at + 2), (at + 5, at + 45 + 40 * number))
        trace = open_path(file.write(tmp_path / f"{shapes[0][0]}.pt.trace.json"), cache=False).main
        took[shapes[0][0]] = facts(trace)
    assert "slowed down" in fires("T2", took[8]).title
    assert "three steps of equal kernels" in abstains("T2", took[1])


def _without_steps(trace: Trace) -> Trace:
    """The kernels of the steps without what marks the steps."""
    kernels = trace.device.filter((pl.col("kind") == "kernel") & pl.col("step").is_not_null())
    gone = {key: pl.lit(None, kernels.schema[key]) for key in ("step", "launch", "operator")}
    device = kernels.with_columns(**gone)
    return replace(trace, host=trace.host.clear(), steps=trace.steps.clear(), device=device)


def test_without_steps_other_work_is_no_other_speed(recording: Recording):
    """Kernels that hold half of the time must change: a kernel may do more work under its name and grid."""
    trace = _without_steps(recording(VIM))
    late = pl.col("start") > int(trace.device["start"].median())  # type: ignore[arg-type]
    elementwise = pl.col("name").cast(pl.String).str.contains("elementwise")
    assert silent("T2", facts(trace))

    def slower(rows: pl.Expr) -> pl.DataFrame:
        return trace.device.with_columns(duration=pl.when(rows).then(pl.col("duration") * 2).otherwise("duration"))

    finding = fires("T2", facts(replace(trace, device=slower(late))))
    assert finding.severity == "warning"
    assert finding.title == "The GPU was slowed down: the same kernels take 99.6 % more time at the end than at first"
    other_grids = pl.when(late & ~elementwise).then(None).otherwise("grid")
    device = slower(late & elementwise).with_columns(grid=other_grids)
    assert silent("T2", facts(replace(trace, device=device)))


# --- T3, T4


@pytest.mark.parametrize(
    ("board", "said"),
    [(ORIN_NANO_25W, "90.0 % of its highest: 918 of 1020 MHz"), (ORIN_NX_10W, "52.2 % of its highest: 612 of 1173 MHz"),
     (AGX_ORIN_30W, "47.0 % of its highest: 612 of 1301 MHz")],
)  # fmt: skip
def test_a_power_mode_below_the_fastest(recording: Recording, tmp_path, board: Board, said: str):
    state, device = on_board(tmp_path, board)
    finding = fires("T3", run(recording(VIM), device, before=state))
    assert said in finding.title
    assert "nvpmodel" in finding.advice


def test_a_gpu_at_its_full_clock(recording: Recording, tmp_path):
    state, device = on_server(tmp_path)
    assert silent("T3", run(recording(VIM), device, before=state))
    slow = [gpu | {"applications_clock_hz": 1200 * MHZ} for gpu in state["gpus"]]
    finding = fires("T3", run(recording(VIM), device, before=state | {"gpus": slow}))
    assert "60.6 % of its highest: 1200 of 1980 MHz" in finding.title
    assert "nvidia-smi" in finding.advice
    assert "highest clock" in abstains("T3", run(recording(VIM), before={"mode_name": "MAXN"}))
    assert "tracetui profile" in abstains("T3", facts(recording(VIM)))


def test_a_capped_memory_clock(recording: Recording, tmp_path):
    state, device = on_board(tmp_path, ORIN_NX_10W)
    finding = fires("T4", run(recording(VIM), device, before=state))
    assert "66.7 % of its highest: 2133 of 3199 MHz" in finding.title
    assert "1.50 times as long" in finding.formula
    state, device = on_board(tmp_path / "nano", ORIN_NANO_25W)
    assert silent("T4", run(recording(VIM), device, before=state))
    state, device = on_server(tmp_path / "server")
    assert "Jetson" in abstains("T4", run(recording(VIM), device, before=state))


# --- T5


def test_swapping(recording: Recording, tmp_path):
    state, device = on_board(tmp_path, ORIN_NANO_25W)
    memory = state["memory"]
    later = state | {"memory": memory | {"pages_swapped_in": memory["pages_swapped_in"] + 5000}}
    finding = fires("T5", run(recording(VIM), device, before=state, after=later))
    assert "19.53 MiB came back from swap" in finding.title
    grown = state | {"memory": memory | {"swap_used_bytes": memory["swap_used_bytes"] + (1 << 30)}}
    assert "1.000 GiB more" in fires("T5", run(recording(VIM), device, before=state, during=[grown])).title
    assert silent("T5", run(recording(VIM), device, before=state, after=state))
    assert "before and after" in abstains("T5", run(recording(VIM), device, before=state))
    assert "tracetui profile" in abstains("T5", facts(recording(VIM)))


# --- V15: what the machine says of itself, against what was recorded


def test_a_mode_that_its_caps_belie(recording: Recording, tmp_path):
    state, device = on_board(tmp_path, ORIN_NANO_25W)
    wrong = state | {"mode_name": "15W"}
    finding = fires("V15", run(recording(VIM), device, before=wrong))
    assert finding.title == "The power mode is called 15W, which has 612 MHz, but the GPU was capped at 918 MHz"


def test_a_gpu_of_another_capability_than_its_name_or_its_kernels(recording: Recording):
    trace = recording("ops/ops.trace.json.gz")

    def on(name: str, capability: str) -> Facts:
        devices = tuple(replace(gpu, name=name, compute_capability=capability) for gpu in trace.info.devices)
        return facts(replace(trace, info=replace(trace.info, devices=devices)))

    finding = fires("V15", on("NVIDIA A100-SXM4-80GB", "9.0"))
    assert finding.title == (
        "The GPU is called NVIDIA A100-SXM4-80GB, which has compute capability 8.0, but is recorded with 9.0"
    )
    assert "ran sm90_xmma_" in fires("V15", on("NVIDIA A100-SXM4-80GB", "8.0")).title
    assert "table" in abstains("V15", on("a GPU of tomorrow", "9.0"))  # no kernel needs more
    twice = (*trace.info.devices, *(replace(gpu, name="NVIDIA A100") for gpu in trace.info.devices))
    found = fires("V15", facts(replace(trace, info=replace(trace.info, devices=twice))))
    assert found.title == "GPU 0 is called NVIDIA H200 and NVIDIA A100"


def test_recordings_within_physics(recording: Recording):
    for name in (VIM, "ops/ops.trace.json.gz", "chrome/hta_trace_diff/test.json.gz"):
        assert silent("V15", facts(recording(name)))
    asked = abstains("V15", facts(recording("chrome/cudagraph_replay.trace.json.gz")))
    assert "shapes were recorded" in asked  # record_shapes was on, and a replayed graph has no operators
    assert "GPU" in abstains("V15", facts(recording("jax/h200.trace.json.gz")))


def test_products_faster_than_the_gpu(recording: Recording):
    trace = recording("ops/ops.trace.json.gz")
    faster = replace(trace, device=trace.device.with_columns(pl.col("duration") // 3))
    finding = fires("V15", facts(faster))
    assert "of the peak of this GPU" in finding.title


@pytest.mark.parametrize(("what", "moved"), [("aten::add", 3), ("Memcpy DtoD (Device -> Device)", 2)])
def test_bytes_faster_than_the_memory(tmp_path: Path, what: str, moved: int) -> None:
    """A GiB that is read and written, or two that are read and one written, at 4.8 TB/s and at three times as much."""
    for times, told in ((0.9, False), (3, True)):
        file, lasts = ChromeFile(), moved * (1 << 30) / (times * 4.8e12) * 1e6
        file.gpu("NVIDIA H200", "9.0", 132)
        if what.startswith("aten"):
            file.operator(what, 0, 10, shapes=[[1 << 28], [1 << 28]])
            file.launch("vectorized_elementwise_kernel", (2, 4), (20, 20 + lasts))
        else:
            file.copy(what, (2, 4), (20, 20 + lasts), 1 << 30)
        found = facts(file.write(tmp_path / f"{times}.json"))
        if told:
            assert fires("V15", found).title.startswith(f"{what} reaches 300.0 %")
        else:
            assert silent("V15", found)


def test_more_work_than_a_gpu_can_do(recording: Recording, tmp_path):
    state, device = on_server(tmp_path)
    said = manifest(power={"before": state}, device=device, workload={"flops_per_step": 10**16})
    finding = fires("V15", Facts(Run(Path("run"), (recording(VIM),), manifest=said)))
    assert finding.title.startswith("The whole step reaches")
