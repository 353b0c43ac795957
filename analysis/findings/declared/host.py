"""Rules on the system: what the GPU waits for on the host."""

from tracetui.analysis.findings.declared import changes
from tracetui.analysis.findings.declared.rule import Rule, Threshold, chosen

S1 = Rule(
    "S1",
    "The GPU is not the limit",
    needs=("timeline", "gpu"),
    rests_on=("gpu", "whole"),
    thresholds={
        "idle_percent": Threshold(30, "%", "idle time of the GPU, of the step"),
        "idle_percent_graphs": Threshold(15, "%", "the same where CUDA graphs launch most kernels"),
    },
    advice="Look at what the GPU waits for first: launches, data, synchronisation, copies. Faster kernels, lower"
    " precision included, only make its pauses longer.",
    source="NVIDIA TensorRT-LLM's profiling skills; torch-tb-profiler warns below 50 % utilization",
    explanation="""
    Says where to look first: a GPU that is idle for a third of the step gains little from faster kernels.

    Idle time is time of the steps in which no kernel, copy or fill runs. A run that replays CUDA graphs has few
    launches that could come late, so less idle time is already unusual there. This rule puts no time at stake: other
    rules judge what the GPU waits for (S2, S5, S7, S10).""",
)

S5 = Rule(
    "S5",
    "The data loader holds up the step",
    needs=("timeline", "loader"),
    rests_on=("gpu", "host", "whole"),
    thresholds={
        "share_percent": Threshold(5, "%", "wait for data while the GPU is idle, of the step"),
        "warning_percent": Threshold(15, "%", "from here on it is a warning"),
        "critical_percent": Threshold(30, "%", "from here on it is critical"),
    },
    advice="Workers, pinned memory, prefetching, decoding on the GPU.",
    changes=(changes.MORE_WORKERS,),
    source="torch-tb-profiler (5 %), gpuprof (15 %, 30 %)",
    compared="above {share_percent} of the step; a warning from {warning_percent}, critical from {critical_percent}",
    limit="dataloader",
    explanation="""
    The host waits for the next batch while the GPU has nothing to do.

    The gain is how much earlier the steps end in a replay without the wait: a loader that works behind a busy GPU costs
    nothing. Where no GPU work was recorded it is the whole wait. The wait is the duration of the loader's own events
    (``enumerate(DataLoader)…__next__``), or of ranges named so.""",
)

S6 = Rule(
    "S6",
    "The data loader is irrelevant",
    needs=("timeline", "gpu", "loader"),
    rests_on=("host", "whole"),
    thresholds={"share_percent": chosen(1, "%", "the whole wait for data, of the step")},
    advice="Leave num_workers alone.",
    compared="below {share_percent} of the step",
    explanation="""
    Says that tuning the data loader would gain nothing, because "more workers" is what is usually tried first.

    The whole wait counts, whether or not the GPU works during it: below 1 % of the step there is nothing to gain.""",
)

S12 = Rule(
    "S12",
    "Many small kernels in a row",
    needs=("timeline", "gpu"),
    rests_on=("gpu", "host", "shares", "whole"),
    thresholds={
        "kernel_us": Threshold(10, "µs", "a kernel shorter than this is small"),
        "launches_percent": chosen(50, "%", "small kernels, of all launches"),
        "time_percent": Threshold(20, "%", "small kernels, of all kernel time"),
        "run": Threshold(5, "", "small kernels in a row that could be one"),
    },
    advice="Fuse them: torch.compile, foreach and fused variants; CUDA graphs for what is left.",
    changes=(changes.COMPILED, changes.LARGER_BATCH),
    source="nsys-ai (five in a row below 10 µs), gpuprof, NVIDIA TensorRT-LLM's profiling skills",
    compared="{launches_percent} of launches and {time_percent} of kernel time below {kernel_us:g} µs, {run:g} or"
    " more in a row",
    explanation="""
    Most launches are of kernels below 10 µs that follow one another: starting them costs more than their work.

    Only chains of small kernels on one stream count. Fusing could remove all but the first kernel of each chain, except
    GEMMs, convolutions, attention and scans. A replay without the GPU time and launches of the removed kernels bounds
    the gain. Layers that trtexec timed are not looked at: TensorRT has fused them already.""",
)

_THRESHOLDS = {
    "late_percent": chosen(10, "%", "what the step would shrink by if this host time were free"),
}

S2 = Rule(
    "S2",
    "Launch-bound: the GPU waits for the CPU to launch its work",
    needs=("timeline", "gpu", "api"),
    rests_on=("gpu", "host", "whole"),
    thresholds=_THRESHOLDS,
    advice="CUDA graphs, torch.compile(mode='reduce-overhead'), a larger batch; then less Python per launch.",
    changes=(changes.CUDA_GRAPHS, changes.COMPILED_FOR_LAUNCHES, changes.LARGER_BATCH),
    source="a replay of the dependency graph (docs/metrics.md)",
    explanation="""
    The host launches one small operation after the other, and the GPU is done before the next one arrives.

    Replays the steps without the host's time on the way from one launch to the next, where that is at most 200 µs: what
    a graph of the whole step would save, which is launched at once. Longer ways are other work of the host (S13), and
    waits for data are S5's. The finding is critical only if it is so whatever recording cost the host.""",
)

S13 = Rule(
    "S13",
    "The GPU waits for the CPU, which does other work than launching",
    needs=("timeline", "gpu", "api"),
    rests_on=("gpu", "host", "whole"),
    thresholds=_THRESHOLDS,
    advice="Take work off the thread that launches: Python, guards and graph breaks of torch.compile, copies, logging.",
    general=True,
    part_of=("S40",),
    source="nsys-ai (owners of gaps)",
    explanation="""
    Between two launches the host does something else for long, and the GPU is done before it goes on.

    Replays the steps without the host's time on ways of more than 200 µs from one launch to the next, waits for data
    (S5) and for the GPU (S7) apart. The calls that take most of the critical path there show what the host does.""",
)

S19 = Rule(
    "S19",
    "The host is the limit although the GPU is busy",
    needs=("timeline", "gpu", "api"),
    rests_on=("gpu", "host", "whole"),
    thresholds={"busy_percent": chosen(70, "%", "GPU work, of the recorded step")},
    advice="Look at the critical path (tab Host) for what the host does before each launch; kernels come second.",
    source="a replay of the dependency graph (docs/metrics.md)",
    compared="busy above {busy_percent}",
    explanation="""
    The GPU works for most of the step, and still each step waits for its host.

    A busy GPU is no proof that it is the limit: if all its work were free, the step would hardly be shorter.""",
)

S8 = Rule(
    "S8",
    "Asynchronous copies from pageable memory",
    needs=("timeline", "gpu", "api"),
    rests_on=("gpu", "host", "whole"),
    thresholds={"copy_kib": Threshold(64, "KiB", "smaller copies are staged at once, whatever their memory")},
    advice="Pinned memory and non_blocking=True.",
    source="nsys analyze (cuda_memcpy_async); 64 KiB as the CUDA runtime's documentation on synchronisation has it",
    compared="any copy of {copy_kib:g} KiB or more",
    limit="copies",
    explanation="""
    Copies that were asked to be asynchronous, from or to memory that the system may page out.

    The driver copies such memory through its own pinned buffer, piece by piece, and occupies the calling thread: the
    copy is slower and the host can't continue. An integrated GPU (Jetson) has no such copies to save, so the rule
    reports nothing there. All of the copies are at stake, and the calls that make them and wait for them; where the
    link's peak is known, a step keeps at least the time that the bytes take at it.""",
)

S10 = Rule(
    "S10",
    "Copies to the GPU do not overlap kernels",
    needs=("timeline", "gpu"),
    rests_on=("gpu", "whole"),
    thresholds={
        "overlap_percent": chosen(50, "%", "copies beside a kernel, of what could be: the shorter of both"),
        "step_percent": chosen(2, "%", "copies, of the step"),
    },
    advice="A second stream with pinned memory, prefetching the next batch.",
    source="nsys-ai (overlap of copies)",
    compared="below {overlap_percent} of what could overlap, copies of {step_percent} of the step or more",
    limit="copies",
    explanation="""
    The copy engines could carry the next batch while kernels compute the present one; here they take turns.

    The rule measures the time in which at least one copy from host to GPU runs, and the part of it in which a kernel
    runs too. No more can overlap than the shorter of both, copies or kernels: what of that does not is at stake, as far
    as a replay of the launches shows that the step would end earlier without the copies.""",
)

S27 = Rule(
    "S27",
    "Copies between host and GPU limit the run",
    needs=("timeline", "gpu"),
    rests_on=("gpu", "whole"),
    thresholds={
        "link_percent": chosen(75, "%", "of the link's peak, from which no copy is faster"),
        "small_kib": chosen(256, "KiB", "mean copy below which its start counts more than its bytes"),
        "overlap_percent": chosen(50, "%", "of what could overlap, from which it does"),
    },
    advice="Fewer bytes (a smaller type, data that stays on the GPU), pinned memory, copies beside kernels, few large"
    " copies.",
    source="a replay of the dependency graph (docs/metrics.md)",
    compared="the verdict is that the run waits for copies",
    limit="copies",
    explanation="""
    The verdict is that the run waits for copies to or from the GPU: says how much, how fast, and what would help.

    Replays the steps with these copies free, and with half of their time, which half of the bytes would take. The rate
    is of the time in which at least one copy of its direction runs, and compared with the peak of what connects the GPU
    with its host, where that is known. Near that peak copies can be fewer or run beside other work, not be faster; else
    it depends on the kind of memory, on the size of each copy, and on what runs beside them.""",
)

S28 = Rule(
    "S28",
    "Rare steps take much of the run",
    needs=("timeline",),
    rests_on=("whole",),
    thresholds={"share_percent": chosen(5, "%", "of the mean step, which the rare steps take beyond the others")},
    advice="Do it less often, or beside the steps.",
    compared="{share_percent} of the mean step",
    explanation="""
    Steps are not alike: a few take so much longer that the run's time is theirs (saving, validation, a stop).

    Steps are grouped into kinds (docs/metrics.md). The gain is the mean of all steps less the mean of the typical kind:
    a part of the mean step, and so it may be more than a typical step takes. Steps are the clean ones where they
    were timed, with those that were sampled, else those of the light recording, else the recorded ones. The first steps
    do not count where they launch what the others do: they are a warm-up, which ends. Of a single long step it is not
    known how often it comes, so the finding is at most a warning.""",
)

S7 = Rule(
    "S7",
    "The host waits for the GPU in the middle of the step",
    needs=("timeline", "gpu", "api"),
    rests_on=("gpu", "host", "whole"),
    thresholds={
        "stall_percent": Threshold(2, "%", "idle time of the GPU after waits, of the step"),
        "stall_ms": Threshold(1, "ms", "the same in the whole recording"),
    },
    advice="Keep values on the GPU: accumulate there, read them every n steps.",
    source="nsys-ai (2 %, 1 ms), nsys analyze (cuda_api_sync)",
    compared="above {stall_percent} of the step, and {stall_ms:g} ms altogether",
    explanation="""
    ``.item()``, ``nonzero``, copies to the host and explicit synchronisation let the launch queue run empty.

    While the host waits, it launches nothing; when the GPU is done, it is idle until the next launch arrives. The gain
    is how much earlier the steps end in a replay in which these calls do not wait. A wait at the end, after which
    nothing runs, is benign; a wait that finds the GPU already idle costs only the call.""",
)

S16 = Rule(
    "S16",
    "Memory is taken from the driver within steps",
    needs=("timeline", "gpu", "api", "steps"),
    rests_on=("gpu", "host", "whole"),
    thresholds={"share_percent": chosen(2, "%", "what the step would shrink by without these calls")},
    advice="Let the allocator keep its memory: the same shapes in every step, expandable segments, no empty_cache.",
    source="nsys-ai (allocations in steady steps)",
    compared="{share_percent} of the step",
    explanation="""
    ``cudaMalloc`` and ``cudaFree`` wait for the GPU and hold up the thread that launches.

    A caching allocator asks the driver for memory in its first steps only. If it goes on asking, shapes change, memory
    is short, or somebody empties its cache. The gain is how much earlier the steps end in a replay without these calls;
    work on the GPU also begins later after them, so what the replay lacks of a step may be theirs.""",
)

F19 = Rule(
    "F19",
    "DataParallel, or DistributedDataParallel without NCCL",
    needs=("timeline", "gpu", "host"),
    rests_on=("gpu", "whole"),
    advice="DistributedDataParallel with a process per GPU, and the nccl backend.",
    source="torch-tb-profiler's recommendations",
    compared="seen at all",
    explanation="""
    One process launches the work of all GPUs, or gradients go through the host.

    ``DataParallel`` copies the model to every GPU in every step and launches all of their kernels from the threads of
    one Python process. ``DistributedDataParallel`` over gloo sums gradients on the host where NCCL would do it between
    the GPUs. What either costs is not to be told from one recording, so the finding promises no time.""",
)

S18 = Rule(
    "S18",
    "Threads compete for the processor's cores",
    needs=("timeline", "host"),
    rests_on=("host",),
    thresholds={
        "crowded_percent": chosen(10, "%", "time in which more threads run than there are cores, of the step"),
        "load": Threshold(1, "x", "the machine's load, of its cores: above it somebody always waits"),
    },
    advice="Fewer threads and loader workers, or fewer other programs.",
    source="the load as the operating system defines it: threads that run or want to",
    compared="load above {load:g} times the cores, or {crowded_percent} of the step with more threads than cores",
    explanation="""
    More threads want to run than there are cores, so the thread that launches work may have to wait for one.

    Either more recorded threads are in operators or API calls at one time than the machine has cores, or the machine's
    load during the run, which run.json samples, exceeds them. Calls in which a thread waits don't count. How much of
    the step that costs can't be told from a recording, which sees calls and not the scheduler.""",
)

S29 = Rule(
    "S29",
    "The same call again and again",
    needs=("timeline", "frames"),
    rests_on=("gpu", "host", "whole"),
    thresholds={
        "calls": chosen(8, "", "calls of the same under one call of a function"),
        "library_calls": chosen(16, "", "the same under a library's function, which may have so many without a loop"),
        "passes": chosen(4, "", "the same where each comes with a backward pass of its own, as micro-batches do"),
        "share_percent": chosen(5, "%", "what the step would be shorter without them"),
    },
    advice="One call over all of them: a batch dimension, a foreach or fused variant.",
    source="the foreach variants of torch.optim, and cuDNN's of recurrent networks",
    compared="{calls:g} calls or more in one call of a function ({library_calls:g} in a library's), and {share_percent}"
    " of the step or more",
    several=True,
    part_of=("S39", "S40"),
    explanation="""
    One function of the program calls the same operator, module or library function many times where one call would do.

    Counted are calls directly under a function of the program's own code, in one call of that function and one step;
    comprehensions are part of their function. A loop within a library's function counts too, for the program's function
    that led to it; optimizers are F4's. A module counts only where it is the same instance: a stack of layers is
    no repetition, nor what comes once between one layer and the next; a recurrent cell in a loop is. Own functions
    count where they hold no modules and no products with weights, and so do hooks of modules.
    The gain is how much earlier the steps end in a replay without all but the first of these calls, without their
    backward passes, and without the GPU work that both launch: one call for all of them would do that work too, so it
    is an upper end.""",
)

S34 = Rule(
    "S34",
    "No gradient flows through it",
    needs=("timeline", "frames"),
    rests_on=("gpu", "host", "whole"),
    thresholds={"share_percent": chosen(8, "%", "what the step would be shorter without it")},
    advice="Compute once what stays the same, and metrics in every n-th step only.",
    source="PyTorch's notes on autograd mechanics",
    compared="from {share_percent} of the step on",
    several=True,
    general=True,
    part_of=("F27", "S29", "S31", "S35"),
    explanation="""
    A training step spends long in a function of the program of which nothing is learned.

    Named is the outermost function of the program whose calls launch GPU work (or, without a GPU, run operators), none
    of which has a backward pass, is one, or is the optimizer's: metrics, statistics, masks, an encoder that is frozen,
    augmentation. Not every step may need that anew, so the gain, of a replay without these calls and what they launch,
    is an upper end.""",
)

S35 = Rule(
    "S35",
    "The same result in each step, or again within one",
    needs=("timeline", "operators"),
    rests_on=("gpu", "host", "whole"),
    thresholds={"share_percent": chosen(3, "%", "what the step would be shorter without it")},
    advice="Compute it before the loop over steps, or at the first one, and keep the result (register_buffer,"
    " functools.cache); if it changes now and then, compute it when it does.",
    source="the operators' results, compared bit by bit while the program ran",
    compared="from {share_percent} of the step on",
    several=True,
    explanation="""
    A function or line of the program computes in each step what it computed in the step before, or before in this one.

    `tracetui profile` compares what the operators of the program's own thread yield in three steps, after all
    recordings (`unchanged` in run.json), where nothing is compiled. Named are places all of whose operators yield the
    same, apart from new tensors that are only filled. Where nearly all of a step yields the same, it had the same input
    again, and nothing is said. So are operators whose result another one of their name has yielded before in the same
    step, in each of the three; their gradients count too, since with one result there is one. The calls are found in
    the recording by name and number within the step; all calls of one function or line are one finding.""",
)

S37 = Rule(
    "S37",
    "Gradients that no optimizer uses",
    needs=("timeline", "modules"),
    rests_on=("gpu", "host", "whole"),
    thresholds={"share_percent": chosen(3, "%", "what the step would be shorter without their backward pass")},
    advice="Freeze what is not trained: module.requires_grad_(False); where nothing before it is trained either,"
    " torch.no_grad() around its forward.",
    source="PyTorch's notes on autograd mechanics",
    compared="from {share_percent} of the step on",
    explanation="""
    Modules get gradients for parameters that no optimizer holds: they were meant to be frozen.

    `tracetui profile` looks which parameters have a gradient after an optimizer's step and are in none of the process's
    optimizers (`unheld` in run.json). Where no optimizer holds any parameter of the model, nothing is said: some keep
    copies of their own. The gain is how much earlier the steps end in a replay without the backward pass of these
    modules. Where something before them is trained, gradients still flow through them, and less is gained.""",
)

S39 = Rule(
    "S39",
    "The program's own work in each step",
    needs=("timeline",),
    rests_on=("shares",),
    thresholds={"share_percent": chosen(20, "%", "of the sampled steps, in one function")},
    advice="Do it once before the steps, in one call for the whole batch, or in a loader's workers, one step ahead.",
    compared="{share_percent} of the sampled steps or more",
    several=True,
    part_of=("S5", "S29", "S40"),
    explanation="""
    A function of the program takes a part of each step that is neither the network's nor the optimizer's.

    Samples of the clean program tell the line. Counted is the thread that runs the steps, by the innermost function
    of the program's own code, without a backward pass, an optimizer or a loader. Of what is under a module it is
    Python's own part: the function's samples that are in no library, less the part that the recording has in
    operators. Of steps that wait for the CPU while they use a GPU it is all of a function but the time of its
    operators, as recorded. The gain is at most all of that time, and what a step takes beyond its GPU work.""",
)

S38 = Rule(
    "S38",
    "Work on positions that carry nothing",
    needs=("timeline", "gpu", "operators"),
    rests_on=("gpu", "host", "whole"),
    thresholds={
        "share_percent": chosen(5, "%", "what the step would be shorter without it"),
        "same_percent": chosen(10, "%", "of a dimension, the same in all items of a batch"),
    },
    advice="Pad each batch to its longest item only, or group items by length.",
    source="the tensors that the program gives to its modules and losses, looked at while it ran",
    compared="from {share_percent} of the step on",
    several=True,
    explanation="""
    A batch is padded far beyond its longest item, or the loss ignores most rows that the last layer computes.

    `tracetui profile` looks at what outermost modules are given, for three steps after all recordings (`spare` in
    run.json), where nothing is compiled: how much of a dimension has the value of its first or last position from there
    on. All tensors of that length must have it, and no weight may belong to a single position; of a loss it counts the
    rows whose label is `ignore_index`. The gain is a replay in which kernels of operators with that length, or with as
    many rows and classes, take that much less: with the square of the rest where a shape has the length twice, or is
    attention. A length may be meant, as of images with a border, so the gain is an upper end.""",
)

S30 = Rule(
    "S30",
    "A forward or backward pass is computed twice",
    needs=("timeline", "gpu", "operators"),
    rests_on=("gpu", "host", "whole"),
    thresholds={"share_percent": chosen(5, "%", "what the step would be shorter without it")},
    advice="Keep activations where memory allows it: checkpoint fewer layers, or none; call backward once per step.",
    source="torch.utils.checkpoint's documentation, and PyTorch's notes on autograd mechanics",
    compared="above {share_percent} of the step",
    several=True,
    explanation="""
    Modules run forward again inside the backward pass, as activation checkpointing has it; or several backward passes
    go through the same operators.

    That saves memory and costs a second forward pass. Seen are calls of modules within an operator of the backward pass
    that are no part of a backward operator themselves. The gain is how much earlier the steps end in a replay without
    these calls and the GPU work that they launch.

    A forward operator whose gradient is computed several times was kept (retain_graph) and walked by several backward
    passes: of several losses, or of a loss that was not meant to train it. Passes that are differentiated themselves
    (create_graph) don't count. The gain, of a replay without all but the last of them, is an upper end, since some
    programs need their gradients apart.""",
)

S31 = Rule(
    "S31",
    "The CPU computes what the GPU could",
    needs=("timeline", "gpu", "operators"),
    rests_on=("gpu", "host", "whole"),
    thresholds={
        "share_percent": chosen(
            5, "%", "operators that launch nothing, of the recorded step, and what is gained without them"
        ),
        "each_us": chosen(100, "us", "that one takes at least; of an optimizer each counts"),
    },
    advice="Keep parameters, the optimizer's state and what a step draws or computes on the GPU.",
    several=True,
    source="DeepSpeed's documentation of ZeRO-Offload",
    compared="above {share_percent} of the recorded step",
    explanation="""
    Operators take long and launch nothing: the optimizer's state is on the CPU, or what they compute with.

    Of an optimizer's step, gradients then go down and weights go up in each step, which are copies that wait for the
    GPU. The gain is how much earlier the steps end in a replay without the optimizer's step on the host and without
    the copies between host and GPU. Of other operators (random numbers, sorting, masks made on the host) it is that
    of a replay without them, at most also without the copies to the GPU in the same call of a function, if it makes
    tensors there; a loader's are left out.""",
)

S32 = Rule(
    "S32",
    "A mode slows every step",
    needs=("timeline", "host"),
    rests_on=("host", "whole"),
    thresholds={"share_percent": chosen(2, "%", "what the step would be shorter without it")},
    advice="Switch it off outside of debugging.",
    source="the documentation of PyTorch on these modes, and Python's of gc",
    compared="seen in run.json, or {share_percent} of the step",
    several=True,
    explanation="""
    Something for debugging was left on: anomaly detection, blocking launches, deterministic algorithms, a tracer of
    Python, the allocator without its cache; or Python's collector pauses the steps.

    ``tracetui profile`` records a fixed list of such modes while the steps run (`workload.modes` in run.json), and the
    collector's pauses in the clean steps. In other recordings some show by what they do: the search for NaN in the
    backward pass, kernels of 20 µs or more that have all ended when their launch returns, new tensors that are filled,
    convolutions that wait for events, by which cuDNN times its algorithms, and operators whose first call with a shape
    takes five times as long as the next with it, in each step after the first: a plan is made, or something compiled.
    What torch.compile compiles or tries within steps it names itself (``dynamo_timed``); where it broke graphs and what
    it compiled again run.json says of the whole process (``compiled``), without a gain; the latter is told where it
    compiles within the recorded steps, or compiled a function eight times, after which it runs eagerly.
    The gain is how much earlier the steps end in a replay without what the mode does; of a tracer of Python, without
    all of Python's own time. The collector's
    is measured: of steps that wait for the GPU only as far as they are longer than the others. What no recording shows
    is named without a gain.""",
)

S33 = Rule(
    "S33",
    "Another thread holds Python's lock",
    needs=("timeline", "frames"),
    rests_on=("host", "whole"),
    thresholds={
        "share_percent": chosen(20, "%", "in which the other thread runs Python and does not wait, of the steps")
    },
    advice="Do it in another process (multiprocessing, a loader's worker), or in a call that releases the lock.",
    source="Python's documentation of the global interpreter lock",
    compared="{share_percent} of the steps",
    several=True,
    explanation="""
    While the steps run, another thread of the program runs Python code of its own for long.

    Only one thread of a Python process runs at a time: the one that launches work waits up to 5 ms for each turn, after
    every call that gave the lock away. Counted is the time of a thread with functions of the program's own less its
    calls that wait (locks, sleep, sockets). Who holds the lock is not recorded, so the gain is at most all of Python's
    own time on the critical path.""",
)

S40 = Rule(
    "S40",
    "Threads queue for a lock",
    needs=("timeline", "frames"),
    rests_on=("shares",),
    thresholds={"share_percent": chosen(20, "%", "in which several threads are in the function, of the steps")},
    advice="Give each thread its own of what the lock guards (threading.local, a buffer per call), or hold it for the"
    " lines alone that need it. More threads change nothing. Threads work at once as far as what they call leaves"
    " Python's lock (zlib, NumPy, reading files).",
    source="Python's documentation of threading",
    compared="{share_percent} of the steps",
    several=True,
    explanation="""
    Several threads of the program are in one of its functions, and a lock that they take there lets one at a time work.

    The recording has the lock's calls, the same lock on several threads, and that what the function calls hardly ever
    runs on two of them. Samples have the line on which the others stand, and must agree: while some stand there one
    thread is further in the function, and never two. For the interpreter's lock threads wait wherever they are. The
    gain is at most what a replay gains without that work, and no more than all of it but the part of one thread.""",
)
