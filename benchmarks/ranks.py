"""Measures `tracetui ranks` on a generated job of many ranks: cost per rank, memory, reopening, scaling.

    python benchmarks/ranks.py --ranks 1024 --folder /tmp/job --seconds-limit 230

The ranks are one real recording of about 20 MB again and again, each with its own rank, a clock that is shifted per
host, and rank 3 computing longer; one rank is missing and one is truncated. The recordings stay in the folder, and are
made only once, by as many processes as there are cores.

Each figure is a row of one table and printed as soon as it is known. When the time is over, what still runs is ended
and what was not measured is said; a median of fewer repeats than asked for says so.
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isal import igzip

if TYPE_CHECKING:
    from collections.abc import Callable

PLAIN_BYTES = 20_000_000
RANKS_PER_HOST = 8
LATE, LATE_FACTOR = 3, 1.5
"""This rank's kernels take so many times as long."""
MISSING, TRUNCATED = 5, 6
"""Counted from the last rank."""


# --- the job


class OutOfTime(Exception):  # noqa: N818  no error: the rest is left out
    """The time for all measurements is over."""


class Clock:
    """How much time is left."""

    def __init__(self, seconds: float | None) -> None:
        self.whole = seconds or 0.0
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float | None:
        """Seconds; None without a limit."""
        return None if self._end is None else self._end - time.monotonic()

    def check(self, needed: float = 0.0) -> None:
        """Raises `OutOfTime` where less time is left than needed."""
        if (left := self.left) is not None and left <= needed:
            raise OutOfTime


def make_job(source: Path, folder: Path, ranks: int, plain_bytes: int, clock: Clock, processes: int) -> int:
    """Writes the recordings that are not there yet, ascending; returns how many ranks there are then."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [number for number in range(ranks) if number != ranks - MISSING]
    missing = [number for number in wanted if not rank_file(folder, number).exists()]
    if not missing:
        return ranks
    given = source, folder, ranks, plain_bytes
    with ProcessPoolExecutor(
        processes, multiprocessing.get_context("spawn"), initializer=_prepare, initargs=given
    ) as pool:
        for made, _ in enumerate(pool.map(_write, missing), 1):
            # half of the time is for the measurements
            if clock.left is not None and clock.left < clock.whole / 2:
                pool.shutdown(cancel_futures=True)
                return missing[made - 1] + 1
    return ranks


_job: dict[str, Any] = {}
"""In a process that makes recordings: what they are made from."""


def _prepare(source: Path, folder: Path, ranks: int, plain_bytes: int) -> None:
    _job.update(folder=folder, ranks=ranks, document=grown(json.loads(plain(source.read_bytes())), plain_bytes))


def _write(number: int) -> None:
    path, ranks = rank_file(_job["folder"], number), _job["ranks"]
    content = igzip.compress(text_of(_job["document"], number, ranks), 1)
    part = path.with_suffix(f".{os.getpid()}")
    part.write_bytes(content[: len(content) // 2] if number == ranks - TRUNCATED else content)
    part.rename(path)


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


def spent_in(code: str, arguments: list[str], cpus: set[int], clock: Clock, **more: str) -> tuple[float, float, str]:
    """Runs Python code on some cores: wall time, processor time of all its processes, and what it wrote on stderr.

    Raises:
        OutOfTime: it did not end in the time that is left; it and its processes were ended.
    """
    clock.check()
    began, before = time.perf_counter(), os.times()
    run = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **more},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cpus),
    )
    try:
        _, told = run.communicate(timeout=clock.left)
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
        raise OutOfTime from None
    if run.returncode:
        raise SystemExit(told)
    after = os.times()
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    return time.perf_counter() - began, cpu, told


def measured(arguments: list[str], cpus: set[int], cache: Path, clock: Clock) -> dict[str, float]:
    """Runs `tracetui`: wall time, processor time of all its processes, and the peak memory of parent and worker."""
    code = "import sys; from tracetui.app.cli.main import main; code = main(sys.argv[1:]); " + _PEAK
    wall, cpu, told = spent_in(code, arguments, cpus, clock, TRACETUI_CACHE_DIR=str(cache))
    parent, worker = map(int, told.rsplit("peak ", 1)[1].split())
    return {"s": wall, "cpu_s": cpu, "parent_mb": parent / 1024, "worker_mb": worker / 1024}


_PEAK = (
    "import resource; own, children = (resource.getrusage(of).ru_maxrss for of in (0, -1)); "
    "print('peak', own, children, file=sys.stderr); sys.exit(code)"
)


def readers_beside(files: list[Path], cpus: list[int], clock: Clock) -> float:
    """Wall time of two processes that share nothing, each pinned to its core, reading half of the files each.

    What two cores of this machine give over one, whatever `tracetui ranks` does: cores of a virtual machine are often
    two threads of one.
    """
    with ThreadPoolExecutor(2) as both:
        halves = (files[0::2], files[1::2])
        taken = both.map(lambda half, cpu: reader_alone(half, {cpu}, clock)[0], halves, cpus)
        return max(taken)


def reader_alone(files: list[Path], cpus: set[int], clock: Clock) -> tuple[float, float]:
    """Wall and CPU time of reading the same files one after another, with the reader's own threads."""
    code = (
        "import sys, time; from pathlib import Path; from tracetui.parsers import open_path, TraceError\n"
        "began = time.perf_counter()\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n        open_path(Path(path), cache=False)\n"
        "    except TraceError:\n        pass\n"
        "print(time.perf_counter() - began, time.process_time(), file=sys.stderr)"
    )
    _, _, told = spent_in(code, [str(file) for file in files], cpus, clock)
    wall, cpu = map(float, told.split()[-2:])
    return wall, cpu


def opened_and_combined(folder: Path, cpus: set[int], clock: Clock) -> tuple[float, float, float]:
    """Processor seconds of opening a folder of summaries and of combining them, and their peak memory in MB."""
    code = (
        "import resource, sys, time; from pathlib import Path\n"
        "from tracetui.analysis.ranks.files.reading import of_store\n"
        "from tracetui.analysis.ranks.files.store import Store\n"
        "from tracetui.analysis.ranks.job import combine\n"
        "began = time.process_time(); found = of_store(Store(Path(sys.argv[1]))).ranks\n"
        "read = time.process_time(); combine(found)\n"
        "print(read - began, time.process_time() - read, resource.getrusage(0).ru_maxrss / 1024, file=sys.stderr)"
    )
    _, _, told = spent_in(code, [str(folder)], cpus, clock)
    opening, combining, peak = map(float, told.split()[-3:])
    return opening, combining, peak


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


def row(what: str, value: str, goal: str = "") -> None:
    """Prints a row of the table."""
    print(f"| {what} | {value} | {goal} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=128)
    parser.add_argument(
        "--source", type=Path, help="a rank's recording by torch.profiler (default: of the shared ones)"
    )
    parser.add_argument("--folder", type=Path, required=True, help="where the job is made")
    parser.add_argument("--plain-bytes", type=int, default=PLAIN_BYTES)
    parser.add_argument("--sizes", type=int, nargs="*", default=[64, 256, 1024], help="jobs of so many of the ranks")
    parser.add_argument("--scaling-ranks", type=int, default=16, help="how many of them the pinned runs read")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--jobs", type=int, help="processes that make and read whole jobs (default: one per core)")
    parser.add_argument("--seconds-limit", type=float, help="ends after this time, with what is known then")
    parser.add_argument("--hta", metavar="PYTHON", help="a Python that has HolisticTraceAnalysis")
    parser.add_argument("--hta-ranks", type=int, nargs="*", default=[8, 32, 64])
    given = parser.parse_args()
    clock = Clock(given.seconds_limit)
    source = given.source or next((path for path in SOURCES if path.exists()), None)
    if source is None:
        parser.error("no recording to make ranks of: name one with --source")
    cpus = sorted(os.sched_getaffinity(0))
    jobs = given.jobs or len(cpus)
    system = f"{len(cpus)} cores, Python {platform.python_version()}"
    print(f"| {system} | measured | goal |\n|---|--:|--:|", flush=True)
    began = time.perf_counter()
    ranks = make_job(source, given.folder, given.ranks, given.plain_bytes, clock, jobs)
    files = [file for number in range(ranks) if (file := rank_file(given.folder, number)).exists()]
    disk = sum(file.stat().st_size for file in files)
    row(
        f"recordings of {given.plain_bytes / 1e6:.0f} MB plain: {len(files)}, {disk / 1e6:,.0f} MB on disk",
        f"{time.perf_counter() - began:.1f} s",
    )
    sizes = sorted({size for size in given.sizes if size < ranks} | {ranks})
    _as_far_as_time_allows("whole jobs", lambda: whole_jobs(given, sizes, set(cpus), jobs, clock))
    _as_far_as_time_allows("scaling", lambda: scaling(given, files, apart(cpus), clock))
    _as_far_as_time_allows("HolisticTraceAnalysis", lambda: beside_hta(given, clock))


def _as_far_as_time_allows(name: str, measure: Callable[[], None]) -> None:
    try:
        measure()
    except OutOfTime:
        row(f"{name}: the rest was not measured", "out of time")


SOURCES = [
    folder / "data" / "chrome" / "ddp_vit_small_2ranks" / "rank0.pt.trace.json.gz"
    for folder in (Path(__file__).resolve().parents[2] / "shared", Path(__file__).resolve().parents[1] / "shared")
]


def apart(cpus: list[int]) -> list[int]:
    """Two cores that disturb each other least; the first two where there are no others.

    Virtual machines hide which of their cores are two threads of one, so some are tried.
    """
    others = [cpu for cpu in cpus[1:] if cpu not in siblings(cpus[0])] or cpus[1:]
    tried = dict.fromkeys(others[place] for place in (0, len(others) // 2, -1)) if others else {}
    return [cpus[0], max(tried, key=lambda other: sum(_loops(cpus[0], other)))] if tried else cpus


def _loops(*cpus: int) -> list[int]:
    """How far a loop gets on each of these cores in the same half second."""
    code = (
        "import os, sys, time; os.sched_setaffinity(0, {int(sys.argv[1])}); count = 0; begin = float(sys.argv[2])\n"
        "while time.time() < begin: pass\n"
        "while time.time() < begin + 0.5: count += 1\n"
        "print(count)"
    )
    begin = str(time.time() + 0.3)
    runs = [subprocess.Popen([sys.executable, "-c", code, str(cpu), begin], stdout=subprocess.PIPE) for cpu in cpus]
    return [int(run.communicate()[0]) for run in runs]


def siblings(cpu: int) -> set[int]:
    """The processors that share a core with this one."""
    path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    found: set[int] = {cpu}
    try:
        for part in path.read_text().strip().split(","):
            low, _, high = part.partition("-")
            found |= set(range(int(low), int(high or low) + 1))
    except (OSError, ValueError):
        pass
    return found


def scaling(given: argparse.Namespace, files: list[Path], cpus: list[int], clock: Clock) -> None:
    """One pinned process, two on two cores, and the reader alone, on the same files: medians."""
    part = given.folder.with_name(f"{given.folder.name}-{given.scaling_ranks}")
    part.mkdir(exist_ok=True)
    for file in files[: given.scaling_ranks]:
        if not (part / file.name).exists():
            os.link(file, part / file.name)
    chosen, taken = sorted(part.iterdir()), dict[str, list[tuple[float, float]]]()
    longest, beside = 0.0, list[float]()
    try:
        for _ in range(given.repeats):
            # a repeat is whole or not begun, so that medians are of the same moments
            clock.check(1.1 * longest)
            began, once = time.perf_counter(), dict[str, tuple[float, float]]()
            for name, jobs, on in (("one pinned", 1, cpus[:1]), ("two on two", 2, cpus)):
                found = measured(["ranks", str(part), "--no-cache", "--jobs", str(jobs)], set(on), part, clock)
                once[name] = found["s"], found["cpu_s"]
            once["reader pinned"] = reader_alone(chosen, set(cpus[:1]), clock)
            once["reader on two cores"] = reader_alone(chosen, set(cpus), clock)
            beside.append(once["reader pinned"][0] / readers_beside(chosen, cpus, clock) / 2)
            longest = max(longest, time.perf_counter() - began)
            for name, both in once.items():
                taken.setdefault(name, []).append(both)
    except OutOfTime:
        row("scaling", f"{len(taken.get('one pinned', []))} of {given.repeats} repeats in time")
    if not taken:
        return
    middle = {name: statistics.median(seconds for seconds, _ in values) for name, values in taken.items()}
    spent = {name: statistics.median(cpu for _, cpu in values) for name, values in taken.items()}
    repeats = len(taken["one pinned"])
    for name, seconds in middle.items():
        per_rank = 1000 * spent[name] / len(chosen)
        row(
            f"{name}, {len(chosen)} ranks, cores {cpus}, median of {repeats}",
            f"{seconds:.2f} s, {per_rank:.0f} ms of CPU per rank",
        )
    efficiency = [one / two / 2 for (one, _), (two, _) in zip(taken["one pinned"], taken["two on two"], strict=True)]
    row("CPU time of two processes over that of one", f"{spent['two on two'] / spent['one pinned']:.2f}")
    row(
        f"two on two cores, of twice one pinned: median of {repeats} (least, most)",
        f"{statistics.median(efficiency):.2f} ({min(efficiency):.2f}, {max(efficiency):.2f})",
        "at least 0.85",
    )
    row(
        f"two readers that share nothing, one on each of these cores, of twice one: median of {len(beside)}",
        f"{statistics.median(beside):.2f} ({min(beside):.2f}, {max(beside):.2f})",
        "what the machine gives",
    )
    row("summaries over the reader alone, on two cores", f"{middle['two on two'] / middle['reader on two cores']:.2f}")


def whole_jobs(given: argparse.Namespace, sizes: list[int], cpus: set[int], jobs: int, clock: Clock) -> None:
    """Jobs of ascending size, then the largest again from its summaries, with the recordings and without."""
    cache, out = given.folder.with_name(f"{given.folder.name}-cache"), Path()
    for size in sizes:
        folder = _first(given.folder, size)
        out = given.folder.with_name(f"{given.folder.name}-summaries-{size}")
        for file in out.glob("*"):
            file.unlink()
        arguments = ["ranks", str(folder), "--no-cache", "--jobs", str(jobs), "--into", str(out)]
        found = measured(arguments, cpus, cache, clock)
        row(
            f"{size} ranks by {jobs} processes",
            f"{found['s']:.1f} s, {1000 * found['cpu_s'] / size:.0f} ms of CPU per rank",
            "the same per rank",
        )
        row(
            f"{size} ranks: peak of the parent, of the largest worker",
            f"{found['parent_mb']:.0f} MB, {found['worker_mb']:.0f} MB",
            "parent under 400 MB",
        )
        written = sum(file.stat().st_size for file in out.iterdir())
        opening, combining, peak = opened_and_combined(out, cpus, clock)
        row(f"{size} summaries, {written / size / 1e3:.1f} KB each: open", f"{opening:.2f} s of CPU", "under 1.5 s")
        row(f"{size} summaries: combine; peak of both", f"{combining:.2f} s of CPU; {peak:.0f} MB")
    again = measured(
        ["ranks", str(_first(given.folder, sizes[-1])), "--no-cache", "--into", str(out)], cpus, cache, clock
    )
    row(f"{sizes[-1]} ranks again, all summaries at hand", f"{again['s']:.2f} s, parent {again['parent_mb']:.0f} MB")
    opened = measured(["open", str(out)], cpus, cache, clock)
    row(f"`tracetui open` of {sizes[-1]} summaries", f"{opened['s']:.2f} s, {opened['parent_mb']:.0f} MB")


def _first(folder: Path, size: int) -> Path:
    """A folder of the first ranks of a job, which takes no room."""
    part = folder.with_name(f"{folder.name}-first-{size}")
    part.mkdir(exist_ok=True)
    for number in range(size):
        file = rank_file(folder, number)
        if file.exists() and not (part / file.name).exists():
            os.link(file, part / file.name)
    return part


def beside_hta(given: argparse.Namespace, clock: Clock) -> None:
    """HolisticTraceAnalysis on some of the ranks."""
    for ranks in given.hta_ranks if given.hta else ():
        clock.check()
        found = hta(given.hta, given.folder, ranks)
        row(f"HolisticTraceAnalysis, {ranks} ranks", ", ".join(f"{name} {value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
