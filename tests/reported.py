"""Recordings of every tool and what the report says of them, made once for all tests of a process."""

from functools import cache
from pathlib import Path
from typing import Any

import ncu_file
import snapshot_file
from as_json import diff_report, report
from sweep_maker import write_sweep

from tracetui.analysis.report.sweep import SweepReport, sweep_report
from tracetui.analysis.selection import select
from tracetui.analysis.sweeps.reading import read_sweep
from tracetui.parsers import Run, open_path

ROOT = Path(__file__).resolve().parents[1]
VIM = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"
VIM_FP16 = "chrome/vim_tiny_fp16_bs4.pt.trace.json.gz"
CPU_ONLY = "chrome/forms/cpu_only_rank34.json.gz"
TWO_RANKS = "chrome/ddp_vit_small_2ranks"
CHROME = (
    VIM,
    "chrome/gpt_small_ctx256.trace.json.gz",
    "chrome/cudagraph_replay.trace.json.gz",
    "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz",
    "chrome/forms/amd_mi250_rocm.json.gz",
    CPU_ONLY,
    "chrome/forms/torch213_cpu_mlp_modules.pt.trace.json.gz",
    "chrome/hta_trace_diff/control.json.gz",
    "chrome/hta_trace_diff/test.json.gz",
    "chrome/kineto_samples/resnet50_num_workers_0.pt.trace.json.gz",
    "broken/empty_events.json",
    "broken/only_metadata_events.json",
)
OTHERS = (
    "nsys/gpt_small_ctx256.sqlite.gz",
    "nsys/graph_node.sqlite.gz",
    "nsys/graph_whole.sqlite.gz",
    "nsys/vim_tiny_fp32_bs4.sqlite.gz",
    "ncu/scan_metrics_raw.csv.gz",
    "ncu/vim_basic_stdout_details.csv.gz",
    "ncu/vim_full_raw.csv.gz",
    "memory/gpt_memory_snapshot.pickle.gz",
    "jax/h200.trace.json.gz",
    "ops",
    TWO_RANKS,
)
"""Of other tools than PyTorch's profiler, and folders."""
NO_DURATIONS, NO_MEMORY = "made/no_durations.csv", "made/no_memory.pickle"
MADE = (NO_DURATIONS, NO_MEMORY)
"""What no recording has: a report of Nsight Compute without times, and a request that found no memory."""
RECORDINGS = (*CHROME, *OTHERS, *MADE)
PAIRS = ((VIM, VIM_FP16), (VIM, "nsys/vim_tiny_fp32_bs4.sqlite.gz"), (CPU_ONLY, VIM))
"""Recordings that are compared."""
SAMPLE_SWEEP, MADE_SWEEP = "samples/topk_deit_sweep", "made/sweep"


@cache
def opened(path: Path) -> Run:
    """A run, read once."""
    return open_path(path)


@cache
def reported(path: Path) -> dict[str, Any]:
    """Every section of a run's report, kernels also by category; not to be changed."""
    return report(opened(path), by="category")


@cache
def compared(a: Path, b: Path) -> dict[str, Any]:
    """The report of what changed from one to the other; not to be changed."""
    ours, theirs = opened(a), opened(b)
    return diff_report(select(ours.main), select(theirs.main), runs=(ours, theirs))


@cache
def swept(path: Path) -> SweepReport:
    """The report of a sweep."""
    return sweep_report(read_sweep(path))


def make(name: str, folder: Path) -> Path:
    """Writes one of `MADE` or `MADE_SWEEP` into the folder, and says where."""
    path = folder / Path(name).name
    if name == NO_DURATIONS:
        occupancy = ("Occupancy", "Achieved Occupancy", "%")
        text = ncu_file.long_table([(0, "scale", *occupancy, "50"), (1, "scale", *occupancy, "40")])
        # the second launch is of another size
        path.write_text(text.replace("(96, 2, 1)", "(97, 2, 1)", 1).replace("(128, 1, 1)", "(64, 1, 1)", 1))
    elif name == NO_MEMORY:
        allocator = snapshot_file.Allocator()
        for n, size in enumerate((2048, 512)):
            allocator.alloc(size, snapshot_file.FRAMES[n])
        allocator.oom(1 << 40, 777)
        snapshot_file.write(path, snapshot_file.snapshot(allocator))
    else:
        write_sweep(path, [({"batch": size}, [1000.0 * size], 1e9 * size, 5) for size in (1, 2)])
        (path / "batch=2" / "repeat-1" / "trace.pt.trace.json").unlink()
    return path
