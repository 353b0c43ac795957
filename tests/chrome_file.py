"""Builds small traces as torch.profiler writes them. Times are in µs.

file = ChromeFile()
file.step(0, 0, 100)
file.launch("gemm", call=(10, 12), kernel=(20, 60))
path = file.write(tmp_path / "a.pt.trace.json")
"""

import json
from pathlib import Path
from typing import Any

Span = tuple[float, float]


class ChromeFile:
    """Events, written at the end."""

    def __init__(self, **top: Any) -> None:
        self.top = top
        self.events: list[dict[str, Any]] = []
        self._correlation = 0

    def gpu(self, name: str, capability: str, sms: int) -> None:
        """Describes GPU 0."""
        major, minor = (int(part) for part in capability.split("."))
        self.top["deviceProperties"] = [
            {"id": 0, "name": name, "computeMajor": major, "computeMinor": minor, "numSms": sms, "warpSize": 32}
        ]

    def event(self, category: str, name: str, span: Span, pid: int = 1, tid: int = 1, **arguments: Any) -> None:
        row = {"ph": "X", "cat": category, "name": name, "ts": span[0], "dur": round(span[1] - span[0], 3)}
        self.events.append(row | {"pid": pid, "tid": tid, "args": arguments})

    def step(self, number: int, start: float, end: float) -> None:
        self.annotation(f"ProfilerStep#{number}", start, end)

    def annotation(self, name: str, start: float, end: float) -> None:
        self.event("user_annotation", name, (start, end))

    def python(self, name: str, start: float, end: float) -> None:
        self.event("python_function", name, (start, end))

    def operator(self, name, start, end, shapes=(), types=()) -> None:
        arguments = {"Input Dims": shapes, "Input type": types or ["float"] * len(shapes)} if shapes else {}
        self.event("cpu_op", name, (start, end), **arguments)

    def call(self, name: str, span: Span) -> int:
        """An API call; returns its correlation id."""
        self._correlation += 1
        self.event("cuda_runtime", name, span, correlation=self._correlation)
        return self._correlation

    def launch(self, name, call, kernel, *, api="cudaLaunchKernel", stream=7, **more) -> None:
        """A call and the kernel that it launches."""
        number = self.call(api, call)
        place = {"correlation": number, "stream": stream, "device": 0}
        shape = {"grid": [1, 1, 1], "block": [32, 1, 1]}
        self.event("kernel", name, kernel, pid=0, tid=stream, **(place | shape | more))

    def copy(self, name: str, call: Span, copy: Span, size: int, *, stream: int = 7) -> None:
        """A call and the copy that it makes: ``Memcpy HtoD (Pinned -> Device)``."""
        number = self.call("cudaMemcpyAsync", call)
        place = {"correlation": number, "stream": stream, "device": 0, "bytes": size}
        self.event("gpu_memcpy", name, copy, pid=0, tid=stream, **place)

    def write(self, path: Path) -> Path:
        path.write_text(json.dumps({"schemaVersion": 1, **self.top, "traceEvents": self.events}))
        return path
