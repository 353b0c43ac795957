"""The command line: runs a command, and prints one line if it fails."""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import signal
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import NoReturn

from tracetui.app.cli.command import COMMANDS, RENAMED, TAKE_PROGRAMS, build_parser, chosen, declared, module_of
from tracetui.app.cli.options import warn
from tracetui.app.settings.schema import Settings
from tracetui.app.text.exit_codes import DONE, INTERRUPTED, UNREADABLE, USAGE, UsageError

SELDOM = (20_000, 20, 20)
"""When the cycle collector runs: importing makes many objects and hardly a cycle, and it would take 4 % of a report."""
NEARLY_NEVER = (200_000, 20, 20)
"""The same for commands that print and end: a small report makes 110,000 objects, and one look at them takes 3 % of it.
A screen would show the pause."""
_SCREENS = ("open", "serve")
KEPT_PAGES = {"_RJEM_MALLOC_CONF": "dirty_decay_ms:10000,muzzy_decay_ms:-1"}
"""Polars' allocator returns freed pages after ten seconds, not half of one: between two analyses the kernel would fill
them with zeros anew, which takes a fifth of the findings of a large trace."""
FREED_PAGES = {"_RJEM_MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0"}
"""At once where a thousand ranks are combined, which makes many large frames and keeps few."""
MOST_THREADS = 4
"""Of Polars: a report asks thousands of small questions, and 16 threads that are woken for each of them take 1.2 times
the processor time of 4, which take no more than 2 do."""
NO_BLAS = {"OPENBLAS_NUM_THREADS": "1"}
"""NumPy starts a thread of its BLAS per core when it is imported, each of which spins for a tenth of a second; nothing
here multiplies matrices."""
OWN = ("-h", "--help", "--version", "--debug")
"""Options of the program itself; any other that stands first is one of `open`."""
MAX_MEMORY = "TRACETUI_MAX_MEMORY"
"""`parsers.runs.opening.VARIABLE`, whose module would import NumPy."""

EXPORT, REPORTS = "TRACETUI_EXPORT", (".nsys-rep", ".qdrep")
"""`parsers.runs.nvidia_reports.VARIABLE`, and what it is about."""


class Ended(KeyboardInterrupt):
    """A signal that ends programs has come: what is half done is taken back, as after Ctrl+C."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.code = 128 + number
        """What a shell calls the end of a program by this signal."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    words, program = split_command(sys.argv[1:] if argv is None else argv)
    if words and words[0] not in (known := (*COMMANDS, *RENAMED)):
        option = words[0][:1] == "-"
        if Path(words[0]).exists() or os.sep in words[0] or (words[0] not in OWN if option else Path(words[0]).suffix):
            words = ["open", *words]
        elif found := _near(words[0], known):
            print(f"tracetui: error: {words[0]!r} is no command, and no file; did you mean {found}?", file=sys.stderr)
            return USAGE
    typed, words = chosen(words)
    if typed in RENAMED:
        print(f"tracetui {typed} is now: tracetui {RENAMED[typed]}", file=sys.stderr)
    command = RENAMED.get(typed, typed)
    try:
        parser = build_parser(command)
        arguments, left = parser.parse_known_args(words)
        if left and not (command == "query" and all(not word.startswith("-") for word in left)):
            flags = [flag[2:] for _, each in declared(module_of(command).Options) for flag in each.flags]
            found = next(filter(None, (_near(word[2:], flags) for word in left if word[:2] == "--")), "")
            parser.error(f"unrecognized arguments: {' '.join(left)}" + (f"; did you mean --{found}?" if found else ""))
    except SystemExit as stop:  # argparse has printed the help or what is wrong
        return stop.code if isinstance(stop.code, int) else USAGE
    arguments.words, arguments.program = words, program
    if left:  # `query PATH --rank 1 'select …'`: argparse fills a list of words only once
        arguments.asked += left
    try:
        code = _run(command, arguments)
        if sys.stdout is not None:  # None if the parent process has closed it
            sys.stdout.flush()
    except Ended as stop:
        return stop.code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has seen enough; Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except Exception as error:
        if arguments.debug:
            raise
        return explain(error)
    return code


def split_command(argv: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Splits the command line into words for tracetui and the user's own program after ``--``."""
    words = list(argv)
    if any(command in words[:2] for command in TAKE_PROGRAMS) and "--" in words:
        at = words.index("--")
        return words[:at], tuple(words[at + 1 :])
    return words, ()


def _run(command: str, arguments: argparse.Namespace) -> int:
    """Runs a command, or without one shows what can be opened."""
    if (most := getattr(arguments, "max_memory", None)) is not None:
        os.environ[MAX_MEMORY] = str(most)
    if getattr(arguments, "export", False) or _may_export(arguments):
        os.environ[EXPORT] = "1"
    arguments.settings = settings = _settled(arguments)
    if command not in ("", "open", "config"):  # these settle their options themselves
        warn(settings, unread=command not in ("report", "check", "diff", "reference rules"))
    if not command:
        from tracetui.app.cli.commands.open import start

        return start(settings)
    module = module_of(command)
    names = {field.name for field in fields(module.Options)}
    options = module.Options(**{name: value for name, value in vars(arguments).items() if name in names})
    code: int = module.run(options)
    return code


def _settled(arguments: argparse.Namespace) -> Settings:
    """Fills options that the command line leaves open from settings files and environment."""
    from tracetui.app.settings.schema import fill

    return fill(arguments, [*_given(arguments), Path.cwd()])


def _given(arguments: argparse.Namespace) -> list[Path]:
    """The recordings that the command line names."""
    given = [
        *(getattr(arguments, "paths", None) or ()),
        *(getattr(arguments, name, None) for name in ("path", "a", "b")),
    ]
    return [path for path in given if isinstance(path, Path)]


def _may_export(arguments: argparse.Namespace) -> bool:
    """Asks at a terminal whether nsys may export the reports that the command line names, where it can."""
    reports = [path.name for path in _given(arguments) if path.suffix in REPORTS and path.is_file()]
    asked = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))
    if not reports or not asked or os.environ.get(EXPORT) == "1" or shutil.which("nsys") is None:
        return False
    from tracetui.app.text.fitting import printable

    question = f"{printable(', '.join(reports))}: nsys has to export this first, to a private folder. Run it? [y/N] "
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def explain(error: Exception) -> int:
    """One line on standard error for what went wrong, and the exit code that goes with it."""
    from tracetui.app.settings.schema import in_ascii
    from tracetui.app.text.fitting import printable

    if isinstance(error, UsageError):
        code, line = USAGE, str(error)
    else:
        code, line = UNREADABLE, _unreadable(error)
    print(f"tracetui: {printable(line, ascii=in_ascii(os.environ))}", file=sys.stderr)
    return code


def _near(word: str, known: Iterable[str]) -> str:
    from tracetui.parsers.errors import near

    return near(word, known)


def _unreadable(error: Exception) -> str:
    from tracetui.parsers.errors import TraceError

    if isinstance(error, TraceError):
        return str(error)
    if isinstance(error, FileNotFoundError) and not error.filename:
        return "the working directory is gone; change to one that is there"
    if isinstance(error, OSError):
        return f"{error.filename or 'standard output'}: {error.strerror or error}"
    if isinstance(error, MemoryError):
        return "out of memory; a recording with fewer steps needs less"
    return f"{type(error).__name__}: {error}; this is a bug in tracetui, --debug shows where"


def script() -> NoReturn:
    """The console script: runs the command and ends the process at once.

    Freeing a large trace would take as long as opening it from the cache, and the process ends anyway.
    """
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), _SCREENS[0])
    gc.set_threshold(*(SELDOM if command in _SCREENS else NEARLY_NEVER))
    _take_back_first()
    if command not in (*TAKE_PROGRAMS, *RENAMED):  # what these run would inherit it
        pages = FREED_PAGES if command == "ranks" else KEPT_PAGES
        for name, value in {**pages, **NO_BLAS, **_few_threads()}.items():
            os.environ.setdefault(name, value)
        if command == "ranks":
            _return_freed_memory()
    try:
        code = main()
    except KeyboardInterrupt as stop:  # before the command had begun
        code = stop.code if isinstance(stop, Ended) else INTERRUPTED
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


def _return_freed_memory() -> None:
    """The C library's allocator returns what large arrays took at once, as `FREED_PAGES` is for Polars' own.

    It would keep up to 32 MB of each size that was freed once, in a heap with holes.
    """
    import ctypes

    with suppress(AttributeError, OSError, TypeError):  # another C library has none of it
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 1 << 20)


_MMAP_THRESHOLD = -3


def _few_threads() -> dict[str, str]:
    """What tells Polars to start few threads, if it would start many: it knows a container's share of processors."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError):
        if not Path("/sys/fs/cgroup/cpu.max").read_text().startswith("max"):
            return {}
    return {"POLARS_MAX_THREADS": str(MOST_THREADS)} if cores > MOST_THREADS else {}


def _take_back_first() -> None:
    """Has signals that end programs raise `Ended`, so that no half of a file and no program that was started stays."""

    def end(number: int, _: object) -> NoReturn:
        # a second one does not wait; of a terminal that is gone the kernel tells, and then its shell
        signal.signal(number, signal.SIG_IGN if number == signal.SIGHUP else signal.SIG_DFL)
        raise Ended(number)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, end)
