"""Makes recordings of a program that captures graphs and replays them: as ROCm records it, and as CUDA does."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chrome_file import ChromeFile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Launch(NamedTuple):
    """One launch of a graph: its kernel, and what is around it."""

    kernel: str
    operator: str
    module: str = ""


def layer(number: int, *, flash: bool = False) -> list[Launch]:
    """A layer of a model: its kernels are those of every other layer."""
    attention = "flash_fwd" if flash else "attn_fwd"
    return [
        Launch("gemm", "aten::mm", f"Layer_{number}"),
        Launch(attention, "aten::attention", f"Layer_{number}"),
        Launch("add", "aten::add", f"Layer_{number}"),
    ]


def capture(
    file: ChromeFile, graphs: Sequence[Sequence[Launch]], label: str = "capture_32_FULL", *, at: float = 0,
    named: bool = True, eager: bool = False,
) -> float:  # fmt: skip
    """Adds the capture of graphs, each launch in its operator and module; returns when it ends.

    Args:
        file: gets the events.
        graphs: what each launches.
        label: of the range around all.
        at: when it begins.
        named: whether calls say their kernel, as ROCm's do.
        eager: whether each graph's launches run once before, as they do in a warm-up.
    """
    begin, now = at, at + 1
    for graph in graphs:
        for captured in [False, True] if eager else [True]:
            if captured:
                file.event("cuda_runtime", "cudaStreamBeginCapture", (now, now + 1))
            now += 2
            for one in graph:
                if one.module:
                    file.python(f"nn.Module: {one.module}", now, now + 9)
                file.python(f"model.py({10 + len(one.operator)}): forward", now + 0.5, now + 8.5)
                file.operator(one.operator, now + 1, now + 8, [[32, 64]])
                more = {"kernel": one.kernel} if named else {}
                if captured:
                    file.event("cuda_runtime", "cudaLaunchKernel", (now + 2, now + 3), **more)
                else:
                    file.launch(one.kernel, (now + 2, now + 3), (now + 2, now + 5))
                now += 10
            if captured:
                file.event("cuda_runtime", "cudaStreamEndCapture", (now, now + 1))
            now += 2
    file.annotation(label, begin, now)
    return now


def replay(file: ChromeFile, kernels: Sequence[str], at: float) -> float:
    """Adds the launch of a graph with these kernels, 5 µs each; returns when the last one ends."""
    correlation = file.call("cudaGraphLaunch", (at, at + 1))
    for place, name in enumerate(kernels):
        span = at + 2 + 5 * place, at + 7 + 5 * place
        file.event("kernel", name, span, device=0, stream=7, correlation=correlation)
    return at + 2 + 5 * len(kernels)


def names(graph: Sequence[Launch]) -> list[str]:
    """The kernels of a graph."""
    return [one.kernel for one in graph]


def written(folder: Path, execution: ChromeFile, *captures: ChromeFile) -> Path:
    """Writes the recording of the replays, and those of captures in a folder beside it."""
    folder.mkdir(exist_ok=True)
    execution.write(folder / "execution.pt.trace.json")
    if captures:
        (folder / "capture_traces").mkdir()
    for number, one in enumerate(captures):
        one.write(folder / "capture_traces" / f"graph_{number}.pt.trace.json")
    return folder
