"""Runs step() for long, or with --time prints the mean step of 3 s after 3 s of warm-up; --mended mends it by hand."""

import sys
import time

import torch

MENDED = "--mended" in sys.argv
torch.manual_seed(0)


def run(step, most=30000):
    if "--time" not in sys.argv:
        for _i in range(most):
            step()
        return
    end = time.perf_counter() + 3
    n = 0
    while time.perf_counter() < end or n < 10:
        step()
        n += 1
    torch.cuda.synchronize()
    begun, n = time.perf_counter(), 0
    while time.perf_counter() - begun < 3 or n < 5:
        step()
        n += 1
    torch.cuda.synchronize()
    print(
        "STEP",
        sys.argv[0].rpartition("/")[2],
        "mended" if MENDED else "as_it_was",
        round((time.perf_counter() - begun) / n * 1e3, 4),
        "ms",
        flush=True,
    )
