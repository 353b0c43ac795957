"""Rule on steps that are not alike: the rare ones that take much of the run."""

from __future__ import annotations

import re
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from tracetui.analysis.findings.core import gain, words
from tracetui.analysis.findings.core.finding import Evidence, Finding, Severity
from tracetui.analysis.findings.core.where import workers
from tracetui.analysis.findings.declared.host import S28
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.gpu.sampled_steps import HALF
from tracetui.analysis.gpu.step_kinds import COLLECTION, HELD, Kind, StepKinds, page_kinds

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts

_UNTOLD = (
    "Nothing recorded tells why: watch the process itself (py-spy dump, nsys profile with OS calls): the disk,"
    " swapping, a lock, gc, another process."
)
LOADER = "DataLoader"
_UNNAMED = "Record one of them, to see what it does: tracetui profile --steps {}."
_ADVICE = (
    (
        LOADER,
        "Faster code where the workers are; more loader workers, prefetching, persistent_workers=True.",
    ),
    (
        r"serialization\.py.*(: |_)save\b|torch\.save|save_(checkpoint|pretrained|state)|checkpoint.*save",
        "Save less often, only what is needed, or in a thread or process beside the training"
        " (torch.distributed.checkpoint.async_save).",
    ),
    (
        rf"\bgc\b|collect_garbage|{COLLECTION}",
        "Collect garbage between steps, or rarely: gc.freeze(), gc.disable(), gc.collect().",
    ),
    (f"^{HELD} ", _UNTOLD),
    (r"valid|eval|test", "Validate less often, on fewer batches, or in a process of its own."),
)
"""What helps, by the name of what such steps do; the first that fits."""


@looks_for(S28)
def rare_steps(facts: Facts, limits: Limits) -> Finding | None:
    kinds = page_kinds(facts.sel)
    if kinds is None or not kinds.rare:
        return None
    share = 100 * kinds.rare_ns / kinds.mean_ns
    if share < limits.share_percent:
        return None
    number = sum(len(one.steps) for one in kinds.rare)
    longest = max(one.mean_ns for one in kinds.rare)
    shortest = min(one.mean_ns for one in kinds.rare)
    span = words.ns(longest) if len(kinds.rare) == 1 else f"{words.ns(shortest)} to {words.ns(longest)}"
    verb, what = ("takes" if number == 1 else "take"), _collected(facts, kinds) or kinds.rare[0].particular
    step_ns = kinds.typical.median_ns if facts.model is None else facts.model.step_ns
    if LOADER in (what or "") and (busy := workers(facts)):
        what = f"{busy}, {LOADER}"
    doing = f" ({what})" if what else ""
    return Finding(
        _severity(share, number),
        f"{number} of {kinds.steps} steps {verb} {span}, the others {words.ns(step_ns)}{doing}",
        (
            Evidence("mean step", kinds.mean_ns, "ns"),
            *(piece for one in (kinds.typical, *kinds.rare) for piece in _evidence(one, kinds.of)),
        ),
        f"mean of all {kinds.steps} steps {words.ns(kinds.mean_ns)}, of the {len(kinds.typical.steps)} typical ones"
        f" {words.ns(kinds.typical.mean_ns)}: {words.part_of(kinds.rare_ns, kinds.mean_ns, share)} of the mean step",
        advice=_advice(what, kinds),
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


def _advice(what: str | None, kinds: StepKinds) -> str:
    if what is None:
        return _UNNAMED.format(max(np.diff([0, *kinds.rare[0].steps])) + 1)
    if not what:
        return _UNTOLD
    helps = (text for pattern, text in _ADVICE if re.search(pattern, what))
    return next(helps, f"Do it less often, or beside the steps: {what}.")
