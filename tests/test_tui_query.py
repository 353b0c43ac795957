"""Queries on the screen: the line behind the colon, its words, and the table of a result."""

import asyncio
import threading

import polars as pl
import pytest
from sample_runs import FP32
from tui_pilot import lines, opened, screen_text, settle

from tracetui.analysis.query import ask as asking
from tracetui.analysis.query.ask import Answer, Column, QueryError, Stop
from tracetui.app.screen.queries import completed, hint, one_line
from tracetui.app.views.query import _table
from tracetui.app.widgets.prompt import PromptInput


async def typed(pilot, *keys: str) -> None:
    """Presses keys as one packet; a text of several words is typed letter by letter."""
    letters = {" ": "space", "*": "asterisk", "/": "slash", ":": "colon"}
    named = ("enter", "escape", "up", "down", "tab", "ctrl+u")
    for word in keys:
        await pilot.press(*([word] if word in named else [letters.get(letter, letter) for letter in word]))
    await settle(pilot)


needs_duckdb = pytest.mark.skipif(not asking.is_there(), reason="needs tracetui[query]")


def test_a_pasted_query_is_one_line() -> None:
    assert one_line(" select 1 -- x ") == "select 1 -- x"
    pasted = "select a, -- it's\r\n  '--b\n c' /* q\n */ as \"d -- e\"\rfrom t -- end"
    assert one_line(pasted) == "select a, '--b\n c' as \"d -- e\" from t"
    assert one_line("select 1\n\n") == "select 1"


def test_words_are_completed() -> None:
    assert completed("select * from dev") == ("ice", completed("select * from dev")[1])
    assert completed("select input_", "from host") == ("", "input_shapes input_types")
    assert completed("select h.dura", " from host h") == ("tion", "")
    assert completed("select x from host where forward_mod") == ("", completed("")[1])
    assert completed("")[1].startswith("frames: steps host")
    assert "device.launch = host.row" in completed("select * from device join host on ")[1]
    assert completed("select * from device join host on device.laun")[0] == "ch"
    assert completed("select na", " from device d join host on true") == ("me", "d.name host.name")
    assert completed("select d.ro", " from device d join host h on true") == ("w", "")


def test_how_tables_belong_together_is_said_while_they_are_typed() -> None:
    assert hint("select 1 from dev") == completed("")[1]
    assert "collectives.device = device.row" in hint("select 1 from device where")
    assert hint("select 1 from device d join steps on") == "joins: d.step = steps.row"
    assert hint("select 1 from kernels, operators o where") == "joins: kernels.operator = o.name"


def test_a_result_as_a_table() -> None:
    names = ("name", "duration", "total_us", "start", "grid", "f", "n", "share_percent", "total_ns")
    types = ("varchar", "bigint", "double", "bigint", "integer[]", "boolean", "hugeint", "double", "bigint")
    rows = (("void k<int>(int)", 1500, 1.1, 2**62, [1, 2, 3], False, 1 << 70, 12.5, 7), (None,) * 9)
    answer = Answer(("device",), tuple(map(Column, names, types)), rows, more=False)
    fields, frame = _table(answer)
    assert [field.kind for field in fields] == [
        "text", "time", "time", "number", "text", "flag", "number", "percent", "time",
    ]  # fmt: skip
    assert [field.title for field in fields] == list(names)
    assert len({field.name for field in fields}) == 9
    assert frame.select(field.name for field in fields).row(0) == (
        "void k<int>(int)", 1500, 1100, 2**62, "1x2x3", False, float(1 << 70), 12.5, 7,
    )  # fmt: skip
    assert frame[fields[0].short].to_list() == ["k", None]
    assert set(frame.row(1)) == {None}
    assert frame.schema[fields[3].name] == pl.Int64
    assert _table(Answer(("host",), (Column("duration", "bigint"),), ((1,),), more=False))[0][0].kind == "time"
    assert _table(Answer((), (Column("duration", "bigint"),), ((1,),), more=False))[0][0].kind == "number"


def test_a_query_that_is_stopped_starts_no_process() -> None:
    stop = Stop()
    stop.now()
    with pytest.raises(QueryError, match="stopped"):
        asking.ask("select 1", ["host"], lambda _: {}, stop=stop)


@needs_duckdb
def test_the_process_of_a_query_is_stopped() -> None:
    stop = Stop()
    timer = threading.Timer(0.3, stop.now)
    timer.start()
    with pytest.raises(QueryError, match="stopped"):
        asking.ask("select count(*) from range(10000000000) a, range(100000) b", [], lambda _: {}, stop=stop)


async def test_the_line_takes_all_keys_and_shows_the_result(monkeypatch) -> None:
    """The whole way, with answers made by hand: what DuckDB answers is tested without the screen."""
    asked: list[str] = []
    goes_on = threading.Event()

    def answered(run, trace, sql, config, *, scope, stop) -> Answer:
        asked.append(sql)
        if "wrong" in sql:
            raise QueryError("no frame named wrong; there are steps, host")
        if "long" in sql:
            goes_on.wait(20)
            stop.check()
        rows = tuple((f"kernel {row}", row) for row in range(3))
        return Answer(("device",), (Column("name", "varchar"), Column("gpu_ns", "bigint")), rows, more=False)

    monkeypatch.setattr(asking, "is_there", lambda: True)
    monkeypatch.setattr("tracetui.app.views.query.answer_of", answered)
    async with opened(FP32) as (app, pilot):
        # keys of a packet belong to the line: q would quit, 2 go to another tab
        await typed(pilot, ":select wrong q2", "enter")
        line = app.query_one(PromptInput)
        assert (app.tab, line.value) == ("overview", "select wrong q2")
        assert "no frame named wrong" in screen_text(app)
        # corrected in place; the result is a table in a tab of its own
        await typed(pilot, "ctrl+u", "select", "enter")
        assert asked == ["select wrong q2", "select"]
        assert app.tab == "query"
        assert lines(app)[4].startswith(">kernel 0")
        await typed(pilot, "sgpu", "enter")
        assert lines(app)[4].startswith(">kernel 2")
        await typed(pilot, "/kernel 1", "enter")
        assert "1 of 3 rows" in screen_text(app)
        # Esc: the filter, then back to where the query was asked
        await typed(pilot, "escape")
        assert app.tab == "query"
        await typed(pilot, "escape")
        await settle(pilot)
        assert app.tab == "overview"
        # an earlier query comes back; the text that was typed too
        await typed(pilot, ":se", "up")
        assert line.value == "select"
        await typed(pilot, "up")
        assert line.value == "select wrong q2"
        await typed(pilot, "down", "down")
        assert line.value == "se"
        await typed(pilot, "ctrl+u", "select * from dev", "tab")
        assert line.value == "select * from device"
        # one that runs is stopped by Esc, and what it finds then is not shown
        await typed(pilot, "ctrl+u", "select long")
        await pilot.press("enter")
        while asked[-1] != "select long":
            await asyncio.sleep(0.01)
        assert "Esc stops it" in app.shell.prompt._remark
        await pilot.press("escape")
        goes_on.set()
        await settle(pilot)
        assert app.shell.prompt is None
        assert app.tab == "overview"
        # without DuckDB the line says what to install, and runs nothing
        monkeypatch.setattr(asking, "is_there", lambda: False)
        await typed(pilot, ":select", "enter")
        assert "pip install 'tracetui[query]'" in screen_text(app)
        assert asked[-1] == "select long"
