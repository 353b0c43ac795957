"""Recordings of jobs in which several kinds of parallelism meet, with what is planted in them: an own small simulation.

    job = Simulated(8)
    job.three_d(tensor=2, stages=2, slow={5: 1.5})
    job.write(tmp_path)

Nothing here knows the rules. Times are in µs; a rank has a host, a GPU with streams, and the clock of its own. A
collective ends on all of its ranks at once, after the last of them came; `waited` has what each rank really waited, and
for whom.
"""

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BASE_NS = 1_790_857_026_000_000_000
FIRST_STEP = 10
COMPUTE, LATENCY, BYTES_PER_US = 7, 15.0, 180_000.0


@dataclass(frozen=True)
class Group:
    """A process group as PyTorch names it."""

    name: str
    description: str
    ranks: tuple[int, ...]


@dataclass
class Rank:
    """What one rank has done so far."""

    number: int
    host: float = 2_000.0
    streams: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    events: list[dict[str, Any]] = field(default_factory=list)
    correlation: int = 0
    calls: dict[str, int] = field(default_factory=lambda: defaultdict(int))


@dataclass
class Simulated:
    """A job of so many ranks."""

    size: int
    steps: int = 4
    seed: int = 1
    described: str = "kernel"
    """Where a collective's arguments stand: ``kernel``; ``operator``, as on AMD and in older recordings; or nowhere."""
    seq: bool = False
    amd: bool = False
    clocks: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """By rank: offset in µs, and drift in parts per million."""
    lacking: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """By rank: steps whose events its recording lacks."""
    unmarked: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """By rank: steps without their mark."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.ranks = [Rank(number) for number in range(self.size)]
        self.groups: dict[str, Group] = {}
        self.waited: dict[tuple[int, int], float] = defaultdict(float)
        """(who, for whom): µs in all steps."""

    # --- what a program does

    def group(self, name: str, description: str, ranks: Sequence[int]) -> Group:
        """A group, which all ranks' files name that are in it."""
        found = Group(name, description, tuple(ranks))
        self.groups[f"{name} {found.ranks}"] = found
        return found

    def host_event(self, rank: Rank, kind: str, name: str, begin: float, end: float, **args: Any) -> None:
        row = {
            "ph": "X",
            "cat": kind,
            "name": name,
            "pid": 500 + rank.number,
            "tid": 1,
            "ts": begin,
            "dur": end - begin,
        }
        rank.events.append(row | {"args": args})

    def call(self, rank: Rank, lasting: float = 4.0) -> float:
        """The host launches something; when the GPU may begin."""
        begin = rank.host + 2.0 + self.random.random()
        rank.host = begin + lasting
        rank.correlation += 1
        name = "hipLaunchKernel" if self.amd else "cudaLaunchKernel"
        self.host_event(rank, "cuda_runtime", name, begin, rank.host, correlation=rank.correlation)
        return begin + lasting

    def gpu_event(self, rank: Rank, name: str, begin: float, end: float, stream: int, **args: Any) -> None:
        place = {"device": rank.number % 8, "stream": stream, "correlation": rank.correlation}
        row = {"ph": "X", "cat": "kernel", "name": name, "pid": rank.number % 8, "tid": stream, "ts": begin}
        rank.events.append(
            row | {"dur": end - begin, "args": place | {"grid": [132, 1, 1], "block": [128, 1, 1]} | args}
        )

    def kernel(self, number: int, name: str, lasting: float, blocks: int = 132) -> None:
        """A launch and its kernel on the compute stream."""
        rank = self.ranks[number]
        ready = self.call(rank)
        self.host_event(rank, "cpu_op", "aten::mm", ready - 6, rank.host + 1)
        rank.host += 1
        lasting *= 1 + self.random.uniform(-0.01, 0.01)
        begin = max(ready, rank.streams[COMPUTE] + 1)
        rank.streams[COMPUTE] = begin + lasting
        self.gpu_event(rank, name, begin, begin + lasting, COMPUTE, grid=[blocks, 1, 1])

    def busy_host(self, number: int, name: str, lasting: float) -> None:
        """The host does something that launches nothing."""
        rank = self.ranks[number]
        begin, rank.host = rank.host + 1, rank.host + 1 + lasting
        self.host_event(rank, "user_annotation", name, begin, rank.host)

    def collective(
        self,
        kind: str,
        group: Group,
        sizes: int | Mapping[int, tuple[int, int]],
        stream: int = 20,
        *,
        ranks: Sequence[int] = (),
        holds: bool = True,
        needs: Sequence[int] | None = None,
        takes: float | None = None,
    ) -> float:
        """The group's ranks meet; returns when they are done.

        Args:
            kind: as PyTorch calls it: ``allreduce``, ``all_to_allv``, ``send``, …
            group: whose.
            sizes: bytes, or (in, out) of each rank.
            stream: on which stream of all its ranks.
            ranks: which of the group take part; all by default. Of a send the first sends.
            holds: whether the work after it waits for it.
            needs: the ranks on which it needs what was computed before; all by default.
            takes: µs from the last arrival to the end; by default as its bytes take.
        """
        members = tuple(ranks) or group.ranks
        arrived = {}
        for number in members:
            rank = self.ranks[number]
            computed = rank.streams[COMPUTE] if needs is None or number in needs else 0.0
            arrived[number] = max(self._described_call(rank, kind, group, sizes, members), rank.streams[stream] + 1,
                                  computed + 1)  # fmt: skip
        moved = max(sum(_of(sizes, number)) / 2 for number in members)
        last = max(arrived, key=arrived.__getitem__)
        end = arrived[last] + (LATENCY + moved / BYTES_PER_US if takes is None else takes)
        for number in members:
            rank = self.ranks[number]
            args = self._arguments(rank, kind, group, sizes, members) if self.described == "kernel" else {}
            self.gpu_event(
                rank, self._kernel_name(kind), arrived[number], end + self.random.uniform(0, 3), stream, **args
            )
            self.waited[number, last] += arrived[last] - arrived[number]
            rank.streams[stream] = end + 3
            if holds:
                rank.streams[COMPUTE] = max(rank.streams[COMPUTE], end + 3)
        return end + 3

    def _described_call(
        self, rank: Rank, kind: str, group: Group, sizes: int | Mapping[int, tuple[int, int]], members: Sequence[int]
    ) -> float:
        """The launch, inside the operator that describes it where that is recorded."""
        rank.calls[group.name] += 1
        begin = rank.host + 1
        ready = self.call(rank)
        rank.host += 2
        if self.described == "operator":
            said = self._arguments(rank, kind, group, sizes, members)
            self.host_event(rank, "cpu_op", "record_param_comms", begin, rank.host - 1, **said)
        return ready

    def _arguments(
        self, rank: Rank, kind: str, group: Group, sizes: int | Mapping[int, tuple[int, int]], members: Sequence[int]
    ) -> dict[str, Any]:
        bytes_in, bytes_out = _of(sizes, rank.number)
        found: dict[str, Any] = {
            "Collective name": kind, "In msg nelems": bytes_in // 2, "Out msg nelems": bytes_out // 2,
            "Group size": len(group.ranks), "dtype": "BFloat16", "In split size": "[]", "Out split size": "[]",
            "Process Group Name": group.name, "Process Group Description": group.description,
            "Process Group Ranks": json.dumps(list(group.ranks)),
        }  # fmt: skip
        if kind in ("send", "recv"):
            sends = rank.number == members[0]
            found["Collective name"] = "send" if sends else "recv"
            found["Dst Rank" if sends else "Src Rank"] = members[1] if sends else members[0]
        if self.seq:
            found["Seq"] = rank.calls[group.name]
        return found

    def _kernel_name(self, kind: str) -> str:
        if self.amd:
            return "ncclDevKernel_Generic(ncclDevComm*, channelMasks, ncclWork*)"
        name = {"allreduce": "AllReduce_Sum_bf16_RING_LL", "_allgather_base": "AllGather_RING_LL",
                "_reduce_scatter_base": "ReduceScatter_Sum_bf16_RING_LL"}.get(kind, "SendRecv")  # fmt: skip
        return f"ncclDevKernel_{name}(ncclDevKernelArgsStorage<4096ul>)"

    def each_step(self) -> Iterator[int]:
        """The steps; what is done in each stands in the loop's body. Each ends when its host has waited for its GPU."""
        for step in range(FIRST_STEP, FIRST_STEP + self.steps):
            begun = {rank.number: (rank.host, len(rank.events)) for rank in self.ranks}
            for rank in self.ranks:
                rank.host += 2
            yield step
            for rank in self.ranks:
                done = max(rank.streams.values())
                begin = rank.host + 1
                rank.host = max(done, begin) + 3
                sync = "hipStreamSynchronize" if self.amd else "cudaStreamSynchronize"
                self.host_event(rank, "cuda_runtime", sync, begin, rank.host)
                start, first = begun[rank.number]
                if step in self.lacking.get(rank.number, ()):
                    del rank.events[first:]
                elif step not in self.unmarked.get(rank.number, ()):
                    self.host_event(rank, "user_annotation", f"ProfilerStep#{step}", start, rank.host + 1)
                rank.host += 3

    # --- programs

    def three_d(
        self,
        tensor: int,
        stages: int,
        *,
        slow: Mapping[int, float] | None = None,
        extra: Mapping[int, float] | None = None,
        sleeps: Mapping[int, float] | None = None,
        batches: int = 4,
        names: str = "own",
    ) -> None:
        """Tensor × pipeline × data parallel training, tensor groups innermost, as Megatron numbers its ranks.

        Args:
            tensor: ranks of a tensor group.
            stages: of the pipeline.
            slow: by rank, how many times as long its kernels take.
            extra: by rank, µs of more GPU work per step.
            sleeps: by rank, µs in which its host launches nothing, per step.
            batches: micro-batches.
            names: ``own``: each group has a name of its own; ``shared``: all groups of a kind have one.
        """
        data = self.size // (tensor * stages)

        def at(stage: int, replica: int, shard: int) -> int:
            return (stage * data + replica) * tensor + shard

        def made(kind: str, number: int, ranks: Sequence[int]) -> Group:
            return self.group(kind if names == "shared" else f"{kind}{number}", f"{kind.upper()}_GROUP", ranks)

        places = range(stages), range(data), range(tensor)
        tp = {(s, d): made("tp", s * data + d, [at(s, d, t) for t in places[2]]) for s in places[0] for d in places[1]}
        dp = {
            (s, t): made("dp", s * tensor + t, [at(s, d, t) for d in places[1]]) for s in places[0] for t in places[2]
        }
        pp = {
            (d, t): made("pp", d * tensor + t, [at(s, d, t) for s in places[0]]) for d in places[1] for t in places[2]
        }

        def layer(stage: int, name: str) -> None:
            for replica in places[1]:
                for shard in places[2]:
                    number = at(stage, replica, shard)
                    for _ in range(3):
                        self.kernel(number, name, 150 * (slow or {}).get(number, 1.0))
                if tensor > 1:
                    self.collective("allreduce", tp[stage, replica], 4 << 20, 21)

        for _ in self.each_step():
            for number, lasting in (sleeps or {}).items():
                self.busy_host(number, "read_shard", lasting)
            for number, lasting in (extra or {}).items():
                for _ in range(5):
                    self.kernel(number, "rotary_again", lasting / 5)
            for order, name in ((places[0], "gemm_forward"), (places[0][::-1], "gemm_backward")):
                for _ in range(batches):
                    for stage, after in zip(order, [*order[1:], None], strict=True):
                        layer(stage, name)
                        for replica in places[1]:
                            for shard in places[2] if after is not None else ():
                                pair = at(stage, replica, shard), at(after, replica, shard)
                                self.collective("send", pp[replica, shard], 1 << 20, 22, ranks=pair)
            for group in dp.values():
                if data > 1:
                    self.collective("allreduce", group, 24 << 20, 20, holds=False)

    def experts(self, loads: Sequence[float], *, work: bool = True) -> None:
        """Expert parallelism: tokens go to their experts' ranks and back; `loads` says how many, 1 being even.

        Args:
            loads: by rank.
            work: whether a rank with more tokens also computes longer.
        """
        world = self.group("0", "default_pg", range(self.size))
        ep = self.group("7", "EP_GROUP", range(self.size))
        token_bytes = 8 << 20
        for _ in self.each_step():
            for _ in range(3):
                for number in range(self.size):
                    for _ in range(3):
                        self.kernel(number, "attention", 180)
                there = {number: (token_bytes, int(token_bytes * load)) for number, load in enumerate(loads)}
                back = {number: (out, into) for number, (into, out) in there.items()}
                self.collective("all_to_allv", ep, there, 21)
                for number, load in enumerate(loads):
                    share = load if work else 1.0
                    for _ in range(4):
                        self.kernel(number, "grouped_gemm", 150 * share, blocks=round(400 * share))
                self.collective("all_to_allv", ep, back, 21)
            self.collective("allreduce", world, 48 << 20, 20, holds=False)

    def two_kinds(self, extra: Mapping[int, float]) -> None:
        """Two groups of the same ranks in turns, on two streams: gradients are reduced while weights are gathered."""
        world = self.group("0", "default_pg", range(self.size))
        shards = self.group("1", "fsdp_shards", range(self.size))
        for _ in self.each_step():
            for number, lasting in extra.items():
                self.kernel(number, "uneven", lasting)
            for layer in range(6):
                each = (1 + layer) << 20
                sizes = dict.fromkeys(range(self.size), (each, each * self.size))
                self.collective("_allgather_base", shards, sizes, 21)
                for number in range(self.size):
                    for _ in range(4):
                        self.kernel(number, "gemm", 170)
                self.collective("allreduce", world, 6 << 20, 20, holds=False)

    # --- files

    def document(self, number: int, *, header: bool = True) -> dict[str, Any]:
        """One rank's file."""
        offset, drift = self.clocks.get(number, (0.0, 0.0))
        events = [
            event
            | {
                "ts": round(event["ts"] * (1 + drift * 1e-6) + offset, 3),
                "dur": round(event["dur"] * (1 + drift * 1e-6), 3),
            }
            for event in self.ranks[number].events
        ]
        found: dict[str, Any] = {"schemaVersion": 1, "baseTimeNanoseconds": BASE_NS}
        if header:
            config = [
                {"pg_name": one.name, "pg_desc": one.description, "pg_size": len(one.ranks), "ranks": list(one.ranks)}
                for one in self.groups.values()
                if number in one.ranks
            ]
            told = {"backend": "nccl", "rank": number, "world_size": self.size}
            found["distributedInfo"] = told | ({"pg_config": config} if self.described != "nowhere" else {})
        return found | {"traceEvents": events}

    def write(self, folder: Path, name: str = "rank{rank}.pt.trace.json", *, header: bool = True) -> Path:
        """Writes all ranks' files; returns their folder."""
        for rank in self.ranks:
            path = folder / name.format(rank=rank.number, node=rank.number // 4, local=rank.number % 4)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(self.document(rank.number, header=header)))
        return folder


def _of(sizes: int | Mapping[int, tuple[int, int]], number: int) -> tuple[int, int]:
    return (sizes, sizes) if isinstance(sizes, int) else sizes[number]
