"""A field that is shown in two places reads the same there: on the screen, in text, in Markdown, from one formatter."""

import re
from collections.abc import Iterator
from functools import cache

import polars as pl
import pytest
from as_json import diff_report
from laid_out import diff_parts, run_parts
from sample_runs import recorded

from tracetui.analysis.base.json_values import Json
from tracetui.analysis.report import report as contract
from tracetui.analysis.report import rows as report_rows
from tracetui.analysis.report import sections
from tracetui.analysis.tables.table import Table
from tracetui.app.reports.layout import Layout
from tracetui.app.reports.markdown import markdown
from tracetui.app.reports.parts import Block, cell
from tracetui.app.reports.text import text
from tracetui.app.tables.columns import cell_text
from tracetui.app.text.fitting import printable
from tracetui.parsers import open_path

VIM = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"
RECORDINGS = (
    VIM,
    "chrome/ddp_vit_small_2ranks",
    "chrome/forms/torch213_cpu_mlp_modules.pt.trace.json.gz",
    "ncu/vim_full_raw.csv.gz",
    "memory/gpt_memory_snapshot.pickle.gz",
    "ops",
)


@cache
def looked_at(name: str) -> tuple[contract.Report, list[tuple[pl.DataFrame, Table, list[Json]]]]:
    """The report of a recording, and every frame that became rows of it, with its table and those rows."""
    seen: list[tuple[pl.DataFrame, Table, list[Json]]] = []
    made = report_rows.table_rows

    def noted(frame: pl.DataFrame, table: Table, limit: int | None = None) -> list[Json]:
        rows = made(frame, table, limit)
        seen.append((frame, table, rows))
        return rows

    from tracetui.analysis.report import counters, memory

    with pytest.MonkeyPatch.context() as patch:
        for module in (sections, contract, counters, memory):
            patch.setattr(module, "table_rows", noted)
        return contract.report(open_path(recorded(name))), seen


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_field_reads_the_same_on_the_screen_and_in_reports(name: str) -> None:
    _, listed = looked_at(name)
    compared = 0
    for frame, table, rows in listed:
        for field in table.data_fields:
            if field.nested or field.name not in frame.columns or field.json_type.endswith(("list", "words")):
                continue
            column = frame[field.name].to_list()
            for value, row in zip(column, rows, strict=False):
                shown = cell_text(value, field.kind)
                assert cell(_whole(field), row) == shown, (table.id, field.name, value)
                compared += 1
    assert compared > 10


def _whole(field):  # type: ignore[no-untyped-def]
    """The field without its short form, which the screen can have otherwise."""
    from dataclasses import replace

    return replace(field, short="")


@pytest.mark.parametrize("name", RECORDINGS)
def test_text_and_markdown_have_the_same_cells(name: str) -> None:
    found, _ = looked_at(name)
    layout = Layout(limit=7)
    blocks = [part for part in run_parts(found, layout) if isinstance(part, Block) and part.cells]
    _compare(blocks, markdown(run_parts(found, layout), layout), text(run_parts(found, layout), layout))


def test_a_diff_in_text_and_markdown_has_the_same_cells() -> None:
    from tracetui.analysis.selection import select

    sides = [
        open_path(recorded(VIM)),
        open_path(recorded(VIM.replace("fp32", "fp16"))),
    ]
    found = diff_report(*(select(run.main) for run in sides))
    layout = Layout(limit=7)
    blocks = [part for part in diff_parts(found, layout) if isinstance(part, Block) and part.cells]
    assert len(blocks) > 3
    _compare(blocks, markdown(diff_parts(found, layout), layout), text(diff_parts(found, layout), layout))


def _compare(blocks: list[Block], marked: str, plain: str) -> None:
    assert blocks
    tables = list(_tables(marked))
    assert len(tables) == len(blocks)
    for block, table in zip(blocks, tables, strict=True):
        kept = [n for n, column in enumerate(block.columns) if not column.is_bar]
        assert table[0] == [block.columns[n].title for n in kept]
        assert table[2:] == [[printable(row[n]).strip() for n in kept] for row in block.cells]
        for row in block.cells:
            shown = [n for n, column in enumerate(block.columns) if column.right and not column.wide]
            numbers = [row[n] for n in shown if row[n].strip()]
            # a sign may stand behind the first
            pattern = r"[*?]?\s+".join(map(re.escape, numbers[:3]))
            assert re.search(pattern, plain), numbers


def _tables(marked: str) -> Iterator[list[list[str]]]:
    """Each table of a Markdown text: its lines as cells, as a reader sees them."""
    table: list[list[str]] = []
    for line in [*marked.splitlines(), ""]:
        if line.startswith("| "):
            table.append([_read(part) for part in re.split(r"(?<!\\)\|", line[1:-1])])
        elif table:
            yield table
            table = []


def _read(part: str) -> str:
    part = re.sub(r"^(· )+", "", part.strip())
    span = re.fullmatch(r"(`+) ?(.*?) ?\1", part)
    if span:
        return span[2].replace("\\|", "|")
    return re.sub(r"\\([\\`*_{}\[\]<>#|~])", r"\1", part)
