"""Processor time from a key to the picture that answers it, in a table of a million rows; and until the shell is there.

    python benchmarks/latency.py [--rows 1000000] [--sizes 80x24 200x60] [--keys 40]

The program runs in a pseudo-terminal on a made trace whose one kernel was launched so many times; the table is that of
its launches. Of each action: the program's own processor time, all threads and the screen's thread alone, and the time
to the last byte of its pictures, which other programs on the machine lengthen. The screen's thread answers keys: while
it has nothing to do, nothing is held up, whatever is worked out beside it.

The second table is of fresh processes: until the first line of an empty Textual app, and of tracetui, is painted, and
until the bundled sample's overview is. All modules are compiled beforehand, as pip leaves them: in a checkout where
Python may not write its bytecode, ours alone would be compiled at each start.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bytes import Line

PROGRAM = """
import os, signal, sys, time
import tracetui.parsers
from tracetui.app.cli.main import main
sys.path.insert(0, os.environ["BENCHMARKS"])
from latency import many_launches
clock = os.open(os.environ["CLOCK"], os.O_WRONLY)
def tell(*_):
    os.write(clock, f"{time.process_time_ns():020d} {time.thread_time_ns():020d}\\n".encode())
signal.signal(signal.SIGUSR1, tell)
made = many_launches(int(os.environ["ROWS"]))
tracetui.parsers.open_path = lambda *paths, **options: made
main(["open", __file__ if "__file__" in globals() else ".", "--no-cache", "--tab", "kernels"])
"""
EMPTY = """
import os, time
from textual.app import App
from textual.widgets import Static
class Empty(App):
    def compose(self):
        yield Static("Overview")
    def on_mount(self):
        self.call_after_refresh(self.painted)
    def painted(self):
        print(time.process_time(), file=open(os.environ["CLOCK"], "w"), flush=True)
Empty().run()
"""
SHELL = """
import os, time
from tracetui.app.cli.main import main
from tracetui.app.screen.tui import TracetuiApp
def painted(app):
    print(time.process_time(), file=open(os.environ["CLOCK"], "w"), flush=True)
TracetuiApp.painted = painted
main(["open", "--sample"])
"""
"""This program only reports how much processor time passed until the shell was painted."""
ACTIONS = {
    "cursor down": [b"\x1b[B"],
    "page down": [b"\x1b[6~"],
    "end (G)": [b"G", b"g"],
    "home (g)": [b"G", b"g"],
    "sort by the next column (>)": [b">"],
    "turn the order round (r)": [b"r"],
    "a letter of a filter": [b"7", b"\x7f"],
}
FIRST = {"end (G)": 0, "home (g)": 1}
"""For actions of two keys, the key that is measured."""


def many_launches(rows: int) -> object:
    """A run with one kernel that was launched so many times."""
    import numpy as np
    import polars as pl

    from tracetui.parsers import Run, Trace, schema
    from tracetui.parsers.trace import Source, TraceInfo

    rng = np.random.default_rng(1)
    start = np.cumsum(rng.integers(2000, 9000, rows))

    def filled(columns: dict[str, object], known: dict[str, pl.DataType], size: int) -> pl.DataFrame:
        nothing = {name: pl.repeat(None, size, dtype=dtype, eager=True) for name, dtype in known.items()}
        return pl.DataFrame(
            {name: pl.Series(columns[name]).cast(known[name]) if name in columns else nothing[name] for name in known}
        )

    calls = {"kind": ["runtime"] * rows, "name": ["cudaLaunchKernel"] * rows, "start": start - 1500,
             "duration": rng.integers(300, 1400, rows), "process": np.ones(rows), "thread": np.ones(rows),
             "depth": np.zeros(rows), "correlation": np.arange(rows), "offset": np.arange(rows)}  # fmt: skip
    work = {"kind": ["kernel"] * rows, "name": ["vector_add"] * rows, "start": start,
            "duration": rng.integers(500, 1900, rows), "device": np.zeros(rows), "stream": np.full(rows, 7),
            "correlation": np.arange(rows), "launch": np.arange(rows), "registers": np.full(rows, 32),
            "offset": np.arange(rows)}  # fmt: skip
    trace = Trace(
        steps=pl.DataFrame(schema=schema.STEPS),
        host=filled(calls, schema.HOST, rows),
        device=filled(work, schema.DEVICE, rows),
        memory=pl.DataFrame(schema=schema.MEMORY),
        counters=pl.DataFrame(schema=schema.COUNTERS),
        info=TraceInfo(kind="chrome", tool="made"),
        source=Source(Path("made.json"), 0, 2 * rows, 2 * rows),
    )
    return Run(Path("made.json"), (trace,))


class Watched(Line):
    """A program that says how much processor time it has used."""

    def __init__(self, command: list[str], size: str, folder: str) -> None:
        clock = str(Path(folder) / "clock")
        os.mkfifo(clock)
        os.environ["CLOCK"] = clock
        super().__init__(command, size, 0, 0)
        self._told = os.open(clock, os.O_RDONLY)

    def used(self) -> tuple[float, float]:
        """Milliseconds of all threads, and of the screen's."""
        os.kill(self.process, signal.SIGUSR1)
        both = os.read(self._told, 42).split()
        return int(both[0]) / 1e6, int(both[1]) / 1e6

    def cost(self, key: bytes) -> tuple[float, float, float]:
        """Milliseconds that a key costs: of all threads, of the screen's, and to the last byte."""
        before = self.used()
        _, _, last = self.press(key)
        after = self.used()
        return after[0] - before[0], after[1] - before[1], last


def in_table(rows: int, size: str, keys: int) -> dict[str, list[tuple[float, float, float]]]:
    """What each action cost, once per key."""
    os.environ["ROWS"] = str(rows)
    os.environ["BENCHMARKS"] = str(Path(__file__).parent)
    found: dict[str, list[tuple[float, float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        line = Watched([sys.executable, "-c", PROGRAM], size, folder)
        line.begin(b"vector_add", 3.0)
        line.begin(f"{rows:,}".encode(), 3.0, key=b"\r")
        nothing = (line.used(), line.used())
        overhead = [nothing[1][at] - nothing[0][at] for at in (0, 1)]
        for name, words in ACTIONS.items():
            if "filter" in name:
                line.press(b"/")
                line.press(b">1us !")  # leaves half of the rows
            wanted = FIRST.get(name)
            costs = []
            for number in range(keys * len(words) if wanted is not None else keys):
                cost = line.cost(words[number % len(words)])
                if wanted is None or number % len(words) == wanted:
                    costs.append((cost[0] - overhead[0], cost[1] - overhead[1], cost[2]))
            found[name] = costs
            if name.startswith("page"):
                line.press(b"g")
        line.close()
    return found


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def first_line(command: list[str], words: bytes) -> tuple[float, float]:
    """Seconds until these words are painted by a fresh process, and processor seconds of its own as far as it says."""
    with tempfile.TemporaryDirectory() as folder:
        clock = Path(folder) / "clock"
        os.environ["CLOCK"] = str(clock)
        begin = time.perf_counter()
        line = Painted(command, words)
        while line.seen is None and time.perf_counter() - begin < 30:
            time.sleep(0.001)
        took = (line.seen or time.perf_counter()) - begin
        line.settle(0.3)
        line.close()
        return took, float(clock.read_text()) if clock.exists() else 0.0


class Painted(Line):
    """A program whose screen is watched for certain words."""

    def __init__(self, command: list[str], words: bytes) -> None:
        self._words, self._shown = words, b""
        self.seen: float | None = None
        super().__init__(command, "80x24", 0, 0)

    def took(self, piece: bytes) -> None:
        self._shown += piece
        if self.seen is None and self._words in self._shown:
            self.seen = time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--sizes", nargs="*", default=["80x24", "200x60"])
    parser.add_argument("--keys", type=int, default=40, help="how often each action is done")
    parser.add_argument("--starts", type=int, default=11, help="fresh processes of each kind")
    options = parser.parse_args()
    for name in ("NO_COLOR", "SSH_CONNECTION", "TRACETUI_DRIVER", "TMUX"):
        os.environ.pop(name, None)
    os.environ["TRACETUI_NO_STATE"] = "1"
    for size in options.sizes:
        print(f"\n{options.rows:,} rows at {size}: milliseconds, median and p95\n")
        print("| action | all threads | p95 | the screen's thread | p95 | to the last byte | p95 |")
        print("|---|--:|--:|--:|--:|--:|--:|")
        for name, costs in in_table(options.rows, size, options.keys).items():
            cells = []
            for column in zip(*costs, strict=True):
                cells += [f"{statistics.median(column):.1f}", f"{percentile(list(column), 0.95):.1f}"]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)
    if options.starts:
        sample = [sys.executable, "-m", "tracetui.app", "open", "--sample"]
        kinds = {
            "an empty Textual app": ([sys.executable, "-c", EMPTY], b"Overview"),
            "tracetui: header, tabs, footer": ([sys.executable, "-c", SHELL], b"Overview"),
            "tracetui: the sample's overview": (sample, b"Waits for"),
        }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}
        with tempfile.TemporaryDirectory() as compiled:
            os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
            os.environ["PYTHONPYCACHEPREFIX"] = compiled
            for number in range(options.starts + 1):
                for name, (command, words) in kinds.items():
                    times = first_line(command, words)
                    if number:  # the first of each compiled
                        found[name].append(times)
        print("\n| until there is | seconds | processor seconds |\n|---|--:|--:|")
        for name, times in found.items():
            wall, used = (statistics.median(column) for column in zip(*times, strict=True))
            print(f"| {name} | {wall:.2f} | {f'{used:.2f}' if used else ''} |")


if __name__ == "__main__":
    main()
