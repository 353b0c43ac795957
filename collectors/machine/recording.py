"""Records this machine's state for `run.json`: identity, software, GPUs, and their clocks, temperatures and power.

Nothing here raises or needs root: what can't be read is null, and `needs_root` names what only root may read.
The keys are those of `parsers/runs/manifest.py`.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import platform
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Generic, TypeVar

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from tracetui.collectors.machine import host as machine_host
from tracetui.collectors.machine import jetson as machine_jetson
from tracetui.collectors.machine import smi as machine_smi
from tracetui.collectors.machine.masking import masked
from tracetui.collectors.machine.probe import ROOT, Probe, Runner, find_tool, run_command, tool_version
from tracetui.parsers.runs.manifest import GpuState, Identity, MemoryClock, PowerState, Rail, Software
from tracetui.parsers.tegrastats.lines import Line, parse

Json = dict[str, Any]
PYTHON_SECONDS = 20.0
STALE_S = 3.0
"""A line that a tool printed longer ago than this is too old for a sample."""
_ASK_PYTHON = "import platform, sys; print(platform.python_version()); print(sys.executable)"


def identity(
    command: Sequence[str] | None = None,
    cwd: Path | None = None,
    *,
    root: Path = ROOT,
    runner: Runner = run_command,
) -> Json:
    """Key `identity`: a new run id, the time, the machine, the command with secrets masked, the code's state."""
    folder = Path.cwd() if cwd is None else cwd
    probe = Probe(root, runner)
    now = time.time_ns()
    started = datetime.fromtimestamp(now / 1e9, timezone.utc).isoformat(timespec="milliseconds")
    sha = _git(probe, folder, "rev-parse", "HEAD")
    diff = _git(probe, folder, "diff", "--no-ext-diff", "--no-textconv", "--no-color", "HEAD") if sha else None
    branch = _git(probe, folder, "rev-parse", "--abbrev-ref", "HEAD") if sha else None
    found = Identity(
        run_id=f"{started[:10].replace('-', '')}-{secrets.token_hex(4)}",
        started_utc=started,
        started_unix_ns=now,
        started_monotonic_ns=time.monotonic_ns(),
        host=probe.text("proc/sys/kernel/hostname") or socket.gethostname() or None,
        pid=os.getpid(),
        boot_id=probe.text("proc/sys/kernel/random/boot_id"),
        command=masked(sys.argv if command is None else command),
        cwd=str(folder),
        git_sha=sha,
        git_branch=branch if branch != "HEAD" else None,
        git_dirty=None if diff is None else bool(diff),
        git_diff_sha256=hashlib.sha256(diff.encode("utf-8", "replace")).hexdigest() if diff else None,
        tracetui_version=tracetui_version(),
    )
    return _json(found)


def software(python: str | None = None, *, root: Path = ROOT, runner: Runner = run_command) -> Json:
    """Key `software`, without what only the profiled process knows (torch, CUDA's runtime, cuDNN, …)."""
    probe = Probe(root, runner)
    asked = probe.run(python or sys.executable, "-c", _ASK_PYTHON, timeout_s=PYTHON_SECONDS)
    answer = asked.out.splitlines() if asked.ok else []
    jetson = machine_jetson.is_jetson(probe)
    release = machine_jetson.l4t_release(probe) if jetson else None
    tools = {name: find_tool(probe, name) for name in ("nsys", "ncu")}
    versions = {name: tool_version(probe, tool) if tool else None for name, tool in tools.items()}
    return _json(
        Software(
            python=answer[0] if len(answer) > 1 else None,
            python_executable=answer[1] if len(answer) > 1 else python,
            driver=machine_host.driver_version(probe),
            cuda_driver=machine_smi.cuda_of_driver(probe),
            nsys=versions["nsys"],
            ncu=versions["ncu"],
            l4t=release,
            jetpack=machine_jetson.jetpack(release),
            kernel=probe.text("proc/sys/kernel/osrelease"),
            os=machine_host.operating_system(probe),
            architecture=platform.machine() or None,
        )
    )


def devices(*, root: Path = ROOT, runner: Runner = run_command) -> list[Json]:
    """Key `device`: every GPU."""
    probe = Probe(root, runner)
    found = machine_jetson.devices(probe) if machine_jetson.is_jetson(probe) else machine_smi.devices(probe)
    return [_json(device) for device in found]


def power_state(*, root: Path = ROOT, runner: Runner = run_command) -> Json:
    """One complete state for the key `power`; takes some tens of ms, with nvidia-smi up to seconds.

    During a run, a `Watch` disturbs it less.
    """
    return _json(_state(Probe(root, runner), full=True))


# --- during a run

INTERVAL_S = 0.5
MOST = 2000
"""Samples kept; a multiple of two."""
SHARE = 20
"""A sample that takes one second is followed by a pause of this many seconds."""
STOP_S = 3.0
PR_SET_PDEATHSIG = 1
"""From linux/prctl.h."""

S = TypeVar("S")


class Sampler(Generic[S]):
    """Calls `take` every half second in its own thread until it is stopped, and disturbs the run little.

    Samples that take long are taken less often, so that watching costs at most a twentieth of one core. Whenever there
    are too many samples, every second one is dropped. An error costs one sample.
    """

    def __init__(self, take: Callable[[], S], interval_s: float = INTERVAL_S, most: int = MOST) -> None:
        self._take = take
        self._interval_s = interval_s
        self._most = max(most - most % 2, 2)
        self._samples: list[S] = []
        self._stride = 1
        self._taken = 0
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.latest: S | None = None
        """The latest sample, even if it was thinned out."""

    def start(self) -> None:
        """Starts sampling; the first sample is taken at once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="machine sampler", daemon=True)
            self._thread.start()

    def stop(self) -> list[S]:
        """Stops and returns the samples, oldest first; waits at most three seconds for a sample that hangs."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(STOP_S)
        return self.samples

    @property
    def samples(self) -> list[S]:
        """The samples so far, evenly spread over the run."""
        with self._lock:
            return list(self._samples)

    def _watch(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            with contextlib.suppress(Exception):  # the run continues whatever a sensor does
                self._keep(self._take())
            took = time.monotonic() - began
            self._stopping.wait(max(self._interval_s - took, took * SHARE))

    def _keep(self, sample: S) -> None:
        with self._lock:
            self.latest = sample
            if self._taken % self._stride == 0:
                self._samples.append(sample)
            self._taken += 1
            if len(self._samples) >= self._most:
                del self._samples[1::2]
                self._stride *= 2


class Lines:
    """Keeps the last lines of a program that prints one line per measurement, as tegrastats and nvidia-smi do.

    The program gets a pseudo-terminal, since it would buffer what it writes to a pipe and old lines would come late.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._lines: deque[tuple[float, str]] = deque(maxlen=64)
        self._process: subprocess.Popen[bytes] | None = None
        try:
            screen, end = os.openpty()
        except OSError:
            return
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=end,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl+C goes to the run, which then stops this program
                preexec_fn=_end_with_parent(),
            )
        except (OSError, ValueError):
            os.close(screen)
            return
        finally:
            os.close(end)
        threading.Thread(target=self._read, args=(screen,), name="machine lines", daemon=True).start()

    def last(self, seconds: float) -> list[str]:
        """The lines of the last `seconds`, oldest first."""
        oldest = time.monotonic() - seconds
        return [line for when, line in list(self._lines) if when >= oldest]

    def close(self) -> None:
        """Ends the program."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(1.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _read(self, screen: int) -> None:
        # reading the terminal fails when the program has ended
        with contextlib.suppress(OSError), open(screen, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                self._lines.append((time.monotonic(), line.rstrip("\n")))


def _end_with_parent() -> Callable[[], object] | None:
    """Runs first in a child and makes it end when this process is killed."""
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None
    return partial(prctl, PR_SET_PDEATHSIG, signal.SIGTERM)


class Watch(Sampler[Json]):
    """Samples the machine for `Power.during`; each sample is a state without what does not change in a run.

    It reads a desktop GPU from one nvidia-smi that keeps printing, and a Jetson from sysfs, with tegrastats for what
    sysfs lacks.
    """

    def __init__(
        self,
        interval_s: float = INTERVAL_S,
        *,
        root: Path = ROOT,
        runner: Runner = run_command,
        stream: Callable[[Sequence[str]], Lines] = Lines,
    ) -> None:
        super().__init__(self._sample, interval_s)
        probe = self._probe = Probe(root, runner)
        self._stream = stream
        self._period_ms = max(round(interval_s * 1000), 100)
        self._jetson = machine_jetson.is_jetson(probe)
        self._lines: Lines | None = None
        self._fields: tuple[str, ...] = ()
        self._opened = 0.0

    def start(self) -> None:
        """Starts the tools that keep printing, then the samples."""
        if self._lines is None:
            self._open()
        super().start()

    def stop(self) -> list[Json]:
        """Stops sampling and the tools that keep printing."""
        samples = super().stop()
        if self._lines is not None:
            self._lines.close()
        return samples

    def _open(self) -> None:
        if self._jetson:
            if tool := find_tool(self._probe, "tegrastats"):
                self._lines = self._stream([str(tool), "--interval", str(self._period_ms)])
            return
        # ask once which fields this nvidia-smi knows, so that the one that keeps printing is not refused
        if known := machine_smi.known_fields(self._probe, machine_smi.STATE_FIELDS):
            self._fields = tuple(known)
            command = machine_smi.query_command(list(known.values()), f"--loop-ms={self._period_ms}")
            self._lines = self._stream(command)
            self._opened = time.monotonic()

    def _sample(self) -> Json:
        lines = self._lines.last(STALE_S) if self._lines else []
        if self._jetson:
            said = next((found for line in reversed(lines) if (found := parse(line))), None)
            return _json(_with_tegrastats(_state(self._probe, full=False), said))
        newest = {row.get("index"): row for row in machine_smi.rows("\n".join(lines), self._fields)}
        gpus = sorted((machine_smi.state(row) for row in newest.values()), key=lambda gpu: gpu.index or 0)
        if not gpus and self._fields and time.monotonic() - self._opened > STALE_S:
            gpus = machine_smi.states(self._probe)  # the one that should keep printing has ended
        return _json(_state(self._probe, full=False, gpus=gpus))


def _json(found: Struct) -> Json:
    values: Json = to_builtins(found)
    return values


def _state(probe: Probe, *, full: bool, gpus: list[GpuState] | None = None) -> PowerState:
    """The machine's state now; a sample leaves out what does not change in a run."""
    jetson = machine_jetson.is_jetson(probe)
    sources = ["sysfs"]
    mode: tuple[int | None, str | None] = (None, None)
    emc = None
    pinned = None
    if jetson:
        gpu = machine_jetson.gpu_state(probe)
        gpus = [gpu]
        emc = machine_jetson.emc_state(probe)
        if full:
            mode = machine_jetson.power_mode(probe)
            pinned = machine_jetson.clocks_are_pinned(probe, gpu)
            sources += ["nvpmodel"] if mode != (None, None) else []
    elif gpus is None:
        gpus = machine_smi.states(probe)
    if gpus and not jetson:
        sources.append("nvidia-smi")
    return PowerState(
        time_unix_ns=time.time_ns(),
        monotonic_ns=time.monotonic_ns(),
        sources=tuple(sources),
        mode_id=mode[0],
        mode_name=mode[1],
        jetson_clocks=pinned,
        gpus=tuple(gpus or ()),
        emc=emc,
        cpu=machine_host.cpu_state(probe, sample=not full),
        memory=machine_host.memory_state(probe),
        temperatures_c=machine_host.temperatures(probe) if jetson or full else {},
        rails=machine_jetson.rails(probe) if jetson else (),
        alarms=machine_jetson.alarms(probe) if jetson else {},
        gpu_processes=(machine_jetson if jetson else machine_smi).processes(probe) if full else None,
        needs_root=tuple(probe.denied),
    )


def _with_tegrastats(state: PowerState, said: Line | None) -> PowerState:
    """The state, with the gaps of sysfs filled from tegrastats."""
    if said is None:
        return state
    emc = state.emc or MemoryClock()
    if emc.rate_hz is None:
        emc = replace(emc, rate_hz=said.emc_hz)
    if emc.load_percent is None:
        emc = replace(emc, load_percent=None if said.emc_percent is None else float(said.emc_percent))
    gpu = state.gpus[0] if state.gpus else GpuState(index=0)
    if gpu.clock_hz is None and said.gpu_hz:
        gpu = replace(gpu, clock_hz=max(said.gpu_hz))
    if gpu.load_percent is None and said.gpu_percent is not None:
        gpu = replace(gpu, load_percent=float(said.gpu_percent))
    known = {rail.name for rail in state.rails}
    more = tuple(Rail(name=n, power_mw=mw) for n, mw in said.rails_mw.items() if n not in known)
    return replace(
        state,
        sources=(*state.sources, "tegrastats"),
        emc=None if emc == MemoryClock() else emc,
        gpus=(gpu,),
        rails=state.rails + (more if not state.rails else ()),
        temperatures_c=state.temperatures_c or said.temperatures_c,
        needs_root=tuple(name for name in state.needs_root if not (name == "EMC clock" and emc.rate_hz is not None)),
    )


GIT_SECONDS = 5.0
_QUIET = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
"""Options that keep git from executing what a repository's configuration asks for."""


def _git(probe: Probe, cwd: Path, *words: str) -> str | None:
    ran = probe.run("git", *_QUIET, "-C", str(cwd), *words, timeout_s=GIT_SECONDS)
    return ran.out.strip() if ran.ok else None


def tracetui_version() -> str | None:
    """The version of this program; None where it runs without being installed."""
    try:
        return version("tracetui")
    except PackageNotFoundError:
        return None
