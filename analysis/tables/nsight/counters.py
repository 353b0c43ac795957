"""What Nsight Compute measured: per launch, per kernel, per metric, its advice; and the roofline."""

from dataclasses import replace

from tracetui.analysis.tables.kernels import SHORT_NAME
from tracetui.analysis.tables.table import EVERY, Field, Table

FILE = Field("file", "File", width=8, priority=2, flex=True, about="report it is from")
MEASURED_FIELDS = (
    Field(
        "sm_percent",
        "SM",
        "percent",
        width=5,
        priority=1,
        main=True,
        null=True,
        about="compute throughput, % of the multiprocessors' peak",
    ),
    Field(
        "memory_percent",
        "Mem",
        "percent",
        width=5,
        priority=1,
        null=True,
        about="throughput of the busiest part of the memory system, % of its peak",
    ),
    Field("dram_percent", "DRAM", "percent", width=5, priority=2, null=True, about="DRAM throughput, % of its peak"),
    Field("l1_hit_percent", "L1hit", "percent", width=5, priority=3, null=True, about="L1/TEX hits, % of sectors"),
    Field("l2_hit_percent", "L2hit", "percent", width=5, priority=3, null=True, about="L2 hits, % of sectors"),
    Field(
        "occupancy_percent",
        "Occ",
        "percent",
        width=5,
        priority=2,
        null=True,
        about="achieved occupancy, % of the warps an SM can hold",
    ),
    Field(
        "theoretical_occupancy_percent",
        "Max",
        "percent",
        width=5,
        priority=4,
        null=True,
        about="occupancy that the launch allows, % of the warps an SM can hold",
    ),
    Field(
        "occupancy_limiter",
        "Limiter",
        width=9,
        priority=4,
        null=True,
        about="what allows the fewest resident blocks on an SM: `registers`, `shared memory`, `warps`, `blocks`, "
        "`barriers`",
    ),
    Field(
        "bound",
        "Bound",
        width=8,
        priority=1,
        null=True,
        about="`latency`: SM and memory below 60 %; else `compute` or `memory` if it leads by 10 points, or `balanced`",
    ),
    Field("registers", "Regs", "number", width=4, priority=5, type="whole", null=True, about="registers per thread"),
    Field(
        "waves",
        "Waves",
        "number",
        width=5,
        priority=5,
        null=True,
        about="how often its blocks fill all multiprocessors: 1.5 is one full and one half wave",
    ),
    Field(
        "tensor_percent",
        "Tensor",
        "percent",
        width=6,
        priority=6,
        null=True,
        about="tensor pipe active, % of its peak; a little in plain kernels since Hopper",
    ),
    Field(
        "tensor_cores", "TC", "flag", width=3, priority=6, null=True, about="used tensor cores, as the counters tell"
    ),
    Field(
        "dram_bytes",
        "DRAM bytes",
        "bytes",
        width=9,
        priority=7,
        type="real",
        null=True,
        about="bytes read from and written to DRAM",
    ),
    Field(
        "shared_memory",
        "Smem",
        "bytes",
        width=8,
        priority=8,
        null=True,
        about="shared memory per block, static and dynamic",
    ),
    Field("l1_percent", "L1 thr", "percent", width=5, priority=9, null=True, about="L1/TEX throughput, % of its peak"),
    Field("l2_percent", "L2 thr", "percent", width=5, priority=9, null=True, about="L2 throughput, % of its peak"),
)
"""Columns of a launch that a kernel and a configuration have as means."""
_MISSING = Field(
    "missing", kind="list", type="words", screen=False, about="sections and metrics that were not collected"
)
_NAME = Field(
    "name", "Kernel", width=18, priority=0, flex=True, short="short_name", key="kernel", about="kernel function"
)
_ADVICE = Field("advice", "Advice", "count", width=6, priority=8, about="rules of ncu that see something to gain")
_DATA = (
    "sm_percent", "memory_percent", "dram_percent", "occupancy_percent", "theoretical_occupancy_percent",
    "occupancy_limiter", "l1_hit_percent", "l2_hit_percent", "l1_percent", "l2_percent", "registers", "shared_memory",
    "waves", "tensor_percent", "tensor_cores", "dram_bytes", "bound", "missing", "rules",
)  # fmt: skip
"""What the counters of a launch and the means of a kernel have in common."""

COUNTER_LAUNCHES = Table(
    "counter_launches",
    "Profiled launches",
    "launches",
    (
        Field(
            "device_row", "#", "count", width=3, priority=0, key="launch",
            about="number of the launch, in the order of the file",
        ),
        _NAME,
        FILE,
        Field(
            "duration_ns", "ncu time", "time", priority=0, main=True, null=True,
            about="duration at the clocks that ncu set",
        ),
        *MEASURED_FIELDS,
        Field(
            "grid", "Grid", width=10, priority=4, type="whole list", null=True, about="blocks in the grid, x × y × z"
        ),
        Field(
            "block", "Block", width=8, priority=5, type="whole list", null=True,
            about="threads in a block, x × y × z",
        ),
        Field(
            "range", "NVTX range", width=12, priority=6, flex=True, tail=True, null=True,
            about="NVTX push/pop ranges around the launch, outermost first",
        ),
        _ADVICE,
        SHORT_NAME,
        Field(
            "launches", kind="count", screen=False,
            about="1, or how many launches a row of `--print-summary` stands for",
        ),
        _MISSING,
        Field(
            "rules", kind="list", screen=False,
            about="ncu's advice: `kind`, `section`, `name`, `speedup_percent`, `speedup_type`, `text`",
        ),
    ),
    data=(
        "device_row", "name", "short_name", "range", "grid", "block", "launches", "duration_ns", *_DATA,
    ),
    key="device_row",
    section="counters",
)  # fmt: skip

WHOLE_NUMBERS = ("registers", "shared_memory")
"""Whole numbers of a launch whose mean over launches may not be a whole number."""
COUNTERS = Table(
    "counters",
    "Hardware counters",
    "kernels",
    (
        _NAME,
        FILE,
        Field(
            "launches", "N", "count", width=3, priority=1, main=True,
            about="number of profiled launches; other columns are their means",
        ),
        Field(
            "duration_ns", "ncu time", "time", priority=0, main=True, null=True,
            about="mean duration of a launch, at the clocks that ncu set",
        ),
        *(replace(field, type="real") if field.name in WHOLE_NUMBERS else field for field in MEASURED_FIELDS),
        Field("total_ns", "ncu total", "time", priority=7, null=True, about="time of all profiled launches"),
        Field("duration_min_ns", "Min", "time", priority=9, null=True, about="duration of the shortest launch"),
        Field("duration_max_ns", "Max", "time", priority=9, null=True, about="duration of the longest launch"),
        Field(
            "grid", "Grid", width=10, priority=8, type="whole list", null=True,
            about="blocks in the grid; none where launches differ",
        ),
        Field(
            "block", "Block", width=8, priority=8, type="whole list", null=True,
            about="threads in a block; none where launches differ",
        ),
        _ADVICE,
        SHORT_NAME,
        _MISSING,
        Field(
            "rules", kind="list", screen=False,
            about="ncu's advice, each rule once: the keys as in `counters`, its number of `launches`, and `gain_us`: "
            "the time that its estimates add up to, where they are of the kernel's whole time",
        ),
    ),
    data=(
        "name", "short_name", "launches", "total_ns", "duration_ns", "duration_min_ns", "duration_max_ns", "grid",
        "block", *_DATA,
    ),
    reports=(
        "duration_ns", "launches", "sm_percent", "memory_percent", "dram_percent", "l1_hit_percent", "l2_hit_percent",
        "occupancy_percent", "bound", "name",
    ),
    sort=("total_ns", True),
    key="name",
    drill="launches",
    section="counters_by_kernel",
)  # fmt: skip
OCCUPANCY = (
    "theoretical_occupancy_percent", "registers", "shared_memory", "waves", "tensor_cores", "occupancy_limiter", "name",
)  # fmt: skip
"""Columns of `COUNTERS` that reports show as a separate table: what limits the occupancy."""

COUNTER_METRICS = Table(
    "counter_metrics",
    "Metrics",
    "metrics",
    (
        Field("metric", "Metric", width=24, priority=0, flex=True, about="as the file names it"),
        Field(
            "shown", "Value", width=20, priority=0,
            about="in a suitable unit, or the file's text where there is no number",
        ),
        Field(
            "section", "Section", width=12, priority=1, flex=True,
            about="section of the report; in a raw page the part of the GPU",
        ),
        Field("value", "In base units", "number", width=8, priority=4, about="number in the unit beside it"),
        Field("unit", "Unit", width=8, priority=4, about="without prefixes: ns, byte, byte/s, hz, %"),
        Field("text", "Says", width=20, priority=6, flex=True, about="a rule's advice; d shows it whole"),
    ),
)  # fmt: skip
ALL_METRICS = Table(
    "counter_all",
    "All metrics",
    "metrics",
    (
        COUNTER_METRICS.field("metric"),
        FILE,
        Field("launches", "N", "count", width=4, priority=1, main=True, about="launches that have it"),
        Field("mean", "Mean", width=8, priority=0, about="mean over those launches, each counting the same"),
        Field("least", "Min", width=8, priority=2, about="smallest value"),
        Field("most", "Max", width=8, priority=2, about="largest value"),
        Field("beside", "Unit", width=6, priority=1, about="unit, where it is not beside the number"),
        replace(COUNTER_METRICS.field("section"), priority=3),
    ),
)
SOURCE_LINES = Table(
    "source_lines",
    "Lines of the source",
    "lines",
    (
        Field("kernel", "Kernel", width=14, priority=1, flex=True, short="short_name", about="kernel"),
        Field("place", "Line", width=12, priority=0, flex=True, tail=True,
              about="file and line, or the address of an instruction"),
        Field("source", "Source", width=24, priority=0, flex=True, about="the line, or the instruction"),
        Field("samples", "Smpl", "number", width=5, priority=2, type="real", about="samples that found a warp there"),
        Field("percent", "%", "percent", width=5, main=True, null=True, about="share of the kernel's samples"),
        Field("stall", "Stall", width=9, null=True, about="what most of these waited for, as ncu names it"),
        Field("stall_percent", "Stall%", "percent", width=5, null=True, about="share of that in the line's samples"),
        Field("instructions", "Inst", "number", width=7, priority=3, type="real", about="instructions warps executed"),
        Field("sectors_per_request", "Sect/rq", "number", width=7, priority=1, type="real", null=True,
              about="32-byte sectors of global memory per execution by a warp; 4 for neighbouring numbers of 4 bytes"),
        Field("surplus_percent", "Surpl%", "percent", width=6, priority=1, null=True,
              about="share of the sectors that accesses of neighbouring addresses would not need"),
    ),
    data=EVERY,
    reports=("percent", "stall", "stall_percent", "sectors_per_request", "surplus_percent", "place", "source"),
    base="% of the kernel's samples",
)  # fmt: skip
NCU_RULES = Table(
    "counter_rules",
    "Advice of ncu",
    "rules",
    (
        Field(
            "gain_ns", "Gain", "time", priority=0, main=True,
            about="time that the profiled launches would save by ncu's estimate; only for global estimates",
        ),
        Field(
            "speedup_percent", "Est", "percent", width=5, priority=0, main=True,
            about="speed-up that ncu estimates, the mean over the launches of the rule",
        ),
        Field(
            "speedup_type", "Of", width=6, priority=3, about="global: the kernel's time; local: what the rule is about"
        ),
        Field("name", "Rule", width=18, priority=0, flex=True, about="rule of ncu"),
        Field("kernel", "Kernel", width=16, priority=1, flex=True, short="short_name", about="kernel that it is about"),
        FILE,
        Field("launches", "N", "count", width=3, priority=2, about="launches that it is about"),
        Field("kind", "Kind", width=4, priority=3, about="opt: something to gain; wrn: warning; inf: information"),
        Field("text", "Says", width=20, priority=2, flex=True, about="its advice; d shows it whole"),
        Field("section", "Section", width=12, priority=5, about="section it belongs to"),
    ),
    reports=("gain_ns", "speedup_percent", "name", "kernel"),
    base="Gain: Est% of the profiled time of its N launches",
)  # fmt: skip

ROOFLINE = Table(
    "roofline",
    "Roofline",
    "kernels",
    (
        Field(
            "letter", "Key", width=3, priority=0, null=True, about="its letter in the chart, if it is shown there"
        ),
        Field("name", "Kernel", width=18, priority=0, flex=True, short="short_name", about="kernel function"),
        Field(
            "attained_percent", "Roof", "percent", width=5, priority=0, main=True, null=True,
            about="time that the work would take at its roof, % of the time taken",
        ),
        Field(
            "bound", "Bound", width=8, priority=1, null=True,
            about="ncu's class, where it measured the kernel; else the roof if 60 % of it is attained, or `neither`",
        ),
        Field(
            "roof", "Above it", width=8, priority=3, null=True,
            about="which roof limits it: `compute` or `memory`",
        ),
        Field("gflops", "GFLOP/s", "number", width=7, priority=2, about="achieved, 10^9 FLOP per second"),
        Field("gbytes", "GB/s", "number", width=6, priority=2, about="DRAM traffic, 10^9 byte per second"),
        Field(
            "intensity", "FLOP/B", "number", width=6, priority=1, null=True,
            about="arithmetic intensity: FLOP per byte of DRAM",
        ),
        Field(
            "total_ns", "Total", "time", priority=0, main=True, null=True,
            about="time of all these launches; from counters, at the clocks that ncu set",
        ),
        Field("launches", "N", "count", width=4, priority=3, about="launches measured, or calls of the operator"),
        Field(
            "gap_ns", "Gap", "time", priority=3, null=True,
            about="time that running at the roof would save, over all these launches",
        ),
        Field(
            "origin", "From", width=8, priority=1,
            about="`counters`: what was done, in ncu's time; `shapes`: the least its operator must compute and move",
        ),
        Field(
            "precision", "Precision", width=10, priority=4, null=True,
            about="the precision that most of its FLOPs are in",
        ),
        Field(
            "compute_roof_percent", "FLOPs", "percent", width=6, priority=5, null=True,
            about="time that its arithmetic alone would take at the peak, % of the time taken",
        ),
        Field(
            "memory_roof_percent", "Bytes%", "percent", width=6, priority=5, null=True,
            about="time that its memory traffic alone would take at the peak, % of the time taken",
        ),
        Field("mflop", "MFLOP", "number", width=7, priority=6, about="10^6 FLOP per launch, the mean"),
        Field(
            "bytes", "Bytes", "bytes", width=9, priority=6, type="real", null=True,
            about="bytes of DRAM per launch, the mean",
        ),
        Field("unknown_text", "Not known", width=12, priority=7, flex=True, about="what is not known, or was assumed"),
        SHORT_NAME,
        Field("flops", kind="number", screen=False, null=True, about="FLOP per launch, the mean"),
        Field("achieved_flops", kind="number", screen=False, null=True, about="FLOP per second that it achieved"),
        Field(
            "achieved_bytes", kind="number", screen=False, null=True,
            about="bytes of DRAM per second that it achieved",
        ),
        Field(
            "peak_flops", kind="number", screen=False, null=True,
            about="FLOP per second at the peak of its mix of precisions",
        ),
        Field("unknown", kind="list", type="words", screen=False, about="what is not known, or was assumed"),
    ),
    data=(
        "letter", "name", "short_name", "origin", "launches", "total_ns", "flops", "bytes", "precision",
        "achieved_flops", "achieved_bytes", "intensity", "peak_flops", "attained_percent", "memory_roof_percent",
        "compute_roof_percent", "roof", "bound", "gap_ns", "unknown",
    ),
    reports=("letter", "attained_percent", "gflops", "gbytes", "intensity", "total_ns", "bound", "origin", "name"),
    sort=("total_ns", True),
    key="name",
)  # fmt: skip
