"""What a run waits for, on programs where it was tried: the host and the GPU were each slowed down on purpose.

Without a profiler, 20 % of the step was added to the host's time (it span) and to the GPU's (a kernel that spins), in
turns with unchanged steps; the share of it by which the step grew says which of them the program waits for.
"""

from __future__ import annotations

import numpy as np
import pytest
from sample_runs import run_of

from tracetui.analysis.dependencies.graph import graph
from tracetui.analysis.dependencies.limit import limit
from tracetui.analysis.dependencies.model import model
from tracetui.analysis.dependencies.waits import WAIT
from tracetui.analysis.selection import select

# recording, what it waits for, and the growth for 1 ms more of the host, of the GPU
TRIED = [
    ("limits/gpt_graphs", "gpu", 0.01, 0.99),
    ("limits/two_streams.pt.trace.json.gz", "gpu", 0.03, 1.01),
    ("limits/copy_pageable", "copies", 1.02, 1.30),  # the driver's thread makes the copy: either delay is in its way
]


@pytest.mark.parametrize(("name", "kind", "host", "gpu"), TRIED)
def test_the_limit_is_the_one_that_was_tried(name: str, kind: str, host: float, gpu: float) -> None:
    found = limit(select(run_of(name).main), "all steps", "a step")
    assert found.kind == kind
    assert found.unexplained == 0
    assert gpu > max(host, 0.9)
    taken = found.clean_ns or found.recorded_ns
    assert found.host_free_ns == pytest.approx(taken, rel=0.07)
    assert found.host_free_ns <= taken


def test_gaps_within_a_cuda_graph_add_up() -> None:
    """A median gap would miss a tenth of these steps: most nodes follow at once, some after microseconds."""
    light = run_of("limits/gpt_graphs").main.light()
    found = model(select(light))
    assert found.replayed_ns == pytest.approx(found.recorded_ns, rel=0.01)


def test_a_stream_is_held_up_by_work_from_before_the_steps() -> None:
    """The GPU is 43 ms behind when the first step begins: both streams start late, not only the first one."""
    found = graph(select(run_of("limits/two_streams.pt.trace.json.gz").main))
    firsts = [np.flatnonzero(found.work.stream == stream)[0] for stream in (0, 1)]
    for stream, first in enumerate(firsts):
        assert 0 <= found.work.start[first] - found.held[stream] < 100_000
        assert found.work.start[first] - found.calls.start[found.work.call[first]] > 40_000_000


def test_a_copy_of_pageable_memory_occupies_its_caller() -> None:
    """The call returns microseconds before the last piece arrives, and is no work of the host for all that."""
    light = run_of("limits/copy_pageable").main.light()
    found = graph(select(light))
    long = found.calls.end - found.calls.start > 10_000_000
    assert long.sum() == found.steps.height
    assert (found.calls.kind[long] == WAIT).all()
    assert max(model(select(light)).kernels_free_ns) < 0.2 * model(select(light)).recorded_ns


def test_the_driver_copies_pageable_memory_before_and_after_its_work() -> None:
    """Optimizer on the CPU: up to 2 ms go by before the first piece of a copy leaves, and after the last one came."""
    found = model(select(run_of("limits/offload_adam.pt.trace.json.gz").main))
    assert found.replayed_ns == pytest.approx(found.recorded_ns, rel=0.01)
    calls = found.graph.calls
    copying = calls.stretch[1:] - (calls.start[1:] - calls.end[:-1])
    assert (copying == 0).all()  # what is taken from a call is host time beside it, and no time is lost
