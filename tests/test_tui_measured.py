"""The Kernels tab of a run of several tools: what ncu measured stands beside the time."""

from __future__ import annotations

import asyncio

import ncu_file
import pytest
from sample_runs import recorded
from tui_pilot import opened, press, screen_text

OPS = ("ops.trace.json.gz", "ops.sqlite.gz", "ops.ncu.csv.gz")


@pytest.fixture
def folder(tmp_path):
    for name in OPS:
        (tmp_path / name).symlink_to(recorded(f"ops/{name}"))
    return tmp_path


def screens(*paths, keys, size=(180, 24)):
    async def run():
        texts = []
        async with opened(*paths, size=size, cache=False, tab="kernels") as (app, pilot):
            texts.append(screen_text(app))
            for key in keys:
                await press(pilot, key)
                texts.append(screen_text(app))
        return texts

    return asyncio.run(run())


def test_measured_columns_and_coverage(folder):
    text, details = screens(folder, keys=["d"])
    lines = text.splitlines()
    assert "ncu: 100.0 % of GPU time, 43 launches" in lines[2]
    assert "nsys recording: 100.0 % of the GPU time matches" in lines[2]
    titles, first = lines[3], lines[4]
    assert titles.index("SM%") < titles.index("L1%") < titles.index("L2%") < titles.index("Occ%")
    assert "Mem%" not in titles  # not among the metrics that were collected
    assert first.startswith(">sm80_xmma_gemm_f32_nn_n_256x128x8_ffma")
    assert first[titles.index("SM%") - 2 :].split()[:2] == ["85.0", "0"]
    assert "Limiter      registers" in details
    assert "By ncu       1" in details


def test_coverage_without_room_is_left_out_and_not_cut(folder):
    wide, narrow = screens(folder, keys=["u"], size=(120, 24))
    assert " · ncu: 100.0 % of GPU time …  " in wide.splitlines()[2]
    assert " · * tensor cores 51.0 % …  " in narrow.splitlines()[2]


def test_the_recording_of_another_tool_is_compared_with_the_rest(folder):
    _, text = screens(folder, keys=["S"])
    lines = text.splitlines()
    assert "ncu: 100.0 % of GPU time, 43 launches" in lines[2]
    assert "Chrome trace: 100.0 % of the GPU time matches" in lines[2]


def test_one_tool_alone_has_no_measured_columns(folder):
    (text,) = screens(folder / OPS[0], keys=[])
    lines = text.splitlines()
    assert "ncu" not in lines[2]
    assert "SM%" not in lines[3]
    assert "Occup" in lines[3]


def test_an_ncu_recording_alone_shows_its_own(folder):
    (text,) = screens(folder / OPS[2], keys=[])
    lines = text.splitlines()
    assert "SM%" in lines[3]
    assert "launches" not in lines[2]


@pytest.mark.parametrize("presses", range(4))
def test_a_report_of_no_launch_has_every_table(tmp_path, presses):
    path = tmp_path / "none.csv"
    path.write_text(ncu_file.wide_table({"gpu__time_duration.sum": "ns"}, []))
    texts = screens(path, keys=["6", *["v"] * presses, "enter", "d"])
    assert not any("bug" in text for text in texts)
    assert "[6 Counters]" in texts[1]
    assert "0 launches" in texts[1]


def test_without_steps_the_host_s_shares_are_of_the_file(folder):
    _, text = screens(folder / OPS[1], keys=["4"])
    assert "own time, % of the file" in text.splitlines()[2]
