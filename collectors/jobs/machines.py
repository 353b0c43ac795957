"""One run of a job that is launched on several machines with a shared folder: who makes the folder, and who joins it.

The first machine to come makes the folder and writes run.json; the others run their ranks into it and leave beside them
what is known of their machine. All are launched by the same command, but for torchrun's ``--node-rank``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import socket
import time
from typing import TYPE_CHECKING, Any

from tracetui.collectors import torchrun
from tracetui.collectors.request import ProfileError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tracetui.collectors.folder import RunFolder
    from tracetui.collectors.request import ProfileRequest

JOB = "job.json"
"""The mark of the folder of such a job; it is touched while the job runs."""
ALIVE_S = 30.0
"""A mark that was not touched for so long is of a job that was cut off. File servers may show a touch seconds later."""
BEAT_S = 2.0
PATIENCE_S = 60.0
"""How long the machines wait for one another at the beginning and at the end."""
_LOOK_S = 0.1


def job_of(request: ProfileRequest) -> str | None:
    """What tells a job apart from others, equal on all its machines; None where it runs on one."""
    if request.tools != ("torch",):
        return None
    command = torchrun.ranked(request.command)
    nodes = None if command is None else command.option("nnodes")
    if command is None or nodes is None or nodes.rpartition(":")[2] == "1":
        return None
    names = ("nnodes", "rdzv-id", "rdzv-endpoint", "master-addr", "master-port")
    facts = [*(command.option(name) or "" for name in names), *command.program]
    return hashlib.sha256("\0".join(facts).encode("utf-8", "surrogateescape")).hexdigest()


class Beat:
    """Touches the job's mark now and then, so that machines that come later know that it still runs."""

    def __init__(self, folder: Path) -> None:
        self._mark = folder / JOB
        self._due = 0.0

    def __call__(self) -> None:
        """Touches the mark if that is due."""
        now = time.monotonic()
        if now >= self._due:
            self._due = now + BEAT_S
            with contextlib.suppress(OSError):
                os.utime(self._mark)


def leads(folder: RunFolder, job: str) -> bool:
    """Whether this machine is the first to come: then the folder is there now, empty but for the job's mark.

    Raises:
        ProfileError: another job is being recorded into the folder, or it can't be made.
    """
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            folder.path.parent.mkdir(parents=True, exist_ok=True)
            folder.path.mkdir()
            (folder.path / JOB).write_text(json.dumps({"job": job, "host": socket.gethostname()}) + "\n")
            return True
        except FileExistsError:
            pass
        except OSError as error:
            raise ProfileError(f"{error.filename or folder.path}: {(error.strerror or str(error)).lower()}") from error
        known = read(folder.path / JOB).get("job")
        if not _alive(folder.path / JOB if known else folder.path):
            shutil.rmtree(folder.path, ignore_errors=True)  # what a job that was cut off left
        elif known is None:
            time.sleep(_LOOK_S)  # it is being made
        elif known == job:
            return False
        else:
            raise ProfileError(f"{folder.path}: another job is being recorded into it; give another --output")
    raise ProfileError(f"{folder.path}: it can't be made, and no other machine made it; remove it")


def _alive(path: Path) -> bool:
    """Whether the file was touched lately, by the clock of its own file system."""
    probe = path.with_name(f".clock-{socket.gethostname()}-{os.getpid()}")
    try:
        probe.touch()
        now = probe.stat().st_mtime
        return now - path.stat().st_mtime < ALIVE_S
    except OSError:
        return False
    finally:
        probe.unlink(missing_ok=True)


def others(folder: Path) -> list[dict[str, Any]]:
    """What the other machines left, once all that joined have ended, or have not within `PATIENCE_S` seconds."""

    def all_done() -> bool:
        return all(read(note).get("done") for note in folder.glob("machine.*.json"))

    with contextlib.suppress(ProfileError):
        wait(all_done, "")
    notes = sorted(folder.glob("machine.*.json"))
    found = [read(note) for note in notes]
    for note in notes:
        note.unlink(missing_ok=True)
    (folder / JOB).unlink(missing_ok=True)
    return [{name: value for name, value in said.items() if name != "done"} for said in found]


def wait(there: Callable[[], bool], why_not: str) -> None:
    """Waits for something that another machine does.

    Raises:
        ProfileError: with `why_not`, if it is not done within `PATIENCE_S` seconds.
    """
    until = time.monotonic() + PATIENCE_S
    while not there():
        if time.monotonic() > until:
            raise ProfileError(why_not)
        time.sleep(_LOOK_S)


def read(path: Path) -> dict[str, Any]:
    """What another machine wrote; empty if it can't be read."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write(path: Path, what: dict[str, Any]) -> None:
    """Writes the whole file or nothing: the other machine may read it at any moment."""
    partial = path.with_name("." + path.name)
    partial.touch(mode=0o600)
    partial.write_text(json.dumps(what) + "\n")
    partial.replace(path)
