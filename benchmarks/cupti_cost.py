"""What torch.profiler costs a step on this GPU, and what is left of it afterwards, because CUPTI stays attached.

Each row is a process of its own, with and without ``TEARDOWN_CUPTI``: ms per step without a profiler, in a light
recording, without a profiler again, in a rich one, and without a profiler at the end. Needs torch and a CUDA GPU.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS = 30
LAYERS = 100
COLUMNS = ("program", "teardown", "clean", "light", "after it", "rich", "at the end")


def main() -> int:
    """Measures every combination, or with ``--one WIDTH`` one of them in this process."""
    if sys.argv[1:2] == ["--one"]:
        print(" ".join(f"{value:.3f}" for value in measure(int(sys.argv[2]))))
        return 0
    print(" | ".join(COLUMNS))
    for name, width in (("host-bound", 64), ("GPU-bound", 8192)):
        for teardown in ("0", "1"):
            command = [sys.executable, __file__, "--one", str(width)]
            done = subprocess.run(
                command, env={**os.environ, "TEARDOWN_CUPTI": teardown}, capture_output=True, text=True, check=False
            )
            values = done.stdout.split() or [f"failed: {done.stderr.strip().splitlines()[-1:]}"]
            print(" | ".join((name, teardown, *values)), flush=True)
    return 0


def measure(width: int) -> list[float]:
    """The median step of each phase, ms."""
    import torch
    from torch.profiler import ProfilerActivity

    net = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(LAYERS if width < 1024 else 8))).cuda()
    batch = torch.randn(width, width, device="cuda")

    def step() -> None:
        with torch.no_grad():
            net(batch)

    for _ in range(STEPS):
        step()
    both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    found = [_timed(torch, step)]
    found.append(_profiled(torch, step, activities=[ProfilerActivity.CUDA]))
    found.append(_timed(torch, step))
    found.append(_profiled(torch, step, activities=both, record_shapes=True, with_stack=True))
    return [*found, _timed(torch, step)]


def _timed(torch: Any, step: Callable[[], None]) -> float:
    torch.cuda.synchronize()
    marks = []
    for number in range(STEPS + 1):
        if number:
            step()
        marks.append(torch.cuda.Event(enable_timing=True))
        marks[-1].record()
    torch.cuda.synchronize()
    return statistics.median(before.elapsed_time(after) for before, after in pairwise(marks))


def _profiled(torch: Any, step: Callable[[], None], **options: Any) -> float:
    with torch.profiler.profile(**options) as profiler:
        step()
        found = _timed(torch, step)
    with tempfile.TemporaryDirectory() as folder:
        profiler.export_chrome_trace(str(Path(folder) / "trace.json"))
    return found


if __name__ == "__main__":
    sys.exit(main())
