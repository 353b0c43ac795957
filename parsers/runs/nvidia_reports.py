"""Reads reports of Nsight Systems in its own formats (``.nsys-rep``, ``.qdrep``), if nsys is there and may export them.

What it exports goes to a private folder that is gone when it has been read: an Nsight Systems report carries the
whole environment of the profiled process.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.parsers.errors import Cancelled, TraceError
from tracetui.parsers.progress import Progress, Watch
from tracetui.parsers.written import scratch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.parsers.trace import Trace

VARIABLE = "TRACETUI_EXPORT"
"""Set to 1 where the user said that nsys may export: that can take minutes, and space for the whole export."""
POLL_S = 0.2
_PLACES = ("opt/nvidia/nsight-systems/*/bin/nsys", "usr/local/cuda*/bin/nsys")
"""Where installers put it without PATH; a program from there is named, not run."""
NSYS_OPTIONS = ("export", "--type=sqlite", "--force-overwrite=true")


def read_report(path: Path, watch: Watch) -> Trace:
    """The trace of a report, by way of ``nsys export``.

    Args:
        path: the report.
        watch: who is told of progress.

    Raises:
        TraceError: the tool is not on PATH, and which command to run where it is; or the tool failed.
        Cancelled: the user cancelled the load.
    """
    with scratch() as folder:
        trace = _read_nsys(path, folder, watch)
    return replace(trace, source=replace(trace.source, path=path, bytes=path.stat().st_size))


def tool_for(path: Path) -> str:
    """Where the program is that exports such a report.

    Raises:
        TraceError: it is not on PATH, which command to run where it is; or nobody said that it may run.
    """
    found = shutil.which("nsys")
    if found is None:
        what = "an Nsight Systems report, and nsys is not on PATH"
        there = next((str(file) for place in _PLACES for file in sorted(Path("/").glob(place), reverse=True)), None)
        where = "export it first" if there else "where nsys is installed"
        raise TraceError(path, what, f"{where}: {_by_hand(path, there or 'nsys')}")
    if os.environ.get(VARIABLE) != "1":
        what = "an Nsight Systems report, which nsys has to export first"
        raise TraceError(path, what, f"--export lets tracetui do that, or run: {_by_hand(path)}")
    return found


def _by_hand(path: Path, program: str = "nsys") -> str:
    """The command that exports a report so that it can be opened."""
    return shlex.join([program, *NSYS_OPTIONS, f"--output={path.with_suffix('.sqlite').name}", str(path)])


def _read_nsys(path: Path, folder: Path, watch: Watch) -> Trace:
    exported = folder / "report.sqlite"
    _run([tool_for(path), *NSYS_OPTIONS, f"--output={exported}", str(path.absolute())], path, watch)
    if not exported.exists():
        raise TraceError(path, "nsys wrote no export of this report", f"try: {_by_hand(path)}")
    from tracetui.parsers.nsys.reader import read_nsys

    return read_nsys(exported, watch)


def _run(command: Sequence[str], path: Path, watch: Watch) -> None:
    """Runs the tool to its end, or until the user gives up; its output goes nowhere."""
    size = path.stat().st_size
    null = subprocess.DEVNULL
    with tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, stdin=null, stdout=null, stderr=err, start_new_session=True)
        try:
            while (code := process.poll()) is None:
                if watch.cancelled:
                    raise Cancelled
                watch.report(Progress("exporting", 0, size, 0, path))
                with suppress(subprocess.TimeoutExpired):
                    process.wait(POLL_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        if code:
            err.seek(0)
            said = [line.strip() for line in err.read().decode("utf-8", "replace").splitlines() if line.strip()]
            tool = Path(command[0]).name
            reason = f": {said[-1]}" if said else ""
            raise TraceError(path, f"{tool} could not export this report (exit code {code}{reason})")
