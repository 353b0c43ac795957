"""Rules on single kernels and on what Nsight Compute measured of them."""

from tracetui.analysis.findings.declared import changes
from tracetui.analysis.findings.declared.rule import Rule, Threshold, chosen

SHARE = chosen(5, "%", "a kernel's time, of all kernel time: smaller ones are not judged")
_LONG = chosen(10, "µs", "mean duration below which starting and stopping is most of a kernel")

K1 = Rule(
    "K1",
    "What bounds the longest kernels",
    needs=("counters", "gpu"),
    rests_on=("gpu", "counters"),
    thresholds={"share_percent": SHARE, "mean_us": _LONG},
    advice="By what bounds it: fewer operations, fewer bytes, or more work in flight.",
    source="Nsight Compute's rule SOLBottleneck; NVIDIA TensorRT-LLM's profiling skills",
    compared="below 60 % on both sides: latency; 10 points apart: the busier one; kernels of {mean_us:g} µs and more"
    " with {share_percent} of the kernel time",
    several=True,
    explanation="""
    Says whether arithmetic, memory or neither is the bottleneck of each long kernel that Nsight Compute measured.

    The rule decides as Nsight Compute does: latency if SM and memory are both below 60 % of their peak, else the one
    that leads by 10 points, else balanced. At best the kernel becomes as fast as the busier of the two allows:
    ``time × max(SM, memory)``.""",
)

K2 = Rule(
    "K2",
    "Far below the roofline",
    needs=("gpu", "shapes"),
    rests_on=("gpu", "clock"),
    thresholds={
        "attained_percent": chosen(40, "%", "time at the roof, of the kernel's time"),
        "share_percent": SHARE,
        "mean_us": _LONG,
    },
    advice="Ask Nsight Compute what is in its way; a library's kernel at other shapes (batch, padding, layout) may"
    " come nearer.",
    source="TraceLens and torch's inductor have the same ratio",
    compared="below {attained_percent} of the roof, calls of {mean_us:g} µs and more",
    several=True,
    part_of=("F11",),
    explanation="""
    Compares a kernel's time with the least that its operator's FLOPs and bytes need on this GPU.

    ``t_min = max(FLOPs / peak, bytes / bandwidth)`` from the operator's shapes, with the peaks that `tracetui report
    --section roofline` lists; the attained share is t_min / time. K1 judges kernels that Nsight Compute measured. Who
    wrote a kernel decides what helps: shapes and types choose a library's products, sdpa_kernel chooses attention,
    torch.compile replaces PyTorch's own. Kernels with the same remedy are one finding.""",
)

K3 = Rule(
    "K3",
    "Low occupancy, and what limits it",
    needs=("gpu",),
    rests_on=("gpu",),
    thresholds={
        "occupancy_percent": chosen(50, "%", "theoretical occupancy, of the warps an SM can hold"),
        "attained_percent": chosen(40, "%", "of the roof, from which low occupancy does no harm"),
        "share_percent": SHARE,
    },
    advice="Larger blocks, fewer registers or less shared memory per block, whichever limits.",
    source="CUDA's occupancy calculator; Nsight Compute's section Occupancy",
    compared="below {occupancy_percent}, and not near a roof",
    several=True,
    explanation="""
    Computes how many warps a launch can keep on an SM and names what prevents more.

    Block slots, warps, registers and shared memory each allow a number of blocks, and the smallest decides. Occupancy
    matters only if latency is the bottleneck. The rule therefore leaves out kernels that counters or the roofline show
    near a roof, and products that hold tiles in registers by design: on tensor cores always, since asynchronous copies
    bring their operands, and others unless they are far below their roof. A grid of less than one wave can't fill the
    SMs whatever the block allows: K4 judges those. Kernels of libraries, PyTorch and compilers are left out: nobody who
    calls them chooses their blocks. The time falls at most in proportion as the warps rise.""",
)

K4 = Rule(
    "K4",
    "Grids that do not fill the GPU",
    needs=("gpu",),
    rests_on=("gpu",),
    thresholds={
        "loss_percent": chosen(20, "%", "SM time that the last wave leaves idle"),
        "waves": chosen(5, "", "number of waves from which a tail is not judged"),
        "time_percent": chosen(20, "%", "such kernels, of all kernel time"),
    },
    advice="Give each kernel more blocks: a larger batch, split-K for narrow products, smaller tiles; run independent"
    " kernels on several streams.",
    part_of=("S12",),
    changes=(changes.LARGER_BATCH,),
    source="Nsight Compute's section LaunchStats (waves, tail effect)",
    compared="below one wave, or more than {loss_percent} lost in the last of fewer than {waves:g}; from"
    " {time_percent} of kernel time",
    explanation="""
    Compares each grid with the number of blocks that all SMs hold at once.

    ``waves = blocks / (SMs × resident blocks per SM)``. Below one wave part of the GPU stays empty; with few waves the
    partly filled last one costs ``1 - waves / ceil(waves)``, if all blocks take equally long. For kernels that stream
    through memory only SMs without any block count: ``1 - blocks / SMs``. The gain is at most these shares of such
    kernels' time, and at most the distance of a kernel to its roof. Collectives are not judged.""",
)

K5 = Rule(
    "K5",
    "Caches that do not hold what is read",
    needs=("counters", "gpu"),
    rests_on=("gpu", "counters"),
    thresholds={
        "hit_percent": Threshold(50, "%", "hit rate of L1 or L2, of sectors"),
        "streaming": chosen(1.2, "", "DRAM bytes, of compulsory ones, below which nothing is read twice"),
        "share_percent": SHARE,
    },
    advice="Order the blocks so that neighbours read the same data, tile for L2, stage what several threads read in"
    " shared memory.",
    source="NVIDIA TensorRT-LLM's profiling skills (50 % poor, 80 % good)",
    compared="L1 or L2 below {hit_percent}, of sectors",
    several=True,
    explanation="""
    Finds memory-bound kernels with a low L1 or L2 hit rate.

    Kernels that read their input once are left out, since no cache could help them: elementwise kernels, copies and
    reductions, and kernels that move only the compulsory bytes through DRAM (K6 near 1).""",
)

K6 = Rule(
    "K6",
    "DRAM moves more than the work needs",
    needs=("counters", "shapes", "gpu"),
    rests_on=("gpu", "counters"),
    thresholds={
        "factor": chosen(2, "", "DRAM bytes, of the compulsory ones"),
        "share_percent": SHARE,
    },
    advice="What is read again falls out of L2 in between: change the order of the grid so that blocks that share"
    " operands run together, tile, or use a smaller batch.",
    source="bytes of the operator's inputs and outputs against Nsight Compute's DRAM counters",
    compared="more than {factor:g} times",
    several=True,
    explanation="""
    Divides the bytes that a kernel moved to and from DRAM by those its operator must move once.

    If DRAM traffic was not counted (integrated GPUs), the rule uses L2 misses × 32 byte. It compares only launches of
    the same grid and block. The gain is at most the time that the surplus bytes take at the memory's peak.""",
)

K12 = Rule(
    "K12",
    "Hot spot, or none",
    needs=("gpu",),
    rests_on=("gpu", "shares"),
    thresholds={
        "hot_percent": Threshold(50, "%", "one kernel, of all kernel time: a hot spot"),
        "attained_percent": chosen(60, "%", "of its roof, from which a hot spot runs as it should"),
        "flat_percent": chosen(40, "%", "ten kernels, of all kernel time: below it there is none"),
    },
    advice="A hot spot is worth a kernel of its own; a flat profile wants fusion, fewer operations, or a larger batch.",
    source="nsys-ai (one kernel above half)",
    part_of=("K2",),
    compared="more than {hot_percent} of the kernel time",
    explanation="""
    Says where Amdahl's law pays: one kernel with half of the kernel time, or none worth tuning alone.

    If counters or the roofline show a hot spot near its roof, the run is healthy and the finding is only a remark. The
    gain of a hot spot is how much the step would shrink if it ran at its roof; where that is not known, none is
    claimed. A flat profile claims no gain. Collectives, which wait for other ranks, do not count.""",
)

_LEAST = chosen(5, "", "kernels that must agree")

_SPREAD = chosen(15, "%", "interquartile range of the factors, of their median")

K13 = Rule(
    "K13",
    "All kernels slow alike",
    needs=("gpu", "shapes"),
    rests_on=("gpu",),
    thresholds={
        "spread_percent": _SPREAD,
        "attained_percent": chosen(50, "%", "median share of the roof, above which nothing is slow"),
        "kernels": _LEAST,
        "mean_us": chosen(20, "µs", "mean duration below which launching blurs the factor"),
    },
    advice="Look at clocks, power mode, temperature and other users of the GPU, not at code.",
    compared="spread below {spread_percent}, median below {attained_percent}",
    explanation="""
    Finds a single factor by which all kernels miss their roofs: a clock, a cap or another program, not the code.

    Different kernels usually miss their roofs by different factors. If the quartiles of ``t_min / time`` lie close
    together and the median is low, something that all kernels share slows them. K18 does the same against another run.
    """,
)

K18 = Rule(
    "K18",
    "All kernels slower alike than in the other run",
    subject="pair",
    needs=("gpu",),
    rests_on=("gpu",),
    thresholds={
        "spread_percent": _SPREAD,
        "change_percent": chosen(10, "%", "median change of a launch's mean time, of A's"),
        "kernels": _LEAST,
        "mean_us": chosen(10, "µs", "mean duration below which launching blurs the factor"),
    },
    advice="Compare the clocks, power modes and temperatures of both runs, and who else used the GPU, before the code.",
    compared="spread below {spread_percent}, {change_percent} apart or more",
    explanation="""
    Finds a single factor between the mean times of the kernels that both runs have, as K13 does below the roofs.

    Code changes single kernels; a clock, a power mode or another program changes all by one factor.""",
)

K14 = Rule(
    "K14",
    "What faster kernels can gain at all",
    needs=("timeline", "gpu"),
    rests_on=("gpu", "whole"),
    thresholds={"ceiling_percent": chosen(10, "%", "of the step, if all kernels took no time")},
    advice="Leave the kernels alone until you have fixed what the GPU waits for.",
    source="Amdahl's law",
    compared="below {ceiling_percent} of the step",
    explanation="""
    Bounds all advice on kernels: ``gain = share × (1 - 1 / speed-up)``, with an infinite speed-up of all kernels.

    If the host is the bottleneck, the step ends little earlier when replayed without any kernel time. Any advice that
    could gain less than 2 % is left out anyway.""",
)

K7 = Rule(
    "K7",
    "Uncoalesced accesses to global memory",
    needs=("counters", "gpu"),
    rests_on=("gpu", "counters"),
    thresholds={
        "used_percent": Threshold(50, "%", "sectors that would do, of those that move"),
        "per_request": chosen(20, "", "sectors per load or store of a warp, where only these were counted"),
        "share_percent": SHARE,
    },
    advice="Let neighbouring threads access neighbouring addresses; go through shared memory where the layout forbids.",
    source="Nsight Compute's rule UncoalescedGlobalAccess; NVIDIA TensorRT-LLM's profiling skills (50 % efficiency)",
    several=True,
    explanation="""
    Compares the 32-byte sectors that a kernel's accesses touch with those that its data needs.

    A warp that loads 4 bytes per thread from neighbouring addresses needs 4 sectors; from addresses far apart it needs
    32. Nsight Compute counts both where the section SourceCounters was collected (on the details page its rule
    UncoalescedGlobalAccess names them). Where only sectors and requests were counted, 16 per request do for the widest
    type (17 if the addresses are not aligned), so more are too many for any. The gain is at most the surplus sectors'
    share of a kernel's time, and counts only where memory is the kernel's bottleneck.""",
)

K10 = Rule(
    "K10",
    "Matrix work in fp32, as Nsight Compute measured it",
    needs=("counters", "gpu"),
    rests_on=("gpu", "counters"),
    thresholds={
        "share_percent": chosen(10, "%", "fp32 GEMMs and convolutions off tensor cores, of profiled time"),
        "capability": Threshold(8.0, "", "compute capability from which on tensor cores take fp32 inputs as TF32"),
    },
    advice="TF32 (one line), then bf16.",
    source="ratios from NVIDIA's throughput tables",
    compared="above {share_percent} of the profiled kernel time, compute capability {capability:g} or later",
    explanation="""
    F1 for a recording without a time line: GEMMs and convolutions that run in fp32 on FMA units.

    Names tell the precision; where Nsight Compute measured the tensor pipes, its counters decide. The base is the
    profiled kernel time, since nothing tells what else a step does: the finding promises nothing for the step.""",
)

K19 = Rule(
    "K19",
    "Tensor cores unused or nearly idle, as Nsight Compute measured it",
    needs=("counters", "gpu"),
    rests_on=("gpu", "counters"),
    thresholds={
        "busy_percent": chosen(10, "%", "of its peak that the tensor pipe is active in matrix work on it"),
        "share_percent": SHARE,
        "capability": Threshold(7.0, "", "compute capability from which on GPUs have tensor cores"),
    },
    advice="16-bit types in sizes that are multiples of 8; more work per product.",
    source="torch-tb-profiler and DLProf (unused), NVIDIA TensorRT-LLM's profiling skills (idle)",
    compared="below {busy_percent}",
    several=True,
    explanation="""
    Finds matrix work in 16 bits that runs off tensor cores, or on them while they are mostly idle.

    Nsight Compute's counters tell whether a kernel uses tensor cores, its name tells the type. fp32 on
    plain units is K10's. How busy the pipe is says nothing about the step: small products can't fill it.""",
)

K16 = Rule(
    "K16",
    "Double precision",
    needs=("gpu",),
    rests_on=("gpu",),
    thresholds={
        "share_percent": chosen(1, "%", "kernels with numbers in fp64, of kernel time"),
        "meant_percent": chosen(90, "%", "of kernel time in fp64, from which it is taken to be meant"),
    },
    advice="Cast to fp32 where the accuracy allows.",
    source="CUDA C++ Programming Guide, arithmetic throughput: fp64 at 1/2 to 1/64 of fp32",
    compared="above {share_percent} of the kernel time",
    explanation="""
    Kernels in double precision, most often because an array of NumPy became a tensor as it was.

    If types were recorded (record_shapes=True), an operator with such a tensor counts, otherwise kernels whose names
    tell it (``dgemm``, ``f64``, ``double``). In fp32 they move half of the bytes and compute at least twice as fast:
    half of their time is gained, all of it at most. Without a timeline the GPU's peaks bound the gain. Where nearly all
    is double, as in scientific programs, it is a remark that promises nothing.""",
)

K8 = Rule(
    "K8",
    "Bank conflicts in shared memory",
    needs=("counters", "gpu"),
    rests_on=("gpu", "counters"),
    thresholds={
        "surplus_percent": chosen(20, "%", "wavefronts of shared memory that conflicts add, of all"),
        "share_percent": SHARE,
    },
    advice="Pad the rows of an array in shared memory by one element, or permute its columns.",
    source="Nsight Compute's rules UncoalescedSharedAccess and SharedMemoryConflicts",
    compared="from {surplus_percent} on",
    several=True,
    explanation="""
    Compares the passes (wavefronts) that accesses to shared memory take with those that would do.

    Threads of a warp that access different words of one bank are served one after another. Nsight Compute counts the
    passes and the least that would do where the section SourceCounters was collected (on the details page its rule
    UncoalescedSharedAccess names both numbers), else bank conflicts of all passes. The gain is at most the surplus
    passes' share of a kernel's time, and counts only where memory is its bottleneck.""",
)

K9 = Rule(
    "K9",
    "Registers that spill to memory",
    needs=("counters", "gpu"),
    rests_on=("gpu", "counters"),
    thresholds={"share_percent": SHARE},
    advice="Fewer registers at a time: smaller tiles, less unrolling, or a looser __launch_bounds__.",
    source="Nsight Compute's section MemoryWorkloadAnalysis",
    compared="any request",
    several=True,
    explanation="""
    Finds kernels that keep values in local memory because their registers do not suffice.

    Nsight Compute counts requests that spill since 2025; before, accesses to local memory tell, which arrays with
    computed indices cause too. How long they take is not counted, so no gain is claimed.""",
)

K11 = Rule(
    "K11",
    "What the warps of a kernel wait for",
    needs=("counters", "gpu"),
    rests_on=("gpu", "counters"),
    thresholds={
        "stall_percent": chosen(30, "%", "of the cycles between two instructions of a warp that one reason takes"),
        "share_percent": SHARE,
        "mean_us": chosen(10, "µs", "mean duration below which starting and stopping is most of a kernel"),
    },
    advice="By the reason: more loads in flight, fewer accesses to shared memory, shorter waits at barriers.",
    source="Nsight Compute's section WarpStateStats and its rule CPIStall",
    compared="from {stall_percent} on, of kernels of {mean_us:g} µs and more with {share_percent} of the kernel time",
    several=True,
    explanation="""
    Names the reason for which the warps of a long kernel wait most between two of their instructions.

    Nsight Compute counts for each reason how many cycles a warp waits per instruction that is issued; where only its
    details page is there, its rule CPIStall names the largest. Launches count by their time. Kernels that use
    arithmetic near its peak are left out: their warps wait, and it costs nothing. If nothing had to be waited for,
    issuing instructions would still take the share of cycles in which it does, so the gain is at most the rest.""",
)

K15 = Rule(
    "K15",
    "Threads of a warp that do not work",
    needs=("counters", "gpu"),
    rests_on=("gpu", "counters"),
    thresholds={
        "threads": chosen(24, "", "threads per instruction, of the 32 of a warp"),
        "share_percent": SHARE,
    },
    advice="Sort or regroup the work so that the threads of a warp take the same branch; make blocks a multiple of 32"
    " threads, and let no thread end early.",
    source="Nsight Compute's rule ThreadDivergence",
    compared="fewer than {threads:g} threads",
    several=True,
    explanation="""
    Counts the threads that an instruction is executed for, of the 32 of a warp.

    Branches that only some threads take, threads that end early and blocks that are no multiple of 32 leave the others
    idle. Launches count by their time. The gain is at most that share of the kernel's time, and is claimed only where
    arithmetic is the bottleneck.""",
)
