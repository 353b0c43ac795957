"""Where in the program work comes from: own frames, against a plain climb; planted faults, named with their place."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from judged import found_in
from reported import opened
from sample_runs import FP16, PLANTED, SWEEP, VIM, run_of

from tracetui.analysis.attribution.place import (
    BACKWARD,
    around,
    call_name,
    frames_around,
    grouped,
    is_own,
    launching_rows,
    own_frames,
)
from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.engine import find
from tracetui.analysis.kernels import kernel_groups, kernels
from tracetui.analysis.report.findings import finding_row
from tracetui.analysis.sampled_calls import lines, located
from tracetui.analysis.selection import select
from tracetui.app.reports.finding_words import places as printed
from tracetui.parsers import Trace, open_path

OF_STACKS = "chrome/kineto_samples/resnet50_num_workers_4.pt.trace.json.gz"


@pytest.mark.parametrize(
    ("frame", "own"),
    [
        ("train.py(12): step", True),
        ("mypackage/models/net.py(8): forward", True),
        ("~/code/train.py(3): <module>", True),
        ("<ipython-input-3-0f>(5): train", True),
        ("profile.py(7): <module>", True),
        ("torch/nn/modules/module.py(1783): _call_impl", False),
        ("/usr/lib/python3.12/contextlib.py(104): __init__", False),
        ("/venv/lib/python3.10/site-packages/mine/x.py(1): f", False),
        ("typing.py(2154): cast", False),
        ("timm/layers/mlp.py(4): forward", False),
        ("<frozen runpy>(88): _run_code", False),
        ("<built-in method item of Tensor object at 0x7efb5a618cd0>", False),
        ("~/runs/x.partial/child/tracetui_child/script.py(87): _run_program", False),
        ("~/runs/x.partial/child/start.py(5): <module>", False),
        ("/tmp/torchinductor_ann/bm/cbm.py(1370): call", False),
        ("/cache/bm/cbmrvymoj5aqvw4b5z3fab5v4h7wk4qgcks5lsldhf3qpwywww76.py(1370): call", False),
        ("/home/ann/bm/cbm_train.py(3): call", True),
    ],
)
def test_own_frames_are_told_from_libraries(frame: str, own: bool) -> None:
    assert is_own(frame) is own


def _trace(path: Path) -> Trace:
    return open_path(path).main


@pytest.mark.parametrize("path", [FP16, VIM], ids=lambda path: path.name)
def test_frames_units_and_operators_are_those_of_a_plain_climb(path: Path) -> None:
    trace = _trace(path)
    host, frames = trace.host, own_frames(trace)
    names, parents = host["name"].cast(pl.String).to_list(), host["parent"].to_list()
    kinds = host["kind"].cast(pl.String).to_list()
    own = [kind == "python" and is_own(name) for kind, name in zip(kinds, names, strict=True)]
    for row in range(0, host.height, 97):
        chain = [row]
        while parents[chain[-1]] is not None:
            chain.append(parents[chain[-1]])
        depth = next((depth for depth, at in enumerate(chain) if own[at]), None)
        frame = -1 if depth is None else chain[depth]
        assert frames.frame[row] == frame or names[frames.frame[row]].split("(")[0] == names[frame].split("(")[0]
        called = [at for at in chain[: depth or 0] if "tracetui_child/" not in names[at]]  # which is the recorder's
        assert frames.unit[row] == (called[-1] if called and called[0] == row else -1)
        calls = [at for at in chain if kinds[at] not in ("runtime", "driver")]
        enclosing = next((n for n, at in enumerate(calls) if kinds[at] != "operator"), len(calls))
        assert frames.operator[row] == (calls[enclosing - 1] if enclosing else -1)


@pytest.mark.parametrize("path", [FP16, VIM, SWEEP], ids=lambda path: path.name)
def test_places_share_out_all_time(path: Path) -> None:
    trace = _trace(path)
    work = trace.device.filter(pl.col("kind") == "kernel")
    rows, spent = launching_rows(work), work["duration"].to_numpy()
    steps = max(trace.steps.height, 1)
    listed = grouped(located(trace, rows), spent, steps, on_gpu=True)
    assert listed == sorted(listed, key=lambda place: -place.ns)
    assert sum(place.ns for place in listed) <= spent.sum() / steps * (1 + 1e-9)
    assert sum(place.percent or 0 for place in listed) <= 100 + 1e-6
    assert all(place.frame or place.module or place.range or place.operator for place in listed)
    sel = select(trace)
    assert kernel_groups(sel, "line")["total_ns"].sum() == kernels(sel)["total_ns"].sum()


def test_backward_work_gets_the_frames_of_its_forward() -> None:
    trace = run_of(OF_STACKS).main
    named = lines(trace, trace.device).drop_nulls()
    assert named.len()
    assert all("resnet50_profiler_api.py(" in text for text in named.unique())


def test_a_call_is_named_as_people_write_it() -> None:
    assert call_name("<built-in method item of Tensor object at 0x7efb5a618cd0>") == "Tensor.item"
    assert call_name("<built-in function linalg_vector_norm>") == "linalg_vector_norm"
    assert call_name("nn.Module: LSTMCell_0") == "LSTMCell"
    assert call_name("autograd::engine::evaluate_function: AddmmBackward0") == "AddmmBackward0"
    assert call_name("torch/serialization.py(945): save") == "save (serialization.py)"
    assert call_name("logging/__init__.py(1479): info") == "info (logging)"


FAULTS = (
    ("clip_loop", "S29", ("240 × aten::linalg_vector_norm", "clip_loop.py(7): step")),
    ("lstm_cell", "S29", ("200 × aten::lstm_cell", "lstm_cell.py(6): forward")),
    ("watch", "S29", ("24 × aten::histc", "watch.py(7): step")),
    ("ckpt", "S30", ("8 × TransformerEncoderLayer", "ckpt.py(8): step")),
    ("cpu_opt", "S31", ("on the CPU", "cpu_opt.py(11): step")),
    ("blocking", "S32", ("until its kernel ends", "blocking.py(7): step")),
    ("kv_cat", "F21", ("torch.cat", "kv_cat.py(8): forward, in Decoder/Layer, 24 × aten::cat")),
)
"""Recording, finding, and what it must say."""


@pytest.mark.skipif(not PLANTED.exists(), reason="the planted faults are not at hand")
@pytest.mark.parametrize(("name", "rule", "said"), FAULTS, ids=[name for name, *_ in FAULTS])
def test_a_planted_fault_is_named_with_its_place(name: str, rule: str, said: tuple[str, ...]) -> None:
    (mine,) = (finding for finding in found_in(PLANTED / name).found if finding.id == rule)
    text = "\n".join([mine.title, *printed(finding_row(mine))])
    assert all(part in text for part in said), text


@pytest.mark.skipif(not PLANTED.exists(), reason="the planted faults are not at hand")
@pytest.mark.parametrize("path", [FP16, VIM, SWEEP, *(PLANTED / name for name in ("nchw", "pageable", "blocking"))],
                         ids=lambda path: path.name)  # fmt: skip
def test_nothing_is_invented_where_nothing_is_repeated(path: Path) -> None:
    modes = () if path.name == "blocking" else ("S32",)
    rules = {id: all_rules()[id] for id in ("S29", "S30", "S31", "F21", "F22", *modes)}
    assert not find(Facts(opened(path)), rules=rules).found


@pytest.mark.skipif(not PLANTED.exists(), reason="the planted faults are not at hand")
def test_gradients_are_the_forwards_and_frames_lead_to_the_script() -> None:
    trace = _trace(PLANTED / "clip_loop")
    named = trace.host["name"].cast(pl.String).str.ends_with("evaluate_function: AddmmBackward0")
    task = np.flatnonzero((named & trace.host["forward"].is_not_null()).to_numpy())
    found = around(trace, task)
    assert found.backward.all()
    assert (found.frame >= 0).all()
    assert (found.module >= 0).all()
    assert frames_around(trace, int(task[0])) == [
        f"{BACKWARD}clip_loop.py(7): step", "common.py(29): run", "clip_loop.py(19): <module>",
    ]  # fmt: skip
    assert np.unique(lines(trace, trace.device).drop_nulls().to_numpy()).tolist() == [
        f"{BACKWARD}clip_loop.py(7): step", "clip_loop.py(7): step",
    ]  # fmt: skip
