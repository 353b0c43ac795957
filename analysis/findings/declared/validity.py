"""Rules on the measurement: is the recording complete, did it run what was asked for, at full speed?"""

from tracetui.analysis.findings.declared.rule import Rule, Threshold, chosen

V9 = Rule(
    "V9",
    "GPU events are missing",
    needs=("timeline",),
    refutes=("gpu", "shares"),
    advice="On a desktop or server: check that no other profiler holds CUPTI, and that torch's CUPTI fits the driver. "
    "On Jetson before CUDA 13: run as root. `tracetui doctor` tests both.",
    source="Kineto; CUPTI on Tegra needs root",
    compared="kernel time above 0",
    explanation="""
    Kernels were launched, but the recording holds none, or none that takes time.

    The rule counts calls such as `cudaLaunchKernel` and `cudaGraphLaunch`, and kernels and whole graphs on the device.
    run.json, or memory allocated on a GPU, also prove that the run used one. Usually CUPTI was not allowed to see the
    GPU, which drivers report to nobody; or Kineto was asked for counters, and recorded these in place of kernels. Every
    figure about the GPU would be 0, so findings that rest on such figures are suppressed.""",
)

V10 = Rule(
    "V10",
    "Times that can't be",
    needs=("timeline", "gpu"),
    refutes=("whole", "steps", "shares"),
    doubts=("host", "whole", "steps"),
    remark="the clocks of host and GPU do not agree here: gaps and waits are not reliable",
    thresholds={
        "share_percent": chosen(1, "%", "of the launched work that begins before its launch"),
        "slack_us": chosen(1, "us", "by which a kernel may begin before its launch: the clocks' resolution"),
        "early_us": chosen(50, "us", "by which it begins before its launch, so that no gap can be trusted"),
        "late_s": chosen(3600, "s", "that work waits for its start on an idle GPU: no program waits so long"),
    },
    advice="Record again; if it stays, with another version of CUPTI. Treat gaps and waiting times as unknown till"
    " then.",
    source="torch.profiler's trace validator",
    compared="{share_percent} of either, by more than {slack_us} µs",
    explanation="""
    Work begins before the call that launched it, or hours after it on an idle GPU, or events end before they begin.

    The profiler converts the GPU's clock to the host's. If that goes wrong, kernels seem to run before their launch,
    and no conclusion about who waits for whom is valid. The rule compares the start of each activity with the start of
    its API call.""",
)

V11 = Rule(
    "V11",
    "Empty capture",
    refutes=("gpu", "shares", "whole"),
    advice="Call cudaProfilerStart() and cudaProfilerStop() around the steps (PyTorch: torch.cuda.cudart()), or leave "
    "--capture-range (nsys) and --profile-from-start off (ncu) out.",
    source="NVIDIA's guides to nsys and ncu",
    compared="at least one CUDA event",
    explanation="""
    A capture by Nsight Systems without a single CUDA row, or one by Nsight Compute without a launch.

    The usual cause: `--capture-range=cudaProfilerApi` waits for a `cudaProfilerStart()` that the program never calls.
    A program without CUDA leaves the same file. It proves nothing, least of all that the GPU is idle.""",
)

V12 = Rule(
    "V12",
    "Names that were not resolved",
    doubts=("gpu", "shares"),
    remark="some kernels have no name, so that what is told by names (kinds of kernels, tensor cores) is incomplete",
    thresholds={"share_percent": chosen(1, "%", "of the kernel launches, or of the ranges, without a name")},
    advice="Export the report again with the nsys that made it (nsys export --type=sqlite); a script of your own must "
    "join demangledName, shortName and textId with StringIds.",
    compared="{share_percent} of either",
    explanation="""
    Kernels whose name is a number or missing, and ranges without a text.

    An nsys export stores names in another table and refers to them by id. Without a join a kernel is called "1173", and
    a reader may conclude that the run has no GEMM and no softmax. The rule counts launches, and NVTX or
    record_function ranges.""",
)

V16 = Rule(
    "V16",
    "Truncated file",
    refutes=("whole",),
    advice="Record again; let the profiler finish writing, and keep the disk from filling up.",
    compared="a file that is whole",
    explanation="""
    The file ends before the recording does.

    JSON may lack its end, a gzip or pickle stream may stop early, a table may be unreadable from some row on, rows may
    remain in a write-ahead log, or the user may have stopped loading. What could be recovered is shown; sums over the
    whole recording lack the rest.""",
)

V17 = Rule(
    "V17",
    "Dropped events",
    needs=("timeline",),
    refutes=("gpu", "shares", "whole", "steps"),
    doubts=("gpu", "shares", "whole", "steps"),
    remark="events are missing from the recording: sums are too small, gaps may be none",
    thresholds={
        "share_percent": chosen(1, "%", "of the launches whose kernel is not in the recording"),
        "refuted_percent": chosen(10, "%", "of the launches, so that sums and gaps are void"),
    },
    advice="Record for a shorter time, with fewer kinds of events, or with larger buffers.",
    source="CUPTI's count of dropped records; diagnostics of Nsight Systems",
    compared="{share_percent} of the launches, or any that the profiler counts",
    explanation="""
    The profiler lost events.

    Either the profiler says so, or launches were recorded without their kernels: each `cudaLaunchKernel` and
    `cudaGraphLaunch` must have its activity, except inside the capture of a graph; each replay of a graph must have all
    kernels that any replay of it has. Or more than a tenth of what runs on streams on which the file launched something
    has no launch. Of three or more steps with the same operators, one may have lost more than a tenth of its launches
    with their kernels in one part of it, or over its end; or a step lacks operators where nothing at all begins for as
    long as other steps need for them. Or more than a tenth of the events of the file can't be read. Nsight Systems
    warns at the end of nearly every capture that "not all events might have been collected". Where each launch has its
    kernel, that is told for information, and takes nothing away; what is said to be missing of ranges makes steps
    doubtful, of samples and calls of the system nothing else.""",
)

V2 = Rule(
    "V2",
    "Impossible shares",
    needs=("timeline",),
    refutes=("shares",),
    thresholds={
        "part_percent": Threshold(100, "%", "of the longest step, which a part of a step may take"),
        "overlap_percent": chosen(5, "%", "by which steps may add up to more than the time they take"),
    },
    advice="Look for a step that was cut short (out of memory?), and compare a part only with the whole it was in.",
    explanation="""
    A part that takes longer than its whole.

    The lower median over all instances of a range that occurs inside steps exceeds the longest step, so its share would
    be above 100 %. This happens if a step was cut short, for example because memory ran out, or if other work uses the
    same name. The rule also reports overlapping steps, whose times add up to more than the time that passed.""",
)

V13 = Rule(
    "V13",
    "Ranges on the host are not GPU time",
    needs=("timeline", "annotations", "gpu"),
    doubts=("ranges",),
    remark="ranges last as long as the host needs, which here is not what their work takes on the GPU",
    thresholds={
        "low_ratio": chosen(0.67, "x", "GPU time of a range over its host time"),
        "high_ratio": chosen(1.5, "x", "GPU time of a range over its host time"),
        "least_percent": chosen(1, "%", "of the time that a range must take to count"),
    },
    advice="Take the projected time for what a range costs on the GPU, the host's for what it costs to launch; "
    "neither stands for the other.",
    source="nvtx_gpu_proj_sum of Nsight Systems",
    compared="outside of {low_ratio} to {high_ratio}",
    explanation="""
    A range's time on the host differs from the time of its work on the GPU.

    The projection of a range is the time from the first start to the last end of the GPU work that was launched while
    it was open. The rule divides it by how long the range was open on the host. CUDA calls return before their work is
    done, so a range lasts as long as launching takes (shorter than the work) or preparing (longer). Ranges that torch
    itself sets do not count.""",
)

V3 = Rule(
    "V3",
    "Scope mismatch",
    needs=("timeline", "gpu"),
    doubts=("steps",),
    remark="what was recorded is not just whole, equal steps: do not divide sums over the recording by steps",
    thresholds={
        "outside_percent": chosen(5, "%", "of the GPU time that is launched outside of the steps"),
        "spread_percent": chosen(5, "%", "of the median, between the steps with most and fewest kernels"),
        "over_percent": chosen(5, "%", "by which kernels may take more than the time there is"),
    },
    advice="Cut the numbers to the steps (--steps, --skip-steps), and keep warm-up out of the capture.",
    compared="more than {outside_percent}",
    explanation="""
    Sums over the recording are not a multiple of one step.

    GPU work was launched outside of the steps (warm-up, evaluation), steps have different numbers of kernels (one was
    cut off, or does other work), or there is more kernel time than wall time times streams. Dividing the sum of such a
    recording by its steps, or comparing it with one forward pass, compares different work.""",
)

V6 = Rule(
    "V6",
    "Warm-up in the data",
    needs=("timeline",),
    doubts=("steps", "whole"),
    remark="the first step is a warm-up: leave it out (--skip-steps 1) before trusting averages",
    thresholds={
        "first_ratio": chosen(1.5, "x", "the first step's time over the median of the others"),
        "average_percent": chosen(10, "%", "by which the first step raises the average, so that no average holds"),
        "load_percent": chosen(1, "%", "of the time goes to loading GPU code"),
    },
    advice="Leave the first steps out (--skip-steps 1), or record after more warm-up steps.",
    source="warm-up advice of NVIDIA's TensorRT-LLM tools",
    compared="{first_ratio} times the median, or {load_percent} of loading",
    explanation="""
    The first step takes longer than the others, or GPU code is loaded during the measurement.

    The rule divides the first step's time by the median of the rest, unless one is as slow again after a usual
    one: such steps are the program's. It also divides the time of calls such as `cuLibraryLoadData` and
    `cuModuleLoad`, which load kernels onto the GPU at their first use, by the time of the steps, or from first to last
    GPU work; only what lies within counts. Steps and calls are those that the averages shown are of: of the light
    recording where the run has one.""",
)

V7 = Rule(
    "V7",
    "Noisy steps",
    needs=("timeline",),
    thresholds={
        "cv_percent": chosen(5, "%", "standard deviation of the steps over their mean"),
        "tail_ratio": Threshold(2, "x", "slowest step over the median"),
        "warning_percent": chosen(25, "%", "of the mean, from which on the interval makes it a warning"),
    },
    advice="Record more steps before believing differences smaller than this interval.",
    compared="{cv_percent}, or a step {tail_ratio} times as long as the median",
    explanation="""
    The steps' times vary so much that small differences mean nothing.

    The rule divides the standard deviation by the mean and the slowest step by the median, of the steps of the typical
    kind: what others take is S28's. The interval is the 95 % interval of the mean by Student's t.""",
)

V29 = Rule(
    "V29",
    "Setup inside what is analysed",
    needs=("timeline", "gpu"),
    doubts=("whole",),
    remark="the program's setup is part of the time that shares and gains are of",
    thresholds={
        "share_percent": chosen(10, "%", "of the time from first to last GPU work, before a kernel computes"),
        "critical_percent": chosen(25, "%", "of it, from which nothing can be said about the rest"),
    },
    advice="Start the recording after the setup, or mark the steps.",
    compared="{share_percent} or more, in a recording without steps",
    explanation="""
    The recording has no steps, and begins with weights that are made, loaded and copied.

    Without steps, shares and gains are of the time from the first GPU work to the last. The rule takes the part of it
    before the first kernel that does not just copy or fill memory. That is setup if initialisers of weights
    (`aten::uniform_`, `torch/nn/init.py`, ranges such as ``load_model``), at least twenty copies to the GPU, or calls
    that load GPU code show it. What a program does once says nothing about what it does in each step.""",
)

V19 = Rule(
    "V19",
    "The clocks of GPU and host disagree",
    needs=("timeline", "gpu"),
    doubts=("host", "whole", "steps"),
    remark="the GPU's times do not fit the host's: gaps, waits and the ends of steps are not what they seem",
    thresholds={
        "late_us": chosen(200, "us", "from the launch to the start on an idle GPU, where healthy clocks give 4 to 30"),
        "early_us": chosen(
            200, "us", "from the end of all work to the return of a call that waited for it, where they give 5 to 30"
        ),
    },
    advice="Record again, with another version of CUPTI if it stays; till then trust durations, not gaps.",
    compared="more than {late_us} µs",
    explanation="""
    GPU work seems to begin or to end too late to be true: the GPU's clock was converted to the host's wrongly.

    Two measures, each in eighths of the recording. Work that begins after the GPU did nothing for 50 µs was launched
    only then, so the shortest time from launch to start is the latency of a launch. And work ends before a call that
    waits for it (`cudaDeviceSynchronize`, `cudaStreamSynchronize`) returns. If either is off by more than the limit,
    the GPU's times are late; if only in some eighths, one clock ran faster than the other. Where a call that waited
    long for all work returns long after the last of it, they are early; V10 finds work before its launch.""",
)

ALL = ("gpu", "shares", "whole", "steps", "counters")

V20 = Rule(
    "V20",
    "Events that were recorded twice",
    needs=("timeline", "gpu"),
    refutes=ALL,
    doubts=ALL,
    remark="GPU events are in the file twice: calls and times count double",
    thresholds={
        "share_percent": chosen(1, "%", "of the GPU events, or of its copies, that are there twice"),
        "refuted_percent": chosen(5, "%", "of the GPU time that is there twice, so that sums are void"),
    },
    advice="Take the file as the profiler wrote it; if a script merged or exported it, look for the join that doubles "
    "rows.",
    compared="{share_percent} of the GPU events or of the copies",
    explanation="""
    The same GPU activity is in the file more than once.

    A stream does one thing at a time, so two activities of the same stream with the same name, start and duration are
    one that was written twice: a file was merged with itself, or an exporter joined its tables wrongly. Activities
    without a duration are left out, since a coarse clock may give several the same start.""",
)

V21 = Rule(
    "V21",
    "Work inside other work of its stream",
    needs=("timeline", "gpu"),
    refutes=("gpu", "shares", "whole", "steps"),
    doubts=("gpu", "shares", "whole", "steps"),
    remark="a stream seems to do several things at once: durations are wrong, or two recordings are mixed",
    thresholds={
        "refuted_percent": chosen(
            2, "%", "of the GPU time that lies inside other work of its stream, so that sums are void"
        ),
        "few_percent": chosen(1, "%", "of the GPU work, up to which single durations are to blame"),
    },
    advice="Record again; if several programs or ranks share the file, look at each by itself.",
    compared="none",
    explanation="""
    A kernel or copy begins and ends while another one of the same stream runs.

    A stream runs its work in order. A kernel may begin shortly before the one before it ends (programmatic dependent
    launch), but it can't end before that. So a duration is wrong, or the events of several processes carry the
    same stream. Work of one graph launch may run side by side and counts as one.""",
)

V22 = Rule(
    "V22",
    "Durations that no kernel can have",
    needs=("timeline",),
    refutes=("gpu", "shares"),
    doubts=("gpu", "shares"),
    remark="kernels are shorter, or all longer, than kernels are: times and shares of kernels are wrong",
    thresholds={
        "shortest_us": chosen(
            0.25, "us", "that a kernel takes at least: launch a block, read memory once, end; an empty one takes 0.6"
        ),
        "share_percent": chosen(0.5, "%", "of the kernels that are shorter"),
    },
    advice="Look at what the file went through after recording: a wrong unit, an event cut at the edge of a range."
    " Shares and sums of kernels are void until it is found.",
    compared="{share_percent} of the kernels",
    explanation="""
    Kernels take less time than it takes to start one block and to reach memory once.

    An empty kernel takes 0.6 µs and more on every GPU that was looked at. Kernels of a few nanoseconds are a sign of
    mixed-up units or of events that were cut, and their share of the time is lost. Where all times are multiples of a
    microsecond or more (V23), a short kernel may read 0; then only those count whose other launches take five units.
    Where none of many kernels and calls takes less than 100 µs, times were written in ns: calls take microseconds.
    """,
)

V23 = Rule(
    "V23",
    "Times from a coarse clock",
    needs=("timeline", "gpu"),
    doubts=("gpu", "shares", "whole"),
    remark="times are rounded so coarsely that short kernels may be off by their own length",
    thresholds={
        "warning_percent": chosen(5, "%", "of the GPU time that rounding may add or take"),
        "critical_percent": chosen(20, "%", "of the GPU time that rounding may add or take"),
    },
    advice="Trust sums of long kernels only; record with a profiler that keeps nanoseconds.",
    compared="{warning_percent}, {critical_percent}",
    explanation="""
    All durations of GPU work are whole microseconds, milliseconds or other round units.

    GPUs count in ticks of 32 ns or less, so durations that are all multiples of a rounder unit were rounded. Each
    may be off by half a unit: ``units / 2 x events`` of the GPU time, if the profiler always cuts off or always rounds
    up. Traces of torch before 2.2 have whole microseconds, which matters only where kernels are short.""",
)

V24 = Rule(
    "V24",
    "Several processes in one recording",
    needs=("timeline", "gpu"),
    doubts=("gpu", "host", "shares", "whole", "steps"),
    remark="the work of several processes is in the file: sums, shares and steps are of all of them together",
    thresholds={"share_percent": chosen(1, "%", "of the launches that a process must make to count")},
    advice="Open the recording of each process by itself; for several ranks, the folder that holds their files.",
    compared="more than one process with more than {share_percent} of the launches",
    explanation="""
    More than one process launched the GPU work of the file.

    torch.profiler records one process, so a Chrome trace in which two processes launch kernels was merged of two.
    Nsight Systems records child processes too, which is no fault, yet sums are then those of all of them, and if they
    share a GPU, its times are no program's. The rule counts launches by the process that made them.""",
)

V32 = Rule(
    "V32",
    "GPU work that nothing in the file launched",
    needs=("timeline", "gpu"),
    doubts=("gpu", "shares"),
    remark="GPU work that nothing in the file launched is among it: sums and shares are not of the program alone",
    thresholds={
        "share_percent": chosen(5, "%", "of the GPU time that was launched by nothing in the file"),
    },
    advice="Record on a GPU that no other program uses (nvidia-smi lists them), or record the processes that launch"
    " this work too.",
    compared="{share_percent} or more",
    explanation="""
    GPU work has no launching call in the recording, though other work has.

    Another program used the GPU, or calls of the API were lost. What was queued before the recording began has no call
    either and does not count: it runs on its stream before the first activity that was launched while recording. Where
    nothing was launched on a stream, the work counts from where the other streams' queues are empty. The verdict and
    bounds leave streams out on which the file launched nothing; sums and shares hold them.""",
)

V31 = Rule(
    "V31",
    "run.json is of another run",
    needs=("manifest",),
    advice="Put the run.json that was written with this recording beside it, or none.",
    explanation="""
    What `tracetui profile` says of a run is held against the recording beside it: the GPU's name, compute
    capability, SMs and memory (by 5 %); whether it trained, against backward passes; the number of profiled steps,
    of which the recording may be a part but not without any; the sum of the steps under the profiler against that
    of the recorded ones, where there are as many; the type of a known model against that of the matrix products; a
    step without the profiler against what the busiest stream of the GPU works in a recorded one, collectives left
    out, and against the time in which the host gave out its work, with all GPU work of a recorded one; the fastest
    step without the profiler against twice the slowest with it; all steps against the whole run's time. A range is
    not synchronised: 2 % and 1 ms for each step are allowed. A step can't be shorter than its GPU work; a fifth is
    left for other clocks and the recording's own cost.

    Of a file that contradicts the recording, no step, no setting and nothing of the program is used.""",
)
V25 = Rule(
    "V25",
    "Recordings of different runs side by side",
    needs=("timeline", "gpu"),
    refutes=("counters",),
    doubts=("counters",),
    remark="the recordings of this run are not of one program at one size on one machine",
    thresholds={
        "alike_percent": chosen(
            50.0, "%", "of the other's time in kernels of both that is in launches of a size that this one has"
        ),
        "ranks_percent": chosen(40, "%", "of a rank's kernel time that is in kernels of another rank too"),
    },
    advice="Keep the recordings of each program, size and machine in a folder of their own.",
    compared="{ranks_percent} of the kernel time of ranks of one job",
    several=True,
    explanation="""
    Files of other tools in the folder were recorded on another GPU, or with another batch or input.

    Their counters and times would stand beside this recording's kernels. The rule compares the GPUs' names and numbers
    of SMs, the batch where operators' shapes show it, and the kernels: a fifth of the other's kernel time must be in
    kernels that this recording has too, and of these, most of the time in launches whose grid and block it has too:
    another batch or size of the input launches the same kernels with other grids. Every two files of different tools
    are compared. What is of another run is not matched with this recording's kernels. A memory snapshot whose allocator
    held more than the GPU has is of another one.

    Files of one tool in a folder are runs of their own, except for ranks. If nothing but the files' names says that
    they are ranks of one job, they must have much of the kernel time in common: ranks of real jobs share 58 to 100 %.
    """,
)

V4 = Rule(
    "V4",
    "Nsight Compute measured too little",
    needs=("counters",),
    doubts=("counters",),
    remark="the measured kernels make only a small part of the GPU time: what holds for them need not hold for the run",
    thresholds={
        "covered_percent": chosen(50, "%", "of the kernel time is of kernels that were measured"),
        "target_percent": Threshold(95, "%", "of the kernel time that the next measurement should cover"),
        "least_percent": Threshold(0.5, "%", "of the kernel time that a kernel needs to be worth measuring"),
    },
    advice="Measure the kernels that take the time: --kernel-name with their names.",
    source="collection targets of NVIDIA's TensorRT-LLM tools",
    compared="below {covered_percent}",
    explanation="""
    The kernels that Nsight Compute measured take too little of the GPU's time for a conclusion about the run.

    Divides the time of all launches of the measured kernels by all kernel time, both from the recording with a time
    line. With only a report of Nsight Compute that share is unknown; the rule then reports only that every measured
    kernel is a copy. The suggested command measures the kernels that take the target share.""",
)

V28 = Rule(
    "V28",
    "Nsight Compute stopped at its limit of launches",
    advice="Compare such reports kernel by kernel, not by their sums. Measure the kernels that take the time by"
    " name (V4 names them beside a time line), or a range: --nvtx --nvtx-include RANGE/.",
    compared="fewer launches than allowed",
    explanation="""
    The report holds exactly as many launches as ``--launch-count`` allowed, of all kernels.

    What came after them was not measured: often the first launches are of a warm-up, or of the first layer only, and
    reports of runs of different sizes look alike. run.json has the command. With a choice of kernels or ranges V4
    judges the coverage.""",
)

V27 = Rule(
    "V27",
    "Several precisions in one capture",
    thresholds={"share_percent": chosen(10, "%", "matrix work of a precision, of all whose precision is known")},
    advice="Read such a capture kernel by kernel: means over it describe no precision. To compare precisions, profile"
    " each by itself and give the reports together.",
    compared="two precisions with more than {share_percent} each",
    explanation="""
    A report of Nsight Compute holds matrix products of several precisions, and means over it are of none of them.

    FLOPs tell the precision of a launch where all of them were counted, else its name. Mixed precision on purpose
    (autocast) looks the same: then the finding only says what the means are made of.""",
)

V5 = Rule(
    "V5",
    "Nsight Compute measured under other conditions",
    needs=("timeline", "gpu", "counters"),
    doubts=("counters",),
    remark="under Nsight Compute kernels take another time than in the run (clock, cold caches): "
    "take its shares of peak, not its times",
    thresholds={
        "low_ratio": chosen(0.85, "x", "a kernel's time under ncu over that in the run"),
        "high_ratio": chosen(1.15, "x", "a kernel's time under ncu over that in the run"),
        "least_us": chosen(10, "us", "that a kernel must take in the run to count"),
    },
    advice="Run ncu with --clock-control none; --cache-control none keeps the caches warm.",
    source="Nsight Compute's documentation: clock and cache control",
    compared="outside of {low_ratio} to {high_ratio}",
    explanation="""
    Kernels take another time under Nsight Compute than in the run.

    By default ncu locks the GPU to its base clock and flushes the caches before each pass, so that its counters
    describe slower clocks and colder caches. The rule sums launches times mean duration over all kernels, and compares
    the sum under ncu with that in the run. Kernels below 10 µs are left out: they always take longer with cold caches.
    """,
)

V1 = Rule(
    "V1",
    "The real batch is not the one asked for",
    needs=("timeline",),
    doubts=("steps",),
    remark="a step holds another batch than was asked for: divide by the samples that it really holds",
    thresholds={"off_percent": chosen(2, "%", "between the batch asked for and the samples really seen")},
    advice="Every figure per image, and every comparison by batch, is off by this factor: print the shape that reaches"
    " the model, and see where the loader or the benchmark changes the batch.",
    compared="more than {off_percent} apart",
    explanation="""
    The step holds a different number of samples than was asked for.

    The batch asked for comes from run.json, else from the file's name (`bs4`, `batch_8`). The observed batch comes from
    run.json's own count, from the first dimension of the first convolution's, embedding's or linear's input, and from
    the bytes copied to the GPU per step divided by those of an image. This finds loaders that scale the batch for
    validation, and benchmarks that ignore their option. A batch split among ranks or micro-batches is not reported.""",
)

V8 = Rule(
    "V8",
    "The profiler slows the program down",
    needs=("timeline", "manifest"),
    doubts=("host", "whole", "steps"),
    remark="steps take longer without the profiler than under it: what slows them down is not in the recording",
    thresholds={"ratio": chosen(1.2, "x", "a step's time under the profiler over that without, or the other way")},
    advice="Record with fewer flags (--no-stack), and never compare runs recorded with different ones.",
    compared="more than {ratio} times",
    explanation="""
    Steps take longer under the profiler than without it, or shorter.

    Shorter is no profiler's doing: what the program waits for was ready while it was recorded, as with data that was
    loaded ahead, or the times are of another run. The rule divides the median step under the profiler by that of the
    clean loop that `tracetui profile` runs first. The verdict and every gain are of the clean step already; times of
    the host in tables are as recorded.""",
)

V14 = Rule(
    "V14",
    "The runs are not comparable",
    subject="pair",
    doubts=("gpu", "host", "shares", "whole", "steps", "clock"),
    remark="the two runs differ in more than what is to be compared",
    advice="Repeat one of the runs under the conditions of the other.",
    compared="no difference that matters",
    explanation="""
    Something other than the code differs and changes times: GPU, power mode, clocks, versions, batch.

    The verdict is that of `tracetui diff`, from both recordings and their run.json. The rule lists each difference. If
    one of them changes times by itself, a difference in time proves nothing about the code. If a step of one holds
    other work than a step of the other (batch, size of a sample, size of most launches), times per step can't be
    judged; where both batches are known, the time per sample stands beside them.""",
)

V18 = Rule(
    "V18",
    "A reference implementation was profiled",
    needs=("timeline",),
    doubts=("gpu", "host", "whole"),
    remark="pure PyTorch code stood in for the CUDA kernels: its times say nothing about the device",
    advice="Install mamba-ssm and causal-conv1d built for this GPU and torch (`tracetui doctor` says what is missing),"
    " and record again.",
    compared="none",
    explanation="""
    The scan ran as pure PyTorch code instead of as its CUDA kernel.

    run.json says so (`backend: reference`), or the recording has calls of functions such as `selective_scan_ref`. Their
    loop over the tokens launches hundreds of small kernels in place of one.""",
)

V15 = Rule(
    "V15",
    "What is recorded contradicts physics",
    needs=("timeline",),
    doubts=("clock",),
    remark="rates above the GPU's peak were recorded: the power mode, the GPU or the shapes are not what they are "
    "said to be",
    thresholds={
        "known_percent": chosen(105, "%", "of a peak from recorded clocks"),
        "table_percent": chosen(125, "%", "of a peak from the table: GPUs may run above their nominal clock"),
        "least_us": chosen(0, "us", "that a launch must take"),
        "wrong_percent": chosen(200, "%", "of the peak, which no clock explains, so that the times must be wrong"),
        "caches": chosen(8, "x", "the L2 cache, that data must be to come from DRAM"),
        "mode_percent": chosen(5, "%", "between the clock cap and that of the power mode's name"),
    },
    advice="Find out the real clocks and power mode: launch with tracetui profile, which records the caps in force.",
    compared="more than {mode_percent} apart",
    explanation="""
    Rates above what the GPU can do, a power mode whose name and caps disagree, a GPU under two names, with less memory
    than was in use or of another compute capability than its name says or its kernels need, or one context's work on
    several GPUs: CUDA makes each context for one. Where contexts are not told, work on several GPUs that waits in one
    queue, although no event, copy or graph makes one GPU wait for another.

    The rule computes FLOP/s of matrix products and bytes/s of plain elementwise operators and copies from the recorded
    shapes, and divides them by the peak, from the clocks in run.json or from the table. Bytes count only for data far
    larger than the L2 cache. A rate above its peak is impossible: the board ran in another mode, it was another GPU, or
    the shapes are not those of the launch.""",
)

V26 = Rule(
    "V26",
    "Whether the CPU or the GPU limits the run can't be told from the recording",
    needs=("timeline",),
    doubts=("host",),
    remark="the recording can't tell whether the CPU or the GPU limits the run",
    advice="Time steps without a profiler too (`tracetui profile` does), or record without stacks and shapes; record"
    " launches, from before the first one whose work counts.",
    source="a replay of the dependency graph (docs/metrics.md)",
    compared="launches and the host's time between them are recorded",
    explanation="""
    The overview's verdict is "can't be told": says which part of the recording is to blame, and what to record.

    As recorded the run waits for its CPU or other ranks, and without what recording may have cost the hosts for its
    GPU: compares what would be left of the step with a free host with what would be left with free GPU work, at both
    ends. Or what an unchanged replay of the launches misses decides: with that time taken for the host's it is another
    limit than with it taken for the GPU's; or most of the critical path waits
    for something that was not recorded; or launches were not recorded, or not what the host does between them. Findings
    on the host are then warnings at most.""",
)
