"""The list of all rules, and the functions that look for what they declare."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

from tracetui.analysis.findings.declared import gpu, host, jobs, kernels, machine, memory, pairs, validity
from tracetui.analysis.findings.declared.rule import LOOKS, Rule

RULES: dict[str, Rule] = {
    value.id: value
    for module in (validity, host, machine, gpu, jobs, kernels, pairs, memory)
    for value in vars(module).values()
    if isinstance(value, Rule)
}
"""Every rule by its id, in the order in which they are asked and listed."""

_PACKAGE = __name__.rpartition(".")[0]


def all_rules(subject: str | None = None) -> Mapping[str, Rule]:
    """Every rule by id, or those on this subject (`rule.SUBJECTS`)."""
    return {id: rule for id, rule in RULES.items() if subject in (None, rule.subject)}


def looks(subject: str) -> Mapping[str, Callable[..., Any]]:
    """By rule on this subject: the function that looks for it. A run needs no module of rules on several alone."""
    importlib.import_module(f"{_PACKAGE}.jobs")
    for name in ("gpu", "host") if subject == "run" else ("gpu", "host", "pairs"):
        _import_all(name)
    return looks_on_measurement()


def looks_on_measurement() -> Mapping[str, Callable[..., Any]]:
    """The same of the rules on the measurement of one recording, for whose answer no other module is needed."""
    _import_all("validity")
    return LOOKS


def _import_all(name: str) -> None:
    folder = importlib.import_module(f"{_PACKAGE}.{name}")
    for module in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}."):
        importlib.import_module(module.name)
