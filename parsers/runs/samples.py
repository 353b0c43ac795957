"""Reads `samples.json`: where the threads of a profiled program were, as a sampler beside it saw without a profiler.

`tracetui profile` writes it. The samples are of steps of their own, timed as the clean steps are. Times are ns.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from tracetui.parsers.runs.json_records import Number, Whole, members, record
from tracetui.parsers.runs.side_files import read_text
from tracetui.parsers.tally import Tally
from tracetui.parsers.trace import Trace

SCHEMA = "tracetui.samples/1"
FILE = "samples.json"
_FAMILY = "tracetui.samples/"
_MAX_BYTES = 64 << 20


class Frame(Struct, frozen=True, gc=False):
    """A line of a function in which a thread was."""

    file: str = ""
    """The full path; of a known model's code from `tracetui_models` on."""
    line: Whole = 0
    function: str = ""


class Stack(Struct, frozen=True, gc=False):
    """The calls in which a thread was."""

    frames: tuple[Whole, ...] = ()
    """Places in `frames`, the outermost first."""


class Thread(Struct, frozen=True, gc=False):
    """A thread of the program."""

    name: str = ""
    steps: bool = False
    """Whether it runs the steps."""
    process: Whole | None = None
    """Of a process that the program started, such as a loader's worker: its number."""


class Stay(Struct, frozen=True, gc=False):
    """How long a thread was in one stack within one step."""

    step: Whole = 0
    """Place in `step_ns`."""
    thread: Whole = 0
    """Place in `threads`."""
    stack: Whole = 0
    """Place in `stacks`."""
    ns: Whole = 0
    """The time for which its samples stand: of each until the next one."""


class Samples(Struct, frozen=True, gc=False):
    """The whole file."""

    schema: str | None = None
    """`tracetui.samples/1`"""
    run_id: str | None = None
    """The run it is of, as `identity` in run.json has it."""
    sampler: str | None = None
    """Which program took the samples: `py-spy 0.4.3`."""
    rate_hz: Number | None = None
    """How often it was to look in a second."""
    samples: Whole | None = None
    """How often it looked, before and after the steps too."""
    errors: Whole | None = None
    """How many looks failed; the stack seen before stands for them."""
    behind: bool | None = None
    """Whether it could not keep up with the rate, so that there are fewer samples."""
    rank: Whole | None = None
    """Of a job: whose process it was; the others were not sampled."""
    attached: bool | None = None
    """Whether a recording came before on a GPU, whose library (CUPTI) stays attached to the process's calls."""
    step_ns: tuple[Number, ...] = ()
    """Each step while it was sampled, by the clock of `clean_step_ns` in run.json."""
    host_ns: tuple[Number, ...] = ()
    """Each of them on the host's clock, by which samples belong to steps."""
    frames: tuple[Frame, ...] = ()
    stacks: tuple[Stack, ...] = ()
    threads: tuple[Thread, ...] = ()
    stays: tuple[Stay, ...] = ()
    """What was seen within steps."""

    @property
    def consistent(self) -> bool:
        """Whether all places are within what they are places of."""
        frames, stacks, threads, steps = map(len, (self.frames, self.stacks, self.threads, self.host_ns))
        return all(0 <= at < frames for stack in self.stacks for at in stack.frames) and all(
            0 <= stay.step < steps and 0 <= stay.thread < threads and 0 <= stay.stack < stacks and stay.ns >= 0
            for stay in self.stays
        )


def of_trace(trace: Trace) -> tuple[Samples | None, str | None]:
    """The samples of a trace's run, if they are of its process, and one line if they can't be read."""
    if trace.info.run_id is None:
        return None, None
    found, problem = load(trace.source.path.parent)
    if found is None or found.run_id != trace.info.run_id or found.rank not in (None, trace.info.rank):
        return None, problem
    return found, None


def load(folder: Path) -> tuple[Samples | None, str | None]:
    """The samples of the run in a folder, if it has them, and one line if they can't be read."""
    path = folder / FILE
    try:
        found = members(read_text(path, _MAX_BYTES))
    except FileNotFoundError:
        return None, None
    except OSError as error:
        return None, f"{path}: {(error.strerror or str(error)).lower()}"
    except (ValueError, RecursionError):
        return None, f"{path}: left out, since it is damaged"
    tally = Tally()
    samples: Samples | None = None if found is None else record(Samples, found, tally)
    if samples is None or not (samples.schema or "").startswith(_FAMILY):
        return None, f"{path}: left out, since it holds no samples"
    if tally.notes() or not samples.consistent:
        return None, f"{path}: left out, since it is damaged"
    return samples, None
