"""The program in a real (pseudo) terminal: colours, mouse, bytes, and what it leaves behind."""

import re
import subprocess
import time

import pytest
from sample_runs import FP32

pytest.importorskip("pyte")
from pyte_screen import Terminal

COLOR = re.compile(rb"\x1b\[(?:[\d;]*;)?(?:[34][0-7]|9[0-7]|10[0-7]|[34]8;[25];[\d;]+)(?:;[\d;]*)?m")
RGB = re.compile(rb"[34]8;2;")
INDEXED = re.compile(rb"[34]8;5;")
SEQUENCE = re.compile(rb"\x1b\[[0-9;?<>=]*[ -/]*[@-~]")
MOUSE_ON = b"\x1b[?1000h"


@pytest.fixture
def terminal():
    started = []

    def start(*arguments: str, **options) -> Terminal:
        started.append(Terminal(*arguments, **options))
        return started[-1]

    yield start
    for one in started:
        one.close()


def nothing_left(screen: Terminal) -> bool:
    """Whether nothing was sent after the screen was given back but what has no visible effect."""
    return SEQUENCE.sub(b"", screen.seen.rpartition(b"\x1b[?1049l")[2]).strip() == b""


def test_truecolor_at_home_with_the_mouse(terminal):
    screen = terminal(str(FP32), COLORTERM="truecolor")
    screen.until("The step")
    assert RGB.search(screen.seen)
    assert MOUSE_ON in screen.seen
    assert screen.quit(b"2q") == 0, "a tab begins"
    for off in (b"\x1b[?1049l", b"\x1b[?1000l", b"\x1b[?25h"):
        assert off in screen.seen
    assert nothing_left(screen)


@pytest.mark.parametrize(
    ("words", "keys"), [("tracetui", b"q"), ("[1 Overview]", b"\x11")], ids=["starting", "reading"]
)
def test_whenever_it_ends_nothing_is_left_on_the_terminal(terminal, words, keys):
    screen = terminal(str(FP32), COLORTERM="truecolor")
    screen.until(words)
    assert screen.quit(keys) == 0, screen.seen[-2000:]
    assert nothing_left(screen)


def test_a_packet_of_keys_belongs_to_the_line_it_opens_while_nobody_reads_the_terminal(terminal):
    screen = terminal(str(FP32))
    screen.until("[1 Overview]")
    screen.press(b"2/gemm q\r")
    time.sleep(0.5)
    screen.until("0 of 20 kernels")
    assert " / gemm q " in screen.screen.text
    screen.press(b"/\x15\x1b[200~selective q\nq\x1b[201~\x7f\x7f\r")
    screen.until(" / selective ")
    assert screen.quit() == 0


def test_over_ssh_no_mouse_few_colours_and_few_bytes(terminal):
    screen = terminal(str(FP32), COLORTERM="truecolor", SSH_CONNECTION="1 2 3 4")
    screen.until("The step")
    screen.quiet()
    assert MOUSE_ON not in screen.seen
    assert not RGB.search(screen.seen)
    screen.press(b"2")
    screen.until("selective_scan")
    screen.quiet()
    assert screen.read(1.0) == b"", "an idle screen sends nothing"
    before = len(screen.seen)
    screen.press(b"j")
    screen.until(" 2/20")
    screen.quiet()
    assert 0 < len(screen.seen) - before < 900
    assert screen.quit() == 0


def test_no_color_means_none(terminal):
    screen = terminal(str(FP32), "--theme", "light", NO_COLOR="1", COLORTERM="truecolor")
    screen.until("The step")
    screen.press(b"2")
    screen.until("selective_scan")
    screen.press(b"9")
    screen.until("no second run")
    assert not COLOR.search(screen.seen), COLOR.search(screen.seen)
    screen.press(b"2")
    screen.until("[2 Kernels]")
    screen.quiet()
    row = next(y for y, line in enumerate(screen.screen.text.split("\n")) if line.startswith(">"))
    assert screen.screen.screen.buffer[row][0].reverse, "the cursor row is in reverse video"
    assert screen.quit() == 0


def test_no_more_colours_than_asked_for(terminal):
    screen = terminal(str(FP32), "--color", "256", COLORTERM="truecolor")
    screen.until("The step")
    assert INDEXED.search(screen.seen)
    assert not RGB.search(screen.seen)
    screen.press(b"?")
    screen.until("Esc closes")
    assert screen.quit(b"qq") == 0, "a dialog closes"
    assert nothing_left(screen)


def test_the_linux_console_keeps_its_own_sixteen_colours(terminal):
    screen = terminal(str(FP32), TERM="linux")
    screen.until("The step")
    assert COLOR.search(screen.seen)
    assert not RGB.search(screen.seen)
    assert not INDEXED.search(screen.seen)
    assert not re.search(rb"\x1b\[[\d;]*4[0-7]m", screen.seen), "the background is the console's"
    assert screen.quit() == 0


def test_ascii_and_sixteen_colours_send_nothing_else_and_the_mouse_can_be_asked_for_over_ssh(terminal):
    screen = terminal(str(FP32), "--ascii", "--color", "16", "--mouse", SSH_CONNECTION="1 2 3 4")
    screen.until("The step")
    screen.press(b"2")
    screen.until("selective_scan")
    assert screen.seen.isascii()
    assert MOUSE_ON in screen.seen
    assert COLOR.search(screen.seen)
    assert not RGB.search(screen.seen)
    assert not INDEXED.search(screen.seen)


def test_a_name_with_escapes_is_shown_and_not_obeyed(terminal, tmp_path):
    evil = tmp_path / "evil.json"
    evil.write_text(
        '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "evil\\u001b]0;owned\\u0007\\u001b[2Jkernel", "pid": 0,'
        ' "tid": 7, "ts": 1.0, "dur": 5.0, "args": {"stream": 7, "device": 0, "correlation": 1}}]}'
    )
    screen = terminal(str(evil))
    screen.until("Top kernels")
    screen.press(b"2")
    screen.until(" 1/1")
    screen.press(b"d")
    screen.until("\\x1b]0;owned")
    screen.quiet()
    assert b"\x1b]0;" not in screen.seen
    assert b"owned\x07" not in screen.seen
    assert b"\x1b[2J" not in screen.seen
    assert b"\\x1b]0;owned" in screen.seen


def test_what_is_no_trace_ends_with_code_1(terminal, tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text("hello")
    screen = terminal(str(bad))
    screen.until("give a Chrome trace")
    assert screen.quit() == 1


def test_the_screen_opens_where_errors_go_elsewhere(terminal):
    screen = terminal(str(FP32), "--color", "truecolor", errors=subprocess.DEVNULL)
    screen.until("The step")
    assert RGB.search(screen.seen), "as asked for"
    screen.press(b"2")
    screen.until("[2 Kernels]")
    assert screen.quit() == 0
    assert b"\x1b[?1049l" in screen.seen
