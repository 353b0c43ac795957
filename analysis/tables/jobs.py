"""Jobs of many ranks: who is late and why, who waited for whom, what transfers took, and a pipeline's stages."""

from __future__ import annotations

from tracetui.analysis.tables.field import Field
from tracetui.analysis.tables.table import Table

STRAGGLERS = Table(
    "stragglers",
    "Who is late",
    "ranks",
    (
        Field("where", "Where", about="`program`, by what a profiler can't add; or `recording`: who came last in it"),
        Field("recorded_pass", "Of", null=True, about="which recording of the job, `light` or `rich`"),
        Field("rank", "Rank", "count", about="distributed rank"),
        Field(
            "late_ns", "Late", "time",
            about="in a recording: how long after the median rank it came, summed; in the program: its excess over that"
            " rank; per step, or of the whole recording without steps",
        ),
        Field("gpu_ns", "GPU work", "time", about="more GPU work of its own than the median rank"),
        Field("silent_ns", "Silent", "time", about="more silent host time"),
        Field("loader_ns", "Loader", "time", about="more waiting for the next batch"),
        Field(
            "untold_ns", "Untold", "time",
            about="of lateness in a recording, what these don't explain: many short calls, which recording slows",
        ),
        Field("last", "Last", "count", about="collectives to which it came last"),
        Field("of", "of", "count", about="collectives that it takes part in"),
        Field(
            "cause", "Cause", null=True,
            about="`gpu_work`, `larger`, `slow_gpu`, `copies`, `loader`, `collection`, `pause`, `host`, or `untold`;"
            " null for a rank whose reason was not looked for",
        ),
        Field("name", "In", null=True, about="range, function or kernel that it has more of"),
        Field("factor", kind="number", type="real", null=True, screen=False,
              about="how many times as long the same kernels take, or as many blocks they have"),
        Field("step", kind="count", null=True, screen=False, about="the step that nearly all of it lies in"),
    ),
    data=(
        "where", "recorded_pass", "rank", "late_ns", "gpu_ns", "silent_ns", "loader_ns", "untold_ns", "last", "of",
        "cause", "name", "factor", "step",
    ),
    reports=("where", "recorded_pass", "rank", "late_ns", "gpu_ns", "silent_ns", "last", "of", "cause", "name"),
    base="per step, or of all without steps",
    page=False,
)  # fmt: skip
WAITING = Table(
    "waiting",
    "Who waited for whom",
    "pairs",
    (
        Field("rank", "Rank", "count", about="the rank that waited"),
        Field("for_rank", "For", "count", about="whom it waited for in the end: chains are followed to their root"),
        Field("wait_ns", "Waited", "time", about="its time in collectives beyond their transfer, per step"),
        Field("collectives", "Collectives", "count", about="in how many collectives of the recording"),
    ),
    data=("rank", "for_rank", "wait_ns", "collectives"),
    reports=("rank", "for_rank", "wait_ns", "collectives"),
    base="per step, or of all without steps",
    page=False,
)  # fmt: skip
TRANSFERS = Table(
    "transfers",
    "Waiting and transfer",
    "kinds",
    (
        Field("kind", "Collective", about="kind of collective; `send` for a send with its receive"),
        Field("group", "Group", null=True, about="what the process group is called; groups of one name count as one"),
        Field("group_size", "Ranks", "count", null=True, about="ranks of the group"),
        Field("bytes", "Bytes", "bytes", null=True, about="the larger of what goes in and what comes out"),
        Field("per_step", "per step", "number", type="real", about="matched collectives per step, of all groups"),
        Field(
            "transfer_ns", "Transfer", "time",
            about="the shortest call of each, per step: the last to arrive waits for nobody",
        ),
        Field("wait_ns", "Waiting", "time", about="what the median rank's call lasts longer, per step"),
        Field(
            "exposed_ns", "Exposed", "time", null=True,
            about="of the median rank's calls, while its GPU computes nothing, per step",
        ),
        Field("algbw_gbps", "algbw", "number", type="real", null=True, about="bytes by the median transfer, GB/s"),
        Field(
            "busbw_gbps", "busbw", "number", type="real", null=True,
            about="what a link moved, GB/s, as nccl-tests have it",
        ),
    ),
    data=(
        "kind", "group", "group_size", "bytes", "per_step", "transfer_ns", "wait_ns", "exposed_ns", "algbw_gbps",
        "busbw_gbps",
    ),
    reports=("kind", "group", "bytes", "per_step", "transfer_ns", "wait_ns", "exposed_ns", "busbw_gbps"),
    base="per step; busbw in GB/s",
    page=False,
)  # fmt: skip
STAGES = Table(
    "stages",
    "Stages of the pipeline",
    "stages",
    (
        Field("stage", "Stage", "count", about="place in the pipeline"),
        Field("ranks", "Ranks", "count", about="how many ranks compute it"),
        Field("step_ns", "Step", "time", about="of the stage's median rank, as all that follows"),
        Field("own_gpu_ns", "Own GPU", "time", null=True, about="GPU work of its own, per step"),
        Field(
            "bubble_ns", "Bubble", "time", null=True,
            about="its GPU computes nothing, less exposed collectives of its gradients, per step",
        ),
        Field("bubble_percent", "Bubble", "percent", null=True, about="share of the step"),
        Field(
            "ideal_percent", "Ideal", "percent", null=True,
            about="(p - 1) / (m + p - 1) of p stages and m micro-batches, which GPipe and 1F1B can't avoid",
        ),
        Field("micro_batches", "Micro-batches", "number", type="real", null=True, about="per step, by its sends"),
    ),
    data=(
        "stage", "ranks", "step_ns", "own_gpu_ns", "bubble_ns", "bubble_percent", "ideal_percent", "micro_batches",
    ),
    reports=(
        "stage", "ranks", "step_ns", "own_gpu_ns", "bubble_ns", "bubble_percent", "ideal_percent", "micro_batches",
    ),
    base="per step",
    page=False,
)  # fmt: skip
