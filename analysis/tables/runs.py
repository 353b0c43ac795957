"""Several recordings side by side: points of a sweep and its variants, captures of a folder, ranks of a job."""

from __future__ import annotations

from tracetui.analysis.tables.field import Field
from tracetui.analysis.tables.table import Table

SWEEP_POINTS = Table(
    "sweep_points",
    "Points",
    "points",
    (
        Field(
            "step_ns", "Step", "time", priority=0, main=True, null=True,
            about="time of a step, the median over the repeats",
        ),
        Field(
            "std_ns", "±", "time", priority=4, null=True,
            about="standard deviation of the step over the repeats; none with fewer than two",
        ),
        Field(
            "images_per_s", "samples/s", "number", width=9, priority=1, null=True,
            about="samples per second, by the observed batch",
        ),
        Field(
            "seen", "seen", "number", width=6, priority=6, key="batch_seen", type="number", null=True,
            about="observed batch: samples that a step processed",
        ),
        Field(
            "gpu_ns", "GPU", "time", priority=2, null=True,
            about="GPU time of kernels, copies and fills per step, summed",
        ),
        Field("kernels", "kernels", "number", width=7, priority=3, null=True, about="kernel launches per step"),
        Field(
            "busy_percent", "busy", "percent", width=6, priority=3, null=True,
            about="share of the profiled steps' time with GPU work",
        ),
        Field("gflops", "GFLOPs", "number", width=7, priority=7, about="per step, as run.json counts them"),
        Field(
            "repeats", "runs", "count", width=4, priority=5,
            about="number of runs of this point that have a step time",
        ),
        Field("marks", "", width=4, priority=2, about="rules that found something at this point, or why there is none"),
        Field(
            "flops", kind="number", type="number", screen=False, null=True,
            about="FLOP per step, as run.json counts them",
        ),
        Field("problem", screen=False, null=True, about="why there are no numbers"),
        Field("findings", kind="list", type="words", screen=False, about="ids of the findings about this point"),
        Field("path", screen=False, null=True, about="path that opens the first run of this point"),
    ),
    data=(
        "step_ns", "std_ns", "repeats", "images_per_s", "kernels", "gpu_ns", "busy_percent", "flops", "seen", "problem",
        "findings", "path",
    ),
    key="point",
    section="points",
)  # fmt: skip
SWEEP_VARIANTS = Table(
    "sweep_variants",
    "Variants",
    "comparisons",
    (
        Field("label", "Variant", width=14, priority=3, flex=True, about="what is compared with its baseline"),
        Field("x", "at", width=6, priority=0, about="the size at which both were run"),
        Field("base_ns", "baseline", "time", priority=2, about="its median step"),
        Field("variant_ns", "variant", "time", priority=1, main=True, about="its median step"),
        Field(
            "speedup", "speed-up", "number", width=8, priority=0, about="time of the baseline / time of the variant"
        ),
        Field("work", "less work", "percent", width=9, priority=1, about="FLOPs removed, share of the baseline's"),
        Field(
            "lost", "lost", "percent", width=6, priority=4,
            about="share of the possible speed-up that was not reached",
        ),
        Field("kernels", "kernels", "number", width=7, priority=4, about="more kernels per step than the baseline"),
        Field("gpu_ns", "GPU", "delta", width=9, priority=3, about="more GPU time per step than the baseline"),
        Field("sure", "", width=6, priority=1, about="faster, slower, or within the noise of the repeats"),
    ),
    key="label",
    drill="compare",
)  # fmt: skip
SWEEP_FINDINGS = Table(
    "sweep_findings",
    "Findings",
    "findings",
    (
        Field("said", "Finding", width=20, priority=0, flex=True, about="what the rules say of the sweep"),
        Field("try", "Try", width=16, priority=1, flex=True, about="what to do about it"),
    ),
    key="said",
)

ROLES = (("forward", "fwd"), ("backward", "bwd"), ("optimizer", "opt"), ("softmax", "softmax"), ("matmul", "matmul"))
"""Roles of ranges, as the list of captures shows them."""
CAPTURES = Table(
    "captures",
    "Captures",
    "captures",
    (
        Field(
            "capture", "Capture", width=14, priority=0, flex=True, main=True,
            about="what distinguishes the file from the others",
        ),
        Field(
            "step_ns", "Step", "time", priority=1,
            about="average step; where none are marked, of ranges named like steps",
        ),
        *(
            field
            for rank, (role, short) in enumerate(ROLES, 2)
            for field in (
                Field(f"{role}_host_ns", f"{short} CPU", "time", priority=rank, about=f"mean time of a {role} range"),
                Field(f"{role}_gpu_ns", f"{short} GPU", "time", priority=rank, about="its mean GPU work"),
            )
        ),
        Field(
            "gpu_ns", "GPU work", "time", priority=1, main=True,
            about="kernels, copies and fills of the average step, else of the file, summed",
        ),
        Field("busy_percent", "busy", "percent", priority=2, about="share of steps, else of the file, with GPU work"),
        Field("kernels", "kernels", "count", priority=3, about="kernels of the average step, else of the file"),
        Field("wall_ns", "whole file", "time", priority=7, about="from the first event to the last"),
        Field("top", "top kernel", width=14, priority=4, flex=True, about="the kernel that takes most GPU time"),
    ),
    drill="open",
    page=False,
)  # fmt: skip

RANKS = Table(
    "ranks",
    "Ranks",
    "ranks",
    (
        Field("rank", "Rank", "count", priority=0, about="distributed rank"),
        Field("straggler", "Straggler", "flag", priority=0, about="whether it is late in the program, by its excess"),
        Field(
            "steps_drawn", "Steps", width=12, priority=0,
            about="each step's time as a column, between the shortest and the longest step of all ranks",
        ),
        Field("step_ns", "Step", "time", about="time of the average step"),
        Field(
            "own_gpu_ns", "Own GPU", "time", null=True,
            about="summed durations of the GPU work that it launched itself, without collectives, average per step",
        ),
        Field(
            "silent_ns", "Silent", "time", null=True,
            about="host time in stretches of over 1 ms in which no recorded event begins or ends, outside blocking"
            " calls, average per step",
        ),
        Field("loader_ns", "Loader", "time", null=True, about="host time waiting for the next batch, average per step"),
        Field(
            "excess_ns", "Excess", "delta", null=True,
            about="own GPU work, silent time and waiting for data, less those of the median rank: what a profiler can't"
            " add",
        ),
        Field(
            "wait_ns", "Waits", "time", null=True,
            about="time in matched collectives beyond their shortest call: waiting for other ranks, average per step",
        ),
        Field(
            "late_ns", "Late", "time", null=True,
            about="how long after the median rank it came to collectives that waited for it in the end, average per"
            " step",
        ),
        Field("kernel_ns", "Kernels", "time", null=True, about="time with any kernel running, average per step"),
        Field(
            "compute_ns", "Compute", "time", null=True,
            about="time with a computing kernel running, average per step",
        ),
        Field(
            "communication_ns", "Communication", "time", null=True,
            about="time with a collective running, average per step",
        ),
        Field("idle_ns", "Idle", "time", null=True, about="time with nothing running on the GPU, average per step"),
        Field(
            "behind_percent", "vs. median %", "change", null=True,
            about="compute time minus that of the median rank, % of the latter",
        ),
        Field("last", "Last", "count", null=True, about="collectives to which it came last in this recording"),
        Field("collectives", "Of", "count", null=True, about="matched collectives that it takes part in"),
        Field(
            "clean_step_ns", "Clean step", "time", null=True,
            about="median step without a profiler, as run.json has it",
        ),
    ),
    data=(
        "rank", "step_ns", "kernel_ns", "compute_ns", "communication_ns", "idle_ns", "behind_percent", "straggler",
        "own_gpu_ns", "silent_ns", "loader_ns", "excess_ns", "wait_ns", "late_ns", "last", "collectives",
        "clean_step_ns",
    ),
    reports=("rank", "step_ns", "own_gpu_ns", "silent_ns", "excess_ns", "wait_ns", "late_ns", "straggler"),
    base="average per step; excess: over the median rank",
    key="rank",
    drill="the rank",
)  # fmt: skip
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
    base="per step",
    page=False,
)  # fmt: skip
WAITING = Table(
    "waiting",
    "Who waited for whom",
    "pairs",
    (
        Field("pair", "Pair", screen=False, about="both ranks"),
        Field("rank", "Rank", "count", about="the rank that waited"),
        Field("for_rank", "For", "count", about="whom it waited for in the end: chains are followed to their root"),
        Field("wait_ns", "Waited", "time", about="its time in collectives beyond their transfer, per step"),
        Field("collectives", "Collectives", "count", about="in how many collectives of the recording"),
    ),
    data=("rank", "for_rank", "wait_ns", "collectives"),
    reports=("rank", "for_rank", "wait_ns", "collectives"),
    base="per step",
)  # fmt: skip
TRANSFERS = Table(
    "transfers",
    "Waiting and transfer",
    "kinds",
    (
        Field("kind", "Collective", about="kind of collective; `send` for a send with its receive"),
        Field(
            "group", "Group", flex=True, null=True,
            about="what the process group is called; groups of one name count as one",
        ),
        Field("group_size", "Ranks", "count", null=True, about="ranks of the group"),
        Field("bytes", "Bytes", "bytes", null=True, about="the larger of what goes in and what comes out"),
        Field("per_step", "a step", "number", type="real", about="matched collectives per step, of all groups"),
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
)  # fmt: skip
GPUS = Table(
    "gpu",
    "GPU",
    "GPUs",
    (
        Field("device", "GPU", "count", null=True, about="device id"),
        Field("busy_percent", "Busy", "percent", about="kernels, copies, fills or graphs running, % of the time"),
        Field("utilization_percent", "Utilization", "percent", null=True, about="kernels running, % of the time"),
        Field(
            "sm_efficiency_percent", "SM efficiency", "percent", null=True,
            about="multiprocessors that have blocks to run, % of all of them, mean over the time",
        ),
        Field(
            "occupancy_percent", "Occup", "percent", null=True,
            about="achieved occupancy, an estimate, mean over the kernels' time",
        ),
        Field(
            "tensor_core_percent", "Tensor cores", "percent", null=True,
            about="kernels that use tensor cores, judged by their names, % of kernel time",
        ),
        Field("name", screen=False, null=True, about="product name"),
    ),
    data=(
        "device", "name", "busy_percent", "utilization_percent", "sm_efficiency_percent", "occupancy_percent",
        "tensor_core_percent",
    ),
    reports=(
        "device", "busy_percent", "utilization_percent", "sm_efficiency_percent", "occupancy_percent",
        "tensor_core_percent",
    ),
    key="device",
    section="overview.gpu",
    page=False,
)  # fmt: skip
CATEGORIES = Table(
    "categories",
    "Average step",
    "categories",
    (
        Field("category", "Category", about="category of the time, as torch-tb-profiler calls it"),
        Field("ns", "Time", "time", about="average per step"),
        Field("percent", "%", "percent", null=True, about="share of the step"),
    ),
    reports=("category", "ns", "percent"),
    section="overview.categories",
    page=False,
)
