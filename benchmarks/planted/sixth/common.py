"""What all programs share: variants by environment, devices, and the loop that runs or times a step.

FIX=1   the mended variant (clean programs ignore it)
TIME=1  3 s of warm-up, then ten regions of about 0.3 s, each synchronised at its end only; prints
        `STEP <name> <ms>`: the median over the regions of (region / its steps), and exits
TINY=1  small sizes on the CPU, a few steps, prints `CHECK <name> <value of the last step>`
"""
import os
import statistics
import time

import torch

FIX = os.environ.get("FIX") == "1"
TIME = os.environ.get("TIME") == "1"
TINY = os.environ.get("TINY") == "1"
DEV = "cpu" if TINY else "cuda"


def size(full, tiny):
    return tiny if TINY else full


def seed(n=0):
    torch.manual_seed(n)


def bf16():
    return torch.autocast(DEV, dtype=torch.bfloat16)


def compiled(module, **kw):
    return module if TINY else torch.compile(module, **kw)


def pinned(t):
    return t if TINY else t.pin_memory()


def _sync():
    if DEV == "cuda":
        torch.cuda.synchronize()


def _region(step, n):
    t = time.perf_counter()
    for _ in range(n):
        step()
    _sync()
    return (time.perf_counter() - t) / n


def _run_for(step, seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        step()
    _sync()


def drive(name, step):
    if TINY:
        for _ in range(4):
            out = step()
        print(f"CHECK {name} {float(out.float().mean()):.6f}")
        return
    if TIME:
        step()
        _sync()
        _run_for(step, 3.0)
        n = max(1, round(0.3 / _region(step, 5)))
        print(f"STEP {name} {statistics.median(_region(step, n) for _ in range(10)) * 1e3:.3f}", flush=True)
        return
    start, n = time.perf_counter(), 0
    while n < 100 or time.perf_counter() - start < 30:
        step()
        n += 1
