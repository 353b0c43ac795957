"""The ranks of a job: what each does in a step, who waits for whom, arrivals, transfers, stages of a pipeline."""

from tracetui.analysis.tables.table import EVERY, Field, Table

RANKS = Table(
    "ranks",
    "Ranks",
    "ranks",
    (
        Field("rank", "Rank", "count", priority=0, about="distributed rank"),
        Field(
            "state", "State", "status", width=6, priority=0,
            about="`late` in the program, by its excess; or `last` in this recording, where its host may be slow only"
            " because it was recorded",
        ),
        Field(
            "straggler", "Straggler", "flag", priority=9, screen=False,
            about="whether it is late in the program, by its excess",
        ),
        Field(
            "drawn", "Steps", width=12, priority=0, heat=True,
            about="one number step by step, a column each, between its least and its largest of all ranks; of more"
            " steps than columns, the largest of neighbours",
        ),
        Field("step_ns", "Mean step", "time", about="time of the average step, as recorded"),
        Field(
            "own_gpu_ns", "Own GPU", "time", priority=0, null=True,
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
            about="how long the others stood still for it, along the critical path, average per step",
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
    base="per step as recorded; excess: over the median rank",
    key="rank",
    drill="the rank",
)  # fmt: skip
BESIDE_MEDIAN = Table(
    "beside_median",
    "Beside the median rank",
    "rows",
    (
        Field(
            "kind", "Kind", width=12, priority=1,
            about="`step` for numbers of the step; else kind of work, `range, GPU` being GPU work launched in a range",
        ),
        Field("name", "What", width=20, priority=0, flex=True, about="number, range, module, kernel or function"),
        Field(
            "own_ns", "This rank", "time", priority=0, null=True,
            about="of this rank, average per step; unknown where it is too small for its summary",
        ),
        Field(
            "median_ns", "Median", "time", priority=0, null=True,
            about="of the median of the ranks that do the same work, each number for itself, average per step;"
            " unknown where it is so small that summaries of ranks do not list it",
        ),
        Field(
            "over_ns", "More", "delta", priority=0, null=True, main=True,
            about="what this rank has more; at least so much where the median is unknown",
        ),
        Field("own_count", "Calls", "number", type="real", priority=2, null=True, about="per step, on this rank"),
        Field(
            "median_count", "Median calls", "number", type="real", priority=3, null=True,
            about="per step, on the median rank",
        ),
        Field(
            "longer", "Each", "number", type="real", priority=2, null=True,
            about="how many times as long one call takes here as on the median rank",
        ),
    ),
    base="per step",
    sort=("over_ns", True),
    key="name",
)  # fmt: skip
ARRIVALS = Table(
    "arrivals",
    "Arrivals",
    "collectives",
    (
        Field(
            "at_ns", "At", "time", priority=0,
            about="when the first rank arrives, from the start of the recording in view, as in Collectives; where there"
            " are only summaries, of that of the lowest rank",
        ),
        Field("step", "Step", "number", width=4, type="whole", priority=2, null=True, about="step that launched it"),
        Field("kind", "Collective", width=10, priority=1, null=True, about="kind of collective"),
        Field("group", "Group", width=8, priority=4, null=True, about="what the process group is called"),
        Field("bytes", "Bytes", "bytes", priority=2, null=True, about="the larger of what goes in and what comes out"),
        Field(
            "drawn", "Late by rank", width=13, priority=0, heat=True,
            about="how late each rank came, a column each in the order of ranks, up to the latest of all collectives;"
            " of more ranks than columns, the latest of neighbours, node by node where these are known; a gap for ranks"
            " that take no part",
        ),
        Field(
            "last_rank", "Last", "number", width=4, type="whole", priority=0, null=True,
            about="the rank that came last; null where clocks can't tell",
        ),
        Field("late_ns", "Late", "time", priority=0, main=True, about="the last arrival after the median one"),
        Field(
            "alone_ns", "Alone", "time", priority=2,
            about="the last arrival after the one before it: what the last rank alone costs",
        ),
        Field(
            "root_rank", "For", "number", width=4, type="whole", priority=3, null=True,
            about="whom the others waited for in the end: chains are followed to their root",
        ),
        Field("wait_ns", "Waiting", "time", priority=3, null=True, about="of its median rank"),
        Field("transfer_ns", "Transfer", "time", priority=2, about="its shortest call"),
    ),
    sort=("at_ns", False),
    drill="its ranks",
)  # fmt: skip
ARRIVALS_OF_ONE = Table(
    "arrivals_of_one",
    "Arrivals of one collective",
    "ranks",
    (
        Field("rank", "Rank", "count", priority=0, about="distributed rank"),
        Field(
            "drawn", "Waiting, transfer", width=24, priority=0,
            about="from the first arrival to the last end: light while it waits for others, solid in the transfer",
        ),
        Field("arrived_ns", "Arrived", "time", priority=0, about="after the first rank, on the common clock"),
        Field("late_ns", "Late", "time", priority=1, main=True, about="after the median rank"),
        Field("wait_ns", "Waiting", "time", priority=1, about="for ranks that came later"),
        Field("duration_ns", "Duration", "time", priority=2, about="waiting and transfer"),
    ),
)  # fmt: skip
STRAGGLERS = Table(
    "stragglers",
    "Who is late",
    "ranks",
    (
        Field(
            "where", "Where",
            about="`program`, by what a profiler can't add; `turns`: in turn, and none on average; or `recording`: for"
            " whom the others waited in it",
        ),
        Field("recorded_pass", "Of", null=True, about="which recording of the job, `light` or `rich`"),
        Field("rank", "Rank", "count", about="distributed rank"),
        Field(
            "late_ns", "Late", "time",
            about="in a recording and in turn: how long the others stood still for it; in the program: its excess over"
            " the median rank; the sum of the parts that follow; per step, or of the whole recording without steps",
        ),
        Field(
            "gpu_ns", "GPU work", "time",
            about="more GPU work of its own than the median rank; in the program negative where it has less",
        ),
        Field("silent_ns", "Silent", "time", about="more silent host time, likewise"),
        Field("loader_ns", "Loader", "time", about="more waiting for the next batch, likewise"),
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
    data=EVERY,
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
    sort=("wait_ns", True),
)  # fmt: skip
TRANSFERS = Table(
    "transfers",
    "Waiting and transfer",
    "kinds",
    (
        Field("kind", "Collective", width=14, about="kind of collective; `send` for a send with its receive"),
        Field(
            "group", "Group", flex=True, null=True,
            about="what the process group is called; of groups of one name the mean, as they work at the same time",
        ),
        Field("group_size", "Ranks", "count", null=True, about="ranks of the group"),
        Field("bytes", "Bytes", "bytes", null=True, about="the larger of what goes in and what comes out"),
        Field("per_step", "a step", "number", type="real", about="matched collectives per step, of a group"),
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
    data=EVERY,
    reports=("kind", "group", "bytes", "per_step", "transfer_ns", "wait_ns", "exposed_ns", "busbw_gbps"),
    base="per step; busbw in GB/s",
    sort=("transfer_ns", True),
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
    data=EVERY,
    reports=EVERY,
    base="per step",
    sort=("stage", False),
)  # fmt: skip
