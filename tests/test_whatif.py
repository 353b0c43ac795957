"""The replay of launches: what a run would last with less GPU work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from made_run import ADD, SGEMM, Made, facts_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tracetui.analysis.findings.core.whatif import Replay
    from tracetui.parsers import Trace

RECORDINGS = (
    "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz",
    "chrome/gpt_small_ctx256.trace.json.gz",
    "chrome/cudagraph_replay.trace.json.gz",
    "chrome/kineto_samples/resnet50_num_workers_4.pt.trace.json.gz",
    "chrome/ddp_vit_small_2ranks/rank0.pt.trace.json.gz",
    "nsys/gpt_small_ctx256.sqlite.gz",
    "jax/h200.trace.json.gz",
)


def _replay(made: Made, folder: Path) -> Replay:
    found = made.facts(folder).replay
    assert found is not None
    return found


def _named(replay: Replay, name: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return (replay.work.frame["name"].cast(str) == name).to_numpy()


@pytest.mark.parametrize("name", RECORDINGS)
def test_nothing_taken_away_leaves_the_recording(recording: Callable[[str], Trace], name: str) -> None:
    replay = facts_of(recording(name)).replay
    assert replay is not None
    assert replay.length(np.zeros_like(replay.own)) == replay.window[1] - replay.window[0]


@pytest.mark.parametrize("name", RECORDINGS)
def test_more_taken_away_saves_more_and_never_all(recording: Callable[[str], Trace], name: str) -> None:
    replay = facts_of(recording(name)).replay
    assert replay is not None
    every = np.ones(replay.own.size, np.bool_)
    half, gpu = replay.saved_ns(every, factor=0.5), replay.saved_ns(every)
    both = replay.saved_ns(every, fewer_launches=True)
    assert 0 <= half <= gpu <= both < replay.window[1] - replay.window[0]
    idle = int(replay.gap[~replay.waited].sum())
    assert gpu <= replay.own.sum() + idle
    assert both <= replay.own.sum() + idle + replay.host_cost.sum()


def test_a_run_that_waits_for_the_gpu_gains_all_that_the_gpu_saves(tmp_path: Path) -> None:
    made = Made()
    made.step(1, 0, 1000)
    made.launch(SGEMM, (0, 10), (10, 510))
    made.launch(ADD, (10, 20), (510, 910))
    made.host("cuda_runtime", "cudaDeviceSynchronize", 20, 920)
    replay = _replay(made, tmp_path)
    assert replay.saved_ns(_named(replay, SGEMM)) == 500_000
    assert replay.saved_ns(_named(replay, SGEMM), factor=0.25) == 375_000
    assert replay.saved_ns(_named(replay, ADD)) == 400_000


def test_a_run_that_waits_for_launches_gains_nothing_from_faster_kernels(tmp_path: Path) -> None:
    made = Made()
    made.step(1, 0, 1000)
    for at in range(0, 1000, 100):
        made.launch(SGEMM, (at + 80, at + 90), (at + 95, at + 99))
    replay = _replay(made, tmp_path)
    every = np.ones(10, np.bool_)
    assert replay.per_launch_ns == 100_000
    assert replay.saved_ns(every) == 0
    # of the first launch only the call is known, of the others the time since the one before
    assert replay.saved_ns(every, fewer_launches=True) == 10_000 + 9 * 100_000
    assert replay.saved_ns(np.arange(10) < 3, fewer_launches=True) == 10_000 + 2 * 100_000


def test_a_faster_kernel_only_helps_until_the_host_is_late(tmp_path: Path) -> None:
    """The second launch comes 300 µs after the first: of 500 µs only what the host then waits for can be saved."""
    made = Made()
    made.step(1, 0, 1000)
    made.launch(SGEMM, (0, 10), (10, 510))
    made.launch(ADD, (300, 310), (510, 900))
    made.host("cuda_runtime", "cudaDeviceSynchronize", 310, 900)
    replay = _replay(made, tmp_path)
    assert replay.saved_ns(_named(replay, SGEMM)) == 210_000


def test_work_beside_other_work_saves_nothing(tmp_path: Path) -> None:
    made = Made()
    made.step(1, 0, 1000)
    made.launch(SGEMM, (0, 10), (10, 910))
    made.launch(ADD, (10, 20), (100, 500), stream=8)
    made.host("cuda_runtime", "cudaDeviceSynchronize", 20, 920)
    replay = _replay(made, tmp_path)
    assert replay.saved_ns(_named(replay, ADD)) == 0
    assert replay.saved_ns(_named(replay, SGEMM)) == 500_000


def test_launches_that_a_graph_shares_are_spared_only_together(tmp_path: Path) -> None:
    made = Made()
    made.step(1, 0, 1000)
    made.launch(ADD, (0, 10), (20, 30))
    made.replay(SGEMM, (500, 600), [(610, 620), (620, 630)])
    made.launch(ADD, (700, 710), (720, 730))
    replay = _replay(made, tmp_path)
    first_of_graph = np.array([False, True, False, False])
    assert replay.saved_ns(first_of_graph, fewer_launches=True) == 0
    assert replay.saved_ns(_named(replay, SGEMM), fewer_launches=True) > 0


def test_nothing_to_replay(tmp_path: Path) -> None:
    made = Made()
    made.host("cpu_op", "aten::mm", 0, 10)
    assert made.facts(tmp_path).replay is None
