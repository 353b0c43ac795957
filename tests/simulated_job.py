"""A job of many ranks, simulated: each rank's host runs its own program, GPUs and links decide when things happen.

    made = Job(16, slow={5: 1.2})
    made.run(ddp)
    made.write(tmp_path)

Nothing here knows the rules. Events are handled in the order of time: a host launches ahead of its GPU until it waits
for it, a stream runs one thing after another, a collective begins on a rank when that rank comes to it and ends on all
of them when the links have moved its bytes after the last one came. What a plant cost by itself is counted while the
job runs (`planted`); what it cost the job follows from the same job without it (`lost_us`). Files are what a recorder
would have seen, on clocks of hosts. Times are µs, sizes bytes, bandwidths GB/s.
"""

import gzip
import heapq
import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

BASE_NS = 1_790_857_026_000_000_000
"""Unix time of every file's zero."""
FIRST_STEP = 10
COMPUTE = 7
PER_NODE = 8
INTRA, INTER = 300.0, 45.0
"""Bandwidth of a GPU in its node, and of its adapter to other nodes."""
PLAIN, GZIP = "rank{rank}.pt.trace.json", "rank{rank}.pt.trace.json.gz"
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
MOVED: dict[str, Callable[[int], float]] = {
    "allreduce": lambda n: 2 * (n - 1) / n,
    "_allgather_base": lambda n: (n - 1) / n,
    "_reduce_scatter_base": lambda n: (n - 1) / n,
    "all_to_allv": lambda n: (n - 1) / n,
    "send": lambda n: 1.0,
    "broadcast": lambda n: 1.0,
}
"""Of the bytes, how many pass a link in a ring of n."""


@dataclass(frozen=True)
class Group:
    """A process group as PyTorch names it."""

    name: str
    description: str
    ranks: tuple[int, ...]


@dataclass(eq=False, slots=True)
class Work:
    """Something on a stream."""

    rank: "Rank"
    stream: int
    name: str
    lasting: float
    launched: float
    correlation: int
    step: int
    args: dict[str, Any]
    kind: str = "kernel"
    meeting: "Meeting | None" = None
    blocked: int = 0
    ready: float = 0.0
    followers: list["Work"] = field(default_factory=list)
    begin: float = 0.0
    end: float | None = None


@dataclass(eq=False, slots=True)
class Meeting:
    """One collective."""

    kind: str
    group: Group
    members: tuple[int, ...]
    size: float = 0.0
    came: dict[int, Work] = field(default_factory=dict)


@dataclass(eq=False)
class Rank:
    """One rank: what its program calls."""

    job: "Job"
    number: int
    host: float
    thread: int = 1
    step: int = 0
    open: int = 0
    """Work that is not over."""
    correlation: int = 0
    done: float = 0.0
    events: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    last: dict[int, Work] = field(default_factory=dict)
    awaited: dict[int, list[Work]] = field(default_factory=lambda: defaultdict(list))
    counts: dict[object, int] = field(default_factory=lambda: defaultdict(int))
    talking: list[Work] = field(default_factory=list)

    def said(self, kind: str, name: str, begin: float, end: float, **args: Any) -> None:
        row = {"ph": "X", "cat": kind, "name": name, "pid": 500 + self.number, "tid": self.thread, "ts": begin}
        self.events.append((self.step, row | {"dur": end - begin, "args": args}))

    def begins_step(self) -> None:
        """Each step of each rank has its own chance, so that a plant changes nothing else."""
        self.random = random.Random(f"{self.job.seed} {self.number} {self.step}")
        self.chance = random.Random(f"planted {self.job.seed} {self.number} {self.step}")

    def call(self, lasting: float = 8.0, name: str = "") -> float:
        """A call that launches something; when the GPU has it."""
        slow = self.job.slow_host.get(self.number, 1.0)
        taken = lasting * self.random.lognormvariate(0, 0.25)
        begin = self.host + 3 * slow
        self.host = begin + taken * slow
        self.job.planted[self.number] += (taken + 3) * (slow - 1)
        self.correlation += 1
        name = name or ("hipLaunchKernel" if self.job.amd else "cudaLaunchKernel")
        self.said("cuda_runtime", name, begin, self.host, correlation=self.correlation)
        return self.host

    @contextmanager
    def range(self, name: str, kind: str = "user_annotation") -> Iterator[None]:
        """What stands in a range, or in an operator."""
        self.host += 1
        begin = self.host
        yield
        self.host += 1
        self.said(kind, name, begin, self.host)

    def kernel(self, name: str, lasting: float, blocks: int = 132, operator: str = "aten::mm") -> Work:
        """A launch on the compute stream."""
        with self.range(operator, "cpu_op"):
            self.call()
        lasting *= max(self.random.gauss(1, self.job.noise), 0.5)
        return self._queued(Work(self, COMPUTE, name, lasting, self.host, self.correlation, self.step,
                                 {"grid": [blocks, 1, 1], "block": [128, 1, 1]}))  # fmt: skip

    def copied(self, lasting: float, size: int) -> None:
        """A copy to the GPU that the host waits for, as memory that is not pinned makes it do."""
        begin = self.host + 2
        self.correlation += 1
        place = {"device": self.number % PER_NODE, "stream": COMPUTE, "correlation": self.correlation, "bytes": size}
        self.said("cuda_runtime", "cudaMemcpyAsync", begin, begin + lasting + 8, correlation=self.correlation)
        row = {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "ts": begin + 5,
               "pid": self.number % PER_NODE, "tid": COMPUTE, "dur": lasting, "args": place}  # fmt: skip
        self.events.append((self.step, row))
        self.host = begin + lasting + 8

    def collective(self, kind, group, size, stream=20, *, peer=None, sends=True, after=None, holds=True) -> Work:
        """The rank comes to a collective of its group.

        Args:
            kind: as PyTorch calls it.
            group: whose.
            size: bytes, or (in, out).
            stream: its stream.
            peer: of a send or receive, the other one.
            sends: whether it sends to it.
            after: what it needs; by default what was launched before on the compute stream.
            holds: whether the compute launched after it waits for it.
        """
        both = size if isinstance(size, tuple) else (size, size)
        members = group.ranks
        channel: object = group
        if peer is not None:
            members = (self.number, peer) if sends else (peer, self.number)
            channel = (group, members)
        number = self.counts[channel] = self.counts[channel] + 1
        self.counts["seq", group] += 1
        begin = self.host + 1
        self.host += 1
        launched = self.call()
        self.host += 2
        args = self._described(kind, group, both, peer, sends)
        if self.job.described == "operator":
            self.said("cpu_op", "record_param_comms", begin, self.host - 1, **args)
        meeting = self.job.meetings.setdefault(
            (channel, number), Meeting("send" if peer is not None else kind, group, members)
        )
        meeting.size = max(meeting.size, sum(both) / 2)
        shape = {"grid": [24, 1, 1], "block": [544, 1, 1]}
        work = Work(self, stream, self.job.nccl(kind), 0.0, launched, self.correlation, self.step,
                    shape | (args if self.job.described == "kernel" else {}), meeting=meeting)  # fmt: skip
        needed = [self.last[COMPUTE]] if after is None and COMPUTE in self.last else after or ()
        self.awaited[stream].extend(needed)
        self._queued(work)
        if holds:
            self.awaited[COMPUTE].append(work)
        return work

    def wait(self, *works: Work | None) -> None:
        """What is computed from here on waits for these."""
        self.awaited[COMPUTE].extend(work for work in works if work is not None)

    def sleep(self, lasting: float, name: str | None = None) -> None:
        """The host launches nothing, in a range or in none."""
        begin, self.host = self.host + 1, self.host + 1 + lasting
        if name is not None:
            self.said("user_annotation", name, begin, self.host)

    def _described(self, kind, group, both, peer, sends) -> dict[str, Any]:
        found: dict[str, Any] = {
            "Collective name": kind, "In msg nelems": both[0] // 2, "Out msg nelems": both[1] // 2,
            "Group size": len(group.ranks), "dtype": "BFloat16", "In split size": "[]", "Out split size": "[]",
            "Process Group Name": group.name, "Process Group Description": group.description,
            "Process Group Ranks": json.dumps(list(group.ranks)),
        }  # fmt: skip
        if peer is not None:
            found |= {"Collective name": "send" if sends else "recv", "Dst Rank" if sends else "Src Rank": peer}
        if self.job.seq:
            found["Seq"] = self.counts["seq", group]
        return found

    def _queued(self, work: Work) -> Work:
        before = self.last.get(work.stream)
        needs = [*([before] if before else ()), *self.awaited.pop(work.stream, ())]
        work.ready = work.launched + 2
        for one in needs:
            if one.end is None:
                one.followers.append(work)
                work.blocked += 1
            else:
                work.ready = max(work.ready, one.end + 1)
        self.last[work.stream] = work
        self.open += 1
        if not work.blocked:
            self.job.push(work)
        return work


Program = Callable[[Rank], Iterator[None] | None]


@dataclass
class Job:
    """So many ranks, what differs between them, and how they are recorded."""

    size: int
    steps: int = 6
    seed: int = 1
    noise: float = 0.02
    """Of each kernel, beside that of each GPU as a whole."""
    gpu_noise: float = 0.004
    link_noise: float = 0.03
    contention: float = 1.05
    """How many times as long kernels take beside which a collective runs."""
    per_node: int = PER_NODE
    bandwidths: tuple[float, float] = (INTRA, INTER)
    gpu: str = ""
    """What files call each GPU, if they do."""

    slow: Mapping[int, float] = field(default_factory=dict)
    """By rank, how many times as long its kernels take."""
    throttled: Mapping[tuple[int, int], float] = field(default_factory=dict)
    """The same by rank and step, from 0."""
    beside: Mapping[int, float] = field(default_factory=dict)
    """By rank, `contention` of its own."""
    slow_host: Mapping[int, float] = field(default_factory=dict)
    """By rank, how many times as long its calls take."""
    extra: Mapping[int, float] = field(default_factory=dict)
    """By rank, µs of more GPU work per step."""
    extra_name: str = "metrics"
    sleeps: Mapping[int, tuple[str | None, float]] = field(default_factory=dict)
    """By rank: range (None: in none) and µs in each step."""
    pauses: Mapping[tuple[int, int], float] = field(default_factory=dict)
    """By rank and step: µs in the middle of the backward pass."""
    copies: Mapping[int, float] = field(default_factory=dict)
    """By rank: µs that the copy of its batch takes more."""
    loads: Mapping[int, float] = field(default_factory=dict)
    """By rank: how many times as much work it is given, of which each kernel has more blocks."""
    links: Mapping[tuple[int, int], float] = field(default_factory=dict)
    """By two ranks next to each other in a ring, or a sender and its receiver: how many times as long it takes."""

    described: str = "kernel"
    """Where a collective's arguments stand: ``kernel``; ``operator``, as on AMD and in older ones; or ``nowhere``."""
    seq: bool = False
    amd: bool = False
    light: bool = False
    """CUDA activity alone: no steps, no ranges, no arguments."""
    before: int = 0
    """So many steps ran before the window; their kernels are in all files but that of rank 0."""
    clocks: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """By rank: offset in µs, and drift in parts per million."""
    cut: Mapping[int, float] = field(default_factory=dict)
    """By rank: which share of its file is there."""
    lacking: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """By rank: steps whose events its recording lacks."""
    unmarked: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """By rank: steps without their mark."""

    def __post_init__(self) -> None:
        chance = random.Random(f"job {self.seed}")
        self.own = [max(chance.gauss(1, self.gpu_noise), 0.5) for _ in range(self.size)]
        self.ranks = [Rank(self, number, 2_000.0 + chance.uniform(0, 50)) for number in range(self.size)]
        self.network = chance
        self.groups: dict[str, Group] = {}
        self.meetings: dict[object, Meeting] = {}
        self.heap: list[tuple[float, int, Work]] = []
        self.number = 0
        self.waited: dict[tuple[int, int], float] = defaultdict(float)
        """(who, for whom): µs in all steps."""
        self.done: dict[int, list[Work]] = defaultdict(list)
        self.met: list[tuple[float, Group, int, float, int]] = []
        """Each collective: when the first came, its group, who came last, how long after it, and in which step."""
        self.planted: dict[object, float] = defaultdict(float)
        """By rank, or by two ranks of a link: µs that the plants took themselves, in all steps."""
        self.world = self.group("0", "default_pg", range(self.size))

    def group(self, name: str, description: str, ranks: Sequence[int]) -> Group:
        """A group, which all files of its ranks name."""
        return self.groups.setdefault(f"{name} {tuple(ranks)}", Group(name, description, tuple(ranks)))

    def nccl(self, kind: str) -> str:
        """The name of a collective's kernel."""
        if self.amd:
            return "ncclDevKernel_Generic(ncclDevComm*, channelMasks, ncclWork*)"
        name = {"allreduce": "AllReduce_Sum_bf16_RING_LL", "_allgather_base": "AllGather_RING_LL",
                "_reduce_scatter_base": "ReduceScatter_Sum_bf16_RING_LL"}.get(kind, "SendRecv")  # fmt: skip
        return f"ncclDevKernel_{name}(ncclDevKernelArgsStorage<4096ul>)"

    # --- what happens

    def run(self, program: Program) -> "Job":
        """Runs all steps: `program` is called by each rank in each, and may yield where its host waits for its GPU."""
        self.program = program
        hosts = {rank.number: self._host(rank) for rank in self.ranks}
        for rank in self.ranks:
            self._resumed(rank, hosts)
        while self.heap:
            time, _, work = heapq.heappop(self.heap)
            for done in self._begun(work, time):
                for follower in done.followers:
                    follower.ready = max(follower.ready, (done.end or 0.0) + 1)
                    follower.blocked -= 1
                    if not follower.blocked:
                        self.push(follower)
                rank = done.rank
                rank.done = max(rank.done, done.end or 0.0)
                rank.open -= 1
                if not rank.open:
                    self._resumed(rank, hosts)
        if hosts:
            raise ValueError(f"ranks {sorted(hosts)} wait for ever")
        return self

    @property
    def lasted(self) -> float:
        """When the last rank is done."""
        return max(rank.host for rank in self.ranks)

    @property
    def lost_us(self) -> float:
        """What the plants cost per step: how much longer the job took than without them."""
        none: dict[str, Any] = {name: {} for name in ("slow", "throttled", "slow_host", "extra", "sleeps", "pauses",
                                                      "copies", "loads", "links")}  # fmt: skip
        return (self.lasted - replace(self, **none).run(self.program).lasted) / self.steps

    def push(self, work: Work) -> None:
        self.number += 1
        heapq.heappush(self.heap, (work.ready, self.number, work))

    def _resumed(self, rank: Rank, hosts: dict[int, Iterator[None]]) -> None:
        while not rank.open:
            if next(hosts[rank.number], self) is self:
                del hosts[rank.number]
                return

    def _host(self, rank: Rank) -> Iterator[None]:
        for number in range(-self.before, self.steps):
            rank.step, rank.thread = number, 1
            rank.begins_step()
            start, first = rank.host, len(rank.events)
            rank.host += 2
            self._planted_before(rank)
            for _ in self.program(rank) or ():
                yield
                rank.host = max(rank.host, rank.done) + 3
            yield
            begin, rank.thread = rank.host + 1, 1
            rank.host = max(rank.done, begin) + 3
            name = "hipStreamSynchronize" if self.amd else "cudaStreamSynchronize"
            rank.said("cuda_runtime", name, begin, rank.host)
            step = FIRST_STEP + number
            if step in self.lacking.get(rank.number, ()):
                rank.counts["lacking", number] = 1
                del rank.events[first:]
            elif step not in self.unmarked.get(rank.number, ()):
                rank.said("user_annotation", f"ProfilerStep#{step}", start, rank.host + 1)
            rank.host += 3

    def _planted_before(self, rank: Rank) -> None:
        number = rank.number
        rank.copied(150 * rank.random.uniform(0.9, 1.1) + self.copies.get(number, 0.0), 4 << 20)
        self.planted[number] += self.copies.get(number, 0.0)
        if number in self.sleeps:
            name, lasting = self.sleeps[number]
            rank.sleep(lasting, name)
            self.planted[number] += lasting
        if number in self.extra:
            usual, rank.random = rank.random, rank.chance
            with rank.range(self.extra_name):
                for _ in range(8):
                    rank.kernel("cutlass_80_tensorop_s16816gemm_bf16", self.extra[number] / 8)
            rank.random = usual
            self.planted[number] += self.extra[number]

    def paused(self, rank: Rank) -> None:
        """Where a program's hosts stop that do so in this step."""
        lasting = self.pauses.get((rank.number, rank.step), 0.0)
        rank.host += lasting
        self.planted[rank.number] += lasting

    def _begun(self, work: Work, time: float) -> list[Work]:
        """The work begins; what ends is known from now on."""
        rank = work.rank
        work.begin = time
        self.done[rank.number].append(work)
        if work.meeting is None:
            rank.talking = [one for one in rank.talking if one.end is None or one.end > time]
            lasting = work.lasting * self.own[rank.number] * self.loads.get(rank.number, 1.0)
            more = self.slow.get(rank.number, 1.0) * self.throttled.get((rank.number, work.step), 1.0)
            self.planted[rank.number] += lasting * (more - 1) + lasting * (1 - 1 / self.loads.get(rank.number, 1.0))
            lasting *= more
            if rank.number in self.loads:
                work.args["grid"] = [round(work.args["grid"][0] * self.loads[rank.number]), 1, 1]
            if rank.talking:
                lasting *= self.beside.get(rank.number, self.contention)
            work.end = time + lasting
            return [work]
        rank.talking.append(work)
        meeting = work.meeting
        meeting.came[rank.number] = work
        if len(meeting.came) < len(meeting.members):
            return []
        end = time + self._moved(meeting)
        for one in meeting.came.values():
            one.end = end + one.rank.random.uniform(0, 4)
            self.waited[one.rank.number, rank.number] += time - one.begin
        first = min(one.begin for one in meeting.came.values())
        self.met.append((first, meeting.group, rank.number, time - first, work.step))
        return list(meeting.came.values())

    def _moved(self, meeting: Meeting) -> float:
        """How long the links take from the last arrival on: the slowest link of the ring decides."""
        members, kind = meeting.members, meeting.kind
        nodes: dict[int, list[int]] = defaultdict(list)
        for rank in members:
            nodes[rank // self.per_node].append(rank)
        intra, inter = self.bandwidths
        hops = len(members) if kind != "send" else 1
        latency = (12.0 + 2.0 * hops) if len(nodes) > 1 else (6.0 + 1.0 * hops)
        # each GPU of a node has an adapter of its own
        bandwidth = min(intra, inter * min(map(len, nodes.values()))) if len(nodes) > 1 else intra
        moved = MOVED[kind](len(members)) * meeting.size / (bandwidth * 1e3)
        lasting = (latency + moved) * self.network.lognormvariate(0, self.link_noise)
        pairs = {(members[0], members[1])} if kind == "send" else self._ring(list(nodes.values()))
        slow = {pair: by for pair, by in self.links.items() if pair in pairs}
        for pair, by in slow.items():
            self.planted[pair] += lasting * (by - 1)
        return lasting * max(slow.values(), default=1.0)

    @staticmethod
    def _ring(nodes: list[list[int]]) -> set[tuple[int, int]]:
        """Between nodes each rank talks to the one at its place, within a node to the next."""
        found = {pair for ranks in nodes for pair in pairwise([*ranks, ranks[0]])}
        if len(nodes) > 1:
            found |= {pair for one, other in pairwise([*nodes, nodes[0]]) for pair in zip(one, other, strict=False)}
        return found

    # --- the files

    def document(self, number: int, *, header: bool = True) -> dict[str, Any]:
        """One rank's file as torch.profiler writes it, on its host's clock, in the order in which events begin."""
        rank = self.ranks[number]
        offset, drift = self.clocks.get(number, (0.0, 0.0))
        rows = [(step, event) for step, event in rank.events if step >= 0]
        for work in self._works(rank):
            place = {"device": number % PER_NODE, "stream": work.stream, "correlation": work.correlation}
            row = {"ph": "X", "cat": "kernel", "name": work.name, "pid": number % PER_NODE, "tid": work.stream}
            rows.append(
                (work.step, row | {"ts": work.begin, "dur": (work.end or 0.0) - work.begin, "args": place | work.args})
            )
        events = []
        for step, event in sorted(rows, key=lambda one: one[1]["ts"]):
            if self.light and event["cat"] not in ("kernel", "cuda_runtime"):
                continue
            times = {
                "ts": round(event["ts"] * (1 + drift * 1e-6) + offset, 3),
                "dur": round(event["dur"] * (1 + drift * 1e-6), 3),
            }
            if self.light or step < 0:
                times["args"] = {key: value for key, value in event["args"].items() if key[0].islower()}
            events.append(event | times)
        found: dict[str, Any] = {"schemaVersion": 1, "baseTimeNanoseconds": BASE_NS}
        if self.gpu:
            found["deviceProperties"] = [{"id": number % PER_NODE, "name": self.gpu}]
        if header:
            config = [
                {"pg_name": one.name, "pg_desc": one.description, "pg_size": len(one.ranks), "ranks": list(one.ranks)}
                for one in self.groups.values()
                if number in one.ranks
            ]
            told = {"backend": "nccl", "rank": number, "world_size": self.size}
            found["distributedInfo"] = told | ({"pg_config": config} if self.described != "nowhere" else {})
        return found | {"traceEvents": events}

    def _works(self, rank: Rank) -> Iterator[Work]:
        for work in self.done[rank.number]:
            recorded = work.step >= 0 or rank.number > 0
            if recorded and not rank.counts.get(("lacking", work.step)):
                yield work

    def write(self, folder: Path, name: str = PLAIN, *, header: bool = True, ranks: Sequence[int] = ()) -> list[Path]:
        """Writes the files of all ranks, or of some; named ``.gz`` they are compressed."""
        paths = []
        for number in ranks or range(self.size):
            path = folder / name.format(rank=number, node=number // 4, local=number % 4)
            path.parent.mkdir(parents=True, exist_ok=True)
            content = json.dumps(self.document(number, header=header)).encode()
            content = gzip.compress(content, 1) if path.suffix == ".gz" else content
            path.write_bytes(content[: int(len(content) * self.cut.get(number, 1.0))])
            paths.append(path)
        return paths

    def write_hosts(self, folder: Path) -> None:
        """Where each rank ran, as run.json says it."""
        hosts = [{"rank": number, "host": f"node{number // self.per_node}"} for number in range(self.size)]
        (folder / "run.json").write_text(json.dumps({"schema": "tracetui.run/1", "ranks": hosts}))


# --- programs: what one rank does in one step


def ddp(rank: Rank, layers: int = 8, forward: float = 520.0, bucket: int = 32 << 20) -> None:
    """An all-reduce for the gradients of each layer, beside the backward pass."""
    for layer in range(layers):
        for _ in range(3):
            rank.kernel(f"gemm_{layer % 3}", forward / 3)
    rank.thread = 2
    met = None
    for layer in range(layers):
        if layer == layers // 2:
            rank.job.paused(rank)
        for _ in range(4):
            rank.kernel(f"wgrad_{layer % 3}", forward / 2)
        met = rank.collective("allreduce", rank.job.world, bucket, holds=False)
    rank.thread = 1
    rank.wait(met)
    with rank.range("Optimizer.step#AdamW.step"):
        rank.kernel("multi_tensor_apply_kernel", 600)


def fsdp(rank: Rank, layers: int = 8, forward: float = 900.0, size: int = 64 << 20) -> None:
    """Each layer's weights are gathered while the one before computes, its gradients scattered beside the next."""
    scattered = None
    for name, factor in (("forward", 1), ("backward", 2)):
        gathered = [rank.collective("_allgather_base", rank.job.world, size, 21, after=(), holds=False)]
        for layer in range(layers):
            if layer + 1 < layers:
                gathered.append(rank.collective("_allgather_base", rank.job.world, size, 21, after=(), holds=False))
            if layer == layers // 2 and factor == 2:
                rank.job.paused(rank)
            rank.wait(gathered[layer])
            for _ in range(4):
                rank.kernel(f"{name}_{layer % 3}", forward * factor / 4)
            if factor == 2:
                scattered = rank.collective("_reduce_scatter_base", rank.job.world, size, 22, holds=False)
    rank.wait(scattered)
    rank.kernel("multi_tensor_apply_kernel", 400)


def two_level(rank: Rank, size: int = 64 << 20) -> None:
    """Gradients are scattered within nodes, reduced between them, and gathered within them."""
    job, (node, at) = rank.job, divmod(rank.number, PER_NODE)
    intra = job.group(f"intra{node}", "intra", range(node * PER_NODE, (node + 1) * PER_NODE))
    inter = job.group(f"inter{at}", "inter", range(at, job.size, PER_NODE))
    for _ in range(8):
        rank.kernel("gemm", 480)
    reduced = None
    for _ in range(6):
        for _ in range(3):
            rank.kernel("wgrad", 430)
        scattered = rank.collective("_reduce_scatter_base", intra, size, 21, holds=False)
        reduced = rank.collective("allreduce", inter, size // PER_NODE, 22, after=(scattered,), holds=False)
    rank.collective("_allgather_base", intra, size, 21, after=[one for one in (reduced,) if one])
    rank.kernel("multi_tensor_apply_kernel", 300)


def pipeline(rank, stages=4, batches=8, factors=None, size=8 << 20) -> None:
    """GPipe with replicas that reduce their gradients; `factors` are of the stages' kernels."""
    job = rank.job
    data = job.size // stages
    stage, replica = divmod(rank.number, data)
    pipe = job.group(f"pp{replica}", "pp", range(replica, job.size, data))
    replicas = job.group(f"dp{stage}", "dp", range(stage * data, (stage + 1) * data))
    for name, lasting, way in (("forward", 1000.0, 1), ("backward", 2000.0, -1)):
        for _ in range(batches):
            if 0 <= stage - way < stages:
                rank.collective("recv", pipe, size, 30 + way, peer=rank.number - way * data, sends=False, after=())
            for _ in range(4):
                rank.kernel(name, lasting / 4 * (factors or {}).get(stage, 1.0))
            if 0 <= stage + way < stages:
                rank.collective("send", pipe, size, 40 + way, peer=rank.number + way * data, holds=False)
    if data > 1:
        rank.collective("allreduce", replicas, 48 << 20)
    rank.kernel("multi_tensor_apply_kernel", 300)


def tensor(rank: Rank, shards: int = 4) -> None:
    """Tensor parallel within, data parallel across."""
    job, at = rank.job, rank.number % shards
    row = job.group(f"tp{rank.number // shards}", "tp", range(rank.number - at, rank.number - at + shards))
    column = job.group(f"dp{at}", "dp", range(at, job.size, shards))
    for layer in range(8):
        for _ in range(4):
            rank.kernel(f"gemm_{layer % 2}", 220)
        rank.collective("allreduce", row, 8 << 20, 21)
    rank.collective("allreduce", column, 64 << 20)
    rank.kernel("multi_tensor_apply_kernel", 400)


def experts(rank: Rank, loads: Callable[[int], Sequence[float]], layers: int = 6, *, works: bool = True) -> None:
    """Two all-to-alls a layer, whose sizes, and the work between them, follow the tokens that `loads` gives each."""
    job = rank.job
    group = job.group("7", "EP_GROUP", range(job.size))
    for layer in range(layers):
        for _ in range(3):
            rank.kernel("attention", 180)
        load = loads(layer)[rank.number]
        rank.collective("all_to_allv", group, (8 << 20, int((8 << 20) * load)), 21)
        load = load if works else 1.0
        for _ in range(4):
            rank.kernel("grouped_gemm", 150 * load, round(400 * load))
        rank.collective("all_to_allv", group, (int((8 << 20) * load), 8 << 20), 21)
    rank.collective("allreduce", job.world, 48 << 20)


def three_d(rank, tensor=1, stages=1, *, batches=4, buckets=4, size=32 << 20, factors=(), shared=False) -> None:
    """Tensor × pipeline × data parallel, tensor groups innermost as Megatron numbers them; short steps.

    Args:
        rank: who.
        tensor: ranks of a tensor group.
        stages: of the pipeline.
        batches: micro-batches.
        buckets: all-reduces of gradients.
        size: bytes of each.
        factors: of the stages' kernels.
        shared: whether all groups of a kind have one name.
    """
    job = rank.job
    data = job.size // (tensor * stages)
    stage, rest = divmod(rank.number, data * tensor)
    replica, shard = divmod(rest, tensor)

    def group(kind: str, number: int, ranks: Sequence[int]) -> Group:
        return job.group(kind if shared else f"{kind}{number}", f"{kind.upper()}_GROUP", ranks)

    start, stride = stage * data * tensor, data * tensor
    row = group("tp", stage * data + replica, range(rank.number - shard, rank.number - shard + tensor))
    pipe = group("pp", rest, range(rest, job.size, stride))
    replicas = job.world
    if tensor * stages > 1:
        replicas = group("dp", stage * tensor + shard, range(start + shard, start + stride, tensor))

    def layer(name: str, kernels: int = 4) -> None:
        for _ in range(kernels):
            rank.kernel(name, 200 * (factors[stage] if factors else 1.0))
        if tensor > 1:
            rank.collective("allreduce", row, 8 << 20, 21)

    if stages == 1:
        for number in range(4):
            layer(f"gemm_{number}")
    for name, way in (("gemm_forward", 1), ("gemm_backward", -1)) if stages > 1 else ():
        for _ in range(batches):
            if 0 <= stage - way < stages:
                rank.collective("recv", pipe, 1 << 20, 30 + way, peer=rank.number - way * stride, sends=False, after=())
            layer(name, 3)
            if 0 <= stage + way < stages:
                rank.collective("send", pipe, 1 << 20, 40 + way, peer=rank.number + way * stride, holds=False)
    reduced = None
    for bucket in range(buckets if data > 1 else 0):
        if bucket == buckets // 2:
            job.paused(rank)
        for _ in range(4 if stages == 1 else 0):
            rank.kernel("gemm_backward", 200)
        reduced = rank.collective("allreduce", replicas, size, holds=False)
    rank.wait(reduced)
    rank.kernel("multi_tensor_apply_kernel", 200)


def two_kinds(rank: Rank) -> None:
    """Two groups of the same ranks in turns, on two streams: gradients are reduced while weights are gathered."""
    shards = rank.job.group("1", "fsdp_shards", range(rank.job.size))
    for layer in range(6):
        each = (1 + layer) << 20
        rank.collective("_allgather_base", shards, (each, each * rank.job.size), 21)
        for _ in range(4):
            rank.kernel("gemm", 170)
        rank.collective("allreduce", rank.job.world, 6 << 20, holds=False)


def launching(rank: Rank, launches: int = 800) -> Iterator[None]:
    """Many kernels of 6 µs: hosts can't launch as fast as their GPUs compute."""
    for layer in range(4):
        for _ in range(launches // 4):
            rank.kernel(f"small_{layer}", 6)
        rank.collective("allreduce", rank.job.world, 4 << 20, holds=False)
    yield
    rank.kernel("multi_tensor_apply_kernel", 20)
