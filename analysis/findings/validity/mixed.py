"""Is this the recording of one program?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.base.names import rows_of
from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.core.rule import Threshold, rule

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.rule import Limits


@rule(
    "V24",
    "Several processes in one recording",
    needs=("timeline", "gpu"),
    doubts=("gpu", "host", "shares", "whole", "steps"),
    remark="the work of several processes is in the file: sums, shares and steps are of all of them together",
    thresholds={"share_percent": Threshold(1, "%", "of the launches that a process must make to count", own=True)},
    advice="Look at each process by itself; several ranks open as one run from a folder of their files.",
)
def several_processes(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    """More than one process launched the GPU work of the file.

    torch.profiler records one process, so a Chrome trace in which two processes launch kernels was merged of two.
    Nsight Systems records child processes too, which is no fault, yet sums are then those of all of them, and if they
    share a GPU, its times are no program's. The rule counts launches by the process that made them.
    """
    from tracetui.analysis.attribution.launch_calls import launch_calls

    trace = facts.trace
    calls = launch_calls(trace)
    launched = rows_of(trace.device.select("kind", "device", "process", "launch"), "kernel", "graph").drop("kind")
    by = pl.Series("by", trace.host["process"].gather(launched["launch"]))
    launched = launched.with_columns(by=pl.coalesce(by, "process")).drop_nulls("by")
    # activities of two processes with the same correlations all seem to be launched by one
    processes = calls.select(by="process") if calls.height else launched.select("by")
    if not processes.height:
        return Abstention("V24", "which process launched the GPU work: record the CUDA API too")
    counts = processes.drop_nulls().group_by("by").agg(launches=pl.len())
    counts = counts.filter(100 * pl.col("launches") / processes.height > limits.share_percent)
    if counts.height < 2:
        return None
    shared = launched.filter(pl.col("by").is_in(counts["by"].implode())).group_by("device").agg(pl.col("by").n_unique())
    on_one = shared.height < counts.height or int((shared["by"] > 1).sum()) > 0
    merged = trace.info.kind != "nsys"  # which records child processes too
    counts = counts.sort("launches", descending=True)
    where = "on the same GPU" if on_one else "on GPUs of their own"
    return Finding(
        "V24",
        "critical" if merged or on_one else "warning",
        f"{counts.height} processes launched the GPU work, {where}: "
        + ("the file was mixed of several recordings" if merged else "sums are of all of them"),
        tuple(
            Evidence(f"launches of process {process}", launches, query=Query("host:API calls", "Launch"))
            for process, launches in counts.select("by", "launches").head(6).iter_rows()
        ),
        " + ".join(words.count(launches) for launches in counts["launches"].head(6))
        + f" of {words.count(processes.height)} launches",
        f"more than one process with more than {words.percent(limits.share_percent)} of the launches",
        "Open the recording of each process by itself; for several ranks, the folder that holds their files.",
    )
