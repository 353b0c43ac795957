"""The roofs of GPUs: table, metadata, counters, measurements; and CUDA's occupancy arithmetic."""

import json
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from sample_runs import run_of

from tracetui.analysis.counters.counters import launch_counters
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.gpu.precision import ratio
from tracetui.analysis.gpu.occupancy import SmLimits, occupancy, tail_loss, waves
from tracetui.analysis.roofline import peaks_measured
from tracetui.analysis.roofline.peaks import Peaks, peaks_of, sm_limits, table
from tracetui.analysis.roofline.words import PRECISIONS
from tracetui.app.cli.main import main
from tracetui.collectors.checks.target_python import MeasureError, measure_peaks
from tracetui.collectors.machine.probe import Ran
from tracetui.parsers.runs.manifest import parse
from tracetui.parsers.runs.run import Run
from tracetui.parsers.trace import DeviceInfo, Source, Trace, TraceInfo

CHROME = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"


def trace_on(**device: Any) -> Trace:
    info = TraceInfo(kind="chrome", tool="PyTorch Kineto", devices=(DeviceInfo(0, **device),))
    return Trace.empty(info, Source(Path("x.json"), 0))


def roofs(trace: Trace, manifest: dict[str, Any] | None = None) -> Peaks:
    said = parse({"schema": "tracetui.run/1", **manifest}) if manifest else None
    return peaks_of(Run(Path("x"), (trace,), manifest=said), trace, measured=False)


# --- the table


@pytest.mark.parametrize(
    ("name", "capability", "precision", "tflops", "gbs"),
    [
        ("Tesla T4", "7.5", "fp16_tensor", 65, 320),
        ("Tesla V100-SXM2-16GB", "7.0", "fp16_tensor", 125, 900),
        ("NVIDIA A100-SXM4-80GB", "8.0", "tf32_tensor", 156, 2039),
        ("NVIDIA A100-SXM4-40GB", "8.0", "fp16_tensor", 312, 1555),
        ("NVIDIA H100 80GB HBM3", "9.0", "fp16_tensor", 989.5, 3350),
        ("NVIDIA H100 PCIe", "9.0", "fp16_tensor", 756, 2039),
        ("NVIDIA H200", "9.0", "fp32", 67, 4800),
        ("NVIDIA L4", "8.9", "fp16_tensor", 121, 300),
        ("NVIDIA GeForce RTX 4090", "8.9", "fp16_tensor", 165, 1008),
        ("NVIDIA GeForce RTX 2080 Ti", "7.5", "fp16_tensor", 53.8, 616),
        ("NVIDIA GeForce RTX 3090", "8.6", "fp32", 35.6, 936),
        ("Tesla V100-PCIE-32GB", "7.0", "fp32", 14, 900),
        ("Tesla V100S-PCIE-32GB", "7.0", "fp16_tensor", 130, 1134),
        ("NVIDIA A100 80GB PCIe", "8.0", "tf32_tensor", 156, 1935),
        ("NVIDIA A30", "8.0", "fp16_tensor", 165, 933),
        ("NVIDIA A10", "8.6", "bf16_tensor", 125, 600),
        ("NVIDIA A40", "8.6", "fp16_tensor", 149.7, 696),
        ("NVIDIA RTX A6000", "8.6", "fp32", 38.7, 768),
        ("NVIDIA RTX 6000 Ada Generation", "8.9", "fp32", 91.1, 960),
        ("NVIDIA L40", "8.9", "fp16_tensor", 181, 864),
        ("NVIDIA L40S", "8.9", "tf32_tensor", 183, 864),
        ("NVIDIA GeForce RTX 4090", "8.9", "tf32_tensor", 82.6, 1008),
        ("NVIDIA GeForce RTX 4080", "8.9", "fp32", 48.7, 716.8),
        ("NVIDIA GeForce RTX 4080 SUPER", "8.9", "fp32", 52.2, 736),
        ("NVIDIA H100 NVL", "9.0", "fp16_tensor", 835.5, 3900),
        ("NVIDIA H800", "9.0", "fp64", 1, 3350),
        ("NVIDIA H20", "9.0", "fp16_tensor", 148, 4000),
        ("NVIDIA H200 NVL", "9.0", "fp32", 60, 4800),
        ("NVIDIA GH200 480GB", "9.0", "fp16_tensor", 989.5, 4000),
        ("NVIDIA B200", "10.0", "fp16_tensor", 2250, 8000),
        ("NVIDIA B300 SXM6 AC", "10.3", "fp8_tensor", 4500, 8000),
        ("NVIDIA GeForce RTX 5090", "12.0", "fp16_tensor", 209.5, 1792),
        ("NVIDIA GeForce RTX 5090", "12.0", "int8_tensor", 838, 1792),
    ],
)
def test_the_table_gives_the_vendors_figures(name, capability, precision, tflops, gbs) -> None:
    found = roofs(trace_on(name=name, compute_capability=capability))
    assert found.flops(precision) == pytest.approx(tflops * 1e12, rel=0.03)
    assert found.compute[precision].source == "table"
    assert found.bandwidth is not None
    assert found.bandwidth.value == gbs * 1e9
    assert not found.unknown


@pytest.mark.parametrize(
    ("name", "architecture", "precision", "tflops", "gbs"),
    [
        ("AMD Instinct MI300X", "gfx942", "fp16_tensor", 1307.4, 5300),
        ("AMD Instinct MI300X", "gfx942", "fp32", 163.4, 5300),
        ("AMD Instinct MI210", "gfx90a", "fp16_tensor", 181, 1638),
    ],
)
def test_the_table_gives_the_vendors_figures_of_amd(name, architecture, precision, tflops, gbs) -> None:
    found = roofs(trace_on(name=name, architecture=architecture, warp_size=64))
    assert found.flops(precision) == tflops * 1e12
    assert found.bandwidth is not None
    assert found.bandwidth.value == gbs * 1e9


@pytest.mark.parametrize(
    ("name", "capability", "sms"),
    [
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "8.9", 76),
        ("NVIDIA GeForce RTX 4090 D", "8.9", 114),
        ("NVIDIA GeForce RTX 3090 Ti", "8.6", 84),
        ("NVIDIA GeForce RTX 3070 Ti", "8.6", 48),
        ("NVIDIA GeForce RTX 3080", "8.6", 70),  # the one with 12 GB: more SMs, a wider bus
        ("NVIDIA GeForce RTX 2080 Ti Laptop", "7.5", None),
        ("NVIDIA H100 96GB HBM3", "9.0", 132),
        ("NVIDIA H800 PCIe", "9.0", 114),
        ("NVIDIA H20 NVL", "9.0", None),
        ("NVIDIA H200 NVL X", "9.0", None),
        ("NVIDIA A100-PG509-200", "8.0", 108),
        ("Tesla V100-FHHL-16GB", "7.0", 80),
        ("NVIDIA T400", "7.5", None),
        ("NVIDIA L40G", "8.9", None),
        ("NVIDIA B200 NVL", "10.0", None),
        ("NVIDIA A10M", "8.6", None),
    ],
)
def test_a_name_that_is_nearly_known_is_unknown(name: str, capability: str, sms: int | None) -> None:
    found = roofs(trace_on(name=name, compute_capability=capability, sm_count=sms))
    assert not found.compute
    assert found.bandwidth is None


def test_a_geforce_sums_in_fp32_at_half_the_rate() -> None:
    """Also one that the table lacks, whose clock the recording knows."""
    found = roofs(
        trace_on(name="NVIDIA GeForce RTX 4070", compute_capability="8.9", sm_count=46, clock_hz=2_475_000_000)
    )
    assert found.flops("fp16_tensor") == pytest.approx(58.3e12, rel=0.01)
    assert found.flops("fp32") == pytest.approx(29.1e12, rel=0.01)


def test_the_gain_of_half_precision_on_a_geforce_is_of_sums_in_fp32() -> None:
    """An RTX 3060, which the table lacks: 512 FMA per SM and clock with fp16 sums, 256 as frameworks sum."""
    found = ratio(Facts(run_of("public/luatil_05.json.gz")), "fp16_tensor")
    assert found is not None
    assert found.value == 2
    other = ratio(Facts(run_of("ops/ops.trace.json.gz")), "fp16_tensor")
    assert other is not None
    assert other.value == pytest.approx(989.5 / 67, rel=0.01)


def test_every_row_of_the_table_can_be_used() -> None:
    content = table()
    for row in (*content["gpu"], *content["jetson"]):
        if "architecture" in row:  # AMD's, whose figures are the vendor's own
            assert row["tflops"]
        else:
            assert row["capability"] in content["capability"], row["match"]
    for row in content["gpu"]:
        assert row["source"]
        assert set(row.get("tflops", {})) <= set(PRECISIONS)
    for row in content["capability"].values():
        assert set(row["fma"]) <= set(PRECISIONS)
        assert row["source"]


def test_an_unknown_gpu_has_no_roofs_and_says_so() -> None:
    found = roofs(trace_on(name="NVIDIA Graphics Device 9000", compute_capability="99.0", sm_count=4))
    assert not found.compute
    assert found.bandwidth is None
    (said,) = found.unknown
    assert "peak FLOP/s" in said
    assert "peak memory bandwidth" in said
    assert said.count("--measure-peaks") == 1
    assert roofs(replace(trace_on(), info=TraceInfo(kind="chrome", tool=""))).unknown


def test_a_rocm_gpu_of_a_capability_that_cuda_has_too_has_none() -> None:
    amd = DeviceInfo(0, name="AMD Radeon Graphics", compute_capability="9.0", sm_count=110, warp_size=64)
    assert sm_limits(amd) is None
    assert not roofs(trace_on(name=amd.name, compute_capability="9.0", sm_count=110, clock_hz=1_700_000_000)).compute


# --- what overrides it


def test_nsys_tells_clock_and_bandwidth(recording: Callable[[str], Trace]) -> None:
    trace = recording("nsys/vim_tiny_fp32_bs4.sqlite.gz")
    assert trace.info.devices[0].clock_hz == 1_980_000_000
    assert trace.info.devices[0].memory_bandwidth == 4_814_304_000_000
    found = roofs(trace)
    assert found.bandwidth is not None
    assert (found.bandwidth.value, found.bandwidth.source) == (4_814_304_000_000, "metadata")
    assert found.compute["fp32"].value == 132 * 128 * 2 * 1.98e9
    assert found.compute["fp32"].source == "metadata"


@pytest.mark.parametrize(
    ("mode", "clock", "emc", "fp32", "tensor", "gbs"),
    [("25W", 918_000_000, 3_199_000_000, 1.88, 15.0, 102.4), ("15W", 612_000_000, 2_133_000_000, 1.25, 10.0, 68.3)],
)
def test_a_jetson_by_what_its_power_mode_allows(mode, clock, emc, fp32, tensor, gbs) -> None:
    manifest = {
        "device": [{"index": 0, "name": "Orin", "module_id": "p3767-0005", "compute_capability": "8.7", "sm_count": 8}],
        "power": {"before": {"mode_name": mode, "gpus": [{"max_clock_hz": clock}], "emc": {"cap_hz": emc}}},
    }
    found = roofs(trace_on(name="Orin", compute_capability="8.7", sm_count=8), manifest)
    assert found.flops("fp32") == pytest.approx(fp32 * 1e12, rel=0.005)
    assert found.flops("fp16_tensor") == pytest.approx(tensor * 1e12, rel=0.005)
    assert found.bandwidth is not None
    assert found.bandwidth.value == pytest.approx(gbs * 1e9, rel=0.001)
    assert found.compute["fp32"].source == found.bandwidth.source == "metadata"


def test_the_cap_of_the_gpu_that_the_run_used() -> None:
    gpus = [
        {"index": 0, "max_clock_hz": 900_000_000},
        {"index": 1, "max_clock_hz": 1_500_000_000, "applications_clock_hz": 585_000_000},
    ]
    manifest = {"workload": {"device": "cuda:1"}, "power": {"before": {"gpus": gpus}}}
    found = roofs(trace_on(name="Tesla T4", compute_capability="7.5", sm_count=40), manifest)
    assert found.flops("fp32") == 40 * 64 * 2 * 1.5e9


def test_a_jetson_by_the_name_of_its_mode() -> None:
    manifest = {
        "device": [{"index": 0, "name": "Orin", "module_id": "p3767-0005", "compute_capability": "8.7"}],
        "power": {"before": {"mode_name": "15W"}},
    }
    found = roofs(trace_on(name="Orin", compute_capability="8.7"), manifest)
    assert found.flops("fp16_tensor") == pytest.approx(10.0e12, rel=0.005)
    assert found.bandwidth is not None
    assert (found.bandwidth.value, found.bandwidth.source) == (68.3e9, "table")


def test_a_jetson_without_its_mode_has_no_roofs() -> None:
    found = roofs(trace_on(name="Orin", compute_capability="8.7", sm_count=8))
    assert not found.compute
    assert found.bandwidth is None


def test_counters_are_the_exact_roofs(recording: Callable[[str], Trace]) -> None:
    found = roofs(recording("ncu/vim_full_raw.csv.gz"))
    metrics = recording("ncu/vim_full_raw.csv.gz").counters.with_columns(pl.col("metric").cast(pl.String))

    def median(name: str) -> float:
        return float(metrics.filter(pl.col("metric") == name)["value"].median())  # type: ignore[arg-type]

    assert found.compute["fp32"].source == "counters"
    assert found.compute["fp32"].value == 2 * 16896 * median("sm__cycles_elapsed.avg.per_second")
    dense = "sm__ops_path_tensor_op_hgmma_src_fp16_sparsity_off.sum.peak_sustained_elapsed.per_second"
    assert found.compute["fp16_tensor"].value == median(dense)
    assert found.compute["fp16_tensor"].value == pytest.approx(1.0863e15, rel=1e-3)
    assert found.bandwidth is not None
    assert found.bandwidth.value == 1504 * median("dram__cycles_elapsed.avg.per_second")


def test_counters_of_a_run_are_the_roofs_of_its_other_recordings(recording: Callable[[str], Trace]) -> None:
    chrome, ncu = recording(CHROME), recording("ncu/vim_full_raw.csv.gz")
    found = peaks_of(Run(Path("x"), (chrome, ncu)), chrome, measured=False)
    assert found.compute["fp32"].source == "counters"
    assert peaks_of(Run(Path("x"), (chrome,)), chrome, measured=False).compute["fp32"].source == "table"


# --- measured


MEASURED = {
    "device": "NVIDIA H200", "sm_count": 132, "clock_cap_hz": 1_980_000_000, "measured_utc": "2026-01-02T03:04:05Z",
    "flops": {"fp32": 5.1e13, "fp16_tensor": 7.9e14, "made_up": 1.0, "tf32_tensor": "fast"}, "bandwidth": 4.1e12,
}  # fmt: skip


def test_measured_peaks_count_before_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACETUI_PEAKS", str(tmp_path / "kept" / "peaks.json"))
    trace = trace_on(name="NVIDIA H200", compute_capability="9.0", sm_count=132)
    assert peaks_of(None, trace).compute["fp32"].source == "table"
    peaks_measured.keep(MEASURED)
    peaks_measured.keep({**MEASURED, "bandwidth": 4.2e12})
    found = peaks_of(None, trace)
    assert (found.compute["fp32"].value, found.compute["fp32"].source) == (5.1e13, "measured")
    assert found.bandwidth is not None
    assert (found.bandwidth.value, found.bandwidth.about) == (4.2e12, "measured 2026-01-02")
    assert found.compute["tf32_tensor"].source == "table"
    assert "made_up" not in found.compute
    other = trace_on(name="NVIDIA H200", compute_capability="9.0", sm_count=16)
    assert peaks_of(None, other).compute["fp32"].source == "table"
    capped = parse(
        {"schema": "tracetui.run/1", "power": {"before": {"gpus": [{"max_clock_hz": 1_200_000_000}]}}, "device": []}
    )
    slow = peaks_of(Run(Path("x"), (trace,), manifest=capped), trace)
    assert (slow.compute["fp32"].value, slow.compute["fp32"].source) == (132 * 128 * 2 * 1.2e9, "metadata")


@pytest.mark.parametrize("content", ["", "[1]", "{", '{"measurements": 3}', '{"measurements": [3, {}]}'])
def test_a_damaged_file_of_peaks_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    file = tmp_path / "peaks.json"
    file.write_text(content)
    monkeypatch.setenv("TRACETUI_PEAKS", str(file))
    assert peaks_of(None, trace_on(name="NVIDIA H200", compute_capability="9.0")).compute["fp32"].source == "table"
    peaks_measured.keep(MEASURED)
    assert json.loads(file.read_text())["measurements"][-1] == MEASURED


FAKE_TORCH = """
    import types
    float32, float16, bfloat16 = "float32", "float16", "bfloat16"
    __version__ = "0.0"
    version = types.SimpleNamespace(hip=None)
    products = []
    class Tensor:
        def __init__(self, kind): self.kind = kind
        def element_size(self): return 4 if self.kind == float32 else 2
        def to(self, kind): return Tensor(kind)
    def randn(*sizes, device, dtype): return Tensor(dtype)
    def empty(*sizes, dtype, device="cpu"): return Tensor(dtype)
    def zeros(count, device, dtype): return Tensor(dtype)
    def empty_like(tensor): return tensor
    def neg(tensor, out): cuda.last = "copy"
    def mm(a, b, out): cuda.last = (a.kind, backends.cuda.matmul.allow_tf32)
    class Event:
        def __init__(self, enable_timing): pass
        def record(self): pass
        def elapsed_time(self, end):
            return {"copy": 1.0, (float32, False): 22.0, (float32, True): 2.5}.get(cuda.last, 1.25)
    matmul = types.SimpleNamespace(allow_tf32=True)
    backends = types.SimpleNamespace(cuda=types.SimpleNamespace(matmul=matmul))
    cuda = types.SimpleNamespace(
        is_available=lambda: True, synchronize=lambda: None, empty_cache=lambda: None, Event=Event,
        mem_get_info=lambda: (139 << 30, 140 << 30), last=None,
        get_device_properties=lambda n: types.SimpleNamespace(
            name="NVIDIA H200", major=9, minor=0, multi_processor_count=132),
    )
"""


def test_the_benchmark_measures_and_is_kept(tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "torch.py").write_text(textwrap.dedent(FAKE_TORCH))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("TRACETUI_PEAKS", str(tmp_path / "peaks.json"))
    assert main(["doctor", "--measure-peaks", "--python", sys.executable, "--ascii"]) == 0
    said = capsys.readouterr().out
    (kept,) = json.loads((tmp_path / "peaks.json").read_text())["measurements"]
    assert kept["flops"]["fp32"] == pytest.approx(2 * 8192**3 / 0.022)
    assert kept["flops"]["tf32_tensor"] == pytest.approx(2 * 8192**3 / 0.0025)
    assert kept["flops"]["fp16_tensor"] == kept["flops"]["bf16_tensor"] == pytest.approx(2 * 8192**3 / 0.00125)
    assert kept["bandwidth"] == pytest.approx(2 * (1 << 30) / 0.001)
    assert "FP32          50 TFLOP/s" in said
    assert "memory        2.15 TB/s" in said
    trace = trace_on(name="NVIDIA H200", compute_capability="9.0", sm_count=132)
    assert peaks_of(None, trace).compute["tf32_tensor"].source == "measured"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Ran(1, 'tracetui-peaks:{"error": "torch sees no CUDA device"}'), "torch sees no CUDA device"),
        (Ran(1, "", "Traceback\nImportError: no torch"), "ImportError: no torch"),
        (Ran(0, "tracetui-peaks:{"), "printed nothing"),
        (Ran(None, "", "no answer within 300 s"), "no answer within 300 s"),
    ],
)
def test_nothing_measured_is_one_line(answer: Ran, why: str, tmp_path: Path) -> None:
    def runner(command: Sequence[str], timeout: float) -> Ran:
        return answer

    with pytest.raises(MeasureError, match=why):
        measure_peaks("/opt/py/bin/python", root=tmp_path, runner=runner)


# --- occupancy


def orin() -> SmLimits:
    found = sm_limits(DeviceInfo(0, name="Orin", compute_capability="8.7"))
    assert found is not None
    return found


def test_one_warp_per_block_runs_out_of_block_slots_on_orin() -> None:
    found = occupancy(32, 40, 2056, orin())
    assert found is not None
    assert (found.blocks, found.warps, found.limiters) == (16, 16, ("blocks",))
    assert found.percent == pytest.approx(33.3, abs=0.05)


def test_each_limit() -> None:
    sm = orin()
    by_registers = occupancy(256, 128, 0, sm)
    assert by_registers is not None
    assert (by_registers.blocks, by_registers.limiters) == (2, ("registers",))
    by_shared = occupancy(256, 32, 100_000, sm)
    assert by_shared is not None
    assert (by_shared.blocks, by_shared.limiters) == (1, ("shared memory",))
    by_warps = occupancy(1024, 16, 0, sm)
    assert by_warps is not None
    assert (by_warps.blocks, by_warps.limiters) == (1, ("warps",))
    assert by_warps.percent == pytest.approx(100 * 32 / 48)
    assert occupancy(0, 32, 0, sm) is None
    assert occupancy(256, 32, 200_000, sm) is None


@pytest.mark.parametrize(
    "name",
    ["ncu/vim_full_raw.csv.gz", "ncu/vim_full_details.csv.gz", "ncu/scan_metrics_raw.csv.gz",
     "ncu/vim_basic_stdout_details.csv.gz", "ops/ops.ncu.csv.gz"],
)  # fmt: skip
def test_the_arithmetic_is_nsight_computes(recording: Callable[[str], Trace], name: str) -> None:
    trace = recording(name)
    sm = sm_limits(trace.info.devices[0])
    assert sm is not None
    rows = [row for row in launch_counters(trace).iter_rows(named=True) if row["theoretical_occupancy_percent"]]
    assert rows
    for row in rows:
        threads, blocks = (side[0] * side[1] * side[2] for side in (row["block"], row["grid"]))
        found = occupancy(threads, row["registers"], row["shared_memory"], sm)
        assert found is not None
        assert found.percent == pytest.approx(row["theoretical_occupancy_percent"], abs=0.01), row["name"]
        limiters = set(row["occupancy_limiter"].split(", ")) - {"barriers"}
        # ncu counts with the shared memory that the driver had set aside, which may just suffice
        assert set(found.limiters) == limiters - ({"shared memory"} - set(found.limiters)), row["name"]
        assert waves(blocks, found, 132) == pytest.approx(row["waves"], abs=0.006)


def test_the_tail() -> None:
    assert tail_loss(0.73) == pytest.approx(0.27)
    assert tail_loss(1.0) == 0
    assert tail_loss(1.2) == pytest.approx(0.4)
    assert tail_loss(0.0) == 0
