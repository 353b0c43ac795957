"""Times variants of a workload in turns, without any profiler: A B, B A, A B, …, each turn a block of steps.

All variants are in one process where the parent asks for that, so that heat, clocks and neighbours meet all of them;
of one variant alone the parent starts processes in turns.
"""

from __future__ import annotations

import gc
import importlib
import time
from collections.abc import Callable
from typing import Any

from . import machine_torch
from .marks import Marks, synchronize, uses_gpu
from .outside import FIRST_STEPS, first_numbers
from .profilers import endless

MOST_STEPS = 200
"""Steps of a block at most, however short they are."""
LEAD_IN = 1
"""Steps at the start of a block that are not timed: the GPU was idle, and the other variant has filled its caches."""
PREFETCHED = 2
"""Batches that each worker of a DataLoader makes in advance, unless it is told otherwise."""
TRIAL_STEPS = 3
"""Steps after the warm-up by which the length of a block is chosen."""
MOST_WARMUP_S = 60.0
STEPS_OF_CAPTURE = 3
"""As `models.graphs.BEFORE_CAPTURE`."""


def run(spec: dict[str, Any], progress: Any, result: dict[str, Any]) -> None:
    """Does what the spec asks (`collectors.proving.child_spec`); `result` gets what is known so far.

    ``variants`` of the result has, for each variant in order, ``step_ns`` and ``host_ns`` (a list for each round, an
    entry for each step), ``samples`` of a step, ``checked`` (numbers to compare) and ``error``.
    """
    registry = importlib.import_module(spec["registry"])
    told = result["variants"] = [{} for _ in spec["variants"]]
    defaults = _settings()
    ready = []
    for number, (options, kept) in enumerate(zip(spec["variants"], told)):
        name = "AB"[number] if len(told) > 1 else "variant"
        result["at"] = number
        progress.say(f"building {name}")
        _restore(defaults)
        variant = _Variant(spec, registry.find(spec["entry"]).build(options), defaults, kept, first=number == 0)
        if spec["check"]:
            variant.check(_steps_before(spec["variants"], options))
        progress.say(f"warming up {name}")
        variant.warm_up()
        ready.append(variant)
    result.update(software=machine_torch.software(), devices=machine_torch.devices())
    result["at"] = None
    gc.collect()
    gc.freeze()  # otherwise the collector would look through what the other variant has built, in the steps of both
    lead_in = max(variant.lead_in() for variant in ready)
    steps = [max(variant.steps_of_block(), lead_in) for variant in ready]
    for number in range(spec["rounds"]):
        order = list(zip(ready, steps))
        for variant, count in order if number % 2 == 0 else reversed(order):
            variant.block(count, lead_in)
        progress.say("measuring", number + 1, spec["rounds"])


class _Variant:
    """One workload, and what was measured of it."""

    def __init__(
        self, spec: dict[str, Any], workload: Any, defaults: Any, told: dict[str, Any], *, first: bool
    ) -> None:
        self._first = first
        self._spec, self._workload, self._defaults, self._told = spec, workload, defaults, told
        self._batches = endless(workload.batches)
        told.update(step_ns=[], host_ns=[], samples=None, checked=None, notes=list(getattr(workload, "notes", [])))

    def _step(self) -> None:
        self._workload.step(next(self._batches))

    def enter(self) -> None:
        """Makes the process's settings those of this variant."""
        _restore(self._defaults)
        apply: Callable[[], None] | None = getattr(self._workload, "apply_settings", None)
        if apply is not None:
            apply()

    def check(self, before: int) -> None:
        """Keeps the numbers of the first output, or the first losses of training, for the comparison.

        Args:
            before: steps of training that are not compared, as the other variant makes so many of its own.
        """
        import torch

        if not hasattr(self._workload, "keeps_result"):
            return  # a workload of the user's own
        self.enter()
        torch.manual_seed(self._workload.options["seed"])
        for _ in range(before if self._workload.train else 0):
            self._step()
        self._workload.keeps_result = True
        kept = []
        for _ in range(FIRST_STEPS if self._workload.train else 1):
            self._step()
            result = self._workload.result
            kept.append(first_numbers(getattr(result, "logits", result), self._spec["check"]))
        self._workload.keeps_result, self._workload.result = False, None
        if all(kept):
            what = "losses" if self._workload.train else "outputs"
            self._told["checked"] = {"what": what, "numbers": [number for numbers in kept for number in numbers]}

    def warm_up(self) -> None:
        """Runs steps until everything is compiled, and of the first variant until the clocks have risen."""
        self.enter()
        begun = time.monotonic()
        least = self._spec["warmup_s"] if self._first and uses_gpu(self._spec["device"]) else 0.0
        done = 0
        while done < self._spec["warmup"] or time.monotonic() - begun < least:
            self._step()
            synchronize(self._spec["device"])
            done += 1
            if time.monotonic() - begun > MOST_WARMUP_S:
                break

    def steps_of_block(self) -> int:
        """How many steps make a block of the wanted length."""
        self.enter()
        synchronize(self._spec["device"])
        begun = time.perf_counter()
        for _ in range(TRIAL_STEPS):
            self._step()
        synchronize(self._spec["device"])
        each = (time.perf_counter() - begun) / TRIAL_STEPS
        wanted: int = round(self._spec["block_s"] / max(each, 1e-9))
        return max(1, min(MOST_STEPS, wanted))

    def lead_in(self) -> int:
        """How many steps of a block are not timed: as many as the loader's workers have made ready in the meantime."""
        workers = getattr(self._workload, "options", {}).get("workers") or 0
        return LEAD_IN + PREFETCHED * int(workers)

    def block(self, steps: int, lead_in: int) -> None:
        """Times one block of steps, from the end of the step before it to the end of its last one."""
        self.enter()
        synchronize(self._spec["device"])
        for _ in range(lead_in):
            self._step()
        marks = Marks(self._spec["device"])
        marks.add()
        for _ in range(steps):
            self._step()
            marks.add()
        synchronize(self._spec["device"])
        self._told["step_ns"].append(marks.step_ns())
        self._told["host_ns"].append(marks.host_ns())
        self._told["samples"] = getattr(self._workload, "samples_per_step", None)


def _steps_before(variants: list[dict[str, Any]], options: dict[str, Any]) -> int:
    """Steps that a variant must make to be where one is that has made some to capture a CUDA graph."""
    return 0 if options.get("cuda_graphs") or not any(one.get("cuda_graphs") for one in variants) else STEPS_OF_CAPTURE


def _settings() -> tuple[Any, ...]:
    """The process's settings that a workload may change."""
    import torch

    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


def _restore(settings: tuple[Any, ...]) -> None:
    import torch

    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = settings


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the GPU's memory was too small."""
    return type(error).__name__ == "OutOfMemoryError" or "out of memory" in str(error).lower()
