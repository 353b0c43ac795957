"""Rule on training with several GPUs the slow way: one process for all of them, or collectives through the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.base import names
from tracetui.analysis.base.names import rows_of
from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.finding import Evidence, Finding, Query
from tracetui.analysis.findings.declared.host import F19
from tracetui.analysis.findings.declared.rule import looks_for
from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.collectives import NCCL

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.declared.rule import Limits

_ONE_PROCESS, _PER_GPU = "DataParallel.forward", "DistributedDataParallel.forward"
"""What torch calls its two wrappers around a model."""


@looks_for(F19)
def slow_parallelism(facts: Facts, limits: Limits) -> Finding | None:
    del limits
    calls = rows_of(facts.sel.host.select("kind", "name"), "operator", "annotation")["name"]
    gpus = sorted(facts.launches["device"].drop_nulls().unique().to_list())
    if len(gpus) > 1 and (seen := int(names.matching(calls, _ONE_PROCESS.__eq__).sum())):
        return _finding(
            f"DataParallel: one process launches the work of {len(gpus)} GPUs",
            (Evidence(_ONE_PROCESS, seen), Evidence("GPUs used", words.listed([str(gpu) for gpu in gpus]))),
            f"{words.things(seen, 'call')} of {_ONE_PROCESS}, kernels on {len(gpus)} GPUs",
            "Use DistributedDataParallel, with a process per GPU (torchrun --nproc-per-node=N): it copies no model in"
            " the step, and each process launches for its own GPU.",
        )
    wrapped = int(names.matching(calls, _PER_GPU.__eq__).sum())
    through_host = int(names.matching(calls, lambda name: name.startswith("gloo:")).sum())
    by_nccl = names.matching(calls, lambda name: name.startswith(NCCL)).any()
    by_nccl |= names.matching(facts.launches["name"], _communicates).any()
    if not wrapped or not through_host or by_nccl:
        return None
    return _finding(
        "DistributedDataParallel over gloo: the gradients go through the host",
        (Evidence(_PER_GPU, wrapped), Evidence("gloo collectives", through_host, "", Query("host", "gloo:"))),
        f"{words.things(through_host, 'call')} of gloo:…, no NCCL kernel",
        'Use NCCL: torch.distributed.init_process_group("nccl") sums gradients between the GPUs, beside the backward'
        " pass.",
    )


def _communicates(name: str) -> bool:
    return kernel_names.category(name) == "communication"


def _finding(title: str, evidence: tuple[Evidence, ...], formula: str, advice: str) -> Finding:
    return Finding("warning", title, evidence, formula, advice=advice)
