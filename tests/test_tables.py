"""Every table is declared soundly, and what is declared is what the report's JSON and CSV have."""

import csv
import io
from collections.abc import Callable
from typing import Any

import pytest
import reported
from by_schema import wrong
from contract import LISTS, OF_RUN, OF_SWEEPS, may_be_null, nulls, rows_at
from laid_out import diff_csv, report_csv
from reported import MADE_SWEEP, PAIRS, RECORDINGS, SAMPLE_SWEEP
from sample_runs import recorded

from tracetui.analysis.report.report import SECTIONS
from tracetui.analysis.report.sweep import SweepReport, sweep_json
from tracetui.analysis.schemas.shapes import OF_JSON
from tracetui.analysis.tables.registry import COMPARED, MODULES, TABLES
from tracetui.analysis.tables.registry import SECTIONS as TABLES_OF
from tracetui.analysis.tables.runs import SWEEP_POINTS
from tracetui.analysis.tables.table import TYPES, UNITS, Field, Table
from tracetui.app.reports.content.sweep import sweep_csv
from tracetui.app.text.fitting import printable

Json = dict[str, Any]
OF_ROWS = {
    "launches": "row",
    "memory_oom": "row",
    "memory_segments": "address",
    "sweep_points": "point",
}
"""Tables whose rows are found again by a column that nobody sees."""
UNTITLED = {
    ("categories", "category"),
    ("diff_conditions", "sort"),
    ("sweep_points", "marks"),
    ("sweep_variants", "sure"),
}
"""Columns of words that say themselves what they are."""
WITHOUT_ROWS = (
    "broken/empty_events.json",
    "broken/only_metadata_events.json",
    "memory/gpt_memory_snapshot.pickle.gz",
    reported.NO_MEMORY,
)
"""Recordings that fill none of the sections that are tables."""

# --- the declarations


def test_no_two_tables_have_one_id() -> None:
    declared = [value for module in MODULES for value in vars(module).values() if isinstance(value, Table)]
    assert len(declared) > 40
    assert len({table.id for table in declared}) == len(declared) == len(TABLES)


def test_columns_are_declared_once() -> None:
    for table in TABLES.values():
        names = [field.name for field in table.fields]
        assert len(set(names)) == len(names), table.id
        assert len(set(table.keys)) == len(table.data), table.id
        assert len(set(table.reports)) == len(table.reports), table.id
        assert set(table.csv_header) <= set(table.keys), table.id


def test_what_a_table_names_are_its_columns() -> None:
    for table in TABLES.values():
        names = {field.name for field in table.fields}
        assert names >= {*table.data, *table.reports}, table.id
        assert table.sort is None or table.sort[0] in names, table.id
        if table.id in OF_ROWS:
            assert table.key == OF_ROWS[table.id]
            assert table.key not in names, table.id
        else:
            assert table.key in {"", *names}, table.id


def test_a_reader_is_told_what_a_column_is() -> None:
    for table in TABLES.values():
        for field in table.fields:
            column, about = (table.id, field.name), field.about
            is_seen = field.screen or field.name in table.reports
            assert field.title or not is_seen or column in UNTITLED, column
            assert about, column
            assert about == about.strip(), column
            assert not about.endswith((".", ":", ",", ";")), column
            assert not any(text in about for text in (". ", "\n", "  ")), column
            assert not about[0].isupper() or about.split()[0] not in ("The", "A", "An", "How", "What"), column
            assert about.count("`") % 2 == 0, column


def test_a_column_has_a_type() -> None:
    for table in TABLES.values():
        for field in table.fields:
            column = (table.id, field.name)
            assert field.json_type in OF_JSON, column
            assert field.kind in TYPES, column
            assert field.name.endswith("_ns") or field.name == "ns" or UNITS.get(field.kind) != "µs", column
            assert (field.kind == "list") <= (not field.screen), column
        for field in table.data_fields:
            # a time in ns is no key: the report has µs
            assert not field.json_key.endswith("_ns"), (table.id, field.name)


def test_every_section_that_lists_rows_is_declared() -> None:
    assert {table.section.partition(".")[0] or name for name, table in TABLES_OF.items()} <= {
        *SECTIONS,
        "kernel_groups",
        "range_tree_kernels",
        "module_kernels",
    }
    assert set(SECTIONS) - set(TABLES_OF) == {"overview", "launches", "memory", "captures"}
    assert all(table.data for table in (*TABLES_OF.values(), *COMPARED.values()))
    in_reports = {*LISTS.values(), *COMPARED.values(), *OF_RUN.values(), *OF_SWEEPS}
    assert {table for table in TABLES.values() if table.data} == in_reports


# --- the report


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Json]:
    """The whole report of a recording; not to be changed."""

    def get(name: str) -> Json:
        path = made[name] if name in made else recorded(name)
        return reported.reported(path)

    made = {name: reported.make(name, tmp_path_factory.mktemp("made")) for name in reported.MADE}
    return get


def read_back(cell: str, field: Field) -> Any:
    """A cell of a CSV as JSON has it; what is unknown and what is empty are one there."""
    if cell == "":
        return None
    if field.json_type == "flag":
        return {"true": True, "false": False}[cell]
    if field.json_type == "whole list":
        return [int(size) for size in cell.split("x")]
    read: dict[str, Callable[[str], Any]] = {"whole": int, "real": float, "number": float}
    return read.get(field.json_type, str)(cell)


def in_csv(value: Any, field: Field, joined_by: str) -> Any:
    """What a CSV can tell of a value."""
    if field.json_type == "words":
        value = joined_by.join(value)
    return None if value in ("", [], None) else printable(value) if isinstance(value, str) else value


def equal_but_for_nested(text, rows, table, before=(), joined_by="; ", after=()) -> int:
    """How many cells of the CSV were found to be the rows' values; fails where one is not.

    Args:
        text: the CSV.
        rows: the same rows in JSON.
        table: declares both.
        before: keys of the CSV's first columns, which the table does not declare.
        after: keys of its last columns, likewise.
        joined_by: what stands between the words of a list.
    """
    rows = list(rows)
    lines = csv.DictReader(io.StringIO(text))
    assert tuple(lines.fieldnames or ()) == (*before, *table.csv_header, *after)
    cells = 0
    for line, item in zip(lines, rows, strict=True):
        assert tuple(key for key in item if key not in (*before, *after)) == table.keys
        for key in (*before, *after):
            assert line[key] == ("" if item[key] is None else printable(str(item[key]))), key
        for field in table.data_fields:
            if not field.nested:
                key = field.json_key
                assert read_back(line[key], field) == in_csv(item[key], field, joined_by), (key, line[key], item[key])
                cells += 1
    return cells


@pytest.mark.parametrize("name", RECORDINGS)
def test_csv_is_what_json_is(found: Callable[[str], Json], name: str) -> None:
    whole = found(name)
    traces = whole["run"]["traces"]
    by_name = {**whole, "run": {**whole["run"], "traces": [{**trace} for trace in traces]}}
    for trace in by_name["run"]["traces"]:
        del trace["kernel_groups"]
    cells = 0
    for section, table in TABLES_OF.items():
        if section in OF_RUN:
            rows, before = whole["run"][section], ()
        else:
            origin = [{"trace": trace["source"]["path"], "rank": trace["source"]["rank"]} for trace in traces]
            before = ("trace", "rank") if len(traces) > 1 else ()
            main = traces[whole["run"]["main"] or 0]["source"]["kind"]
            of_tools: dict[str, list[Json]] = {main: []}
            for place, trace in zip(origin, traces, strict=True):
                mine = of_tools.setdefault(trace["source"]["kind"], [])
                more = {**(place if before else {}), "base": trace["totals_base"]}
                mine += [{**item, **more} for item in rows_at(trace, table.section or section)]
            rows = next((mine for mine in of_tools.values() if mine), [])  # of one tool: they can be summed
        # grouped kernels stand in the place of the kernels
        grouped = section == "kernel_groups"
        text = report_csv(whole if grouped else by_name, "kernels" if grouped else section)
        after = () if section in OF_RUN else ("base",)
        cells += equal_but_for_nested(text, rows, table, before, after=after)
    assert (cells == 0) == (name in WITHOUT_ROWS)


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_csv_of_memory_is_its_holders(found: Callable[[str], Json], name: str) -> None:
    traces = found(name)["run"]["traces"]
    holders = LISTS["memory.holders"]
    rows = [item for trace in traces for item in rows_at(trace, "memory.holders")]
    lines = list(csv.DictReader(io.StringIO(report_csv(found(name), "memory"))))
    if rows and len(traces) == 1:
        assert tuple(lines[0])[-len(holders.csv_header) - 1 :] == (*holders.csv_header, "base")
        figures = set(lines[0]) - {*holders.csv_header, "base"}
        assert {"peak_allocated_bytes", "on_gpu", "fragmentation_percent"} <= figures <= set(traces[0]["memory"])
        for line, item in zip(lines, rows, strict=True):
            for field in holders.data_fields:
                key = field.json_key
                assert read_back(line[key], field) == in_csv(item[key], field, "; "), key


@pytest.mark.parametrize(("a", "b"), PAIRS)
@pytest.mark.parametrize("section", COMPARED)
def test_the_csv_of_a_diff_is_what_its_json_is(a: str, b: str, section: str) -> None:
    whole = reported.compared(recorded(a), recorded(b))
    table = COMPARED[section]
    runs = {f"{side}_{key}": whole[side][of] for side in "ab" for key, of in (("run", "name"), ("base", "base"))}
    rows = [{**row, **runs} for row in whole[section]]
    cells = equal_but_for_nested(diff_csv(whole, section), rows, table, after=tuple(runs))
    assert cells == len(whole[section]) * len(table.csv_header)


@pytest.fixture(scope="module", params=[SAMPLE_SWEEP, MADE_SWEEP])
def sweep(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, SweepReport]:
    """A sweep and its report."""
    made = request.param == MADE_SWEEP
    path = reported.make(MADE_SWEEP, tmp_path_factory.mktemp("made")) if made else reported.ROOT / request.param
    return request.param, reported.swept(path)


def test_the_points_of_a_sweep(sweep: tuple[str, SweepReport]) -> None:
    name, found = sweep
    whole = sweep_json(found)
    points, axes = whole["points"], tuple(whole["axes"])
    assert points
    assert all(tuple(point)[: len(axes)] == axes for point in points)
    assert not wrong("sweep", whole)
    assert equal_but_for_nested(sweep_csv(found), points, SWEEP_POINTS, axes, joined_by=" ") >= len(points)
    if name == MADE_SWEEP:
        assert set(nulls("points", points)) == may_be_null({"points": SWEEP_POINTS})
