"""Ranges by what any thread launched in them, and the tree with the kernels under each range."""

from __future__ import annotations

import csv
import gzip
import io
import sqlite3
from typing import TYPE_CHECKING

import numpy as np
import pytest
from laid_out import body
from nvtx_trace import nvtx_trace
from sample_runs import recorded, run_of

from tracetui.analysis.attribution.operator_tree import device_work
from tracetui.analysis.attribution.projection import open_elsewhere
from tracetui.analysis.ranges import containing_rows, range_tree, range_tree_kernels, ranges
from tracetui.analysis.selection import select
from tracetui.app.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

NSYS_GPT = "nsys/gpt_small_ctx256.sqlite.gz"
BY_SQL = """
WITH work AS (
    SELECT start, "end", correlationId, globalPid FROM CUPTI_ACTIVITY_KIND_KERNEL
    UNION ALL SELECT start, "end", correlationId, globalPid FROM CUPTI_ACTIVITY_KIND_MEMCPY
    UNION ALL SELECT start, "end", correlationId, globalPid FROM CUPTI_ACTIVITY_KIND_MEMSET
)
SELECT coalesce(r.text, s.value), sum(w."end" - w.start),
       sum(CASE WHEN a.globalTid = r.globalTid AND a."end" <= r."end" THEN w."end" - w.start ELSE 0 END)
FROM NVTX_EVENTS r
LEFT JOIN StringIds s ON s.id = r.textId
JOIN CUPTI_ACTIVITY_KIND_RUNTIME a ON a.start >= r.start AND a.start < r."end"
JOIN work w ON w.correlationId = a.correlationId AND w.globalPid = (a.globalTid & ~16777215)
WHERE r.eventType = 59 AND (r.globalTid & ~16777215) = (a.globalTid & ~16777215)
GROUP BY 1
"""
"""What was launched while each range was open: by any thread, and by the range's own."""


def test_what_any_thread_launched_is_what_sql_finds_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "gpt.sqlite"
    file.write_bytes(gzip.decompress(recorded(NSYS_GPT).read_bytes()))
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as base:
        expected = {name: (any_thread, own) for name, any_thread, own in base.execute(BY_SQL)}
    found = ranges(select(run_of(NSYS_GPT).main))
    rows = {row["name"]: (row["device_meanwhile_ns"], row["device_ns"]) for row in found.iter_rows(named=True)}
    assert rows.pop("(not in any range)")[0] is None
    assert rows == {name: expected[name] for name in rows}
    assert rows["backward_pass"] == (35_946_131, 2_240)


def test_every_operation_stands_under_one_range() -> None:
    sel = select(run_of(NSYS_GPT).main)
    found = range_tree_kernels(sel)
    work = device_work(sel)
    assert (found["calls"].sum(), found["device_meanwhile_ns"].sum()) == (work.height, work["duration"].sum())
    by_path = {path: rows for (path,), rows in found.group_by("path")}
    for row in range_tree(sel).filter(depth=1).iter_rows(named=True):
        inside = [rows for path, rows in by_path.items() if path == row["path"] or path.startswith(f"{row['path']}/")]
        assert sum(rows["device_meanwhile_ns"].sum() for rows in inside) == row["device_meanwhile_ns"]
        assert sum(rows["device_ns"].sum() for rows in inside) == row["device_total_ns"]


def test_a_launch_without_a_range_of_its_thread_is_of_the_range_that_began_last() -> None:
    trace = nvtx_trace(
        ("range", "outer", 0, 100),
        ("range", "done", 10, 20),
        ("range", "also done", 12, 14),
        ("range", "inner", 40, 60),
        ("range", "other", 50, 55, {"thread": 2}),
        ("range", "elsewhere", 0, 500, {"process": 8}),
        *(("call", "cudaLaunchKernel", at, at + 1, {"thread": 3}) for at in (15, 30, 45, 52, 100)),
        *(("kernel", "k", 200 + at, 201 + at, {"launch": at}) for at in (15, 30, 45, 52, 100)),
        ("kernel", "unknown", 400, 401),
    )
    sel = select(trace)
    rows = open_elsewhere(sel, containing_rows(trace.host), device_work(sel))
    names = [*trace.host["name"].cast(str).to_list(), None]
    assert [names[row] for row in rows.tolist()] == ["done", "outer", "inner", "other", None, None]
    assert open_elsewhere(sel, np.empty(0, np.int64), device_work(sel)).tolist() == [-1] * 6


def test_the_tree_lists_the_kernels_of_the_backward_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(recorded(NSYS_GPT)), "--section", "range_tree", "--kernels", "2"]) == 0
    lines = body(capsys.readouterr().out).splitlines()
    at = next(n for n, line in enumerate(lines) if line.endswith("    backward_pass"))
    assert lines[at].split()[:4] == ["2.240", "µs", "35.95", "ms"]
    assert [line.split()[:3] for line in lines[at + 1 : at + 3]] == [["0", "7.376", "ms"], ["0", "6.051", "ms"]]
    assert lines[at + 3].endswith("- 23 more")
    assert max(map(len, lines)) <= 80


def test_csv_has_every_kernel_of_every_range(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(recorded(NSYS_GPT))
    assert main(["report", path, "--section", "range_tree", "--kernels", "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert sum(float(row["device_meanwhile_us"]) for row in rows) == pytest.approx(61_386.699)
    assert main(["report", path, "--section", "kernels", "--kernels"]) == 2
    assert "--section modules or range_tree" in capsys.readouterr().err
