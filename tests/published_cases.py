"""Five published profiling reports, rebuilt as small recordings from the numbers that they print.

Each function writes the files of one report below a folder. What a report prints is taken from it: counts, times,
names. What it does not print, and a recording needs, is filled in and said to be so. The recordings were never made on
those machines; nothing else is to be concluded from them.
"""

import json
from pathlib import Path

from chrome_file import ChromeFile
from ncu_file import SOL, long_table
from nsys_file import NsysFile

from tracetui.parsers.runs.manifest import SCHEMA

MS = 1_000_000

# vim_tiny on a Jetson Orin Nano, torch.profiler, three steps "of batch 4"
ORIN_STEP_US = 1_233_983
ORIN_KERNELS = {
    "selective_scan_fwd_kernel": (144, 2_202_707),
    "ampere_sgemm_128x64_tn": (72, 403_751),
    "ampere_sgemm_64x64_tt": (72, 200_370),
    "index_elementwise_kernel": (144, 197_670),
    "causal_conv1d_fwd_kernel": (144, 188_998),
    "ampere_sgemm_32x128_tt": (144, 148_519),
    "ampere_sgemm_128x32_tn": (144, 100_120),
    "vectorized_elementwise_kernel (add)": (72, 81_327),
    "_layer_norm_fwd_1pass_kernel": (75, 56_826),
    "vectorized_elementwise_kernel (mul)": (78, 54_207),
}
"""Calls and total µs in three steps."""
ORIN_COPY_US = 2_544
"""Of copies, per step."""
ORIN_ITEM_US = 2
"""Of these, the copy of the loss (filled in)."""
ORIN_BATCH = 120
"""What the loader of that program makes of batch 4: ``int(1.5 * batch * 20)``; its counters confirm it to the unit."""
ACTIVATIONS = (ORIN_BATCH, 384, 197)


def vim_on_orin_nano(folder: Path, mode: str | None = None) -> Path:
    """The Chrome trace and a run.json that asks for batch 4; filled in: shapes, launches, the copied bytes.

    Args:
        folder: where the files go.
        mode: a power mode to be claimed, ``15W`` or ``25W``; the report names none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = ChromeFile()
    file.gpu("Orin", "8.7", 8)
    shapes = {
        "vectorized_elementwise_kernel (add)": ("aten::add", [ACTIVATIONS, ACTIVATIONS, ()]),
        "vectorized_elementwise_kernel (mul)": ("aten::mul", [ACTIVATIONS, ()]),
    }
    for number in range(3):
        begin = number * float(ORIN_STEP_US)
        file.step(number, begin, begin + ORIN_STEP_US)
        device = begin + 10 + ORIN_COPY_US - ORIN_ITEM_US
        size = ORIN_BATCH * 3 * 224 * 224 * 4
        file.copy("Memcpy HtoD (Pinned -> Device)", (begin + 1, begin + 6), (begin + 10, device), size)
        host = begin + 20
        file.operator("aten::conv2d", host, host + 4, [(ORIN_BATCH, 3, 224, 224), (192, 3, 16, 16), (192,)])
        for name, (calls, total) in ORIN_KERNELS.items():
            operator, dims = shapes.get(name, ("aten::linear" if "gemm" in name else "MambaInnerFn", []))
            for _ in range(calls // 3):
                host += 10
                file.operator(operator, host, host + 8, dims, ["float", "float", "Scalar"][: len(dims)])
                file.launch(name, (host + 1, host + 6), (device, device + total / calls))
                device += total / calls
        # "a large block of aten::local_scalar_dense after each forward pass": loss.item() waits for all of it
        copied = device + ORIN_ITEM_US
        file.operator("aten::item", host + 20, copied + 12)
        file.operator("aten::_local_scalar_dense", host + 21, copied + 11)
        file.copy("Memcpy DtoH (Device -> Pageable)", (host + 22, host + 30), (device, copied), 4)
        file.call("cudaStreamSynchronize", (host + 31, copied + 10))
    file.write(folder / "vim_tiny.pt.trace.json")
    emc = {"15W": 2133, "25W": 3199}.get(mode or "")
    clock = {"15W": 612, "25W": 918}.get(mode or "")
    before = {"mode_name": mode, "gpus": [{"index": 0, "max_clock_hz": clock and clock * MS}],
              "emc": {"cap_hz": emc and emc * MS}}  # fmt: skip
    device_row = {"index": 0, "name": "Orin", "compute_capability": "8.7", "sm_count": 8, "module_id": "p3767-0005"}
    said = {
        "schema": SCHEMA, "status": "finished", "device": [device_row], "power": {"before": before} if mode else {},
        "workload": {"model": "vim_tiny", "requested_batch": 4, "dtype": "fp32"},
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(said))
    return folder


# token reduction on DeiT, RTX 2080 Ti: 6,856 kernels in 154.34 ms by Nsight Systems, three copies by Nsight Compute
TOKEN_KERNELS, TOKEN_GPU_NS = 6_856, 154_340_000
WARMUPS = 20
"""About so many forward passes are in the capture beside the one that it was compared with."""
HALF_COPY = "void at::native::vectorized_elementwise_kernel<4, at::native::float16_copy_kernel_cuda>(int)"
COPY_METRICS = {"Compute (SM) Throughput": "3.20", "Memory Throughput": "28.85"}


def token_reduction(folder: Path) -> Path:
    """The capture by Nsight Systems with names that nobody resolved, and Nsight Compute's three launches.

    Filled in: that each of the 21 forward passes begins with a copy to half precision, and which kernel takes how long.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = NsysFile()
    mean = TOKEN_GPU_NS // TOKEN_KERNELS
    rest = TOKEN_GPU_NS - mean * TOKEN_KERNELS
    passes = WARMUPS + 1
    at = 0
    for number in range(passes):
        begin = at
        kernels = TOKEN_KERNELS // passes + (number < TOKEN_KERNELS % passes)
        for n in range(kernels):
            spent = mean + (rest if not number and not n else 0)
            more = {} if n == 0 else {"demangledName": 1_000_000 + n % 40, "shortName": 1_000_000 + n % 40}
            file.launch(HALF_COPY, (at, at + 5_000), (at + 6_000, at + 6_000 + spent), **more)
            at += 30_000
        if number == WARMUPS:
            file.push_pop("step", begin, at)
        at += MS
    file.write(folder / "with_tr_bs1_is224.sqlite")
    rows = [(n, HALF_COPY, SOL, name, "%", value) for n in range(3) for name, value in COPY_METRICS.items()]
    (folder / "ncu.csv").write_text(long_table(rows))
    return folder


def token_reduction_capture(folder: Path) -> Path:
    """What ``--capture-range=cudaProfilerApi`` left of a script that never calls cudaProfilerStart."""
    folder.mkdir(parents=True, exist_ok=True)
    file = NsysFile()
    file.capture_setting("START_TRIGGER", "CudaProfilerApi")
    file.capture_setting("CAPTURE_EVENT_TYPE", "NvtxEvents, Cuda")
    file.row("TARGET_INFO_SYSTEM_ENV", name="OsDescription", value="Ubuntu 20.04")
    return file.write(folder / "baseline_bs1_is224.sqlite")


# GPT-like models by context length: forward pass and training step of "xl" at 1024, softmax of "small" at 128
FORWARD_MS, TRAIN_STEP_MS, OPTIMIZER_MS = 443.26, 269.25, 0.84
NVTX_SOFTMAX_MS, KERNEL_SOFTMAX_MS = 21.73, 3.51
FORWARDS = 6
"""An earlier version of that report summed 6 to 7 runs."""


def context_lengths(folder: Path) -> Path:
    """The capture whose training step ran out of memory, with the texts of its ranges partly lost.

    Filled in: how many forward passes there were before, kernels of half their time, and that the softmax range of the
    small model stands in the same file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file, at = NsysFile(), 0

    def forward(length: int) -> None:
        file.push_pop("forward_pass", at, at + length)
        softmax = int(NVTX_SOFTMAX_MS * MS)
        file.push_pop("softmax", at + MS, at + MS + softmax)
        kernel = at + 2 * MS
        file.launch(
            "softmax_warp_forward", (at + MS + 10, at + MS + 20), (kernel, kernel + int(KERNEL_SOFTMAX_MS * MS))
        )
        late = at + 2 * MS + softmax
        file.launch("cutlass_80_tensorop_s1688gemm_256x128", (late, late + 10), (late + MS, at + length - MS))
        file.nvtx(59, None, late + 20, late + 30, textId=900_000)

    for _ in range(FORWARDS):
        forward(int(FORWARD_MS * MS))
        at += int(FORWARD_MS * MS) + MS
    step = int(TRAIN_STEP_MS * MS)
    file.push_pop("train_step", at, at + step)
    forward(step - int(OPTIMIZER_MS * MS) - 10)
    file.push_pop("optimizer_step", at + step - int(OPTIMIZER_MS * MS), at + step)
    return file.write(folder / "xl_ctx1024.sqlite")
