"""Ranges that one call opens and another closes: `torch._C._profiler._RecordFunctionFast` around compiled code."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import polars as pl
import pytest
from chrome_file import ChromeFile
from hypothesis import given
from hypothesis import strategies as st
from sample_runs import recorded

from tracetui.parsers.chrome.reader import read_chrome

if TYPE_CHECKING:
    from collections.abc import Callable

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


@given(
    st.lists(st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(0, 9), st.integers(0, 6)), max_size=5),
    st.lists(st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(0, 9), st.integers(1, 9)), max_size=6),
)
def test_a_range_outlives_the_last_call_begun_on_its_own_thread(
    calls: list[tuple[int, int, int, int]], operators: list[tuple[int, int, int, int]]
) -> None:
    file = ChromeFile()
    wanted: dict[str, str] = {}
    for pid, tid, start, lasts in calls:
        file.event("python_function", ENTER, (start, start + lasts), pid, tid)
    for number, (pid, tid, start, lasts) in enumerate(operators):
        file.event("cpu_op", f"op {number}", (start, start + lasts), pid, tid)
        begun = [call for call in calls if call[:2] == (pid, tid) and call[2] <= start]
        last = max(begun, key=lambda call: call[2], default=None)
        # of calls begun at once the latest in the file counts
        last = next((call for call in reversed(begun) if last is not None and call[2] == last[2]), None)
        opened = last is not None and start < last[2] + last[3] < start + lasts
        wanted[f"op {number}"] = "annotation" if opened else "operator"
    with TemporaryDirectory() as folder:
        host = read_chrome(file.write(Path(folder) / "a.json")).host
    kinds = host.select(pl.col("name").cast(pl.String), pl.col("kind").cast(pl.String)).iter_rows()
    assert {name: kind for name, kind in kinds if name in wanted} == wanted
