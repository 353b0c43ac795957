"""Changes of a run's options that do what a finding advises: its command follows from them, and they can be proved.

A rule declares its changes once (`rule(changes=…)`). The engine gives a finding those that fit its run: its model takes
the option, and ran with another value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from tracetui.analysis.base import names
from tracetui.analysis.dependencies.model import faster_work
from tracetui.analysis.findings.core import hints
from tracetui.parsers.names import kernel_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracetui.analysis.dependencies.costs import Costs
    from tracetui.analysis.findings.core.facts import Facts

EVERYWHERE = frozenset({"dtype", "train", "optimizer", "compile", "cuda_graphs", "workers", "batch"})
"""Options that every model takes; a run.json of an earlier version lacks the newer ones."""
MORE_SAMPLES = 4
"""How many times the batch a larger one is."""
WORKERS = 4


def _always(facts: Facts) -> bool:
    del facts
    return True


@dataclass(frozen=True)
class Change:
    """One option that does what a rule advises."""

    option: str
    value: Any
    """What it is set to; a function of the facts for one that depends on the run, None where it can't be."""
    words: str
    """As the list of rules says it."""
    when: Callable[[Facts], bool] = _always
    also: str = ""
    """What it does besides what a finding's bound counts; empty for nothing."""
    most: Callable[[Facts], float | None] | None = None
    """The most that all of it can gain, ns of a step; None where no recording of the run tells."""
    agrees: bool = True
    """Whether it leaves the arithmetic as it is, but for its order."""

    def of(self, facts: Facts) -> Given | None:
        """The change of a run; None where it does not fit."""
        manifest = facts.manifest
        if manifest is None or not hints.rerun(facts):
            return None
        options = manifest.workload.options
        if (self.option not in options and self.option not in EVERYWHERE) or options.get("parallel"):
            return None
        value = self.value(facts) if callable(self.value) else self.value
        if value is None or options.get(self.option) == value or not self.when(facts):
            return None
        return Given(self, value)


class Given(Struct, frozen=True):
    """A change as it applies to one run."""

    change: Change
    value: Any

    @property
    def option(self) -> str:
        """The name of the option."""
        return self.change.option

    @property
    def words(self) -> tuple[str, ...]:
        """As options of `tracetui profile`."""
        flag = f"--{self.option.replace('_', '-')}"
        return (flag,) if self.value is True else (flag, str(self.value))

    @property
    def text(self) -> str:
        """The same in one piece."""
        return " ".join(self.words)

    def most_ns(self, facts: Facts) -> float | None:
        """The most that all of the change can gain; None where it is not known, or no more than its finding says."""
        return None if self.change.most is None else self.change.most(facts)


def fitting(changes: tuple[Change, ...], facts: Facts) -> tuple[Given, ...]:
    """The changes that fit a run, in their order."""
    return tuple(given for change in changes if (given := change.of(facts)) is not None)


def command(facts: Facts, given: Given) -> str:
    """The command that records the changed run."""
    return hints.rerun(facts, *given.words)


def _option(facts: Facts, name: str) -> Any:
    return None if facts.manifest is None else facts.manifest.workload.options.get(name)


def _trains(facts: Facts) -> bool:
    return facts.manifest is not None and facts.manifest.workload.train is True


def _in_fp32(facts: Facts) -> bool:
    return _option(facts, "dtype") in (None, "fp32")


def _without_loss_scaling(facts: Facts) -> bool:
    return not (_trains(facts) and _option(facts, "dtype") == "fp16")


def _not_compiled(facts: Facts) -> bool:
    return not hints.is_compiled(facts)


def _not_in_graphs(facts: Facts) -> bool:
    reduces = _option(facts, "compile_mode") in ("reduce-overhead", "max-autotune")
    return hints.graph_percent(facts) <= hints.BY_GRAPHS_PERCENT and not reduces and _without_loss_scaling(facts)


def _larger(facts: Facts) -> int | None:
    batch = facts.manifest.workload.requested_batch if facts.manifest is not None else None
    return MORE_SAMPLES * batch if batch else None


def _changes_layouts(facts: Facts) -> bool:
    """Whether kernels of this run turn images from NCHW to NHWC or back."""
    return bool(names.matching(facts.launches["name"], lambda name: "nchw" in name.lower()).any())


def _most_of_graphs(facts: Facts) -> float | None:
    """All of the host's time, and the gaps between the kernels of a queue: those of one graph are shorter."""
    return None if facts.model is None else facts.model.saved(_free_host).most_ns


def _free_host(costs: Costs) -> Costs:
    nothing = np.zeros_like(costs.stretch)
    return replace(costs, stretch=nothing, call=nothing, gap=np.zeros_like(costs.gap))


def _most_of_compiling(facts: Facts) -> float | None:
    """All of the host's time, and all GPU work but products, attention, scans and communication.

    Convolutions stay too, unless the run changes layouts for them: torch.compile gives them another one.
    """
    model = facts.model
    if model is None:
        return None
    kept = _OWN_KERNEL | (set() if _changes_layouts(facts) else {"conv"})
    stays = names.matching(facts.trace.device["name"], lambda name: kernel_names.category(name) in kept)
    mask = np.append(~stays, False)[facts.model_rows]  # the last one is of work that the trace lacks
    return model.saved(lambda costs: faster_work(model.graph, _free_host(costs), mask, 0.0)).most_ns


def _most_of_samples(facts: Facts) -> float | None:
    """A step with more samples takes no less than one with fewer."""
    return None if facts.model is None else facts.model.step_ns * (1 - 1 / MORE_SAMPLES)


_OWN_KERNEL = {"gemm", "attention", "scan", "communication"}
FUSED_ATTENTION = Change("attention", "fused", "--attention fused")
FUSED_OPTIMIZER = Change("optimizer", "fused", "--optimizer fused", _trains)
COMPILED = Change(
    "compile",
    True,
    "--compile",
    _not_compiled,
    "torch.compile also takes Python and launches off the host, and lays out convolutions anew",
    _most_of_compiling,
)
COMPILED_FOR_LAUNCHES = replace(
    COMPILED, also="torch.compile also fuses kernels and lays out convolutions anew, which shortens the GPU's work"
)
CUDA_GRAPHS = Change(
    "cuda_graphs",
    True,
    "--cuda-graphs",
    _not_in_graphs,
    "a graph also takes away the gaps between queued kernels, and whatever else the host does in a step",
    _most_of_graphs,
)
TF32 = Change("dtype", "tf32", "--dtype tf32", _in_fp32, agrees=False)
BF16 = Change(
    "dtype", "bf16", "--dtype bf16", _in_fp32, "bf16 also halves the bytes that other kernels move", agrees=False
)
FP16 = Change(
    "dtype", "fp16", "--dtype fp16", _in_fp32, "fp16 also halves the bytes that other kernels move", agrees=False
)
CHANNELS_LAST = Change(
    "channels_last",
    True,
    "--channels-last",
    _changes_layouts,
    "convolutions, norms and pooling also get other kernels",
)
MORE_WORKERS = Change("workers", WORKERS, f"--workers {WORKERS}")
LARGER_BATCH = Change(
    "batch",
    _larger,
    f"--batch {MORE_SAMPLES} times as many",
    also="more samples also fill the GPU better, and every launch serves more of them",
    most=_most_of_samples,
)
