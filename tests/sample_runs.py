"""Recordings that tests open: those kept in ``tests/data``, the samples, and what may not be copied here."""

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from reported import opened, reported

from tracetui.parsers import Run

DATA = Path(__file__).resolve().parent / "data"
FP32 = DATA / "vim_tiny_fp32_bs4.pt.trace.json.gz"
FP16 = DATA / "vim_tiny_fp16_bs4.pt.trace.json.gz"
GPT = DATA / "gpt_small_ctx256.trace.json.gz"
CLEAN, TRAIN = DATA / "gpt_clean", DATA / "gpt_train"
CAUSES = DATA / "causes"

SAMPLES = Path(str(files("tracetui.samples")))
VIM, VIM_FP16, SWEEP = SAMPLES / "vim_tiny", SAMPLES / "vim_tiny_fp16", SAMPLES / "topk_deit_sweep"

OUTSIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
"""Where recordings of other projects stand, which are test data but not ours to hand on."""
PLANTED = OUTSIDE / "planted"
PLACES = tuple(place.resolve() for place in (DATA, SAMPLES, OUTSIDE))  # one may be a link
NOT_COPIED = (
    "broken", "public", "chrome/hta_trace_diff", "chrome/kineto_samples", "chrome/forms/amd_mi250_rocm",
    "chrome/forms/cpu_only_rank34", "golden/hta/resnet50", "golden/hta/trace_diff", "golden/tb_plugin/resnet50",
    "golden/tb_plugin/hta_trace_diff",
)  # fmt: skip


def recorded(name: str) -> Path:
    """A recording, or figures that another tool gave on it, by its path below ``tests/data``.

    A test of what may not be copied is skipped where that is absent; whatever else is absent is an error.
    """
    for place in (DATA / name, DATA / Path(name).name, OUTSIDE / name):
        if place.exists():
            return place
    if name.startswith(NOT_COPIED):
        pytest.skip(f"{name} is another project's, and not in {OUTSIDE}")
    raise FileNotFoundError(DATA / name)


def is_kept(path: Path) -> bool:
    """Whether a file stands with the tests, the samples or beside them, so that nobody writes to it."""
    return any(path.resolve().is_relative_to(place) for place in PLACES)


def linked(recording: Path, place: Path) -> Path:
    """Places a recording, a file or a folder, under another name, for tests that only read it; returns the place.

    The cache of what was read knows the file behind a link; a copy would be read from its beginning in each test.
    """
    if recording.is_dir():
        place.mkdir()
        for file in recording.iterdir():
            linked(file, place / file.name)
    else:
        place.symlink_to(recording)
    return place


def changeable(run: Path, place: Path) -> Path:
    """Places a run under another name, for tests that change its run.json or what else lies beside its recordings.

    The recordings themselves are `linked`; a test that changes one unlinks it first.
    """
    linked(run, place)
    for file in place.glob("*.json*"):
        if file.suffix != ".gz":
            text = file.read_bytes()
            file.unlink()
            file.write_bytes(text)
    return place


@cache
def run_of(name: str) -> Run:
    """A recording by its path below ``tests/data``, read once for all tests of a session.

    One worker reads the file, others what it left in the cache, which `test_chrome_reader` and `test_runs_and_cache`
    compare with the file.
    """
    return opened(recorded(name))


@cache
def report_of(name: str) -> dict[str, Any]:
    """The whole report of a recording, made once; whoever changes it changes a copy.

    It is `reported` without the groups of kernels, which nobody asked for here.
    """
    whole = reported(recorded(name))
    traces = [
        {key: value for key, value in trace.items() if key not in ("kernels_by", "kernel_groups")}
        | {"counts": {key: value for key, value in trace["counts"].items() if key != "kernel_groups"}}
        for trace in whole["run"]["traces"]
    ]
    return {**whole, "run": {**whole["run"], "traces": traces}}
