"""Reads `run.json`, what `tracetui profile` says of a run: who, on what, in which state, doing what, and how it ended.

The keys are the fields of the structs below; what a file does not say, or says in another type, is null. Sizes are
bytes, clocks Hz, temperatures °C, powers mW, times ns unless a field says otherwise.
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import Raw, Struct, field
from msgspec.structs import replace

from tracetui.parsers.runs.json_records import WRONG, Number, Whole, members, record, value
from tracetui.parsers.runs.side_files import read_text
from tracetui.parsers.tally import Tally
from tracetui.parsers.trace import Note

SCHEMA = "tracetui.run/1"
FILE = "run.json"
LOG = "log.txt"
"""What the programs of a run printed."""
STATUSES = ("running", "finished", "failed", "interrupted")
MAX_BYTES = 64 << 20
"""A manifest with samples of a day stays below."""
SLOWED = frozenset(
    {"sw_power_cap", "hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"}
)
"""The reasons among `GpuState.throttle_reasons` that mean slowing down; others mean idling or a clock that was asked
for."""
_FAMILY = "tracetui.run/"


class Identity(Struct, frozen=True, gc=False):
    """Which run this is."""

    run_id: str | None = None
    """Unique to this run."""
    started_utc: str | None = None
    """ISO 8601, with the time zone."""
    started_unix_ns: Whole | None = None
    """Wall clock at the start, ns since 1970."""
    started_monotonic_ns: Whole | None = None
    """The machine's monotonic clock at the same moment, ns."""
    host: str | None = None
    """The machine's name; `tracetui scrub` removes it."""
    pid: Whole | None = None
    """The process of tracetui that makes this run; tells an unfinished run from one that was cut off."""
    boot_id: str | None = None
    """Changes when the machine starts anew; `tracetui scrub` removes it."""
    command: tuple[str, ...] = ()
    """What the user typed, word by word; what looks like a secret is `***`."""
    cwd: str | None = None
    """The folder the run was started in."""
    git_sha: str | None = None
    """The commit of that folder."""
    git_branch: str | None = None
    """Its branch; null where no branch is checked out."""
    git_dirty: bool | None = None
    """Whether tracked files differ from the commit."""
    git_diff_sha256: str | None = None
    """Of what `git diff HEAD` prints; null where nothing differs. Two runs with one hash ran one code."""
    tracetui_version: str | None = None
    """Of the program that launched the run."""


class Software(Struct, frozen=True, gc=False):
    """What ran it; torch and below are as the profiled process itself reported them."""

    python: str | None = None
    """Version of the Python that ran the workload."""
    python_executable: str | None = None
    """Its path."""
    torch: str | None = None
    torch_git: str | None = None
    """The commit torch was built from."""
    cuda_runtime: str | None = None
    """What torch was built for: `13.0`."""
    cudnn: str | None = None
    cupti: str | None = None
    """Version of the CUPTI library, where it is known."""
    driver: str | None = None
    """The kernel driver: `580.159.04`."""
    cuda_driver: str | None = None
    """The newest CUDA that the driver runs: `13.0`."""
    triton: str | None = None
    mamba_ssm: str | None = None
    causal_conv1d: str | None = None
    timm: str | None = None
    nsys: str | None = None
    ncu: str | None = None
    l4t: str | None = None
    """Of a Jetson board: `36.4.3`."""
    jetpack: str | None = None
    """The JetPack that this L4T belongs to: `6.2`."""
    kernel: str | None = None
    """The operating system's kernel: `5.15.148-tegra`."""
    os: str | None = None
    """`Ubuntu 22.04.5 LTS`"""
    architecture: str | None = None
    """`x86_64` or `aarch64`"""


class Device(Struct, frozen=True, gc=False):
    """One GPU: what does not change while the machine is up."""

    index: Whole | None = None
    name: str | None = None
    integrated: bool | None = None
    """It shares its memory with the CPU."""
    uuid: str | None = None
    """`tracetui scrub` removes it."""
    pci_bus: str | None = None
    compute_capability: str | None = None
    """`8.7`"""
    sm_count: Whole | None = None
    """SMs that are switched on, as the profiled process saw them."""
    memory_bytes: Whole | None = None
    """Of an integrated GPU the machine's memory."""
    max_clock_hz: Whole | None = None
    """The highest clock of the chip, whatever caps it now."""
    max_memory_clock_hz: Whole | None = None
    default_power_limit_mw: Whole | None = None
    board: str | None = None
    """Of a Jetson: the model in its device tree."""
    module_id: str | None = None
    """Of a Jetson: the module, `p3767-0005`."""
    compatible: tuple[str, ...] = ()
    """Of a Jetson: what its device tree says it is compatible with."""
    available_clocks_hz: tuple[Whole, ...] = ()
    persistence: bool | None = None
    """The driver stays loaded while nobody uses the GPU."""
    ecc: bool | None = None
    mig: bool | None = None
    """The GPU is divided."""
    compute_mode: str | None = None
    """`Default`, `Exclusive_Process`, …"""


class GpuState(Struct, frozen=True, gc=False):
    """One GPU at one moment."""

    index: Whole | None = None
    clock_hz: Whole | None = None
    """The clock of the SMs."""
    min_clock_hz: Whole | None = None
    max_clock_hz: Whole | None = None
    """The cap in force: of a Jetson that of the power mode."""
    applications_clock_hz: Whole | None = None
    memory_clock_hz: Whole | None = None
    applications_memory_clock_hz: Whole | None = None
    governor: str | None = None
    """Who chooses the clock: `nvhost_podgov`."""
    load_percent: Number | None = None
    """Share of the last sampling period in which anything ran."""
    memory_load_percent: Number | None = None
    """Share of that period in which the memory was read or written."""
    power_mw: Whole | None = None
    power_limit_mw: Whole | None = None
    temperature_c: Number | None = None
    pstate: str | None = None
    """`P0` is the fastest."""
    throttle_reasons: tuple[str, ...] | None = None
    """Why the clock is not higher; empty for no reason, null where it is not known."""
    memory_used_bytes: Whole | None = None
    tpc_pg_mask: Whole | None = None
    """Of a Jetson: TPCs that are switched off, a bit each."""
    railgate: bool | None = None
    """Of a Jetson: the GPU loses its power while idle."""
    scaling: bool | None = None
    """Of a Jetson: the governor may change the clock (`enable_3d_scaling`)."""


class MemoryClock(Struct, frozen=True, gc=False):
    """A Jetson's memory controller (EMC)."""

    rate_hz: Whole | None = None
    cap_hz: Whole | None = None
    """What the power mode allows."""
    min_hz: Whole | None = None
    max_hz: Whole | None = None
    load_percent: Number | None = None


class CpuState(Struct, frozen=True, gc=False):
    """The processor at one moment."""

    online: Whole | None = None
    """Cores that are switched on."""
    governor: str | None = None
    """Several where cores differ, joined by `,`."""
    clock_hz: Whole | None = None
    """Of the fastest core now."""
    max_clock_hz: Whole | None = None
    """The cap in force, of the fastest core."""
    hardware_max_clock_hz: Whole | None = None
    load_1m: Number | None = None
    """Processes that run or wait to, averaged over a minute."""
    load_5m: Number | None = None
    load_15m: Number | None = None


class MemoryState(Struct, frozen=True, gc=False):
    """The machine's memory at one moment."""

    total_bytes: Whole | None = None
    available_bytes: Whole | None = None
    """What programs can still have without swapping."""
    swap_total_bytes: Whole | None = None
    swap_used_bytes: Whole | None = None
    zram_bytes: Whole | None = None
    """Of that swap, what is compressed memory and no disk."""
    pages_swapped_in: Whole | None = None
    """Since the machine started (pswpin)."""
    pages_swapped_out: Whole | None = None


class Rail(Struct, frozen=True, gc=False):
    """One supply that a sensor (INA3221) measures."""

    name: str | None = None
    """As the board labels it: `VDD_IN`."""
    voltage_mv: Whole | None = None
    current_ma: Whole | None = None
    power_mw: Whole | None = None
    """The product of both."""
    max_current_ma: Whole | None = None
    """Above it the hardware slows down."""
    critical_current_ma: Whole | None = None


class GpuProcess(Struct, frozen=True, gc=False):
    """Another program on the GPU."""

    pid: Whole | None = None
    name: str | None = None
    """The program's file name, without its folder."""
    gpu_memory_bytes: Whole | None = None


class PowerState(Struct, frozen=True, gc=False):
    """Everything about speed and heat at one moment."""

    time_unix_ns: Whole | None = None
    monotonic_ns: Whole | None = None
    sources: tuple[str, ...] = ()
    """What answered: `sysfs`, `nvpmodel`, `nvidia-smi`, `tegrastats`; of earlier versions `nvml`."""
    mode_id: Whole | None = None
    """Of a Jetson: the power mode that nvpmodel names. Its name says little: compare the caps."""
    mode_name: str | None = None
    jetson_clocks: bool | None = None
    """The clocks are pinned: lowest and highest are the same."""
    gpus: tuple[GpuState, ...] = ()
    emc: MemoryClock | None = None
    cpu: CpuState | None = None
    memory: MemoryState | None = None
    temperatures_c: dict[str, Number] = field(default_factory=dict)
    """By the name of the zone."""
    rails: tuple[Rail, ...] = ()
    alarms: dict[str, Whole] = field(default_factory=dict)
    """By name: 1 while an alarm is on, or how often the hardware slowed down (`oc1_event_cnt`)."""
    gpu_processes: tuple[GpuProcess, ...] | None = None
    """Null where it is not known who uses the GPU; in samples always null."""
    needs_root: tuple[str, ...] = ()
    """What is null only because reading it needs root."""


class Power(Struct, frozen=True, dict=True):
    """The machine before, during and after the run."""

    before: PowerState | None = None
    samples: Raw = field(default=Raw(b"[]"), name="during")

    @property
    def during(self) -> tuple[PowerState, ...]:
        """Samples, oldest first. They are thinned where a run is long, evenly."""
        return self._read[0]

    after: PowerState | None = None

    @property
    def notes(self) -> tuple[Note, ...]:
        """What of the samples could not be used."""
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[tuple[PowerState, ...], tuple[Note, ...]]:
        """The samples, which not everyone looks at, and what of them could not be used."""
        tally = Tally()
        states = value(tuple[PowerState, ...], self.samples, tally, "power.during")
        return () if states is WRONG else states, tally.notes()


class Modes(Struct, frozen=True, gc=False):
    """What may slow down every step, as the process itself had it while its steps ran."""

    anomaly: bool | None = None
    """Autograd's anomaly detection."""
    fills_memory: bool | None = None
    """Where algorithms are deterministic, new tensors are filled."""
    cudnn_deterministic: bool | None = None
    float32_matmul: str | None = None
    """`highest`, `high` or `medium`"""
    torch_profiler: bool | None = None
    """A profiler of the program's own, or emit_nvtx."""
    memory_history: bool | None = None
    """The CUDA allocator records its history."""
    sync_debug: bool | None = None
    """torch.cuda.set_sync_debug_mode"""
    python_trace: bool | None = None
    """sys.settrace, or a debugger or coverage by sys.monitoring."""
    python_profile: bool | None = None
    """sys.setprofile, or a profiler by sys.monitoring."""
    gc_enabled: bool | None = None
    gc_thresholds: tuple[Whole, ...] = ()
    gc_frozen: Whole | None = None
    """Objects that the collector leaves alone."""
    launch_blocking: bool | None = None
    """`CUDA_LAUNCH_BLOCKING`"""
    uncached_memory: bool | None = None
    """`PYTORCH_NO_CUDA_MEMORY_CACHING`"""
    cpp_stacktraces: bool | None = None
    """`TORCH_SHOW_CPP_STACKTRACES`"""
    compile_disabled: bool | None = None
    """`TORCH_COMPILE_DISABLE` or `TORCHDYNAMO_DISABLE`"""
    distributed_debug: bool | None = None
    """`TORCH_DISTRIBUTED_DEBUG` is `DETAIL`."""
    nccl_blocking: bool | None = None
    """`TORCH_NCCL_BLOCKING_WAIT`"""
    nccl_p2p_disabled: bool | None = None
    """`NCCL_P2P_DISABLE`"""
    max_connections: Whole | None = None
    """`CUDA_DEVICE_MAX_CONNECTIONS`"""


class Workload(Struct, frozen=True, gc=False):
    """What was run."""

    model: str | None = None
    """A name of `tracetui reference models`, or the user's command."""
    family: str | None = None
    backend: str | None = None
    """`mamba_ssm`, `reference`, `torch`, `timm` or `user`: a reference says nothing about the device."""
    parameters: Whole | None = None
    """Counted, not published."""
    dtype: str | None = None
    """`fp32`, `fp16`, `bf16` or `tf32`"""
    autocast: bool | None = None
    tf32_matmul: bool | None = None
    tf32_cudnn: bool | None = None
    cudnn_benchmark: bool | None = None
    deterministic: bool | None = None
    train: bool | None = None
    """Forward, backward and optimizer; else forward only."""
    grad_enabled: bool | None = None
    compile: str | None = None
    """The mode of torch.compile; null for none."""
    threads: Whole | None = None
    """torch's threads on the CPU."""
    device: str | None = None
    """`cuda:0` or `cpu`"""
    seed: Whole | None = None
    data: str | None = None
    """`random` or `imagefolder:PATH`"""
    workers: Whole | None = None
    """Processes of the data loader."""
    requested_batch: Whole | None = None
    """What the user asked for."""
    batch: Whole | None = None
    """Samples of a step as the model really saw them."""
    input_shapes: tuple[tuple[Whole, ...], ...] = ()
    """Of the tensors that a step was given."""
    flops_per_step: Whole | None = None
    """Multiply and add are two."""
    compulsory_bytes_per_step: Whole | None = None
    """What a step must at least move to and from memory."""
    options: dict[str, Any] = field(default_factory=dict)
    """What else the user asked for, by the name of the option."""
    environment: dict[str, str] = field(default_factory=dict)
    """Of the variables that change speed, those that were set; never others."""
    modes: Modes = field(default_factory=Modes)


class Pass(Struct, frozen=True, gc=False):
    """One recording of torch.profiler; of a run on a GPU there are two, of the same program and process."""

    name: str | None = None
    """`light`: GPU work, API calls and waits, for the times; `rich`: operators and what else was asked for, for the
    names."""
    file: str | None = None
    """Within the run's folder."""
    steps: Whole | None = None
    """Recorded ones; null where it was recorded by time."""
    step_ns: tuple[Whole, ...] = ()
    """Each of its steps, from end to end, by the clock of `clean_step_ns`."""
    host_ns: tuple[Whole, ...] = ()
    """Each of its steps by the clock of `clean_host_ns`."""
    flags: dict[str, bool] = field(default_factory=dict)
    """What it recorded: operators, record_shapes, with_stack, profile_memory, cuda_sync_events."""


OWN = ("noted", "contradicted")
"""Fields that are no keys of the file."""


class OperatorCalls(Struct, frozen=True, gc=False):
    """Some calls of an operator in a step, on the thread that runs the program."""

    name: str = ""
    of: Whole = 0
    """How many calls of it a step has."""
    calls: tuple[Whole, ...] = ()
    """Which of them, counted from 0."""


class Unchanged(Struct, frozen=True, gc=False):
    """What some steps in a row computed anew with the same result, bit for bit."""

    file: str = ""
    """In the folder that the program ran in, else without its folders."""
    line: Whole = 0
    """The line of the program; of a whole function its first."""
    function: str = ""
    whole: bool = False
    """Whether all that the function does is the same."""
    again: bool = False
    """Whether it is what operators have yielded before in the same step, and not in the step before."""
    operators: tuple[OperatorCalls, ...] = ()


class InVain(Struct, frozen=True, gc=False):
    """What a step computes of which a part is used."""

    file: str = ""
    """In the folder that the program ran in, else without its folders."""
    line: Whole = 0
    """The innermost line that all of the operators are called from, or its function's first."""
    function: str = ""
    why: str = ""
    """`read` (a part is read), `masked` (the rest is hidden by a mask), `zeroed` (it is multiplied by the number 0),
    `alike` (so many of the rows differ), `repeated` (so many of the numbers copied differ) or `dropped` (nobody reads
    it)."""
    used: Number = 1.0
    """The part that is used, from 0 to 1."""
    by: str | None = None
    """File and line of what reads or masks it; null where nothing does."""
    operators: tuple[OperatorCalls, ...] = ()


class Unheld(Struct, frozen=True, gc=False):
    """What gets gradients and is in no optimizer."""

    parameters: Whole = 0
    """How many parameters (tensors)."""
    bytes: Whole = 0
    """Of their gradients."""
    classes: tuple[str, ...] = ()
    """Of the modules all of whose parameters are so, the outermost ones whose class no trained module has."""


class CompiledPlace(Struct, frozen=True, gc=False):
    """Where torch.compile broke a graph, or compiled again."""

    reason: str = ""
    """In torch's words."""
    at: str | None = None
    """File and line of the program; of what was compiled again, those of the function."""
    count: Whole = 0


class Compiled(Struct, frozen=True, gc=False):
    """What torch.compile says of the whole process; the most frequent places first."""

    graph_breaks: tuple[CompiledPlace, ...] = ()
    recompilations: tuple[CompiledPlace, ...] = ()


class Spare(Struct, frozen=True, gc=False):
    """Positions of a tensor that some steps in a row computed with though they carry nothing."""

    name: str = ""
    """Of the argument; `target` of a loss."""
    of: str = ""
    """Class of the module that it was given to, or torch's function of the loss."""
    shape: tuple[Whole, ...] = ()
    """Of the tensor; of a loss that of its scores, rows and classes."""
    dim: Whole | None = None
    """The dimension whose positions, from an end on, all have the same value; null of rows that a loss ignores."""
    percent: Number = 0.0
    """Of the dimension, so in all items of a batch; of a loss, of its rows."""
    mean_percent: Number = 0.0
    """Of the dimension, so in each item on average."""
    file: str = ""
    line: Whole = 0
    """Where the program calls the module or the loss."""
    function: str = ""


class Measurement(Struct, frozen=True, gc=False):
    """How it was measured."""

    tool: str | None = None
    """`torch`, `nsys`, `ncu`, `memory` or `all`"""
    warmup_steps: Whole | None = None
    steps: Whole | None = None
    """Profiled ones."""
    step_of: str | None = None
    """What ends a step of a program of the user's own: `optimizer.step()`, or the call of the module that a program
    without an optimizer repeats, as `Net.forward()`, or of its function that does, as `Flow.step (eddies.py:62)`;
    null for a known model."""
    repeats: Whole | None = None
    schedule: dict[str, Whole] = field(default_factory=dict)
    """Of torch.profiler: wait, warmup, active, repeat, skip_first."""
    flags: dict[str, bool] = field(default_factory=dict)
    """What the profiler recorded: record_shapes, with_stack, profile_memory, …"""
    clean_step_ns: tuple[Whole, ...] = ()
    """Each step of the loop before profiling, without a profiler: on CUDA from event to event on the GPU's time line,
    else on the host's clock."""
    clean_host_ns: tuple[Whole, ...] = ()
    """How long the host took to give out the work of each of these steps: less than the step where it runs ahead of
    the GPU."""
    clean_gc_ns: tuple[Whole, ...] = ()
    """How long Python's collector paused the process in each of them."""
    profiled_step_ns: tuple[Whole, ...] = ()
    """Each step under the profiler, by the clock of `clean_step_ns`; of two recordings the rich one."""
    unchanged: tuple[Unchanged, ...] = ()
    """The places of the program whose operators yield the same in each step."""
    in_vain: tuple[InVain, ...] = ()
    """What is used in part of what the operators of a step yield."""
    unheld: Unheld | None = None
    """Null where each parameter with a gradient is in an optimizer, or it is not known."""
    spare: tuple[Spare, ...] = ()
    """Padding, and labels that the loss ignores."""
    compiled: Compiled | None = None
    """Null where torch.compile compiled nothing, or it is not known."""
    passes: tuple[Pass, ...] = ()
    """The recordings of torch.profiler, in order."""
    commands: tuple[tuple[str, ...], ...] = ()
    """What was launched, in order; what looks like a secret is `***`."""


class Rank(Struct, frozen=True, gc=False):
    """One process of a job of many."""

    rank: Whole | None = None
    local_rank: Whole | None = None
    """Which of its machine's ranks it is."""
    world_size: Whole | None = None
    host: str | None = None
    pid: Whole | None = None
    gpu_uuid: str | None = None
    """Which of `device` it used; null without a GPU."""
    clean_step_ns: tuple[Whole, ...] = ()
    """As in `measurement`, of this rank; the ranks began these steps together."""
    clean_host_ns: tuple[Whole, ...] = ()
    profiled_step_ns: tuple[Whole, ...] = ()
    passes: tuple[Pass, ...] = ()
    error: str | None = None
    """Why it ended early; `interrupted` where another rank had failed; null where it did not."""


class Machine(Struct, frozen=True):
    """One more machine that a job ran on: `software`, `device` and `power` are of the one that launched it first."""

    host: str | None = None
    software: Software = field(default_factory=Software)
    device: tuple[Device, ...] = ()
    power: Power = field(default_factory=Power)


class OutputFile(Struct, frozen=True, gc=False):
    """One file of the run."""

    name: str | None = None
    """Within the run's folder."""
    kind: str | None = None
    """`chrome`, `nsys`, `ncu`, `memory_snapshot`, `samples` or `log`"""
    bytes: Whole | None = None
    sha256: str | None = None


class Outcome(Struct, frozen=True, gc=False):
    """How it ended."""

    exit_code: Whole | None = None
    """Null where a signal ended it."""
    signal: str | None = None
    """`SIGKILL` and so on."""
    explanation: str | None = None
    """One line on what went wrong; null where nothing did."""
    ended_unix_ns: Whole | None = None
    duration_ns: Whole | None = None
    files: tuple[OutputFile, ...] = ()
    events_dropped: Whole | None = None
    """As the profiler reported them; null where it does not say."""
    skipped: tuple[str, ...] = ()
    """What was asked for and not done, and why, a line each."""


class RunManifest(Struct, frozen=True, gc=False):
    """A whole `run.json`."""

    schema: str | None = None
    """`tracetui.run/1`"""
    status: str | None = None
    """`running`, `finished`, `failed` or `interrupted`; `running` with nobody running was cut off."""
    identity: Identity = field(default_factory=Identity)
    software: Software = field(default_factory=Software)
    device: tuple[Device, ...] = ()
    power: Power = field(default_factory=Power)
    workload: Workload = field(default_factory=Workload)
    measurement: Measurement = field(default_factory=Measurement)
    """Of a job of many ranks, that of the lowest."""
    ranks: tuple[Rank, ...] = ()
    """The ranks of a job; empty for one process."""
    machines: tuple[Machine, ...] = ()
    """The job's other machines; empty where all ranks ran on one."""
    outcome: Outcome = field(default_factory=Outcome)
    noted: tuple[Note, ...] = ()
    """What of the file could not be used, but for the samples; no key of the file."""
    contradicted: str | None = None
    """How the recording beside it contradicts it (`claims`), of which nothing is then used; no key of the file."""

    def clean_steps(self, rank: int | None) -> tuple[int, ...]:
        """A rank's steps without a profiler, ns; those of `measurement` where the ranks are not told apart."""
        own = self._rank(rank)
        return self.measurement.clean_step_ns if own is None else own.clean_step_ns

    def clean_hosts(self, rank: int | None) -> tuple[int, ...]:
        """How long the host took for each of `clean_steps`, ns."""
        own = self._rank(rank)
        return self.measurement.clean_host_ns if own is None else own.clean_host_ns

    def profiled_steps(self, rank: int | None) -> tuple[int, ...]:
        """A rank's steps under the profiler, ns."""
        own = self._rank(rank)
        return self.measurement.profiled_step_ns if own is None else own.profiled_step_ns

    def host_of(self, rank: int | None) -> str | None:
        """The machine that a rank ran on; that of the run where the ranks are not told apart."""
        own = self._rank(rank)
        return self.identity.host if own is None or own.host is None else own.host

    def _rank(self, rank: int | None) -> Rank | None:
        return next((one for one in self.ranks if one.rank == rank), None)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What of the file could not be used. Reads the samples."""
        tally = Tally()
        tally.take_over((*self.noted, *self.power.notes))
        return tally.notes()


def load(path: Path) -> RunManifest | None:
    """The manifest in a file, or in a folder that holds a `run.json`; None where there is none.

    A manifest that is damaged, or of a later version, comes as far as it can be read, with notes.
    """
    file = path / FILE if path.is_dir() else path
    try:
        text = read_text(file, MAX_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        tally = Tally()
        tally.missing(f"everything: {error.strerror or error}")
        return RunManifest(noted=tally.notes())
    try:
        found = members(text)
    except (ValueError, RecursionError) as error:
        tally = Tally()
        tally.missing("everything: run.json is damaged", 1, str(error))
        return RunManifest(noted=tally.notes())
    return None if found is None else _manifest(found)


def parse(document: Any) -> RunManifest | None:
    """The manifest in a decoded document; a torch trace carries one under its key ``tracetui``. None for none."""
    try:  # Kineto writes what add_metadata_json was given, or the same in quotes
        found = members(document if isinstance(document, str) else json.dumps(document))
    except (ValueError, RecursionError):
        return None
    return None if found is None else _manifest(found)


def _manifest(found: dict[str, Raw]) -> RunManifest | None:
    """The manifest in the members of a document."""
    tally = Tally()
    schema = value(str, found.get("schema", Raw(b"null")), Tally(), "schema")
    if not isinstance(schema, str) or not schema.startswith(_FAMILY):
        return None
    if schema != SCHEMA:
        tally.missing(f"what a later version added: the file is {schema[:40]}, known is {SCHEMA}")
    manifest: RunManifest = record(RunManifest, {key: raw for key, raw in found.items() if key not in OWN}, tally)
    if manifest.status is not None and manifest.status not in STATUSES:
        tally.skipped("status that is none", 1, manifest.status)
        manifest = replace(manifest, status=None)
    return replace(manifest, noted=tally.notes())
