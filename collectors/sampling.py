"""Samples the profiled program from outside with py-spy, while it runs steps for that (`child.sampling`).

py-spy reads the process's memory and changes nothing in it. Its form ``chrometrace`` has the time of each change of a
stack, so a sampler that is late makes fewer samples, not wrong ones.
"""

from __future__ import annotations

import contextlib
import json
import re
import sysconfig
import tempfile
import threading
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from tracetui.collectors import jobs, process
from tracetui.collectors.child.sampling import ANSWER, PHASE
from tracetui.collectors.folder import CHILD
from tracetui.collectors.machine.probe import Probe, find_tool
from tracetui.collectors.process import Tick
from tracetui.collectors.profiler_commands import MODELS, PROGRAM, START
from tracetui.collectors.request import ProfileRequest
from tracetui.parsers.runs import samples
from tracetui.parsers.runs.samples import SCHEMA, Frame, Samples, Stack, Stay, Thread

RATES_HZ = (500, 100)
"""How often it looks: the second where it can't keep up with the first."""
_LONGER_S = 60.0
"""It ends by itself so long after the most that was asked for."""
_BEGUN = re.compile(r"Sampling process")
_BEHIND = re.compile(r"behind in sampling")
_COUNTS = re.compile(r"Samples: (\d+) Errors: (\d+)")
CAP_SYS_PTRACE = 19


class _Ended(Exception):  # noqa: N818  no error
    """The sampler is to end."""


def why_not(request: ProfileRequest, probe: Probe) -> str | None:
    """Why a run gets no samples though it asks for them; None where it gets them or asks for none."""
    if "torch" not in request.tools or not request.sample_seconds or request.window is not None:
        return None
    if jobs.job_of(request) is not None:
        return "no samples: the job runs on several machines"
    if find(probe) is None:
        return "no samples: py-spy is not installed (pip install 'tracetui[lines]', or --sample-seconds 0)"
    scope = probe.number("proc/sys/kernel/yama/ptrace_scope") or 0
    if scope >= 3 or (scope == 2 and not probe.capabilities >> CAP_SYS_PTRACE & 1):
        return f"no samples: this machine lets no program look into another (kernel.yama.ptrace_scope is {scope})"
    return None


def find(probe: Probe) -> Path | None:
    """py-spy: the one that was installed with tracetui, else the first on PATH."""
    return find_tool(probe, "py-spy", sysconfig.get_path("scripts")) or find_tool(probe, "py-spy")


class Sampler:
    """Answers a child that waits to be sampled; ends with the run, however that ends."""

    def __init__(self, request: ProfileRequest, folder: Path) -> None:
        self._seconds = request.sample_seconds
        self._answer = folder / ANSWER
        self._folder = folder
        self._place = tempfile.TemporaryDirectory(prefix="tracetui-sampler-")
        self._output, self._log = (Path(self._place.name) / name for name in ("samples.json", "log.txt"))
        self._rates = list(RATES_HZ)
        self._rate = RATES_HZ[0]
        self._runs: threading.Thread | None = None
        self._ended = threading.Event()

    def look(self, state: Tick) -> None:
        """Does what the child's newest word asks for; called about ten times a second."""
        waits = state.phase == PHASE and bool(state.pid)
        if self._runs is None:
            if waits and state.pid and not self._answer.exists():
                self._start(state.pid, workers=state.workers)
            return
        if state.phase != PHASE or state.pid == 0:
            self._stop()
        elif not self._answer.exists():
            if _BEGUN.search(self._said()):
                self._say(rate_hz=self._rate)
            elif not self._runs.is_alive():
                self._stop()
                self._say(refused=self._problem())
        elif self._rates and _BEHIND.search(self._said()):
            self._stop()
            self._answer.unlink(missing_ok=True)  # the child asks again

    def close(self) -> None:
        """Ends the sampler if it still runs, and forgets what it wrote."""
        self._stop()
        self._answer.unlink(missing_ok=True)
        self._place.cleanup()

    def write(self, run_id: str, sampled: dict[str, Any]) -> str | None:
        """Writes the run's samples; returns one line if there are none.

        Args:
            run_id: of the run.
            sampled: what the child said of its steps (`child.sampling.Sampling.measured`).
        """
        self._stop()
        counts = _COUNTS.search(self._said())
        try:
            events = msgspec.json.decode(self._output.read_bytes(), type=list[Event])
            found = samples_of(events, sampled)
        except (OSError, ValueError, KeyError, TypeError) as error:
            return f"no samples: {self._problem() if counts is None else error}"
        whole = msgspec.structs.replace(
            found,
            run_id=run_id,
            sampler=version(self._program()),
            rate_hz=float(self._rate),
            samples=int(counts[1]) if counts else None,
            errors=int(counts[2]) if counts else None,
            behind=bool(_BEHIND.search(self._said())),
        )
        scratch = self._folder / f"{samples.FILE}.partial"
        try:
            scratch.touch(mode=0o600)
            scratch.write_bytes(msgspec.json.encode(whole) + b"\n")
            scratch.replace(self._folder / samples.FILE)
        except OSError as error:
            return f"no samples: {(error.strerror or str(error)).lower()}"
        return None

    def _start(self, pid: int, *, workers: bool) -> None:
        self._rate = self._rates.pop(0) if self._rates else self._rate
        seconds = round(self._seconds + _LONGER_S)
        words = [self._program(), "record", "--pid", str(pid), "--output", str(self._output), "--rate", str(self._rate)]
        words += ["--format", "chrometrace", "--threads", "--idle", "--full-filenames", "--nonblocking"]
        words += ["--subprocesses"] if workers else []
        for left in (self._output, self._log):
            left.unlink(missing_ok=True)
        self._ended.clear()
        self._runs = threading.Thread(target=self._run, args=([*words, "--duration", str(seconds)],), daemon=True)
        self._runs.start()

    def _run(self, words: list[str]) -> None:
        """Runs py-spy until it is to end, which it is asked for by SIGINT; then it writes what it has."""
        try:
            process.run(words, self._log, self._end_if_asked)
        except _Ended:
            return
        except OSError as error:
            with contextlib.suppress(OSError):
                self._log.write_text(f"Error: {(error.strerror or str(error)).lower()}")

    def _end_if_asked(self) -> None:
        if self._ended.is_set():
            raise _Ended

    def _stop(self) -> None:
        self._ended.set()
        if self._runs is not None:
            self._runs.join()
        self._runs = None

    def _say(self, **what: object) -> None:
        scratch = self._answer.with_name(f".{ANSWER}")
        scratch.write_text(json.dumps(what))
        scratch.replace(self._answer)

    def _said(self) -> str:
        try:
            return self._log.read_text(errors="replace")
        except OSError:
            return ""

    def _problem(self) -> str:
        """What went wrong, in py-spy's own words."""
        lines = [line.strip() for line in self._said().splitlines() if line.strip()]
        causes = [line for line in lines if line.startswith(("Error:", "Reason:", "Permission"))]
        return f"py-spy: {(causes or lines or ['it said nothing'])[-1].removeprefix('Error: ')}"

    @staticmethod
    def _program() -> str:
        return str(find(Probe()) or "py-spy")


def version(program: str) -> str | None:
    """The sampler as it names itself: `py-spy 0.4.3`."""
    ran = Probe().run(program, "--version")
    return ran.out.strip() or None


# --- from py-spy's events to steps


class Where(msgspec.Struct):
    """A frame's place."""

    filename: str = ""
    line: int = 0


class Event(msgspec.Struct):
    """A frame that was entered or left, between two samples."""

    ph: str
    ts: int
    """µs after the sampler began."""
    pid: int
    tid: int
    name: str
    args: Where


@dataclass(frozen=True)
class _Seen:
    """A thread's stack, and from when until when it was seen; ns after the sampler began."""

    start: int
    end: int
    thread: tuple[int, int]
    """Its process, and the thread as Python numbers it."""
    name: str
    frames: tuple[Frame, ...]


_PROCESS = re.compile(r"process \d+:")
_MAIN = "MainThread"


def _seen(events: list[Event]) -> Iterator[_Seen]:
    """What was seen of each thread. A stack begins with the processes that led to it, if asked for, and its thread.

    Forked processes have threads of one number, and py-spy tells what changed since it last saw that number: the stack
    is the number's, and after all that it says of one moment and process it is that process's.
    """
    stacks: dict[int, list[tuple[str, Frame]]] = {}
    held: dict[tuple[int, int], tuple[int, tuple[tuple[str, Frame], ...]]] = {}
    for (at, pid, tid), told in groupby(events, key=lambda event: (event.ts, event.pid, event.tid)):
        stack = stacks.setdefault(tid, [])
        for event in told:
            if event.ph == "B":
                stack.append((event.name, Frame(event.args.filename, event.args.line, event.name)))
            elif stack:
                stack.pop()
        since, before = held.get((pid, tid), (at, ()))
        held[pid, tid] = at, tuple(each for each in stack if not _PROCESS.match(each[0]))
        if at > since and before:
            frames = tuple(frame for _, frame in before[1:])
            yield _Seen(since * 1000, at * 1000, (pid, tid), before[0][0], frames)


def samples_of(events: list[Event], sampled: dict[str, Any]) -> Samples:
    """What the threads did in each of the sampled steps.

    Raises:
        ValueError: the sampler saw the steps neither begin nor end.
        KeyError, TypeError: the child's words are not as they should be.
    """
    own = sampled["pid"], sampled["thread"]
    # other threads of workers hand over what they have made
    seen = [stay for stay in _seen(events) if stay.thread[0] == own[0] or _name(stay.name) == _MAIN]
    offset = _offset(seen, sampled)
    bounds = [moment + offset for moment in sampled["marks"]]
    stays: dict[tuple[int, int, int], int] = {}
    frames: dict[Frame, int] = {}
    stacks: dict[Stack, int] = {}
    threads: dict[tuple[int, int], int] = {}
    named: dict[tuple[int, int], str] = {}
    for stay in seen:
        for step, spent in _in_steps(stay, bounds):
            places = tuple(frames.setdefault(frame, len(frames)) for frame in _of_program(stay.frames))
            thread = threads.setdefault(stay.thread, len(threads))
            named[stay.thread] = stay.name
            key = (step, thread, stacks.setdefault(Stack(places), len(stacks)))
            stays[key] = stays.get(key, 0) + spent
    return Samples(
        schema=SCHEMA,
        rank=sampled.get("rank"),
        attached=sampled.get("attached"),
        step_ns=tuple(sampled["step_ns"] or ()),
        host_ns=tuple(sampled["host_ns"]),
        frames=tuple(frames),
        stacks=tuple(stacks),
        threads=tuple(
            Thread(_name(named[thread]), thread == own, thread[0] if thread[0] != own[0] else None)
            for thread in threads
        ),
        stays=tuple(Stay(*key, ns) for key, ns in sorted(stays.items())),
    )


def _name(named: str) -> str:
    """A thread's own name, out of py-spy's `thread (7FC3): loader`; without one, py-spy's."""
    return named.partition("): ")[2] or named


def _offset(seen: list[_Seen], sampled: dict[str, Any]) -> int:
    """What the sampler's clock shows when it sees a change, less what ours showed when it came.

    It sees a change in the sample after that, which a busy machine may delay: the smaller of the two is nearer.
    """
    own = [stay for stay in seen if stay.thread == (sampled["pid"], sampled["thread"])]
    seen_at = [stay.end - sampled["moments"]["began"] for stay in own if _stands(stay, "_stand_before")][-1:]
    seen_at += [stay.start - sampled["moments"]["ended"] for stay in own if _stands(stay, "_stand_after")][:1]
    if not seen_at:
        raise ValueError("the sampler saw the steps neither begin nor end")
    return int(min(seen_at))


def _stands(stay: _Seen, function: str) -> bool:
    return any(frame.function == function and frame.file.endswith(f"/{CHILD}/sampling.py") for frame in stay.frames)


def _in_steps(stay: _Seen, bounds: list[int]) -> Iterator[tuple[int, int]]:
    """The steps in which it was seen, each with how long."""
    for step in range(max(bisect_right(bounds, stay.start) - 1, 0), len(bounds) - 1):
        if bounds[step] >= stay.end:
            return
        spent = min(stay.end, bounds[step + 1]) - max(stay.start, bounds[step])
        if spent > 0:
            yield step, spent


_RUNPY = re.compile(r"<frozen runpy>|.*/runpy\.py")


def _of_program(frames: tuple[Frame, ...]) -> Iterator[Frame]:
    """The frames without those that run the program and time its steps; a known model's files by their own names."""
    inside = False
    for frame in frames:
        _, found, rest = frame.file.rpartition(f"/{PROGRAM}/")
        ours = found and (rest == START or rest.startswith(f"{CHILD}/"))
        if ours or (not inside and _RUNPY.fullmatch(frame.file)):
            continue
        inside = True
        yield Frame(rest, frame.line, frame.function) if found and rest.startswith(f"{MODELS}/") else frame
