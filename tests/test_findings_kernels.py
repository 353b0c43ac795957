"""Rules on kernels and memory: what they see, what they leave alone, what they need; on recordings and small runs."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from judged import find
from sample_runs import SWEEP

from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core.facts import Facts, Pair
from tracetui.analysis.findings.core.finding import HEADLINE, Finding, Findings
from tracetui.analysis.findings.gpu.kernel_facts import ncu_command, speedup_ceiling
from tracetui.parsers import open_path
from tracetui.parsers.ncu.native import unit_of
from tracetui.parsers.runs.run import Run
from tracetui.parsers.trace import Trace

VIM = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"
OURS = {"K1", "K2", "K3", "K4", "K5", "K6", "K12", "K13", "K14", "G1", "G5"}
ORIN = {
    "id": 0, "name": "Orin", "totalGlobalMem": 8 << 30, "computeMajor": 8, "computeMinor": 7, "numSms": 8,
    "maxThreadsPerMultiprocessor": 1536, "regsPerMultiprocessor": 65536, "warpSize": 32,
    "sharedMemPerMultiprocessor": 167936,
}  # fmt: skip
H200 = ORIN | {
    "name": "NVIDIA H200", "totalGlobalMem": 140 << 30, "computeMajor": 9, "computeMinor": 0, "numSms": 132,
    "maxThreadsPerMultiprocessor": 2048, "sharedMemPerMultiprocessor": 233472,
}  # fmt: skip
SCAN = "void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<32, 8, 1>>(SSMParamsBase)"
CONV = "void causal_conv1d_fwd_kernel<Traits<128, 4>>(ConvParamsBase)"
MUL = "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>>(int)"
SEED_SHAPES = [[120, 768, 197], [384, 1, 4], [384], [44, 384], [384, 12], [192, 384], [], [384, 16]]


class Kernel:
    """One kernel that every step launches."""

    def __init__(
        self, name: str, us: float, *, grid: tuple[int, int, int] = (4000, 1, 1), block: int = 256, registers: int = 32,
        shared: int = 0, operator: str = "aten::mul", shapes: Any = None, types: Any = None,
    ) -> None:  # fmt: skip
        self.name, self.us, self.grid, self.block = name, us, grid, block
        self.registers, self.shared = registers, shared
        self.operator, self.shapes, self.types = operator, shapes, types


def chrome(path: Path, kernels: list[Kernel], *, device: dict[str, Any] = H200, gap_us: float = 0.0, steps: int = 3,
           memory: tuple[int, int] | None = None) -> Path:  # fmt: skip
    """A recording whose GPU works through the kernels of each step; with `gap_us` the host launches them late."""
    events: list[dict[str, Any]] = []
    now, number = 1000.0, 0

    def add(cat: str, name: str, ts: float, dur: float, tid: int = 1, pid: int = 1, **args: Any) -> None:
        events.append({"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": pid, "tid": tid, "args": args})

    for step in range(steps):
        start, host, gpu = now, now + 1, now + 5
        for kernel in kernels:
            number += 1
            host += gap_us
            shapes = {} if kernel.shapes is None else {"Input Dims": kernel.shapes, "Input type": kernel.types}
            add("cpu_op", kernel.operator, host, 2, **{"External id": number}, **shapes)
            add("cuda_runtime", "cudaLaunchKernel", host + 0.5, 1, correlation=number)
            gpu = max(gpu, host + 2)
            launch = {
                "grid": list(kernel.grid), "block": [kernel.block, 1, 1], "registers per thread": kernel.registers,
                "shared memory": kernel.shared, "External id": number, "correlation": number,
            }  # fmt: skip
            add("kernel", kernel.name, gpu, kernel.us, 7, 0, device=0, stream=7, **launch)
            gpu, host = gpu + kernel.us, host + 3
        if not gap_us:
            add("cuda_runtime", "cudaDeviceSynchronize", host, gpu - host + 1, correlation=10**6 + step)
            host = gpu + 1
        now = max(host, gpu) + 2
        add("user_annotation", f"ProfilerStep#{step + 1}", start, now - start - 1)
    if memory is not None:
        events.append(
            {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": 1500.0, "pid": 1, "tid": 1, "s": "t",
             "args": {"Device Type": 1, "Device Id": 0, "Addr": 64, "Bytes": memory[0], "Total Allocated": memory[0],
                      "Total Reserved": memory[1]}}
        )  # fmt: skip
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [device], "traceEvents": events}))
    return path


def ncu(path: Path, rows: list[tuple[Kernel, dict[str, float]]], capability: str = "9.0") -> Path:
    """A raw page with these metrics."""
    names = list(dict.fromkeys(name for _, metrics in rows for name in metrics))
    head = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size",
            "Grid Size", "Device", "CC", *names]  # fmt: skip
    units = [""] * 11 + [
        ("ns" if "duration" in name else "%" if ".pct" in name or "pct_of" in name else unit_of(name)) for name in names
    ]
    lines = [head, units]
    for number, (kernel, metrics) in enumerate(rows):
        grid = f"({', '.join(map(str, kernel.grid))})"
        lines.append([str(number), "1", "python", "host", kernel.name, "1", "7", f"({kernel.block}, 1, 1)", grid, "0",
                      capability, *(str(metrics.get(name, "")) for name in names)])  # fmt: skip
    path.write_text("".join(",".join(f'"{cell}"' for cell in line) + "\n" for line in lines))
    return path


def run_of(*paths: Path) -> Run:
    traces = tuple(open_path(path, cache=False).traces[0] for path in paths)
    return Run(paths[0], traces)


def judged(run: Run | Trace, *ids: str) -> Findings:
    run = run if isinstance(run, Run) else Run(Path("x"), (run,))
    rules = {id: rule for id, rule in all_rules().items() if id in (ids or OURS)}
    return find(Facts(run), rules=rules)


def said(found: Findings) -> dict[str, Finding]:
    return {one.id: one for one in reversed(found.found)}


def abstained(found: Findings) -> dict[str, str]:
    return {one.id: one.missing for one in found.abstained}


def value(finding: Finding, label: str) -> Any:
    return next(one.value for one in finding.evidence if label in one.label)


SOL = {
    "gpu__time_duration.sum": 1e6,
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": 20.0,
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": 30.0,
}


# --- a launch-bound run is told nothing about its kernels


@pytest.mark.parametrize("with_counters", [False, True])
def test_no_kernel_is_worth_tuning_where_the_host_is_the_limit(recording, with_counters) -> None:
    traces = (recording(VIM), *([recording("ncu/vim_full_raw.csv.gz")] if with_counters else []))
    found = judged(Run(Path("x"), traces))
    assert {one.id for one in found.standing} == {"K14", "G5"}
    (amdahl,) = (one for one in found.standing if one.id == "K14")
    assert amdahl.title == "Faster kernels can gain at most 0.05 % of the step, all of them together"
    assert "occupancy" in amdahl.advice
    assert {one.finding.id for one in found.suppressed} >= {"K4"}
    assert all(one.by in ("K14", HEADLINE) for one in found.suppressed)


def test_k14_is_silent_where_kernels_are_the_limit(tmp_path: Path) -> None:
    assert "K14" not in said(judged(run_of(chrome(tmp_path / "a.json", [Kernel(MUL, 500)])), "K14"))
    assert "K14" in abstained(judged(run_of(ncu(tmp_path / "a.csv", [(Kernel(MUL, 1), SOL)])), "K14"))


def test_the_arithmetic_of_amdahl() -> None:
    assert speedup_ceiling(0.5, 2) == 0.25
    assert speedup_ceiling(0.3, float("inf")) == 0.3
    assert speedup_ceiling(0.3, 1) == 0


# --- K1, K2


def test_k1_names_the_class(tmp_path: Path) -> None:
    scan = Kernel(SCAN, 1000)
    for shares, words in (
        ((20.0, 30.0), "waits for latency"), ((80.0, 30.0), "is bound by compute"),
        ((30.0, 90.0), "is bound by memory"), ((80.0, 75.0), "uses arithmetic and memory alike"),
    ):  # fmt: skip
        metrics = dict(zip(SOL, (1e6, *shares), strict=True))
        run = run_of(chrome(tmp_path / "a.json", [scan, Kernel(MUL, 10)]), ncu(tmp_path / "a.csv", [(scan, metrics)]))
        finding = said(judged(run, "K1"))["K1"]
        assert words in finding.title
        assert finding.ceiling_percent == pytest.approx(100 - max(shares), abs=2)


def test_k1_leaves_small_kernels_alone_and_needs_counters(tmp_path: Path) -> None:
    run = run_of(
        chrome(tmp_path / "a.json", [Kernel(SCAN, 1000), Kernel(MUL, 20)]),
        ncu(tmp_path / "a.csv", [(Kernel(MUL, 20), SOL)]),
    )
    assert not judged(run, "K1").found
    assert "ncu --set full" in abstained(judged(run_of(chrome(tmp_path / "b.json", [Kernel(SCAN, 9)])), "K1"))["K1"]


def test_k1_of_a_report_alone_speaks_of_its_own_time(recording: Callable[[str], Trace]) -> None:
    found = judged(recording("ncu/vim_full_raw.csv.gz"), "K1").found
    assert found[0].title == "selective_scan_fwd_kernel waits for latency: SM 36.4 %, memory 38.0 % of peak"
    assert found[0].ceiling_percent is None
    assert "only a time line tells" in found[0].formula


def multiplied(us: float, side: int = 4096) -> Kernel:
    """An elementwise product of two square matrices of fp32: 12 byte per number."""
    return Kernel(MUL, us, shapes=[[side, side], [side, side]], types=["float", "float"])


def test_k2_far_below_the_roof(tmp_path: Path) -> None:
    least = 12 * 4096**2 / 4.8e12 * 1e6
    found = said(judged(run_of(chrome(tmp_path / "a.json", [multiplied(5 * least)])), "K2"))["K2"]
    assert found.title == "Let torch.compile replace elementwise: mul: at 20.0 % of its memory roof"
    assert found.ceiling_percent == pytest.approx(80, abs=3)
    assert found.next_command.startswith("ncu --set full -k 'regex:^vectorized_elementwise_kernel$'")
    assert "(table)" in found.formula


def test_k2_at_the_roof_or_without_one(tmp_path: Path) -> None:
    assert not judged(run_of(chrome(tmp_path / "a.json", [multiplied(60)])), "K2").found
    unknown = chrome(tmp_path / "b.json", [multiplied(600)], device=ORIN)
    assert "clock" in abstained(judged(run_of(unknown), "K2"))["K2"]
    assert "record_shapes" in abstained(judged(run_of(chrome(tmp_path / "c.json", [Kernel(MUL, 600)])), "K2"))["K2"]


def test_k2_leaves_alone_what_takes_little_of_the_kernel_time(tmp_path: Path) -> None:
    kernels = [multiplied(300), Kernel(SCAN, 100_000)]
    assert not judged(run_of(chrome(tmp_path / "a.json", kernels)), "K2").found


def test_k2_leaves_measured_kernels_to_k1(tmp_path: Path) -> None:
    kernel = multiplied(500)
    run = run_of(chrome(tmp_path / "a.json", [kernel]), ncu(tmp_path / "a.csv", [(kernel, SOL)]))
    assert set(said(judged(run, "K1", "K2"))) == {"K1"}


# --- K3: seed 0 of the published reports, rebuilt from its numbers


def seed(path: Path, **more: Any) -> Path:
    """vim_tiny on an Orin Nano at its real batch of 120: the scan's launch as its kernel makes it for 197 tokens."""
    scan = Kernel(SCAN, 15300, grid=(120, 384, 1), block=32, registers=40, shared=2056, operator="MambaInnerFn",
                  shapes=SEED_SHAPES, types=["float"] * 6 + ["", "float"])  # fmt: skip
    return chrome(path, [scan, Kernel(MUL, 2000)], device=ORIN, **more)


def test_k3_names_block_slots_as_the_limiter(tmp_path: Path) -> None:
    found = said(judged(run_of(seed(tmp_path / "a.json")), "K3"))["K3"]
    assert found.title == "Raise the occupancy of selective_scan_fwd_kernel: 33.3 %, limited by block slots"
    assert "16 blocks of 1 warp = 16 of 48 warps = 33.3 %" in found.formula
    assert value(found, "limited by") == "blocks"
    assert "sequential" not in (found.title + found.advice + found.formula).lower()
    assert "block slots before warps" in found.advice


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (Kernel(SCAN, 900, block=256, registers=128), "registers"),
        (Kernel(SCAN, 900, block=128, registers=32, shared=100_000), "shared memory"),
    ],
)
def test_k3_names_the_other_limits(tmp_path: Path, kernel: Kernel, words: str) -> None:
    found = said(judged(run_of(chrome(tmp_path / "a.json", [kernel])), "K3"))["K3"]
    assert f"limited by {words}" in found.title
    assert "Only counters tell" in found.advice
    assert found.severity == "info"


@pytest.mark.parametrize(
    "kernel",
    [
        Kernel(SCAN, 900, block=256, registers=32),
        Kernel("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8", 900, block=128, registers=200),
        Kernel(SCAN, 900, grid=(8, 1, 1), block=128, registers=200),
        multiplied(50),
    ],
)
def test_k3_leaves_full_tiled_small_and_fast_kernels_alone(tmp_path: Path, kernel: Kernel) -> None:
    if kernel.shapes:
        kernel.registers = 200
    assert not judged(run_of(chrome(tmp_path / "a.json", [kernel])), "K3").found


def test_k3_without_registers_names_what_is_known(tmp_path: Path) -> None:
    kernel = Kernel(SCAN, 900, grid=(120, 384, 1), block=32)
    kernel.registers = kernel.shared = None  # type: ignore[assignment]
    found = said(judged(run_of(chrome(tmp_path / "a.json", [kernel], device=ORIN)), "K3"))["K3"]
    assert "33.3 %, limited by block slots" in found.title
    assert value(found, "registers per thread") == "unknown"


def test_k3_by_counters(tmp_path: Path) -> None:
    scan = Kernel(SCAN, 900, block=256, registers=128)
    busy = dict(zip(SOL, (1e6, 20.0, 90.0), strict=True))
    path = chrome(tmp_path / "a.json", [scan])
    assert not judged(run_of(path, ncu(tmp_path / "a.csv", [(scan, busy)])), "K3").found
    found = said(judged(run_of(path, ncu(tmp_path / "b.csv", [(scan, SOL)])), "K3"))["K3"]
    assert value(found, "bound") == "latency"
    assert found.severity == "critical"


def test_k3_and_k4_need_to_know_the_gpu(tmp_path: Path) -> None:
    unknown = chrome(tmp_path / "a.json", [Kernel(SCAN, 900, block=32)], device=H200 | {"computeMajor": 99})
    assert {"K3", "K4"} <= set(abstained(judged(run_of(unknown), "K3", "K4")))
    amd = chrome(tmp_path / "b.json", [Kernel(SCAN, 900)], device=H200 | {"name": "AMD Instinct MI250", "warpSize": 64})
    assert {"K3", "K4"} <= set(abstained(judged(run_of(amd), "K3", "K4")))


# --- K4


def test_k4_less_than_a_wave(tmp_path: Path) -> None:
    small = Kernel(SCAN, 900, grid=(66, 1, 1), block=1024, registers=64)
    found = said(judged(run_of(chrome(tmp_path / "a.json", [small])), "K4"))["K4"]
    assert "66 blocks, 1 per SM = 0.50 waves" in found.formula
    assert found.ceiling_percent == pytest.approx(50, abs=2)


def test_k4_one_block_is_no_blocks(tmp_path: Path) -> None:
    lone = Kernel(SCAN, 900, grid=(1, 1, 1), block=1024, registers=64)
    found = said(judged(run_of(chrome(tmp_path / "a.json", [lone])), "K4"))["K4"]
    assert ": 1 block, 1 per SM = " in found.formula


def test_k4_a_tail(tmp_path: Path) -> None:
    tail = Kernel(SCAN, 900, grid=(160, 1, 1), block=1024, registers=64)
    assert "1.21 waves" in said(judged(run_of(chrome(tmp_path / "a.json", [tail])), "K4"))["K4"].formula


@pytest.mark.parametrize(
    "kernel",
    [
        Kernel(SCAN, 900, grid=(132, 1, 1), block=1024, registers=64),
        Kernel(SCAN, 900, grid=(1320, 1, 1), block=1024, registers=64),
        Kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)", 900, grid=(24, 1, 1), block=512),
    ],
)
def test_k4_full_grids_and_collectives(tmp_path: Path, kernel: Kernel) -> None:
    assert not judged(run_of(chrome(tmp_path / "a.json", [kernel])), "K4").found


def test_k4_promises_no_more_than_the_roof(tmp_path: Path) -> None:
    for us, most in ((50, 20), (500, 51)):
        kernel = multiplied(us)
        kernel.grid, kernel.block = (66, 1, 1), 1024
        found = said(judged(run_of(chrome(tmp_path / "a.json", [kernel])), "K4"))["K4"]
        assert found.ceiling_percent is not None
        assert most - 8 < found.ceiling_percent < most


def test_k4_leaves_streams_with_a_block_on_each_sm_alone(tmp_path: Path) -> None:
    kernel = Kernel(MUL, 500, grid=(160, 1, 1), block=256)
    assert not judged(run_of(chrome(tmp_path / "a.json", [kernel])), "K4").found


# --- K5, K6


def cached(l1: float, l2: float, **more: float) -> dict[str, float]:
    shares = dict(zip(SOL, (1e6, 20.0, 90.0), strict=True))
    return shares | {"l1tex__t_sector_hit_rate.pct": l1, "lts__t_sector_hit_rate.pct": l2, **more}


def test_k5_low_hit_rates(tmp_path: Path) -> None:
    scan = Kernel(SCAN, 900)
    path = chrome(tmp_path / "a.json", [scan])
    found = said(judged(run_of(path, ncu(tmp_path / "a.csv", [(scan, cached(20, 13))])), "K5"))["K5"]
    assert found.title == "selective_scan_fwd_kernel is bound by memory and hits 13.0 % in its worst cache"
    assert not judged(run_of(path, ncu(tmp_path / "b.csv", [(scan, cached(80, 85))])), "K5").found
    assert not judged(run_of(path, ncu(tmp_path / "c.csv", [(scan, cached(20, 13) | SOL)])), "K5").found
    assert "K5" in abstained(judged(run_of(path), "K5"))


def test_k5_excuses_what_streams(tmp_path: Path) -> None:
    path = chrome(tmp_path / "a.json", [Kernel(MUL, 900)])
    assert not judged(run_of(path, ncu(tmp_path / "a.csv", [(Kernel(MUL, 900), cached(0, 10))])), "K5").found


def test_k6_of_the_published_report(tmp_path: Path) -> None:
    """37,500,858 L2 misses of a launch: 1.20 GB for 187 MB of work, 6.4 times."""
    scan = Kernel(SCAN, 1, grid=(120, 384, 1), block=32)
    misses = {"lts__t_sectors_lookup_miss.sum": 37_500_858.0}
    run = run_of(seed(tmp_path / "a.json"), ncu(tmp_path / "a.csv", [(scan, misses)], "8.7"))
    found = said(judged(run, "K6"))["K6"]
    factor = value(found, "DRAM traffic") / value(found, "inputs and outputs")
    assert factor == pytest.approx(6.4, rel=0.02)
    assert value(found, "DRAM traffic") == 37_500_858 * 32
    assert "grid" in found.advice


def test_k6_once_or_another_grid(tmp_path: Path) -> None:
    once = {"dram__bytes_read.sum": 180e6, "dram__bytes_write.sum": 20e6, "gpu__time_duration.sum": 15.3e6}
    same = Kernel(SCAN, 1, grid=(120, 384, 1), block=32)
    other = Kernel(SCAN, 1, grid=(4, 384, 1), block=32)
    path = seed(tmp_path / "a.json")
    assert not judged(run_of(path, ncu(tmp_path / "a.csv", [(same, once)])), "K6").found
    many = {"dram__bytes_read.sum": 9e9, "dram__bytes_write.sum": 0.0, "gpu__time_duration.sum": 15.3e6}
    assert not judged(run_of(path, ncu(tmp_path / "b.csv", [(other, many)])), "K6").found
    assert "K6" in abstained(judged(run_of(path), "K6"))


# --- K12, K13


def test_k12_promises_what_the_roof_leaves() -> None:
    run = open_path(SWEEP / "batch=4,keep=1.0" / "repeat-1")
    facts = Facts(run)
    found = said(judged(run, "K12"))["K12"]
    roof = float(re.search(r"at ([\d.]+) % of its compute roof", found.title)[1])
    share = float(re.search(r": ([\d.]+) % of", found.title)[1])
    kernels = facts.per_step(facts.kernel_ns)
    most = share / 100 * (1 - roof / 100) * kernels
    assert found.impact_ns == pytest.approx(most, rel=0.05)
    assert found.severity == "critical"
    assert "at its roof: " in found.formula


@pytest.mark.parametrize("outermost", ["true", "false"])
def test_k12_says_that_numbers_are_gathered_one_by_one(tmp_path: Path, outermost: str) -> None:
    of = f"float, long, unsigned int, 2, 2, -2, {outermost}"
    name = f"void at::native::(anonymous namespace)::indexSelectLargeIndex<{of}>(int)"
    hot = chrome(tmp_path / "a.json", [Kernel(name, 900), Kernel(MUL, 100)])
    assert ("with the indexed dimension first" in said(judged(run_of(hot), "K12"))["K12"].advice) == (
        outermost == "false"
    )


def test_k12_a_hot_spot_and_none(tmp_path: Path) -> None:
    hot = chrome(tmp_path / "a.json", [Kernel(SCAN, 900), Kernel(MUL, 100)])
    found = said(judged(run_of(hot), "K12"))["K12"]
    assert found.title == "selective_scan_fwd_kernel takes 90.0 % of the kernel time, its roof is not known"
    # no kernel vanishes, and how far this one is from its roof is not known
    assert (found.severity, found.ceiling_percent) == ("info", None)
    flat = chrome(tmp_path / "b.json", [Kernel(f"kernel_{letter}", 100) for letter in "abcdefghijklmnopqrstuvwxyz"])
    assert "No hot spot" in said(judged(run_of(flat), "K12"))["K12"].title
    even = chrome(tmp_path / "c.json", [Kernel(f"kernel_{letter}", 100) for letter in "abc"])
    assert not judged(run_of(even), "K12").found
    assert "GPU kernels" in abstained(judged(open_path(_empty(tmp_path), cache=False), "K12"))["K12"]


def _empty(folder: Path) -> Path:
    path = folder / "empty.json"
    path.write_text('{"traceEvents": []}')
    return path


def throttled(factors: list[float]) -> list[Kernel]:
    kernels = []
    for number, factor in enumerate(factors):
        kernel = multiplied(12 * (4096 + 512 * number) ** 2 / 4.8e12 * 1e6 / factor, 4096 + 512 * number)
        kernel.name = f"void at::native::vectorized_elementwise_kernel<{number}, at::native::MulFunctor<float>>(int)"
        kernels.append(kernel)
    return kernels


def test_k13_all_slow_alike(tmp_path: Path) -> None:
    alike = chrome(tmp_path / "a.json", throttled([0.3, 0.31, 0.29, 0.3, 0.3, 0.32]))
    found = said(judged(run_of(alike), "K13"))["K13"]
    assert found.title == "6 kernels all attain about 30.0 % of their roofs"
    assert "clock" in found.advice
    for factors in ([0.3, 0.9, 0.2, 0.6, 0.5, 0.1], [0.8, 0.81, 0.79, 0.8, 0.8, 0.8], [0.3, 0.3, 0.3]):
        assert not judged(run_of(chrome(tmp_path / "b.json", throttled(factors))), "K13").found
    assert "K13" in abstained(judged(run_of(chrome(tmp_path / "c.json", [Kernel(MUL, 9)])), "K13"))


def test_k18_the_other_run_is_faster_in_everything(tmp_path: Path) -> None:
    a = run_of(chrome(tmp_path / "a.json", throttled([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])))
    b = run_of(chrome(tmp_path / "b.json", throttled([0.45, 0.4, 0.35, 0.3, 0.25, 0.2])))
    c = run_of(chrome(tmp_path / "c.json", throttled([0.9, 0.4, 0.7, 0.2, 0.5, 0.1])))
    rules = {"K18": all_rules()["K18"]}
    found = said(find(Pair(Facts(a), Facts(b)), rules=rules))["K18"]
    assert found.title == "6 kernels all take 2.00 times as long in B: longer alike"
    assert not find(Pair(Facts(a), Facts(a)), rules=rules).found
    assert not find(Pair(Facts(a), Facts(c)), rules=rules).found
    empty = open_path(_empty(tmp_path), cache=False)
    assert find(Pair(Facts(a), Facts(empty)), rules=rules).abstained


# --- G1, G5


def test_g1_near_the_limit(tmp_path: Path) -> None:
    size = 140 << 30
    for part, severity in ((0.92, "warning"), (0.98, "critical")):
        path = chrome(tmp_path / "a.json", [Kernel(MUL, 50)], memory=(size // 2, int(size * part)))
        found = said(judged(run_of(path), "G1"))["G1"]
        assert (found.severity, found.title) == (severity, f"Memory peaks at {100 * part:.1f} % of the GPU's memory")
    path = chrome(tmp_path / "e.json", [Kernel(MUL, 50)], memory=(size // 2, 2 * size))
    assert not judged(run_of(path), "G1").found
    told = said(judged(run_of(path), "V15"))["V15"]
    assert told.title == "The GPU has 140.0 GiB as recorded, and 280.0 GiB of it were in use"
    path = chrome(tmp_path / "b.json", [Kernel(MUL, 50)], memory=(size // 2, int(size * 0.8)))
    assert not judged(run_of(path), "G1").found
    assert "profile_memory" in abstained(judged(run_of(chrome(tmp_path / "c.json", [Kernel(MUL, 5)])), "G1"))["G1"]
    nameless = chrome(tmp_path / "d.json", [Kernel(MUL, 5)], memory=(9, 9), device=H200 | {"totalGlobalMem": None})
    assert "memory size" in abstained(judged(run_of(nameless), "G1"))["G1"]


def test_g5_only_where_the_gpu_has_time_too(tmp_path: Path) -> None:
    idle = chrome(tmp_path / "a.json", [Kernel(MUL, 5)] * 4, memory=(1 << 30, 2 << 30), gap_us=200)
    found = said(judged(run_of(idle), "G5"))["G5"]
    assert found.title == "Try a larger batch: memory peaks at 1.43 % of the GPU's memory"
    busy = chrome(tmp_path / "b.json", [Kernel(MUL, 500)], memory=(1 << 30, 2 << 30))
    assert not judged(run_of(busy), "G5").found
    full = chrome(tmp_path / "c.json", [Kernel(MUL, 5)] * 4, memory=(90 << 30, 90 << 30), gap_us=200)
    assert not judged(run_of(full), "G5").found
    assert "G5" in abstained(judged(run_of(chrome(tmp_path / "d.json", [Kernel(MUL, 5)])), "G5"))


# --- every recording


def rows_of(facts: Facts) -> dict[str, set[str]]:
    measured = facts.counters
    return {
        "kernels": set(facts.kernels["name"]),
        "counters": set() if measured is None else set(measured.kernels["name"]),
        "counters:roofline": set(facts.roofline.points["name"]),
        "memory": {""},
        "overview": {""},
    }


def test_evidence_leads_to_rows(recording: Callable[[str], Trace], tmp_path: Path) -> None:
    scan = Kernel(SCAN, 900, grid=(120, 384, 1), block=32, operator="MambaInnerFn", shapes=SEED_SHAPES,
                  types=["float"] * 6 + ["", "float"])  # fmt: skip
    metrics = cached(20, 13, **{"dram__bytes_read.sum": 9e9, "dram__bytes_write.sum": 0.0})
    made = chrome(tmp_path / "a.json", [scan, multiplied(400)], memory=(1, 140 << 30))
    runs = [
        Run(Path("x"), (recording(VIM), recording("ncu/vim_full_raw.csv.gz"))),
        Run(Path("x"), (recording("chrome/deit_small_train_bf16_bs32.pt.trace.json.gz"),)),
        Run(Path("x"), (recording("chrome/cudagraph_replay.trace.json.gz"),)),
        run_of(made, ncu(tmp_path / "a.csv", [(scan, metrics)])),
    ]
    seen = set()
    for run in runs:
        facts = Facts(run)
        found = find(facts, rules={id: rule for id, rule in all_rules().items() if id in OURS})
        tables = rows_of(facts)
        for one in (*found.found, *(each.finding for each in found.suppressed)):
            seen.add(one.id)
            for query in (item.query for item in one.evidence if item.query):
                assert not query.row or query.row in tables[query.tab], (one.id, query)
    assert seen >= {"K1", "K2", "K4", "K5", "K6", "K12", "K14", "G1", "G5"}


def test_a_gpu_bound_run_hears_of_its_batch_norm(recording: Callable[[str], Trace]) -> None:
    found = said(judged(recording("chrome/kineto_samples/resnet50_num_workers_4.pt.trace.json.gz")))
    assert set(found) <= {"K4"}


@pytest.mark.parametrize(
    "name",
    ["chrome/deit_small_train_bf16_bs32.pt.trace.json.gz", "chrome/vim_tiny_fp16_bs4.pt.trace.json.gz",
     "nsys/vim_tiny_fp32_bs4.sqlite.gz", "ops/ops.trace.json.gz", "ops/ops.sqlite.gz", "jax/h200.trace.json.gz",
     "chrome/forms/amd_mi250_rocm.json.gz", "chrome/kineto_samples/resnet50_num_workers_0.pt.trace.json.gz",
     "chrome/hta_trace_diff/control.json.gz"],
)  # fmt: skip
def test_no_advice_on_kernels_where_they_are_not_the_limit(recording: Callable[[str], Trace], name: str) -> None:
    assert not set(said(judged(recording(name)))) & {"K1", "K2", "K3", "K4", "K5", "K6", "K13", "G1"}


def test_kernels_that_are_not_the_limit_gain_little(recording: Callable[[str], Trace]) -> None:
    """The profiler's stacks hold this host up: by what they may have cost, its grids gain a little or nothing."""
    found = said(judged(recording("chrome/gpt_small_ctx256.trace.json.gz")))
    assert set(found) & {"K1", "K2", "K3", "K4", "K5", "K6", "K13", "G1"} == {"K4"}
    assert found["K4"].severity == "info"
    assert found["K4"].ceiling_percent == pytest.approx(4.3, abs=0.2)
    assert "by what recording cost the host" in found["K4"].formula


def test_the_command_for_a_kernel() -> None:
    assert "'regex:^selective_scan_fwd_kernel$'" in ncu_command(SCAN)
    assert "PROGRAM" in ncu_command("(weird")
