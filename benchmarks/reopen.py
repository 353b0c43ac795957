"""Measures the seconds to open a cached trace again, for whole processes including imports.

    python benchmarks/reopen.py big.json [--rounds 5]

Measures `tracetui report --section overview` to its end, and `tracetui open` in an 80x24 pseudo-terminal to the
overview's first sentence on the screen, beside an empty Textual app to its first line.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import pty
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

EMPTY_APP = """
from textual.app import App
from textual.widgets import Static
class Empty(App[None]):
    def compose(self):
        yield Static("painted")
Empty().run(mouse=False)
"""


def until_shown(command: list[str], environment: dict[str, str], text: bytes, limit: float = 30) -> float:
    """Seconds from the start of a program in a terminal to the moment it writes `text`."""
    begin = time.perf_counter()
    process, terminal = pty.fork()
    if process == 0:
        os.execvpe(command[0], command, environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    seen, shown = b"", None
    while shown is None and time.perf_counter() - begin < limit:
        if select.select([terminal], [], [], 0.05)[0]:
            try:
                piece = os.read(terminal, 1 << 16)
            except OSError:
                break
            if b"\x1b[?2026$p" in piece:
                os.write(terminal, b"\x1b[?2026;2$y")
            seen += piece
            if text in seen:
                shown = time.perf_counter() - begin
    os.kill(process, signal.SIGTERM)
    time.sleep(0.2)
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    os.close(terminal)
    if shown is None:
        sys.exit(f"{text!r} did not appear; the last output was {seen[-300:]!r}")
    return shown


def report(command: list[str], environment: dict[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        shown = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        environment = {**os.environ, **shown, "TRACETUI_CACHE_DIR": folder, "TRACETUI_NO_STATE": "1"}
        python = [sys.executable, "-m", "tracetui.app"]
        overview = [*python, "report", str(options.trace), "--section", "overview"]
        first = report(overview, environment)
        rows: dict[str, list[float]] = {"report's overview": [], "screen's overview": [], "empty Textual app": []}
        for _ in range(options.rounds):
            rows["report's overview"].append(report(overview, environment))
            rows["screen's overview"].append(
                until_shown([*python, "open", str(options.trace)], environment, b"Waits for")
            )
            rows["empty Textual app"].append(until_shown([sys.executable, "-c", EMPTY_APP], environment, b"painted"))
    print(f"{options.trace.name}: first report, without a cache: {first:.2f} s; then, {options.rounds} rounds in turn:")
    for name, times in rows.items():
        print(f"  {name:18} median {statistics.median(times):.3f} s  (min {min(times):.3f}, max {max(times):.3f})")


if __name__ == "__main__":
    main()
