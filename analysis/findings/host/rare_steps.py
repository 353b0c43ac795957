"""Rule on steps that are not alike: the rare ones that take much of the run."""

from __future__ import annotations

import re
from statistics import fmean

import numpy as np

from tracetui.analysis.findings.core import gain, words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Evidence, Finding, Severity
from tracetui.analysis.findings.core.where import workers
from tracetui.analysis.findings.declared.host import S28
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.gpu.sampled_steps import HALF
from tracetui.analysis.gpu.step_kinds import COLLECTION, HELD, Kind, StepKinds, page_kinds

LOADER = "DataLoader"
_UNNAMED = ("Record one of the long steps", "It shows what they do: tracetui profile --steps {}.")
_UNTOLD = (
    "Watch the process in the long steps",
    "Nothing recorded tells why: py-spy dump, or nsys profile with OS calls, shows the disk, swapping, a lock, gc,"
    " another process.",
)
_STARTS = r"dataloader\.py.*\b(__iter__|_get_iterator|__init__)\b"
"""The functions in which a DataLoader starts its workers."""
_ADVICE = (
    (
        _STARTS,
        "Keep the loader's workers",
        "persistent_workers=True, and one DataLoader for all epochs: without, each epoch starts its processes anew.",
    ),
    (
        LOADER,
        "Load batches faster",
        "Faster code where the workers are; more loader workers, prefetching, persistent_workers=True.",
    ),
    (
        r"serialization\.py.*(: |_)save\b|torch\.save|save_(checkpoint|pretrained|state)|checkpoint.*save",
        "Save less often, or beside the steps",
        "Save only what is needed, or in a thread or process beside the training"
        " (torch.distributed.checkpoint.async_save).",
    ),
    (
        rf"\bgc\b|collect_garbage|{COLLECTION}",
        "Collect garbage less often",
        "Collect it between steps, or rarely: gc.freeze(), gc.disable(), gc.collect().",
    ),
    (rf"^{HELD} (?!.*, at )", *_UNTOLD),  # with a line, samples saw what it does there
    (r"valid|eval|test", "Validate less often", "Or on fewer batches, or in a process of its own."),
    ("", "Do it less often, or beside the steps", "What few steps do takes a notable part of the mean step."),
)
"""What to change and what helps, by the name of what such steps do; the first that fits."""


@looks_for(S28)
def rare_steps(facts: Facts, limits: Limits) -> Finding | None:
    kinds = page_kinds(facts.sel)
    if kinds is None or not kinds.rare:
        return None
    share = 100 * kinds.rare_ns / kinds.mean_ns
    if share < limits.share_percent:
        return None
    number = sum(len(one.steps) for one in kinds.rare)
    what = _collected(facts, kinds) or kinds.rare[0].particular
    if LOADER in (what or "") and not re.search(_STARTS, what or "") and (busy := workers(facts)):
        what = f"{busy}, {LOADER}"
    change, helps = _advice(what, kinds)
    return Finding(
        _severity(share, number),
        f"{change}: {what or f'{number} of {kinds.steps} steps are longer'}",
        (
            Evidence("mean step", kinds.mean_ns, "ns"),
            *(piece for one in (kinds.typical, *kinds.rare) for piece in _evidence(one, kinds.of)),
        ),
        f"mean of all {kinds.steps} steps {words.ns(kinds.mean_ns)}, of the {len(kinds.typical.steps)} typical ones"
        f" {words.ns(kinds.typical.mean_ns)}: {words.part_of(kinds.rare_ns, kinds.mean_ns, share)} of the mean step",
        advice=helps,
        impact_ns=kinds.rare_ns,
        impact_of="mean_step",
        ceiling_percent=share,
        sure_percent=share if number > 1 else None,
    )


def _severity(share: float, number: int) -> Severity:
    """That of the share; of one step, whose like may come rarely, at most a warning."""
    likely = gain.severity(share)
    return "warning" if number == 1 and likely == "critical" else likely


def _evidence(one: Kind, of: str) -> tuple[Evidence, ...]:
    steps = words.listed([str(number) for number in one.steps], 8)
    return Evidence(f"{of} steps {steps}", one.mean_ns, "ns"), Evidence("of the time of all steps", one.percent, "%")


def _collected(facts: Facts, kinds: StepKinds) -> str:
    """The collector of Python, if its pauses make the clean steps that are longer so."""
    paused = () if facts.manifest is None else facts.manifest.measurement.clean_gc_ns
    if kinds.of != "clean" or len(paused) != kinds.steps:
        return ""
    usual, more = (fmean(paused[step - 1] for step in one.steps) for one in (kinds.typical, kinds.rare[0]))
    return COLLECTION if more - usual >= HALF * (kinds.rare[0].mean_ns - kinds.typical.mean_ns) else ""


def _advice(what: str | None, kinds: StepKinds) -> tuple[str, str]:
    if what is None:
        return _UNNAMED[0], _UNNAMED[1].format(max(np.diff([0, *kinds.rare[0].steps])) + 1)
    return next((title, helps) for pattern, title, helps in _ADVICE if re.search(pattern, what)) if what else _UNTOLD
