"""Measures `tracetui ranks` on a generated job of many ranks: scaling, memory, reopening, cost per rank.

    python benchmarks/ranks.py --ranks 1024 --source rank0.pt.trace.json.gz --folder /tmp/job

The ranks are one real recording of about 20 MB again and again, each with its own rank, a clock that is shifted per
host, and rank 3 computing longer; one rank is missing and one is truncated. The recordings stay in the folder, and are
made only once.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from isal import igzip

PLAIN_BYTES = 20_000_000
RANKS_PER_HOST = 8
LATE, LATE_FACTOR = 3, 1.5
"""This rank's kernels take so many times as long."""
MISSING, TRUNCATED = 5, 6
"""Counted from the last rank."""


# --- the job


def make_job(source: Path, folder: Path, ranks: int, plain_bytes: int) -> None:
    """Writes the recordings that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    document = grown(json.loads(plain(source.read_bytes())), plain_bytes)
    for number in range(ranks):
        path = rank_file(folder, number)
        if number == ranks - MISSING or path.exists():
            continue
        content = igzip.compress(text_of(document, number, ranks), 1)
        path.write_bytes(content[: len(content) // 2] if number == ranks - TRUNCATED else content)


def plain(content: bytes) -> bytes:
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def rank_file(folder: Path, number: int) -> Path:
    return folder / f"rank{number}.pt.trace.json.gz"


def grown(document: dict[str, Any], plain_bytes: int) -> dict[str, Any]:
    """The recording with its operators and ranges again on other threads, until it is large enough.

    Steps, kernels and collectives stay what they were.
    """
    events = document["traceEvents"]
    again = [event for event in events if event.get("cat") in ("cpu_op", "user_annotation") and _may_repeat(event)]
    size = len(json.dumps(again))
    copies = max(0, round((plain_bytes - len(json.dumps(document))) / max(size, 1)))
    for number in range(copies):
        events += [{**event, "tid": f"1000{number}"} for event in again]
    return document


def _may_repeat(event: dict[str, Any]) -> bool:
    return not event["name"].startswith(("ProfilerStep", "nccl", "record_param"))


def text_of(document: dict[str, Any], number: int, ranks: int) -> bytes:
    """One rank's file: its rank, the clock of its host, and longer kernels of the late one."""
    own = {
        "distributedInfo": {**document.get("distributedInfo", {}), "rank": number, "world_size": ranks},
        "baseTimeNanoseconds": document.get("baseTimeNanoseconds", 0) + number // RANKS_PER_HOST % 17 * 137_000,
    }
    return json.dumps(own).encode()[:-1] + b", " + _rest_of(document, tuple(own), late=number == LATE)


_rest: dict[bool, bytes] = {}


def _rest_of(document: dict[str, Any], own: tuple[str, ...], *, late: bool) -> bytes:
    """The text of what all ranks share, which is made once."""
    if late not in _rest:
        shared = {key: value for key, value in document.items() if key not in own}
        if late:
            shared["traceEvents"] = [_longer(event) for event in shared["traceEvents"]]
        events = shared.pop("traceEvents")
        listed = ",\n".join(f"  {{\n    {_lines(event)}\n  }}" for event in events)  # laid out as Kineto does
        _rest[late] = f'{json.dumps(shared)[1:-1]},\n  "traceEvents": [\n{listed}\n  ]\n}}\n'.encode()
    return _rest[late]


def _lines(event: dict[str, Any]) -> str:
    return json.dumps(event, separators=(",\n    ", ": "))[1:-1]


def _longer(event: dict[str, Any]) -> dict[str, Any]:
    if event.get("cat") != "kernel" or "nccl" in event["name"]:
        return event
    return {**event, "dur": round(event["dur"] * LATE_FACTOR, 3)}


# --- the measurements


def measured(arguments: list[str], cpus: set[int], cache: Path) -> dict[str, float]:
    """Runs `tracetui` and returns wall time, processor time of all its processes, and the parent's peak memory."""
    environment = {**os.environ, "TRACETUI_CACHE_DIR": str(cache)}
    code = "import sys; from tracetui.app.cli.main import main; code = main(sys.argv[1:]); " + _PEAK
    began = time.perf_counter()
    before = os.times()
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        preexec_fn=lambda: os.sched_setaffinity(0, cpus),
    )
    if run.returncode:
        raise SystemExit(run.stderr)
    after = os.times()
    spent = after.children_user - before.children_user + after.children_system - before.children_system
    peak = int(run.stderr.rsplit("peak ", 1)[1])
    return {"s": time.perf_counter() - began, "cpu_s": spent, "parent_mb": peak / 1024}


_PEAK = (
    "import resource; print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr); "
    "sys.exit(code)"
)


def reader_alone(files: list[Path], cpus: set[int]) -> tuple[float, float]:
    """Wall and CPU time of reading the same files one after another, with the reader's own threads."""
    code = (
        "import sys, time; from pathlib import Path; from tracetui.parsers import open_path, TraceError\n"
        "began = time.perf_counter()\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n        open_path(Path(path), cache=False)\n"
        "    except TraceError:\n        pass\n"
        "print(time.perf_counter() - began, time.process_time())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, *map(str, files)],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cpus),
    )
    wall, cpu = map(float, run.stdout.split())
    return wall, cpu


def hta(python: str, folder: Path, ranks: int) -> dict[str, float | str]:
    """HolisticTraceAnalysis on the first ranks of the job: its reading, and one answer."""
    code = (
        "import sys, time, resource, warnings; warnings.simplefilter('ignore')\n"
        "from hta.trace_analysis import TraceAnalysis\n"
        "files = dict(enumerate(sys.argv[1:]))\n"
        "began = time.perf_counter(); analysis = TraceAnalysis(trace_files=files, trace_dir='/')\n"
        "analysis.get_temporal_breakdown(visualize=False)\n"
        "own, children = (resource.getrusage(of).ru_maxrss for of in (0, -1))\n"  # itself, its largest child
        "print('took', time.perf_counter() - began, own, children)"
    )
    files = [str(rank_file(folder, number).absolute()) for number in range(ranks)]
    before = os.times()
    run = subprocess.run([python, "-c", code, *files], capture_output=True, text=True, check=False)
    after = os.times()
    if run.returncode:
        return {"failed": run.stderr.strip().splitlines()[-1]}
    took, own, children = run.stdout.rsplit("took ", 1)[1].split()
    spent = after.children_user - before.children_user + after.children_system - before.children_system
    return {"s": float(took), "cpu_s": spent, "parent_mb": int(own) / 1024, "largest_child_mb": int(children) / 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=128)
    parser.add_argument("--source", type=Path, required=True, help="a rank's recording by torch.profiler")
    parser.add_argument("--folder", type=Path, required=True, help="where the job is made")
    parser.add_argument("--plain-bytes", type=int, default=PLAIN_BYTES)
    parser.add_argument("--scaling-ranks", type=int, default=32, help="how many of them the pinned runs read")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--hta", metavar="PYTHON", help="a Python that has HolisticTraceAnalysis")
    parser.add_argument("--hta-ranks", type=int, nargs="*", default=[8, 32, 64])
    given = parser.parse_args()
    make_job(given.source, given.folder, given.ranks, given.plain_bytes)
    files = [file for number in range(given.ranks) if (file := rank_file(given.folder, number)).exists()]
    disk = sum(file.stat().st_size for file in files)
    print(f"{len(files)} recordings of {given.plain_bytes / 1e6:.0f} MB plain, {disk / 1e6:,.0f} MB on disk")
    cpus = sorted(os.sched_getaffinity(0))
    scaling(given, files, cpus)
    whole_job(given, set(cpus))
    for ranks in given.hta_ranks if given.hta else ():
        print(f"HolisticTraceAnalysis, {ranks} ranks: {hta(given.hta, given.folder, ranks)}")


def scaling(given: argparse.Namespace, files: list[Path], cpus: list[int]) -> None:
    """One pinned process, two on two cores, and the reader alone, on the same files: medians."""
    part = given.folder.with_name(f"{given.folder.name}-{given.scaling_ranks}")
    part.mkdir(exist_ok=True)
    for file in files[: given.scaling_ranks]:
        if not (part / file.name).exists():
            os.link(file, part / file.name)
    chosen, taken = sorted(part.iterdir()), dict[str, list[tuple[float, float]]]()
    for _ in range(given.repeats):
        for name, jobs, on in (("one pinned", 1, cpus[:1]), ("two on two", 2, cpus[:2])):
            found = measured(["ranks", str(part), "--no-cache", "--jobs", str(jobs)], set(on), part)
            taken.setdefault(name, []).append((found["s"], found["cpu_s"]))
        taken.setdefault("reader pinned", []).append(reader_alone(chosen, set(cpus[:1])))
        taken.setdefault("reader on two cores", []).append(reader_alone(chosen, set(cpus[:2])))
    middle = {name: statistics.median(seconds for seconds, _ in values) for name, values in taken.items()}
    spent = {name: statistics.median(cpu for _, cpu in values) for name, values in taken.items()}
    for name, seconds in middle.items():
        per_rank = 1000 * spent[name] / len(chosen)
        print(f"{name}: {seconds:.2f} s ({len(chosen)} ranks), {per_rank:.0f} ms of CPU per rank")
    print(f"two processes spend {spent['two on two'] / spent['one pinned']:.2f} of the CPU time of one")
    print(f"two on two cores do {middle['one pinned'] / middle['two on two'] / 2:.2f} of twice what one pinned does")
    print(f"summaries on two cores take {middle['two on two'] / middle['reader on two cores']:.2f} of the reader alone")


def whole_job(given: argparse.Namespace, cpus: set[int]) -> None:
    """All ranks, then the same again from their summaries, with the recordings and without."""
    out = given.folder.with_name(f"{given.folder.name}-summaries")
    for file in out.glob("*"):
        file.unlink()
    cache = given.folder.with_name(f"{given.folder.name}-cache")
    first = measured(["ranks", str(given.folder), "--no-cache", "--into", str(out)], cpus, cache)
    size = sum(file.stat().st_size for file in out.iterdir())
    print(f"whole job: {first['s']:.1f} s, {first['cpu_s']:.1f} s of CPU, parent {first['parent_mb']:.0f} MB")
    print(f"summaries: {size / 1e6:.1f} MB, {size / given.ranks / 1e3:.1f} KB per rank")
    again = measured(["ranks", str(given.folder), "--no-cache", "--into", str(out)], cpus, cache)
    print(f"again: {again['s']:.2f} s, parent {again['parent_mb']:.0f} MB")
    opened = measured(["open", str(out)], cpus, cache)
    print(f"open the summaries: {opened['s']:.2f} s, parent {opened['parent_mb']:.0f} MB")


if __name__ == "__main__":
    main()
