"""Repeats: which runs are some, how often chance alone is called a regression, and how often a true one is found."""

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sample_runs import SWEEP

from tracetui.analysis.compare.diff import diff
from tracetui.analysis.compare.regression import of_runs, regression
from tracetui.analysis.compare.repeats import TypicalStep, between_runs, middle, runs_difference, runs_in
from tracetui.analysis.selection import select
from tracetui.app.cli.main import main
from tracetui.parsers import open_path

POINTS = sorted(path.name for path in SWEEP.iterdir() if path.is_dir())
HOST_BOUND, GPU_BOUND = "batch=1,keep=0.1", "batch=16,keep=1.0"
LIMIT = 5.0
PAIRS = 2000
SCATTER = (0.99, 1.0, 1.01)
"""Of three runs, as shares of their mean: a standard deviation of 1 %."""


def planted(source: Path, target: Path, factor: float, *, what: str = "", times: float | None = None) -> None:
    """A copy of a run whose steps without a profiler take so many times as long, and its GPU work too.

    Args:
        source: the run.
        target: the folder of the copy.
        factor: of the steps.
        what: only kernels with this in their names take longer.
        times: the factor of the GPU work, where it is another one.
    """
    shutil.copytree(source, target)
    manifest = json.loads((target / "run.json").read_text())
    manifest["measurement"]["clean_step_ns"] = [round(factor * ns) for ns in manifest["measurement"]["clean_step_ns"]]
    (target / "run.json").write_text(json.dumps(manifest))
    for file in target.glob("*.trace.json.gz"):
        content = json.loads(gzip.decompress(file.read_bytes()))
        ends: dict[Any, float] = {}
        work = [row for row in content["traceEvents"] if str(row.get("cat")) in ("kernel", "gpu_memcpy", "gpu_memset")]
        for row in sorted(work, key=lambda row: float(row["ts"])):
            row["dur"] = round((times or factor if what in row["name"] else 1) * row["dur"], 3)
            row["ts"] = max(row["ts"], ends.get(row["tid"], row["ts"]))  # a stream does one thing after the other
            ends[row["tid"]] = round(row["ts"] + row["dur"], 3)
        file.write_bytes(gzip.compress(json.dumps(content).encode(), 1))


def test_longer_kernels_of_one_sort_explain_a_longer_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = SWEEP / GPU_BOUND / "repeat-1"
    planted(source, tmp_path / "b", 1.1, what="gemm", times=1.2)
    code, out, err = gate(source, tmp_path / "b", capsys)
    assert code == 3
    assert "More GPU work" in out
    assert "regression: median clean step" in err
    # the same times, and the work as it was
    planted(source, tmp_path / "c", 1.1, times=1.0)
    assert gate(source, tmp_path / "c", capsys)[0] == 4


def repeats(source: Path, target: Path, factor: float) -> Path:
    for number, share in enumerate(SCATTER, 1):
        planted(source, target / f"repeat-{number}", factor * share)
    return target


def gate(a: Path, b: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str, str]:
    code = main(["diff", str(a), str(b), "--no-cache", "--fail-on", f"regression:{LIMIT}%", *more])
    out, err = capsys.readouterr()
    return code, " ".join(out.split()), err


@pytest.mark.parametrize("point", POINTS)
def test_no_pair_of_repeats_is_a_regression(point: str) -> None:
    sides = [select(open_path(SWEEP / point / f"repeat-{number}").main) for number in (1, 2, 3)]
    for a, b in zip(sides, sides[1:] + sides[:1], strict=True):
        found = diff(a, b)
        told = regression(found)
        assert told.exceeds(LIMIT) is not True
        change = found.step.median_delta_percent
        assert change is not None
        assert told.exceeds(LIMIT) is (None if change > LIMIT else False)


def test_what_would_settle_it_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = gate(*(SWEEP / HOST_BOUND / f"repeat-{number}" for number in (1, 2)), capsys)
    assert code == 4
    assert "43.0 % longer within these two runs: 3.335 ms became 4.769 ms" in out
    assert "more than chance" not in out
    assert err.count("\n") == 1
    assert "no added work explains it" in err
    assert "--repeats 3" in err


def test_ten_percent_more_gpu_work_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = SWEEP / GPU_BOUND / "repeat-1"
    a, b = (repeats(source, tmp_path / name, factor) for name, factor in (("a", 1.0), ("b", 1.1)))
    code, out, err = gate(a, b, capsys)
    assert code == 3
    assert "B's step is 10.0 % longer:" in out
    assert "means of 3 and 3 runs" in out
    assert "more than chance" in out
    assert "regression: mean clean step" in err
    # a lower clock makes all kernels longer alike, so single runs do not tell
    code, out, err = gate(a / "repeat-2", b / "repeat-2", capsys)
    assert code == 4
    assert "within these two runs" in out
    # the same configuration again
    assert gate(a, a, capsys)[0] == 0
    assert gate(b, a, capsys)[0] == 0


def test_repeats_too_far_apart_are_not_judged(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = gate(SWEEP / HOST_BOUND, SWEEP / HOST_BOUND, capsys)
    assert code == 4
    assert "repeat-3: steps 1-2, the middle one of 3 runs" in out
    assert "they show changes from" in err


def test_the_json_has_every_repeat(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", str(SWEEP / GPU_BOUND), str(SWEEP / GPU_BOUND), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    clean = [
        json.loads((SWEEP / GPU_BOUND / f"repeat-{number}" / "run.json").read_text())["measurement"]["clean_step_ns"]
        for number in (1, 2, 3)
    ]
    medians = [float(np.median(steps)) / 1000 for steps in clean]
    runs = found["step"]["between_runs"]
    assert runs["a_runs_us"] == runs["b_runs_us"] == pytest.approx(medians)
    assert runs["a_us"] == pytest.approx(np.mean(medians))
    assert found["a"]["repeats"] == found["b"]["repeats"] == 3
    assert found["step"]["a_median_us"] == pytest.approx(sorted(medians)[1])


def test_a_folder_of_several_configurations_holds_no_repeats(tmp_path: Path) -> None:
    for name, point in (("one", HOST_BOUND), ("two", GPU_BOUND)):
        shutil.copytree(SWEEP / point / "repeat-1", tmp_path / name)
    folders, apart = runs_in(tmp_path)
    assert not folders
    assert "batch" in apart
    assert runs_in(SWEEP / HOST_BOUND / "repeat-1") == ((), "")
    assert len(runs_in(SWEEP / HOST_BOUND)[0]) == 3


def test_steps_are_of_what_all_repeats_have() -> None:
    clean, bare = TypicalStep(1.0, None, 5.0), TypicalStep(None, 2.0, 6.0)
    found = between_runs([clean, clean], [clean, bare])
    assert found is not None
    assert (found.rests_on, found.a_runs_ns, found.b_runs_ns) == ("recorded", (5.0, 5.0), (5.0, 6.0))
    assert between_runs([clean], [clean]) is None
    assert between_runs([clean, clean], [TypicalStep(None, None, None)]) is None
    assert middle([TypicalStep(ns, None, None) for ns in (3.0, 1.0, 2.0)], "clean") == 2


def test_a_single_run_is_taken_to_vary_as_the_repeats_do() -> None:
    found = runs_difference("clean", (98.0, 100.0, 102.0), (130.0,))
    assert found.noise_ns == pytest.approx(4.3027 * 2 * (1 + 1 / 3) ** 0.5, rel=1e-4)  # t of two degrees of freedom
    assert found.beyond_noise


def drawn(dice: np.random.Generator, scatter: float, within: float, factor: float = 1.0) -> list[float]:
    """The typical steps of three runs: each has a level of its own, around which its steps vary."""
    steps = int(dice.integers(3, 20))
    levels = factor * np.exp(dice.normal(0, scatter, 3))
    times: NDArray[np.float64] = levels[:, None] * np.exp(dice.normal(0, within, (3, steps)))
    return [float(step) for step in 50e6 * np.median(times, axis=1)]


@pytest.mark.parametrize("limit", [0.0, LIMIT])
def test_chance_between_runs_is_seldom_called_a_regression(limit: float) -> None:
    dice = np.random.default_rng(11)
    alarms = 0
    for _ in range(PAIRS):
        # each side scatters by itself, from 0.1 to 20 % between runs and within them
        sides = [drawn(dice, *(10 ** dice.uniform(-3, -0.7, 2))) for _ in range(2)]
        alarms += of_runs(runs_difference("clean", *sides)).exceeds(limit) is True
    assert alarms / PAIRS <= 0.05


@pytest.mark.parametrize(("scatter", "power"), [(0.01, 0.99), (0.02, 0.85), (0.03, 0.6)])
def test_ten_percent_is_found_by_three_repeats(scatter: float, power: float) -> None:
    dice = np.random.default_rng(12)
    seen = [
        of_runs(runs_difference("clean", drawn(dice, scatter, 0.02), drawn(dice, scatter, 0.02, factor=1.1))).exceeds(
            LIMIT
        )
        for _ in range(PAIRS)
    ]
    assert seen.count(True) / PAIRS >= power
