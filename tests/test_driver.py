"""The driver beside Textual's own, as a terminal emulator shows them."""

import itertools
import json
import os
import pty
import random
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from fcntl import ioctl
from types import SimpleNamespace

import pytest
from programs import PATIENCE_SECONDS
from sample_runs import FP32

from tracetui.app.terminal import driver as terminal
from tracetui.app.terminal.driver import IN_FLIGHT_BYTES, Answers, Sender
from tracetui.app.terminal.grid import (
    BIT,
    NORMAL,
    Grid,
    Painter,
    Palette,
    Style,
    blank_pen,
    clusters,
    is_quiet,
    on_blank,
    read_frame,
    read_sgr,
    sgr,
    turns_page,
)

pytest.importorskip("pyte")

from pathlib import Path

from pyte_screen import RECORDED, Emulator

HIDDEN = ("NO_COLOR", "COLORTERM", "SSH_CONNECTION", "TMUX", "COLUMNS", "LINES")
"""What would tell the program something else than the pseudo-terminal does; pytest-xdist sets the last two."""
QUIET_SECONDS = 0.3
"""How long nothing comes once a screen is painted."""
QUESTION, ANSWER = b"\x1b[5n", b"\x1b[0n"
OFF = (b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[<u", b"\x1b[?1000l", b"\x1b[?2004l", b"\x1b[?7h")

# --- looks


def test_the_shortest_sequence_between_any_two_looks_gives_the_second():
    dice = random.Random(1)
    letters = ("", "31", "95", "38;5;208", "38;2;1;2;3")
    grounds = ("", "41", "105", "48;5;208", "48;2;1;2;3")
    bits = [BIT[code] for code in (1, 2, 3, 4, 7, 9)]
    for _ in range(2000):
        first, second = (
            Style(sum(dice.sample(bits, dice.randrange(4))), dice.choice(letters), dice.choice(grounds))
            for _ in range(2)
        )
        sequence = sgr(first, second)
        assert (read_sgr(first, sequence[2:-1]) if sequence else first) == second
        assert len(sequence) <= max(len(sgr(NORMAL, second)) + 2, 3)


def test_colours_of_the_palette_are_sent_by_number():
    assert read_sgr(NORMAL, "38;2;208;208;208;48;2;0;95;135") == Style(0, "38;5;252", "48;5;24")
    assert read_sgr(NORMAL, "38;2;0;0;95") == Style(0, "38;2;0;0;95"), "16 to 21 mean other things in some themes"
    assert read_sgr(NORMAL, "38;2;1;2;3") == Style(0, "38;2;1;2;3")


@pytest.mark.parametrize("parameters", ["38", "38;2;1", "38;9;1", "99", "51", "4;38;5"])
def test_a_look_that_is_not_known_is_none(parameters):
    assert read_sgr(NORMAL, parameters) is None


def test_a_blank_keeps_what_can_be_seen_on_it():
    bold, under = BIT[1], BIT[4]
    assert on_blank(Style(bold, "31", "44")) == Style(0, "", "44")
    assert on_blank(Style(under, "31", "44")) == Style(under, "31", "44")
    assert blank_pen(Style(bold | under, "31", "44"), Style(0, "", "44")) == Style(bold, "31", "44")


# --- pictures

WORDS = ("kernel", "  ", "          ", "µs", "×48", "│", "▉▎", "漢字", "e\u0301te", "🚀", "한", "…", "x")
LOOKS = ("", "1", "7", "4;31", "48;5;24", "1;38;2;9;8;7;48;2;18;18;18", "2", "9;92;41")


def some_frame(dice: random.Random, width: int, height: int) -> str:
    """As Textual writes them: runs that begin with a move, each text between its look and a reset."""
    parts = []
    for _ in range(dice.randrange(1, 2 * height)):
        x, y = dice.randrange(width), dice.randrange(height)
        parts.append(f"\x1b[{y + 1};{x + 1}H")
        while dice.random() < 0.8:
            word, look = dice.choice(WORDS), dice.choice(LOOKS)
            size = sum(2 if c in "漢字🚀한" else c != "\u0301" for c in word)
            if (x := x + size) > width:
                break
            parts.append(f"\x1b[{look}m{word}\x1b[0m" if look else word)
    return "".join(parts)


def blank_page(width: int, height: int) -> str:
    return "".join(f"\x1b[{y + 1};1H\x1b[48;5;233m{' ' * width}\x1b[0m" for y in range(height))


def test_any_frames_come_out_as_they_were_meant():
    for erases_in_color, seed in itertools.product([True, False], range(12)):
        dice = random.Random(seed)
        width, height = dice.choice([(80, 24), (31, 7), (132, 9)])
        palette, painter = Palette(), Painter(erases_in_color=erases_in_color)
        wanted, shown = Grid(width, height), Grid(width, height)
        meant, sent = Emulator(width, height), Emulator(width, height)
        wide_cut = False
        for number in range(30):
            case = (
                f"seed {seed}, a terminal of {width}x{height} that erases in colour: {erases_in_color}, frame {number}"
            )
            data = some_frame(dice, width, height) if number % 10 else blank_page(width, height)
            frame = read_frame(data, width, height, palette)
            assert frame is not None, case
            for span in frame.spans:
                row = wanted.rows[span.y]
                for edge in (span.x, span.x + len(span.cells)):
                    wide_cut |= edge < width and row[edge] is not None and not row[edge].width
                wanted.put(*span, palette)
            meant.feed(data.encode())
            if dice.random() < 0.6 or number % 10 == 9:  # the others are replaced by the next
                sent.feed(painter.paint(wanted, shown).encode())
                if not wide_cut:  # what remains of half a wide glyph, each terminal decides for itself
                    assert sent.cells() == meant.cells(), case
                assert painter.paint(wanted, shown) == "", case
            if number % 10 == 9:
                wide_cut = False
                meant.clear(), sent.clear()
                wanted, shown = Grid(width, height), Grid(width, height)


def test_glyphs_are_kept_whole():
    assert clusters("ae\u0301🏳\ufe0f\u200d🌈b") == ["a", "e\u0301", "🏳\ufe0f\u200d🌈", "b"]
    cells = Palette().lay("漢x", NORMAL)
    assert [(cell.text, cell.width) for cell in cells] == [("漢", 2), ("", 0), ("x", 1)]


def test_half_of_a_wide_glyph_becomes_a_blank():
    palette, grid = Palette(), Grid(6, 1)
    grid.put(0, 0, palette.lay("漢字xy", NORMAL), palette)
    grid.put(1, 0, palette.lay("ab", NORMAL), palette)
    assert [cell.text for cell in grid.rows[0]] == [" ", "a", "b", " ", "x", "y"]


def test_a_row_with_wide_glyphs_is_sent_whole():
    palette, painter = Palette(), Painter(erases_in_color=True)
    wanted, shown = Grid(8, 1), Grid(8, 1)
    wanted.put(0, 0, palette.lay("漢字 abc", NORMAL), palette)
    painter.paint(wanted, shown)
    wanted.put(7, 0, palette.lay("d", NORMAL), palette)
    assert painter.paint(wanted, shown) == "\x1b[1H漢字 abd"


@pytest.mark.parametrize(
    "data",
    ["\x1b[1;1Ha\tb", "\x1b[1;1H\x1b]8;;x\x1b\\y", "\x1b[9;1Hx", "\x1b[1;9Hxx", "\x1b[1;1Hx\ny", "\x1b[1;1H\x1b[2Jx"],
)
def test_what_is_not_known_is_no_frame(data):
    assert read_frame(data, 9, 8, Palette()) is None


def test_control_sequences_that_leave_the_cells_alone():
    for data in ("\x1b[?25l", "\x1b[>25u", "\x1b[?2026$p", "\x1b]52;c;eA==\x07", "\x07", "\x1b[?7l\x1b[?25l"):
        assert is_quiet(data), data
    for data in ("\x1b[?1049h", "\x1b[2J", "x", "\x1bc", "\x1b[1;2H"):
        assert not is_quiet(data), data
    assert turns_page("\x1b[?1049l")


# --- the line


@pytest.fixture
def clock(monkeypatch):
    """The time for what waits for answers; it goes on only when told to."""
    now = [0.0]
    stands = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("tracetui.app.terminal.driver.time", stands)
    monkeypatch.setattr("tracetui.app.terminal.driver.time", stands)
    return now


@pytest.fixture
def line(clock):
    """A sender whose pictures are numbered, and the other end of its line."""
    out, into = os.pipe()
    pictures = []

    def paint() -> str:
        if pictures[-1] == "bad":
            raise ValueError
        return f"<{pictures[-1]}>"

    lost, failed = [], []
    line = Sender(into, paint, lambda: lost.append(True), failed.append)
    line.start()

    def show(name: str) -> None:
        with line.lock:
            pictures.append(name)
            line.picture()

    def read(seconds: float = PATIENCE_SECONDS) -> bytes:
        return os.read(out, 1 << 16) if select.select([out], [], [], seconds)[0] else b""

    line.show, line.read, line.hang_up = show, read, lambda: os.close(out)
    line.lost, line.failed = lost, failed
    yield line
    if not lost:
        os.close(out)  # a writer that waits for the line fails now
    line.stop(1)
    line._thread.join(PATIENCE_SECONDS)  # else it would write into the next test's pipe, which may have this number
    os.close(into)


def test_without_answers_each_picture_goes_at_once(line):
    line.ask()
    assert line.read() == QUESTION
    for name in "ab":
        line.show(name)
        assert line.read() == f"<{name}>".encode()


def test_with_answers_a_newer_picture_replaces_one_that_waits(line):
    line.ask()
    line.read()
    line.answered()
    first = "a" * IN_FLIGHT_BYTES
    line.show(first)
    assert line.read() == f"<{first}>".encode() + QUESTION
    line.show("b")
    line.show("c")
    assert line.read(0.3) == b""
    line.answered()
    assert line.read() == b"<c>" + QUESTION
    line.show("d")
    assert line.read() == b"<d>" + QUESTION, "a little may be on the way without an answer"


def test_texts_don_t_wait_and_keep_their_place(line):
    line.ask()
    line.read()
    line.answered()
    line.show("a" * IN_FLIGHT_BYTES)
    line.read()
    line.show("b")
    line.text("\x07")
    assert line.read() == b"<b>\x07"


def test_a_terminal_that_stops_answering_is_waited_for_twice(line, clock):
    line.ask()
    line.read()
    line.answered()
    line.show("a" * IN_FLIGHT_BYTES)
    assert line.read().endswith(QUESTION)
    line.show("a" * IN_FLIGHT_BYTES)
    assert line.read(0.1) == b"", "no time has gone by"
    clock[0] += terminal.PATIENCE_SECONDS
    assert line.read().endswith(QUESTION)
    line.show("b" * IN_FLIGHT_BYTES)
    clock[0] += terminal.PATIENCE_SECONDS
    assert line.read().endswith(b">")


def test_a_line_that_takes_nothing_holds_nobody_up(line, monkeypatch):
    waited = set()
    wait, put = line._change.wait, terminal.write

    def noted(call, *arguments):
        waited.add(threading.current_thread())
        return call(*arguments)

    monkeypatch.setattr(line._change, "wait", lambda *arguments: noted(wait, *arguments))
    monkeypatch.setattr(terminal, "write", lambda *arguments: noted(put, *arguments))

    def use() -> None:
        for number in range(200):
            line.show(str(number) * 1000)
            line.text("x" * 1000)
        line.stop(0.2)

    user = threading.Thread(target=use, daemon=True)
    user.start()
    user.join(PATIENCE_SECONDS)
    assert not user.is_alive()
    assert line._thread.is_alive(), "it is the sender that waits for the line"
    assert waited == {line._thread}


def test_a_line_that_breaks_is_told_once(line):
    line.hang_up()
    line.show("a")
    line._thread.join(PATIENCE_SECONDS)
    assert not line._thread.is_alive()
    line.show("b")
    line.text("c")
    assert line.lost == [True]


def test_a_picture_that_fails_is_told_and_texts_still_go(line):
    line.show("bad")
    line.text("off")
    assert line.read() == b"off"
    assert [type(error) for error in line.failed] == [ValueError]


def test_answers_are_taken_out_of_what_was_typed(clock):
    seen = []
    awaited = [True]
    answers = Answers(lambda: seen.append(1), lambda: awaited[0], 0.05)
    assert answers.keys(b"j\x1b[0nk\x1b[B\x1b[0n") == b"jk\x1b[B"
    assert len(seen) == 2
    assert answers.keys(b"j\x1b[") == b"j"
    assert answers.keys(b"0") == b""
    assert answers.keys(b"nk") == b"k"
    assert len(seen) == 3
    assert answers.keys(b"\x1b") == b"", "it may be the beginning of an answer"
    assert answers.keys(b"[B") == b"\x1b[B"
    assert answers.keys(b"\x1b") == b""
    assert answers.keys(b"") == b""
    clock[0] += 0.06
    assert answers.keys(b"") == b"\x1b", "it was the key"
    awaited[0] = False
    assert answers.keys(b"\x1b") == b"\x1b"


# --- the whole program


class Session:
    """The program in a pseudo-terminal, as an emulator shows it, beside what Textual's own driver would have sent."""

    def __init__(self, folder: Path, *arguments: str, size: tuple[int, int] = (80, 24), **environment: str) -> None:
        self.raw, self.typed = folder / "raw", folder / "typed"
        self.raw.touch(), self.typed.touch()
        self.size, self._raw_read = size, 0
        self.ours, self.stock = Emulator(*size), Emulator(*size)
        self.master, slave = pty.openpty()
        ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.modes = termios.tcgetattr(slave)
        clean = {k: v for k, v in os.environ.items() if k not in HIDDEN}
        self.process = subprocess.Popen(
            [sys.executable, "-c", RECORDED, str(self.raw), str(self.typed), "open", "--driver", "cells", *arguments],
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env={**clean, "TERM": "xterm-256color", **environment},
        )  # fmt: skip
        self.slave = slave
        self.seen = b""
        self.answering = True

    def read(self, seconds: float) -> bytes:
        """What comes until nothing has come for so long."""
        got = b""
        while select.select([self.master], [], [], seconds)[0]:
            try:
                chunk = os.read(self.master, 65536)
            except OSError:
                break
            got += chunk
            tail = self.seen[-10:] + chunk
            if b"\x1b[?2026$p" in tail and b"\x1b[?2026$p" not in self.seen[-10:]:
                os.write(self.master, b"\x1b[?2026;2$y")
            if self.answering:
                os.write(self.master, ANSWER * (tail.count(QUESTION) - self.seen[-10:].count(QUESTION)))
            self.seen += chunk
        self.ours.feed(got)
        return got

    def same(self) -> None:
        """Waits until both screens are alike, and all that Textual wrote has been looked at."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            self.read(0.1)
            raw = self.raw.read_bytes()
            fresh, self._raw_read = raw[self._raw_read :], len(raw)
            self.stock.feed(fresh)
            ours, stock = self.ours.cells(), self.stock.cells()
            if not fresh and ours == stock:
                return
            if time.monotonic() > deadline:
                rows = [y for y in range(len(ours)) if ours[y] != stock[y]]
                assert self.ours.text == self.stock.text
                raise AssertionError(f"the looks of rows {rows} differ: {ours[rows[0]]} {stock[rows[0]]}")

    def until(self, words: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while words not in self.ours.text:
            assert time.monotonic() < deadline, self.ours.text
            self.read(0.1)

    def press(self, *keys: bytes) -> None:
        for key in keys:
            self.type(key)
            self.same()

    def type(self, key: bytes) -> None:
        """Presses a key, or several that are letters, and waits until the program has read them."""
        many = 1 if key.startswith(b"\x1b") else len(key.decode())
        wanted, deadline = self.typed.stat().st_size + many, time.monotonic() + PATIENCE_SECONDS
        os.write(self.master, key)
        while self.typed.stat().st_size < wanted:
            assert time.monotonic() < deadline, f"{key!r} was not read"
            self.read(0.02)

    def resize(self, columns: int, lines: int) -> None:
        for emulator in (self.ours, self.stock):
            emulator.resize(columns, lines)
        ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        os.kill(self.process.pid, signal.SIGWINCH)
        self.painted_anew()
        self.same()

    def painted_anew(self) -> None:
        """Waits until Textual has written a whole screen and rests: only then may the size change again."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        cells, written = self.size[0] * self.size[1] // 2, self.raw.stat().st_size
        rested_at = written
        while True:
            self.read(QUIET_SECONDS)
            now = self.raw.stat().st_size
            if now == rested_at and now - written > cells:
                return
            rested_at = now
            assert time.monotonic() < deadline, "the screen was not painted anew"

    def ended(self) -> int:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline
            self.read(0.05)
        self.read(0.05)
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for descriptor in (self.master, self.slave):
            if descriptor >= 0:
                os.close(descriptor)


@pytest.fixture
def session(tmp_path):
    started = []

    def start(*arguments: str, **options) -> Session:
        started.append(Session(tmp_path, *arguments, **options))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.mark.parametrize(("size", "color"), [((80, 24), "truecolor"), ((61, 18), "never")])
def test_the_screen_is_the_same_as_with_textual_s_driver(session, size, color):
    screen = session(str(FP32), "--color", color, size=size, COLORTERM="truecolor")
    screen.until("Waits for the CPU, not the GPU")
    screen.same()
    long = (b"j", b"\x1b[6~", b"\x10", b"ker", b"\x1b", b"/", b"gemm\r", b"5") if color == "truecolor" else ()
    screen.press(b"2", b"d", *long, b"1")
    screen.resize(size[0] + 20, size[1] + 6)
    screen.resize(size[0] - 15, size[1] - 4)
    screen.press(b"2", b"G")
    screen.resize(*size)
    os.write(screen.master, b"q")
    assert screen.ended() == 0
    assert all(off in screen.seen for off in OFF)
    assert termios.tcgetattr(screen.slave) == screen.modes


def test_glyphs_of_all_kinds(session, tmp_path):
    # pyte drops what follows a joiner or a variation selector, so there are none
    names = ["漢字のカーネル", "e\u0301te\u0301", "🚀 launch", "한국어 커널", "plain", "ﬁ ⣿⠇ ▏"]
    events = [
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 10.0 * i, "dur": 5.0 + i,
         "args": {"stream": 7, "device": 0, "correlation": i}}
        for i, name in enumerate(names * 2)
    ]  # fmt: skip
    trace = tmp_path / "glyphs.json"
    trace.write_text(json.dumps({"traceEvents": events}, ensure_ascii=False))
    screen = session(str(trace), "--tab", "kernels", COLORTERM="truecolor")
    screen.until("漢")
    screen.press(*[b"j"] * 6, b"r", b"d", b"k", b"d", b"\x10", b"\x1b", b"n", b"/", "한".encode(), b"\r")


def test_suspend_and_resume(session):
    screen = session(str(FP32), "--tab", "kernels")
    screen.until("selective_scan")
    screen.same()
    os.kill(screen.process.pid, signal.SIGTSTP)
    assert os.WIFSTOPPED(os.waitpid(screen.process.pid, os.WUNTRACED)[1])
    screen.read(0.3)
    assert all(off in screen.seen for off in OFF)
    assert termios.tcgetattr(screen.slave) == screen.modes
    before = screen.ours.cells()
    screen.ours.clear()
    screen.ours.feed(b"left by the shell\r\n" * 9)
    os.kill(screen.process.pid, signal.SIGCONT)
    screen.until("selective_scan")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while screen.ours.cells() != before:
        assert time.monotonic() < deadline, screen.ours.text
        screen.read(0.1)
    os.write(screen.master, b"j")
    screen.until("2/20")


def test_ctrl_l_mends_what_another_program_wrote(session):
    screen = session(str(FP32))
    screen.until("Waits for the CPU, not the GPU")
    screen.same()
    screen.ours.feed(b"\x1b[1;1HBroadcast message from root: reboot\x1b[2;12H\x1b[31;7mnow")
    screen.type(b"j")
    screen.read(0.3)
    assert "Broadcast" in screen.ours.text
    screen.press(b"\x0c")
    assert "Broadcast" not in screen.ours.text


def test_a_slow_terminal_gets_the_last_picture_and_few_before(session):
    screen = session(str(FP32), "--tab", "kernels", COLORTERM="truecolor", PATIENT="1")
    screen.until("selective_scan")
    screen.same()
    screen.answering = False
    before = len(screen.seen)
    for _ in range(30):
        screen.type(b"\x1b[B")
        screen.type(b"\x1b[A")
    screen.type(b"\x1b[B")
    screen.read(0.4)
    assert len(screen.seen) - before < 3 * IN_FLIGHT_BYTES
    screen.answering = True
    os.write(screen.master, ANSWER * 20)
    screen.until("2/20")
    screen.same()
    assert screen.read(1.0) == b"", "an idle screen sends nothing"


def test_a_deadly_signal_leaves_the_terminal_usable(session):
    assert {signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT} == set(terminal.DEADLY)
    screen = session(str(FP32))
    screen.until("Waits for the CPU, not the GPU")
    os.kill(screen.process.pid, signal.SIGHUP)
    assert screen.ended() == -signal.SIGHUP
    assert all(off in screen.seen for off in OFF)
    assert termios.tcgetattr(screen.slave) == screen.modes


def test_an_interrupt_leaves_the_terminal_usable(session):
    screen = session(str(FP32))
    screen.until("Waits for the CPU, not the GPU")
    os.kill(screen.process.pid, signal.SIGINT)  # Python raises KeyboardInterrupt wherever it is
    screen.ended()
    assert all(off in screen.seen for off in OFF)
    assert termios.tcgetattr(screen.slave) == screen.modes


def test_a_crash_leaves_the_terminal_usable(session):
    screen = session(str(FP32), CRASHES="1")
    screen.until("Waits for the CPU, not the GPU")
    os.write(screen.master, b"\x0c")
    assert screen.ended() == 1
    assert all(off in screen.seen for off in OFF)
    assert b"ZeroDivisionError" in screen.seen.rpartition(b"\x1b[?1049l")[2]
    assert termios.tcgetattr(screen.slave) == screen.modes


def test_it_ends_when_the_terminal_is_gone(session):
    screen = session(str(FP32))
    screen.until("Waits for the CPU, not the GPU")
    os.close(screen.slave)
    os.close(screen.master)
    screen.master = screen.slave = -1
    assert screen.process.wait(PATIENCE_SECONDS) is not None


def test_textual_s_driver_can_be_asked_for(session):
    screen = session(str(FP32), "--driver", "stock")
    screen.until("Waits for the CPU, not the GPU")
    assert QUESTION not in screen.seen
    assert screen.raw.read_bytes() == b""
