"""A step that is captured as a CUDA graph once and replayed, and the types that numbers can have in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .data import mapped, tensors
from .errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable

CASTS = {"fp16": torch.float16, "bf16": torch.bfloat16}
BEFORE_CAPTURE = 3
"""Steps on another stream before the capture, as PyTorch asks for: libraries and allocator settle in them."""


class Graph:
    """Runs a step by replaying a CUDA graph of it, on a copy of the batch that stays where the graph expects it."""

    def __init__(self, step: Callable[[Any], Any], reset: Callable[[], None]) -> None:
        """Captures nothing yet.

        Args:
            step: runs the work of a step on a batch that is on the device, and returns its output or loss.
            reset: called before the capture: drops gradients, so that the graph makes its own.
        """
        self._step = step
        self._reset = reset
        self._graph: Any = None
        self._batch: Any = None
        self._given: Any = None
        self.result: Any = None
        """The output or loss of the last step; the next step writes over it."""

    def __call__(self, batch: Any) -> Any:
        """Runs one step; the first call captures it.

        Raises:
            ModelError: the step does what no graph can hold, such as a wait for the GPU.
        """
        if self._graph is None:
            self._capture(batch)
        elif batch is not self._given:
            for mine, given in zip(tensors(self._batch), tensors(batch)):
                mine.copy_(given, non_blocking=True)
        self._given = batch
        self._graph.replay()
        return self.result

    def forget(self) -> None:
        """Drops the graph: the next call captures one anew."""
        self._graph = None

    def _capture(self, batch: Any) -> None:
        self._batch = mapped(batch, lambda tensor: tensor.clone())
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(aside):
                for _ in range(BEFORE_CAPTURE):
                    self._step(self._batch)
            torch.cuda.current_stream().wait_stream(aside)
            self._reset()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # a loader's thread pins memory meanwhile
                self.result = self._step(self._batch)
        except (RuntimeError, TypeError) as error:
            if isinstance(error, torch.cuda.OutOfMemoryError):
                raise
            why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise ModelError(f"the step can't be captured as a CUDA graph: {why}") from error
        self._graph = graph
