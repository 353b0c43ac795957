"""The shell before the trace: first paint, progress, giving up, failing."""

import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from sample_runs import FP32, linked, recorded
from tui_pilot import PATIENCE_SECONDS, opened, press, screen_text, settle

import tracetui.parsers
from tracetui.app.screen.tui import TracetuiApp
from tracetui.app.session import jobs
from tracetui.parsers import Cancelled, Progress, open_path


def test_the_first_paint_needs_neither_polars_nor_numpy():
    code = (
        "import sys; from tracetui.app.screen import tui;"
        "sys.exit(', '.join(m for m in ('polars', 'numpy', 'tracetui.parsers', 'pandas') if m in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""
    assert done.returncode == 0


class SlowReader:
    """Stands in for `open_path`: reports progress and goes on until it is cancelled or told to end."""

    def __init__(self, run=None) -> None:
        self.run = run
        self.end = threading.Event()
        self.cancelled = False

    def __call__(self, *paths, progress, cancel, cache):
        progress(Progress("reading", 50_000_000, 200_000_000, 1234, paths[0]))
        while not self.end.wait(0.01):
            if cancel.is_set():
                self.cancelled = True
                if self.run is None:
                    raise Cancelled("nothing was read")
                break
        return self.run


@pytest.fixture
def slow(monkeypatch):
    readers = []

    def replace(run=None) -> SlowReader:
        readers.append(SlowReader(run))
        monkeypatch.setattr(tracetui.parsers, "open_path", readers[-1])
        return readers[-1]

    yield replace
    for reader in readers:
        reader.end.set()


def partial_run():
    from dataclasses import replace

    run = open_path(FP32, cache=False)
    trace = run.traces[0]
    return replace(run, traces=(replace(trace, source=replace(trace.source, partial=True)),))


async def until(pilot, words: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while words not in screen_text(pilot.app):
        assert time.monotonic() < deadline, screen_text(pilot.app)
        await pilot.pause(0.02)


async def test_shell_and_progress_are_there_while_reading(slow):
    reader = slow()
    app = TracetuiApp([Path("big.json")])
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, "Reading")
        text = screen_text(app)
        assert "[1 Overview]" in text
        assert "47.68 MiB of 190.7 MiB" in text
        assert "1,234 events" in text
        assert "Esc keep what was read" in text
        await pilot.press("3", "question_mark")
        await pilot.press("escape", "escape")
        await settle(pilot)
        assert reader.cancelled
        assert "stopped before anything was read" in screen_text(app)
        assert app.runs.exit_code == 1


async def test_esc_keeps_what_was_read_and_marks_it(slow):
    slow(partial_run())
    app = TracetuiApp([FP32])
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, "Reading")
        await pilot.press("escape")
        await settle(pilot)
        text = screen_text(app)
        assert "PARTIAL" in text.split("\n")[0]
        assert "The recording is not valid: Only the beginning is here" in text
        assert "Stopped: what was read so far is shown" in text
        await press(pilot, "2")
        assert "PARTIAL" in screen_text(app).split("\n")[0]


@pytest.mark.parametrize(("keys", "tab"), [((), "counters"), (("2",), "kernels"), (("2", "1"), "overview")])
async def test_a_tab_that_is_chosen_while_reading_is_shown(slow, keys, tab):
    reader = slow(open_path(recorded("ncu/scan_metrics_raw.csv.gz")))
    app = TracetuiApp([Path("big.csv")])
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, "Reading")
        for key in keys:
            await pilot.press(key)
        reader.end.set()
        await settle(pilot)
        assert app.tab == tab
        assert app.view is not None
        assert tab == app.view.TAB


async def test_quitting_does_not_wait_for_the_reader(slow, monkeypatch):
    begun, returns = threading.Event(), threading.Event()

    def deaf(*paths, progress, cancel, cache):
        begun.set()
        returns.wait(PATIENCE_SECONDS)  # a reader in the midst of a long call, which asks nobody

    monkeypatch.setattr(tracetui.parsers, "open_path", deaf)
    app = TracetuiApp([Path("big.json")])
    try:
        async with app.run_test() as pilot:
            while not begun.is_set():
                await pilot.pause(0.01)
            await pilot.press("q")
        assert app._exit
        assert jobs.busy(), "the reader is still in its call, and the program has ended"
    finally:
        returns.set()
    jobs.wait("", PATIENCE_SECONDS)
    assert not jobs.busy()


async def test_a_failed_open_is_one_line_and_exit_code_1(tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text("hello")
    async with opened(bad) as (app, pilot):
        text = screen_text(app)
        assert "bad.json:notatrace" in "".join(text.split())  # a long path breaks anywhere
        assert "q quit" in text
        for key in ("2", "slash", "o", "exclamation_mark", "x", "R", "escape"):
            await press(pilot, key)
        await pilot.press("q")
        await pilot.pause()
        assert app.runs.exit_code == 1


async def test_a_missing_file_is_named():
    async with opened(Path("no-such-file.json")) as (app, _):
        assert "no-such-file.json: no such file" in screen_text(app)


async def test_a_folder_of_runs_asks_which(tmp_path):
    samples = FP32.parent
    for name in ("vim_tiny_fp32_bs4.pt.trace.json.gz", "gpt_small_ctx256.trace.json.gz"):
        linked(samples / name, tmp_path / name)
    async with opened(tmp_path) as (app, pilot):
        assert "2 runs in" in screen_text(app)
        await press(pilot, "down", "enter")
        await settle(pilot)
        assert "vim_tiny_fp32_bs4" in screen_text(app).split("\n")[0]
        assert "The step 102.9 ms" in screen_text(app)


async def test_ranks_are_shown_and_switched():
    async with opened(recorded("chrome/ddp_vit_small_2ranks")) as (app, pilot):
        text = screen_text(app)
        assert "rank 0 of 2" in text
        assert "Waits for rank 1, which is late in the program" in text
        await press(pilot, "R")
        assert "rank 1 of 2" in screen_text(app)
        assert app.session.trace().info.rank == 1
        await press(pilot, "2", "R")
        assert app.session.trace().info.rank == 0


async def test_scope_restricts_every_tab():
    from tracetui.analysis.scope import Scope

    async with opened(FP32, scope=Scope(steps=(2, 3))) as (app, pilot):
        assert "as recorded, steps 2-3" in screen_text(app)
        await press(pilot, "2")
        assert "steps 2-3" in screen_text(app)
        assert " 96 " in screen_text(app).split("\n")[4]


async def test_esc_gives_up_the_second_run(slow):
    async with opened(FP32, tab="kernels") as (app, pilot):
        reader = slow()
        app.runs.open_run("b", (Path("second.json"),))
        await until(pilot, "b: reading 25 %")
        await pilot.press("escape")
        await settle(pilot)
        assert reader.cancelled
        assert "stopped before anything was read" in screen_text(app)
        assert "1/20" in screen_text(app)
        await press(pilot, "9")
        assert "There is no second run" in screen_text(app)
        assert app.runs.exit_code == 0


def test_a_job_can_be_waited_for_while_it_starts(monkeypatch):
    begin, errors, said = threading.Thread.start, [], []

    def wait():
        try:
            jobs.wait("slow start", PATIENCE_SECONDS)
        except RuntimeError as error:
            errors.append(error)

    def slow(thread):
        begin(waiter)
        waiter.join(0.05)
        begin(thread)

    waiter = threading.Thread(target=wait)
    monkeypatch.setattr(threading.Thread, "start", slow)
    jobs.start(SimpleNamespace(post_message=said.append), "slow start", lambda: "done")
    waiter.join(PATIENCE_SECONDS)
    assert errors == []
    assert [message.result for message in said] == ["done"]
