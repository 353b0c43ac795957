"""Opens named ranges around parts of a step, for whichever tool is recording."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any


class Ranges:
    """Opens ranges that torch.profiler and, on CUDA, Nsight Systems and Nsight Compute see.

    ``with ranges("forward_pass"):`` emits ``torch.profiler.record_function`` always and an NVTX range on CUDA.
    """

    def __init__(self, *, nvtx: bool, inside: bool = True) -> None:
        """Makes the ranges of one workload.

        Args:
            nvtx: emit NVTX ranges too; needs CUDA.
            inside: emit ranges inside the model too; ``torch.compile`` would split its graph at each.
        """
        self.nvtx = nvtx
        self.inside = inside
        self.seen: list[str] = []
        """Names used so far, in order of their first use."""

    def __call__(self, name: str) -> _Range:
        """Returns a range for a ``with`` statement."""
        if name not in self.seen:
            self.seen.append(name)
        return _Range(name, self.nvtx)

    def within(self, name: str) -> Any:
        """Returns a range inside the model, or an empty one if `inside` is false."""
        return self(name) if self.inside else nullcontext()


class _Range:
    def __init__(self, name: str, nvtx: bool) -> None:
        self.name = name
        self.nvtx = nvtx

    def __enter__(self) -> None:
        from torch.profiler import record_function

        self.record = record_function(self.name)
        self.record.__enter__()
        if self.nvtx:
            from torch.cuda import nvtx

            nvtx.range_push(self.name)

    def __exit__(self, *raised: object) -> None:
        if self.nvtx:
            from torch.cuda import nvtx

            nvtx.range_pop()
        self.record.__exit__(*raised)


SILENT = Ranges(nvtx=False, inside=False)
"""For a network that is used outside a workload: emits no ranges inside it."""
