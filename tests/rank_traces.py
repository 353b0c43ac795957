"""Builds the recordings of a job of many ranks whose causes are known: a small simulation of its hosts and GPUs.

job = Job(ranks=4, plants=(Plant(2, "gpu", 14_000),))
paths = job.write(tmp_path)

Ranks stand as ``(stage * data + replica) * tensor + shard``: `Job.groups` lists who talks with whom. Times are in µs. A
collective ends on all of its ranks at once, `transfer` after the last of them came; clocks of hosts are applied when
the files are written. What each rank really waited for is in `Job.truth`.
"""

import gzip
import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BASE_NS = 1_790_857_026_000_000_000
"""Unix time of every file's zero."""
FIRST_STEP = 4
LAUNCH, GAP, KERNEL, LATENCY = 5.0, 3.0, 200.0, 20.0
BYTES_PER_US = 200_000.0
"""What a link moves: 200 GB/s."""
BUCKETS, LAYERS = 4, 4


@dataclass(frozen=True, slots=True)
class Plant:
    """What makes one rank different."""

    rank: int
    kind: str
    """``gpu``: more kernels under the range `name`; ``host``: the host sleeps in it; ``loader``: it waits for the
    loader; ``gc``: it stops once, in the middle step, in no range; ``launches``: each launch takes so much longer;
    ``throttled``: each kernel takes `amount` times as long."""
    amount: float
    """In µs per step, or a factor."""
    name: str = "planted_work"


@dataclass
class _Rank:
    number: int
    host: float = 0.0
    compute: float = 0.0
    talk: float = 0.0
    events: list[dict[str, Any]] = field(default_factory=list)
    correlation: int = 0
    sequence: dict[str, int] = field(default_factory=dict)


@dataclass
class Job:
    """A training job of `ranks` = stages × data × tensor GPUs."""

    ranks: int = 4
    steps: int = 3
    stages: int = 1
    tensor: int = 1
    micro_batches: int = 4
    plants: tuple[Plant, ...] = ()
    stage_factors: tuple[float, ...] = ()
    """How long a stage's kernels take, times the others'."""
    bucket_bytes: int = 32 << 20
    buckets: int = BUCKETS
    seq: bool = True
    light: bool = False
    """CUDA activity alone: no steps, no ranges, no arguments of collectives."""
    ran_ahead: int = 0
    """So many steps' GPU work, launched before its window, stands in the files of all ranks but the first."""
    ranks_per_host: int = 8
    clocks: tuple[tuple[float, float], ...] = ()
    """Per host: offset in µs, drift in parts per million."""
    filler: int = 0
    """So many more operators per step, which only make the file larger."""
    jitter: float = 0.02
    seed: int = 0
    truth: dict[str, Any] = field(default_factory=dict, init=False)

    @property
    def data(self) -> int:
        """How many replicas there are."""
        return self.ranks // (self.stages * self.tensor)

    def place(self, rank: int) -> tuple[int, int, int]:
        """Stage, replica and shard of a rank."""
        rest, shard = divmod(rank, self.tensor)
        stage, replica = divmod(rest, self.data)
        return stage, replica, shard

    def at(self, stage: int, replica: int, shard: int) -> int:
        """The rank at a place."""
        return (stage * self.data + replica) * self.tensor + shard

    @property
    def groups(self) -> dict[str, tuple[int, ...]]:
        """Every process group: its name and its ranks. One name may not stand for two groups."""
        found = {"0": tuple(range(self.ranks))}
        for stage in range(self.stages):
            for shard in range(self.tensor):
                if self.data > 1 and (self.stages > 1 or self.tensor > 1):
                    found[f"dp{stage}.{shard}"] = tuple(self.at(stage, r, shard) for r in range(self.data))
            for replica in range(self.data):
                if self.tensor > 1:
                    found[f"tp{stage}.{replica}"] = tuple(self.at(stage, replica, s) for s in range(self.tensor))
        if self.stages > 1:
            for replica in range(self.data):
                for shard in range(self.tensor):
                    found[f"pp{replica}.{shard}"] = tuple(self.at(s, replica, shard) for s in range(self.stages))
        return found

    # --- the simulation

    def _planted(self, rank: int, kind: str) -> list[Plant]:
        return [plant for plant in self.plants if plant.rank == rank and plant.kind == kind]

    def _kernel(self, rank: _Rank, name: str, lasting: float) -> None:
        """A launch and its kernel."""
        factor = 1.0
        for plant in self._planted(rank.number, "throttled"):
            factor *= plant.amount
        stage = self.place(rank.number)[0]
        factor *= self.stage_factors[stage] if self.stage_factors else 1.0
        lasting *= factor * (1 + self.random.uniform(-self.jitter, self.jitter))
        begin = max(self._call(rank), rank.compute + 1)
        rank.compute = begin + lasting
        self._gpu(rank, name, begin, rank.compute, 7, {})

    def _call(self, rank: _Rank) -> float:
        """The host launches something; when the GPU may begin with it."""
        slow = sum(plant.amount for plant in self._planted(rank.number, "launches"))
        begin = rank.host + GAP * (1 + self.random.random())
        rank.host = begin + LAUNCH + slow
        rank.correlation += 1
        call = {"correlation": rank.correlation}
        self._host(rank, "cpu_op", "aten::mm", begin - 1, rank.host + 1, {})
        self._host(rank, "cuda_runtime", "cudaLaunchKernel", begin, rank.host, call)
        rank.host += 1
        return begin + LAUNCH

    def _host(self, rank: _Rank, kind: str, name: str, begin: float, end: float, args: dict[str, Any]) -> None:
        row = {"ph": "X", "cat": kind, "name": name, "pid": 100 + rank.number, "tid": 1, "args": args}
        rank.events.append(row | {"ts": begin, "dur": end - begin})

    def _gpu(self, rank: _Rank, name: str, begin: float, end: float, stream: int, args: dict[str, Any]) -> None:
        place = {"device": rank.number % 8, "stream": stream, "correlation": rank.correlation}
        row = {"ph": "X", "cat": "kernel", "name": name, "pid": rank.number % 8, "tid": stream}
        shape = {"grid": [132, 1, 1], "block": [128, 1, 1]}
        rank.events.append(row | {"ts": begin, "dur": end - begin, "args": place | shape | args})

    def _collective(self, kind: str, group: str, ranks: tuple[int, ...], size: int, stream: int = 19) -> None:
        """All of these ranks launch it, and it ends `transfer` after the last of them came."""
        arrived = {}
        for number in ranks:
            rank = self.all[number]
            arrived[number] = max(self._call(rank), rank.talk + 1, rank.compute + 1)
        end = max(arrived.values()) + LATENCY + size / BYTES_PER_US
        last = max(arrived, key=arrived.__getitem__)
        self.truth["last"].append((group, last, max(arrived.values()) - min(arrived.values())))
        torch_name = {"all_reduce": "allreduce", "all_gather": "_allgather_base"}.get(kind, kind)
        nccl_name = {"all_reduce": "AllReduce_Sum_f32_RING_LL", "all_gather": "AllGather_RING_LL"}.get(kind, "SendRecv")
        for number in ranks:
            rank = self.all[number]
            rank.sequence[group] = rank.sequence.get(group, 0) + 1
            args = {
                "Collective name": torch_name,
                "In msg nelems": size // 4,
                "Out msg nelems": size // 4,
                "Group size": len(self.groups[group]),
                "dtype": "Float",
                "In split size": "[]",
                "Out split size": "[]",
                "Process Group Name": group,
                "Process Group Description": group.rstrip("0123456789.") or "default_pg",
                "Process Group Ranks": json.dumps(list(self.groups[group])),
            }
            if kind in ("send", "recv"):
                other = next(one for one in ranks if one != number)
                args |= {"Collective name": "send" if number == ranks[0] else "recv"}
                args |= {"Src Rank" if number == ranks[1] else "Dst Rank": other}
            if self.seq:
                args["Seq"] = rank.sequence[group]
            name = f"ncclDevKernel_{nccl_name}(ncclDevKernelArgsStorage<4096ul>)"
            self._gpu(rank, name, arrived[number], end + self.random.uniform(0, 4), stream, args)
            rank.talk = end
            if kind != "all_reduce" or group.startswith("tp"):
                rank.compute = max(rank.compute, end)  # what follows needs it

    def _step(self, number: int) -> None:
        begins = {rank.number: rank.host for rank in self.all}
        for rank in self.all:
            self._before(rank, number)
        if self.stages == 1:
            self._forward(self.all)
        else:
            self._pipeline()
        self._gradients()
        for rank in self.all:
            rank.compute = max(rank.compute, rank.talk)
            self._kernel(rank, "multi_tensor_apply_kernel", KERNEL)
            for _ in range(self.filler):
                self._host(rank, "cpu_op", "aten::view", rank.host, rank.host + 0.4, {})
                rank.host += 0.5
            # a loss is read: the host waits for its GPU
            if rank.compute > rank.host:
                self._host(rank, "cuda_runtime", "cudaStreamSynchronize", rank.host + 1, rank.compute + 1, {})
                rank.host = rank.compute + 2
            step = f"ProfilerStep#{FIRST_STEP + number}"
            self._host(rank, "user_annotation", step, begins[rank.number], rank.host, {})
            self.truth["steps"].setdefault(rank.number, []).append(rank.host - begins[rank.number])
            rank.host += 1

    def _before(self, rank: _Rank, number: int) -> None:
        """What was planted, and the loader."""
        rank.host += 1  # within the step
        for kind in ("host", "loader", "gc"):
            for plant in self._planted(rank.number, kind):
                if kind == "gc" and number != self.steps // 2:
                    continue
                begin, rank.host = rank.host, rank.host + plant.amount
                if kind == "host":
                    self._host(rank, "user_annotation", plant.name, begin, rank.host, {})
                elif kind == "loader":
                    name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
                    self._host(rank, "user_annotation", name, begin, rank.host, {})
                rank.host += 1
        for plant in self._planted(rank.number, "gpu"):
            rank.host += 1
            begin = rank.host
            for _ in range(8):
                self._kernel(rank, "planted_kernel", plant.amount / 8)
            self._host(rank, "user_annotation", plant.name, begin, rank.host + 1, {})
            rank.host += 2

    def _forward(self, ranks: list[_Rank]) -> None:
        for layer in range(LAYERS):
            for rank in ranks:
                for _ in range(4):
                    self._kernel(rank, f"gemm_{layer}", KERNEL)
            if self.tensor > 1:
                for name, members in self.groups.items():
                    if name.startswith("tp"):
                        self._collective("all_reduce", name, members, 8 << 20)

    def _pipeline(self) -> None:
        """All micro-batches forward, then all of them backward (GPipe)."""
        for forward in (True, False):
            for _ in range(self.micro_batches):
                order = range(self.stages) if forward else range(self.stages - 1, -1, -1)
                for stage in order:
                    for replica in range(self.data):
                        for shard in range(self.tensor):
                            rank = self.all[self.at(stage, replica, shard)]
                            for _ in range(2):
                                self._kernel(rank, "gemm_forward" if forward else "gemm_backward", KERNEL)
                            after = stage + (1 if forward else -1)
                            if 0 <= after < self.stages:
                                pair = (rank.number, self.at(after, replica, shard))
                                self._collective("send", f"pp{replica}.{shard}", pair, 1 << 20, 23)

    def _gradients(self) -> None:
        for _ in range(self.buckets):
            for rank in self.all:
                if self.stages == 1:
                    for _ in range(4):
                        self._kernel(rank, "gemm_backward", KERNEL)
            for name, members in self.groups.items():
                if len(members) > 1 and (name.startswith("dp") or (name == "0" and self.data == self.ranks)):
                    self._collective("all_reduce", name, members, self.bucket_bytes)

    def simulate(self) -> None:
        """Runs the steps; `write` does it by itself."""
        self.random = random.Random(self.seed)
        self.truth = {"last": [], "steps": {}}
        self.all = [_Rank(number, host=1000.0) for number in range(self.ranks)]
        for _ in range(self.ran_ahead):
            self._step(0)
        start = max(rank.host for rank in self.all)
        self.before = {rank.number: len(rank.events) for rank in self.all}
        self.truth["last"].clear()
        self.truth["steps"].clear()
        for rank in self.all:
            rank.host = start
        for number in range(self.steps):
            self._step(number)

    # --- the files

    def document(self, number: int) -> dict[str, Any]:
        """One rank's file, as torch.profiler writes it, on its host's clock."""
        rank = self.all[number]
        offset, drift = self.clocks[number // self.ranks_per_host] if self.clocks else (0.0, 0.0)
        events = []
        for place, event in enumerate(rank.events):
            if place < self.before[number] and (number == 0 or event["cat"] != "kernel"):
                continue
            if self.light and event["cat"] not in ("kernel", "cuda_runtime"):
                continue
            row = dict(
                event,
                ts=round(event["ts"] * (1 + drift / 1e6) + offset, 3),
                dur=round(event["dur"] * (1 + drift / 1e6), 3),
            )
            if self.light or place < self.before[number]:
                row["args"] = {key: value for key, value in event["args"].items() if key[0].islower()}
            events.append(row)
        groups = [
            {"pg_name": name, "pg_desc": name.rstrip("0123456789.") or "default_pg", "pg_size": len(members),
             "ranks": list(members)}
            for name, members in self.groups.items() if number in members
        ]  # fmt: skip
        return {
            "schemaVersion": 1,
            "distributedInfo": {"backend": "nccl", "rank": number, "world_size": self.ranks, "pg_config": groups},
            "baseTimeNanoseconds": BASE_NS,
            "traceEvents": events,
        }

    def write(self, folder: Path) -> list[Path]:
        """Writes all ranks' files."""
        self.simulate()
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for number in range(self.ranks):
            path = folder / f"rank{number}.pt.trace.json.gz"
            path.write_bytes(gzip.compress(json.dumps(self.document(number)).encode(), 1))
            paths.append(path)
        return paths
