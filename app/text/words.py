"""The words for categories, severities and empty tables, on the screen and in every report."""

from __future__ import annotations

from tracetui.app.text.tool_words import WORDS

STEP_WORDS = {"clean": "without the profiler", "light": "in the light recording", "recorded": "as recorded"}
"""Which steps a time, or the kinds of steps, are of."""
CATEGORY_LABELS = {
    "kernel": "kernels",
    "communication": "communication",
    "memcpy": "memcpy",
    "memset": "memset",
    "runtime": "runtime",
    "dataloader": "data loader",
    "cpu_exec": "CPU exec",
    "other": "other",
}
"""The categories of step time, as torch-tb-profiler calls them."""

RESOURCE_LABELS = {
    "loader": "data loader",
    "python": "Python",
    "operator": "operators",
    "api": "API calls",
    "host": "other host time",
    "wait": "unknown wait",
    "launch": "launch latency",
    "kernel": "kernels",
    "communication": "communication",
    "memcpy": "memcpy",
    "memset": "memset",
    "gap": "gaps on the GPU",
    "return": "return from waits",
}
"""What a critical path runs through (`analysis.dependencies.critical_path.RESOURCES`)."""


_TOLD = {
    "longer": ("none of them was recorded by name", "nothing that was recorded"),
    "first": ("a warm-up, or the queue of launches fills",) * 2,
}
"""By kind of steps what is said where no such step was recorded by name, and where nothing recorded takes longer."""


def particular_words(kind: str, particular: str | None) -> str:
    """What takes longer in the steps of a kind that are longer than typical ones; empty for the others."""
    unrecorded, nothing_takes = _TOLD.get(kind, ("", ""))
    return unrecorded if particular is None else particular or nothing_takes


SEVERITY_SIGNS = {"invalid": "x", "critical": "!", "warning": "~", "info": "i"}
"""The signs of findings by severity, worst first."""

_NOTHING = {
    "kernels": "No GPU kernels in this trace.",
    "operators": "No operators in this trace.",
    "host": "No host events in this trace.",
    "api": "No API calls in this trace.",
    "ranges": "No ranges in this trace.",
    "modules": "No nn.Module calls in this trace.",
    "copies": "No memcpy or memset in this trace.",
}


def nothing(what: str, kind: str) -> str:
    """Returns the text of an empty table: what is missing, and how to record it with the tool that wrote the file.

    Args:
        what: ``kernels``, ``operators``, ``host``, ``api``, ``ranges``, ``modules`` or ``copies``.
        kind: `TraceInfo.kind`.
    """
    advice = WORDS[kind].advice.get(what, "")
    return f"{_NOTHING[what]}\n\n{advice}".rstrip()


GROUP_WORDS = {"class": "module class", "shape": "launch shape", "input_shapes": "input shapes"}


def group_words(by: str) -> str:
    """Returns what kernels are grouped by, as a title says it."""
    return GROUP_WORDS.get(by, by)
