"""`tracetui profile`: prints what it will run, runs it with live progress, and opens the result."""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tracetui.analysis.base.number_format import format_bytes
from tracetui.app.cli import headless
from tracetui.app.cli.command import declared, option, switch
from tracetui.app.cli.commands.reference.models import names
from tracetui.app.cli.options import Common
from tracetui.app.cli.values import number_of_seconds, positive_number, seconds_or_none, share, whole_number
from tracetui.app.text.exit_codes import DONE, UsageError
from tracetui.app.text.fitting import printable
from tracetui.collectors.machine.masking import masked
from tracetui.collectors.process import Outcome, Tick
from tracetui.collectors.request import TOOLS, Axis, Point, ProfileError, ProfileRequest, points, write_index
from tracetui.models.options import ATTENTION, CACHES, COMPILE_MODES, DTYPES, OPTIMIZERS, PARALLEL
from tracetui.parsers.errors import instead

LITTLE_MEMORY = 12 << 30
"""Machines with less may not survive a trace with stacks."""


def _window(text: str) -> tuple[float, float]:
    delay, _, length = text.partition("+")
    try:
        window = (float(delay), float(length))
    except ValueError:
        window = (-1.0, -1.0)
    if window[0] < 0 or window[1] <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time span such as 10+5")
    return window


_AXES = (
    "batch", "img_size", "patch", "attention", "kv_cache", "ctx", "depth", "keep", "dtype", "optimizer", "compile_mode",
    "workers", "seed",
)  # fmt: skip


def _axis(text: str) -> tuple[str, tuple[object, ...]]:
    name, equals, values = text.partition("=")
    name = name.replace("-", "_")
    if not equals or name not in _AXES:
        raise argparse.ArgumentTypeError(f"{text!r} is not an axis such as batch=1,2,4; there are {', '.join(_AXES)}")
    details = dict(declared(_Runs))[name].details
    chosen = tuple(details.get("type", str)(value) for value in values.split(","))
    choices = details.get("choices")
    if choices and (unknown := [value for value in chosen if value not in choices]):
        raise argparse.ArgumentTypeError(f"no {name} {unknown[0]!r}; there are {', '.join(choices)}")
    return name, chosen


@dataclass(kw_only=True)
class _Runs:
    """What runs: but for `ranks` options of the model, if they are given."""

    group: ClassVar[tuple[str, ...]] = ("what runs",)
    batch: int | None = option("--batch", type=positive_number, metavar="N", help="samples per step")
    img_size: int | None = option(
        "--img-size", type=positive_number, metavar="PX", help="height and width of the images"
    )
    ctx: int | None = option("--ctx", type=positive_number, metavar="N", help="tokens per sample")
    depth: int | None = option("--depth", type=positive_number, metavar="N", help="layers")
    keep: float | None = option(
        "--keep", type=share, metavar="SHARE", help="fraction of the tokens kept at each reduction"
    )
    patch: int | None = option(
        "--patch", type=positive_number, metavar="PX", help="height and width of a patch of an image"
    )
    reduction_loc: str | None = option("--reduction-loc", metavar="N,N", help="the blocks in which tokens are dropped")
    attention: str | None = option(
        "--attention", choices=ATTENTION, help="attention of a GPT: three operations, or the fused one"
    )
    kv_cache: str | None = option(
        "--kv-cache", choices=CACHES, help="keys and values of gpt_server: room from the start, or grown by torch.cat"
    )
    dtype: str | None = option("--dtype", choices=DTYPES, help="number type; fp16 and bf16 use autocast")
    train: bool = switch("--train", help="run forward, backward and optimizer (default: forward only)")
    optimizer: str | None = option(
        "--optimizer", choices=OPTIMIZERS, help="how AdamW updates (default: as PyTorch chooses)"
    )
    compile: bool = switch("--compile", help="use torch.compile")
    compile_mode: str | None = option(
        "--compile-mode", choices=COMPILE_MODES, help="use torch.compile in this mode", metavar="MODE"
    )
    cuda_graphs: bool = switch("--cuda-graphs", help="capture the step as a CUDA graph and replay it")
    channels_last: bool = switch("--channels-last", help="model and images in memory format channels_last")
    parallel: str | None = option(
        "--parallel", choices=PARALLEL, help="train on --ranks processes: replicas, shards, stages or split layers"
    )
    ranks: int = option(
        "--ranks", type=positive_number, default=1, metavar="N", help="processes of --parallel, one per GPU"
    )
    data: str | None = option("--data", metavar="random|imagefolder:PATH", help="where the samples come from")
    workers: int | None = option(
        "--workers", type=whole_number, metavar="N", help="worker processes of the data loader"
    )
    seed: int | None = option("--seed", type=whole_number, metavar="N", help="seed of weights and data")


@dataclass(kw_only=True)
class _Measured:
    group: ClassVar[tuple[str, ...]] = ("how it is measured",)
    tool: str = option(
        "--tool",
        default="torch",
        metavar="NAME",
        help="torch, nsys, ncu, memory (a,b for several) or all",
        values="list",
        words=lambda: (*TOOLS, "all"),
    )
    device: str | None = option(
        "--device",
        metavar="cpu|cuda|cuda:N",
        help="default: cuda where there is an NVIDIA GPU",
        words=lambda: ("cpu", "cuda"),
    )
    recorded_steps: int = option(
        "--steps", type=positive_number, default=3, metavar="N", help="recorded steps (default: %(default)s)"
    )
    warmup: int = option(
        "--warmup", type=whole_number, default=3, metavar="N", help="steps before recording (default: %(default)s)"
    )
    clean_steps: int = option(
        "--clean-steps",
        type=whole_number,
        default=10,
        metavar="N",
        help="steps timed without a profiler, to know what it costs (default: %(default)s)",
    )
    light_steps: int = option(
        "--light-steps",
        type=whole_number,
        default=10,
        metavar="N",
        help="on a GPU, steps recorded lightly for their times before --steps are recorded with everything "
        "(default: %(default)s)",
        opposite=("--no-light", "record once, with everything", 0),
        either="light",
    )
    sample_seconds: float = option(
        "--sample-seconds",
        type=seconds_or_none,
        default=5.0,
        metavar="SECONDS",
        help="run steps for so long at most while py-spy samples the program's lines from outside; 0 for no samples "
        "(default: %(default)g)",
    )
    with_stack: bool | None = switch(
        "--with-stack",
        default=None,
        help="record modules and Python functions (default: unless memory is short)",
        opposite=("--no-stack", "record a smaller trace without modules", False),
        either="stack",
    )
    with_memory: bool = switch("--with-memory", help="record the allocator's events")
    window: tuple[float, float] | None = option(
        "--window",
        type=_window,
        metavar="DELAY+LENGTH",
        help="for a program without steps: delay and duration in seconds, as 10+5",
    )
    timeout: float | None = option(
        "--timeout",
        type=number_of_seconds,
        metavar="SECONDS",
        help="end a run after this time; what was finished is kept",
    )
    python: str | None = option(
        "--python", metavar="PATH", help="the Python that has torch (default: this one)", values="programs"
    )


@dataclass(kw_only=True)
class _Several:
    group: ClassVar[tuple[str, ...]] = ("several runs",)
    sweep: list[tuple[str, tuple[object, ...]]] = option(
        "--sweep",
        action="append",
        type=_axis,
        default=[],
        metavar="OPTION=V,V",
        help="make one run per value (repeatable)",
        values="pairs",
        words=lambda: tuple(f"{axis}=" for axis in _AXES),
    )
    repeats: int = option(
        "--repeats", type=positive_number, default=1, metavar="N", help="number of runs of each point"
    )


@dataclass(kw_only=True)
class _Output:
    group: ClassVar[tuple[str, ...]] = ("output",)
    output: Path | None = option(
        "-o", "--output", type=Path, metavar="FOLDER", help="default: prof_MODEL_TIME in this folder"
    )
    dry_run: bool = switch("--dry-run", help="print the commands and the reason for each flag; run nothing")
    open: bool = option("--no-open", action="store_false", help="do not open the result")


@dataclass(kw_only=True)
class Options(_Output, _Several, _Measured, _Runs, Common):
    """Launch a profiled run of a known model (`tracetui reference models` lists them), of your own as
    module.path:factory, or of your own program after `--`; then open what was recorded.
    """

    usage: ClassVar[str] = (
        "tracetui profile MODEL [options]\n       tracetui profile [options] -- python SCRIPT ...\n"
        "       tracetui profile [options] -- torchrun --nproc-per-node N SCRIPT ..."
    )
    model: str | None = option(
        nargs="?", metavar="MODEL", help="vim_tiny, timm:NAME, module.path:factory, ...", words=names
    )
    program: tuple[str, ...] = ()


def run(options: Options) -> int:
    """Runs the profile and opens the result, or prints what it would run."""
    request = request_of(options, options.program, ["tracetui", *sys.argv[1:]])
    axes = [Axis(name, values) for name, values in options.sweep]
    try:
        if options.dry_run:
            dry_run(request, axes, options.repeats)
            return DONE
        code, folder = profile(request, axes, options.repeats)
    except ProfileError as problem:
        raise UsageError(str(problem)) from problem
    if code or not options.open:
        return code
    from tracetui.app.cli.main import main

    opened = [str(folder), *(["--ascii"] if options.ascii else []), *([] if options.cache else ["--no-cache"])]
    return main(["open", "--color", options.color, *opened])


# --- the request


def request_of(options: Options, command: tuple[str, ...], typed: Sequence[str]) -> ProfileRequest:
    """Builds the request from the options.

    Raises:
        UsageError: options contradict each other.
    """
    if (options.model is None) == (not command):
        raise UsageError(
            "profile takes a model (`tracetui reference models` lists them) or a program after `--`, one of both"
        )
    tools = TOOLS if options.tool == "all" else tuple(options.tool.split(","))
    if unknown := [tool for tool in tools if tool not in TOOLS]:
        raise UsageError(f"no tool {unknown[0]!r}; {instead(unknown[0], (*TOOLS, 'all'))}")
    if command and options.tool == "all":
        tools = tuple(tool for tool in tools if tool != "memory")
    if command and "memory" in tools:
        raise UsageError(
            "--tool memory needs a model of tracetui's; in a program of your own call "
            "torch.cuda.memory._record_memory_history() and _dump_snapshot(PATH)"
        )
    given = {name: getattr(options, name) for name, _ in declared(_Runs) if name != "ranks"}
    chosen = {name: value for name, value in given.items() if value is not None and value is not False}
    if command and chosen:
        first = next(iter(chosen)).replace("_", "-")
        raise UsageError(f"--{first} is an option for models; pass options to your own program after `--`")
    if (options.ranks > 1) != (options.parallel is not None):
        raise UsageError("--ranks and --parallel go together: --ranks 2 --parallel ddp")
    if options.ranks > 1 and (command or tools != ("torch",)):
        raise UsageError(
            "--ranks is an option for models; your own program's ranks are torchrun's: -- torchrun --nproc-per-node N …"
            if command
            else "--ranks goes with --tool torch only"
        )
    name = options.model or _stem(command)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return ProfileRequest(
        output=options.output or Path(f"prof_{re.sub(r'[^A-Za-z0-9_.-]+', '_', name)}_{stamp}"),
        entry=options.model,
        command=command,
        tools=tools,
        options=chosen,
        device=options.device or _device(),
        steps=options.recorded_steps,
        warmup=options.warmup,
        clean_steps=options.clean_steps,
        light_steps=options.light_steps,
        sample_seconds=options.sample_seconds,
        ranks=options.ranks,
        with_stack=_ample_memory() if options.with_stack is None else options.with_stack,
        with_memory=options.with_memory,
        window=options.window,
        timeout_s=options.timeout,
        python=options.python or (interpreter(command) if "torch" in tools and command else sys.executable),
        typed=tuple(typed),
    )


def _stem(command: tuple[str, ...]) -> str:
    """What to call a run of the user's program."""
    from tracetui.collectors.torchrun import python_options, ranked

    try:
        many = ranked(command)
    except ProfileError:  # it is said when the run is to start
        many = None
    words = command[1 + len(python_options(command)) :] if many is None else many.program
    return Path(next((word for word in words if not word.startswith("-")), command[0])).stem


def interpreter(command: tuple[str, ...]) -> str:
    """Returns the Python that runs the user's program."""
    found = shutil.which(command[0])
    if Path(command[0]).name == "torchrun":
        if found is None:
            raise UsageError("torchrun: no such program on PATH; python -m torch.distributed.run is the same")
        from tracetui.collectors.torchrun import interpreter

        return interpreter(Path(found)) or sys.executable
    if not Path(command[0]).name.startswith("python") or len(command) < 2:
        raise UsageError(
            f"--tool torch puts a profiler into a Python program: -- python SCRIPT …; or torchrun; {command[0]} "
            "can be recorded with --tool nsys or ncu"
        )
    if found is None:
        raise UsageError(f"{command[0]}: no such program on PATH")
    return found


def _device() -> str:
    """Returns ``cuda`` if the driver lists an NVIDIA GPU."""
    nodes = ("/dev/nvidia0", "/dev/nvhost-gpu", "/dev/nvgpu", "/dev/dxg")
    return "cuda" if any(Path(node).exists() for node in nodes) else "cpu"


def _ample_memory() -> bool:
    from tracetui.collectors.machine import host as machine_host
    from tracetui.collectors.machine.probe import Probe

    total = machine_host.memory_state(Probe()).total_bytes
    return total is None or total >= LITTLE_MEMORY


# --- running it


def profile(request: ProfileRequest, axes: Sequence[Axis], repeats: int) -> tuple[int, Path]:
    """Runs the profile, or each point of a sweep; returns the exit code and the folder to open.

    Raises:
        ProfileError: the run could not start.
    """
    from tracetui.collectors import launch
    from tracetui.collectors.requirements import check_packages

    if not axes and repeats == 1:
        outcome = _one(request)
        return outcome.exit_code, outcome.folder
    if request.output.exists():
        raise ProfileError(f"{request.output}: exists already; give another --output, or remove it")
    every = list(points(request, axes, repeats))
    launch.find_programs(request)
    for point in every:
        launch.check_model(point.request)
    check_packages(request)
    request.output.mkdir(parents=True)
    done: list[tuple[Point, str]] = []
    code = DONE
    for number, point in enumerate(every, 1):
        what = ", ".join(f"{name} {value}" for name, value in point.values.items()) or f"repeat {point.repeat}"
        say(f"{number} of {len(every)}: {what}")
        outcome = _one(point.request)
        done.append((point, outcome.status))
        write_index(request.output, axes, done)
        code = code or outcome.exit_code
        if outcome.status == "interrupted":
            break
    return code, request.output


def dry_run(request: ProfileRequest, axes: Sequence[Axis], repeats: int) -> None:
    """Prints the commands flag by flag, with the reason for each.

    Raises:
        ProfileError: there is no such model, or it does not take these options.
    """
    from tracetui.collectors import launch, profiler_commands

    every = list(points(request, axes, repeats)) if axes or repeats > 1 else []
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
    from tracetui.collectors import launch

    with followed() as report:
        outcome = launch.launch(request, report)
    for problem in outcome.problems:
        say(problem)
    size = sum(file.stat().st_size for file in outcome.folder.rglob("*") if file.is_file())
    say(f"{outcome.status}: {outcome.folder} ({format_bytes(size)})")
    if request.command and request.tools[0] == "torch" and not outcome.exit_code and not _is_job(request.command):
        told = shlex.join(masked(request.command))
        say(f"to measure changes of it: tracetui try {shlex.quote(str(outcome.folder))} -- {told}")
    return outcome


def _is_job(command: tuple[str, ...]) -> bool:
    from tracetui.collectors.torchrun import ranked

    return ranked(command) is not None


def say(line: str) -> None:
    """Prints a line about the run on standard error."""
    print(f"tracetui: {printable(line)}", file=sys.stderr, flush=True)


@contextmanager
def followed() -> Iterator[Callable[[Tick], None]]:
    """Yields what shows the state of a run: in one changing line on a terminal, in a line per phase elsewhere."""
    phase = ("", "")
    with headless.status_line() as show:

        def report(tick: Tick) -> None:
            nonlocal phase
            if show is not None:
                show(_describe(tick))
            elif (tick.tool, tick.phase) != phase:
                phase = (tick.tool, tick.phase)
                say(_describe(tick).strip())

        yield report


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
