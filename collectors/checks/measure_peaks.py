"""Measures what the first CUDA device reaches in matrix products and memory copies. Prints one line of JSON.

A separate program that only needs torch: `tracetui doctor --measure-peaks` runs it with the Python of workloads.
Each measurement is the best of several, so that a clock that is still rising does no harm; all take a few seconds.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

MARK = "tracetui-peaks:"
SECONDS_EACH = 1.0
"""How long each precision is measured."""
SIZES = (8192, 4096, 2048, 1024)
"""Sizes of the square matrices to try; the largest is used whose three matrices fit in a quarter of free memory."""
COPY_BYTES = 1 << 30
"""The most bytes copied at a time; less if an eighth of the free memory is less."""


def main() -> int:
    """Measures and prints the rates; returns 1 if there is no device to measure."""
    try:
        found = measure()
    except Exception as error:  # whatever it was, the person is told in one line
        found = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
    print(MARK + json.dumps(found), flush=True)
    return 1 if "error" in found else 0


def measure() -> dict[str, Any]:
    """The rates of the current CUDA device."""
    import torch

    if not torch.cuda.is_available():
        return {"error": "torch sees no CUDA device"}
    if getattr(torch.version, "hip", None):
        return {"error": "this torch is built for ROCm: its precisions are not those of NVIDIA's tensor cores"}
    facts = torch.cuda.get_device_properties(0)
    capability = (facts.major, facts.minor)
    flops, skipped = {}, []
    for name, kind, tf32 in _precisions(torch, capability):
        try:
            torch.backends.cuda.matmul.allow_tf32 = tf32
            flops[name] = _product_rate(torch, kind)
        except RuntimeError as error:
            skipped.append(f"{name}: {str(error).splitlines()[0][:200]}")
        torch.cuda.empty_cache()
    return {
        "device": facts.name,
        "compute_capability": f"{facts.major}.{facts.minor}",
        "sm_count": facts.multi_processor_count,
        "torch": torch.__version__,
        "flops": flops,
        "bandwidth": _copy_rate(torch),
        "skipped": skipped,
    }


def _precisions(torch: Any, capability: tuple[int, int]) -> list[tuple[str, Any, bool]]:
    """Name in peaks.toml, element type, and whether products of fp32 may round to tf32."""
    found = [("fp32", torch.float32, False)]
    if capability >= (8, 0):
        found += [("tf32_tensor", torch.float32, True), ("bf16_tensor", torch.bfloat16, False)]
    found.append(("fp16_tensor" if capability >= (7, 0) else "fp16", torch.float16, False))
    return found


def _product_rate(torch: Any, kind: Any) -> float:
    """FLOP/s of a square product."""
    free, _ = torch.cuda.mem_get_info()
    width = torch.empty((), dtype=kind).element_size()
    side = next((size for size in SIZES if 3 * size * size * width <= free // 4), SIZES[-1])
    a = torch.randn(side, side, device="cuda", dtype=torch.float32).to(kind)
    b = torch.randn(side, side, device="cuda", dtype=torch.float32).to(kind)
    out = torch.empty(side, side, device="cuda", dtype=kind)
    return 2.0 * side**3 / _best_seconds(torch, lambda: torch.mm(a, b, out=out))


def _copy_rate(torch: Any) -> float:
    """Bytes read and written per second."""
    free, _ = torch.cuda.mem_get_info()
    count = min(COPY_BYTES, free // 8) // 4
    source = torch.zeros(count, device="cuda", dtype=torch.float32)
    into = torch.empty_like(source)
    # a kernel that reads and writes, as a model's kernels do: a plain copy may run on a copy engine instead
    return 8.0 * float(count) / _best_seconds(torch, lambda: torch.neg(source, out=into))


def _best_seconds(torch: Any, work: Callable[[], Any]) -> float:
    """The shortest time that `work` took, measured on the device."""
    work()
    torch.cuda.synchronize()
    best = float("inf")
    until = time.monotonic() + SECONDS_EACH
    while time.monotonic() < until:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        best = min(best, float(start.elapsed_time(end)) / 1000)
    return best


if __name__ == "__main__":
    sys.exit(main())
