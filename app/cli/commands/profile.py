"""`tracetui profile`: prints what it will run, runs it with live progress, and opens the result."""

from __future__ import annotations

import shlex
import sys
import time
from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import format_bytes
from tracetui.app.text.exit_codes import DONE
from tracetui.app.text.fitting import printable
from tracetui.collectors import launch, profiler_commands, sweep
from tracetui.collectors.request import ProfileError, ProfileRequest
from tracetui.collectors.requirements import check_packages

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tracetui.collectors.following import Outcome, Tick


def profile(request: ProfileRequest, axes: Sequence[sweep.Axis], repeats: int) -> tuple[int, Path]:
    """Runs the profile, or each point of a sweep; returns the exit code and the folder to open.

    Raises:
        ProfileError: the run could not start.
    """
    if not axes and repeats == 1:
        outcome = _one(request)
        return outcome.exit_code, outcome.folder
    if request.output.exists():
        raise ProfileError(f"{request.output}: exists already; give another --output, or remove it")
    every = list(sweep.points(request, axes, repeats))
    launch.find_programs(request)
    for point in every:
        launch.check_model(point.request)
    check_packages(request)
    request.output.mkdir(parents=True)
    done: list[tuple[sweep.Point, str]] = []
    code = DONE
    for number, point in enumerate(every, 1):
        what = ", ".join(f"{name} {value}" for name, value in point.values.items()) or f"repeat {point.repeat}"
        say(f"{number} of {len(every)}: {what}")
        outcome = _one(point.request)
        done.append((point, outcome.status))
        sweep.write_index(request.output, axes, done)
        code = code or outcome.exit_code
        if outcome.status == "interrupted":
            break
    return code, request.output


def dry_run(request: ProfileRequest, axes: Sequence[sweep.Axis], repeats: int) -> None:
    """Prints the commands flag by flag, with the reason for each.

    Raises:
        ProfileError: there is no such model, or it does not take these options.
    """
    every = list(sweep.points(request, axes, repeats)) if axes or repeats > 1 else []
    for each in [point.request for point in every] or [request]:
        launch.check_model(each)
    one = every[0].request if every else request
    folder = one.output.absolute().with_name(one.output.name + ".partial")
    programs = {name: name for name in profiler_commands.needed_programs(one.tools)}
    for point in every:
        print(f"run: {point.request.output}")
    if every:
        print("each of them, here the first:")
    for tool in one.tools:
        phase = profiler_commands.make_phase(one, tool, folder, programs)
        for command in (phase.record, *phase.finish):
            print(f"\n# {tool}: {command.purpose}" + (f" (output: {command.output})" if command.output else ""))
            print(f"$ {printable(shlex.join(command.words))}")
            for flag in command.flags:
                print(f"  {printable(' '.join(flag.words))}\n      {flag.why}")
        if phase.needs_kernels:
            print("  --kernel-name regex:…\n      the kernels that make 95 % of the kernel time in the first trace")


def _one(request: ProfileRequest) -> Outcome:
    line = ProgressLine()
    try:
        outcome = launch.launch(request, line)
    finally:
        line.clear()
    for problem in outcome.problems:
        say(problem)
    size = sum(file.stat().st_size for file in outcome.folder.rglob("*") if file.is_file())
    say(f"{outcome.status}: {outcome.folder} ({format_bytes(size)})")
    return outcome


def say(line: str) -> None:
    """Prints a line about the run on standard error."""
    print(f"tracetui: {printable(line)}", file=sys.stderr, flush=True)


class ProgressLine:
    """Shows the progress of the run: one changing line on a terminal, one line per phase elsewhere."""

    INTERVAL_S = 0.2

    def __init__(self) -> None:
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._due = 0.0
        self._shown = 0
        self._phase = ("", "")

    def __call__(self, tick: Tick) -> None:
        """Shows the state of the run."""
        now = time.monotonic()
        if self._terminal:
            if now >= self._due:
                self._due = now + self.INTERVAL_S
                line = _describe(tick)
                sys.stderr.write("\r" + line.ljust(self._shown))
                sys.stderr.flush()
                self._shown = len(line)
        elif (tick.tool, tick.phase) != self._phase:
            self._phase = (tick.tool, tick.phase)
            say(_describe(tick).strip())

    def clear(self) -> None:
        """Removes the line."""
        if self._shown:
            sys.stderr.write("\r" + " " * self._shown + "\r")
            sys.stderr.flush()
            self._shown = 0


def _describe(tick: Tick) -> str:
    """Describes the state, as in ``torch: profiling 2/3, 12 s, GPU 1980 MHz 41 °C``."""
    steps = f" {tick.step}/{tick.of}" if tick.of else ""
    parts = [f"{tick.tool}: {tick.phase}{steps}", f"{tick.elapsed_s:.0f} s"]
    for gpu in ((tick.power or {}).get("gpus") or ())[:1]:
        clock, heat = gpu.get("clock_hz"), gpu.get("temperature_c")
        words = [f"{clock / 1e6:.0f} MHz" if clock else "", f"{heat:.0f} °C" if heat is not None else ""]
        if any(words):
            parts.append("GPU " + " ".join(word for word in words if word))
    return " " + ", ".join(parts)
