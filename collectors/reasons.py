"""Explains in one line why a phase failed and what to do, from exit codes, signals and the tools' output."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

TAIL_BYTES = 1 << 16
_COUNTERS = (
    "the driver lets only administrators read GPU counters (ERR_NVGPUCTRPERM): run with sudo, or set "
    "NVreg_RestrictProfilingToAdminUsers=0 for the nvidia module; `tracetui doctor` says more"
)
KNOWN: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile("ERR_NVGPUCTRPERM"), _COUNTERS),
    (
        re.compile(r"OutOfMemoryError|CUDA out of memory"),
        "the GPU's memory was too small: a smaller --batch needs less",
    ),
    (re.compile(r"No space left on device|Errno 28"), "no space left on the disk"),
    (re.compile("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"), _COUNTERS),
    (
        re.compile("No kernels were profiled"),
        "no kernel was measured: the chosen kernels did not run between start and stop of the capture",
    ),
    (re.compile("InvalidConfiguration|unrecognised option|unrecognized option", re.IGNORECASE), ""),
)
"""Patterns in a log, and what each means for the user; empty if the log's own line says it best."""


def explain(tool: str, code: int, result: dict[str, Any], log: Path, purpose: str) -> str | None:
    """Explains why a command failed; None if it succeeded.

    Args:
        tool: the tool of the phase.
        code: the exit code; negative if a signal ended it.
        result: what the child wrote; empty if it wrote nothing.
        log: the file with the program's output.
        purpose: the purpose of the command.
    """
    said = result.get("error")
    if code == 0 and not said:
        return None
    text = tail(log)
    if said and result.get("ranks"):  # which of them it was is more than the log of all says
        return f"{tool}: {said}"
    if (known := meaning(text)) is not None:
        return f"{tool}: {known}"
    if said:
        return f"{tool}: {said}"
    if code < 0:
        return f"{tool}: {by_signal(-code)} while trying to {purpose}"
    last = next((line for line in reversed(text.splitlines()) if line.strip() and not line.startswith("$ ")), "")
    return f"{tool}: exit code {code} while trying to {purpose}{f': {last.strip()}' if last else ''}; see {log.name}"


def meaning(text: str) -> str | None:
    """What a text that holds one of `KNOWN` means for the user; None for any other."""
    for pattern, known in KNOWN:
        if found := pattern.search(text):
            return known or text[text.rfind("\n", 0, found.start()) + 1 :].splitlines()[0].strip()
    return None


def by_signal(number: int) -> str:
    """How a program ended that a signal ended, in words that go before "while trying to …"."""
    if number == signal.SIGKILL:
        return "killed (SIGKILL), most likely because the machine ran out of memory,"
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    crashed = number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL)
    return f"crashed ({name})" if crashed else f"ended by {name}"


def tail(log: Path) -> str:
    """The end of what the last program printed."""
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return text[text.rfind("\n$ ") + 1 :]
