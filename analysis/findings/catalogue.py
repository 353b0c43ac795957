"""The list of all rules, and the functions that look for what they declare."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tracetui.analysis.findings.declared import gpu, host, jobs, kernels, machine, memory, pairs, validity
from tracetui.analysis.findings.declared.rule import LOOKS, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

RULES: dict[str, Rule] = {
    value.id: value
    for module in (validity, host, machine, gpu, jobs, kernels, pairs, memory)
    for value in vars(module).values()
    if isinstance(value, Rule)
}
"""Every rule by its id, in the order in which they are asked and listed."""
_PACKAGE = "tracetui.analysis.findings"
_MODULES = (
    "gpu.fusion",
    "gpu.kernels",
    "gpu.measured_kernels",
    "gpu.memory",
    "gpu.precision",
    "host.copies",
    "host.launching",
    "host.synchronisation",
    "host.system",
    "jobs",
    "validity.clock",
    "validity.counters",
    "validity.events",
    "validity.machine",
    "validity.physics",
    "validity.run",
    "validity.steps",
    "validity.undecided",
)
_OF_SEVERAL_RUNS = ("pairs.comparison", "pairs.sweep")
"""Modules of this folder whose functions look for what rules declare."""


def all_rules(subject: str | None = None) -> Mapping[str, Rule]:
    """Every rule by id, or those on this subject (`rule.SUBJECTS`)."""
    return {id: rule for id, rule in RULES.items() if subject in (None, rule.subject)}


def looks(subject: str) -> Mapping[str, Callable[..., Any]]:
    """By rule on this subject: the function that looks for it. A run needs no module of rules on several alone."""
    for name in _MODULES if subject == "run" else (*_MODULES, *_OF_SEVERAL_RUNS):
        importlib.import_module(f"{_PACKAGE}.{name}")
    return LOOKS
