"""The options of `tracetui profile`, and the request that is built from them."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracetui.app.text.exit_codes import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tracetui.collectors.request import ProfileRequest
    from tracetui.collectors.sweep import Axis

DTYPES = ("fp32", "fp16", "bf16", "tf32")
ATTENTION = ("steps", "fused")
COMPILE_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
OPTIMIZERS = ("loop", "foreach", "fused")
"""As in `models.options`."""
PARALLEL = ("ddp", "fsdp", "pipeline", "tensor")
"""As in `models.parallel.KINDS`."""
_OPTIONS = (
    "batch", "img_size", "patch", "ctx", "depth", "keep", "reduction_loc", "attention", "dtype", "data", "workers",
    "seed", "parallel", "optimizer", "compile_mode",
)  # fmt: skip
"""Options that are passed to the model if the user gives them."""
_SWITCHES = ("train", "compile", "cuda_graphs", "channels_last")
"""Options that are passed to the model as true."""
LITTLE_MEMORY = 12 << 30
"""Machines with less may not survive a trace with stacks."""


def add_profile(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Adds the command to the parser's commands."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "profile",
        parents=[common],
        help="launch a profiled run and open it",
        usage="tracetui profile MODEL [options]\n       tracetui profile [options] -- python SCRIPT …\n"
        "       tracetui profile [options] -- torchrun --nproc-per-node N SCRIPT …",
        description=(
            "Launch a profiled run of a known model (`tracetui models` lists them), of your own as "
            "module.path:factory, or of your own program after `--`; then open what was recorded."
        ),
    )
    parser.add_argument("model", nargs="?", metavar="MODEL", help="vim_tiny, timm:NAME, module.path:factory, …")
    what = parser.add_argument_group("what runs")
    what.add_argument("--batch", type=_positive, metavar="N", help="samples per step")
    what.add_argument("--img-size", type=_positive, metavar="PX", help="height and width of the images")
    what.add_argument("--ctx", type=_positive, metavar="N", help="tokens per sample")
    what.add_argument("--depth", type=_positive, metavar="N", help="layers")
    what.add_argument("--keep", type=_share, metavar="SHARE", help="fraction of the tokens kept at each reduction")
    what.add_argument("--patch", type=_positive, metavar="PX", help="height and width of a patch of an image")
    what.add_argument("--reduction-loc", metavar="N,N", help="the blocks in which tokens are dropped")
    what.add_argument("--attention", choices=ATTENTION, help="attention of a GPT: three operations, or the fused one")
    what.add_argument("--dtype", choices=DTYPES, help="number type; fp16 and bf16 use autocast")
    what.add_argument(
        "--train", action="store_true", help="run forward, backward and optimizer (default: forward only)"
    )
    what.add_argument("--optimizer", choices=OPTIMIZERS, help="how AdamW updates (default: as PyTorch chooses)")
    what.add_argument("--compile", action="store_true", help="use torch.compile")
    what.add_argument("--compile-mode", choices=COMPILE_MODES, help="use torch.compile in this mode", metavar="MODE")
    what.add_argument("--cuda-graphs", action="store_true", help="capture the step as a CUDA graph and replay it")
    what.add_argument("--channels-last", action="store_true", help="model and images in memory format channels_last")
    what.add_argument(
        "--parallel", choices=PARALLEL, help="train on --ranks processes: replicas, shards, stages or split layers"
    )
    what.add_argument("--ranks", type=_positive, default=1, metavar="N", help="processes of --parallel, one per GPU")
    what.add_argument("--data", metavar="random|imagefolder:PATH", help="where the samples come from")
    what.add_argument("--workers", type=_whole, metavar="N", help="worker processes of the data loader")
    what.add_argument("--seed", type=_whole, metavar="N", help="seed of weights and data")
    how = parser.add_argument_group("how it is measured")
    how.add_argument(
        "--tool", default="torch", metavar="NAME", help="torch, nsys, ncu, memory (a,b for several) or all"
    )
    how.add_argument("--device", metavar="cpu|cuda|cuda:N", help="default: cuda where there is an NVIDIA GPU")
    how.add_argument("--steps", type=_positive, default=3, metavar="N", help="recorded steps (default: %(default)s)")
    how.add_argument(
        "--warmup", type=_whole, default=3, metavar="N", help="steps before recording (default: %(default)s)"
    )
    how.add_argument(
        "--clean-steps", type=_whole, default=10, metavar="N",
        help="steps timed without a profiler, to know what it costs (default: %(default)s)",
    )  # fmt: skip
    light = how.add_mutually_exclusive_group()
    light.add_argument(
        "--light-steps", type=_whole, default=10, metavar="N",
        help="on a GPU, steps recorded lightly for their times before --steps are recorded with everything "
        "(default: %(default)s)",
    )  # fmt: skip
    light.add_argument(
        "--no-light", action="store_const", const=0, dest="light_steps", help="record once, with everything"
    )
    stack = how.add_mutually_exclusive_group()
    stack.add_argument(
        "--with-stack",
        action="store_true",
        default=None,
        help="record modules and Python functions (default: unless memory is short)",
    )
    stack.add_argument(
        "--no-stack", action="store_false", dest="with_stack", help="record a smaller trace without modules"
    )
    how.add_argument("--with-memory", action="store_true", help="record the allocator's events")
    how.add_argument(
        "--window",
        type=_window,
        metavar="DELAY+LENGTH",
        help="for a program without steps: delay and duration in seconds, as 10+5",
    )
    how.add_argument(
        "--timeout", type=_seconds, metavar="SECONDS", help="end a run after this time; what was finished is kept"
    )
    how.add_argument("--python", metavar="PATH", help="the Python that has torch (default: this one)")
    many = parser.add_argument_group("several runs")
    many.add_argument(
        "--sweep",
        action="append",
        type=_axis,
        default=[],
        metavar="OPTION=V,V",
        help="make one run per value (repeatable)",
    )
    many.add_argument("--repeats", type=_positive, default=1, metavar="N", help="number of runs of each point")
    out = parser.add_argument_group("output")
    out.add_argument("--output", type=Path, metavar="FOLDER", help="default: prof_MODEL_TIME in this folder")
    out.add_argument(
        "--dry-run", action="store_true", help="print the commands and the reason for each flag; run nothing"
    )
    out.add_argument("--no-open", action="store_false", dest="open", help="do not open the result")
    return parser


TAKE_PROGRAMS = ("profile", "prove")
"""Commands after which `--` begins a program of the user's own."""


def split_command(argv: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Splits the command line into words for tracetui and the user's own program after ``--``."""
    words = list(argv)
    if any(command in words[:2] for command in TAKE_PROGRAMS) and "--" in words:
        at = words.index("--")
        return words[:at], tuple(words[at + 1 :])
    return words, ()


def request_of(arguments: argparse.Namespace, command: tuple[str, ...], typed: Sequence[str]) -> ProfileRequest:
    """Builds the request from the options.

    Raises:
        UsageError: options contradict each other.
    """
    from tracetui.collectors.request import TOOLS, ProfileRequest

    if (arguments.model is None) == (not command):
        raise UsageError("profile takes a model (`tracetui models` lists them) or a program after `--`, one of both")
    tools = TOOLS if arguments.tool == "all" else tuple(arguments.tool.split(","))
    if unknown := [tool for tool in tools if tool not in TOOLS]:
        raise UsageError(f"no tool {unknown[0]!r}; there are {', '.join(TOOLS)} and all")
    if command and arguments.tool == "all":
        tools = tuple(tool for tool in tools if tool != "memory")
    if command and "memory" in tools:
        raise UsageError(
            "--tool memory needs a model of tracetui's; in a program of your own call "
            "torch.cuda.memory._record_memory_history() and _dump_snapshot(PATH)"
        )
    options = {name: getattr(arguments, name) for name in _OPTIONS}
    options = {name: value for name, value in options.items() if value is not None}
    options |= {name: True for name in _SWITCHES if getattr(arguments, name)}
    if command and options:
        option = next(iter(options)).replace("_", "-")
        raise UsageError(f"--{option} is an option for models; pass options to your own program after `--`")
    if (arguments.ranks > 1) != (arguments.parallel is not None):
        raise UsageError("--ranks and --parallel go together: --ranks 2 --parallel ddp")
    if arguments.ranks > 1 and (command or tools != ("torch",)):
        raise UsageError(
            "--ranks is an option for models; your own program's ranks are torchrun's: -- torchrun --nproc-per-node N …"
            if command
            else "--ranks goes with --tool torch only"
        )
    name = arguments.model or _stem(command)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return ProfileRequest(
        output=arguments.output or Path(f"prof_{re.sub(r'[^A-Za-z0-9_.-]+', '_', name)}_{stamp}"),
        entry=arguments.model,
        command=command,
        tools=tools,
        options=options,
        device=arguments.device or _device(),
        steps=arguments.steps,
        warmup=arguments.warmup,
        clean_steps=arguments.clean_steps,
        light_steps=arguments.light_steps,
        ranks=arguments.ranks,
        with_stack=_ample_memory() if arguments.with_stack is None else arguments.with_stack,
        with_memory=arguments.with_memory,
        window=arguments.window,
        timeout_s=arguments.timeout,
        python=arguments.python or (interpreter(command) if "torch" in tools and command else sys.executable),
        typed=tuple(typed),
    )


def _stem(command: tuple[str, ...]) -> str:
    """What to call a run of the user's program."""
    from tracetui.collectors.request import ProfileError
    from tracetui.collectors.torchrun import ranked

    try:
        many = ranked(command)
    except ProfileError:  # it is said when the run is to start
        many = None
    words = command[1:] if many is None else many.program
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


def axes_of(arguments: argparse.Namespace) -> list[Axis]:
    """Returns the sweep's axes, in the given order."""
    from tracetui.collectors.sweep import Axis

    return [Axis(name, values) for name, values in arguments.sweep]


def _device() -> str:
    """Returns ``cuda`` if the driver lists an NVIDIA GPU."""
    nodes = ("/dev/nvidia0", "/dev/nvhost-gpu", "/dev/nvgpu", "/dev/dxg")
    return "cuda" if any(Path(node).exists() for node in nodes) else "cpu"


def _ample_memory() -> bool:
    from tracetui.collectors.machine import host as machine_host
    from tracetui.collectors.machine.probe import Probe

    total = machine_host.memory_state(Probe()).total_bytes
    return total is None or total >= LITTLE_MEMORY


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def _positive(text: str) -> int:
    number = _whole(text)
    if not number:
        raise argparse.ArgumentTypeError("0 is too few")
    return number


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return number


def _share(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a fraction between 0 and 1")
    return number


def _window(text: str) -> tuple[float, float]:
    delay, _, length = text.partition("+")
    try:
        found = (float(delay), float(length))
    except ValueError:
        found = (-1.0, -1.0)
    if found[0] < 0 or found[1] <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time span such as 10+5")
    return found


_AXES: dict[str, Callable[[str], Any]] = {
    "batch": _positive,
    "img_size": _positive,
    "patch": _positive,
    "attention": str,
    "ctx": _positive,
    "depth": _positive,
    "keep": _share,
    "dtype": str,
    "optimizer": str,
    "compile_mode": str,
    "workers": _whole,
    "seed": _whole,
}


def _axis(text: str) -> tuple[str, tuple[Any, ...]]:
    name, equals, values = text.partition("=")
    name = name.replace("-", "_")
    if not equals or name not in _AXES:
        raise argparse.ArgumentTypeError(f"{text!r} is not an axis such as batch=1,2,4; there are {', '.join(_AXES)}")
    found = tuple(_AXES[name](value) for value in values.split(","))
    known = {
        "dtype": DTYPES,
        "attention": ATTENTION,
        "optimizer": OPTIMIZERS,
        "compile_mode": COMPILE_MODES,
    }.get(name)
    if known and (unknown := [value for value in found if value not in known]):
        raise argparse.ArgumentTypeError(f"no {name} {unknown[0]!r}; there are {', '.join(known)}")
    return name, found
