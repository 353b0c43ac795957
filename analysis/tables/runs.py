"""Several recordings side by side: points of a sweep and its variants, captures of a folder, ranks of a job."""

from tracetui.analysis.tables.table import EVERY, Field, Table

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
        Field("sample_ns", "per sample", "time", width=10, priority=6, null=True, about="time of a step per sample"),
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
        Field(
            "marks", "", width=7, priority=2,
            about="`best`: the most samples per second for the same work; rules that found something at this point, or "
            "why there is none",
        ),
        Field(
            "best", kind="flag", screen=False,
            about="whether it has the most samples per second of the points that do the same work per sample",
        ),
        Field(
            "flops", kind="number", type="number", screen=False, null=True,
            about="FLOP per step, as run.json counts them",
        ),
        Field("problem", screen=False, null=True, about="why there are no numbers"),
        Field("findings", kind="list", type="words", screen=False, about="ids of the findings about this point"),
        Field("path", screen=False, null=True, about="path that opens the first run of this point"),
    ),
    data=(
        "step_ns", "std_ns", "repeats", "images_per_s", "sample_ns", "best", "kernels", "gpu_ns", "busy_percent",
        "flops", "seen", "problem",
        "findings", "path",
    ),
    reports=(
        "step_ns", "std_ns", "images_per_s", "seen", "kernels", "gpu_ns", "busy_percent", "gflops", "repeats",
        "sample_ns",
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
            about="achieved occupancy of the SMs, an estimate, mean over the kernels' time",
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
STEP_KINDS = Table(
    "step_kinds",
    "Kinds of steps",
    "kinds",
    (
        Field(
            "kind", "Kind", width=8, priority=0,
            about="typical (the most), first (longer ones), longer, shorter; of a server prefill, decode, …",
        ),
        Field("of", screen=False, about="whose steps: clean (without a profiler), light or recorded"),
        Field("steps", "Steps", "count", width=5, priority=0, about="how many they are"),
        Field("mean_ns", "Mean", "time", priority=0, main=True, about="mean of these steps"),
        Field("median_ns", "Median", "time", priority=2, about="median of these steps"),
        Field("percent", "%", "percent", width=6, priority=0, about="share of the time of all steps"),
        Field("numbers", "Numbers", width=8, priority=1, flex=True, about="which they are; clean steps count from 1"),
        Field(
            "particular", "What they do", width=16, priority=0, flex=True, null=True,
            about='what most of the time is that they take longer; "" where nothing recorded tells',
        ),
    ),
    data=EVERY,
    reports=("kind", "steps", "mean_ns", "percent", "numbers"),
    key="kind",
    section="overview.kinds",
    page=False,
)  # fmt: skip
SERVED = Table(
    "served",
    "Serving",
    "kinds of iterations",
    (
        Field("kind", "Kind", width=8, priority=0, about="prefill, decode, mixed, draft, verify, …: as ranges say"),
        Field(
            "waits_for", "Waits for", width=9, priority=1,
            about="gpu where a GPU works for more than half of their time, else host",
        ),
        Field("busy_percent", "Busy%", "percent", width=6, priority=0, null=True, about="a GPU works, % of their time"),
        Field(
            "launches", "Calls", "number", priority=2, null=True,
            about="calls that launch GPU work, mean; a graph is one",
        ),
        Field("kernels", "Kernels", "number", priority=3, null=True, about="kernels that run, mean"),
        Field(
            "gap_ns", "Gap", "time", priority=2, null=True,
            about="from the end of its range to the begin of the next iteration's, mean",
        ),
        Field("batch", "Batch", "number", width=6, priority=0, null=True, about="requests in an iteration, mean"),
        Field("tokens", "Tokens", "number", width=7, priority=1, null=True, about="new tokens of an iteration, mean"),
        Field(
            "context", "Ctx", "number", width=7, priority=2, null=True,
            about="context: tokens that a request attends to, mean over the iterations",
        ),
        Field(
            "tokens_per_s", "Tokens/s", "number", width=9, priority=0, main=True, null=True,
            about="new tokens by the time from an iteration's begin to the next one's, or to its end if that is later",
        ),
    ),
    data=EVERY,
    reports=EVERY,
    key="kind",
    section="overview.served",
    page=False,
)  # fmt: skip
SERVED_SIZES = Table(
    "served_sizes",
    "Iterations by size",
    "sizes",
    (
        Field("kind", "Kind", width=8, priority=0, about="prefill, decode, mixed, …"),
        Field("by", "By", width=7, priority=0, about="batch (requests), tokens (new ones) or context (of a request)"),
        Field("least", "From", "number", width=7, priority=0, about="the smallest size of these iterations"),
        Field("most", "To", "number", width=7, priority=0, about="the largest"),
        Field("steps", "Steps", "count", width=5, priority=1, about="how many iterations"),
        Field("mean_ns", "Mean", "time", priority=0, main=True, about="mean of their time"),
        Field("tokens_per_s", "Tokens/s", "number", width=9, priority=0, null=True, about="as in `served`"),
    ),
    data=EVERY,
    reports=EVERY,
    key="kind",
    section="overview.served_sizes",
    page=False,
)  # fmt: skip
SERVED_WORK = Table(
    "served_work",
    "GPU work of an iteration",
    "kinds of iterations",
    (
        Field("kind", "Kind", width=8, priority=0, about="prefill, decode, mixed, …"),
        Field("gpu_ns", "GPU work", "time", priority=0, main=True, null=True, about="sum of all GPU work, as recorded"),
        Field("attention_ns", "Attention", "time", priority=0, null=True, about="kernels of attention"),
        Field(
            "attention_percent", "%roof", "percent", width=6, priority=1, null=True,
            about="what attention takes at the roof, by the tokens in the names and the heads, % of its time",
        ),
        Field("gemm_ns", "GEMM", "time", priority=0, null=True, about="kernels of matrix products"),
        Field(
            "gemm_percent", "%roof", "percent", width=6, priority=1, null=True,
            about="what they take at the roof, by their shapes, % of their time",
        ),
        Field(
            "cache_bytes", "KV read", "bytes", priority=1, null=True,
            about="keys and values of the attended tokens, which attention reads once in each layer",
        ),
        Field(
            "cache_percent", "%GPU", "percent", width=6, priority=2, null=True,
            about="what reading them takes at the memory's bandwidth, % of the GPU work",
        ),
    ),
    data=EVERY,
    reports=EVERY,
    key="kind",
    section="overview.served_work",
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
    reports=EVERY,
    section="overview.categories",
    page=False,
)
