"""Setup inside what is analysed (V29): weights that are made, loaded and copied in a recording without steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from judged import facts, fires, silent
from made_run import ADD, HGEMM, Made
from sample_runs import recorded

from tracetui.analysis.findings.validity.setup import before_computing
from tracetui.parsers import open_path
from tracetui.parsers.iterations import as_recorded

if TYPE_CHECKING:
    from pathlib import Path

    from tracetui.parsers import Trace

GPT = "gpt_small_ctx256.trace.json.gz"
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int)"


def opened(name: str) -> Trace:
    return open_path(recorded(name)).main


def test_weights_before_the_first_step_are_setup_where_steps_are_not_known() -> None:
    """Half a second of initialisation, then 75 copies of weights, before anything computes; steps set it apart."""
    trace = opened(GPT)
    assert silent("V29", facts(trace))
    finding = fires("V29", facts(as_recorded(trace, keep_own=False)))
    assert finding.severity == "warning"
    assert finding.formula == "95.14 ms of 555.5 ms = 17.1 %"
    assert {each.label: each.value for each in finding.evidence}["copies to the GPU before it"] == 75
    assert "such as aten::normal_" in finding.evidence[3].label


@pytest.mark.parametrize(
    "name",
    ["ops/ops.trace.json.gz", "ops/ops.sqlite.gz", "nsys/graph_node.sqlite.gz", "small_vit_train.pt.trace.json.gz"],
)
def test_a_program_that_computes_at_once_has_no_setup(name: str) -> None:
    assert silent("V29", facts(as_recorded(opened(name), keep_own=False)))


@pytest.mark.parametrize("name", ["public/tl_sglang_decode.json.gz", "public/tl_vllm_piecewise.json.gz"])
def test_waiting_for_a_first_request_is_no_setup(name: str) -> None:
    assert silent("V29", facts(opened(name)))


def _started(name: str, category: str, *, copies: int = 1) -> Made:
    """400 µs of copies and fills, then 600 µs of a GEMM."""
    made = Made()
    made.host(category, name, 0, 90)
    for place in range(copies):
        made.launch("Memcpy HtoD (Pinned -> Device)", (100 + place, 101 + place), (110 + place, 111 + place),
                    api="cudaMemcpyAsync", kind="gpu_memcpy", bytes=4)  # fmt: skip
    made.launch(FILL, (200, 201), (210, 220))
    made.launch(HGEMM, (500, 501), (510, 1110))
    return made


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("aten::normal_", "cpu_op"),
        ("/usr/lib/python3/site-packages/torch/nn/init.py(486): kaiming_uniform_", "python_function"),
        ("load_model", "user_annotation"),
        ("cuModuleLoadDataEx", "cuda_driver"),
    ],
)
def test_what_shows_setup(tmp_path: Path, name: str, category: str) -> None:
    made = _started(name, category)
    if category == "cuda_driver":  # before any GPU work it is none of the analysed time
        assert silent("V29", made.facts(tmp_path))
        made.host(category, name, 250, 450)
    finding = fires("V29", made.facts(tmp_path))
    assert finding.severity == "critical"
    assert "40.0 %" in finding.title


def test_a_batch_copied_and_awaited_is_no_setup(tmp_path: Path) -> None:
    assert silent("V29", _started("read_input", "user_annotation").facts(tmp_path))
    assert fires("V29", _started("read_input", "user_annotation", copies=20).facts(tmp_path))
    found = before_computing(_started("read_input", "user_annotation").facts(tmp_path))
    assert found is not None
    assert (found.begin, found.end, found.copies, found.told) == (110_000, 510_000, 1, False)


def test_steps_set_setup_apart(tmp_path: Path) -> None:
    made = _started("aten::normal_", "cpu_op")
    made.step(1, 490, 1200)
    made.launch(ADD, (1120, 1121), (1130, 1150))
    assert silent("V29", made.facts(tmp_path))
