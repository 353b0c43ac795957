"""The report of a run as structs: what `tracetui report` prints as JSON, and what text, Markdown and pages lay out.

The order of the fields is that of the JSON. A section that was not asked for is UNSET, and its key absent; what is
unknown is None. Times are in µs, shares in percent, sizes in bytes.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType, field

from tracetui.analysis.base.json_values import Json, share_of
from tracetui.analysis.captures.model import CaptureRow
from tracetui.parsers.runs.comments import Comment

Row: TypeAlias = Json
"""A row of a declared table, by the keys of its fields."""
SECTIONS = (
    "overview", "critical_path", "kernels", "memops", "operators", "modules", "host_functions", "host_lines",
    "host_stacks", "api",
    "ranges", "range_tree", "launches", "communication", "collectives", "counters", "roofline", "memory", "findings",
    "tried", "source_lines", "gaps", "threads", "cpu_functions", "os_calls", "gpu_samples", "unified_memory",
)  # fmt: skip
"""Every section of a trace, in the order of the report; each is a field of `Trace`."""


def of_table(name: str, description: str | None = None) -> Meta:
    """Says that a list has the rows of the declared table of this id."""
    return Meta(description=description, extra_json_schema={"x-table": name})


class Note(Struct, frozen=True, kw_only=True):
    """What a parser skipped, repaired or missed."""

    reason: str
    count: int
    example: str


class Graphs(Struct, frozen=True, kw_only=True):
    """What the capture of CUDA and HIP graphs told of the kernels of their replays."""

    sentence: str
    files: list[str]
    captured: Annotated[int, Meta(description="graphs that were captured")]
    launches: Annotated[int, Meta(description="launches of graphs that have kernels")]
    kernels: Annotated[int, Meta(description="kernels that they replayed")]
    matched: Annotated[int, Meta(description="those for which a captured launch, or several, was found")]
    ambiguous: Annotated[int, Meta(description="those of the matched ones that may be of launches in several places")]
    by_order: Annotated[int, Meta(description="those whose name the capture doesn't tell, by their place alone")]
    incomplete: Annotated[int, Meta(description="launches of graphs that lack kernels of their graph")]
    replayed_us: float | None
    attributed_us: Annotated[float | None, Meta(description="of those that are matched and not ambiguous")]
    attributed_percent: Annotated[float | None, share_of("the GPU time of replayed kernels")]


class Source(Struct, frozen=True, kw_only=True):
    """Where the numbers come from, and which parts of that could not be read."""

    path: str
    kind: str
    tool: str
    tool_version: str | None
    rank: int | None
    world_size: int | None
    bytes: int
    events_total: int
    events_parsed: int
    partial: bool
    captured: dict[str, str] | UnsetType = UNSET
    graphs: Graphs | UnsetType = UNSET
    skipped: list[Note]
    repaired: list[Note]
    missing: list[Note]


class Device(Struct, frozen=True, kw_only=True):
    """A GPU that a trace describes."""

    id: int
    name: str | None
    compute_capability: str | None
    architecture: str | None
    sm_count: int | None
    memory_bytes: int | None


class Cost(Struct, frozen=True, kw_only=True):
    """What a step spends on one category."""

    us: float | None
    percent: Annotated[float | None, share_of("the step, recording or lane that it is a part of")]


class Step(Struct, frozen=True, kw_only=True):
    """One step by category."""

    index: int
    name: str
    us: float | None
    categories: dict[str, Cost]


class DeviceIdle(Struct, frozen=True, kw_only=True):
    """Why one GPU is idle inside the steps, % of its idle time."""

    device: int | None
    idle_us: float | None
    host_wait_percent: Annotated[float | None, share_of("its idle time")]
    kernel_wait_percent: Annotated[float | None, share_of("its idle time")]
    other_percent: Annotated[float | None, share_of("its idle time")]


class Idle(Struct, frozen=True, kw_only=True):
    """Why the GPUs are idle inside the steps, % of the idle time of all."""

    host_wait_percent: Annotated[float | None, share_of("the idle time")]
    kernel_wait_percent: Annotated[float | None, share_of("the idle time")]
    other_percent: Annotated[float | None, share_of("the idle time")]
    idle_us: float | None
    per_device: list[DeviceIdle]


class LaneEvent(Struct, frozen=True, kw_only=True):
    """A long event of a lane, % of the lane's width."""

    name: str
    begin_percent: Annotated[float, share_of("the lane's width")]
    end_percent: Annotated[float, share_of("the lane's width")]


class BusyLane(Struct, frozen=True, kw_only=True):
    """A lane of a step: how busy it is in all, and in each of equal parts."""

    kind: str
    device: int | None
    stream: int | None
    process: int | None
    thread: int | None
    name: str | None
    busy_percent: Annotated[float, share_of("the lane's width")]
    cells: list[float]
    events: list[LaneEvent]


class StepLanes(Struct, frozen=True, kw_only=True):
    """The most typical step as lanes; all of the recording where there are no steps."""

    step: int | None
    us: float | None
    lanes: list[BusyLane]


class Averages(Struct, frozen=True, kw_only=True):
    """The average step of one recording, its GPUs and why they are idle."""

    steps: int
    base: Annotated[str, Meta(description="what the numbers are about")]
    average_step_us: float | None
    categories: Annotated[dict[str, Cost], Meta(description="per step; the shares sum to 100 %")]
    gpu: Annotated[list[Row], of_table("gpu")]
    idle: Annotated[Idle, Meta(description="why the GPU is idle inside the steps, % of the idle time")]
    overlap_percent: Annotated[float | None, share_of("the communication time")]


class PageStep(Struct, frozen=True, kw_only=True):
    """The one step that a page is of: its time, its parts, its GPUs and why they are idle."""

    of: Annotated[str, Meta(description="clean (without a profiler), light (the light recording's) or recorded")]
    us: Annotated[float | None, Meta(description="the median step, the base of every gain")]
    by_replay: Annotated[bool, Meta(description="whether a replay of the launches says where its time goes")]
    replay_off_percent: Annotated[
        float | None, Meta(description="by how much the replayed median step is longer, % of the clean one")
    ]
    recording_us: Annotated[
        float | None, Meta(description="the most of it that recording may have added; null for a clean step")
    ]
    steps: Annotated[int, Meta(description="how many steps the shares are the mean of")]
    categories: Annotated[dict[str, Cost], Meta(description="its parts; the shares are of the step and sum to 100 %")]
    gpu_busy_percent: Annotated[float | None, Meta(description="the time in which a GPU works, % of the step")]
    gpu: Annotated[list[Row], of_table("gpu")]
    idle: Annotated[Idle, Meta(description="why the GPU is idle, % of the idle time in the step")]


class Bounds(Struct, frozen=True, kw_only=True):
    """A number that is known between two."""

    least: float | None
    most: float | None


class WaitsFor(Struct, frozen=True, kw_only=True):
    """The verdict, and the numbers that it rests on."""

    what: Annotated[str, Meta(description="host, gpu, dataloader, communication, copies, ranks or unknown")]
    sentence: str
    recorded_us: float | None
    clean_us: float | None
    host_free_us: float | None
    gpu_free_us: Bounds | None
    unexplained_steps: int


class Overview(Struct, frozen=True, kw_only=True):
    """Step time by category, GPU metrics, idle time, and what the run waits for."""

    steps: int
    base: Annotated[str, Meta(description="what the numbers are about")]
    average_step_us: float | None
    steps_of: str | None
    warm_up_steps: int
    setup_us: float | None
    recorded_us: float | None
    step: Annotated[PageStep, Meta(description="the step that text, pages and the screen show")]
    categories: Annotated[dict[str, Cost], Meta(description="per step; the shares sum to 100 %")]
    kinds: Annotated[list[Row], of_table("step_kinds", "kinds of the page's steps; empty if all are alike")]
    served: Annotated[list[Row], of_table("served", "phases of an inference server's iterations; else empty")]
    served_work: Annotated[list[Row], of_table("served_work", "what a GPU does in an iteration of each phase")]
    served_sizes: Annotated[list[Row], of_table("served_sizes", "their time by batch, tokens or context")]
    per_step: list[Step] | UnsetType = UNSET
    gpu: Annotated[list[Row], of_table("gpu")]
    idle: Annotated[Idle, Meta(description="why the GPU is idle inside the steps, % of the idle time")]
    overlap_percent: Annotated[float | None, share_of("the communication time")]
    lanes: StepLanes | UnsetType = UNSET
    as_recorded: Averages | UnsetType | None = UNSET
    waits_for: Annotated[
        WaitsFor | None, Meta(description="what the run waits for, with the numbers that this rests on")
    ]


class CriticalPath(Struct, frozen=True, kw_only=True):
    """What each step waited for: resources, and the longest stretches."""

    of: Annotated[str, Meta(description="the steps that it is of: clean (by a replay), light or recorded")]
    steps: int
    step_us: Annotated[float | None, Meta(description="the page's step where it is of the same steps, else their mean")]
    resources: Annotated[list[Row], of_table("critical_path")]
    stretches: Annotated[list[Row], of_table("critical_path_stretches")]


class Launches(Struct, frozen=True, kw_only=True):
    """How kernels reach the GPU: how many, how short, how late."""

    count: int
    short_kernels: int
    runtime_outliers: int
    delay_outliers: int
    median_delay_us: float | None


class Communication(Struct, frozen=True, kw_only=True):
    """Collectives against compute: averages per step, and the kernels that communicate."""

    communication_us: float | None
    compute_us: float | None
    overlap_us: float | None
    overlap_percent: Annotated[float | None, share_of("the communication time")]
    kernels: Annotated[list[Row], of_table("communication")]


class MemoryPeak(Struct, frozen=True, kw_only=True):
    """The most that was allocated and reserved on one device."""

    device_type: int
    device: int
    allocated_bytes: int | None
    reserved_bytes: int | None


class Segments(Struct, frozen=True, kw_only=True):
    """The allocator's segments at the end of the recording."""

    count: int
    reserved_bytes: int
    allocated_bytes: int | None
    free_bytes: int | None
    largest_free_bytes: int | None
    inactive_split_bytes: int | None


class MemoryPoint(Struct, frozen=True, kw_only=True):
    """One point of the allocator's curve, at a time since the recording began."""

    at_us: float | None
    allocated_bytes: int | None
    reserved_bytes: int | None


class Memory(Struct, frozen=True, kw_only=True):
    """The allocator's peaks, who held them, what stays, and how fragmented the rest is."""

    peak_allocated_bytes: int | None
    peak_reserved_bytes: int | None
    on_gpu: bool
    peak_device: int | None
    peak_time_us: float | None
    peaks: list[MemoryPeak]
    unused_percent: Annotated[float | None, share_of("what the allocator held from the driver at the peak")]
    peak_fragmentation_percent: Annotated[
        float | None, share_of("the free bytes that it held at the peak: outside of the largest block")
    ]
    end_allocated_bytes: int | None
    end_reserved_bytes: int | None
    fragmentation_percent: Annotated[
        float | None, share_of("the free bytes that it holds at the end: outside of the largest block")
    ]
    segments: Segments | None
    curve: list[MemoryPoint] | UnsetType = UNSET
    holders: Annotated[list[Row], of_table("memory_holders")]
    long_lived: Annotated[list[Row], of_table("memory_long")]
    growth: Annotated[list[Row], of_table("memory_steps")]
    oom: Annotated[list[Row], of_table("memory_oom")]


class TensorCores(Struct, frozen=True, kw_only=True):
    """How much of the kernel time runs on tensor cores."""

    kernels: int
    percent: Annotated[float | None, share_of("the kernel time")]
    unclear: list[str]
    unclear_percent: Annotated[float | None, share_of("the kernel time")]
    eligible_percent: Annotated[float | None, share_of("the kernel time")]


class CountersMissing(Struct, frozen=True, kw_only=True):
    """What no launch has of Nsight Compute's counters, and the command that would collect it."""

    what: list[str]
    command: str


class HostSamples(Struct, frozen=True, kw_only=True):
    """How the lines of the clean program were sampled, and what a step took meanwhile."""

    sampler: str | None
    rate_hz: float | None
    samples: Annotated[int | None, Meta(description="of all threads, before and after the steps too")]
    lost: Annotated[int | None, Meta(description="samples that failed; the stack before stands for them")]
    behind: bool | None
    rank: int | None
    attached: Annotated[bool | None, Meta(description="after recordings on a GPU, CUPTI still attached")]
    steps: int
    in_steps: Annotated[int | None, Meta(description="samples of a thread within the steps")]
    step_us: Annotated[float | None, Meta(description="median step while it was sampled")]
    clean_step_us: Annotated[float | None, Meta(description="median clean step")]
    problem: Annotated[str | None, Meta(description="why the samples can't be read")]


class Link(Struct, frozen=True, kw_only=True):
    """The link of the GPUs that the bandwidth of collectives is compared with, in 10^9 bytes per second."""

    name: str
    gbps: float
    ranks: int
    source: str


class Roof(Struct, frozen=True, kw_only=True):
    """The peak of the arithmetic in one precision, in FLOP/s; its ridge in FLOP/byte."""

    precision: str
    flops: float
    ridge: float | None
    source: str
    about: str


class Bandwidth(Struct, frozen=True, kw_only=True):
    """The peak of the memory, in bytes per second."""

    bytes: float
    source: str
    about: str


class Roofs(Struct, frozen=True, kw_only=True):
    """The roofs of the points: each peak with its source, and what is not known."""

    device: str | None
    compute_capability: str | None
    compute: list[Roof]
    bandwidth: Bandwidth | None
    covered_percent: Annotated[float | None, share_of("the kernel time")]
    unknown: list[str]


class Evidence(Struct, frozen=True, kw_only=True):
    """One number or word that a finding rests on, and where its rows are."""

    label: str
    value: Annotated[float | int | str, Meta(description="a number or a text")]
    unit: str
    tab: str | None
    filter: str | None
    row: str | None


class Agreement(Struct, frozen=True, kw_only=True):
    """How far the results of both variants of a proof agree."""

    what: str | None
    numbers: int | None
    largest: float | None
    scale: float | None
    should_agree: bool | None
    alike: str | None


class ProofRow(Struct, frozen=True, kw_only=True):
    """What `tracetui try` measured of a change, and what the finding promised."""

    change: str | None
    explanation: str | None
    step_us: float | None
    changed_us: float | None
    gain_us: float | None
    low_us: float | None
    high_us: float | None
    gain_percent: Annotated[float | None, share_of("the step before the change")]
    rounds: int | None
    one_process: bool | None
    batch_factor: float | None
    device: str | None
    recorded_on: str | None
    bound_us: float | None
    bound_percent: Annotated[float | None, share_of("the recorded run's step")]
    sure_percent: Annotated[float | None, share_of("the recorded run's step")]
    also: str | None
    most_us: float | None
    does_more: bool
    exceeds: bool
    compared: Agreement | None


class PlaceRow(Struct, frozen=True, kw_only=True):
    """A place in the program, and what it takes of a finding's work or time."""

    frame: Annotated[str | None, Meta(description="the innermost Python function of the program's own code")]
    module: Annotated[str | None, Meta(description="classes of the modules around it")]
    range: Annotated[str | None, Meta(description="the innermost range, where neither frame nor module is recorded")]
    operator: Annotated[str | None, Meta(description="what is called there")]
    line: Annotated[int | None, Meta(description="of that function, where samples tell which line makes most calls")]
    calls: Annotated[float, Meta(description="per step")]
    us: Annotated[float, Meta(description="per step")]
    percent: Annotated[float | None, Meta(description="of the finding's work or host time")]
    on_gpu: Annotated[bool, Meta(description="whether that is GPU time, or the host's")]


class FindingRow(Struct, frozen=True, kw_only=True):
    """One finding: what it is, how much it costs, what it rests on, and what to try."""

    id: str
    severity: str
    title: str
    impact_us: Annotated[float | None, Meta(description="of a step, at most: with the fastest host that fits the step")]
    impact_least_us: Annotated[float | None, Meta(description="of a step, at least: with the slowest such host")]
    impact_after_us: Annotated[
        float | None, Meta(description="of a step, at most, once all that stand above it are made; null: not known")
    ]
    impact_of: Annotated[str, Meta(description="what all are of: step, or mean_step if steps are not alike")] = "step"
    ceiling_percent: Annotated[float | None, share_of("the step or mean step: the most that it can get shorter")]
    where: Annotated[list[PlaceRow], Meta(description="where in the program, the most time first")]
    evidence: list[Evidence]
    formula: str
    threshold: str
    advice: str
    next_command: str
    changes: list[str]
    proofs: list[ProofRow]
    reference: str
    remarks: list[str]
    shared_with: Annotated[list[str], Meta(description="ids of the findings that count the same time")]
    doubted_by: list[str]
    key: str


class SuppressedRow(FindingRow, frozen=True, kw_only=True):
    """A finding that a rule on the measurement set aside."""

    by: str


class SilencedRow(FindingRow, frozen=True, kw_only=True):
    """A finding that the user does not want to see."""

    reason: str


class AbstainedRow(Struct, frozen=True, kw_only=True):
    """A rule that could not judge, and what is missing for that."""

    id: str
    missing: str


class Judged(Struct, frozen=True, kw_only=True):
    """What the rules found, what was set aside, what could not be judged, and which rules ran."""

    findings: Annotated[list[FindingRow], of_table("findings")]
    findings_suppressed: Annotated[list[SuppressedRow], of_table("findings", "set aside by a rule on the measurement")]
    findings_silenced: Annotated[list[SilencedRow], of_table("findings")]
    findings_abstained: Annotated[list[AbstainedRow], of_table("abstained")]
    findings_checked: Annotated[list[str], Meta(description="rules that ran")]


class LightRecording(Struct, frozen=True, kw_only=True):
    """What of a recording was found in the light one of its run."""

    path: str | None
    used: bool
    problem: str | None
    steps: int | None
    launches: int
    matched: int
    matched_percent: Annotated[float | None, share_of("the light steps' GPU time")]
    unmatched_us_per_step: float | None
    kept_launches: int
    kept_percent: Annotated[float | None, share_of("the rich steps' GPU time")]


class Trace(Struct, frozen=True, kw_only=True):
    """One recording: its source, its devices, the sections that were asked for, and what its run adds."""

    source: Source
    device: list[Device]
    base: Annotated[str, Meta(description="what the numbers are about")]
    totals_base: Annotated[str, Meta(description="what totals are about")]
    overview: Overview | UnsetType | None = UNSET
    critical_path: CriticalPath | UnsetType | None = UNSET
    kernels: Annotated[list[Row], of_table("kernels")] | UnsetType = UNSET
    memops: Annotated[list[Row], of_table("memops")] | UnsetType = UNSET
    operators: Annotated[list[Row], of_table("operators")] | UnsetType = UNSET
    modules: Annotated[list[Row], of_table("modules")] | UnsetType = UNSET
    host_functions: Annotated[list[Row], of_table("host")] | UnsetType = UNSET
    host_lines: Annotated[list[Row], of_table("host_lines")] | UnsetType = UNSET
    host_stacks: Annotated[list[Row], of_table("host_stacks")] | UnsetType = UNSET
    api: Annotated[list[Row], of_table("api")] | UnsetType = UNSET
    ranges: Annotated[list[Row], of_table("ranges")] | UnsetType = UNSET
    range_tree: Annotated[list[Row], of_table("range_tree")] | UnsetType = UNSET
    launches: Launches | UnsetType | None = UNSET
    communication: Communication | UnsetType | None = UNSET
    collectives: Annotated[list[Row], of_table("collectives")] | UnsetType = UNSET
    counters: Annotated[list[Row], of_table("counter_launches")] | UnsetType = UNSET
    roofline: Annotated[list[Row], of_table("roofline")] | UnsetType = UNSET
    memory: Memory | UnsetType | None = UNSET
    findings: Annotated[list[FindingRow], of_table("findings")] | UnsetType = UNSET
    tried: Annotated[list[Row], of_table("tried")] | UnsetType = UNSET
    source_lines: Annotated[list[Row], of_table("source_lines")] | UnsetType = UNSET
    gaps: Annotated[list[Row], of_table("gaps")] | UnsetType = UNSET
    threads: Annotated[list[Row], of_table("threads")] | UnsetType = UNSET
    cpu_functions: Annotated[list[Row], of_table("cpu_functions")] | UnsetType = UNSET
    os_calls: Annotated[list[Row], of_table("os_calls")] | UnsetType = UNSET
    gpu_samples: Annotated[list[Row], of_table("gpu_samples")] | UnsetType = UNSET
    unified_memory: Annotated[list[Row], of_table("unified_memory")] | UnsetType = UNSET
    kernels_by: str | UnsetType = UNSET
    kernel_groups: Annotated[list[Row], of_table("kernel_groups")] | UnsetType = UNSET
    range_tree_kernels: Annotated[list[Row], of_table("range_tree_kernels")] | UnsetType = UNSET
    module_kernels: Annotated[list[Row], of_table("module_kernels")] | UnsetType = UNSET
    tensor_cores: TensorCores | UnsetType = UNSET
    counters_by_kernel: Annotated[list[Row], of_table("counters")] | UnsetType = UNSET
    counters_missing: CountersMissing | UnsetType | None = UNSET
    collective_pairs: Annotated[list[Row], of_table("collective_pairs")] | UnsetType = UNSET
    collectives_link: Link | UnsetType | None = UNSET
    host_lines_sampled: Annotated[HostSamples, Meta(description="how the lines were sampled")] | UnsetType | None = (
        UNSET
    )
    roofline_peaks: Roofs | UnsetType = UNSET
    findings_suppressed: (
        Annotated[list[SuppressedRow], of_table("findings", "set aside by a rule on the measurement")] | UnsetType
    ) = UNSET
    findings_silenced: Annotated[list[SilencedRow], of_table("findings")] | UnsetType = UNSET
    findings_abstained: Annotated[list[AbstainedRow], of_table("abstained")] | UnsetType = UNSET
    findings_checked: Annotated[list[str], Meta(description="rules that ran")] | UnsetType = UNSET
    light: LightRecording | None
    rests_on: Annotated[dict[str, str] | None, Meta(description="by section: light, rich or both")]
    counts: Annotated[dict[str, int], Meta(description="rows of each list without --limit")]

    def sections(self) -> dict[str, object]:
        """The sections that were asked for, in the order of the report."""
        found = {name: getattr(self, name) for name in SECTIONS}
        return {name: section for name, section in found.items() if section is not UNSET}

    @property
    def judged(self) -> Judged | None:
        """The findings and what accompanies them; None where the rules were not asked."""
        if self.findings is UNSET:
            return None
        return Judged(
            findings=self.findings,
            findings_suppressed=self.findings_suppressed or [],
            findings_silenced=self.findings_silenced or [],
            findings_abstained=self.findings_abstained or [],
            findings_checked=self.findings_checked or [],
        )


class CountedFile(Struct, frozen=True, kw_only=True):
    """A report of Nsight Compute among several."""

    label: str
    path: str
    launches: int
    kernels: int
    total_us: float | None
    common_launches: Annotated[int, Meta(description="launches of kernels that every file profiled")]


class CountedKernel(Struct, frozen=True, kw_only=True):
    """How often each file profiled a kernel."""

    name: str
    short_name: str
    launches: list[int]


class CountedMetric(Struct, frozen=True, kw_only=True):
    """A metric in each file, and its change from the first."""

    of: str
    kernel: str | None
    metric: str
    label: str
    unit: str
    values: list[float | None]
    launches: list[int]
    changes: list[float | None]


class CountersCompared(Struct, frozen=True, kw_only=True):
    """Several reports of Nsight Compute side by side; lists over files are in the order of the files."""

    files: list[CountedFile]
    problems: Annotated[list[str], Meta(description="what kept others from being read")]
    same_kernels: bool
    kernels: list[CountedKernel]
    kernel_count: int
    metrics: list[CountedMetric]


class UnmatchedKernel(Struct, frozen=True, kw_only=True):
    """A kernel that another recording does not have."""

    name: str
    launches: int


class JoinRow(Struct, frozen=True, kw_only=True):
    """How the kernels of two tools' recordings match."""

    trace: str
    with_: str = field(name="with")
    kind: str
    launches: int
    matched: int
    placed: int
    ambiguous: int
    unmatched: list[UnmatchedKernel]
    gpu_time_percent: Annotated[float | None, share_of("the main recording's kernel time")]
    own_time_percent: Annotated[float | None, share_of("the other recording's kernel time")]
    set_aside: str | None


class PassRow(Struct, frozen=True, kw_only=True):
    """One of several recordings of the same run."""

    name: str
    path: str
    steps: int | None


class OtherRun(Struct, frozen=True, kw_only=True):
    """Another run of the folder."""

    name: str
    paths: list[str]


class JobRecordings(Struct, frozen=True, kw_only=True):
    """The recordings of a job's ranks that are of one pass."""

    recorded_pass: str | None
    ranks: int
    collectives: int


class RankClock(Struct, frozen=True, kw_only=True):
    """How far a rank's clock is from the job's."""

    rank: int
    offset_us: float | None
    drift_ppm: float | None


class RankOnPath(Struct, frozen=True, kw_only=True):
    """A rank's part of the job's critical path."""

    rank: int
    own_us: float | None
    percent: Annotated[float | None, share_of("the path")]


class LostPart(Struct, frozen=True, kw_only=True):
    """A part of what the job lost along its critical path, per step."""

    rank: int
    cause: Annotated[
        str,
        Meta(
            description="what it had more of than its peers (`gpu`, `silent`, `loader`; `calls`: host time in short"
            " calls), `other` where nothing explains it, `transfer`: beyond the median of its kind"
        ),
    ]
    lost_us: float | None
    steps: Annotated[int, Meta(description="in how many steps")]


class SlowLink(Struct, frozen=True, kw_only=True):
    """A group or pair of ranks whose transfers take longer than those of its like."""

    kind: str | None
    group: str | None
    ranks: Annotated[list[int], Meta(description="of a pair who sends, then who receives")]
    bytes: int | None
    per_step: float
    transfer_us: float | None
    usual_us: Annotated[float | None, Meta(description="the median of its like; `most_us` where that says more")]
    like: Annotated[int, Meta(description="how many links are alike, itself among them")]
    more_us: Annotated[float | None, Meta(description="per step, all its transfers over the usual one")]
    busbw_gbps: float | None
    usual_busbw_gbps: float | None
    link: Annotated[str | None, Meta(description="what connects its GPUs, all on one host")]
    least_us: Annotated[float | None, Meta(description="what its bytes take over that link at least")]
    most_us: Annotated[float | None, Meta(description="the same at most; null where that was never measured")]


class Unmatched(Struct, frozen=True, kw_only=True):
    """Collectives that match none of other ranks, by reason."""

    reason: str
    count: int


class Job(Struct, frozen=True, kw_only=True):
    """What the ranks of a job say together."""

    said: Annotated[list[str], Meta(description="who came last and why, in sentences")]
    recordings: list[JobRecordings]
    world_size: int | None
    here: int
    missing: list[int]
    steps: int
    step_us: float | None
    clean_step_us: float | None
    transfer_us: float | None
    largest_excess_us: float | None
    matched_by: str | None
    one_clock: bool
    residual_us: float | None
    clocks: list[RankClock]
    path: list[RankOnPath]
    lost: list[LostPart]
    slow_links: list[SlowLink]
    unmatched: list[Unmatched]


class Run(Struct, frozen=True, kw_only=True):
    """A run: its recordings, how they match, and what lies beside them."""

    path: str
    traces: Annotated[
        list[Trace], Meta(description="one per rank and tool; a section that was not asked for is absent")
    ]
    main: Annotated[int | None, Meta(description="which of traces the tabs show first, from 0")]
    joins: list[JoinRow]
    comparable: None
    captures: list[CaptureRow]
    passes: list[PassRow]
    warnings: list[str]
    other_runs: list[OtherRun]
    counters_compared: CountersCompared | UnsetType | None = UNSET
    configurations: Annotated[list[Row], of_table("configurations")] | UnsetType = UNSET
    configuration_weights: dict[str, str] | UnsetType = UNSET
    ranks: Annotated[list[Row], of_table("ranks")] | UnsetType = UNSET
    job: Job | UnsetType | None = UNSET
    waiting: Annotated[list[Row], of_table("waiting")] | UnsetType = UNSET
    stragglers: Annotated[list[Row], of_table("stragglers")] | UnsetType = UNSET
    transfers: Annotated[list[Row], of_table("transfers")] | UnsetType = UNSET
    stages: Annotated[list[Row], of_table("stages")] | UnsetType = UNSET
    comments: list[Comment] | UnsetType = UNSET


class Environment(Struct, frozen=True, kw_only=True):
    """What of the machines and versions is not the same on all ranks."""

    name: str
    values: list[EnvironmentValue]


class EnvironmentValue(Struct, frozen=True, kw_only=True):
    """One of the values, and the ranks that have it."""

    value: str | None
    ranks: list[int]


class RankProblem(Struct, frozen=True, kw_only=True):
    """A recording without a summary."""

    rank: int | None
    path: str
    problem: str


class RankNote(Struct, frozen=True, kw_only=True):
    """What a parser skipped, repaired or missed in a rank's recording."""

    rank: int
    path: str
    kind: str
    reason: str
    count: int


class RanksReport(Struct, frozen=True, kw_only=True):
    """What the summaries of a job's ranks say: `tracetui ranks`."""

    schema: str
    path: str
    world_size: int | None
    here: int
    missing: list[int]
    recordings: dict[str, int]
    ranks: Annotated[list[Row], of_table("ranks")]
    job: Job | None
    waiting: Annotated[list[Row], of_table("waiting")]
    stragglers: Annotated[list[Row], of_table("stragglers")]
    transfers: Annotated[list[Row], of_table("transfers")]
    stages: Annotated[list[Row], of_table("stages")]
    environment: list[Environment]
    problems: list[RankProblem]
    notes: list[RankNote]
    counts: dict[str, int]


class LeftOut(Struct, frozen=True, kw_only=True):
    """What a shortened report does not have, and how much of it there is."""

    what: str
    shown: int
    of: int


class MaxTokens(Struct, frozen=True, kw_only=True):
    """How many tokens a shortened report may have, and how they are counted."""

    asked: int
    bytes_per_token: int


class Report(Struct, frozen=True, kw_only=True):
    """The report of a run."""

    schema: str
    run: Run
    left_out: (
        Annotated[list[LeftOut], Meta(description="with --max-tokens: what is not here, and how much of it is")]
        | UnsetType
    ) = UNSET
    max_tokens: Annotated[MaxTokens, Meta(description="with --max-tokens: how tokens are counted")] | UnsetType = UNSET


class HeadlineFinding(Struct, frozen=True, kw_only=True):
    """A finding in a line."""

    key: str
    severity: str
    title: str
    doubted_by: list[str]


class HeadlineVerdict(Struct, frozen=True, kw_only=True):
    """What a run waits for, in a sentence."""

    what: str
    sentence: str


class Headline(Struct, frozen=True, kw_only=True):
    """What a report comes to, where there is no room for any section."""

    schema: str
    path: str
    base: str | None
    average_step_us: float | None
    waits_for: HeadlineVerdict | None
    findings: list[HeadlineFinding]
    left_out: Annotated[list[LeftOut], Meta(description="with --max-tokens: what is not here, and how much of it is")]
    max_tokens: Annotated[MaxTokens, Meta(description="with --max-tokens: how tokens are counted")]
