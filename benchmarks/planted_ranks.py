"""Forty simulated jobs, twenty with a planted cause and twenty even ones: who is named, how much, and why.

    python benchmarks/planted_ranks.py make --seed 3 FOLDER   # the jobs, and what is true of them in FOLDER/truth.json
    python benchmarks/planted_ranks.py look FOLDER [--words]  # what is said of them, beside it, as one table

The truth is written before anything is said: ranks and sizes are drawn, what a plant took is counted by the simulation
(`tests/simulated_job.py`), what it cost is how much longer the job took than without it.
"""

import argparse
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from simulated_job import (
    LOADER,
    PER_NODE,
    Job,
    Program,
    ddp,
    experts,
    fsdp,
    launching,
    pipeline,
    tensor,
    two_level,
)  # fmt: skip


@dataclass
class Truth:
    """What is planted in a job, and what should be said of it."""

    name: str
    ranks: int
    who: list[int]
    """Ranks that are named; of a slow link its ring or its two ends, of a stage that."""
    cause: list[str]
    """What may be said."""
    named: str = ""
    """The range that is named with it."""
    kind: str = "late"
    """``late``, ``lost``, ``turns``, ``link``, ``stage`` or ``even``."""
    us: float = 0.0
    """Per step: what it took (``late``, ``link``), or cost (``lost``, ``turns``)."""
    lost_us: float = 0.0


@dataclass
class Case:
    """A job with its truth."""

    truth: Truth
    program: Program
    how: dict[str, Any] = field(default_factory=dict)
    strays: bool = False


def cases(seed: int) -> Iterator[Case]:
    """Twenty plants, then twenty even jobs."""
    draw = random.Random(f"plants {seed}")
    between = draw.uniform

    def planted(name: str, program: Program, sizes: tuple[int, ...], cause: str, count: int = 1) -> tuple[Truth, int]:
        del program
        size = draw.choice(sizes)
        return Truth(name, size, sorted(draw.sample(range(size), count)), cause.split()), size

    small, many = (8, 16, 32), (8, 16, 32, 64)

    truth, _ = planted("slow_gpu", ddp, many, "slow_gpu")
    yield Case(truth, ddp, {"slow": {truth.who[0]: between(1.06, 1.25)}})

    truth, _ = planted("slightly_slow_gpu", ddp, small, "slow_gpu")
    yield Case(truth, ddp, {"slow": {truth.who[0]: between(1.04, 1.06)}})

    truth, _ = planted("throttled", ddp, small, "slow_gpu")
    steps = draw.sample(range(6), draw.choice([1, 2, 3]))
    yield Case(truth, ddp, {"throttled": {(truth.who[0], step): between(1.4, 1.9) for step in steps}})

    truth, size = planted("turns", ddp, (16, 32, 64), "pause", 0)
    truth.kind, lasting = "turns", between(20e3, 60e3)
    # several stop in the same step
    yield Case(truth, ddp, {"pauses": {(rank, draw.randrange(6)): lasting for rank in range(size)}})

    truth, _ = planted("load_batch", ddp, small, "host")
    truth.named, layers = "load_batch", draw.choice([16, 32, 64])
    program = partial(ddp, layers=layers, forward=4160 / layers, bucket=(256 << 20) // layers)
    yield Case(truth, program, {"sleeps": {truth.who[0]: ("load_batch", between(3e3, 15e3))}})

    truth, _ = planted("slow_gpu_fsdp", fsdp, small, "slow_gpu")
    yield Case(truth, fsdp, {"slow": {truth.who[0]: between(1.08, 1.25)}})

    size, at = draw.choice([32, 64]), draw.randrange(PER_NODE)
    node, ring = draw.randrange(size // PER_NODE), list(range(at, size, PER_NODE))
    pair = (ring[node], ring[(node + 1) % len(ring)])
    yield Case(Truth("slow_adapter", size, ring, ["link"], kind="link"), two_level, {"links": {pair: between(3, 8)}})

    size, stage, way = draw.choice([8, 16, 32]), draw.randrange(3), draw.choice([1, -1])
    replica = draw.randrange(size // 4)
    ends = [at * size // 4 + replica for at in (stage, stage + 1)][::way]
    truth = Truth("slow_pair", size, sorted(ends), ["link"], kind="link")
    yield Case(truth, pipeline, {"links": {(ends[0], ends[1]): between(8, 20)}})

    truth, size = planted("extra_beside_a_cut", ddp, (8, 16), "gpu_work")
    truth.named = "metrics"
    cut = draw.choice([rank for rank in range(size) if rank not in truth.who])
    yield Case(truth, ddp, {"extra": {truth.who[0]: between(3e3, 12e3)}, "cut": {cut: between(0.35, 0.7)}})

    size, stage, by = draw.choice([8, 16, 32]), draw.randrange(4), between(1.4, 1.9)
    truth = Truth("slow_stage", size, [stage], ["stage"], kind="stage")
    yield Case(truth, partial(pipeline, factors={stage: by}))

    truth, _ = planted("slow_gpu_pipeline", pipeline, (16, 32), "slow_gpu")
    yield Case(truth, pipeline, {"slow": {truth.who[0]: between(1.15, 1.4)}})

    truth, size = planted("hot_expert", ddp, (8, 16, 32), "larger gpu_work")
    by = between(1.5, 2.2)
    loads = [by if rank in truth.who else 1 - (by - 1) / (size - 1) for rank in range(size)]
    truth.us = 6 * 600 * (by - 1 + (by - 1) / (size - 1))
    yield Case(truth, partial(experts, loads=lambda _: loads))

    size = draw.choice([16, 32])
    many_slow = draw.sample(range(size), round(between(0.55, 0.7) * size))
    truth = Truth("most_are_slower", size, sorted(many_slow), ["slow_gpu"])
    yield Case(truth, ddp, {"slow": dict.fromkeys(many_slow, between(1.12, 1.3))})

    truth, _ = planted("slow_cpu", launching, (8, 16), "calls")
    truth.kind = "lost"
    yield Case(truth, launching, {"slow_host": {truth.who[0]: between(1.5, 2.0)}})

    size = draw.choice([32, 64])
    node = draw.randrange(size // PER_NODE)
    members = list(range(node * PER_NODE, (node + 1) * PER_NODE))
    yield Case(
        Truth("slow_node", size, members, ["slow_gpu"]), ddp, {"slow": dict.fromkeys(members, between(1.08, 1.2))}
    )

    truth, _ = planted("two_causes", ddp, small, "slow_gpu host", 2)
    first, second = draw.sample(truth.who, 2)
    truth.named = "save_checkpoint"
    how = {"slow": {first: between(1.12, 1.3)}, "sleeps": {second: ("save_checkpoint", between(4e3, 9e3))}}
    yield Case(truth, ddp, how)

    truth, _ = planted("pause", ddp, many, "pause")
    yield Case(truth, ddp, {"pauses": {(truth.who[0], draw.randrange(6)): between(30e3, 90e3)}})

    truth, _ = planted("loader", ddp, (8, 16), "loader")
    yield Case(truth, ddp, {"sleeps": {truth.who[0]: (LOADER, between(4e3, 16e3))}}, strays=True)

    truth, _ = planted("slow_gpu_tensor", tensor, (8, 16, 32), "slow_gpu")
    yield Case(truth, tensor, {"slow": {truth.who[0]: between(1.1, 1.25)}})

    truth, _ = planted("larger_batch", ddp, small, "larger")
    yield Case(truth, ddp, {"loads": {truth.who[0]: between(1.2, 1.5)}})

    programs: tuple[tuple[Program, tuple[int, ...]], ...] = (
        (ddp, small), (fsdp, small), (two_level, (32, 64)), (pipeline, small), (tensor, small), (launching, (8, 16)),
        (partial(experts, loads=lambda _: [1.0] * 32), small),
    )  # fmt: skip
    for number in range(20):
        program, sizes = programs[number % len(programs)]
        size = draw.choice(sizes)
        how = {}
        if number % 3 == 1:
            how["cut"] = {draw.randrange(size): between(0.3, 0.8) for _ in range(draw.choice([1, 2]))}
        if number % 4 == 3:
            how["beside"] = {draw.randrange(size): 1.14}
        name = getattr(program, "__name__", "experts")
        yield Case(
            Truth(f"even_{number}_{name}{''.join('_' + key for key in how)}", size, [], [], kind="even"), program, how
        )


def make(seed: int, folder: Path, only: tuple[str, ...]) -> None:
    """Simulates the jobs, and writes what is true of them."""
    truths = []
    draw = random.Random(f"clocks {seed}")
    for number, case in enumerate(cases(seed)):
        truth, how = case.truth, dict(case.how)
        nodes = [(draw.uniform(-4e5, 4e5), draw.uniform(-40, 40)) for _ in range(0, truth.ranks, PER_NODE)]
        if draw.random() < 0.6:
            how["clocks"] = {rank: nodes[rank // PER_NODE] for rank in range(truth.ranks)}
        noise = draw.uniform(0.01, 0.03)
        if only and not truth.name.startswith(only):
            continue
        job = Job(truth.ranks, seed=1000 * seed + number, noise=noise, **how).run(case.program)
        if how.keys() & {"slow", "throttled", "slow_host", "extra", "sleeps", "pauses", "loads", "links"}:
            truth.lost_us = job.lost_us
        took = [us for key, us in job.planted.items() if us and (truth.kind == "link" or key in truth.who)]
        if truth.kind == "link":
            truth.us = sum(took) / job.steps
        elif truth.kind in ("lost", "turns"):
            truth.us = truth.lost_us
        elif took:
            truth.us = sum(took) / len(took) / job.steps
        target = folder / truth.name
        paths = job.write(target)
        job.write_hosts(target)
        if case.strays:
            for place, name in enumerate(("old_rank0.json", "rank1.pt.trace (1).json")):
                (target / name).write_bytes(paths[place].read_bytes())
        truths.append(asdict(truth))
        print(truth.name, flush=True)
    (folder / "truth.json").write_text(json.dumps(truths, indent=1))


@dataclass
class Said:
    """What is said of a job."""

    who: set[int]
    us: float | None
    causes: set[str]
    names: set[str]
    words: list[str]


def said(folder: Path, truth: Truth) -> Said:
    """What the program says of the recordings in a folder."""
    import polars as pl

    from tracetui.analysis.findings.declared.jobs import S26
    from tracetui.analysis.ranks.files.reading import read
    from tracetui.analysis.ranks.job import jobs
    from tracetui.analysis.ranks.sentences import answer
    from tracetui.parsers.runs.opening import find_ranks

    files, _ = find_ranks(str(folder))
    with ThreadPoolExecutor(1) as here:
        told = read(files, None, executor=here)
    found = jobs(told.ranks)
    job = found[0]
    late, turns, last = job.answers.program, job.answers.turns, job.answers.recording
    causes = {one.cause.kind for one in late if one.cause is not None}
    names = {one.cause.name for one in late if one.cause is not None and one.cause.name}
    who = {one.rank for one in late}
    us = sum(one.named_ns for one in late) / len(late) / 1e3 if late else None
    if last is not None and last.cause is not None and last.cause.kind == "calls":
        who, causes = who | {last.rank}, causes | {"calls"}
        made = job.lost_by_rank.filter((pl.col("rank") == last.rank) & (pl.col("cause") == "calls"))
        us = made["lost_ns"].sum() / 1e3
    if job.links.height:
        who |= {rank for ranks in job.links["ranks"].to_list() for rank in ranks}
        us, causes = job.links["more_ns"].sum() / 1e3, causes | {"link"}
    if truth.kind == "stage":
        stages = job.pipeline.sort("own_gpu_ns", descending=True)
        most, mean = stages["own_gpu_ns"][0], stages["own_gpu_ns"].mean()
        if 100 * (most - mean) / most >= S26.thresholds["uneven_percent"].value:
            who, causes = who | {stages["stage"][0]}, causes | {"stage"}
    if turns is not None:  # nobody is named by himself
        causes.add("pause" if turns.part == "silent" else turns.part)
        us = turns.lost_ns / 1e3
        who |= {-1} if truth.kind != "turns" else set()
    return Said(who, us, causes, names, list(answer(found)))


def look(folder: Path, only: tuple[str, ...], *, words: bool) -> None:
    """Prints what is said of each job beside what is true, and how often it is right."""
    right: dict[str, list[bool]] = defaultdict(list)
    for truth in [Truth(**one) for one in json.loads((folder / "truth.json").read_text())]:
        if only and not truth.name.startswith(only):
            continue
        began = time.process_time()
        told = said(folder / truth.name, truth)
        who = told.who == set(truth.who) and not (truth.kind == "even" and told.causes)
        much = not truth.us or (told.us is not None and abs(told.us - truth.us) <= 0.25 * truth.us)
        why = not truth.cause or (
            bool(set(truth.cause) & told.causes) and (not truth.named or truth.named in told.names)
        )
        if truth.kind == "even":
            right["even"].append(who)
        else:
            for name, good in (("who", who), ("how much", who and much), ("why", who and why)):
                right[name].append(good)
        marks = "".join(letter if good else "-" for letter, good in zip("wmc", (who, much, why), strict=True))
        print(
            f"{marks} {truth.name:28} {truth.ranks:3} ranks  planted {truth.who} {truth.us:8,.0f} us (lost"
            f" {truth.lost_us:,.0f})  said {sorted(told.who)} {told.us or 0:8,.0f} us"
            f" {', '.join(sorted(told.causes | told.names))} ({time.process_time() - began:.1f} s)",
            flush=True,
        )
        if words:
            print(*(f"      {text}" for text in told.words), sep="\n")
    print(*(f"{name} {sum(found)}/{len(found)}" for name, found in right.items()), sep=", ")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=["make", "look"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=(), help="cases whose names begin so")
    parser.add_argument("--words", action="store_true", help="print what is said, too")
    given = parser.parse_args()
    if given.do == "make":
        given.folder.mkdir(parents=True, exist_ok=True)
        make(given.seed, given.folder, tuple(given.only))
    else:
        look(given.folder, tuple(given.only), words=given.words)
    return 0


if __name__ == "__main__":
    sys.exit(main())
