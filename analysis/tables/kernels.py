"""Kernels and what they are grouped by; their launches; copies and fills; collectives."""

from dataclasses import replace

from tracetui.analysis.tables.table import Field, Table

USES, UNCLEAR = "*", "?"
"""Signs behind a kernel's time: it runs on tensor cores; it is matrix work of which neither name nor counters tell."""

KERNEL_TIME = "% of kernel time in scope"
SHORT_NAME = Field("short_name", screen=False, about="name without namespaces, parameters and most template arguments")
_PEAK = "of peak, mean of the launches that ncu measured"

MEASURED = (
    Field("measured_sm_percent", "SM", "percent", width=5, priority=2, about=f"multiprocessors, {_PEAK}"),
    Field("measured_memory_percent", "Mem", "percent", width=5, priority=2, about=f"memory system, {_PEAK}"),
    Field("measured_dram_percent", "DRAM", "percent", width=5, priority=5, about=f"DRAM, {_PEAK}"),
    Field("measured_l1_hit_percent", "L1", "percent", width=5, priority=6, about="hits, of L1 sectors; by ncu"),
    Field("measured_l2_hit_percent", "L2", "percent", width=5, priority=6, about="hits, of L2 sectors; by ncu"),
    Field("measured_occupancy_percent", "Occ", "percent", width=5, priority=4, about="achieved occupancy, by ncu"),
    Field("measured_bound", "Bound", width=7, priority=2, about="by ncu's shares of SM and memory system"),
    Field("measured_theoretical_occupancy_percent", "Max occ", "percent", width=5, priority=8, about="as launched"),
    Field("measured_occupancy_limiter", "Limiter", width=9, priority=8, about="what allows the fewest blocks per SM"),
    Field("measured_launches", "By ncu", "count", width=6, priority=8, about="launches that ncu measured"),
)
"""What Nsight Compute measured of a kernel, shown beside its times where the run holds that."""

KERNELS = Table(
    "kernels",
    "Kernels",
    "kernels",
    (
        Field(
            "name", "Kernel", width=22, priority=0, flex=True, short="short_name", full="full_name",
            about="kernel function",
        ),
        Field(
            "total_ns", "Total", "time", priority=0, main=True, sums=True, null=True, mark="tensor_mark",
            about="sum of the durations of all calls",
        ),
        Field(
            "percent", "%", "percent", width=5, priority=0, bar=True, main=True, null=True,
            about="share of all kernel time",
        ),
        Field("calls", "Calls", "count", width=6, priority=1, main=True, sums=True, about="number of launches"),
        Field("mean_ns", "Mean", "time", priority=2, null=True, about="mean duration of a call"),
        Field(
            "module", "Module", width=10, priority=3, flex=True, null=True,
            about="nn.Module that launched most of its time",
        ),
        Field(
            "line", "Line", width=14, priority=9, flex=True, null=True,
            about="Python function of the program's own code that launched most of its time, or whose gradients it "
            "computes: `train.py(12): step`",
        ),
        Field(
            "occupancy_percent", "Occup", "percent", width=5, priority=5, null=True,
            about="achieved occupancy, an estimate, % of the warps an SM can hold",
        ),
        Field(
            "tensor_cores", "TC", "flag", width=3, priority=6, null=True,
            about="uses tensor cores, judged by its name unless Nsight Compute measured it; unknown on devices that "
            "are no GPUs of NVIDIA or AMD",
        ),
        Field("category", "Category", width=11, priority=6, about="kind of work, judged by its name"),
        Field(
            "operator", "Operator", width=14, priority=6, flex=True, null=True,
            about="operator that launched most of its time",
        ),
        Field("median_ns", "Median", "time", priority=7, null=True, about="median duration of a call"),
        Field("min_ns", "Min", "time", priority=9, null=True, about="duration of the shortest call"),
        Field("max_ns", "Max", "time", priority=8, null=True, about="duration of the longest call"),
        Field("std_ns", "Std", "time", priority=9, null=True, about="sample standard deviation of the durations"),
        Field(
            "blocks_per_sm", "Blk/SM", "number", width=6, priority=8, null=True,
            about="blocks of a launch per multiprocessor of the GPU",
        ),
        Field(
            "registers", "Regs", "number", width=4, priority=8, type="whole", null=True,
            about="registers per thread, the most of all calls",
        ),
        Field(
            "shared_memory", "Smem", "bytes", width=8, priority=9, null=True,
            about="shared memory per block, the most of all calls",
        ),
        Field(
            "in_steps_ns", "In steps", "time", priority=10, sums=True, null=True,
            about="the part of the total that was launched in steps; none without steps",
        ),
        Field(
            "range", "Range", width=14, priority=6, flex=True, null=True,
            about="innermost range that launched most of its time",
        ),
        Field(
            "kernel_file", screen=False, null=True,
            about="of a kernel that Inductor made: the file that it wrote it to, whose name is its hash",
        ),
        Field(
            "source_nodes", screen=False, null=True,
            about="names of the graph's nodes that it computes, by a graph's generated file beside the recording",
        ),
        SHORT_NAME,
        Field(
            "tensor_cores_from", screen=False,
            about="source of the tensor-core column: `counters` where Nsight Compute measured the kernel, else `name`",
        ),
        Field(
            "modules", kind="list", screen=False,
            about="nn.Modules that launched it, the most time first: `path`, `calls`, `us`",
        ),
        Field(
            "operators", kind="list", screen=False,
            about="operators that launched it, the most time first: `name`, `calls`, `us`",
        ),
        Field(
            "p95_ns", "P95", "time", screen=False, null=True,
            about="the shortest duration that 95 % of the calls don't exceed",
        ),
        Field(
            "distribution", kind="list", type="object", screen=False, null=True,
            about="histogram of durations: `counts` of the bins between `edges_us`, of which there is one more; "
            "`log`: whether each bin is wider than the last by a factor; none where all calls take the same time",
        ),
        Field(
            "counters", kind="list", type="object", screen=False,
            about="means over the launches that Nsight Compute measured, where the run holds such a recording; else "
            "empty",
        ),
    ),
    data=(
        "name", "short_name", "category", "calls", "total_ns", "in_steps_ns", "percent", "mean_ns", "median_ns",
        "min_ns", "max_ns", "std_ns", "occupancy_percent", "blocks_per_sm", "registers", "shared_memory",
        "tensor_cores", "tensor_cores_from", "module", "operator", "range", "modules", "operators", "p95_ns",
        "distribution", "counters", "line", "kernel_file", "source_nodes",
    ),
    reports=("total_ns", "percent", "calls", "mean_ns", "occupancy_percent", "name", "module"),
    base=KERNEL_TIME,
    sort=("total_ns", True),
    key="name",
    drill="launches",
)  # fmt: skip

_GROUPED = tuple(
    field
    for field in KERNELS.fields
    if field.name not in ("name", "module", "operator", "range", "line", "kernel_file", "source_nodes")
)
_TOTALS = 3
"""Columns of a group's totals, before what the group consists of."""
KERNEL_GROUPS = Table(
    "kernel_groups",
    "Kernels by group",
    "groups",
    (
        Field("group", "Group", width=22, priority=0, flex=True, about="what the kernels have in common"),
        *_GROUPED[:_TOTALS],
        Field("kernels", "Kernels", "count", width=7, priority=1, about="number of different kernels, by name"),
        Field(
            "name", "Top kernel", width=14, priority=2, flex=True, short="short_name", full="full_name",
            about="the kernel with most of the group's time",
        ),
        *_GROUPED[_TOTALS:],
    ),
    data=(
        "group", "kernels", "name", "short_name", "calls", "total_ns", "in_steps_ns", "percent", "mean_ns",
        "median_ns", "min_ns", "max_ns", "std_ns", "occupancy_percent", "blocks_per_sm", "registers", "shared_memory",
    ),
    reports=("total_ns", "percent", "calls", "mean_ns", "kernels", "group", "name"),
    base=KERNEL_TIME,
    sort=("total_ns", True),
    key="group",
    drill="kernels",
)  # fmt: skip

LAUNCHES = Table(
    "launches",
    "Launches",
    "launches",
    (
        Field("at_ns", "At", "time", width=9, priority=0, about="time since the recording began"),
        Field("duration_ns", "Duration", "time", priority=0, main=True, about="time on the GPU"),
        Field("step", "Step", "number", width=4, priority=2, about="step that launched it"),
        Field("stream", "Stream", "number", width=4, priority=4, about="CUDA stream"),
        Field("grid", "Grid", width=10, priority=2, about="blocks in the grid, x × y × z"),
        Field("block", "Block", width=8, priority=3, about="threads in a block"),
        Field("delay_ns", "Delay", "time", priority=3, about="from the end of the launch call to the kernel's start"),
        Field(
            "module", "Module", width=14, priority=1, flex=True, tail=True,
            about="path of the nn.Module call around the launch",
        ),
        Field("operator", "Operator", width=14, priority=5, flex=True, about="innermost operator around the launch"),
        Field("device", "GPU", "number", width=3, priority=6, about="device id"),
        Field("registers", "Regs", "number", width=4, priority=7, about="registers per thread"),
        Field("shared_memory", "Smem", "bytes", width=8, priority=8, about="shared memory per block"),
        Field("occupancy_percent", "Occup", "percent", width=5, priority=7, about="achieved occupancy, an estimate"),
        Field("blocks_per_sm", "Blk/SM", "number", width=6, priority=8, about="blocks per multiprocessor"),
        Field("range", "Range", width=14, priority=6, flex=True, tail=True, about="range around the launch"),
        Field("line", "Line", width=14, priority=9, flex=True, about="the program's own frame around the launch"),
        Field(
            "source_nodes", "Nodes", width=14, priority=9, flex=True,
            about="names of the graph's nodes that a kernel of Inductor computes",
        ),
        Field("source_lines", "Source", width=14, priority=9, flex=True, about="the program's lines that it computes"),
        Field("kernel_file", "File", width=14, priority=9, flex=True, tail=True, about="the file Inductor wrote it to"),
    ),
    sort=("at_ns", False),
    key="row",
)  # fmt: skip

_OF_KERNEL = (
    Field("ns", "Total", "time", priority=0, main=True, about="time of this kernel launched from there"),
    Field("percent", "%", "percent", width=5, priority=0, bar=True, main=True, about="share of this kernel's time"),
    Field("calls", "Calls", "count", width=6, priority=1, main=True, about="launches from there"),
)
_PATH = Field("path", "Module", width=30, priority=0, flex=True, tail=True, about="path in the tree of nn.Modules")


def _of_kernel(noun: str, first: Field, drill: str = "kernels") -> Table:
    """What launches a kernel, the most time first."""
    fields = (first, *_OF_KERNEL)
    title = f"{noun.capitalize()} of a kernel"
    return Table(f"kernel_{noun}", title, noun, fields, sort=("ns", True), key=first.name, drill=drill)


KERNEL_MODULES = _of_kernel("modules", _PATH)
KERNEL_RANGES = _of_kernel("ranges", replace(_PATH, title="Range", about="path in the tree of ranges"))
KERNEL_OPERATORS = _of_kernel(
    "operators", Field("name", "Operator", width=30, priority=0, flex=True, about="innermost operator")
)
_LINE = "the program's own Python function around the launches, or whose gradient they compute"
KERNEL_LINES = _of_kernel(
    "lines", Field("name", "Program line", width=30, priority=0, flex=True, tail=True, about=_LINE), "launches"
)

MEMOPS = Table(
    "memops",
    "Copies and fills",
    "kinds of copies and fills",
    (
        Field(
            "name", "Operation", width=30, priority=0, flex=True,
            about="operation with its direction, as nsys names it",
        ),
        Field("total_ns", "Total", "time", priority=0, main=True, sums=True, about="sum of the durations"),
        Field(
            "calls", "Calls", "count", width=6, priority=1, main=True, sums=True,
            about="number of copies or fills",
        ),
        Field("mean_ns", "Mean", "time", priority=2, about="mean duration of one"),
        Field("bytes", "Bytes", "bytes", width=9, priority=1, sums=True, null=True, about="bytes moved or filled"),
        Field(
            "throughput_gbps", "GB/s", "number", width=6, priority=1, null=True,
            about="bytes by total time, in 10^9 bytes per second",
        ),
        Field(
            "line", "Line", width=14, priority=2, flex=True, null=True,
            about="the program's own frame that launched most of its time; none where no stack was recorded",
        ),
        Field("kind", screen=False, about="`memcpy` or `memset`"),
    ),
    data=("kind", "name", "calls", "total_ns", "mean_ns", "bytes", "throughput_gbps", "line"),
    reports=("total_ns", "calls", "mean_ns", "bytes", "throughput_gbps", "name"),
    sort=("total_ns", True),
    key="name",
)  # fmt: skip

COMMUNICATION = Table(
    "communication",
    "Communication",
    "collectives",
    (
        Field("name", "Collective", flex=True, short="short_name", about="kernel function of the collective"),
        Field("total_ns", "Total", "time", null=True, about="sum of the durations of all calls"),
        Field("calls", "Calls", "count", about="number of launches"),
        Field("mean_ns", "Mean", "time", null=True, about="mean duration of a call"),
        Field("percent", "%", "percent", null=True, about="share of all kernel time"),
        SHORT_NAME,
    ),
    data=("name", "short_name", "calls", "total_ns", "mean_ns", "percent"),
    reports=("total_ns", "calls", "mean_ns", "name"),
    base=KERNEL_TIME,
    sort=("total_ns", True),
    key="name",
    section="communication.kernels",
    page=False,
)
