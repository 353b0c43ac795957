"""Jobs of many ranks: runs that several machines write together, and what the ranks reported, made one.

The first machine to come makes the folder and writes run.json; the others run their ranks into it and leave beside them
what is known of their machine. All are launched by the same command, but for torchrun's ``--node-rank``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tracetui.collectors import process, profiler_commands, reasons, torchrun
from tracetui.collectors.folder import RunFolder
from tracetui.collectors.machine import recording as machine
from tracetui.collectors.process import Follower, Outcome, Tick
from tracetui.collectors.request import ProfileError, ProfileRequest

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
        known = _said(folder.path / JOB).get("job")
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
        return all(_said(note).get("done") for note in folder.glob("machine.*.json"))

    with contextlib.suppress(ProfileError):
        _wait(all_done, "")
    notes = sorted(folder.glob("machine.*.json"))
    found = [_said(note) for note in notes]
    for note in notes:
        note.unlink(missing_ok=True)
    (folder / JOB).unlink(missing_ok=True)
    return [{name: value for name, value in said.items() if name != "done"} for said in found]


def _wait(there: Callable[[], bool], why_not: str) -> None:
    """Waits for something that another machine does.

    Raises:
        ProfileError: with `why_not`, if it is not done within `PATIENCE_S` seconds.
    """
    until = time.monotonic() + PATIENCE_S
    while not there():
        if time.monotonic() > until:
            raise ProfileError(why_not)
        time.sleep(_LOOK_S)


def _said(path: Path) -> dict[str, Any]:
    """What another machine wrote; empty if it can't be read."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(path: Path, what: dict[str, Any]) -> None:
    """Writes the whole file or nothing: the other machine may read it at any moment."""
    partial = path.with_name("." + path.name)
    partial.touch(mode=0o600)
    partial.write_text(json.dumps(what) + "\n")
    partial.replace(path)


def join(request: ProfileRequest, folder: RunFolder, tell: Callable[[Tick], None]) -> Outcome:
    """Runs this machine's ranks into the folder that another machine made, and waits until that one has finished it.

    Raises:
        ProfileError: the other machine did not come so far, or the run can't start.
    """
    spec = folder.path / profiler_commands.PROGRAM / profiler_commands.SPEC.format("torch")
    _wait(spec.exists, f"{spec}: not there, although another machine makes this run")
    name = f"{socket.gethostname()}-{os.getpid()}"
    note, log = folder.path / f"machine.{name}.json", folder.path / f"log.{name}.txt"
    known: dict[str, Any] = {
        "host": socket.gethostname(),
        "software": machine.software(request.python),
        "device": machine.devices(),
        "power": {"before": machine.power_state(), "during": [], "after": None},
    }
    _write(note, {**known, "done": False})
    watch = machine.Watch()
    watch.start()
    follow = Follower(folder.path / profiler_commands.PROGRESS, Tick("torch", "starting"))

    def tick() -> None:
        tell(replace(follow.newest(), power=watch.latest))

    command = profiler_commands.make_phase(request, "torch", folder.path, {}).record
    try:
        code = process.run(command.words, log, tick)
    except KeyboardInterrupt:
        code = 130
    finally:
        known["power"].update(during=watch.stop(), after=machine.power_state())
        _write(note, {**known, "done": True})
    problem = reasons.explain("torch", code, {}, log, command.purpose)
    with contextlib.suppress(ProfileError):
        _wait(folder.final.exists, "")
    status = "interrupted" if code == 130 else ("failed" if code else "finished")
    at = folder.final if folder.final.exists() else folder.path
    return Outcome(status, at, code if code >= 0 else 1, [problem] if problem else [])


_NAME = re.compile(r"result\.rank(\d+)\.(\w+)\.json")
_TRACE = re.compile(r"rank(\d+)\.(light\.)?pt\.trace\.json\.gz")
_FIRST = re.compile(r"Root Cause \(first observed failure\):.*?rank\s*:\s*(\d+).*?exitcode\s*:\s*(-?\d+)", re.DOTALL)
"""torchrun's own words on the rank that failed before the others."""
_OF_EACH = ("clean_step_ns", "clean_host_ns", "profiled_step_ns", "passes")
INTERRUPTED = "interrupted"
"""What a rank reports that was ended because another one failed."""
LISTED = 8
"""How many ranks a sentence names."""


def read(folder: Path, tool: str) -> dict[int, dict[str, Any]]:
    """What each rank reported, by rank; a report that can't be read is missing."""
    found: dict[int, dict[str, Any]] = {}
    for path in folder.glob(f"result.rank*.{tool}.json"):
        name = _NAME.fullmatch(path.name)
        try:
            said = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        if name is not None and isinstance(said, dict):
            found[int(name[1])] = said
    return dict(sorted(found.items()))


def recorded(folder: Path) -> list[int]:
    """The ranks that left a recording, be it only the light one."""
    found = (_TRACE.fullmatch(path.name) for path in folder.glob("rank*.json.gz"))
    return sorted({int(name[1]) for name in found if name is not None})


def merged(results: dict[int, dict[str, Any]], left: Sequence[int], log: str) -> dict[str, Any]:
    """One result of all ranks, with the keys that a single process's has and `ranks`.

    What the run is, and its times, are those of the lowest rank: in synchronous training the steps of all are equal.

    Args:
        results: by rank, as `read` gives them.
        left: the ranks of which there is a recording.
        log: the end of what torchrun and the program printed.
    """
    if not results:
        return {"error": _never_began(log)}
    first = next(iter(results.values()))
    return {
        **first,
        "error": _failure(results, left, log),
        "devices": _devices(results.values()),
        "notes": _once(results, "notes"),
        "skipped": _once(results, "skipped"),
        "ranks": [_rank(said) for said in results.values()],
    }


def _rank(said: dict[str, Any]) -> dict[str, Any]:
    """What run.json says of one rank (`parsers.runs.manifest.Rank`)."""
    measured = said.get("measurement") or {}
    known = {name: value for name, value in (said.get("rank") or {}).items() if name != "ended_unix_ns"}
    return {**known, **{name: measured[name] for name in _OF_EACH if measured.get(name)}, "error": said.get("error")}


def _devices(results: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The GPUs that the ranks saw, each once."""
    found: dict[Any, dict[str, Any]] = {}
    for said in results:
        for device in said.get("devices") or ():
            found.setdefault(device.get("uuid") or (device.get("name"), device.get("index")), device)
    return list(found.values())


def _once(results: dict[int, dict[str, Any]], key: str) -> list[str]:
    """The lines of all ranks, each once; what only some say begins with their numbers."""
    by_line: dict[str, list[int]] = {}
    for rank, said in results.items():
        for line in said.get(key) or ():
            by_line.setdefault(str(line), []).append(rank)
    return [line if len(who) == len(results) else f"{named(who)}: {line}" for line, who in by_line.items()]


def _failure(results: dict[int, dict[str, Any]], left: Sequence[int], log: str) -> str | None:
    """One line on the rank that failed first, and on what the others left; None where all went well."""
    world = max(((said.get("rank") or {}).get("world_size") or 0) for said in results.values())
    missing = [rank for rank in range(world) if rank not in results]
    failed = {rank: str(said["error"]) for rank, said in results.items() if said.get("error")}
    blamed = _FIRST.search(log)
    torn = blamed is not None and "unfinished" in results.get(int(blamed[1]), {})
    if not failed and not missing and not torn:
        return None
    kept = f"recorded: {named(left)}" if left else "no rank left a recording"
    if blamed is not None:
        rank, code = int(blamed[1]), int(blamed[2])
    else:
        own = [rank for rank, error in failed.items() if error != INTERRUPTED] or list(failed) or missing
        rank, code = min(own, key=lambda one: _ended(results.get(one))), 0
    why = failed.get(rank)
    if why is not None:
        why = reasons.meaning(why) or why
    if why is None or why == INTERRUPTED:
        why = reasons.by_signal(-code) if code < 0 else (f"exit code {code}" if code else "it reported nothing")
    return f"rank {rank}: {why.strip().rstrip(',')}; {kept}"


def _ended(said: dict[str, Any] | None) -> int:
    return int(((said or {}).get("rank") or {}).get("ended_unix_ns") or 0)


def _never_began(log: str) -> str | None:
    blamed = _FIRST.search(log)
    if blamed is None:
        return None
    code = int(blamed[2])
    return f"rank {blamed[1]}: {reasons.by_signal(-code).strip().rstrip(',') if code < 0 else f'exit code {code}'}"


def named(ranks: Sequence[int]) -> str:
    """Ranks as people write them: ``rank 2``, ``ranks 0, 1 and 3``, ``ranks 0 to 1023``; many gaps are counted."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 2 and ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"ranks {ranks[0]} to {ranks[-1]}"
    if len(ranks) > LISTED:
        return f"{len(ranks)} ranks"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
