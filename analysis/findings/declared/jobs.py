"""Rules on the ranks of a job."""

from tracetui.analysis.findings.declared.rule import Rule, chosen

S20 = Rule(
    "S20",
    "A rank that is late in the program",
    needs=("ranks",),
    rests_on=("gpu",),
    advice="Give all ranks the same work.",
    several=True,
    limit="ranks",
    explanation="""
    The others wait for a rank that has more to do, by what a profiler cannot add.

    That is GPU work of its own which it launched in the recording, waiting for its data loader, or host time in
    stretches of over 1 ms in which no recorded event begins or ends, outside blocking calls: a profiler costs time at
    events only. A rank is compared with the median of those that do the same work (a stage of a pipeline), and named
    from 5 % of the step on; for GPU work that is 20 % above the median rank's from 2 %. The cause is the range, module
    or kernel that it has more of, launches that are larger or take longer, or a single stop. What it costs is at most
    what it has so much more of; what it has less is said beside that. Ranks that are late in turn are one finding: what
    that costs is what the others stood still for along the critical path.""",
)

S21 = Rule(
    "S21",
    "A rank that comes last in this recording only",
    needs=("collectives",),
    rests_on=("host",),
    advice="Look at the light recording and at the clean steps, on each rank: record with tracetui profile. A rank"
    " whose host is slow there too needs fewer launches (CUDA graphs, torch.compile) or a core of its own.",
    explanation="""
    A rank comes last to the collectives, and what it has more than the median rank does not explain it.

    Its lateness is spread over many short calls of its host, each of which the profiler slows, and not on all ranks
    alike. Whether the program has it can't be told from this recording, so the finding promises nothing. Clean steps
    and a light recording come nearer.""",
)

S22 = Rule(
    "S22",
    "Collectives too small for their link",
    needs=("collectives",),
    rests_on=("gpu",),
    thresholds={
        "small_mib": chosen(4, "MiB", "up to which a message reached half of the link's bandwidth on NVLink"),
        "step_percent": chosen(2, "%", "of the step in such transfers (as K14)"),
        "several": chosen(8, "", "such collectives per step"),
    },
    advice="DistributedDataParallel: a larger bucket_cap_mb (25 MiB is the default), gradient_as_bucket_view=True; with"
    " many small parameters, flatten or fuse them; gradients of several micro-batches in one step with no_sync().",
    compared="{several} collectives per step of {small_mib} MiB or less, in {step_percent} of the step",
    explanation="""
    All-reduces or reduce-scatters of few bytes take a good part of the step: latency, not bandwidth.

    On four H200 with NVLink, buckets of 4 MB reached 152 GB/s and those of 32 MB 290: below, half of the time and more
    is latency. Times are transfers (the shortest call of each collective): waiting for others does not count. At
    stake is what these transfers take longer than at the bandwidth of larger ones; all of it where there are none.""",
)

S23 = Rule(
    "S23",
    "Gathers of parameters that no computation hides",
    needs=("collectives",),
    rests_on=("gpu",),
    thresholds={
        "exposed_percent": chosen(50, "%", "of the gathers' transfers, while their GPU computes nothing"),
        "step_percent": chosen(5, "%", "of the step in such transfers"),
    },
    advice="FSDP: forward_prefetch=True and BACKWARD_PRE, FSDP2: set_modules_to_forward_prefetch and"
    " set_modules_to_backward_prefetch; limit_all_gathers=False where there is memory; units of like size.",
    compared="{exposed_percent} of the gathers, {step_percent} of the step",
    explanation="""
    All-gathers begin only when their GPU has nothing left to compute: FSDP did not prefetch.

    Counted is the transfer, not the waiting: of each gather, what is exposed of its median rank, at most as long as its
    shortest call.""",
)

S24 = Rule(
    "S24",
    "Uneven all-to-all",
    needs=("collectives",),
    rests_on=("gpu",),
    thresholds={
        "uneven_percent": chosen(20, "%", "(largest − mean) / largest of the bytes that ranks send, or get"),
        "step_percent": chosen(2, "%", "of the step in all-to-all (as K14)"),
    },
    advice="Balance the experts (a load-balancing loss, a capacity factor, other placement), or the tokens per rank.",
    compared="{uneven_percent}, in {step_percent} of the step",
    explanation="""
    Some ranks send, or get, far more than others in all-to-all, as with experts that get most tokens.

    All wait for the largest: at stake is the transfer times the imbalance, (largest - mean) / largest, over all
    matched calls that say their bytes. Beside it stands how uneven the GPU work before these calls is, and what ranks
    wait in them for those that come later.""",
)

S25 = Rule(
    "S25",
    "Pipeline bubbles",
    needs=("ranks", "job_steps"),
    rests_on=("gpu",),
    thresholds={"bubble_percent": chosen(20, "%", "of the step in which a stage computes nothing")},
    advice="More micro-batches per step, an interleaved schedule (several chunks of layers per stage), or zero-bubble"
    " schedules; what is beyond the ideal is uneven stages (S26) or sends that nothing hides.",
    compared="{bubble_percent} of the step",
    explanation="""
    The stages of a pipeline wait for each other: for their first micro-batch, for their last, and in between.

    GPipe and 1F1B of p stages and m micro-batches can't do with less than (p - 1) / (m + p - 1) of the step. At stake
    is what twice the micro-batches would save of that.""",
)

S26 = Rule(
    "S26",
    "Uneven stages of a pipeline",
    needs=("ranks", "job_steps"),
    rests_on=("gpu",),
    thresholds={"uneven_percent": chosen(10, "%", "(largest − mean) / largest of the stages' own GPU work")},
    advice="Move layers to the other stages; embedding and head count as layers too.",
    compared="{uneven_percent}",
    explanation="""
    One stage has more GPU work of its own than the others, and so sets the pace of all.

    Imbalance is (largest - mean) / largest. In a full pipeline every micro-batch waits for the longest stage, so at
    stake is what that stage has above the mean.""",
)

S36 = Rule(
    "S36",
    "A link that is slower than its like",
    needs=("collectives",),
    rests_on=("gpu",),
    advice="Measure this link alone (nccl-tests on its ranks), and look at its counters (nvidia-smi nvlink -e, ibstat,"
    " ethtool -S), the switch port, and which adapter NCCL chose (NCCL_DEBUG=INFO).",
    several=True,
    explanation="""
    The transfers of one group, or from one rank to another, take longer than those of groups or pairs like it.

    Alike are process groups of one kind (nodes, stages of a pipeline, tensor groups) with as many ranks, in calls of
    one size; where hosts are known, links between hosts are compared with each other, and those within hosts are. From
    three of a kind on, one is named whose median transfer takes 1.5 times as long as the median of them, and 2 % of the
    step more. On one host, a group of GPUs whose link is known is also named if it takes 1.5 times as long as its bytes
    need. That is known of all-reduce, all-gather and reduce-scatter of 4 MiB and more on NVLink 4: at least the bytes
    at the data sheet's bandwidth, at most 20 µs and the bytes at half of it, as measured on four H200. What waits for a
    slow link is late, too, and not to blame. It costs at most what it takes longer: a part may run
    beside computing.""",
)

V30 = Rule(
    "V30",
    "Ranks that are missing, or whose collectives don't match",
    needs=("ranks",),
    doubts=("gpu", "host", "shares", "whole", "steps"),
    remark="the recordings are not ranks of one job",
    thresholds={"unmatched_percent": chosen(50, "%", "of the calls of collectives that were matched with no other")},
    advice="Record the same steps on all ranks, and open the folder that has all of them.",
    compared="a rank is missing, or {unmatched_percent} of the calls",
    explanation="""
    Who came last to a collective is said of the ranks that are here: a missing one may have come later.

    Calls that were queued before a recording began are on some ranks only, and unmatched for that; more than half says
    that the recordings are not of the same steps. Where all ranks are here and none of their collectives is another's,
    the recordings are of several jobs: that is invalid, and nothing is said of one rank against the others.""",
)
