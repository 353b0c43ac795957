"""Runs the variants of each change of a run's options in turns, and makes a proof of what was timed."""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from tracetui.collectors import process, profiler_commands, reasons
from tracetui.collectors.folder import OWN_ONLY, put_program
from tracetui.collectors.machine.masking import masked
from tracetui.collectors.machine.recording import tracetui_version
from tracetui.collectors.process import Follower, Tick
from tracetui.collectors.request import ProfileError
from tracetui.collectors.torchrun import python_options
from tracetui.parsers.runs.proofs import FILE, SCHEMA, Claim
from tracetui.parsers.runs.side_files import read_text
from tracetui.parsers.written import scratch

TOOL = "prove"
"""As `child.script.TIMES`, and in the names of the files that the child reads and writes."""
WARMUP_S = 3.0
"""On a GPU each variant warms up for so long at least, as `tracetui profile` does."""
WARMUP_STEPS = 5
TURN_S = 3.0
"""How long a program of one's own is timed in each of its processes."""
ROUNDS, LEAST_ROUNDS = 12, 2
ROUNDS_OF_PROCESSES = 3
"""Rounds where each turn is a process, which must start and warm up."""
BLOCK_S = 0.15
"""The length of a turn in one process."""
COMPARED = 1 << 16
"""How many numbers of the results are compared."""


@dataclass(frozen=True)
class Trial:
    """One change to measure."""

    change: str
    """As options: ``--attention fused``."""
    options: dict[str, Any] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    """Of a program of one's own: the changed command."""
    claims: tuple[Claim, ...] = ()
    agrees: bool = True
    """Whether both variants compute the same, but for rounding."""

    @property
    def compares(self) -> bool:
        """Whether the results of both variants can be put side by side: they are of the same samples."""
        return not self.command and not {"batch", "workers", "data", "seed", "img_size", "ctx"} & self.options.keys()


@dataclass(frozen=True)
class ProveRequest:
    """What to measure of a run."""

    output: Path
    """The folder that gets the proofs."""
    trials: tuple[Trial, ...]
    entry: str | None = None
    """The run's model; None for a program of one's own."""
    options: dict[str, Any] = field(default_factory=dict)
    """The options that it ran with."""
    command: tuple[str, ...] = ()
    """The program as it was run."""
    device: str = "cuda"
    recorded_on: tuple[str, ...] = ()
    """The GPUs of the recording; empty where they are not known."""
    rounds: int | None = None
    timeout_s: float | None = None
    """For each process."""
    limited_by: str = "--timeout"
    """The option that says so."""
    python: str = sys.executable

    @property
    def processes_rounds(self) -> int:
        """Rounds where each turn is a process."""
        return self.rounds or ROUNDS_OF_PROCESSES


def child_spec(request: ProveRequest, folder: Path, variants: list[dict[str, Any]], trial: Trial) -> dict[str, Any]:
    """What the child of a model reads: its variants take turns in its process.

    Args:
        request: what to measure.
        folder: the working folder.
        variants: the options of each.
        trial: the change.
    """
    both = len(variants) > 1
    return {
        **_common(request, folder),
        "registry": f"{profiler_commands.MODELS}.registry",
        "entry": request.entry,
        "variants": variants,
        "rounds": (request.rounds or ROUNDS) if both else 1,
        "block_s": BLOCK_S if both else TURN_S,
        "check": COMPARED if trial.compares else 0,
    }


def program_spec(request: ProveRequest, folder: Path, command: tuple[str, ...]) -> dict[str, Any]:
    """What the child of a program of one's own reads: it times one turn."""
    script = [command[0], *command[1 + len(python_options(command)) :]]
    return {**_common(request, folder), "entry": None, "script": script, "block_s": TURN_S, "clean_steps": 0}


def _common(request: ProveRequest, folder: Path) -> dict[str, Any]:
    return {
        "run_id": "",
        "tool": TOOL,
        "out": str(folder),
        "progress": str(folder / profiler_commands.PROGRESS),
        "ranked": False,
        "device": request.device,
        "warmup": WARMUP_STEPS,
        "warmup_s": WARMUP_S,
    }


def _words_of(request: ProveRequest, folder: Path) -> tuple[str, ...]:
    program = folder / profiler_commands.PROGRAM
    return (
        request.python, *python_options(request.command), "-u", str(program / profiler_commands.START),
        str(program / profiler_commands.SPEC.format(TOOL)),
    )  # fmt: skip


def check_writable(folder: Path) -> None:
    """Reports before anything is measured that the folder can't be written.

    Raises:
        ProfileError: it can't; says what to do.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        scratch = folder / f"{FILE}.partial"
        scratch.touch(mode=OWN_ONLY)
        scratch.unlink()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ProfileError(f"{folder}: {why}; --output DIR writes the proofs elsewhere") from error


def add(folder: Path, proofs: Sequence[dict[str, Any]]) -> Path:
    """Adds proofs; one of the same change replaces the earlier one, unless only the earlier one was measured.

    Raises:
        ProfileError: the file can't be written.
    """
    target = folder / FILE
    known = {_key(proof): proof for proof in _read(target)}
    for proof in proofs:
        before = known.get(_key(proof))
        if proof.get("gain_ns") is None and before is not None and before.get("gain_ns") is not None:
            continue
        known.pop(_key(proof), None)
        known[_key(proof)] = proof
    scratch = target.with_name(f"{FILE}.partial")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        scratch.touch(mode=OWN_ONLY)
        scratch.write_text(json.dumps({"schema": SCHEMA, "proofs": list(known.values())}, indent=1) + "\n")
        scratch.replace(target)
    except OSError as error:
        raise ProfileError(f"{target}: {(error.strerror or str(error)).lower()}") from error
    return target


def _key(proof: dict[str, Any]) -> str:
    listed = (proof.get(name) or [] for name in ("changes", "beside"))
    return json.dumps([proof.get("options"), proof.get("command"), *listed], sort_keys=True)


def _read(target: Path) -> list[dict[str, Any]]:
    try:
        found = json.loads(read_text(target))
        proofs = found["proofs"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return []
    return [proof for proof in proofs if isinstance(proof, dict)] if isinstance(proofs, list) else []


CONFIDENCE = 0.95
_T_975 = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)
"""Quantiles of Student's t for 1 to 10 degrees of freedom, two-sided 95 %; of more, the last is a little wide."""
FEWEST_BY_ORDER = 6
"""From so many rounds on, the smallest and the largest difference enclose the median with 95 %."""


@dataclass(frozen=True)
class Gain:
    """How much shorter a step became."""

    value: float
    low: float | None
    """Of the 95 % interval; None for a single round."""
    high: float | None


def gain_of(before: Sequence[float], after: Sequence[float], variants: Sequence[Sequence[float]] | None = None) -> Gain:
    """The gain per step, paired by round, so that what slows both down in a round does not count.

    From six rounds on it is the median of the differences, with the interval of the order statistics: it holds for
    differences of any distribution, and one disturbed round moves it by little. Below that it is their mean, with
    Student's t: by how far the differences are apart, or where few rounds tell less of that than the runs of all
    variants do, by how far those are, each around the mean of its variant: they are processes of one program on one
    machine. From one pair alone no interval follows.

    Args:
        before: mean step of each round as it was.
        after: mean step of each round with the change, of as many samples.
        variants: the runs of each variant, of that and of others.
    """
    differences = sorted(one - other for one, other in zip(before, after, strict=True))
    count = len(differences)
    if count >= FEWEST_BY_ORDER:
        at = rank(count)
        return Gain(statistics.median(differences), differences[at], differences[count - 1 - at])
    mean = statistics.fmean(differences)
    groups = [differences] if variants is None else [runs for runs in variants if runs]
    freedom = sum(len(runs) - 1 for runs in groups)
    if freedom < (1 if variants is None else 2):
        return Gain(mean, None, None)
    squares = sum((one - statistics.fmean(runs)) ** 2 for runs in groups for one in runs)
    # a difference is of two runs, each of which varies
    error = math.sqrt(squares / freedom * (1 if variants is None else 2) / count)
    wide = _T_975[min(freedom, len(_T_975)) - 1] * error
    return Gain(mean, mean - wide, mean + wide)


def rank(count: int) -> int:
    """How many of the sorted differences lie below the interval of their median: as many as leave it 95 %."""
    below, chance = 0, 0.5**count
    outside = 2 * chance
    while True:
        chance *= (count - below) / (below + 1)
        if outside + 2 * chance > 1 - CONFIDENCE:
            return below
        outside += 2 * chance
        below += 1


Turns = list[list[int]]
"""Step times in ns, a list for each round."""


@dataclass
class Timed:
    """What was timed of one variant."""

    steps: Turns
    host: Turns
    samples: int | None = None
    checked: dict[str, Any] | None = None


class NotMeasured(Exception):  # noqa: N818  an answer, not an error of the program
    """A change that could not be measured; the text says why in a line."""

    def __init__(self, why: str, *, out_of_memory: bool = False, out_of_time: bool = False) -> None:
        super().__init__(why)
        self.out_of_memory, self.out_of_time = out_of_memory, out_of_time


def measure(request: ProveRequest, trial: Trial, tell: Callable[[Tick], None]) -> dict[str, Any]:
    """Measures one change; returns a proof as `parsers.runs.proofs.Proof` reads it.

    Raises:
        ProfileError: the child can't be started or written for.
        KeyboardInterrupt: it was stopped; nothing of it is kept.
    """
    proof = begun(trial.change, trial.options, trial.command, trial.claims)
    child = Child(request, trial, tell)
    try:
        if trial.command:
            pair, together = child.programs(), False
        else:
            try:
                pair, together = child.together(), True
            except NotMeasured as problem:
                if not problem.out_of_memory:
                    raise
                pair, together = child.apart(), False
        return {**proof, **child.about, "one_process": together, **figures(*pair, should_agree=trial.agrees)}
    except NotMeasured as problem:
        return {**proof, **child.about, "explanation": str(problem)}


def begun(change: str, options: dict[str, Any], command: Sequence[str], claims: Sequence[Claim]) -> dict[str, Any]:
    """What a proof says besides what was measured."""
    return {
        "change": change,
        "options": options,
        "command": list(masked(command)),
        "claims": to_builtins(claims),
        "explanation": None,
        "tracetui_version": tracetui_version(),
        "measured_utc": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def figures(before: Timed, after: Timed, *, should_agree: bool) -> dict[str, Any]:
    """The numbers of a proof.

    Args:
        before: the run as it was.
        after: the changed one.
        should_agree: whether both compute the same, but for rounding.

    Raises:
        NotMeasured: there is no step to compare.
    """
    factor = after.samples / before.samples if before.samples and after.samples else 1.0
    first, second = _means(before.steps), [step / factor for step in _means(after.steps)]
    if not first or len(first) != len(second):
        raise NotMeasured("no step was timed")
    gain = gain_of(first, second)
    return {
        "step_ns": statistics.median(first),
        "changed_ns": statistics.median(second),
        "gain_ns": gain.value,
        "low_ns": gain.low,
        "high_ns": gain.high,
        "host_ns": statistics.median(_means(before.host)),
        "changed_host_ns": statistics.median(step / factor for step in _means(after.host)),
        "batch_factor": factor,
        "rounds": len(first),
        "steps_per_round": [round(statistics.median(map(len, turns))) for turns in (before.steps, after.steps)],
        "round_ns": first,
        "changed_round_ns": second,
        "compared": compared(before.checked, after.checked, should_agree=should_agree),
    }


def compared(
    before: dict[str, Any] | None, after: dict[str, Any] | None, *, should_agree: bool
) -> dict[str, Any] | None:
    """How far the results are apart; None where they can't be put side by side."""
    if not before or not after:
        return None
    one, other = before["numbers"], after["numbers"]
    if len(one) != len(other) or not one or before["what"] != after["what"]:
        return None
    largest = max(abs(a - b) for a, b in zip(one, other, strict=True))
    finite = all(map(math.isfinite, [*one, *other]))
    return {
        "what": before["what"],
        "numbers": len(one),
        "largest": largest if finite else None,
        "scale": max(map(abs, one)) if finite else None,
        "should_agree": should_agree,
    }


def _means(turns: Turns) -> list[float]:
    return [statistics.fmean(steps) for steps in turns if steps]


class Child:
    """Starts the processes of one change."""

    def __init__(self, request: ProveRequest, trial: Trial, tell: Callable[[Tick], None]) -> None:
        self._request, self._trial, self._tell = request, trial, tell
        self.about: dict[str, Any] = {"device": "cpu" if request.device == "cpu" else None}
        """What the child said of itself, as a proof has it."""
        self.result: dict[str, Any] = {}
        """What the last process reported."""

    @property
    def _variants(self) -> list[dict[str, Any]]:
        options = {**self._request.options, "device": self._request.device}
        return [options, {**options, **self._trial.options}]

    def together(self) -> tuple[Timed, Timed]:
        """Both variants in one process."""
        result = self.run(lambda folder: child_spec(self._request, folder, self._variants, self._trial))
        first, second = (_timed(told) for told in result["variants"])
        return first, second

    def apart(self) -> tuple[Timed, Timed]:
        """Each turn a process, as the GPU's memory is too small for both."""
        return self._turns(
            lambda place, folder: child_spec(self._request, folder, [self._variants[place]], self._trial),
            lambda result: _timed(result["variants"][0]),
        )

    def programs(self) -> tuple[Timed, Timed]:
        """Each turn a process of the user's own program."""
        commands = self._request.command, self._trial.command
        return self._turns(
            lambda place, folder: program_spec(self._request, folder, commands[place]),
            lambda result: Timed([result["measurement"]["clean_step_ns"]], [result["measurement"]["clean_host_ns"]]),
        )

    def _turns(
        self, spec: Callable[[int, Path], dict[str, Any]], read: Callable[[dict[str, Any]], Timed]
    ) -> tuple[Timed, Timed]:
        whole = Timed([], []), Timed([], [])
        for number in range(self._request.processes_rounds):
            for place in (0, 1) if number % 2 == 0 else (1, 0):
                turn = read(self.run(partial(spec, place)))
                whole[place].steps += turn.steps
                whole[place].host += turn.host
                whole[place].samples, whole[place].checked = turn.samples, turn.checked
        return whole

    def run(self, make: Callable[[Path], dict[str, Any]], cwd: Path | None = None) -> dict[str, Any]:
        """One process from start to end; returns what it reported.

        Args:
            make: what it is to do, of its working folder.
            cwd: where it runs, if not here.

        Raises:
            NotMeasured: it failed.
        """
        with scratch() as folder:
            try:
                put_program(folder)
                spec = folder / profiler_commands.PROGRAM / profiler_commands.SPEC.format(TOOL)
                spec.write_text(json.dumps(make(folder)))
            except OSError as error:
                raise ProfileError(f"{folder}: {(error.strerror or str(error)).lower()}") from error
            try:
                code = self._followed(folder, cwd)
            finally:  # what was known by then stays known
                try:
                    result = json.loads((folder / f"result.{TOOL}.json").read_text())
                except (OSError, ValueError):
                    result = {}
                self.result = result
                self._learn(result)
            problem = reasons.explain(TOOL, code, result, folder / "log.txt", "time the steps")
        if problem is None:
            return dict(result)
        at = result.get("at")
        where = "" if at is None else ("as it was: " if at == 0 else "with the change: ")
        raise NotMeasured(
            where + problem.removeprefix(f"{TOOL}: ").removesuffix("; see log.txt"),
            out_of_memory=bool(result.get("out_of_memory")),
        )

    def _followed(self, folder: Path, cwd: Path | None) -> int:
        follow = Follower(folder / profiler_commands.PROGRESS, Tick(TOOL, "starting"))

        def tick() -> None:
            state = follow.newest()
            limit = self._request.timeout_s
            if limit is not None and state.elapsed_s > limit:
                why = f"{state.phase} had not ended after {limit:.3g} s ({self._request.limited_by})"
                raise NotMeasured(why, out_of_time=True)
            self._tell(replace(state, tool=self._trial.change))

        words = _words_of(self._request, folder)
        try:
            return process.run(words, folder / "log.txt", tick, cwd=cwd)
        except OSError as error:
            raise ProfileError(f"{words[0]}: {(error.strerror or str(error)).lower()}") from error

    def _learn(self, result: dict[str, Any]) -> None:
        software, devices = result.get("software") or {}, result.get("devices") or []
        if software.get("torch"):
            self.about["torch"] = software["torch"]
        if devices and self._request.device != "cpu":
            index = int(self._request.device.partition(":")[2] or 0)
            name = devices[min(index, len(devices) - 1)].get("name")
            self.about["device"] = name
            if self._request.recorded_on and name not in self._request.recorded_on:
                self.about["recorded_on"] = self._request.recorded_on[0]


def _timed(told: dict[str, Any]) -> Timed:
    return Timed(told["step_ns"], told["host_ns"], told.get("samples"), told.get("checked"))
