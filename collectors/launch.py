"""Makes a profiled run from start to end: folder, phases, machine state, and what remains if something fails."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from tracetui.collectors import jobs, process, profiler_commands, reasons
from tracetui.collectors.child.marks import MEASURED
from tracetui.collectors.folder import RunFolder
from tracetui.collectors.machine import recording as machine
from tracetui.collectors.machine.masking import masked, masked_line
from tracetui.collectors.machine.probe import Probe, find_tool
from tracetui.collectors.process import Follower, Outcome, Tick
from tracetui.collectors.profiler_commands import KernelChoice
from tracetui.collectors.request import ProfileError, ProfileRequest
from tracetui.collectors.requirements import check_packages
from tracetui.collectors.sampling import Sampler, why_not
from tracetui.parsers import Trace
from tracetui.parsers.names.kernel_key import function_name
from tracetui.parsers.runs.manifest import SCHEMA

SHARE = 0.95
"""The chosen kernels take at least this share of the kernel time."""
LEAST_SHARE = 0.005
"""A kernel with a smaller share of the kernel time is not measured, even if the sum stays below `SHARE`."""

SEEN = 2
"""How often each chosen kernel is measured, as far as a step launches it that often."""


def choose_kernels(trace: Trace) -> KernelChoice | None:
    """Returns the kernels that take `SHARE` of a trace's kernel time, the longest first; None if it has no kernels.

    ``launches`` is how many launches of these kernels it takes until each was launched `SEEN` times, or as often as
    the step launches it. It is counted in the step with the most launches, or in the whole trace if that has no steps.
    """
    kernels = trace.device.filter(pl.col("kind") == "kernel").sort("start")
    whole = int(kernels["duration"].sum()) if kernels.height else 0
    if not whole:
        return None
    times = kernels.group_by("name").agg(ns=pl.col("duration").sum()).sort("ns", descending=True)
    chosen: list[str] = []
    taken = 0
    for name, spent in times.with_columns(pl.col("name").cast(pl.String)).iter_rows():
        if taken >= SHARE * whole or spent < LEAST_SHARE * whole:
            break
        chosen.append(name)
        taken += spent
    functions = {name: function_name(name).base for name in chosen}
    return KernelChoice(
        tuple(dict.fromkeys(functions.values())), _launches_until_all(kernels, functions), 100 * taken / whole
    )


def _launches_until_all(kernels: pl.DataFrame, functions: dict[str, str]) -> int:
    step = kernels["step"].drop_nulls().mode().sort()
    one = kernels.filter(pl.col("step") == step[0]) if step.len() else kernels
    bases = set(functions.values())
    names = one["name"].cast(pl.String).to_list()
    waiting = {name: min(SEEN, names.count(name)) for name in functions}
    count = 0
    for name in names:
        count += (functions.get(name) or function_name(name).base) in bases
        if name in waiting:
            waiting[name] -= 1
            if waiting[name] <= 0:
                del waiting[name]
        if not waiting:
            break
    return max(count, 1)


INTERRUPTED = 130
SPEED_VARIABLES = (
    "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "CUDA_VISIBLE_DEVICES", "NVIDIA_TF32_OVERRIDE", "OMP_NUM_THREADS",
    "PYTORCH_CUDA_ALLOC_CONF",
)  # fmt: skip
"""The only environment variables that run.json holds."""


def find_programs(request: ProfileRequest) -> dict[str, str]:
    """Finds nsys and ncu, as far as the request needs them.

    Raises:
        ProfileError: one of them is not installed.
    """
    probe = Probe()
    programs: dict[str, str] = {}
    for name in profiler_commands.needed_programs(request.tools):
        found = find_tool(probe, name)
        if found is None:
            raise ProfileError(f"{name} is not on PATH nor where it is usually installed; `tracetui doctor` says more")
        programs[name] = str(found)
    return programs


def launch(request: ProfileRequest, tell: Callable[[Tick], None]) -> Outcome:
    """Makes the run. Whatever happens, it leaves a folder that says what happened.

    Args:
        request: what to run and how.
        tell: called about ten times a second with how far it has come.

    Raises:
        ProfileError: the run could not start; nothing is left.
    """
    programs = find_programs(request)
    check_model(request)
    for tool in request.tools:
        profiler_commands.ranked_options(request, tool)  # raises what can't be recorded
    check_packages(request)
    folder = RunFolder(request.output)
    job = jobs.job_of(request)
    if job is not None and not folder.final.exists() and not jobs.leads(folder, job):
        return jobs.join(request, folder, tell)
    folder.create(made=job is not None)
    unsampled = why_not(request, Probe())
    if unsampled is not None:
        request = replace(request, sample_seconds=0.0)
    run = _Run(request, folder, programs, tell)
    run.skip([unsampled] if unsampled else [])
    return run.all()


def _same_gpu(seen: dict[str, Any], known: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The machine's record of a GPU that the profiled process saw, by UUID, else by its place among equal GPUs."""
    wanted = str(seen.get("uuid") or "").removeprefix("GPU-")
    if wanted and (found := next((d for d in known if str(d.get("uuid") or "").removeprefix("GPU-") == wanted), None)):
        return found
    at = seen.get("index")
    return next((d for d in known if d.get("index") == at and d.get("name") in (None, seen.get("name"))), None)


def check_model(request: ProfileRequest) -> None:
    """Reports a mistyped name or option before there is anything to clean up; needs no torch.

    Raises:
        ProfileError: there is no such model, or it does not take these options.
    """
    if request.entry is None:
        return
    from tracetui.models import registry
    from tracetui.models.errors import ModelError

    try:
        registry.find(request.entry).check({**request.options, "device": request.device})
    except ModelError as error:
        raise ProfileError(str(error)) from error


class _Run:
    """One run under way."""

    def __init__(
        self, request: ProfileRequest, folder: RunFolder, programs: dict[str, str], tell: Callable[[Tick], None]
    ) -> None:
        self._request = request
        self._folder = folder
        self._programs = programs
        self._tell = tell
        self._begun = time.monotonic()
        self._watch = machine.Watch()
        self._problems: list[str] = []
        self._skipped: list[str] = []
        self._beat = jobs.Beat(folder.path)
        self._sampler = Sampler(request, folder.path)
        self._exit_code: int | None = 0
        self._signal: str | None = None
        self._manifest = self._first_manifest()

    def all(self) -> Outcome:
        """Runs every phase; what one phase leaves is kept, whatever happens to the others."""
        status = "finished"
        try:
            self._folder.write_manifest(self._manifest)
            self._watch.start()
            for tool in self._request.tools:
                if not self._phase(tool):
                    status = "failed"
        except KeyboardInterrupt:
            status, self._exit_code = "interrupted", INTERRUPTED
            self._problems.append("interrupted; what was finished is kept")
        except ProfileError as problem:
            status, self._exit_code = "failed", self._exit_code or 1
            self._problems.append(str(problem))
        final = self._end(status)
        return Outcome(status, final, (1 if self._exit_code is None else self._exit_code), self._problems)

    def _first_manifest(self) -> dict[str, Any]:
        request = self._request
        return {
            "schema": SCHEMA,
            "status": "running",
            "identity": machine.identity(request.typed or None),
            "software": machine.software(request.python),
            "device": machine.devices(),
            "power": {"before": machine.power_state(), "during": [], "after": None},
            "workload": {
                "model": masked_line(request.name) if request.command else request.name,
                "device": request.device,
                "requested_batch": request.options.get("batch"),
                "options": {name: value for name, value in request.options.items() if value is not None},
                "environment": {name: os.environ[name] for name in SPEED_VARIABLES if name in os.environ},
            },
            "measurement": {
                "tool": request.tools[0] if len(request.tools) == 1 else "all",
                "warmup_steps": request.warmup,
                "steps": request.steps,
                "flags": {
                    "with_stack": request.with_stack,
                    "profile_memory": request.with_memory,
                    "record_shapes": True,
                },
                "commands": [],
            },
            "outcome": {},
        }

    def skip(self, lines: Sequence[str]) -> None:
        """Notes what was asked for and is not done."""
        self._skipped += lines
        self._problems += lines

    # --- phases

    def _phase(self, tool: str) -> bool:
        """Runs one tool; returns whether all went well."""
        request, folder = self._request, self._folder
        phase = profiler_commands.make_phase(
            request, tool, folder.path, self._programs, self._kernels() if tool == "ncu" else None
        )
        run_id = str(self._manifest["identity"].get("run_id"))
        folder.write_spec(tool, profiler_commands.child_spec(request, tool, folder.path, run_id))
        code, result = self._record(tool, phase.record)
        self._take_over(result)
        self._problems += [note for note in result.get("notes") or () if note not in self._problems]
        problem = reasons.explain(tool, code, result, folder.log, phase.record.purpose)
        if problem is None or folder.has(phase.leaves[-1]):  # a report outlives the program it is of
            for command in phase.finish:
                exported = self._command(tool, command, "exporting")
                if exported:
                    code = code or exported
                    problem = problem or reasons.explain(tool, exported, {}, folder.log, command.purpose)
                    break
        if problem is None and not folder.has(phase.leaves[0]):
            problem = f"{tool}: it ended well, but left no {phase.leaves[0]}; log.txt may say why"
        if problem is not None:
            self._problems.append(problem)
            self._exit_code = code if code > 0 else (1 if code == 0 else None)
            self._signal = signal.Signals(-code).name if code < 0 else self._signal
        self.skip(result.get("skipped") or ())
        if sampled := (result.get("measurement") or {}).get("sampled"):
            unsampled = self._sampler.write(run_id, sampled)
            self.skip([unsampled] if unsampled else [])
        self._folder.write_manifest(self._manifest)
        return problem is None

    def _record(self, tool: str, command: profiler_commands.Command) -> tuple[int, dict[str, Any]]:
        """Runs the program under a tool; its exit code, and what the child reported.

        A program that the user, or ``--timeout``, ends when all is recorded has ended well: it may run on for days.
        """
        try:
            return self._command(tool, command, "starting"), self._result(tool)
        except (KeyboardInterrupt, ProfileError):
            result = self._result(tool)
            if not result.get("has_all"):
                self._take_over(result)
                raise
            self._problems.append("the program was ended after all was recorded")
            return 0, {**result, "error": None}

    def _result(self, tool: str) -> dict[str, Any]:
        """What the child reported, or all ranks of a job did."""
        if profiler_commands.ranked_options(self._request, tool) is None:
            return self._folder.result(tool)
        path = self._folder.path
        if machines := jobs.others(path):
            self._manifest["machines"] = machines
        return jobs.merged(jobs.read(path, tool), jobs.recorded(path), reasons.tail(self._folder.log))

    def _command(self, tool: str, command: profiler_commands.Command, phase: str) -> int:
        self._manifest["measurement"]["commands"].append(list(masked(command.words)))
        follow = Follower(self._folder.path / profiler_commands.PROGRESS, Tick(tool, phase), self._begun)

        def tick() -> None:
            self._beat()
            state = follow.newest()
            self._sampler.look(state)
            limit = self._request.timeout_s
            if limit is not None and state.elapsed_s > limit:
                raise ProfileError(f"{tool}: {state.phase} had not ended after {limit:g} s (--timeout)")
            self._tell(replace(state, power=self._watch.latest))

        output = None if command.output is None else self._folder.path / command.output
        try:
            return process.run(command.words, self._folder.log, tick, output=output)
        except OSError as error:
            raise ProfileError(f"{command.words[0]}: {(error.strerror or str(error)).lower()}") from error

    def _kernels(self) -> profiler_commands.KernelChoice | None:
        """What ncu shall measure, from the trace that an earlier phase left."""
        from tracetui.parsers import TraceError, open_path

        for name in (profiler_commands.TRACE, profiler_commands.NSYS_EXPORT):
            path = self._folder.path / name
            if path.exists():
                with contextlib.suppress(TraceError):
                    return choose_kernels(open_path(path, cache=False).main)
        return None

    def _take_over(self, result: dict[str, Any]) -> None:
        """Copies what the child reported to its place in the manifest."""
        manifest = self._manifest
        manifest["software"].update({k: v for k, v in (result.get("software") or {}).items() if v is not None})
        manifest["workload"].update({**(result.get("settings") or {}), **(result.get("workload") or {})})
        for seen in result.get("devices") or ():
            known = _same_gpu(seen, manifest["device"])
            if known is None:
                manifest["device"].append(seen)
            else:
                known.update({key: value for key, value in seen.items() if value is not None and key != "index"})
        if ranks := result.get("ranks"):
            manifest["ranks"] = ranks
        if self._request.command and result.get("workload"):  # the program as its Python got it
            manifest["workload"]["model"] = masked_line(" ".join(profiler_commands.program_of(self._request)))
        measured = result.get("measurement") or {}
        manifest["measurement"].update({key: measured[key] for key in MEASURED if measured.get(key)})

    # --- the end

    def _end(self, status: str) -> Path:
        manifest = self._manifest
        self._sampler.close()
        manifest["status"] = status
        manifest["power"]["during"] = self._watch.stop()
        manifest["power"]["after"] = machine.power_state()
        manifest["outcome"] = {
            "exit_code": self._exit_code,
            "signal": self._signal,
            "explanation": "; ".join(self._problems) or None if status != "finished" else None,
            "ended_unix_ns": time.time_ns(),
            "duration_ns": round((time.monotonic() - self._begun) * 1e9),
            "files": self._folder.files(),
            "skipped": self._skipped,
        }
        try:
            self._folder.write_manifest(manifest)
            return self._folder.finish()
        except (ProfileError, OSError) as problem:  # the folder keeps the name it has while it is made
            self._problems.append(str(problem))
            return self._folder.path
