"""A rank whose collectives wait for other ranks: what its own recording tells of that, and what it can't."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from made_run import SGEMM, Made

from tracetui.analysis.dependencies.costs import transfers
from tracetui.analysis.dependencies.graph import graph
from tracetui.analysis.dependencies.limit import _uneven, limit
from tracetui.analysis.dependencies.model import model
from tracetui.analysis.selection import select

if TYPE_CHECKING:
    from pathlib import Path

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
NCCL_STREAM = 20


def described(elements: int) -> dict[str, object]:
    return {
        "Collective name": "allreduce",
        "In msg nelems": elements,
        "Out msg nelems": elements,
        "dtype": "Float",
        "Group size": 2,
        "Process Group Name": "0",
    }


def job(waits_us: tuple[float, ...], *, sizes: bool = True) -> Made:
    """Steps of 200 µs of products, an all-reduce that waits, one of more bytes that does not, and a last product."""
    made = Made()
    begin = 0.0
    for step, waits in enumerate(waits_us):
        made.step(step, begin, begin + 300)
        made.launch(SGEMM, (begin + 10, begin + 15), (begin + 20, begin + 220))
        made.host("cuda_runtime", "cudaStreamWaitEvent", begin + 20, begin + 21)
        reduced = begin + 221 + 40 + waits
        few, more = (described(1000), described(2000)) if sizes else ({}, {})
        made.launch(ALL_REDUCE, (begin + 22, begin + 26), (begin + 221, reduced), stream=NCCL_STREAM, **few)
        made.launch(ALL_REDUCE, (begin + 30, begin + 34), (reduced, reduced + 50), stream=NCCL_STREAM, **more)
        made.host("cuda_runtime", "cudaStreamWaitEvent", begin + 36, begin + 37)
        made.launch(SGEMM, (begin + 38, begin + 42), (reduced + 51, reduced + 151))
        made.host("cuda_runtime", "cudaStreamSynchronize", begin + 44, reduced + 155)
        begin = reduced + 160
    return made


def test_a_transfer_takes_no_longer_than_that_of_more_bytes(tmp_path: Path) -> None:
    trace = job((700, 500, 600)).trace(tmp_path)
    bounds = transfers(select(trace))
    assert bounds is not None
    collective = np.flatnonzero(bounds >= 0)
    # each first one took 540 µs and more; the second, of twice the bytes, took 50
    assert bounds[collective].tolist() == [50_000] * 6
    assert (bounds[trace.device["name"].cast(str).to_numpy() == SGEMM] == -1).all()


def test_without_sizes_the_same_place_of_another_step_is_the_bound(tmp_path: Path) -> None:
    bounds = transfers(select(job((700, 500, 600), sizes=False).trace(tmp_path)))
    assert bounds is not None
    assert bounds[bounds >= 0].tolist() == [540_000, 50_000] * 3


def test_the_rich_recording_tells_the_sizes_of_the_light_one(tmp_path: Path) -> None:
    (tmp_path / "light").mkdir()
    light = job((700, 500, 600, 650), sizes=False).trace(tmp_path / "light")
    bounds = transfers(select(light), job((900, 800, 990)).trace(tmp_path))
    assert bounds is not None
    assert bounds[bounds >= 0].tolist() == [50_000] * 8


def test_a_recording_without_collectives_has_no_bounds(tmp_path: Path) -> None:
    made = Made()
    made.step(1, 0, 100)
    made.launch(SGEMM, (10, 15), (20, 60))
    assert transfers(select(made.trace(tmp_path))) is None


def test_clean_steps_tell_that_other_ranks_are_late(tmp_path: Path) -> None:
    """The host launches within 42 µs, the GPU works for 390, and the step takes some 1,000."""
    found = model(select(job((700, 500, 600, 650, 550)).trace(tmp_path)), (1_000_000, 990_000, 1_010_000))
    assert found is not None
    assert found.waits_for == "ranks"
    assert found.host_free_ns == pytest.approx(415_000, rel=0.05)
    assert max(found.ranks_in_time_ns) == pytest.approx(415_000, rel=0.05)


def test_one_rank_alone_can_not_tell_whether_recording_made_the_others_late(tmp_path: Path) -> None:
    said = limit(select(job((700, 500, 600, 650, 550)).trace(tmp_path)), "all steps", "a step")
    assert said.kind == "unknown"
    assert said.sentence.startswith("Can't be told from this recording whether it waits for other ranks or for the GPU")
    assert "by what recording cost all ranks' hosts" in said.sentence


def test_a_stream_waits_for_what_was_launched_before_though_later_work_ended_last(tmp_path: Path) -> None:
    """Beside the start of the all-reduce the GPU's next short kernel has ended: it was launched later."""
    made = Made()
    for step in range(4):
        begin = 1000.0 * step
        made.step(step, begin, begin + 400)
        made.launch(SGEMM, (begin + 10, begin + 15), (begin + 20, begin + 500))
        made.host("cuda_runtime", "cudaStreamWaitEvent", begin + 20, begin + 21)
        made.launch(ALL_REDUCE, (begin + 22, begin + 26), (begin + 506, begin + 800), stream=NCCL_STREAM)
        made.launch(SGEMM, (begin + 30, begin + 34), (begin + 501, begin + 504))
    found = graph(select(made.trace(tmp_path)))
    assert found is not None
    assert found.unknown_waits == 0
    collectives = np.flatnonzero(found.work.stream == found.work.stream[1])
    assert found.work.after[collectives].tolist() == [0, 3, 6, 9]


def test_the_mean_stands_beside_a_median_that_hides_long_steps() -> None:
    assert _uneven([21_000_000, 20_000_000, 380_000_000, 22_000_000]) == "the mean of 4 is 110.8 ms"
    assert _uneven([21_000_000, 20_000_000, 23_000_000, 22_000_000]) == ""
    assert _uneven([20_000_000, 380_000_000]) == ""  # of two steps neither is the usual one
