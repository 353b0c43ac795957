"""Repeats of one configuration: which runs of a folder are some, and how two sets of them differ.

Steps of one process resemble each other more than those of two: memory, clocks and neighbours fall out once per run. So
a run counts as one value, its median step, and what differs by chance is told by how far the runs are apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median, variance

from msgspec import Struct

from tracetui.analysis.compare.comparable import settings_apart
from tracetui.analysis.compare.compared_passes import CLEAN, LIGHT, RECORDED, durations
from tracetui.analysis.compare.step_difference import CONFIDENCE, POWER, quantile, reach
from tracetui.analysis.matching.light_times import light_selection, with_light_times
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import Selection, in_steps
from tracetui.parsers.runs import manifest as run_manifest


def runs_in(folder: Path) -> tuple[tuple[Path, ...], str]:
    """The folders of the repeats in a folder, and why its runs are none; nothing of both where it holds fewer than two.

    Repeats have a run.json each, and these name the same workload and settings.
    """
    if (folder / "run.json").exists():
        return (), ""
    read = [(file.parent, run_manifest.load(file.parent)) for file in sorted(folder.glob("*/run.json"))]
    runs = [(path, manifest) for path, manifest in read if manifest is not None]
    if len(runs) < 2:
        return (), ""
    base = runs[0][1]
    apart = [field for _, manifest in runs[1:] for field in settings_apart(base, manifest)]
    return ((), ", ".join(dict.fromkeys(apart))) if apart else (tuple(path for path, _ in runs), "")


class TypicalStep(Struct, frozen=True):
    """The median step of a run by what it is of, ns; None where the run has no such steps."""

    clean_ns: float | None
    light_ns: float | None
    """Not looked for where there are clean steps."""
    recorded_ns: float | None

    @classmethod
    def of(cls, sel: Selection) -> TypicalStep:
        """That of a selection: of a part of a run as recorded."""
        whole = sel.scope == Scope()
        clean = sel.trace.clean_step_ns if whole else ()
        light = light_selection(with_light_times(sel)) if whole and not clean else None
        recorded = durations(in_steps(sel.recorded)).tolist()
        return cls(
            float(median(clean)) if clean else None,
            None if light is None else float(median(durations(in_steps(light)).tolist())),
            float(median(recorded)) if recorded else None,
        )


class RunsDifference(Struct, frozen=True):
    """By how much the runs of B differ from those of A: each run's typical step is one value, ns."""

    rests_on: str
    """`CLEAN`, `LIGHT` or `RECORDED`."""
    a_runs_ns: tuple[float, ...]
    b_runs_ns: tuple[float, ...]
    noise_ns: float
    """Half of the 95 % interval of the difference of the means, by Student's t."""
    detectable_ns: float
    """The smallest true difference that four of five such sets of runs would show."""

    @property
    def a_ns(self) -> float:
        """The mean of A's runs."""
        return mean(self.a_runs_ns)

    @property
    def b_ns(self) -> float:
        """The mean of B's runs."""
        return mean(self.b_runs_ns)

    @property
    def delta_ns(self) -> float:
        """Positive where B takes longer."""
        return self.b_ns - self.a_ns

    @property
    def beyond_noise(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.beyond(1.0)

    def beyond(self, times: float) -> bool:
        """The same for an interval so many times as wide."""
        return abs(self.delta_ns) > times * self.noise_ns

    def percent(self, ns: float) -> float:
        """A time in percent of A's mean."""
        return 100 * ns / self.a_ns


def between_runs(a: Sequence[TypicalStep], b: Sequence[TypicalStep]) -> RunsDifference | None:
    """Compares repeats by the steps nearest to the program that all have; None without repeats or steps of all."""
    for rests_on in (CLEAN, LIGHT, RECORDED):
        ours, theirs = ([getattr(run, f"{rests_on}_ns") for run in runs] for runs in (a, b))
        if all((*ours, *theirs)) and max(len(ours), len(theirs)) > 1:
            return runs_difference(rests_on, ours, theirs)
    return None


def runs_difference(rests_on: str, a: Sequence[float], b: Sequence[float]) -> RunsDifference:
    """Compares values of runs, of which one side at least has several.

    The degrees of freedom are those of the runs (Welch); a single run is taken to vary as the other side does.
    """
    parts = [(variance(runs) / len(runs), len(runs) - 1) for runs in (a, b) if len(runs) > 1]
    if len(parts) == 1:
        (part, freedom) = parts[0]
        error, known = math.sqrt(part * (freedom + 2)), float(freedom)
    else:
        whole = sum(part for part, _ in parts)
        error = math.sqrt(whole)
        known = whole**2 / sum(part**2 / free for part, free in parts) if whole else float(parts[0][1])
    noise = quantile((1 + CONFIDENCE) / 2, known) * error
    return RunsDifference(rests_on, tuple(a), tuple(b), noise, noise * reach((1 + CONFIDENCE) / 2, POWER, known))


def middle(runs: Sequence[TypicalStep], rests_on: str) -> int:
    """Which of the repeats has the median step: the lower of the two in the middle of an even number."""
    steps = [getattr(run, f"{rests_on}_ns") for run in runs]
    return sorted(range(len(steps)), key=steps.__getitem__)[(len(steps) - 1) // 2]
