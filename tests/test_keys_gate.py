"""Keys belong to the line or dialog that the key before them opened."""

import asyncio
import itertools
import threading

import pytest
from sample_runs import FP32
from textual import events
from tui_pilot import opened, press, screen_text, settle

import tracetui.parsers
from tracetui.app.keys import commands
from tracetui.app.screen import keyboard
from tracetui.app.screen.keyboard import Gate
from tracetui.app.screen.tui import TracetuiApp
from tracetui.app.settings.schema import Settings
from tracetui.app.terminal.choice import driver_class
from tracetui.app.terminal.keys import KeyParser
from tracetui.app.text import paths
from tracetui.parsers import open_path

PACES = (0.0, 0.03)


def test_one_item_is_out_and_none_is_lost():
    """All sequences of putting, taking and ending, eight times each."""
    for order in itertools.product("ptd", repeat=8):
        walk(order)


def walk(order: tuple[str, ...]) -> None:
    gate: Gate[int] = Gate()
    put, came, ticket = 0, [], 0
    for step in order:
        if step == "p":
            gate.put(put)
            put += 1
        elif step == "d":
            gate.done(ticket)
        elif (taken := gate.take()) is not None:
            assert not gate.is_current(ticket) or ticket == 0
            ticket, item = taken
            came.append(item)
        else:
            assert gate.is_out or len(came) == put
    while (taken := gate.take()) is not None or gate.is_out:
        if taken is not None:
            ticket, item = taken
            came.append(item)
        gate.done(ticket)
    assert came == list(range(put))


def test_a_late_answer_lets_nothing_out():
    gate: Gate[str] = Gate()
    gate.put("a")
    gate.put("b")
    gate.put_first(["x", "y"])
    assert gate.take() == (1, "x")
    gate.give_up()
    assert gate.take() == (2, "y")
    gate.done(1)
    assert gate.take() is None
    gate.done(2)
    assert [gate.take()[1], gate.done(3), gate.take()[1]] == ["a", None, "b"]


async def test_a_command_opens_the_line_that_it_names(tmp_path, monkeypatch):
    """What is opened before the rows are there says the same as what the view opens."""
    monkeypatch.chdir(tmp_path)
    async with opened(FP32) as (app, pilot):
        for command in commands.DEFAULTS:
            if not command.keys or (not command.line and command.id not in ("table.columns", "app.help", "sort.next")):
                continue
            tab = next(
                (tab for tab in ("overview", "kernels", "timeline", "findings") if tab in command.tabs), "kernels"
            )
            app.shell.show_tab(tab)
            if command.id == "timeline.save":
                await press(pilot, "left_square_bracket", "full_stop", "right_square_bracket")
            await press(pilot, command.keys.split(",")[0])
            prompt = app.shell.prompt
            assert (prompt.question.label if prompt is not None else "") == command.line, command.id
            await press(pilot, "escape")


async def typed(app: TracetuiApp, keys: bytes, pace: float = 0.0) -> None:
    """Sends bytes as the driver does; without a pace, all of them before the screen looks at the first."""
    parser = KeyParser()
    for byte in keys.decode():
        for event in parser.feed(byte):
            app.post_message(event)
        if pace:
            await asyncio.sleep(pace)


@pytest.fixture
def slow(monkeypatch):
    """The sample, read when the test says so."""
    ends = threading.Event()

    def read(*paths, progress, cancel, cache):
        ends.wait(60)
        return open_path(*paths)

    monkeypatch.setattr(tracetui.parsers, "open_path", read)
    yield ends
    ends.set()


@pytest.mark.parametrize("pace", PACES)
async def test_a_filter_is_typed_whole_while_reading_and_after(slow, pace, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    app = TracetuiApp([FP32])
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await typed(app, b"2/gemm q\x7f\x7f", pace)
        if pace:  # the rows come while the line is open
            slow.set()
            await settle(pilot)
            assert app.shell.prompt.line.value == "gemm"
        await typed(app, b"_f32\r", pace)
        slow.set()
        await settle(pilot)
        assert (app.tab, app.session.filter, app.view.state.filter) == ("kernels", "gemm_f32", "gemm_f32")
        assert app.view.table.height_of_view == app.view.table.frame["name"].str.contains("gemm_f32").sum() > 0
        assert app.shell.prompt is None

        await typed(app, b"3\x15/qeE3?\r", pace)  # a first visit, whose rows are still to come
        await settle(pilot)
        assert (app.tab, app.session.filter) == ("operators", "gemm_f32qeE3?")
        await typed(app, b"/\x15\r1/q2\r4", pace)
        await settle(pilot)
        assert (app.tab, app.session.filter) == ("host", "q2")
    assert list(tmp_path.iterdir()) == []


async def test_pasted_in_brackets_it_is_the_open_line_s_or_nobody_s(slow, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    app = TracetuiApp([FP32])
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await typed(app, b"\x1b[200~q/2e\r\x1b[201~")
        await pilot.pause()
        assert (app.tab, app.shell.prompt) == ("overview", None)
        await typed(app, b"2/\x1b[200~gemm\nqq\x1b[201~")
        await pilot.pause()
        slow.set()
        await settle(pilot)
        assert app.shell.prompt.line.value == "gemm"
        assert app.view.table.height_of_view == 8
        await typed(app, b"\r\x1b[200~q\x1b[201~/\t\x1b[Zx\r")
        await settle(pilot)
        assert (app.tab, app.session.filter) == ("kernels", "gemmx")


async def test_what_is_pasted_is_a_path_in_a_list_and_a_line_of_a_comment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with opened(FP32) as (app, pilot):
        await typed(app, b"2\x1b[200~gemm\x1b[201~")
        await settle(pilot)
        assert "What is pasted goes into a line, and none is open" in screen_text(app)
        await typed(app, b"W\x1b[200~slow\n  since\n\x1b[201~")
        await settle(pilot)
        assert app.shell.prompt.line.value == "slow since"
        (tmp_path / "a b").mkdir()
        await typed(app, f"\x1bo\x1b[200~'{tmp_path}/a b/no'\nmore\x1b[201~\r".encode())
        await settle(pilot)
        assert f"No such file or folder: {tmp_path}"[:40] in screen_text(app)
        assert app.screen.query_one("PathLine").value == f"'{tmp_path}/a b/no'"
    assert paths.typed(f" '{tmp_path}/a b' ") == tmp_path / "a b"


async def test_what_is_typed_into_other_lines_and_dialogs_is_theirs(slow, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    app = TracetuiApp([FP32])
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await typed(app, b"Tt20ms\r")
        slow.set()
        await settle(pilot)
        lanes = app.view.picture
        zero = app.view._built.zero
        assert app.tab == "timeline"
        assert abs(lanes.time - zero - 20_000_000) < (lanes.end - lanes.start) // lanes.columns
        await typed(app, b"tq\x7f30ms\r/selective_scan\r")
        await settle(pilot)
        assert "selective_scan" in app.view.query_one("#selected").text
        await typed(app, b"\x10go to modules\r\x10filter as you\rgq\r")
        await settle(pilot)
        assert (app.tab, app.view.state.filter) == ("modules", "gq")
        await typed(app, b"\x1b[27u")
        await typed(app, b"o\t/no/such q\r")
        await settle(pilot)
        assert "No such file or folder: /no/such q" in screen_text(app)
        await typed(app, b"\x1b[27u2\r/Block_15\r")  # what is inside the row is still to be computed
        await settle(pilot)
        assert app.view.state.page.id == "launches"
        assert (app.view.state.filter, app.view.table.height_of_view, app.session.filter) == ("Block_15", 6, "")


async def test_keys_of_the_tab_wait_for_its_rows_and_esc_forgets_them(slow):
    app = TracetuiApp([FP32])
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("2", "greater_than_sign", "r", "j")
        await pilot.pause()
        pilot.app.screen._on_timer_update()
        assert "Waiting for the rows: > r j" in screen_text(app)
        await pilot.press("escape", "greater_than_sign", "j", "r", "escape", "greater_than_sign", "r", "j")
        slow.set()
        await settle(pilot)
        table = app.view.table
        assert (table.sort, table.cursor) == (("percent", False), 1)


async def test_esc_and_the_key_after_it_in_one_packet_are_two_keys(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with opened(FP32) as (app, pilot):
        for tab, number in (("operators", b"3"), ("host", b"4"), ("kernels", b"2")):
            await typed(app, b"/zzz\x1b" + number)  # Textual reads these as other signs
            await settle(pilot)
            assert (app.tab, app.session.filter, app.shell.prompt) == (tab, "", None)
        await typed(app, b"jj\x1bG\x1b/gemm\x1b:")  # a letter, a sign of a line, and Esc where nothing is to be closed
        await settle(pilot)
        assert app.view.table.cursor == app.view.table.height_of_view - 1
        assert (app.shell.prompt.question.purpose, app.session.filter) == ("query", "")
        await typed(app, b"select a\x1bbX")  # Alt and the left arrow of some terminals: a word back
        await settle(pilot)
        assert app.shell.prompt.line.value == "select Xa"
        await typed(app, b"\x1b?\x1bo\x1b \x1bqj")  # help, a list, a blank, and the end
        assert app.ending.done or app._exit or await asyncio.wait_for(_ended(app), 10)


async def _ended(app: TracetuiApp) -> bool:
    while not app.ending.done:
        await asyncio.sleep(0.01)
    return True


async def test_alt_is_a_key_of_its_own_where_it_means_something(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        async with opened(FP32, settings=Settings(keys={"tab.memory": ("alt+1",)})) as (app, pilot):
            await typed(app, b"\x1b1")
            await settle(pilot)
            assert app.tab == "memory"
    finally:
        commands.use_keys({})


def test_in_a_browser_keys_are_read_in_the_same_way(monkeypatch):
    from textual.drivers import linux_driver, web_driver

    for module in (linux_driver, web_driver):
        monkeypatch.setattr(module, "XTermParser", module.XTermParser)
    monkeypatch.setenv("TEXTUAL_DRIVER", "textual.drivers.web_driver:WebDriver")
    assert driver_class("auto") is None
    assert web_driver.XTermParser is KeyParser


def test_what_is_no_key_after_esc_is_read_as_textual_reads_it():
    parser = KeyParser()
    sent = "\x1b[A\x1bOP\x1b[1;5C\x1b\x7f\x1b[200~ab\x1b[201~\x1b\x1b[Bé\x1bé"
    events_of = [(type(one).__name__, getattr(one, "key", getattr(one, "text", ""))) for one in parser.feed(sent)]
    assert events_of[:4] == [("Key", "up"), ("Key", "f1"), ("Key", "ctrl+right"), ("Key", "ctrl+w")]
    assert events_of[4][0] == "Paste"
    assert [key for _, key in events_of[5:]] == ["escape", "down", "é", "alt+é"]


async def test_ctrl_q_quits_from_dialogs_too():
    for keys in (b"?\x11", b"2c\x11", b"\x10q\x11"):
        async with opened(FP32) as (app, _):
            await typed(app, keys)
            async with asyncio.timeout(20):
                while not app._exit:
                    await asyncio.sleep(0.01)
        assert app.return_code == 0


async def test_a_dialog_that_opens_of_itself_waits_for_the_line(slow, tmp_path):
    from sample_runs import linked

    for name in ("vim_tiny_fp32_bs4.pt.trace.json.gz", "gpt_small_ctx256.trace.json.gz"):
        linked(FP32.parent / name, tmp_path / name)
    app = TracetuiApp([tmp_path])
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await typed(app, b"2/g")
        slow.set()
        await settle(pilot)
        assert len(app.screen_stack) == 1
        await typed(app, b"emm\r")
        await settle(pilot)
        assert "2 runs in" in screen_text(app)
        assert app.session.filter == "gemm"


async def test_a_key_whose_widget_is_gone_holds_up_the_next_one_only_for_a_while(monkeypatch):
    monkeypatch.setattr(keyboard, "LONGEST_SECONDS", 0.02)
    async with opened(FP32, tab="kernels") as (app, pilot):
        app.keyboard._gate.put(events.Key("f9", None))
        app.keyboard._gate.take()  # nobody says that it is done
        await pilot.press("j")
        await settle(pilot)
        assert app.view.table.cursor == 1


def test_a_line_feed_is_enter() -> None:
    """What is typed before the program has the terminal comes through its line discipline."""
    parser = KeyParser()
    keys = [event for event in parser.feed("2/gemm\n") if isinstance(event, events.Key)]
    assert [key.key for key in keys][-1] == "enter"
    pasted = [event for event in parser.feed("\x1b[200~a\nb\x1b[201~") if isinstance(event, events.Paste)]
    assert [event.text for event in pasted] == ["a\nb"]
