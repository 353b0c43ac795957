"""Captures in a sweep: models by contexts as a matrix and as rows, and what ran out of memory."""

import csv
import gzip
import io
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from as_json import report
from by_schema import wrong
from laid_out import report_text
from msgspec import structs
from sample_runs import recorded
from sweep_maker import write_sweep
from test_captures import training
from test_ranges import BY_SQL

from tracetui.analysis.captures.captures import captures, out_of_memory
from tracetui.analysis.captures.model import matrix_rows
from tracetui.analysis.report.sweep import SweepReport, sweep_json, sweep_report
from tracetui.analysis.sweeps.model import is_size
from tracetui.analysis.sweeps.reading import read_sweep
from tracetui.analysis.tables.captures import CATEGORIES, PHASES, TOP_KERNELS
from tracetui.app.cli.main import main
from tracetui.app.reports.content.sweep import section_csv, section_parts, sweep_parts
from tracetui.app.reports.layout import Layout
from tracetui.app.reports.text import text as as_text
from tracetui.parsers import open_path

CONTEXTS = "gpt_contexts"
SAYS_SO = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


@pytest.fixture(scope="module")
def whole() -> SweepReport:
    return sweep_report(read_sweep(recorded(CONTEXTS)))


@pytest.fixture(scope="module")
def found(whole: SweepReport) -> dict[str, Any]:
    return sweep_json(whole)


@pytest.fixture(scope="module")
def reported() -> dict[str, Any]:
    return report(open_path(recorded(CONTEXTS)), sections=["captures"])


def printed(found: SweepReport, section: str) -> str:
    layout = Layout()
    return as_text(section_parts(found, (section,), layout), layout)


def rows_of(found: SweepReport, section: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(section_csv(found, section))))


# --- one table, both ways


def test_a_sweep_has_what_the_report_says_of_captures(found: dict[str, Any], reported: dict[str, Any]) -> None:
    ours = {row["name"]: row for row in reported["run"]["captures"]}
    assert ours == {row["name"]: row for row in found["captures"]}
    assert [row["axes"] for row in found["captures"]] == [
        {"model": "small", "ctx": 128}, {"model": "small", "ctx": 1024},
        {"model": "medium", "ctx": 128}, {"model": "medium", "ctx": 1024},
    ]  # fmt: skip


def test_each_names_the_command_of_the_other(whole: SweepReport, reported: dict[str, Any]) -> None:
    layout = Layout()
    words = " ".join(as_text(sweep_parts(whole, layout), layout).split())
    assert f"tracetui report {recorded(CONTEXTS)} --section captures" in words
    said = " ".join(report_text(reported).split())
    assert f"tracetui sweep {recorded(CONTEXTS)} --section phases --format csv" in said
    grid = said[said.index("Step mean") : said.index("Steps by phase")]
    assert grid in words  # the same matrix


def test_rows_have_the_declared_form(found: dict[str, Any]) -> None:
    assert not wrong("sweep", found)
    for table in (PHASES, CATEGORIES, TOP_KERNELS):
        assert {frozenset(row) for row in found[table.section]} == {frozenset(("model", "ctx", *table.keys))}, table.id


def test_the_backward_pass_is_what_sql_finds_in_the_file(found: dict[str, Any], tmp_path: Path) -> None:
    for name in ("small_ctx1024", "medium_ctx128"):
        file = tmp_path / f"{name}.sqlite"
        file.write_bytes(gzip.decompress((recorded(CONTEXTS) / f"{name}.sqlite.gz").read_bytes()))
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as base:
            expected = {text: any_thread for text, any_thread, _ in base.execute(BY_SQL)}
        told = {row["phase"]: row for row in found["phases"] if row["name"] == name}
        for phase, text in (
            ("forward", "forward_pass"),
            ("backward", "backward_pass"),
            ("softmax", "computing softmax"),
        ):
            assert told[phase]["launched_us"] * 1000 == pytest.approx(expected[text], abs=0.5)
        by_kind = [row for row in found["categories"] if (row["name"], row["phase"]) == (name, "backward")]
        assert sum(row["us"] for row in by_kind) == pytest.approx(told["backward"]["launched_us"])
        assert sum(row["percent"] for row in by_kind) == pytest.approx(100)


def test_rows_and_matrix_are_the_same_numbers(found: dict[str, Any], whole: SweepReport) -> None:
    rows = rows_of(whole, "phases")
    assert list(rows[0])[:4] == ["model", "ctx", "name", "phase"]
    matrix = rows_of(whole, "matrix")
    assert list(matrix[0]) == ["phase", "measure", "model", "ctx128", "ctx1024"]
    for row in matrix:
        for ctx in ("128", "1024"):
            long = [
                one for one in rows if (one["model"], one["ctx"], one["phase"]) == (row["model"], ctx, row["phase"])
            ]
            told = long[0][row["measure"]] if long else "OOM"
            assert row[f"ctx{ctx}"] == told, row
    assert len(matrix) == 2 * 3 * len({row["phase"] for row in rows} - {"all"})
    wide = rows_of(whole, "captures")
    assert [float(row["backward.launched_us"] or 0) for row in wide] == [
        row["phases"]["backward"]["launched_us"] if row["phases"] else 0 for row in found["captures"]
    ]


def test_one_axis_is_one_matrix(whole: SweepReport) -> None:
    small = [structs.replace(row, axes={"ctx": row.axes["ctx"]}) for row in whole.captures[:2]]
    lines = printed(structs.replace(whole, captures=small), "matrix").splitlines()
    assert "  phase                   ctx128   ctx1024" in lines
    assert any(line.split()[:4] == ["backward", "CPU", "36.15", "ms"] for line in lines)


def test_other_sweeps_have_no_captures(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path / "sweep", [({"batch": n}, [1000.0], 1e9, 5) for n in (1, 2)])
    told = sweep_report(read_sweep(folder))
    said = sweep_json(told)
    assert [said[key] for key in ("captures", "phases", "categories", "top_kernels")] == [[], [], [], []]
    assert "Nothing for phases" in printed(told, "phases")
    assert main(["sweep", str(folder), "--section", "points", "phases", "--format", "csv"]) == 2


def test_models_told_by_size_are_no_variants() -> None:
    assert all(map(is_size, ("small", "XL", "2.7B", "tiny")))
    assert not any(map(is_size, ("topk", "deit_small", "v2", "2")))


# --- out of memory


@pytest.fixture
def pair(tmp_path: Path) -> Callable[..., Path]:
    """A folder with two captures, the second of which ends in its forward pass."""

    def made(**texts: str) -> Path:
        training(tmp_path / "small_ctx128.sqlite", 100)
        training(tmp_path / "small_ctx256.sqlite", 200, steps=1, warmup=False, complete=False)
        for name, text in texts.items():
            (tmp_path / f"{name}.log").write_text(text)
        return tmp_path

    return made


def test_a_log_that_ends_so_makes_its_phases_oom(pair: Callable[..., Path]) -> None:
    told = sweep_report(read_sweep(pair(small_ctx256=f"step 0\n{SAYS_SO}Generated: report\n")))
    said = printed(told, "matrix")
    rows = {line.split()[0]: line.split() for line in said.splitlines() if " CPU " in line}
    assert rows["step"][-1] == rows["forward"][-1] == rows["backward"][-1] == "OOM"
    assert rows["softmax"][-2:] == ["3.000", "µs"]  # it was over when memory ran out
    assert "OOM: ctx256 ran out of memory: CUDA out of memory. Tried to allocate 2.00 GiB." in said.replace("\n", " ")
    assert "cut short: forward, step" in said.replace("\n", " ")
    cut = {(row["phase"], row["outcome"]) for row in rows_of(told, "phases") if row["ctx"] == "256"}
    assert cut == {("all", "cut"), ("step", "cut"), ("forward", "cut"), ("matmul", "measured"), ("softmax", "measured")}


@pytest.mark.parametrize(
    "text",
    ["all well\n", SAYS_SO + "retried with a smaller batch\n" * 80],
    ids=["it says nothing", "the program went on"],
)
def test_nothing_else_is_oom(pair: Callable[..., Path], text: str) -> None:
    folder = pair(small_ctx256=text, small_ctx512="fine\n", unlike_the_others=SAYS_SO)
    found = sweep_report(read_sweep(folder)).captures
    assert [row.out_of_memory for row in found] == [None, None]
    assert not any("OOM" in str(row) for row in matrix_rows(found)[1])


def test_a_log_alone_has_a_place_if_it_says_so(pair: Callable[..., Path]) -> None:
    folder = pair()
    (folder / "logs").mkdir()
    (folder / "logs" / "small_ctx1024.txt").write_text("RuntimeError: CUDA error: out of memory\n")
    told = sweep_json(sweep_report(read_sweep(folder)))
    assert [(row["axes"]["ctx"], bool(row["out_of_memory"])) for row in told["captures"]] == [
        (128, False), (256, False), (1024, True),
    ]  # fmt: skip
    assert [point["problem"] for point in told["points"]] == [None, None, "out of memory"]
    assert told["phases"][-1]["outcome"] == "out of memory"
    assert len(captures(open_path(folder, cache=False))) == 3


def test_run_json_says_which_tool_ran_out(tmp_path: Path) -> None:
    def said(**outcome: object) -> str | None:
        document = {"schema": "tracetui.run/1", "status": "failed", "outcome": outcome}
        (tmp_path / "run.json").write_text(json.dumps(document))
        return out_of_memory(tmp_path / "nsys.sqlite", "nsys")

    words = "the GPU's memory was too small: a smaller --batch needs less"
    assert said(explanation=f"nsys: {words}") == words
    assert said(explanation=f"ncu: {words}") is None  # another phase of the run
    assert said(explanation=f"torch: {words}") is None
    assert said(explanation=words) == words
    assert said(explanation="nsys: exit code 1") is None
    assert said() is None


def test_a_run_json_alone_has_a_place_if_it_says_so(tmp_path: Path) -> None:
    for ctx in (128, 256, 512, 1024):
        (tmp_path / f"ctx={ctx}").mkdir()
    for ctx in (128, 256):
        training(tmp_path / f"ctx={ctx}" / "nsys.sqlite", ctx)
    for ctx, explanation in ((512, "nsys: exit code 1"), (1024, "nsys: the GPU's memory was too small: take less")):
        document = {"schema": "tracetui.run/1", "status": "failed", "outcome": {"explanation": explanation}}
        (tmp_path / f"ctx={ctx}" / "run.json").write_text(json.dumps(document))
    found = captures(open_path(tmp_path, cache=False))
    assert [(row.axes, row.out_of_memory) for row in found] == [
        ({"ctx": 128}, None), ({"ctx": 256}, None), ({"ctx": 1024}, "the GPU's memory was too small: take less"),
    ]  # fmt: skip
