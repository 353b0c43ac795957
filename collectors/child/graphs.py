"""Records the CUDA graphs of somebody else's program while they are captured: replays have neither operators nor lines.

One recording covers one capture: it starts before the capture does and ends after it, as neither is allowed within.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import ranks
from .profilers import CAPTURE_TRACE, about

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

WANTED = "TRACETUI_CAPTURES"
"""The variable that, as 0, leaves it out: CUPTI stays attached, so that clean steps are not as without it."""
MOST_CAPTURES, MOST_BYTES, MOST_S = 64, 64 << 20, 60.0
"""Once that many graphs, bytes or seconds are recorded, further captures are not."""
NODE = "graph kernel "
"""Begins the names of the ranges that say, in order, which kernels a graph has (`parsers.replays`)."""
_KERNEL_NODE = 0
_MOST_NODES = 1 << 16


class Captures:
    """The recordings of a program's captures, from `begin` to `end`."""

    def __init__(self, spec: dict[str, Any], unwatched: Callable[[], AbstractContextManager[None]]) -> None:
        """Records nothing yet.

        Args:
            spec: what the parent asked for.
            unwatched: makes what a profiler starts in.
        """
        self._spec, self._unwatched = spec, unwatched
        self._owner = threading.main_thread()
        self._profiler: Any = None
        self._kept: tuple[Any, Any, Any] | None = None
        self._took = 0.0
        self._bytes = 0
        self.seen = 0
        """Captures that began while looked at."""
        self._problem: str | None = None
        self._unnamed: str | None = None
        self.files: list[str] = []
        """Names of the recordings, in order."""

    def begin(self) -> None:
        """Looks at captures from now on, unless the user leaves it out; torch is imported."""
        import torch

        graph = getattr(torch.cuda, "CUDAGraph", None)
        if graph is None or os.environ.get(WANTED) == "0":
            return
        capture, end = graph.capture_begin, graph.capture_end

        @functools.wraps(capture)
        def capture_begin(*args: Any, **named: Any) -> Any:
            self._guarded(self._start)
            try:
                return capture(*args, **named)
            except BaseException:
                self._guarded(lambda: self._stop(keeps=False))
                raise

        @functools.wraps(end)
        def capture_end(*args: Any, **named: Any) -> Any:
            kernels = self._guarded(self._kernels) or []
            ended = False
            try:
                result = end(*args, **named)
                ended = True
            finally:
                self._guarded(lambda: self._stop(kernels, keeps=ended))
            return result

        graph.capture_begin, graph.capture_end = capture_begin, capture_end
        self._kept = graph, (capture_begin, capture), (capture_end, end)

    def end(self) -> None:
        """Leaves captures as they were, or as the program has changed them since."""
        if self._kept is None:
            return
        graph, *changed = self._kept
        for name, (mine, before) in zip(("capture_begin", "capture_end"), changed):
            if getattr(graph, name) is mine:
                setattr(graph, name, before)
        self._kept = None
        self._guarded(lambda: self._stop(keeps=False))

    def told(self) -> list[str]:
        """What was recorded and what was not, a line each."""
        lines = []
        if self.files:
            lines.append(
                f"the captures of {len(self.files)} CUDA graphs were recorded, which took {self._took:.1f} s; "
                "CUPTI has been attached since then, in the clean steps too"
            )
        if self._unnamed is not None:
            lines.append(f"the driver did not tell the kernels of captured graphs: {self._unnamed}")
        if self._problem is not None:
            lines.append(f"captures of CUDA graphs were not recorded: {self._problem}")
        elif self.seen > len(self.files):
            lines.append(f"{self.seen - len(self.files)} captures of CUDA graphs were not recorded")
        return lines

    def _guarded(self, act: Callable[[], Any]) -> Any:
        """What is done, or None where it fails: the program goes on, and no other capture is looked at."""
        if threading.current_thread() is not self._owner or (self._problem is not None and self._profiler is None):
            return None
        begun = time.monotonic()
        try:
            return act()
        except Exception as error:
            self._problem = in_a_line(error)
            profiler, self._profiler = self._profiler, None
            if profiler is not None:
                with contextlib.suppress(Exception):
                    profiler.stop()
            return None
        finally:
            self._took += time.monotonic() - begun

    def _start(self) -> None:
        import torch
        from torch.profiler import profile

        self.seen += 1
        spent = len(self.files) >= MOST_CAPTURES or self._bytes >= MOST_BYTES or self._took >= MOST_S
        if spent or self._profiler is not None or torch.autograd._profiler_enabled():
            return
        profiler = profile(record_shapes=True, with_stack=self._spec["with_stack"])
        with self._unwatched():
            profiler.start()
        self._profiler = profiler
        profiler.add_metadata_json("tracetui", json.dumps({**about(self._spec), "pass": "capture"}))

    def _stop(self, kernels: list[str] | None = None, *, keeps: bool) -> None:
        import torch

        profiler = self._profiler
        if profiler is None:
            return
        for name in kernels or ():
            with torch.profiler.record_function(NODE + name):
                pass
        self._profiler = None
        profiler.stop()
        if not keeps:
            return
        number = len(self.files) + 1
        first, _, rest = CAPTURE_TRACE.partition(".")
        file = ranks.file_of(self._spec, CAPTURE_TRACE if number == 1 else f"{first}{number}.{rest}")
        path = Path(self._spec["out"]) / file
        profiler.export_chrome_trace(str(path))
        self._bytes += path.stat().st_size
        self.files.append(file)

    def _kernels(self) -> list[str]:
        """The kernels of the graph that is being captured, in the order of their launches."""
        import torch

        if self._profiler is None:
            return []
        try:
            return list(_captured(torch.cuda.current_stream().cuda_stream))
        except Exception as error:  # an older driver has no names; the recording is of use without them
            self._unnamed = in_a_line(error)
            return []


def in_a_line(error: Exception) -> str:
    """What is said of an error of torch, whose text may have many lines."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


class _Launch(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("sizes", ctypes.c_uint * 7),
        ("arguments", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


def _captured(stream: int) -> Iterator[str]:
    """Mangled names of the kernels that a stream has captured so far, by the driver.

    Raises:
        OSError, AttributeError, RuntimeError: there is no driver, or it can't tell.
    """
    cuda = ctypes.CDLL("libcuda.so.1")

    def done(code: int) -> None:
        if code:
            raise RuntimeError(f"the driver answers with error {code}")

    graph, status, number = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_uint64()
    done(
        cuda.cuStreamGetCaptureInfo_v2(
            ctypes.c_void_p(stream), ctypes.byref(status), ctypes.byref(number), ctypes.byref(graph), None, None
        )
    )
    count = ctypes.c_size_t()
    done(cuda.cuGraphGetNodes(graph, None, ctypes.byref(count)))
    if count.value > _MOST_NODES:
        raise RuntimeError(f"a graph has {count.value} nodes")
    nodes = (ctypes.c_void_p * count.value)()
    if not nodes:  # torch.compile begins with an empty graph, of which the driver refuses to list the nodes
        return
    done(cuda.cuGraphGetNodes(graph, nodes, ctypes.byref(count)))
    for node in nodes:
        kind, launch, name = ctypes.c_int(), _Launch(), ctypes.c_char_p()
        done(cuda.cuGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind)))
        if kind.value != _KERNEL_NODE:
            continue
        done(cuda.cuGraphKernelNodeGetParams_v2(ctypes.c_void_p(node), ctypes.byref(launch)))
        if launch.function:
            done(cuda.cuFuncGetName(ctypes.byref(name), ctypes.c_void_p(launch.function)))
        else:
            done(cuda.cuKernelGetName(ctypes.byref(name), ctypes.c_void_p(launch.kernel)))
        yield (name.value or b"").decode()
