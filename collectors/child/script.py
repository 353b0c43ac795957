"""Runs the user's own program under torch.profiler, recording its steps or a stretch of time."""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import json
import runpy
import signal
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import compiled, machine_torch, ranks, unchanged
from .graphs import MOST_CAPTURES, Captures, in_a_line
from .marks import LEARNED_FROM, Calls, Marks, Pauses, Watch, after_each_call, after_each_return, name_of, synchronize
from .outside import Outside, when_imported
from .profilers import LIGHT_WARMUP, TRACE, LightPass, Refused, about, rich_pass, started_light, with_collections
from .sampling import Sampling
from .spare import Spare, unheld
from .turns import LEAST_STEPS, Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from .progress import Progress

MOST_OTHERS = 100
"""Calls of another optimizer, or replays of one CUDA graph, after which what ended the steps is taken to be over."""
NO_STEP_S, LOOKS, STRETCH_S = 15.0, 15, 2.0
"""Where nothing has ended a step for so long, in so many looks, so many seconds are recorded; steps still take their
place when they come."""
FIRST_LOOK, LOOKED = 3, 4
"""From this look on it is looked for a function that repeats, anew after so many looks, then after twice as many."""


def run(spec: dict[str, Any], progress: Progress, result: dict[str, Any], keep: Callable[[], None]) -> None:
    """Runs ``script`` (its argv) as ``python`` would, with a profiler inside.

    With ``window`` null, the profiler follows the calls of ``torch.optim.Optimizer.step``, or without an optimizer
    those of the program's outermost module, or of a function (see `Recorder`). A program that has none of them is
    recorded by time: ``window`` is (delay, length) in seconds.

    Args:
        spec: what the parent asked for.
        progress: told of every step.
        result: gets what is known, also if the program fails or ends too early.
        keep: writes the result as far as it is known.
    """

    def tell() -> None:
        result.update(
            {
                **machine_torch.facts(recorder.settings),
                # the command is left to the one that started this: here it would stand with the secrets in it
                "workload": {"backend": "user"},
                "measurement": recorder.measured(),
                "skipped": recorder.skipped(),
                "notes": recorder.notes(),
                "has_all": recorder.has_all,
            }
        )
        if outside is not None:
            result["outside"] = outside.told()

    def tell_and_keep() -> None:
        tell()
        keep()

    def begin() -> None:
        if outside is not None:
            outside.install()
        recorder.by_step()

    outside = Outside(spec["outside"]) if spec.get("outside") else None
    recorder = Recorder(spec, progress, tell_and_keep, outside)
    argv = list(spec["script"])[1:]
    if not argv:
        raise Refused("no program to run")
    progress.say("warm-up", 0, spec["warmup"])
    if spec.get("window"):
        recorder.by_time(float(spec["window"][0]), float(spec["window"][1]))
    else:
        when_imported("torch", begin)
    code: Any = None
    try:
        _run_program(argv)
    except SystemExit as left:
        code = left.code
    except Exception as error:
        if not recorder.gives_up_comparing(error):
            raise
    finally:
        recorder.stop()
        tell()
    recorder.check()
    if code:
        raise SystemExit(code)


def _run_program(argv: Any) -> None:
    if argv[:1] == ["-m"]:
        sys.argv = argv[1:]
        sys.path[0] = str(Path.cwd())
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
    elif argv[:1] == ["-c"]:
        raise Refused("python -c has no file whose lines could be told: put the program into one")
    else:
        sys.argv = argv
        sys.path[0] = str(Path(argv[0]).absolute().parent)
        runpy.run_path(argv[0], run_name="__main__")


TIMES = "prove"
"""The tool that records nothing: `tracetui try` times a program with it."""


class Recorder:
    """Times and records the steps of somebody else's program, which does not know it.

    The calls of the first optimizer are the ends of steps, or those of the module that a program without one repeats,
    or, once a step is part of a CUDA graph or only replays come, these. Where nothing ends a step for long, the returns
    of the function that repeats do, or a stretch of time is recorded.

    On a GPU, in order: `warmup` of them pass, `clean_steps` are timed without a profiler, `light_steps` are recorded
    lightly, and `steps` with everything. On the CPU, where no profiler stays loaded, `steps` are recorded
    after the warm-up, so that short programs are too, and then `clean_steps` timed. What steps are left are sampled:
    how many a program has is not known, and recordings come first.
    """

    def __init__(
        self, spec: dict[str, Any], progress: Progress, keep: Callable[[], None], outside: Outside | None = None
    ) -> None:
        self._spec = spec
        self._progress = progress
        self._outside, self._looks = outside, outside is not None
        self._keep = keep
        self._plan: Generator[None, None, None] | None = None
        self._watch: Watch | None = None
        self._repeated: str | None = None
        self._round = 1
        """Of the calls of the module that repeats, so many are a step."""
        self._optimizer: Callable[[], Any] = lambda: None
        self._others: dict[int, int] = {}
        self._replayed: Any = None
        self._replays: dict[int, int] = {}
        """Of each CUDA graph, since the last step."""
        self._most_replays = 0
        self._has_captured = False
        self._watched_calls: Calls | None = None
        self._function: str | None = None
        """Whose returns end steps, until something else does."""
        self._stretched = False
        """Whether a stretch of time is recorded, since nothing ended a step."""
        self._by_hand = False
        self._profiler: Any | None = None
        self._light: LightPass | None = None
        self._captures = Captures(spec, self._unwatched)
        self._alarm: Any = None
        self._clean = self._rich = Marks("cpu")
        self._pauses = Pauses()
        self.settings: dict[str, Any] | None = None
        """As they were when the steps began that are timed or recorded: a program may change them before and after."""
        self._sampling: Sampling | None = None
        self._turns: Turns | None = None
        self._looked: unchanged.Unchanged | None = None
        self._unchanged: list[dict[str, Any]] = []
        self._in_vain: list[dict[str, Any]] = []
        self._unheld: dict[str, Any] | None = None
        self._spare: list[dict[str, Any]] = []
        self._calls = 0
        self._done = False
        self.has_all = False
        """Whether all that was asked for is recorded, so that the program's end tells nothing more."""
        self._passes: list[dict[str, Any]] = []
        self._refused: list[str] = []

    # --- what starts a recording

    def by_step(self) -> None:
        """Follows the optimizer, or the module that repeats where there is none."""
        try:
            from torch.optim.optimizer import register_optimizer_step_post_hook

            self._watch = Watch(self._follow_module)
        except ImportError as error:
            raise Refused("this torch has no hooks for steps; give a stretch of time: --window DELAY+LENGTH") from error
        self._begin_plan()
        register_optimizer_step_post_hook(lambda optimizer, *_: self._optimized(optimizer))
        self._look_at_replays()
        if self._spec["tool"] != TIMES and self._spec.get("rank") is None:
            self._wait_for_a_step()

    def _wait_for_a_step(self) -> None:
        """Has a function end steps where nothing else does, or a stretch of time recorded.

        A program that compiles, does not use the GPU yet, or takes ever more of its memory, is getting ready; one with
        alarms of its own is left alone.
        """
        import torch

        looks, reserved, alike, until, length = 0, -1, 0, 0, LOOKED

        def is_due() -> bool:
            nonlocal looks, reserved, alike, until, length
            if compiled.is_under_way():
                self._look_no_more()
                until = 0
                return False
            looks, before, reserved = looks + 1, reserved, -1
            if self._device() == "cuda":
                reserved = torch.cuda.memory_reserved()
            elif self._spec["device"] == "cpu" or not torch.cuda.is_available():
                reserved = 0
            alike = alike + 1 if before == reserved >= 0 else 0
            self._stretched = looks >= LOOKS and alike >= LOOKS // 3
            if self._watched_calls is not None and self._function is None:
                self._follow_function(machine_torch.quietly(self._watched_calls.found))
            if self._stretched:
                self._look_no_more()
            elif self._function is None and alike and looks >= max(FIRST_LOOK, until):
                self._look_no_more()
                self._watched_calls, until, length = Calls(), looks + length, 2 * length
            return self._stretched

        is_free = signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
        if is_free and threading.current_thread() is threading.main_thread():
            self._record_at(NO_STEP_S / LOOKS, STRETCH_S, is_due)

    def _look_no_more(self) -> None:
        looked, self._watched_calls = self._watched_calls, None
        if looked is not None:
            looked.end()

    def _follow_function(self, code: Any) -> None:
        """Has the returns of this function end steps until an optimizer, a module or a graph does."""
        if code is None:
            return
        self._look_no_more()
        if after_each_return(code, lambda: self._stepped() if self._function else None):
            self._function = name_of(code)

    def _give_way(self) -> None:
        """Drops what was recorded of a function's calls, now that something better ends steps."""
        if self._function is not None:
            if self._device() == "cuda" and (self._light is not None or self._profiler is not None or self._passes):
                self._refused.append(f"CUPTI is attached in the clean steps: calls of {self._function} came before")
            self._begin_again(None)

    def _waits_no_more(self) -> None:
        """Takes the alarm back, if it is still the recorder's."""
        self._look_no_more()
        if self._alarm is not None and signal.getsignal(signal.SIGALRM) is self._alarm:
            with contextlib.suppress(ValueError):  # of a thread other than the main one
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.setitimer(signal.ITIMER_REAL, 0)

    def _optimized(self, optimizer: Any) -> None:
        if self._watch is not None:
            self._watch.stop()
        if self._repeated is not None or self._replayed is not None:
            return
        ends = self._optimizer()
        # one may have been for a stage that is over; a parameter may have an optimizer of its own
        others = self._others[id(optimizer)] = self._others.get(id(optimizer), 0) + 1
        if ends is None or (optimizer is not ends and others > MOST_OTHERS):
            self._optimizer, ends = weakref.ref(optimizer), optimizer
        if optimizer is ends:
            self._others.clear()
            self._give_way()
            self._has_captured |= self._is_capturing()
            self._stepped()

    def _look_at_replays(self) -> None:
        """Has replays of a CUDA graph end steps where the program captured its optimizer's step, or has no other."""
        import torch

        kind = getattr(torch.cuda, "CUDAGraph", None)
        if kind is None or self._spec.get("rank") is not None:
            return
        run = kind.replay

        @functools.wraps(run)
        def replay(graph: Any) -> Any:  # recordings show this name
            result = run(graph)
            if threading.current_thread() is threading.main_thread():
                if graph is self._replayed:
                    self._stepped()
                elif self._replayed is None and (self._has_captured or self._only_replays(graph)):
                    self._begin_again(graph)
            return result

        kind.replay = replay

    def _only_replays(self, graph: Any) -> bool:
        """Whether what ended steps no longer comes while graphs are replayed, as after a capture's eager warm-up."""
        here = self._replays[id(graph)] = self._replays.get(id(graph), 0) + 1
        if not self._calls and self._repeated is None:
            return sum(self._replays.values()) >= LEARNED_FROM
        return here > max(MOST_OTHERS, 2 * self._most_replays, LEARNED_FROM * self._calls) and not self.has_all

    def _begin_again(self, graph: Any) -> None:
        """Drops what was recorded of steps from before the program replayed one as a graph, or had better ones."""
        self._replayed, self._function = graph, None
        if self._watch is not None:
            self._watch.stop()
        if self._plan is not None:
            self._plan.close()
        self._forget()
        self._plan = self._follow()
        next(self._plan)

    def _forget(self) -> None:
        """Drops what was recorded."""
        if self._sampling is not None:
            self._sampling.end()
        if self._looked is not None:
            self._looked.end()
        light, self._light = self._light, None
        if light is not None:
            light.drop()
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            profiler.stop()
        self._clean = self._rich = Marks("cpu")
        self._pauses, self._sampling, self._looked, self._passes = Pauses(), None, None, []
        self._done = self.has_all = self._stretched = False

    def _follow_module(self, module: Any, calls: int) -> None:
        if self._function is not None and self.has_all:  # what a program ends with does not replace what it did
            return
        self._give_way()
        self._repeated = type(getattr(module, "_orig_mod", module)).__name__  # of a compiled one its own name
        self._round, number = calls, itertools.count(1)

        def called() -> None:
            if next(number) % calls == 0 and self._replayed is None:
                self._stepped()

        after_each_call(module, called)

    def by_hand(self) -> Callable[[], None]:
        """Returns what the program itself calls at the end of each step."""
        self._by_hand = True
        self._begin_plan()
        return self._stepped

    def _begin_plan(self) -> None:
        if self._spec["tool"] != TIMES:
            self._captures.begin()
        self._plan = self._follow()
        next(self._plan)

    def by_time(self, delay: float, length: float) -> None:
        """Records from `delay` seconds after now for `length` seconds.

        A signal's handler runs in the main thread, and the profiler follows the operators of the thread that starts it.
        torch is there before the clock runs: it must not be interrupted while it is being imported.
        """
        importlib.import_module("torch.profiler")
        self._captures.begin()
        self._record_at(delay, length, lambda: True)

    def _record_at(self, delay: float, length: float, is_due: Callable[[], bool]) -> None:
        """Records for `length` seconds once it is due, which is asked every `delay` seconds."""
        begun = False

        def ring(*_: Any) -> None:
            nonlocal begun
            if begun:
                self.stop()
                self._let_it_run()
                return
            begun = is_due()
            if begun:
                self._captures.end()
                self._start()
            signal.setitimer(signal.ITIMER_REAL, length if begun else delay)

        self._alarm = ring
        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, max(delay, 1e-3))

    def _unwatched(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext() if self._watch is None else self._watch.aside()

    def _stepped(self) -> None:
        if self._plan is None:
            return
        if self._is_capturing():  # the step becomes part of a CUDA graph, and is not run now
            return
        if not self._calls and not self._stretched:
            self._waits_no_more()
        self._calls += 1
        self._most_replays = max(self._most_replays, *self._replays.values(), 0)
        self._replays.clear()
        if self._looks and self._outside is not None:
            self._looks = not self._outside.stepped()
        next(self._plan, None)

    def _follow(self) -> Generator[None, None, None]:
        """Does what is due after each call of the optimizer; each ``yield`` waits for the next one."""
        warmup = max(self._spec["warmup"], 1)  # the first call ends a step that nobody saw begin
        number = captured = 0
        while number < warmup:
            yield
            # a server captures a graph for each batch size before it serves: steps between captures are no steady ones
            anew = captured < self._captures.seen <= MOST_CAPTURES
            number, captured = 1 if anew else number + 1, self._captures.seen
            self._progress.say("warm-up", number, warmup)
        self._captures.end()
        if self._stretched:
            self._waits_no_more()
            self._forget()
            if self._device() == "cuda":
                self._refused.append("CUPTI is attached in the clean steps: nothing ended a step for long before them")
        # asked only now: before its first step a program may not have used the GPU yet
        device = self._device()
        self.settings = machine_torch.settings()
        if self._spec["tool"] == TIMES:
            yield from self._take_turn(device)
        if self._repeated is None:
            self._unheld = machine_torch.quietly(unheld)
        if device == "cpu":
            yield from self._record(device)
            yield from self._time(device)
        else:
            yield from self._time(device)
            yield from self._record_lightly(device)
            yield from self._record(device)
        yield from self._sample(device)
        yield from self._compare()
        self._let_it_run()

    def _let_it_run(self) -> None:
        """Nothing more is asked of the program, which goes on to its end."""
        self.has_all = True
        self._keep()
        ends = "" if self._spec.get("rank") is not None else "; Ctrl+C ends it and keeps all"
        self._progress.say(f"recorded, the program runs on{ends}")

    def _time(self, device: str) -> Iterator[None]:
        if not self._spec["clean_steps"]:
            return
        synchronize(device)
        if (alone := ranks.meet(self._spec, "clean")) is not None:
            self._refused.append(alone)
        self._clean = Marks(device)
        self._pauses.begin()
        self._clean.add()
        for number in range(self._spec["clean_steps"]):
            yield
            self._clean.add()
            self._progress.say("clean", number + 1, self._spec["clean_steps"])
        self._pauses.end()
        synchronize(device)
        self._keep()

    def _sample(self, device: str) -> Iterator[None]:
        attached = device != "cpu" and bool(self._passes)
        self._sampling = Sampling({**self._spec, "device": device}, self._clean, self._progress, attached=attached)
        while self._sampling.goes_on():
            yield
            self._sampling.step()
        self._refused += self._sampling.skipped
        if self._sampling.steps:
            self._keep()

    def _compare(self) -> Iterator[None]:
        """Looks, last of all since it is slow, for what steps compute with in vain, or anew with the same result."""
        if not self._spec["clean_steps"] or self._spec.get("rank") is not None or not unchanged.is_eager():
            return
        if self._by_hand:  # the program goes on afterwards, and must not fail in this
            return
        given = Spare()
        for number in range(unchanged.STEPS):
            yield
            self._progress.say("comparing", number + 1, 2 * unchanged.STEPS)
        self._spare = given.end()
        try:
            self._looked = looked = unchanged.Unchanged()
        except ImportError:  # this torch has no modes
            return
        for number in range(unchanged.STEPS):
            yield
            looked.step()
            self._progress.say("comparing", unchanged.STEPS + number + 1, 2 * unchanged.STEPS)
        looked.end()
        self._unchanged, self._in_vain = looked.found(), looked.in_vain()
        self._keep()

    def gives_up_comparing(self, error: Exception) -> bool:
        """Whether the program failed while it was looked at operator by operator, which some operators do not bear.

        By then all else has been measured, and is kept.
        """
        if self._looked is None or not self._looked.looks:
            return False
        self._refused.append(f"results of steps were not compared: the program failed under it ({in_a_line(error)})")
        return True

    def _take_turn(self, device: str) -> Iterator[None]:
        """Times steps for a while and ends the program, whose next turn is another process."""
        begun, most = time.monotonic(), self._spec.get("most_warmup") or sys.maxsize
        # the GPU's clocks need that long, and what a loader's workers have made in advance is used up
        warms = device != "cpu" or "outside" in self._spec
        while warms and time.monotonic() - begun < self._spec["warmup_s"] and self._calls < most:
            yield
        if self._spec.get("turns") and self._outside is not None:
            self._turns = Turns(self._spec["turns"], self._outside, device, self._progress, self._keep)
            yield from self._turns.follow()
            raise SystemExit(0)
        synchronize(device)
        self._clean = Marks(device)
        self._clean.add()
        begun = time.monotonic()
        while self._clean.steps < LEAST_STEPS or time.monotonic() - begun < self._spec["block_s"]:
            yield
            self._clean.add()
            self._progress.say("measuring", self._clean.steps)
        synchronize(device)
        raise SystemExit(0)

    def _record_lightly(self, device: str) -> Iterator[None]:
        with self._unwatched():
            self._light, refused = started_light({**self._spec, "device": device})
        self._refused += refused
        if self._light is None:
            return
        for _ in range(LIGHT_WARMUP):
            yield
        self._light.begin()
        for number in range(self._spec["light_steps"]):
            yield
            self._light.step()
            self._progress.say("light", number + 1, self._spec["light_steps"])
        self._end_light()

    def _record(self, device: str) -> Iterator[None]:
        self._start()
        self._rich = Marks(device)
        self._rich.add()
        for number in range(self._spec["steps"]):
            yield
            self._rich.add()
            self._progress.say("profiling", number + 1, self._spec["steps"])
            if number + 1 < self._spec["steps"]:
                self._profiler.step()  # type: ignore[union-attr]
        self.stop()

    # --- what is recorded

    def _start(self) -> None:
        import torch
        from torch.profiler import ProfilerAction, ProfilerActivity, profile

        if self._done or self._profiler is not None:
            return
        activities = [ProfilerActivity.CPU]
        if torch.cuda.is_available():
            torch.cuda.synchronize()
            activities.append(ProfilerActivity.CUDA)
        self.settings = machine_torch.settings() if self.settings is None else self.settings
        self._profiler = profile(
            activities=activities,
            schedule=lambda _: ProfilerAction.RECORD,  # without a schedule it would mark no steps
            **with_collections(),
            record_shapes=True,
            profile_memory=self._spec["with_memory"],
            with_stack=self._spec["with_stack"],
        )
        with self._unwatched():
            self._profiler.start()
        self._profiler.add_metadata_json("tracetui", json.dumps(about(self._spec)))
        self._progress.say("profiling", 0, self._spec["steps"])

    def _end_light(self) -> None:
        recording, self._light = self._light, None
        if recording is None:
            return
        if recording.steps:
            self._passes.append(recording.finish())
            self._keep()
        else:
            recording.drop()

    def stop(self) -> None:
        """Ends the recording that is under way, if there is one, and writes it."""
        import torch

        self._waits_no_more()
        self._captures.end()
        if self._sampling is not None:
            self._sampling.end()
        if self._looked is not None:
            self._looked.end()
        if self._light is not None:
            self._end_light()
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return
        self._done = True
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        profiler.stop()
        self._progress.say("writing")
        profiler.export_chrome_trace(str(Path(self._spec["out"]) / ranks.file_of(self._spec, TRACE)))
        recorded = rich_pass(self._spec, self._rich)
        by_time = self._plan is None or self._stretched
        self._passes.append({**recorded, "steps": None} if by_time else recorded)
        self._keep()

    def _is_capturing(self) -> bool:
        import torch

        return self._device() == "cuda" and torch.cuda.is_current_stream_capturing()

    def _device(self) -> str:
        """``cuda`` if the program uses a GPU so far; to ask whether there is one must not make it use one."""
        import torch

        return "cuda" if self._spec["device"] != "cpu" and torch.cuda.is_initialized() else "cpu"

    # --- what is said of it

    def measured(self) -> dict[str, Any]:
        """What was timed and recorded, for run.json."""
        with contextlib.suppress(RuntimeError):  # the program may have left the GPU in an error
            synchronize(self._device())
        rich = next((recorded for recorded in self._passes if recorded["name"] == "rich"), None)
        return {
            "files": [*(recorded["file"] for recorded in self._passes), *self._captures.files],
            "clean_step_ns": self._clean.step_ns(),
            "clean_host_ns": self._clean.host_ns(),
            "clean_gc_ns": self._clean.spent_ns(self._pauses),
            "profiled_step_ns": rich["step_ns"] if rich else [],
            "passes": self._passes,
            "unchanged": self._unchanged,
            "in_vain": self._in_vain,
            "unheld": self._unheld,
            "spare": self._spare,
            "sampled": None if self._sampling is None else self._sampling.measured(),
            "step_of": self._step_call() if self._calls and not self._stretched else None,
            **({"calls": self._calls} if self._spec["tool"] == TIMES else {}),
            **({"turns": self._turns.told()} if self._turns is not None else {}),
        }

    def _step_call(self) -> str:
        """What ends a step, as a program calls it."""
        if self._by_hand:
            return "recording.step()"
        if self._replayed is not None:
            return "CUDAGraph.replay()"
        if self._function is not None:
            return self._function
        if self._repeated is None:
            return "optimizer.step()"
        return f"{self._rounds()}{self._repeated}.forward()"

    def _rounds(self) -> str:
        return f"{self._round} × " if self._round > 1 else ""

    def notes(self) -> list[str]:
        """What a reader of the steps has to know."""
        told = self._captures.told()
        if self._stretched:
            told.append(f"nothing ended a step for {NO_STEP_S:g} s: {STRETCH_S:g} s were recorded, as --window does")
        elif self._replayed is not None:
            return ["steps are the replays of a CUDA graph, of which the program's steps are part", *told]
        elif self._function is not None:
            return [f"steps are the calls of {self._function}, since nothing else ended one", *told]
        if self._repeated is None or self._stretched:
            return told
        calls = "the calls" if self._round == 1 else f"rounds of {self._round} calls"
        return [f"steps are {calls} of {self._repeated}, since the program had no optimizer when it began", *told]

    def skipped(self) -> list[str]:
        """What was asked for and not done, a line each."""
        spec = self._spec
        if spec["tool"] == TIMES:
            return []
        if spec.get("window"):
            asked = bool(spec["clean_steps"] or spec.get("light_steps"))
            return ["no clean steps and no light recording: --window has no steps to time"] if asked else []
        if self._stretched:
            return [*self._refused, "no clean steps and no light recording: nothing ended a step"]
        if not self._calls:  # there is no recording, and that is an error with a line of its own
            return self._refused
        lines: list[str] = []
        if self._clean.steps < spec["clean_steps"]:
            lines.append(f"{self._clean.steps} of {spec['clean_steps']} steps were timed without a profiler")
        asked_of = {"light": spec.get("light_steps", 0), "rich": spec["steps"]}
        lines += [
            f"{recorded['steps']} of {asked_of[recorded['name']]} steps are in {recorded['file']}"
            for recorded in self._passes
            if recorded["steps"] < asked_of[recorded["name"]]
        ]
        if self._sampling is not None and self._sampling.cut_short is not None:
            lines.append(self._sampling.cut_short)
        if lines:
            calls = "optimizer steps" if self._repeated is None else f"calls of {self._rounds()}{self._repeated}"
            calls = calls if self._function is None else f"calls of {self._function}"
            calls = "steps" if self._by_hand or self._replayed is not None else calls
            lines[0] = f"the program ended early, after {self._calls} {calls}: {lines[0]}"
        return self._refused + lines

    def check(self) -> None:
        """Reports that the program ended before anything was recorded."""
        spec = self._spec
        if spec["tool"] == TIMES:
            if not self._clean.steps and self._turns is None and not (self._spec.get("outside") or {}).get("ends"):
                raise Refused(
                    f"the program ended before a step was timed: it called {self._step_call()} {self._calls} times"
                )
            return
        if self._done and (self._plan is None or self._stretched or self._rich.steps):
            return
        if self._plan is not None and not self._calls and self._repeated is None:
            raise Refused(
                "the program ended and had no steps to record: it called no optimizer.step() and repeated no module; "
                "record a stretch of time: --window DELAY+LENGTH"
            )
        warmup = max(spec["warmup"], 1)
        before, advice = f"{warmup}", "lower --warmup"
        if self._device() != "cpu":
            lightly = LIGHT_WARMUP + spec["light_steps"] if spec["light_steps"] else 0
            before = f"{warmup + spec['clean_steps'] + lightly} ({warmup} to warm up, {spec['clean_steps']} timed "
            before += f"without a profiler, {lightly} recorded lightly)"
            left = self._calls - warmup - spec["steps"]
            fits = f"--clean-steps {left} --no-light fits"
            advice = fits if left > 0 else "lower --warmup, --clean-steps and --steps"
        raise Refused(
            f"the program ended before a step was recorded: it called {self._step_call()} {self._calls} times, and "
            f"recording begins after {before}; {advice}, or record a stretch of time: --window DELAY+LENGTH"
        )
