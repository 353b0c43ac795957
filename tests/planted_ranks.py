"""Jobs with one planted cause each, drawn at random, and even ones: who is named, how much, and why, as one table.

    python tests/planted_ranks.py [--seed 3] [--only NAME …] [--keep FOLDER]

Every rank has a host, a GPU and links that are simulated (`parallel_jobs`): what a plant costs follows from that, as
does who waits. Traces are what a recorder would have seen: on clocks of hosts that are off and drift, some files cut.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from parallel_jobs import COMPUTE, Rank, Simulated

PER_NODE = 8


@dataclass
class Planted(Simulated):
    """A job whose ranks differ by noise, and by what is planted."""

    steps: int = 6
    noise: float = 0.02
    """Of each kernel; a rank's GPU as a whole is off by a fifth of it."""
    slow: Mapping[int, float] = field(default_factory=dict)
    """By rank, how many times as long its kernels take."""
    throttled: Mapping[tuple[int, int], float] = field(default_factory=dict)
    """The same by rank and step, which counts from 0."""
    beside: Mapping[int, float] = field(default_factory=dict)
    """By rank, how many times as long its kernels take that begin while a collective runs there."""
    slow_host: Mapping[int, float] = field(default_factory=dict)
    """By rank, how many times as long each of its calls takes."""
    extra: Mapping[int, float] = field(default_factory=dict)
    """By rank, µs of more GPU work in each step, in a range of its own."""
    sleeps: Mapping[int, tuple[str, float]] = field(default_factory=dict)
    """By rank: in which range its host sleeps in each step, and for how many µs."""
    pauses: Mapping[tuple[int, int], float] = field(default_factory=dict)
    """By rank and step: µs in which its host stops in the middle of the backward pass, in no range."""
    cut: Mapping[int, float] = field(default_factory=dict)
    """By rank, which share of its file is there."""
    gpu_noise: float = 0.004

    def __post_init__(self) -> None:
        super().__post_init__()
        self.own = {rank.number: 1 + self.random.gauss(0, self.gpu_noise) for rank in self.ranks}
        self.talks: dict[int, float] = defaultdict(float)
        self.step = 0
        self.world = self.group("0", "default_pg", range(self.size))

    def call(self, rank: Rank, lasting: float = 9.0) -> float:
        """A launch, which takes the host about 14 µs."""
        lasting *= self.random.lognormvariate(0, 0.25) * self.slow_host.get(rank.number, 1.0)
        rank.host += 2 * (self.slow_host.get(rank.number, 1.0) - 1)
        return super().call(rank, lasting) + 2

    def kernels(self, name: str, lasting: float, count: int = 1, ranks: Sequence[int] = ()) -> None:
        """So many launches of a kernel on some ranks, on all by default."""
        for _ in range(count):
            for number in ranks or range(self.size):
                self.kernel(number, name, lasting)

    def kernel(self, number: int, name: str, lasting: float, blocks: int = 132) -> None:
        """A kernel, as long as this rank's GPU makes it in this step."""
        factor = self.own[number] * self.slow.get(number, 1.0) * self.throttled.get((number, self.step), 1.0)
        if self.ranks[number].streams[COMPUTE] < self.talks[number]:
            factor *= self.beside.get(number, 1.0)
        noise = max(self.random.gauss(1, self.noise), 0.5)
        super().kernel(number, name, lasting * factor * noise, blocks)

    def collective(self, kind: str, group: Any, sizes: Any, stream: int = 20, **how: Any) -> float:
        """A collective whose end differs by some µs."""
        if "takes" in how:
            how["takes"] = how["takes"] * max(self.random.gauss(1, 0.02), 0.5) + self.random.uniform(0, 6)
        end = super().collective(kind, group, sizes, stream, **how)
        for number in how.get("ranks") or group.ranks:
            self.talks[number] = max(self.talks[number], end)
        return end

    def each_step(self) -> Iterator[int]:
        """The steps, each begun by what some ranks do before."""
        for self.step, number in enumerate(super().each_step()):
            for rank, (name, lasting) in self.sleeps.items():
                kind = "cpu_op" if name.startswith("enumerate") else "user_annotation"
                begin = self.ranks[rank].host + 1
                self.ranks[rank].host = begin + lasting
                self.host_event(
                    self.ranks[rank], kind.replace("cpu_op", "user_annotation"), name, begin, begin + lasting
                )
            for rank, lasting in self.extra.items():
                begin = self.ranks[rank].host
                for _ in range(10):
                    self.kernel(rank, "eval_gemm", lasting / 10)
                self.host_event(self.ranks[rank], "user_annotation", "metrics", begin, self.ranks[rank].host + 1)
            yield number

    def paused(self) -> None:
        """Where ranks stop that do so in this step."""
        for (rank, step), lasting in self.pauses.items():
            if step == self.step:
                self.ranks[rank].host += lasting

    def hold(self, ends: float, ranks: Sequence[int] = ()) -> None:
        """What these ranks compute from here on waits until then."""
        for number in ranks or range(self.size):
            self.ranks[number].streams[COMPUTE] = max(self.ranks[number].streams[COMPUTE], ends)

    # --- programs

    def ddp(self, layers: int = 8, forward: float = 520.0, bucket: float = 700.0) -> None:
        """An all-reduce for the gradients of each layer, beside the backward pass."""
        for _ in self.each_step():
            for layer in range(layers):
                self.kernels(f"gemm_{layer % 3}", forward / 3, 3)
            end = 0.0
            for layer in range(layers):
                if layer == layers // 2:
                    self.paused()
                self.kernels(f"wgrad_{layer % 3}", forward / 2, 4)
                end = self.collective("allreduce", self.world, 32 << 20, holds=False, takes=bucket)
            self.hold(end)
            self.kernels("adam", 600)

    def fsdp(self, layers: int = 8, forward: float = 900.0, gather: float = 300.0) -> None:
        """Each layer is gathered while the one before computes, and its gradients are scattered beside the next."""
        for _ in self.each_step():
            for way, factor in (("forward", 1), ("backward", 2)):
                ends = [self._gather(gather)]
                for layer in range(layers):
                    if layer + 1 < layers:
                        ends.append(self._gather(gather))
                    if layer == layers // 2 and factor == 2:
                        self.paused()
                    self.hold(ends[layer])
                    self.kernels(f"{way}_{layer % 3}", forward * factor / 4, 4)
                    if factor == 2:
                        end = self.collective(
                            "_reduce_scatter_base", self.world, 16 << 20, 22, holds=False, takes=gather
                        )
            self.hold(end)
            self.kernels("adam", 400)

    def _gather(self, takes: float) -> float:
        return self.collective("_allgather_base", self.world, 16 << 20, 21, holds=False, needs=(), takes=takes)

    def two_level(self, *, slow_group: int | None = None, by: float = 1.0, inter: float = 300.0) -> None:
        """Gradients are scattered within nodes, reduced between them, and gathered within them."""
        nodes = [list(range(at, at + PER_NODE)) for at in range(0, self.size, PER_NODE)]
        intra = [self.group(f"intra{at}", "intra", ranks) for at, ranks in enumerate(nodes)]
        across = [self.group(f"inter{at}", "inter", [ranks[at] for ranks in nodes]) for at in range(PER_NODE)]
        for _ in self.each_step():
            self.kernels("gemm", 480, 8)
            ends: dict[int, float] = {}
            for _ in range(6):
                self.kernels("wgrad", 430, 3)
                for group in intra:
                    scattered = self.collective("_reduce_scatter_base", group, 16 << 20, 21, holds=False, takes=150)
                    for number in group.ranks:
                        ends[number] = scattered
                for at, group in enumerate(across):
                    for number in group.ranks:
                        self.ranks[number].streams[22] = max(self.ranks[number].streams[22], ends[number])
                    takes = inter * (by if at == slow_group else 1.0)
                    end = self.collective("allreduce", group, 2 << 20, 22, holds=False, needs=(), takes=takes)
                    for number in group.ranks:
                        ends[number] = end
            for number, end in ends.items():
                self.hold(end, [number])
            for group in intra:
                self.collective("_allgather_base", group, 16 << 20, 21, takes=150)
            self.kernels("adam", 300)

    def pipeline(
        self,
        stages: int = 4,
        *,
        stage_factor: Mapping[int, float] | None = None,
        slow_link: tuple[int, float] = (-1, 1),
    ) -> None:
        """GPipe: all micro-batches forward, then all backward, and replicas that reduce their gradients."""
        data = self.size // stages
        pipes = [self.group(f"pp{at}", "pp", [stage * data + at for stage in range(stages)]) for at in range(data)]
        replicas = [self.group(f"dp{at}", "dp", range(at * data, at * data + data)) for at in range(stages)]
        for _ in self.each_step():
            for way, lasting in (("forward", 1000.0), ("backward", 2000.0)):
                order = list(range(stages)) if way == "forward" else list(range(stages))[::-1]
                for _ in range(8):
                    for stage, after in zip(order, [*order[1:], None], strict=True):
                        for at in range(data):
                            number = stage * data + at
                            self.kernels(way, lasting / 4 * (stage_factor or {}).get(stage, 1.0), 4, [number])
                            if after is None:
                                continue
                            pair = number, after * data + at
                            lower = min(stage, after)
                            takes = slow_link[1] if (lower, at) == (slow_link[0], 0) else 40.0
                            stream = 30 + lower + 10 * (way == "backward")
                            self.collective(
                                "send",
                                pipes[at],
                                1 << 20,
                                stream,
                                ranks=pair,
                                needs=(number,),
                                takes=takes,
                                holds=False,
                            )
                            self.hold(self.ranks[pair[1]].streams[stream], [pair[1]])
            for group in replicas if data > 1 else ():
                self.collective("allreduce", group, 24 << 20, takes=500)
            self.kernels("adam", 300)

    def tensor(self, shards: int = 4) -> None:
        """Tensor parallel within, data parallel across."""
        rows = [self.group(f"tp{at}", "tp", range(at, at + shards)) for at in range(0, self.size, shards)]
        columns = [self.group(f"dp{at}", "dp", range(at, self.size, shards)) for at in range(shards)]
        for _ in self.each_step():
            for layer in range(8):
                self.kernels(f"gemm_{layer % 2}", 220, 4)
                for group in rows:
                    self.collective("allreduce", group, 8 << 20, 21, takes=60)
            for group in columns:
                self.collective("allreduce", group, 64 << 20, takes=700)
            self.kernels("adam", 400)

    def moe(self, loads: Callable[[int], Sequence[float]]) -> None:
        """Experts: two all-to-alls a layer, whose sizes and the work between them follow the tokens."""
        for _ in self.each_step():
            for layer in range(6):
                self.kernels("attention", 180, 3)
                load = loads(layer)
                there = {number: (8 << 20, int((8 << 20) * of)) for number, of in enumerate(load)}
                self.collective("all_to_allv", self.world, there, 21, takes=200)
                for number, of in enumerate(load):
                    for _ in range(4):
                        self.kernel(number, "grouped_gemm", 150 * of, blocks=round(400 * of))
                back = {number: (out, into) for number, (into, out) in there.items()}
                self.collective("all_to_allv", self.world, back, 21, takes=200)
            self.collective("allreduce", self.world, 48 << 20, takes=900)

    def launching(self, launches: int = 800) -> None:
        """Many kernels of 6 µs: hosts can't launch as fast as their GPUs compute."""
        for _ in self.each_step():
            for layer in range(4):
                self.kernels(f"small_{layer}", 6, launches // 4)
                self.collective("allreduce", self.world, 4 << 20, takes=50, holds=False)
            self.hold(max(self.talks.values()))
            self.kernels("adam", 20)

    @property
    def lasted(self) -> float:
        """When the last rank is done, µs."""
        return max(rank.host for rank in self.ranks)

    # --- files

    def write(self, folder: Path, name: str = "rank{rank}.pt.trace.json", *, header: bool = True) -> Path:
        """All ranks' files, of which some end in the middle, and where each rank ran."""
        super().write(folder, name, header=header)
        for rank, share in self.cut.items():
            path = folder / name.format(rank=rank)
            content = path.read_bytes()
            path.write_bytes(content[: int(len(content) * share)])
        hosts = [{"rank": rank.number, "host": f"node{rank.number // PER_NODE}"} for rank in self.ranks]
        (folder / "run.json").write_text(json.dumps({"schema": "tracetui.run/1", "ranks": hosts}))
        return folder

    def document(self, number: int, *, header: bool = True) -> dict[str, Any]:
        """One rank's file; its events in the order in which they begin: one that is cut has a part of a step."""
        found = super().document(number, header=header)
        found["traceEvents"].sort(key=lambda event: event["ts"])
        return found


@dataclass
class Case:
    """What is planted in a job, and what should be said of it."""

    name: str
    job: Planted
    program: Callable[[Planted], None]
    who: frozenset[int] = frozenset()
    """Ranks that are named; of a slow link the two at its ends, or its group."""
    us: float | None = None
    """How much more per step; None where it is not asked."""
    cause: tuple[str, ...] = ()
    """What may be said."""
    kind: str = "late"
    """``late``, ``turns``, ``link``, ``stage`` or ``uneven``."""
    strays: int = 0
    """So many of the files lie there again, newer."""
    even: bool = False

    def run(self) -> None:
        """Runs the job, and where ranks stop in turn the same without, as hosts that run ahead hide a part of it."""
        self.program(self.job)
        if self.kind == "turns":
            even = replace(self.job, pauses={})
            self.program(even)
            self.us = (self.job.lasted - even.lasted) / self.job.steps


def clocks(draw: random.Random, size: int) -> dict[int, tuple[float, float]]:
    """Hosts whose clocks are off by up to 400 ms and drift by up to 40 ppm; every other job has one clock."""
    if draw.random() < 0.5:
        return {}
    nodes = [(draw.uniform(-4e5, 4e5), draw.uniform(-40, 40)) for _ in range(0, size, PER_NODE)]
    return {rank: nodes[rank // PER_NODE] for rank in range(size)}


def cases(seed: int) -> Iterator[Case]:
    """Twenty jobs with a plant each, then twenty even ones."""
    draw = random.Random(seed)

    def made(size: int, **how: Any) -> Planted:
        own = {"seed": draw.randrange(10**6), "noise": draw.uniform(0.01, 0.03), "clocks": clocks(draw, size)}
        return Planted(size, **(own | how))

    def one(size: int) -> int:
        return draw.randrange(size)

    size = draw.choice([8, 16, 32, 64])
    rank, by = one(size), draw.uniform(1.08, 1.19)
    job = made(size, slow={rank: by})
    yield Case("slow_gpu", job, Planted.ddp, who=frozenset({rank}), us=(by - 1) * 13_080, cause=("slow_gpu",))

    size = draw.choice([8, 16, 32])
    rank, by = one(size), draw.uniform(1.04, 1.06)
    job = made(size, slow={rank: by})
    yield Case("slow_gpu_5", job, Planted.ddp, who=frozenset({rank}), us=(by - 1) * 13_080, cause=("slow_gpu",))

    size = draw.choice([8, 16])
    rank, step = one(size), draw.randrange(1, 6)
    job = made(size, throttled={(rank, step): 1.6})
    yield Case("throttled", job, Planted.ddp, who=frozenset({rank}), us=0.6 * 13_080 / 6, cause=("slow_gpu",))

    size, lasting = draw.choice([16, 32]), draw.uniform(30e3, 50e3)
    job = made(size, pauses={(number, number % 6): lasting for number in range(size)})
    yield Case("turns", job, Planted.ddp, cause=("pause",), kind="turns")

    size = draw.choice([8, 16])
    rank, lasting, layers = one(size), draw.uniform(6e3, 12e3), draw.choice([32, 64])
    job = made(size, sleeps={rank: ("load_batch", lasting)})
    yield Case(
        "load_batch", job, lambda job: job.ddp(layers, 130, 90), who=frozenset({rank}), us=lasting, cause=("host",)
    )

    size = draw.choice([16, 32])
    rank, by = one(size), draw.uniform(1.12, 1.25)
    job = made(size, slow={rank: by})
    yield Case("fsdp_slow", job, Planted.fsdp, who=frozenset({rank}), us=(by - 1) * 22_000, cause=("slow_gpu",))

    size, group, by = draw.choice([32, 64]), one(PER_NODE), draw.uniform(5, 9)
    job = made(size)
    ring = frozenset(range(group, size, PER_NODE))
    yield Case(
        "slow_group", job, lambda job: job.two_level(slow_group=group, by=by), who=ring, us=6 * 300 * (by - 1),
        cause=("link",), kind="link",
    )  # fmt: skip

    size, takes, stage = draw.choice([8, 16]), draw.uniform(1500, 3000), one(3)
    job = made(size)
    pair = frozenset({stage * size // 4, (stage + 1) * size // 4})
    yield Case(
        "slow_pair", job, lambda job: job.pipeline(slow_link=(stage, takes)), who=pair, us=16 * (takes - 40),
        cause=("link",), kind="link",
    )  # fmt: skip

    size, lasting = 8, draw.uniform(4e3, 12e3)
    rank, other = draw.sample(range(size), 2)
    job = made(size, extra={rank: lasting}, cut={other: draw.uniform(0.35, 0.65)})
    yield Case("extra_beside_a_cut", job, Planted.ddp, who=frozenset({rank}), us=lasting, cause=("gpu_work",))

    size, stage = draw.choice([8, 16]), one(4)
    by = draw.uniform(1.4, 1.8)
    job = made(size)
    yield Case(
        "slow_stage", job, lambda job: job.pipeline(stage_factor={stage: by}), who=frozenset({stage}), cause=("stage",),
        kind="stage",
    )  # fmt: skip

    size = draw.choice([16, 32])
    rank, by = one(size), draw.uniform(1.2, 1.4)
    job = made(size, slow={rank: by})
    yield Case("pipeline_rank", job, Planted.pipeline, who=frozenset({rank}), us=(by - 1) * 24_300, cause=("slow_gpu",))

    size = 16
    hot = one(size)
    job = made(size)
    loads = [1.8 if number == hot else 1 - 0.8 / 15 for number in range(size)]
    yield Case(
        "hot_expert", job, lambda job: job.moe(lambda _: loads), who=frozenset({hot}), us=6 * 600 * (0.8 + 0.8 / 15),
        cause=("larger", "gpu_work"),
    )  # fmt: skip

    size = 16
    job = made(size)
    hots = [one(size) for _ in range(6)]

    def another(layer: int) -> list[float]:
        return [2.2 if number == hots[layer] else 1 - 1.2 / 15 for number in range(16)]

    yield Case("hot_in_turn", job, lambda job: job.moe(another), frozenset(hots), cause=("uneven",), kind="uneven")

    size, many = 16, draw.sample(range(16), 10)
    by = draw.uniform(1.15, 1.3)
    job = made(size, slow=dict.fromkeys(many, by))
    yield Case("majority", job, Planted.ddp, who=frozenset(many), us=(by - 1) * 13_080, cause=("slow_gpu",))

    size = draw.choice([8, 16])
    rank, by = one(size), draw.uniform(1.6, 2.0)
    job = made(size, slow_host={rank: by})
    yield Case("slow_cpu", job, Planted.launching, who=frozenset({rank}), us=(by - 1) * 800 * 11.3, cause=("calls",))

    size, node = draw.choice([32, 64]), one(4)
    by = draw.uniform(1.1, 1.2)
    members = range(node * PER_NODE, node * PER_NODE + PER_NODE)
    job = made(size, slow=dict.fromkeys(members, by))
    yield Case("slow_node", job, Planted.ddp, who=frozenset(members), us=(by - 1) * 13_080, cause=("slow_gpu",))

    size = draw.choice([8, 16, 32])
    rank, lasting = one(size), draw.uniform(4e3, 12e3)
    job = made(size, extra={rank: lasting})
    yield Case("extra", job, Planted.fsdp, who=frozenset({rank}), us=lasting, cause=("gpu_work",))

    size = draw.choice([8, 16, 32])
    rank, step, lasting = one(size), draw.randrange(1, 6), draw.uniform(40e3, 80e3)
    job = made(size, pauses={(rank, step): lasting})
    yield Case("pause", job, Planted.ddp, who=frozenset({rank}), us=lasting / 6, cause=("pause",))

    size, lasting = draw.choice([8, 16]), draw.uniform(8e3, 16e3)
    rank = one(size)
    job = made(size, sleeps={rank: ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", lasting)})
    yield Case("loader", job, Planted.ddp, who=frozenset({rank}), us=lasting, cause=("loader",), strays=2)

    size = draw.choice([16, 32])
    rank, by = one(size), draw.uniform(1.15, 1.25)
    job = made(size, slow={rank: by})
    yield Case("tensor_rank", job, Planted.tensor, who=frozenset({rank}), us=(by - 1) * 7_440, cause=("slow_gpu",))

    programs = ("ddp", "fsdp", "two_level", "pipeline", "tensor", "launching")
    for number in range(20):
        size = draw.choice([8, 16, 32])
        program = programs[number % len(programs)]
        if program == "two_level":
            size = 32
        how: dict[str, Any] = {}
        if number % 4 == 1:
            how["cut"] = {one(size): draw.uniform(0.35, 0.65)}
        if number % 4 == 3:
            how["beside"] = {one(size): 1.13}
        job = made(size, **how)
        yield Case(
            f"even_{number}_{program}{''.join('_' + key for key in how)}", job, getattr(Planted, program), even=True
        )


@dataclass
class Said:
    """What is said of a job."""

    who: frozenset[int]
    us: float | None
    causes: tuple[str, ...]
    words: tuple[str, ...]


def said(case: Case, folder: Path) -> Said:
    """What the program says of the job when its folder is opened."""
    from concurrent.futures import ThreadPoolExecutor

    import polars as pl

    from tracetui.analysis.findings.declared.jobs import S24, S26
    from tracetui.analysis.ranks.files.reading import read
    from tracetui.analysis.ranks.job import jobs, uneven_all_to_all
    from tracetui.analysis.ranks.sentences import answer
    from tracetui.parsers.runs.opening import find_ranks

    case.run()
    case.job.write(folder)
    for number in range(case.strays):
        content = (folder / f"rank{number}.pt.trace.json").read_bytes()
        (folder / (f"rank{number}.pt.trace (1).json" if number else "old_rank0.json")).write_bytes(content)
    files, _ = find_ranks(str(folder))
    with ThreadPoolExecutor(1) as here:
        told = read(files, None, executor=here)
    for rank, _, why in told.problems:
        print(f"rank {rank}: {why.splitlines()[0]}")
    found = jobs(told.ranks)
    job = found[0]
    late, turns = job.answers.program, job.answers.turns
    causes = {one.cause.kind for one in late if one.cause is not None}
    who, us = {one.rank for one in late}, late[0].named_ns / 1e3 if late else None
    last = job.answers.recording
    if last is not None and last.cause is not None and last.cause.kind == "calls":
        who, causes = who | {last.rank}, causes | {"calls"}
        made = job.lost_by_rank.filter((pl.col("rank") == last.rank) & (pl.col("cause") == "calls"))
        us = made["lost_ns"].sum() / 1e3
    if case.kind == "link" and job.links.height:
        # a pair may be slow in both directions
        told_of = {frozenset(ranks) for ranks in job.links["ranks"].to_list()}
        who |= {rank for one in told_of for rank in one}
        us, causes = job.links["more_ns"].sum() / 1e3, causes | {"link"}
    if case.kind == "stage":
        stages = job.pipeline.sort("own_gpu_ns", descending=True)
        most, mean = stages["own_gpu_ns"][0], stages["own_gpu_ns"].mean()
        if 100 * (most - mean) / most >= S26.thresholds["uneven_percent"].value:
            who, causes = who | {stages["stage"][0]}, {"stage"}
    if case.kind == "uneven":
        uneven = uneven_all_to_all(job)
        if uneven is not None and uneven.percent >= S24.thresholds["uneven_percent"].value:
            causes.add("uneven")
    if turns is not None:  # nobody is named by himself
        causes.add("pause" if turns.part == "silent" else turns.part)
        us = turns.lost_ns / 1e3
    return Said(frozenset(who), us, tuple(sorted(causes)), tuple(answer(found)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", help="cases whose names begin so")
    parser.add_argument("--keep", type=Path, help="where the files stay; by default they don't")
    parser.add_argument("--words", action="store_true", help="print what is said, too")
    given = parser.parse_args()
    right: dict[str, list[bool]] = defaultdict(list)
    for case in cases(given.seed):
        if given.only and not case.name.startswith(tuple(given.only)):
            continue
        began = time.process_time()
        with tempfile.TemporaryDirectory() as made:
            folder = (given.keep or Path(made)) / case.name
            folder.mkdir(parents=True)
            told = said(case, folder)
        # of ranks that are hot in some layer any may be named
        same = told.who <= case.who if case.kind == "uneven" else told.who == case.who
        who = same and (case.kind == "turns") == ("pause" in told.causes and not told.who)
        right["even" if case.even else "who"].append(who)
        much = case.us is None or (told.us is not None and abs(told.us - case.us) <= 0.25 * case.us)
        why = not case.cause or bool(set(case.cause) & set(told.causes))
        if not case.even:
            right["how much"].append(who and much)
            right["why"].append(who and why)
        marks = "".join(letter if good else "-" for letter, good in zip("wmc", (who, much, why), strict=True))
        print(
            f"{marks} {case.name:24} {case.job.size:3} ranks  planted {sorted(case.who)} {case.us or 0:9,.0f} us"
            f"  said {sorted(told.who)} {told.us or 0:9,.0f} us {', '.join(told.causes)}"
            f"  ({time.process_time() - began:.1f} s)",
            flush=True,
        )
        if given.words:
            print(*(f"      {text}" for text in told.words), sep="\n")
    print(*(f"{name} {sum(found)}/{len(found)}" for name, found in right.items()), sep=", ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
