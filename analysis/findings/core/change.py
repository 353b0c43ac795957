"""Which changes of its options fit a run, and the most that they can gain: its findings' commands, and what is proved.

A rule declares its changes once; the engine gives a finding those that fit its run: its model takes the option, and ran
with another value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from msgspec import Struct

from tracetui.analysis.base import names
from tracetui.analysis.dependencies.costs import Costs
from tracetui.analysis.dependencies.model import faster_work
from tracetui.analysis.findings.core import program
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.declared.changes import MORE_SAMPLES, Change
from tracetui.parsers.names import kernel_names

EVERYWHERE = frozenset({"dtype", "train", "optimizer", "compile", "cuda_graphs", "workers", "batch"})
"""Options that every model takes; a run.json of an earlier version lacks the newer ones."""
_OWN_KERNEL = {"gemm", "attention", "scan", "communication"}


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
        most = _MOST.get(self.option)
        return None if most is None else most(facts)


def fitting(changes: tuple[Change, ...], facts: Facts) -> tuple[Given, ...]:
    """The changes that fit a run, in their order."""
    return tuple(given for change in changes if (given := _of(change, facts)) is not None)


def command(facts: Facts, given: Given) -> str:
    """The command that records the changed run."""
    return program.rerun(facts, *given.words)


def _of(change: Change, facts: Facts) -> Given | None:
    """The change of a run; None where it does not fit."""
    manifest = facts.manifest
    if manifest is None or not program.rerun(facts):
        return None
    options = manifest.workload.options
    if (change.option not in options and change.option not in EVERYWHERE) or options.get("parallel"):
        return None
    value = change.value
    if change.option == "batch":
        batch = manifest.workload.requested_batch
        value = MORE_SAMPLES * batch if batch else None
    fits = _FITS.get(change.option)
    if value is None or options.get(change.option) == value or (fits is not None and not fits(facts)):
        return None
    return Given(change, value)


def _option(facts: Facts, name: str) -> Any:
    return None if facts.manifest is None else facts.manifest.workload.options.get(name)


def _trains(facts: Facts) -> bool:
    return facts.manifest is not None and facts.manifest.workload.train is True


def _not_in_graphs(facts: Facts) -> bool:
    scales_loss = _trains(facts) and _option(facts, "dtype") == "fp16"
    reduces = _option(facts, "compile_mode") in ("reduce-overhead", "max-autotune")
    return program.graph_percent(facts) <= program.BY_GRAPHS_PERCENT and not reduces and not scales_loss


def _changes_layouts(facts: Facts) -> bool:
    """Whether kernels of this run turn images from NCHW to NHWC or back."""
    return bool(names.matching(facts.launches["name"], lambda name: "nchw" in name.lower()).any())


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


_FITS: dict[str, Callable[[Facts], bool]] = {
    "optimizer": _trains,
    "compile": lambda facts: not program.is_compiled(facts),
    "cuda_graphs": _not_in_graphs,
    "channels_last": _changes_layouts,
    "dtype": lambda facts: _option(facts, "dtype") in (None, "fp32"),
}
"""By option: whether a run is one that it may help; all others are."""
_MOST: dict[str, Callable[[Facts], float | None]] = {
    "compile": _most_of_compiling,
    # all of the host's time, and the gaps between the kernels of a queue: those of one graph are shorter
    "cuda_graphs": lambda facts: None if facts.model is None else facts.model.saved(_free_host).most_ns,
    # a step with more samples takes no less than one with fewer
    "batch": lambda facts: None if facts.model is None else facts.model.step_ns * (1 - 1 / MORE_SAMPLES),
}
"""By option: the most that all of it can gain, ns of a step; None where no recording of the run tells."""
