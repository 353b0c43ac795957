"""The light recording's GPU work in the rich one: what the order, the names and the grids tell, and what is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from made_frames import EMPTY, made_trace
from sample_runs import run_of

from tracetui.analysis.matching.light_times import (
    MORE_OFTEN,
    NO_STEPS,
    NOT_THERE,
    OTHER_GRID,
    OUTSIDE,
    match_passes,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.parsers import Trace

PASSES = "two_passes"


def recording(*steps: Sequence[Any], before: Sequence[Any] = (), slow: int = 1) -> Trace:
    """Steps of launches; each is a name, or (name, the width of its grid), or (name, width, when its call begins)."""
    host: list[dict[str, Any]] = []
    device: list[dict[str, Any]] = []
    marks: list[dict[str, Any]] = []
    now = 0
    for number, work in ((-1, before), *enumerate(steps)):
        begin = now
        for one in work:
            name, grid, *more = one if isinstance(one, tuple) else (one, 1)
            call = begin + more[0] if more else now
            host.append({"kind": "runtime", "name": "cudaLaunchKernel", "start": call, "duration": 2, "depth": 0})
            is_copy = name.startswith("Memcpy")
            row = {"kind": "memcpy" if is_copy else "kernel", "name": name, "start": now + 5, "duration": 3 * slow}
            row |= {"launch": len(host) - 1, "step": None if number < 0 else number, "stream": 7, "device": 0}
            device.append(row | {"grid": None if is_copy else [grid, 1, 1]})
            now += 10 * slow
        if number >= 0:
            marks.append({"index": number + 1, "name": f"step {number + 1}", "start": begin, "duration": now - begin})
    return made_trace(steps=marks, host=host, device=device)


def test_steps_are_compared_in_turn() -> None:
    step = ["a", ("b", 2), "a", "Memcpy HtoD (Pinned -> Device)"]
    light = recording(step, step, step, before=step)
    rich = recording(step, step, slow=4)
    found = match_passes(light, rich)
    assert found.rich_step.tolist() == [0, 1, 0]
    assert found.rich_row.tolist() == [-1] * 4 + [0, 1, 2, 3] + [4, 5, 6, 7] + [0, 1, 2, 3]
    assert (found.in_steps, found.matched, found.percent) == (12, 12, 100)
    assert found.unmatched == {OUTSIDE: 4}
    assert found.rich_unmatched == 0


def test_what_has_no_partner_is_counted_by_its_reason() -> None:
    light = recording(["a", "new", ("b", 3), "c", "c"])
    rich = recording(["a", ("b", 2), "c", "gone"])
    found = match_passes(light, rich)
    assert found.rich_row.tolist() == [0, -1, -1, 2, -1] or found.rich_row.tolist() == [0, -1, -1, -1, 2]
    assert found.unmatched == {NOT_THERE: 1, OTHER_GRID: 1, MORE_OFTEN: 1}
    assert found.rich_unmatched == 2
    assert found.percent == pytest.approx(40)


def test_threads_that_took_turns_differently_are_paired_by_kind() -> None:
    light = recording(["f1", "g1", "f2", "g2", "f3", "g3"])
    rich = recording(["g1", "g2", "g3", "f1", "f2", "f3"])
    found = match_passes(light, rich)
    assert found.rich_row.tolist() == [3, 0, 4, 1, 5, 2]


def test_the_order_is_that_of_the_launches_not_of_the_work() -> None:
    light = recording([("a", 1, 0), ("a", 2, 4), ("a", 1, 2)])  # the third was launched before the second
    rich = recording([("a", 1), ("a", 1), ("a", 2)])
    assert match_passes(light, rich).rich_row.tolist() == [0, 2, 1]


def test_recordings_without_steps_or_work() -> None:
    work = recording(["a", "b"])
    without = match_passes(work, EMPTY)
    assert without.unmatched == {NO_STEPS: 2}
    assert without.rich_row.tolist() == [-1, -1]
    assert without.rich_step.tolist() == [-1]
    nothing = match_passes(EMPTY, work)
    assert (nothing.in_steps, nothing.percent, nothing.unmatched, nothing.rich_unmatched) == (0, None, {}, 0)
    unmarked = match_passes(recording(before=["a", "b"]), work)
    assert (unmarked.unmatched, unmarked.percent) == ({OUTSIDE: 2}, None)


def test_of_a_real_run_every_launch_is_found() -> None:
    run = run_of(PASSES)
    assert run.light is not None
    found = match_passes(run.light, run.main)
    assert (found.in_steps, found.matched) == (12 * 121, 12 * 121)
    assert found.unmatched == {OUTSIDE: 2 * 121}  # the two steps that warmed the recording up
    assert found.rich_unmatched == 0
    rows = np.flatnonzero(found.rich_row >= 0)
    ours, theirs = run.light.device[rows], run.main.device[found.rich_row[rows]]
    for column in ("kind", "grid", "block", "stream"):
        assert ours[column].equals(theirs[column], null_equal=True), column
    assert ours["name"].cast(str).equals(theirs["name"].cast(str))
    # the same work takes about the same time, which no wrong pairing of 24 kinds of kernels would show
    assert np.corrcoef(ours["duration"].to_numpy(), theirs["duration"].to_numpy())[0, 1] > 0.99
    assert theirs["operator"].null_count() < theirs.height
    assert ours["operator"].null_count() == ours.height
