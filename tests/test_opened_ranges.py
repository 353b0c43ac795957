"""Ranges that one call opens and another closes: `torch._C._profiler._RecordFunctionFast` around compiled code."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from typing import TYPE_CHECKING

import polars as pl
import pytest
from chrome_file import ChromeFile
from sample_runs import recorded

from tracetui.parsers.chrome.reader import read_chrome

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tracetui.parsers import Trace

COMPILED = "compiled_mlp.pt.trace.json.gz"
ENTER, EXIT = (
    f"<built-in method __{word}__ of torch._C._profiler._RecordFunctionFast object>" for word in ("enter", "exit")
)
OPENED = "Pregraph bytecode|AOTDispatcher Runtime Wrapper Prologue"


@pytest.mark.parametrize(
    ("name", "ranges"),
    [(COMPILED, 4), ("public/tl_vllm_piecewise.json.gz", 1), ("public/tl_b200_eager.json.gz", 2)],
)
def test_ranges_of_compiled_code_are_as_long_as_recorded(
    recording: Callable[[str], Trace], name: str, ranges: int
) -> None:
    events = json.loads(gzip.decompress(recorded(name).read_bytes()), parse_float=str)["traceEvents"]
    wanted = sorted(int(Decimal(event["dur"]) * 1000) for event in events if event["name"] in OPENED.split("|"))
    host = recording(name).host.with_columns(pl.col("name").cast(pl.String))
    found = host.filter(pl.col("name").str.contains(f"^({OPENED})$"))
    assert found.height == ranges
    assert set(found["kind"]) == {"annotation"}
    assert found["duration"].sort().to_list() == wanted


def test_what_a_compiled_kernel_is_launched_in_stays_an_operator(recording: Callable[[str], Trace]) -> None:
    """Inductor opens such a range around each Triton kernel too, within the function that closes it."""
    trace = recording(COMPILED)
    kinds = trace.host.filter(pl.col("name").cast(pl.String).str.starts_with("triton_"))["kind"]
    assert set(kinds) == {"operator"}
    kernels = trace.device.filter(pl.col("name").cast(pl.String).str.starts_with("triton_"))
    assert kernels.height == 4
    operators = trace.host["name"].cast(pl.String).gather(kernels["operator"])
    assert operators.to_list() == kernels["name"].cast(pl.String).to_list()


def test_only_what_outlives_the_call_that_opened_it_is_a_range(tmp_path: Path) -> None:
    file = ChromeFile()
    file.python("model.py(1): forward", 0, 100)
    file.python(ENTER, 10, 12)
    file.operator("left open", 11, 50)
    file.python("helper.py(2): after", 45, 60)  # ends after the range, which must not cut it
    file.python(EXIT, 48, 52)
    file.python(ENTER, 70, 80)
    file.operator("aten::empty", 71, 75)
    file.operator("aten::add", 85, 90)
    host = read_chrome(file.write(tmp_path / "a.json")).host.with_columns(pl.col("name").cast(pl.String))
    kinds = dict(host.select("name", pl.col("kind").cast(pl.String)).iter_rows())
    assert kinds["left open"] == "annotation"
    assert {kinds["aten::empty"], kinds["aten::add"]} == {"operator"}
    lasting = dict(host.select("name", "duration").iter_rows())
    assert lasting["left open"] == 39_000
    assert lasting["helper.py(2): after"] == 15_000
