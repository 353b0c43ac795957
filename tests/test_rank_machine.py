"""A rank's machine and GPU, as the run.json of a job on several machines has them."""

from __future__ import annotations

import polars as pl
import pytest

from tracetui.analysis.ranks.environment import environment, gpus_of, machine_of
from tracetui.parsers import schema
from tracetui.parsers.runs.manifest import parse
from tracetui.parsers.trace import Source, Trace, TraceInfo


def gpus(*throttled):
    states = [{"index": number, "throttle_reasons": list(reasons)} for number, reasons in enumerate(throttled)]
    return {"before": {"gpus": states}}


JOB = parse(
    {
        "schema": "tracetui.run/1",
        "identity": {"host": "one"},
        "software": {"driver": "580.1"},
        "device": [{"index": 0, "uuid": "a"}, {"index": 1, "uuid": "b"}],
        "power": gpus([], []),
        "ranks": [
            {"rank": 0, "host": "one", "gpu_uuid": "b"},
            {"rank": 1, "host": "two", "gpu_uuid": "d"},
            {"rank": 2, "host": "two"},
            {"rank": 3, "host": "three"},
        ],
        "machines": [
            {
                "host": "two",
                "software": {"driver": "570.2"},
                "device": [{"index": 0, "uuid": "c"}, {"index": 1, "uuid": "d"}],
                "power": gpus(["sw_power_cap"], ["hw_thermal_slowdown"]),
            }
        ],
    }
)


def on_gpu(number):
    empty = Trace.empty(TraceInfo("chrome", "Kineto"), Source(__file__, 0))
    row = pl.DataFrame({"device": [number]}).cast({"device": schema.DEVICE["device"]})
    return Trace(**{**vars(empty), "device": row})


@pytest.mark.parametrize(
    ("rank", "driver", "throttled"),
    [
        (0, "580.1", "nothing"),
        (1, "570.2", "hw_thermal_slowdown"),  # its process sees one GPU and counts it as 0
        (2, "570.2", "sw_power_cap"),
        (3, None, None),
        (None, "580.1", "nothing"),
    ],
)
def test_throttling_and_versions_are_those_of_the_ranks_own_machine(rank, driver, throttled):
    found = dict(environment(on_gpu(0), JOB, rank))
    assert (found.get("driver"), found.get("throttled by")) == (driver, throttled)


def test_a_gpu_without_a_name_has_the_number_of_the_recording():
    assert gpus_of(JOB, 1, {0}) == {1}
    assert gpus_of(JOB, 2, {0}) == {0}
    assert machine_of(JOB, 3) is None
