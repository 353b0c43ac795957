"""Reads reports in NVIDIA's own formats (``.nsys-rep``, ``.qdrep``, ``.ncu-rep``), if NVIDIA's tools can export them.

What they export goes to a private folder that is gone when it has been read: an Nsight Systems report carries the
whole environment of the profiled process.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.parsers.errors import Cancelled, TraceError
from tracetui.parsers.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.parsers.progress import Watch
    from tracetui.parsers.trace import Trace

POLL_S = 0.2
NSYS_OPTIONS = ("export", "--type=sqlite", "--force-overwrite=true")


def read_report(path: Path, kind: str, watch: Watch) -> Trace:
    """The trace of a report, by way of ``nsys export`` or ``ncu --import``.

    Args:
        path: the report.
        kind: ``nsys_report`` or ``ncu_report``.
        watch: who is told of progress.

    Raises:
        TraceError: the tool is not on PATH, and which command to run where it is; or the tool failed.
        Cancelled: the user cancelled the load.
    """
    with tempfile.TemporaryDirectory(prefix="tracetui-") as folder:
        trace = (_read_nsys if kind == "nsys_report" else _read_ncu)(path, Path(folder), watch)
    return replace(trace, source=replace(trace.source, path=path, bytes=path.stat().st_size))


def tool_for(path: Path, kind: str) -> str:
    """Where the program is that exports such a report.

    Raises:
        TraceError: it is not on PATH; says which command to run where it is.
    """
    name, what = ("nsys", "an Nsight Systems report") if kind == "nsys_report" else ("ncu", "an Nsight Compute report")
    found = shutil.which(name)
    if found is None:
        raise TraceError(
            path, f"{what}, and {name} is not on PATH", f"where {name} is installed: {_by_hand(path, kind)}"
        )
    return found


def _by_hand(path: Path, kind: str) -> str:
    """The command that exports a report so that it can be opened."""
    if kind == "nsys_report":
        return shlex.join(["nsys", *NSYS_OPTIONS, f"--output={path.with_suffix('.sqlite').name}", str(path)])
    command = shlex.join(["ncu", "--import", str(path), "--csv", "--page", "raw"])
    return f"{command} > {shlex.quote(path.with_suffix('.csv').name)}"


def _read_nsys(path: Path, folder: Path, watch: Watch) -> Trace:
    exported = folder / "report.sqlite"
    _run([tool_for(path, "nsys_report"), *NSYS_OPTIONS, f"--output={exported}", str(path.absolute())], path, watch)
    if not exported.exists():
        raise TraceError(path, "nsys wrote no export of this report", f"try: {_by_hand(path, 'nsys_report')}")
    from tracetui.parsers.nsys.reader import read_nsys

    return read_nsys(exported, watch)


def _read_ncu(path: Path, folder: Path, watch: Watch) -> Trace:
    """All metrics stand in the raw page only, the rules in the details page only."""
    from tracetui.parsers.ncu.pages import with_rules
    from tracetui.parsers.ncu.reader import read_ncu

    tool = tool_for(path, "ncu_report")
    pages: dict[str, Trace] = {}
    for page in ("raw", "details"):
        exported = folder / f"{page}.csv"
        _run([tool, "--import", str(path.absolute()), "--csv", "--page", page], path, watch, exported)
        try:
            pages[page] = read_ncu(exported, watch)
        except TraceError as problem:
            if page == "raw":
                raise TraceError(path, problem.problem, problem.advice) from problem
    raw = pages["raw"]
    details = pages.get("details")
    if details is None or details.device.height != raw.device.height:
        return raw
    return with_rules(raw, details)


def _run(command: Sequence[str], path: Path, watch: Watch, output: Path | None = None) -> None:
    """Runs one of NVIDIA's tools to its end, or until the user gives up; its output goes to a file or nowhere."""
    size = path.stat().st_size
    with (output or Path("/dev/null")).open("wb") as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
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
