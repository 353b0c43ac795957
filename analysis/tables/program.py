"""What the program calls its work: operators, nn.Modules, ranges, and the functions of the host."""

from dataclasses import replace

from tracetui.analysis.tables.table import EVERY, Field, Table

GPU_TIME = "% of all GPU time"

OPERATORS = Table(
    "operators",
    "Operators",
    "operators",
    (
        Field("name", "Operator", width=20, priority=0, flex=True, about="operator, as the framework calls it"),
        Field(
            "device_self_ns", "GPU self", "time", priority=0, main=True, sums=True,
            about="GPU time of what it launched itself",
        ),
        Field(
            "percent", "%", "percent", width=5, priority=1, bar=True, main=True, null=True,
            about="own GPU time, share of all GPU time",
        ),
        Field(
            "device_total_ns", "GPU total", "time", priority=2, sums=True,
            about="GPU time of what it and the operators it called launched",
        ),
        Field(
            "host_self_ns", "CPU self", "time", priority=1, sums=True,
            about="host time in it, without what it called",
        ),
        Field(
            "host_total_ns", "CPU total", "time", priority=3, sums=True,
            about="host time in it, with what it called",
        ),
        Field("calls", "Calls", "count", width=6, priority=1, main=True, sums=True, about="number of calls"),
        Field(
            "kernels", "GPU ops", "count", width=6, priority=4, sums=True,
            about="kernels, copies and fills it launched itself",
        ),
        Field(
            "tensor_core_eligible", "TC ok", "flag", width=5, priority=6,
            about="whether an operator of this kind can use tensor cores",
        ),
        Field(
            "tensor_core_percent", "TC used", "percent", width=7, priority=7, null=True,
            about="share of its own GPU time in kernels that use tensor cores",
        ),
        Field(
            "memory_self_bytes", "Mem self", "bytes", priority=4, sums=True, null=True,
            about="GPU memory that it allocated itself, less what it freed: torch's `self_cuda_memory_usage`",
        ),
        Field(
            "memory_total_bytes", "Mem total", "bytes", priority=6, sums=True, null=True,
            about="GPU memory that it and the operators it called allocated, less what they freed",
        ),
        Field(
            "allocated_self_bytes", "Alloc self", "bytes", priority=8, sums=True, null=True,
            about="GPU memory that it allocated itself, whether or not it was freed again",
        ),
        Field(
            "allocated_total_bytes", "Alloc total", "bytes", priority=8, sums=True, null=True,
            about="GPU memory that it and the operators it called allocated, whether or not it was freed again",
        ),
    ),
    data=(
        "name", "calls", "host_self_ns", "host_total_ns", "device_self_ns", "device_total_ns", "kernels", "percent",
        "tensor_core_eligible", "tensor_core_percent", "memory_self_bytes", "memory_total_bytes",
        "allocated_self_bytes", "allocated_total_bytes",
    ),
    reports=("device_self_ns", "device_total_ns", "host_self_ns", "host_total_ns", "calls", "name"),
    base=GPU_TIME,
    sort=("device_self_ns", True),
    key="name",
    drill="kernels",
)  # fmt: skip

OPERATORS_BY_SHAPE = replace(
    OPERATORS,
    id="operator_shapes",
    title="Operators by input shape",
    fields=(
        OPERATORS.fields[0],
        Field("input_shapes", "Input shapes", width=24, priority=0, flex=True,
              about="shapes of the tensors it was given"),
        *(replace(field, priority=field.priority + 2) if field.priority else field for field in OPERATORS.fields[1:]),
    ),
    data=(),
    reports=(),
)  # fmt: skip

OPERATORS_BY_MEMORY = replace(
    OPERATORS,
    id="operator_memory",
    title="Operators by GPU memory",
    fields=tuple(
        replace(field, title=title) if (title := {"memory_self_bytes": "Self", "memory_total_bytes": "Total",
            "allocated_self_bytes": "Allocated"}.get(field.name)) else field
        for field in OPERATORS.fields
    ),
    data=(),
    reports=("memory_self_bytes", "memory_total_bytes", "allocated_self_bytes", "calls", "name"),
    base="allocated less freed",
    sort=("memory_self_bytes", True),
    section="operators",
    page=False,
)  # fmt: skip

OPERATOR_GROUPS = Table(
    "operator_groups",
    "Operators by module",
    "groups",
    (
        Field("group", "Module", width=20, priority=0, flex=True, about="module around the calls"),
        *OPERATORS.chosen(("device_self_ns", "percent", "host_self_ns", "calls")),
        Field("operators", "Operators", "count", width=9, priority=2, about="number of different operators, by name"),
        Field(
            "name", "Top operator", width=16, priority=2, flex=True, about="the operator with most of the group's time"
        ),
        OPERATORS.field("kernels"),
    ),
    base=GPU_TIME,
    sort=("device_self_ns", True),
    key="group",
    drill="operators",
)

MODULES = Table(
    "modules",
    "Modules",
    "modules",
    (
        Field(
            "name", "Module", width=20, priority=0, flex=True,
            about="nn.Module; the number tells instances apart; below it on the screen the operators and kernels that "
            "it launched itself",
        ),
        Field(
            "row_kind", "Kind", width=8, priority=6, null=True,
            about="`module`, `operator`, `kernel`, `memcpy` or `memset`",
        ),
        Field(
            "device_total_ns", "GPU total", "time", priority=0, main=True, sums=True,
            about="GPU time of what was launched inside it",
        ),
        Field(
            "percent", "%", "percent", width=5, priority=0, bar=True, main=True,
            about="share of all GPU time, forward and backward pass",
        ),
        Field(
            "device_self_ns", "GPU self", "time", priority=3, sums=True,
            about="GPU time of what was launched inside it, without the modules inside it",
        ),
        Field(
            "backward_device_ns", "Backward", "time", priority=4, sums=True,
            about="GPU time of its backward pass, which is not in the total",
        ),
        Field(
            "host_total_ns", "CPU total", "time", priority=1, sums=True, null=True, about="host time in its calls"
        ),
        Field(
            "host_self_ns", "CPU self", "time", priority=3, sums=True, null=True,
            about="host time in its calls, without the modules inside it",
        ),
        Field("kernels", "Kernels", "count", width=7, priority=2, sums=True, about="kernels launched inside it"),
        Field("calls", "Calls", "count", width=5, priority=2, main=True, sums=True, about="number of calls"),
        Field(
            "occupancy_percent", "Occup", "percent", width=5, priority=5, null=True,
            about="achieved occupancy, an estimate, mean over the time of the kernels in the GPU total",
        ),
        Field(
            "tensor_core_percent", "TC", "percent", width=5, priority=5, null=True,
            about="kernels that use tensor cores, judged by their names, % of the kernel time in the GPU total",
        ),
        Field(
            "operators", "Operators", "count", width=9, priority=8, sums=True, null=True,
            about="calls of operators directly inside it",
        ),
        Field("class_name", "Class", width=12, priority=6, null=True, about="its Python class"),
        Field(
            "path", "Path", width=24, priority=9, hidden=True,
            about="where it is in the tree: the names around it and its own, joined by `/`",
        ),
        Field("depth", kind="count", screen=False, about="number of modules around it"),
        Field(
            "kernel_ns", kind="time", screen=False,
            about="time of the kernels in the GPU total, without copies and fills: what `tensor_core_percent` is of",
        ),
        Field(
            "known_occupancy_ns", kind="time", screen=False,
            about="the part of it in kernels whose occupancy is known: what `occupancy_percent` is a mean over",
        ),
    ),
    data=(
        "path", "name", "class_name", "depth", "calls", "host_self_ns", "host_total_ns", "device_self_ns",
        "device_total_ns", "backward_device_ns", "kernels", "operators", "occupancy_percent", "tensor_core_percent",
        "kernel_ns", "known_occupancy_ns",
    ),
    reports=(
        "device_total_ns", "device_self_ns", "backward_device_ns", "host_total_ns", "occupancy_percent",
        "tensor_core_percent", "calls", "name",
    ),
    base="instances of a class merged",
    key="path",
    drill="kernels",
)  # fmt: skip

RANGES = Table(
    "ranges",
    "Ranges",
    "ranges",
    (
        Field("name", "Range", width=24, priority=0, flex=True, about="record_function or NVTX range"),
        Field(
            "host_total_ns", "CPU total", "time", priority=0, main=True, sums=True,
            about="host time of all instances",
        ),
        Field(
            "device_ns", "GPU work", "time", priority=0, sums=True, null=True,
            about="GPU time of what its thread launched inside it; none for instants and for ranges that end on "
            "another thread",
        ),
        Field(
            "device_meanwhile_ns", "Any thread", "time", priority=0, sums=True, null=True,
            about="GPU time of what any thread launched while it was open, with the backward pass, which autograd "
            "launches",
        ),
        Field(
            "device_self_ns", "GPU self", "time", priority=4, sums=True, null=True,
            about="GPU time of launches whose innermost range it is; sums to all GPU time",
        ),
        Field(
            "gpu_projected_ns", "Projected", "time", priority=2, sums=True, null=True,
            about="NVTX projection as nsys has it: from the start of the first GPU work that its own thread launched "
            "to the end of the last, summed over instances",
        ),
        Field(
            "gpu_ops", "GPU ops", "count", width=6, priority=3, sums=True, null=True,
            about="kernels, copies and fills that its thread launched inside it",
        ),
        Field("instances", "Calls", "count", width=6, priority=1, main=True, sums=True, about="number of instances"),
        Field("domain", "Domain", width=8, priority=6, about="NVTX domain; empty for none"),
        Field(
            "style", "Style", width=9, priority=8, null=True,
            about="how it was opened: `push_pop` nests, `start_end` may overlap, `cross_thread` ends on another "
            "thread, `mark` is an instant; none where that is unknown or differs",
        ),
        Field(
            "by_category", kind="list", screen=False, null=True,
            about="its GPU work by kind, the most time first: `category`, `calls`, `us`",
        ),
    ),
    data=(
        "name", "domain", "style", "instances", "host_total_ns", "gpu_projected_ns", "device_ns", "device_meanwhile_ns",
        "device_self_ns", "gpu_ops", "by_category",
    ),
    reports=("host_total_ns", "device_ns", "device_meanwhile_ns", "gpu_ops", "instances", "name"),
    base="record_function, NVTX",
    sort=("host_total_ns", True),
    key="name",
)  # fmt: skip

RANGE_TREE = Table(
    "range_tree",
    "Ranges as a tree",
    "ranges",
    (
        Field(
            "label", "Range", width=20, priority=0, flex=True,
            about="NVTX or record_function range with its domain; below it on the screen the kernels that it launched "
            "itself",
        ),
        Field("row_kind", "Kind", width=8, priority=6, null=True, about="`range`, `kernel`, `memcpy` or `memset`"),
        MODULES.field("device_total_ns"),
        RANGES.field("device_meanwhile_ns"),
        Field("percent", "%", "percent", width=5, priority=0, bar=True, main=True, about="share of all GPU time"),
        Field(
            "device_self_ns", "GPU self", "time", priority=3, sums=True,
            about="GPU time of what was launched inside it, without the ranges inside it",
        ),
        replace(RANGES.field("gpu_projected_ns"), priority=5),
        Field(
            "host_total_ns", "CPU total", "time", priority=1, sums=True, null=True,
            about="host time of all instances",
        ),
        Field(
            "host_self_ns", "CPU self", "time", priority=4, sums=True, null=True,
            about="host time of all instances, without the ranges inside",
        ),
        Field(
            "gpu_ops", "GPU ops", "count", width=7, priority=2, sums=True,
            about="kernels, copies and fills launched inside it; each counts for its innermost range",
        ),
        Field("calls", "Calls", "count", width=5, priority=2, main=True, sums=True, about="number of instances"),
        MODULES.field("path"),
        Field("name", screen=False, about="its name without the domain"),
        Field("domain", screen=False, about="NVTX domain; empty for none"),
        Field("depth", kind="count", screen=False, about="number of ranges around it"),
    ),
    data=(
        "path", "name", "domain", "depth", "calls", "host_self_ns", "host_total_ns", "gpu_projected_ns",
        "device_self_ns", "device_total_ns", "device_meanwhile_ns", "gpu_ops",
    ),
    reports=("device_total_ns", "device_meanwhile_ns", "device_self_ns", "host_total_ns", "calls", "label"),
    base="numbered ones merged",
    key="path",
    drill="kernels",
)  # fmt: skip

RANGE_TREE_KERNELS = Table(
    "range_tree_kernels",
    "Kernels under each range",
    "kernels",
    (
        Field("path", "Path", about="path of the range, as in `range_tree`"),
        Field("name", "Kernel", short="short_name", about="kernel, copy, fill or whole graph"),
        Field("short_name", screen=False, about="name without namespaces, parameters and most template arguments"),
        Field("category", "Category", about="kind of work, judged by the name"),
        Field("calls", "Calls", "count", sums=True, about="number of launches directly in the range"),
        Field(
            "device_ns", "GPU work", "time", sums=True,
            about="GPU time of those that the range's own thread launched",
        ),
        Field(
            "device_meanwhile_ns", "Any thread", "time", sums=True,
            about="GPU time of all of them: a launch whose own thread has no range belongs to the range that began "
            "last among those open; sums to all GPU time",
        ),
    ),
    data=EVERY,
    page=False,
)  # fmt: skip

MODULE_KERNELS = Table(
    "module_kernels",
    "Kernels under each module",
    "kernels",
    (
        Field("path", "Path", about="path of the module, as in `modules`"),
        Field(
            "operator", "Operator",
            about="innermost operator around the launch, of a compiled program its operation; `(not attributed)` for "
            "none",
        ),
        *RANGE_TREE_KERNELS.chosen(("name", "short_name", "category")),
        Field("calls", "Calls", "count", sums=True, about="number of launches in the module itself, in both passes"),
        Field(
            "device_ns", "GPU work", "time", sums=True,
            about="their GPU time; it sums to the module's `device_self_us`",
        ),
        Field(
            "backward_device_ns", "Backward", "time", sums=True,
            about="GPU time of its backward pass, without that of modules inside",
        ),
    ),
    data=EVERY,
    page=False,
)  # fmt: skip

HOST_FUNCTIONS = Table(
    "host",
    "Host functions",
    "functions",
    (
        Field("name", "Function", width=24, priority=0, flex=True, short="short_name", about="what the host called"),
        Field(
            "kind", "Kind", width=8, priority=2,
            about="`operator`, `python` function, nn.`module`, `runtime` or `driver` call, `overhead` of profiling",
        ),
        Field(
            "self_per_step_ns", "Self/step", "time", priority=0, main=True,
            about="own time in steps, without what it called, per step",
        ),
        Field(
            "percent", "%", "percent", width=5, priority=0, bar=True, main=True, null=True,
            about="own time in steps, share of the steps' time",
        ),
        Field("self_ns", "Self", "time", priority=3, sums=True, about="own time in scope, without what it called"),
        Field(
            "total_ns", "Total", "time", priority=1, sums=True,
            about="time in scope with what it called; recursion counted once",
        ),
        Field("calls", "Calls", "count", width=6, priority=1, main=True, sums=True, about="number of calls"),
        Field(
            "waits", "Waits", "flag", width=5, priority=2,
            about="only waits, for a lock, a file or the GPU; such rows come last",
        ),
    ),
    data=("kind", "name", "calls", "self_ns", "total_ns", "self_per_step_ns", "percent", "waits"),
    reports=("self_per_step_ns", "percent", "total_ns", "calls", "kind", "name"),
    base="% of step time",
    sort=("self_per_step_ns", True),
    key="name",
    section="host_functions",
)  # fmt: skip

HOST_LINES = Table(
    "host_lines",
    "Lines",
    "lines",
    (
        Field(
            "name", "Line", width=16, priority=0, flex=True, short="short_name",
            about="line of the program's own code; what libraries do below it counts for it",
        ),
        Field("function", "Function", width=10, priority=2, flex=True, null=True, about="the function that it is in"),
        Field(
            "step_ns", "Step", "time", priority=0, main=True, null=True,
            about="what it takes of a clean step: its share of the sampled steps, of the mean clean step",
        ),
        Field(
            "percent", "%", "percent", width=5, priority=0, bar=True, main=True, null=True,
            about="share of the sampled steps' time in which the thread was in it, waiting or not",
        ),
        Field(
            "path_percent", "Path", "percent", width=5, priority=1, main=True, null=True,
            about="percent of the critical path that is the host's work in it, by the samples of what it calls; unknown"
            " where waits are among them, and without GPU work or stacks in the recording",
        ),
        Field(
            "samples", "Samples", "count", width=7, priority=3, main=True, null=True,
            about="how many samples that is at the sampler's rate",
        ),
        Field(
            "mostly_in", "Mostly in", width=14, priority=1, flex=True, null=True,
            about="the frame of a library below it that took the longest; none where the line itself did",
        ),
        Field(
            "called_from", "Called from", width=14, priority=4, flex=True, tail=True, null=True,
            about="the program's own frames above it, the outermost first, where it took the longest",
        ),
        Field("thread", "Thread", width=10, priority=3, flex=True, about="name of the thread"),
        Field(
            "other", "Other", "flag", width=5, priority=1,
            about="of another thread than the one that runs the steps; such rows come last",
        ),
    ),
    data=EVERY,
    reports=("step_ns", "percent", "path_percent", "thread", "name", "function", "mostly_in"),
    base="% of the sampled steps",
    sort=("percent", True),
    key="name",
    drill="stacks",
)  # fmt: skip

HOST_STACKS = Table(
    "host_stacks",
    "Stacks",
    "frames",
    (
        Field(
            "name", "Stack", width=24, priority=0, flex=True,
            about="the program's own frames, each below the one that called it, and what a library did below them",
        ),
        *HOST_LINES.chosen(("step_ns", "percent")),
        Field(
            "self_percent", "Self%", "percent", width=5, priority=1, main=True, null=True,
            about="of it without what is below, % of the sampled steps",
        ),
        *HOST_LINES.chosen(("samples", "thread", "other")),
        Field("path", screen=False, about="thread and names of the frames around it, `/` between them"),
        Field("depth", kind="count", screen=False, about="number of frames around it"),
    ),
    data=("path", "name", "depth", "step_ns", "percent", "self_percent", "samples", "thread", "other"),
    reports=("step_ns", "percent", "self_percent", "name"),
    base="% of the sampled steps",
    key="path",
    drill="frames below",
)  # fmt: skip

API_CALLS = Table(
    "api",
    "API calls",
    "functions",
    (
        Field("name", "Function", width=24, priority=0, flex=True, about="call into the GPU's runtime or driver"),
        Field("total_ns", "Total", "time", priority=0, main=True, sums=True, about="sum of the durations of all calls"),
        Field(
            "percent", "%", "percent", width=5, priority=1, bar=True, main=True,
            about="share of the time in all API calls",
        ),
        Field("calls", "Calls", "count", width=6, priority=1, main=True, sums=True, about="number of calls"),
        Field("mean_ns", "Mean", "time", priority=2, about="mean duration of a call"),
        Field("median_ns", "Median", "time", priority=3, about="median duration of a call"),
        Field("max_ns", "Max", "time", priority=4, about="duration of the longest call"),
        Field("min_ns", "Min", "time", priority=5, about="duration of the shortest call"),
        Field("std_ns", "Std", "time", priority=5, about="sample standard deviation of the durations"),
    ),
    data=("name", "calls", "total_ns", "mean_ns", "median_ns", "min_ns", "max_ns", "std_ns", "percent"),
    reports=("total_ns", "calls", "mean_ns", "max_ns", "name"),
    base="% of the time in all API calls",
    sort=("total_ns", True),
    key="name",
)  # fmt: skip

API_LAUNCHES = Table(
    "host_launches",
    "Launches",
    "launches",
    (
        Field("at_ns", "At", "time", width=9, priority=0, about="time since the recording began"),
        Field("cpu_ns", "CPU", "time", priority=0, main=True, about="duration of the launching call"),
        Field("gpu_ns", "GPU", "time", priority=0, about="duration of the work it started"),
        Field("delay_ns", "Delay", "time", priority=1, about="from the end of the call to the start of the work"),
        Field("kernel", "Started", width=16, priority=1, flex=True, short="short_name",
              about="the first activity it started"),
        Field("api", "Call", width=16, priority=2, flex=True, about="the call into the runtime or driver"),
    ),
    sort=("at_ns", False),
)  # fmt: skip

_PARTS = (
    ("kernel", "Kernels"), ("communication", "Comm"), ("memcpy", "Memcpy"), ("memset", "Memset"),
    ("runtime", "Runtime"), ("dataloader", "Loader"), ("cpu_exec", "CPU exec"), ("other", "Other"),
)  # fmt: skip
ITERATIONS = Table(
    "iterations",
    "Steps",
    "steps",
    (
        Field("index", "Step", "count", width=5, priority=0, about="number of the step"),
        Field("kind", "Kind", width=10, priority=1, null=True, about="phase or kind of the step, where they differ"),
        Field("at_ns", "At", "time", priority=3, about="when it began, since the recording did"),
        Field("duration_ns", "Time", "time", priority=0, bar=True, main=True, about="how long it took, as recorded"),
        *(
            Field(
                f"{part}_ns", title, "time", priority=2, about=f"its part that is {title.lower()}, and none before it"
            )
            for part, title in _PARTS
        ),
        Field("name", "Name", width=14, priority=3, flex=True, about="the range that it was marked by"),
    ),
    sort=("index", False),
    key="index",
    drill="timeline",
)
