"""The columns of the Counters tab's tables."""

from __future__ import annotations

from tracetui.app.tables.columns import Column

FILE = Column("file", "File", width=8, priority=2, flex=True, about="report it is from")
MEASURED = (
    Column(
        "sm_percent", "SM%", "percent", width=5, priority=1, main=True, about="compute throughput, of the SMs' peak"
    ),
    Column(
        "memory_percent", "Mem%", "percent", width=5, priority=1, about="busiest part of the memory system, of its peak"
    ),
    Column("dram_percent", "DRAM%", "percent", width=5, priority=2, about="DRAM throughput, of its peak"),
    Column("l1_hit_percent", "L1hit%", "percent", width=5, priority=3, about="L1/TEX hit rate, of sectors"),
    Column("l2_hit_percent", "L2hit%", "percent", width=5, priority=3, about="L2 hit rate, of sectors"),
    Column(
        "occupancy_percent",
        "Occ%",
        "percent",
        width=5,
        priority=2,
        about="achieved occupancy, of the warps an SM can hold",
    ),
    Column(
        "theoretical_occupancy_percent",
        "Max%",
        "percent",
        width=5,
        priority=4,
        about="occupancy that the launch allows",
    ),
    Column(
        "occupancy_limiter", "Limiter", width=9, priority=4, about="what allows the fewest resident blocks on an SM"
    ),
    Column(
        "bound", "Bound", width=8, priority=1, about="latency: SM and memory below 60 %; else which leads by 10 points"
    ),
    Column("registers", "Regs", "number", width=4, priority=5, about="registers per thread"),
    Column("waves", "Waves", "number", width=5, priority=5, about="waves of blocks on all SMs"),
    Column(
        "tensor_percent",
        "Tensor%",
        "percent",
        width=6,
        priority=6,
        about="tensor pipe active, of its peak; a little in plain kernels since Hopper",
    ),
    Column("tensor_cores", "TC", "flag", width=3, priority=6, about="used tensor cores, as the counters tell"),
    Column("dram_bytes", "DRAM bytes", "bytes", width=9, priority=7, about="read from and written to DRAM"),
    Column("shared_memory", "Smem", "bytes", width=8, priority=8, about="shared memory per block, static and dynamic"),
    Column("l1_percent", "L1 thr%", "percent", width=5, priority=9, about="L1/TEX throughput, of its peak"),
    Column("l2_percent", "L2 thr%", "percent", width=5, priority=9, about="L2 throughput, of its peak"),
)
KERNELS = (
    Column("name", "Kernel", width=18, priority=0, flex=True, short="short_name", about="kernel function"),
    FILE,
    Column(
        "launches",
        "N",
        "count",
        width=3,
        priority=1,
        main=True,
        about="profiled launches; the other columns are their means",
    ),
    Column(
        "duration_ns", "Duration", "time", priority=0, main=True, about="mean time of a launch, at the clocks ncu set"
    ),
    *MEASURED,
    Column("total_ns", "Total", "time", priority=7, about="time of all profiled launches"),
    Column("duration_min_ns", "Min", "time", priority=9, about="shortest launch"),
    Column("duration_max_ns", "Max", "time", priority=9, about="longest launch"),
    Column("grid", "Grid", width=10, priority=8, about="blocks in the grid; empty where launches differ"),
    Column("block", "Block", width=8, priority=8, about="threads in a block; empty where launches differ"),
    Column("advice", "Advice", "count", width=6, priority=8, about="rules of ncu that see something to gain"),
)
LAUNCHES = (
    Column("device_row", "#", "count", width=3, priority=0, about="launch, in the order of the file"),
    Column("name", "Kernel", width=18, priority=0, flex=True, short="short_name", about="kernel function"),
    FILE,
    Column("duration_ns", "Duration", "time", priority=0, main=True, about="time at the clocks ncu set"),
    *MEASURED,
    Column("grid", "Grid", width=10, priority=4, about="blocks in the grid, x × y × z"),
    Column("block", "Block", width=8, priority=5, about="threads in a block"),
    Column(
        "range", "NVTX range", width=12, priority=6, flex=True, tail=True, about="push/pop ranges around the launch"
    ),
    Column("advice", "Advice", "count", width=6, priority=8, about="rules of ncu that see something to gain"),
)
METRICS = (
    Column("metric", "Metric", width=24, priority=0, flex=True, about="as the file names it"),
    Column("shown", "Value", width=20, priority=0, about="in the unit that suits it, or what the file says instead"),
    Column(
        "section",
        "Section",
        width=12,
        priority=1,
        flex=True,
        about="section of the report; in a raw page the part of the GPU",
    ),
    Column("value", "In base units", "number", width=8, priority=4, about="number in the unit beside it"),
    Column("unit", "Unit", width=8, priority=4, about="without prefixes: ns, byte, byte/s, hz, %"),
    Column("text", "Says", width=20, priority=6, flex=True, about="a rule's advice; d shows it whole"),
)
ALL_METRICS = (
    METRICS[0],
    FILE,
    Column("launches", "N", "count", width=4, priority=1, main=True, about="launches that have it"),
    Column("mean", "Mean", width=12, priority=0, about="mean over those launches, each counting the same"),
    Column("least", "Min", width=12, priority=3, about="smallest value"),
    Column("most", "Max", width=12, priority=3, about="largest value"),
    METRICS[2],
)
RULES = (
    Column(
        "gain_ns",
        "Gain",
        "time",
        priority=0,
        main=True,
        about="what ncu's estimate makes of the profiled launches' time; only of global estimates",
    ),
    Column(
        "speedup_percent",
        "Est%",
        "percent",
        width=5,
        priority=0,
        main=True,
        about="speed-up that ncu estimates, the mean where it speaks of several launches",
    ),
    Column("speedup_type", "Of", width=6, priority=3, about="global: the kernel's time; local: what the rule is about"),
    Column("name", "Rule", width=18, priority=0, flex=True, about="rule of ncu"),
    Column("kernel", "Kernel", width=16, priority=1, flex=True, short="short_name", about="kernel it speaks of"),
    FILE,
    Column("launches", "N", "count", width=3, priority=2, about="launches it speaks of"),
    Column("kind", "Kind", width=4, priority=3, about="opt: something to gain; wrn: warning; inf: information"),
    Column("text", "Says", width=20, priority=2, flex=True, about="its advice; d shows it whole"),
    Column("section", "Section", width=12, priority=5, about="section it belongs to"),
)
