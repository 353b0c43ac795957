"""The list of all rules, and the functions that look for what they declare."""

from __future__ import annotations

import importlib
import pkgutil
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


def all_rules(subject: str | None = None) -> Mapping[str, Rule]:
    """Every rule by id, or those on this subject (`rule.SUBJECTS`)."""
    return {id: rule for id, rule in RULES.items() if subject in (None, rule.subject)}


def looks(subject: str) -> Mapping[str, Callable[..., Any]]:
    """By rule on this subject: the function that looks for it. A run needs no module of rules on several alone."""
    package = __name__.rpartition(".")[0]
    importlib.import_module(f"{package}.jobs")
    for name in ("gpu", "host", "validity") if subject == "run" else ("gpu", "host", "validity", "pairs"):
        folder = importlib.import_module(f"{package}.{name}")
        for module in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}."):
            importlib.import_module(module.name)
    return LOOKS
