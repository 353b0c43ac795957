"""Every rule: importing a module of rules declares them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tracetui.analysis.findings.core.rule import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tracetui.analysis.findings.core.rule import Rule

MODULES = (
    "validity.recorded",
    "validity.file",
    "validity.ranges",
    "validity.times",
    "validity.counters",
    "validity.run",
    "validity.physics",
    "host.system",
    "host.launching",
    "host.synchronisation",
    "host.transfers",
    "validity.machine",
    "gpu.framework",
    "gpu.precision",
    "gpu.kernels",
    "gpu.kernel_traffic",
    "gpu.kernel_sums",
    "pairs.comparison",
    "pairs.sweep",
    "gpu.memory",
)
"""Modules of rules in this folder, in the order in which their rules are listed."""


def all_rules() -> Mapping[str, Rule]:
    """All rules by id, in the order of `MODULES`."""
    for name in MODULES:
        importlib.import_module(f"tracetui.analysis.findings.{name}")
    return REGISTRY
