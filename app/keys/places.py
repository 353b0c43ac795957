"""Every table of the screen by the names that people look for: ours, and those of other tools. Data only."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """A table of a tab, or a tab without tables."""

    tab: str
    table: str
    """As the view calls it; empty for the whole tab."""
    words: str = ""
    """What nsys, ncu, TensorBoard, Perfetto and HTA call it, or what it answers."""


PLACES = (
    Place("overview", "", "summary step time breakdown limit bottleneck diagnosis gpu utilization performance"),
    Place("kernels", "kernels", "cuda_gpu_kern_sum gpu kernels top kernel view occupancy tensor cores"),
    Place("kernels", "copies", "memcpy memset transfers htod dtoh dtod cuda_gpu_mem_time_sum bandwidth pcie"),
    Place("operators", "operators", "aten ops torch operator view framework"),
    Place("operators", "by shape", "input shapes group by input shape"),
    Place("host", "functions", "python functions cpu time profile hotspots"),
    Place("host", "lines", "source lines samples py-spy flame graph hot lines"),
    Place("host", "stacks", "call stack flame graph call tree top-down bottom-up backtrace"),
    Place("host", "critical path", "critical path analysis longest path what limits"),
    Place("host", "API calls", "cuda_api_sum cuda api runtime driver cudaLaunchKernel synchronize"),
    Place("host", "launches", "launch latency queue delay overhead cuda_kern_exec_sum launch statistics"),
    Place("host", "ranges", "nvtx nvtx_pushpop_sum user annotations record_function markers"),
    Place("host", "gaps", "idle time gpu idle bubbles starvation gaps idle time breakdown"),
    Place("host", "lanes", "threads streams lanes overlap concurrency utilization"),
    Place("host", "threads", "osrt scheduling context switches running blocked"),
    Place("host", "CPU samples", "cpu sampling ip samples hotspots"),
    Place("host", "OS calls", "osrt_sum os runtime syscalls system calls"),
    Place("host", "GPU metrics", "gpu metrics sampling sm active dram bandwidth nvlink"),
    Place("host", "unified memory", "um page faults managed memory migrations"),
    Place("modules", "modules", "nn.module layers module view model tree icicle"),
    Place("modules", "ranges", "nvtx ranges projected nvtx_gpu_proj_sum"),
    Place("counters", "kernels", "ncu metrics speed of light sol details occupancy"),
    Place("counters", "launches", "ncu results each launch registers shared memory block grid"),
    Place("counters", "rules", "ncu rules advice estimated speedup"),
    Place("counters", "metrics", "ncu raw metrics page counters"),
    Place("counters", "files", "ncu reports recordings sources"),
    Place("counters", "roofline", "roofline arithmetic intensity flops bandwidth roof peak"),
    Place("memory", "by stack", "allocations peak memory stack trace memory snapshot"),
    Place("memory", "by operator", "memory view allocations by operator"),
    Place("memory", "by module", "allocations by module layer"),
    Place("memory", "by range", "allocations by range nvtx"),
    Place("memory", "long-lived", "leaks long lived allocations memory timeline growth"),
    Place("memory", "steps", "memory timeline curve growth per step"),
    Place("memory", "segments", "fragmentation caching allocator reserved segments"),
    Place("memory", "out of memory", "oom cuda out of memory"),
    Place("findings", "findings", "advice recommendations rules expert system what to do"),
    Place("findings", "tried", "experiments proofs try prove measured changes"),
    Place("findings", "set aside", "suppressed silenced hidden"),
    Place("findings", "abstained", "not judged missing data"),
    Place("findings", "A and B", "findings compared"),
    Place("diff", "kernels", "compare trace diff regression"),
    Place("diff", "operators", "compare operators ops diff"),
    Place("diff", "modules", "compare modules layers"),
    Place("diff", "ranges", "compare nvtx ranges"),
    Place("diff", "waterfall", "waterfall bridge what makes the difference"),
    Place("diff", "step", "compare step time breakdown"),
    Place("diff", "conditions", "compare environment machine clocks versions"),
    Place("sweep", "points", "scaling batch size curve experiments"),
    Place("sweep", "variants", "sweep runs configurations"),
    Place("sweep", "findings", "sweep advice"),
    Place("sweep", "kinds", "sweep kernel categories"),
    Place("sweep", "counters", "sweep metrics ncu baselines"),
    Place("timeline", "", "trace view gantt events tracks perfetto chrome"),
    Place(
        "collectives", "collectives", "nccl communication allreduce all-reduce comm distributed bus bandwidth overlap"
    ),
    Place("collectives", "pairs", "send recv point to point peers"),
    Place("ranks", "ranks", "straggler slow rank distributed view load imbalance"),
    Place("ranks", "arrivals", "straggler late arrival skew"),
    Place("ranks", "waiting", "who waits for whom blocked synchronisation"),
    Place("ranks", "transfers", "links nvlink bandwidth slow link"),
    Place("ranks", "stages", "pipeline bubbles stages"),
    Place("query", "", "sql select query"),
)
