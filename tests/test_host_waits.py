"""Why the host was late for the GPU: data, a call that had waited, or launching, by the thread that launches next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from made_run import HGEMM, Made
from sample_runs import run_of

from tracetui.analysis.compare.diff import step_split
from tracetui.analysis.selection import in_steps, select

if TYPE_CHECKING:
    from pathlib import Path

LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def split(folder: Path, *calls: tuple[str, str, float, float, int]) -> dict[str, float]:
    """Two steps of 200 µs: GPU work until 100, then what the host does, and the next launch at 195; µs per step."""
    made = Made()
    for number in range(2):
        begin = 200.0 * number
        made.launch(HGEMM, (begin, begin + 5), (begin + 5, begin + 100))
        for kind, name, start, end, thread in calls:
            made.host(kind, name, begin + start, begin + end, thread)
        made.launch(HGEMM, (begin + 195, begin + 196), (begin + 197, begin + 200))
        made.step(number, begin, begin + 200)
    found = step_split(in_steps(made.facts(folder).sel))
    assert found is not None
    assert found["loader"] + found["synchronisation"] + found["launching"] == pytest.approx(found["host_wait"])
    return {part: ns / 1000 for part, ns in found.items()}


def test_what_the_host_waits_for_is_told_apart(tmp_path: Path) -> None:
    found = split(
        tmp_path,
        ("cuda_runtime", "cudaDeviceSynchronize", 80, 102, 1),  # 22, of which the GPU works for 20
        ("cpu_op", LOADER, 110, 150, 1),
    )
    assert found["loader"] == pytest.approx(40)
    assert found["synchronisation"] == pytest.approx(22)
    assert found["host_wait"] == pytest.approx(97 + 2.5, abs=3)  # the second step begins with the launch


def test_no_call_costs_more_than_the_gap_that_it_reaches_into(tmp_path: Path) -> None:
    found = split(tmp_path, ("cuda_runtime", "cudaStreamSynchronize", 10, 190, 1))
    assert found["launching"] == pytest.approx(2.5, abs=3)
    assert found["synchronisation"] == pytest.approx(97, abs=1)


def test_what_another_thread_waits_for_is_none_of_it(tmp_path: Path) -> None:
    found = split(
        tmp_path,
        ("cpu_op", LOADER, 100, 190, 2),  # fetches ahead
        ("cuda_runtime", "cudaDeviceSynchronize", 50, 190, 3),
    )
    assert (found["loader"], found["synchronisation"]) == (0, 0)


@pytest.mark.parametrize("name", ["chrome/hta_trace_diff/control.json.gz", "chrome/gpt_small_ctx256.trace.json.gz"])
def test_the_parts_of_a_recording_add_up(name: str) -> None:
    found = step_split(in_steps(select(run_of(name).main)))
    assert found is not None
    assert found["loader"] + found["synchronisation"] + found["launching"] == pytest.approx(found["host_wait"])
    assert min(found[part] for part in ("loader", "synchronisation", "launching")) >= 0
