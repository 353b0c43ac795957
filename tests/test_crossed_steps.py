"""Recordings whose steps end within ranges that go on, as Lightning's do, and optimizers that call a closure."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from made_run import ADD, HGEMM, Made, facts_of
from sample_runs import recorded, run_of

from tracetui.analysis.findings.gpu import kernel_kinds

if TYPE_CHECKING:
    from pathlib import Path

FOREACH = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)"
    "::TensorListMetadata<2>, at::native::(anonymous namespace)::TernaryOpScalarFunctor<float, 2, 2, 0>,"
    " at::native::LerpFunctor<float>, float>(int)"
)


def _named(host: pl.DataFrame, prefix: str) -> pl.DataFrame:
    return host.filter(pl.col("name").cast(pl.String).str.starts_with(prefix)).sort("start")


def test_lightning_s_optimizer_is_as_long_as_it_was_recorded() -> None:
    """Its profiler ends a step after the forward pass, which runs in the closure of `Optimizer.step`."""
    trace = run_of("chrome/lightning.pt.trace.json.gz").main
    optimizer = _named(trace.host, "Optimizer.step#")
    events = json.loads(gzip.decompress(recorded("chrome/lightning.pt.trace.json.gz").read_bytes()))["traceEvents"]
    named = [event for event in events if event.get("name", "").startswith("Optimizer.step#") and event["ph"] == "X"]
    assert optimizer["duration"].to_list() == [round(1000 * event["dur"]) for event in named]
    assert min(optimizer["duration"]) > 4_700_000  # cut at the end of their steps they took 2.1 to 2.3 ms
    assert not [note for note in trace.notes if "outlived" in str(note)]
    steps = _named(trace.host, "ProfilerStep#")
    assert steps.filter(pl.col("parent").is_not_null()).is_empty()
    assert trace.steps["duration"].to_list() == steps["duration"].to_list()


def test_lightning_s_optimizer_is_what_follows_the_gradients() -> None:
    facts = facts_of(run_of("chrome/lightning.pt.trace.json.gz").main)
    optimizer = kernel_kinds.optimizer(facts)
    assert optimizer is not None
    assert (optimizer.calls, optimizer.parameters) == (4, 6)  # what follows the last gradients is not in the recording
    names = facts.launches.filter(pl.Series(optimizer.kernels))["name"].cast(pl.String)
    assert names.str.contains("multi_tensor_apply").sum() == names.len() == 32
    assert names.str.contains("gemm|nvjet").sum() == 0
    assert 700_000 < optimizer.host_ns / optimizer.calls < 1_300_000


def _step(made: Made, number: int, begin: float, range_end: float, *, after: str) -> None:
    """A step of 100 µs that ends 40 µs into a range of the optimizer."""
    made.step(number, begin, begin + 100)
    made.host("user_annotation", "Optimizer.step#SGD.step", begin + 60, range_end)
    made.launch(HGEMM, (begin + 10, begin + 15), (begin + 20, begin + 90))
    if after == "launch":
        made.launch(ADD, (begin + 110, begin + 115), (begin + 120, begin + 130))
    elif after:
        made.host("cpu_op", after, begin + 110, begin + 115)


@pytest.mark.parametrize(
    ("after", "lasting"),
    [
        ("launch", [100_000, 100_000]),
        ("aten::add", [100_000, 100_000]),
        ("profiler::_record_function_enter_new", [40_000, 40_000]),
        ("", [40_000, 40_000]),
    ],
)
def test_a_range_that_a_step_ends_in_is_cut_only_if_it_does_nothing_more(
    tmp_path: Path, after: str, lasting: list[int]
) -> None:
    made = Made()
    for number in range(2):
        _step(made, number, 200 * number, 200 * number + 160, after=after)
    trace = made.trace(tmp_path)
    assert _named(trace.host, "Optimizer")["duration"].to_list() == lasting
    assert trace.steps["duration"].to_list() == [100_000, 100_000]


def _closure(made: Made, begin: float, *, gradients: bool, **more: Any) -> None:
    made.host("user_annotation", "Optimizer.step#SGD.step", begin, begin + 100)
    made.host("user_annotation", "M.optimizer_step", begin - 5, begin + 105)
    made.launch(HGEMM, (begin + 5, begin + 8), (begin + 10, begin + 40), **more)
    if gradients:
        made.host("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", begin + 20, begin + 50, thread=2)
    made.launch(FOREACH, (begin + 60, begin + 63), (begin + 65, begin + 95), **more)


@pytest.mark.parametrize(("gradients", "host_ns", "kernels"), [(True, 100_000, 2), (False, 200_000, 4)])
def test_an_optimizer_that_calls_a_closure_begins_after_it(
    tmp_path: Path, gradients: bool, host_ns: int, kernels: int
) -> None:
    made = Made()
    for number in range(2):
        made.step(number, 200 * number, 200 * number + 150)
        _closure(made, 200 * number + 20, gradients=gradients)
    found = kernel_kinds.optimizer(made.facts(tmp_path))
    assert found is not None
    assert (found.calls, found.host_ns, int(found.kernels.sum())) == (2, host_ns, kernels)
