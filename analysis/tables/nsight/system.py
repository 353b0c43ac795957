"""What nsys recorded beside CUDA: threads and CPU samples, calls of the system, samples of the GPU, unified memory."""

from __future__ import annotations

from tracetui.analysis.tables.table import EVERY, Field, Table

_PROCESS = Field("process", "PID", "count", width=7, priority=4, null=True, type="whole",
                 about="the system's number of the process")  # fmt: skip
_THREAD = Field("thread", "TID", "count", width=7, priority=3, null=True, type="whole",
                about="the system's number of the thread")  # fmt: skip
_THREAD_NAME = Field("thread_name", "Thread", width=12, priority=1, flex=True, null=True, about="name of the thread")

THREADS = Table(
    "threads",
    "Threads",
    "threads",
    (
        Field("name", "Thread", width=16, priority=0, flex=True, null=True, about="name of the thread"),
        Field("on_cpu_ns", "On CPU", "time", priority=0, main=True, null=True,
              about="time on a CPU, as the scheduler recorded it; none where it was not traced"),
        Field("percent", "%", "percent", width=5, priority=0, bar=True, main=True, null=True,
              about="`on_cpu_us`, share of the recorded time"),
        Field("turns", "Turns", "count", width=6, priority=2, main=True, null=True,
              about="how often the thread was given a CPU"),
        Field("samples", "Samples", "count", width=7, priority=1, null=True,
              about="CPU samples that found it running; none where the CPU was not sampled"),
        Field("samples_percent", "Smpl%", "percent", width=5, priority=2, null=True, about="share of all CPU samples"),
        Field("program", "Program", width=12, priority=2, null=True, about="program of the process"),
        _PROCESS,
        _THREAD,
    ),
    data=("process", "program", "thread", "name", "on_cpu_ns", "percent", "turns", "samples", "samples_percent"),
    reports=("on_cpu_ns", "percent", "turns", "samples", "samples_percent", "thread", "name", "program"),
    base="% of the recorded time",
    sort=("on_cpu_ns", True),
)  # fmt: skip
CPU_FUNCTIONS = Table(
    "cpu_functions",
    "Functions on the CPU",
    "functions",
    (
        Field("function", "Function", width=24, priority=0, flex=True,
              about="function that ran; of a library whose functions have no names here, the library in brackets"),
        Field("samples", "Samples", "count", width=7, priority=1, main=True,
              about="samples in which the function itself ran"),
        Field("percent", "%", "percent", width=5, priority=0, bar=True, main=True,
              about="share of all CPU samples in which the function itself ran"),
        Field("total_samples", "Total", "count", width=6, priority=3,
              about="samples in which it or what it called ran"),
        Field("total_percent", "Total%", "percent", width=6, priority=1, about="`total_samples`, share of all samples"),
        _THREAD_NAME,
        Field("module", "Library", width=14, priority=2, flex=True, null=True, about="library or program it is of"),
        _PROCESS,
        _THREAD,
    ),
    data=("function", "module", "process", "thread", "thread_name", "samples", "percent", "total_samples",
          "total_percent"),
    reports=("percent", "total_percent", "samples", "thread", "thread_name", "function"),
    base="% of all CPU samples",
    sort=("samples", True),
)  # fmt: skip
OS_CALLS = Table(
    "os_calls",
    "OS runtime calls",
    "functions",
    (
        Field("name", "Function", width=20, priority=0, flex=True, about="function of the system's runtime"),
        Field("reason", "Reason", width=20, priority=0, about="what such a call waits for or does"),
        Field("total_ns", "Total", "time", priority=0, main=True, about="sum of the durations of its calls"),
        Field("percent", "%", "percent", width=5, priority=1, bar=True, main=True,
              about="`total_us`, share of the recorded time"),
        Field("calls", "Calls", "count", width=6, priority=1, main=True, about="number of calls"),
        Field("mean_ns", "Mean", "time", priority=3, about="mean duration of a call"),
        Field("max_ns", "Max", "time", priority=2, about="duration of the longest call"),
        _THREAD_NAME,
        Field("caller", "Called by", width=14, priority=1, flex=True, null=True,
              about="function of the program for which most of the time went; none where nsys kept no call chains, "
                    "as of calls below its threshold"),
        _PROCESS,
        _THREAD,
    ),
    data=("name", "reason", "calls", "total_ns", "mean_ns", "max_ns", "percent", "process", "thread", "thread_name",
          "caller"),
    reports=("total_ns", "percent", "calls", "max_ns", "thread", "name", "reason", "caller"),
    base="% of the recorded time",
    sort=("total_ns", True),
)  # fmt: skip


def _share(name: str, title: str, about: str, priority: int = 3) -> Field:
    return Field(name, title, "percent", width=6, priority=priority, null=True, about=about)


GPU_SAMPLES = Table(
    "gpu_samples",
    "GPU metrics, sampled",
    "kernels",
    (
        Field("device", "GPU", "count", width=3, priority=2, about="number of the GPU"),
        Field("kernel", "Kernel", width=20, priority=0, flex=True, null=True,
              about="the kernel while which it was sampled; none for all of the sampled time"),
        Field("calls", "Calls", "count", width=6, priority=4, null=True, about="number of launches"),
        Field("total_ns", "Total", "time", priority=1, main=True, about="time of the launches, or sampled time"),
        Field("samples", "Samples", "number", width=7, priority=3, null=True,
              about="the same in periods of sampling; the means of a kernel whose launches are on average shorter than "
                    "one are none, since its samples are of its neighbours too"),
        _share("sm_active_percent", "SM%", "SMs with a warp on them, of all", 0),
        _share("sm_issue_percent", "Issue%", "cycles in which the SMs issued an instruction, of all", 1),
        _share("tensor_percent", "Tensor%", "activity of the tensor cores", 1),
        _share("warps_percent", "Warps%", "compute warps in flight, of those that fit", 2),
        _share("dram_read_percent", "DRAM rd%", "bandwidth of reads from DRAM, of the peak", 1),
        _share("dram_write_percent", "DRAM wr%", "bandwidth of writes to DRAM, of the peak", 1),
        _share("pcie_rx_percent", "PCIe rx%", "throughput of PCIe towards the GPU, of the peak", 4),
        _share("pcie_tx_percent", "PCIe tx%", "throughput of PCIe from the GPU, of the peak", 4),
        _share("nvlink_rx_percent", "NVL rx%", "throughput of NVLink towards the GPU, of the peak", 5),
        _share("nvlink_tx_percent", "NVL tx%", "throughput of NVLink from the GPU, of the peak", 5),
        Field("clock_mhz", "MHz", "number", width=5, priority=3, null=True, about="clock of the GPU's compute part"),
        Field("metrics", kind="list", screen=False,
              about="every sampled metric: `metric`, `unit`, its `mean` or null, and for all of the time its `curve`: "
                    "the means of 120 equal parts"),
    ),
    data=EVERY,
    reports=("device", "total_ns", "sm_active_percent", "sm_issue_percent", "tensor_percent", "dram_read_percent",
             "dram_write_percent", "kernel"),
    base="means over the samples",
)  # fmt: skip
UNIFIED_MEMORY = Table(
    "unified_memory",
    "Unified memory",
    "kinds of migrations and faults",
    (
        Field("what", "What", width=10, priority=0, about="`migration`, `GPU faults` or `CPU faults`"),
        Field("how", "How", width=16, priority=0, flex=True,
              about="direction of a migration, kind of access of a GPU fault, function of a CPU fault"),
        Field("cause", "Cause", width=16, priority=0, null=True,
              about="why the driver moved the pages; none of faults"),
        Field("count", "Count", "count", width=7, priority=1, main=True, about="migrations, or events of faults"),
        Field("faults", "Faults", "count", width=7, priority=1, null=True,
              about="page faults; of a GPU several may be one event"),
        Field("bytes", "Bytes", "bytes", width=9, priority=1, null=True, about="what was moved"),
        Field("total_ns", "Total", "time", priority=1, null=True, about="sum of the durations"),
        Field("device", "GPU", "count", width=3, priority=2, null=True, about="number of the GPU"),
        _PROCESS,
    ),
    data=("what", "how", "cause", "process", "device", "count", "faults", "bytes", "total_ns"),
    reports=("what", "count", "faults", "bytes", "total_ns", "device", "how", "cause"),
)  # fmt: skip
