"""The list of all rules. Importing a module of rules declares them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tracetui.analysis.findings.core.rule import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tracetui.analysis.findings.core.rule import Rule

_PACKAGE = "tracetui.analysis.findings"
MODULES = (
    "validity.recorded",
    "validity.file",
    "validity.ranges",
    "validity.times",
    "validity.setup",
    "validity.clock_offset",
    "validity.doubled",
    "validity.durations",
    "validity.mixed",
    "validity.together",
    "validity.counters",
    "validity.run",
    "validity.physics",
    "validity.undecided",
    "host.system",
    "host.launching",
    "host.transfers",
    "host.copies",
    "host.synchronisation",
    "host.allocation",
    "host.data_parallel",
    "host.threads",
    "validity.machine",
    "gpu.framework",
    "gpu.precision",
    "gpu.alignment",
    "gpu.batch_norm",
    "gpu.communication",
    "jobs.late",
    "jobs.transfers",
    "jobs.stages",
    "jobs.whole",
    "gpu.kernels",
    "gpu.kernel_traffic",
    "gpu.kernel_sums",
    "gpu.coalescing",
    "gpu.measured_precision",
    "gpu.measured.memory",
    "gpu.measured.stalls",
    "pairs.comparison",
    "pairs.causes",
    "pairs.sweep",
    "gpu.memory",
)
"""Modules of rules in this folder, in the order in which their rules are listed."""


OF_MORE_RUNS = frozenset({"pairs.comparison", "pairs.causes", "pairs.sweep"})
"""The modules whose rules look at a pair of runs or at a sweep."""


def all_rules(subject: str | None = None) -> Mapping[str, Rule]:
    """Every rule by id, in the order of `MODULES`.

    Args:
        subject: return only rules on this subject (`rule.SUBJECTS`). For a run, modules without such rules are not
            imported.
    """
    wanted = [name for name in MODULES if subject != "run" or name not in OF_MORE_RUNS]
    for name in wanted:
        importlib.import_module(f"{_PACKAGE}.{name}")
    place = {f"{_PACKAGE}.{name}": number for number, name in enumerate(wanted)}
    known = [rule for rule in REGISTRY.values() if rule.look.__module__ in place]
    return {rule.id: rule for rule in sorted(known, key=lambda rule: place[rule.look.__module__])}
