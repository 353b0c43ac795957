"""Every rule: importing a module of rules declares them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tracetui.analysis.findings.rule import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tracetui.analysis.findings.rule import Rule

MODULES = (
    "validity",
    "validity_file",
    "validity_ranges",
    "validity_times",
    "validity_counters",
    "validity_run",
    "validity_physics",
    "system",
    "launching",
    "synchronisation",
    "transfers",
    "machine",
    "framework",
    "precision",
    "kernels",
    "kernel_traffic",
    "kernel_sums",
    "comparison",
    "sweep",
    "memory",
)
"""Modules of rules in this folder, in the order in which their rules are listed."""


def load() -> Mapping[str, Rule]:
    """All rules by id, in the order of `MODULES`."""
    for name in MODULES:
        importlib.import_module(f"tracetui.analysis.findings.{name}")
    return REGISTRY
