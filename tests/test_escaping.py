"""Whatever a name holds, it stays a name in CSV, in tab-separated text and in Markdown."""

from __future__ import annotations

import csv
import io
from types import SimpleNamespace
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tracetui.analysis.tables.table import Field
from tracetui.app.reports.csv_report import plain_csv
from tracetui.app.reports.markdown import markdown
from tracetui.app.reports.parts import Sentences, Title
from tracetui.app.tables import export
from tracetui.app.text.escaping import cell, code, fenced, plain

if TYPE_CHECKING:
    from pathlib import Path

EVIL = (
    "=cmd|'/C calc'!A0", "@SUM(1+1)", "+1+cmd|' /C calc'!A0", "-2+3+cmd|' /C calc'!A0", "\t=1+1", "\r=1+1",
    "\x1b[31mred\x1b[0m", "\x9b31m", "a\nb", "<script>alert(1)</script>", "![x](http://evil.example/x.png)",
    "[x](javascript:alert(1))", "<img src=x onerror=alert(1)>", "`code` | pipe", "https://evil.example", "\u202eabc",
    "``` ", "www.evil.example",
)  # fmt: skip
HARMLESS = ("-12.5", "+3", "-1,234", "-5 ms", "-", "aten::mm", "1e-5", "-1e-05", "", "void k(a*, b)", "-3.2%")
FIELDS = (Field("name", "Name", "name"), Field("total", "Total", "us"))


@pytest.mark.parametrize("text", EVIL)
def test_no_cell_is_a_formula_or_controls_a_terminal(text: str) -> None:
    written = cell(text)
    assert not written.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert written.isprintable()


@pytest.mark.parametrize("text", HARMLESS)
def test_numbers_and_names_stay_as_they_are(text: str) -> None:
    assert cell(text) == text


def test_every_writer_of_csv_and_tsv_does_the_same(tmp_path: Path) -> None:
    frame = pl.DataFrame({"name": pl.Series([*EVIL, None], dtype=pl.Categorical), "total": range(-3, len(EVIL) - 2)})
    want = [cell(text) for text in EVIL]
    for suffix, sign in ((".csv", ","), (".tsv", "\t")):
        export.write(frame, FIELDS, tmp_path / f"t{suffix}")
        text = (tmp_path / f"t{suffix}").read_text(encoding="utf-8")
        rows = list(csv.reader(io.StringIO(text), delimiter=sign))
        assert [row[0] for row in rows[1:]] == [*want, ""]
        assert rows[1][1] == "-3", "a negative number is no formula"
    assert [row[0] for row in csv.reader(io.StringIO(export.tsv(frame, FIELDS)), delimiter="\t")][1:-1] == want
    report = plain_csv([{"name": text, "total": -3} for text in EVIL], ("name", "total"))
    rows = list(csv.reader(io.StringIO(report)))
    assert [row[0] for row in rows[1:]] == want
    assert rows[1][1] == "-3"


@pytest.mark.parametrize("text", EVIL)
def test_markdown_shows_a_name_and_does_nothing(text: str, tmp_path: Path) -> None:
    frame = pl.DataFrame({"name": [text], "total": [5]})
    shown = export.markdown(frame, FIELDS)
    assert shown.count("\n") == 3
    assert code(text) in shown
    assert "\x1b" not in shown
    said = markdown([Title(text, 1), Sentences((text,))], SimpleNamespace())  # type: ignore[arg-type]
    for live in ("<script", "<img", "](", "https://evil", "www.evil", "\x1b"):
        assert live not in said.replace("\\<", "\\").replace("\\](", "\\"), said
    assert plain(text).isprintable()


def test_nothing_ends_a_block_of_code() -> None:
    block = fenced(["a", "```", "````` b"])
    assert (block[0], block[-1]) == ("``````text", "``````")
