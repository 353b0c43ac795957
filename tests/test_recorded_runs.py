"""What `tracetui profile` recorded on a GPU, judged as a whole."""

import judged
import numpy as np
import polars as pl
import pytest
from sample_runs import CLEAN, SWEEP, TRAIN, VIM, VIM_FP16

from tracetui.analysis.findings.core.facts import Facts, Pair
from tracetui.analysis.memory.owners import EARLIER, owners
from tracetui.analysis.modules import modules
from tracetui.analysis.sweeps.reading import read_sweep
from tracetui.parsers import open_path


@pytest.fixture(scope="module")
def facts():
    opened = {}

    def of(path):
        if path not in opened:
            opened[path] = Facts(open_path(path))
        return opened[path]

    return of


def test_a_clean_run_comes_out_clean(facts):
    found = judged.find(facts(CLEAN))
    assert [finding for finding in found.found if finding.severity != "info"] == []
    assert not found.suppressed
    assert facts(CLEAN).overview.gpu["busy_percent"][0] > 85  # it begins with an empty queue


def test_vision_mamba_at_batch_4_waits_for_launches(facts):
    found = judged.find(facts(VIM))
    first = found.found[0]
    assert (first.id, first.severity) == ("S2", "critical")
    assert 80 < first.ceiling_percent < 90
    assert first.sure_percent > 25  # critical only because it is so whatever recording cost the host
    assert "CUDA graphs" in first.title
    assert first.next_command == "tracetui profile vim_tiny --tool all --cuda-graphs"
    assert not {"F1", "F3"} & {finding.id for finding in found.found}  # no lower precision before that


def test_half_precision_gains_nothing_there(facts):
    pair = Pair(facts(VIM), facts(VIM_FP16))
    assert pair.comparable.verdict == "explained"
    assert [row.field for row in pair.comparable.differences if row.intended] == ["dtype"]
    assert facts(VIM_FP16).step_ns > 0.9 * facts(VIM).step_ns


def test_training_has_its_backward_pass_in_the_modules(facts):
    trained = facts(TRAIN)
    table = modules(trained.sel)
    whole = trained.launches["duration"].sum()
    owned = trained.launches.filter(pl.col("forward_module").is_not_null() | pl.col("module").is_not_null())
    assert owned["duration"].sum() / whole > 0.9
    assert table.filter(pl.col("path").str.contains("CausalSelfAttention")).height
    assert "12 chains" in judged.fires("F6", trained).title
    assert [trace.info.kind for trace in trained.run.traces] == ["chrome", "memory_snapshot"]


def test_steps_hold_no_work_of_the_warm_up(facts):
    """The profiler waits for the warm-up step: each step launches the same kernels, and all have their launch."""
    for path in (CLEAN, TRAIN):
        device = facts(path).trace.device.filter(pl.col("kind") == "kernel")
        assert device["launch"].null_count() == 0
        counts = device.group_by("step").len()["len"]
        assert counts.max() - counts.min() <= 0.02 * counts.max()


def test_a_sweep_says_where_less_work_is_faster():
    sweep = read_sweep(SWEEP)
    assert len(sweep.points) == 6
    assert all(len(point.samples) == 3 for point in sweep.points)
    for point in sweep.points:
        # the GPU's work fits into the step without a profiler, and the kernels are those of one step
        assert point.gpu_ns <= 1.02 * point.step_ns
        assert 190 < point.kernels < 260


def test_weights_were_allocated_before_the_history_began(facts):
    snapshot = next(trace for trace in facts(VIM).run.traces if trace.info.kind == "memory_snapshot")
    blocks = snapshot.memory.filter((pl.col("action") == "block") & pl.col("stack").is_null())
    found = owners(snapshot, np.flatnonzero((snapshot.memory["action"] == "block").to_numpy()), "stack")
    assert set(found["name"]) == {EARLIER}
    assert blocks["bytes"].sum() == 65_611_264
