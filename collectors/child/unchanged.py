"""What a program computes anew in each step although the result is the same: operators are compared bit by bit.

For some steps after everything is recorded, each operator of the program's own thread is followed by sums of its
results, kept on the device. Where the operators of a line or function of the program yield the same in all of these
steps, that place is told, and which calls of the step they are: of each operator's name so many, counted from 0.
So are operators that yield what another one of their name has yielded before them in the same step.
"""

from __future__ import annotations

import contextlib
import re
import sys
import sysconfig
import threading
from collections import Counter
from pathlib import Path
from typing import Any, Tuple

from .hand import replace
from .uses import Uses, is_new

STEPS = 3
MOST_PLACES, MOST_OPERATORS = 16, 20_000
LEAST_CHANGING = 0.2
"""Of a step's operators: where fewer yield something new, the program was given the same input again."""
SAMPLED = 16
"""Numbers of each result that are compared as they are, since sums of what was put into another order are equal."""
_MAKES_SPACE = re.compile(r"^aten::(new_)?(empty|zeros|ones|full)|::(fill|zero)_$")
"""What is written into afterwards must be made anew."""
_COPIES_WITHIN = {"aten::to": "aten::_to_copy", "aten::contiguous": "aten::clone", "aten::reshape": "aten::clone"}
"""What copies within operators that inference mode shows whole, and that often only look at what is there."""
_LIBRARIES = tuple(
    {str(Path(sysconfig.get_paths()[name])) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    | {str(Path(__file__).parent)}
)

_BACKWARD = ("backward", "grad", "_engine_run_backward")

Place = Tuple[str, int, str, int]
"""A file, the first line of a function, its name, and the line that runs there, or 0 for all of them."""


def is_eager() -> bool:
    """Whether the program's operators can be looked at one by one: nothing of it is compiled or captured."""
    counted = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    return not any(counted.values()) and not _is_capturing()


def _is_capturing() -> bool:
    import torch

    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


class Unchanged:
    """Compares the results of the operators of some steps of the thread that makes it."""

    def __init__(self) -> None:
        """Begins to look at the thread's operators."""
        import torch
        from torch.utils._python_dispatch import TorchDispatchMode

        looker, self._thread = self, threading.get_ident()

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                result = func(*args, **(kwargs or {}))
                if looker.problem is None:
                    if threading.get_ident() == looker._thread:
                        looker.seen(func, (args, kwargs), result)
                    else:
                        looker.uses.saw(func, (args, kwargs), result, None, ())
                return result

        self.problem: str | None = None
        self.uses = Uses()
        self._steps: list[list[tuple[tuple[Place, ...], str, list[Any]]]] = [[]]
        self._make = Mode
        self._mode: Any = Mode()
        self._mode.__enter__()
        self._undo = [replace(torch.inference_mode, name, self._renewed) for name in ("__enter__", "__exit__")]

    @property
    def looks(self) -> bool:
        """Whether operators are looked at now."""
        return self._mode is not None

    def step(self) -> None:
        """A step has ended."""
        self._steps.append([])
        self.uses.step()

    def end(self) -> None:
        """Looks no more."""
        import torch

        mode, self._mode = self._mode, None
        self.uses.end()
        if mode is not None:
            mode.__exit__(None, None, None)
        if not torch.is_inference_mode_enabled():
            self._leave()

    def _leave(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _renewed(self, original: Any, args: Any, named: Any) -> Any:
        """Where inference mode begins or ends, it sets the thread's modes in or out of use as they were before."""
        import torch

        result = original(*args, **named)
        if threading.get_ident() == self._thread:
            mode = self._make() if self._mode is None else self._mode
            if self._mode is None:  # in use without one, torch would fail
                mode.__enter__()
                mode.__exit__(None, None, None)
                if not torch.is_inference_mode_enabled():
                    self._leave()
            else:
                mode.__exit__(None, None, None)
                mode.__enter__()
        return result

    def seen(self, func: Any, given: Any, result: Any) -> None:
        """Keeps what tells the results of an operator from others, unless it only looks at what is there."""
        try:
            led, returns, name = frames(), func._schema.returns, func._schema.name
            if returns and all(each.alias_info is not None and not each.alias_info.is_write for each in returns):
                name = _COPIES_WITHIN.get(name, "") if _is_tensor(result) and is_new(result, given) else ""
                if not name:
                    self.uses.saw(func, given, result, -1 if led else None, led)
                    return
            if len(self._steps[-1]) >= MOST_OPERATORS or _is_capturing():
                self.problem = "a CUDA graph is captured" if _is_capturing() else "too many operators"
                return
            outputs = [
                each for each in (result if isinstance(result, (tuple, list)) else (result,)) if _is_tensor(each)
            ]
            self.uses.saw(func, given, result, (len(self._steps[-1]) if outputs else -1) if led else None, led)
            if outputs:
                self._steps[-1].append((led, name, [_told(each) for each in outputs]))
        except Exception as error:  # whatever happens, the program goes on
            self.problem = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"

    def found(self) -> list[dict[str, Any]]:
        """The places, the outermost of each, those with most operators first; none where something went wrong."""
        with contextlib.suppress(Exception):  # whatever happens, the program goes on
            return self._found()
        return []

    def in_vain(self) -> list[dict[str, Any]]:
        """The places of what one step computes and uses in part, those with most operators first."""
        with contextlib.suppress(Exception):  # whatever happens, the program goes on
            return self._in_vain()
        return []

    def _in_vain(self) -> list[dict[str, Any]]:
        if self.problem is not None:
            return []
        groups: dict[Any, list[Any]] = {}
        step = 0
        vain = [each for each in self.uses.found() if not _MAKES_SPACE.search(each[0].name)]
        own = {call.frames[-1][:3] for call, _, decider in vain if decider is None}
        for call, used, decider in vain:
            step = call.step
            # what one function and those that it calls are given alike is one place
            outermost = next((place[:3] for place in call.frames if place[:3] in own), None)
            by = outermost if decider is None else decider.frames[-1:]
            groups.setdefault((used.why, by), []).append((call, used, decider))
        calls = [(led, name) for led, name, _ in self._steps[step]]
        number, seen = _numbers_of_calls(calls)
        told = []
        for (why, _), found in groups.items():
            one, *others = ([part[-1] for part in _parts(call.frames)] for call, _, _ in found)
            common = [part for part in one if all(part in parts for parts in others)]
            decider = found[0][2]
            by = place_words(decider.frames[-1]) if decider is not None and decider.frames else None
            place = place_words(common[-1] if common else found[0][0].frames[-1])
            if why == "dropped" and by is not None:
                place, by = by, None  # what is made for it alone may be made elsewhere
            told.append(
                {
                    **{key: place[key] for key in ("file", "line", "function")},
                    "why": why,
                    "used": sum(used.share for _, used, _ in found) / len(found),
                    "by": by and f"{by['file']}:{by['line']}",
                    "operators": _ranges([call.place for call, _, _ in found], calls, number, seen),
                }
            )
        return sorted(told, key=lambda each: -sum(len(of["calls"]) for of in each["operators"]))[:MOST_PLACES]

    def _found(self) -> list[dict[str, Any]]:
        steps = [[(frames, name, _numbers(told)) for frames, name, told in step] for step in self._steps[:STEPS]]
        first, others = steps[0], [_by_frames(step) for step in steps[1:]]
        if self.problem is not None or not others:
            return []
        alike = {
            frames for frames, done in _by_frames(first).items() if all(step.get(frames) == done for step in others)
        }
        calls, same = [call[:2] for call in first], [frames in alike for frames, _, _ in first]
        work = [not _MAKES_SPACE.search(name) for _, name in calls]
        if sum(not each for each, counts in zip(same, work) if counts) < LEAST_CHANGING * sum(work):
            return []
        changing = {part for (frames, _), each in zip(calls, same) if not each for part in _parts(frames)}
        places: dict[tuple[Place, ...], list[int]] = {}
        for place, ((frames, _), each) in enumerate(zip(calls, same)):
            outermost = next((part for part in _parts(frames) if part not in changing), None) if each else None
            if outermost:
                places.setdefault(outermost, []).append(place)
        number, seen = _numbers_of_calls(calls)
        named: dict[Place, list[int]] = {}  # what is called from several lines is one place
        for frames, at in places.items():
            if any(work[place] for place in at):
                named.setdefault(_within(frames, {calls[place][0] for place in at}), []).extend(at)
        told = [{**place_words(place), "operators": _ranges(at, calls, number, seen)} for place, at in named.items()]
        told += [
            {**place_words(place), "again": True, "operators": _ranges(at, calls, number, seen)}
            for place, at in _again(steps, same).items()
        ]
        return sorted(told, key=lambda each: -sum(len(of["calls"]) for of in each["operators"]))[:MOST_PLACES]


def _numbers_of_calls(calls: list[Any]) -> tuple[list[int], Counter[str]]:
    """Of each call its number among those of its name, and how many of each name there are."""
    number: list[int] = []
    seen: Counter[str] = Counter()
    for _, name in calls:
        number.append(seen[name])
        seen[name] += 1
    return number, seen


def _by_frames(step: Any) -> dict[tuple[Place, ...], Any]:
    found: dict[tuple[Place, ...], Any] = {}
    for frames, *done in step:
        found.setdefault(frames, []).append(done)
    return found


def _again(steps: list[Any], told: list[bool]) -> dict[Place, list[int]]:
    """By place, the operators of a step that yield what others yielded before; none where steps are not alike.

    Args:
        steps: the operators of each.
        told: of each operator, whether it is told already.
    """
    calls = [[call[:2] for call in step] for step in steps]
    if any(each != calls[0] for each in calls):
        return {}
    known: list[set[Any]] = [set() for _ in steps]
    found: dict[Place, list[int]] = {}
    run: list[int] = []
    for place, (frames, name) in enumerate([*calls[0], ((), "")]):
        if _MAKES_SPACE.search(name):
            continue
        results = [(name, repr(step[place][2])) for step in steps] if name else []
        if frames and not told[place] and all(result in seen for result, seen in zip(results, known)):
            run.append(place)
        elif run:
            one, *others = ([part[-1] for part in _parts(calls[0][each][0])] for each in run)
            common = [part for part in one if all(part in parts for parts in others)]
            found.setdefault(common[-1], []).extend(run)
            run = []
        for result, seen in zip(results, known):
            seen.add(result)
    return found


def _parts(frames: tuple[Place, ...]) -> list[tuple[Place, ...]]:
    """The beginnings of a stack, the shortest first: to a function and all of its lines, then to one line of it."""
    found = []
    for size, place in enumerate(frames):
        found += [(*frames[:size], (*place[:3], 0)), frames[: size + 1]]
    return found


def _within(outermost: tuple[Place, ...], stacks: set[tuple[Place, ...]]) -> Place:
    """The innermost function that all of it is in, where that is further in; else the place itself."""
    one, *others = map(_parts, stacks)
    common = [part for part in one if all(part in parts for parts in others)]
    functions = [part for part in common[common.index(outermost) :] if not part[-1][3]]
    return functions[-1][-1] if functions else outermost[-1]


def place_words(place: Place) -> dict[str, Any]:
    """A place as run.json has it."""
    file, first, function, line = place
    folder = Path.cwd()
    path = Path(file)
    return {
        "file": str(path.relative_to(folder)) if folder in path.parents else path.name,
        "line": line or first,
        "function": function,
        "whole": not line,
    }


def _ranges(at: list[int], calls: Any, number: list[int], seen: Any) -> list[dict[str, Any]]:
    """Of each operator's name: which calls of the step they are, of how many."""
    found: dict[str, list[int]] = {}
    for place in at:
        found.setdefault(calls[place][1], []).append(number[place])
    return [{"name": name, "of": seen[name], "calls": which} for name, which in found.items()]


def is_programs(file: str) -> bool:
    """Whether a function's file is the program's own: of no library, and not ours."""
    return not file.startswith((*_LIBRARIES, "<")) and "-packages/" not in file


def frames() -> tuple[Place, ...]:
    """The program's own functions that led here, the outermost first; none of what a backward pass does."""
    frame: Any = sys._getframe(2)
    found = []
    while frame is not None:
        code = frame.f_code
        if code.co_name in _BACKWARD and "/torch/autograd/" in code.co_filename:
            return ()
        if is_programs(code.co_filename):
            found.append((code.co_filename, code.co_firstlineno, code.co_name, frame.f_lineno))
        frame = frame.f_back
    return tuple(reversed(found))


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _told(value: Any) -> Any:
    """The sum of a tensor's bits as whole numbers, and some of these; of what has none in memory its shape."""
    import torch

    if value.layout is not torch.strided or not value.numel() or value.device.type == "meta":
        return (str(value.layout), tuple(value.shape))
    flat = value.detach().contiguous().reshape(-1)
    if flat.is_complex() or flat.element_size() not in _WHOLE:
        flat = flat.view(torch.uint8)
    bits = flat.view(getattr(torch, _WHOLE[flat.element_size()]))
    some = bits[:: max(1, bits.numel() // SAMPLED)][:SAMPLED]
    return torch.cat((bits.sum(dtype=torch.int64).reshape(1), some.to(torch.int64)))


_WHOLE = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}


def _numbers(told: list[Any]) -> Any:
    return [each.tolist() if hasattr(each, "tolist") else each for each in told]
