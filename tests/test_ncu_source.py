"""ncu's source page per line and per instruction; its other texts are named for what they are."""

import csv
import gzip
import shutil
from functools import cache
from pathlib import Path

import ncu_file
import pytest
from as_json import report
from laid_out import body, run_parts
from sample_runs import recorded

from tracetui.analysis.counters.compared import reports_of
from tracetui.analysis.counters.source_lines import source_lines
from tracetui.app.reports.layout import Layout
from tracetui.app.reports.text import text
from tracetui.parsers import Run, TraceError, open_path

PAGE = "ncu/source_lines.csv.gz"
SESSION = 'Launch Settings\n"Launch Attribute","Value"\n"Profiler Command Line","ncu ./t"\n'
DETAILS = (
    "[582] t@127.0.0.1\n  gemm(float *) (32, 32, 1)x(32, 32, 1), Context 1, Stream 7, Device 0, CC 9.0\n"
    "    Section: GPU Speed Of Light Throughput\n    ----------------------- ----------- ------------\n"
    "    Metric Name             Metric Unit Metric Value\n    ----------------------- ----------- ------------\n"
    "    DRAM Frequency                  Ghz         3.20\n"
)


@cache
def page() -> Run:
    return open_path(recorded(PAGE), cache=False)


def test_each_line_has_what_ncu_itself_sums_for_it() -> None:
    """ncu's rows of lines, which are not read, against the sums over their instructions."""
    with gzip.open(recorded(PAGE), "rt") as file:
        rows = [row for row in csv.reader(file) if row]
    header, kernel, lines = [], "", {}
    for row in rows:
        if row[0] == "Function Name":
            kernel = row[1]
        elif row[0] == "Line No":
            header = row
        elif row[0].isdigit():
            values = dict(zip(header[4:], row[4:], strict=True))
            sums = lines.setdefault((kernel, f"t.cu:{row[0]}"), [0.0, 0.0, 0.0])
            for place, title in enumerate(("# Samples", "Instructions Executed", "L2 Theoretical Sectors Global")):
                sums[place] += float(values[title])
    found = source_lines(page().main)
    assert {(row["kernel"], row["place"]): [row["samples"], row["instructions"]] for row in found.to_dicts()} == {
        key: sums[:2] for key, sums in lines.items()
    }
    store = found.filter(place="t.cu:8").row(0, named=True)
    # ncu prints the instructions below these lines twice
    # a load of 4 and a store of 32 sectors for each warp, where 4 would do
    assert store["sectors_per_request"] == 18
    assert store["surplus_percent"] == pytest.approx(100 * (1 - 8 / 36))
    assert store["source"].startswith("o[x*1024+y]")
    assert (store["stall"], round(store["percent"], 1)) == ("drain", 93.8)
    assert found.filter(place="t.cu:7")["sectors_per_request"].to_list() == [None]


def test_the_page_has_a_report_of_its_own() -> None:
    found = report(page())["run"]["traces"][0]
    assert {"kernels", "counters", "findings"}.isdisjoint(found)
    assert found["counts"] == {"source_lines": 6}
    said = text(run_parts(report(page()), Layout()), Layout())
    assert "93.8  drain    75.4       18    77.8  t.cu:8" in said
    assert max(map(len, body(said).splitlines())) <= 80


def test_without_lines_each_instruction_is_a_row(tmp_path: Path) -> None:
    head = '"Address","Source","# Samples","Instructions Executed","L2 Theoretical Sectors Global","stall_lg"\n'
    body = '"0x10","  LDG.E R3","7","1,024","4096","5"\n"0x20","  EXIT","0","1024","0","0"\n"0x30","cut\n'
    (tmp_path / "a.csv").write_text(f'"Kernel Name","k(int)",\n{head}{body}')
    trace = open_path(tmp_path / "a.csv", cache=False).main
    columns = ("kernel", "place", "source", "samples", "stall", "sectors_per_request")
    assert source_lines(trace).select(columns).rows() == [
        ("k(int)", "0x10", "LDG.E R3", 7.0, "lg", 4.0),
        ("k(int)", "0x20", "EXIT", 0.0, None, None),
    ]


def test_beside_the_other_pages_it_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text(ncu_file.wide_table({"gpu__time_duration.sum": "ns"}, [("k", ["5"])]))
    shutil.copy(recorded(PAGE), tmp_path / "a.csv.gz")
    run = open_path(tmp_path, cache=False)
    assert [trace.source.path.name for trace in run.traces] == ["b.csv"]
    assert not run.others
    assert reports_of(page()) == ([], [])


@pytest.mark.parametrize(
    ("content", "what", "advice"),
    [
        (SESSION, "ncu's session page", "--page raw"),
        (DETAILS, "what ncu prints for people, without --csv", "run ncu with --csv"),
        ("==PROF== Connected to process 9\n" + DETAILS, "what ncu prints for people, without --csv", "ncu --import"),
        (
            '"File Name","/tmp/t.cu"\n"Line No","Source"\n"1","int x;"\n',
            "source page without its counters",
            "cuda,sass",
        ),
    ],
    ids=["session", "details", "stdout", "text of the source"],
)
def test_another_text_of_ncu_says_what_it_is(tmp_path: Path, content: str, what: str, advice: str) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(TraceError) as problem:
        open_path(tmp_path / "a.csv", cache=False)
    assert what in str(problem.value)
    assert advice in str(problem.value)
