"""What the ranks of a job reported, made one: who ran where, which failed first, and what the others left."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import time
from typing import TYPE_CHECKING, Any

from tracetui.collectors import process, profiler_commands, reasons
from tracetui.collectors.following import Follower, Outcome, Tick
from tracetui.collectors.jobs import machines
from tracetui.collectors.machine import recording as machine
from tracetui.collectors.request import ProfileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from tracetui.collectors.folder import RunFolder
    from tracetui.collectors.request import ProfileRequest


def join(request: ProfileRequest, folder: RunFolder, tell: Callable[[Tick], None]) -> Outcome:
    """Runs this machine's ranks into the folder that another machine made, and waits until that one has finished it.

    Raises:
        ProfileError: the other machine did not come so far, or the run can't start.
    """
    spec = folder.path / profiler_commands.PROGRAM / profiler_commands.SPEC.format("torch")
    machines.wait(spec.exists, f"{spec}: not there, although another machine makes this run")
    name = f"{socket.gethostname()}-{os.getpid()}"
    note, log = folder.path / f"machine.{name}.json", folder.path / f"log.{name}.txt"
    known: dict[str, Any] = {
        "host": socket.gethostname(),
        "software": machine.software(request.python),
        "device": machine.devices(),
        "power": {"before": machine.power_state(), "during": [], "after": None},
    }
    machines.write(note, {**known, "done": False})
    watch = machine.watch()
    watch.start()
    follow, begun = Follower(folder.path / profiler_commands.PROGRESS), time.monotonic()
    state = Tick("torch", "starting")

    def tick() -> None:
        nonlocal state
        state = follow.newest(state)
        tell(Tick("torch", state.phase, state.step, state.of, time.monotonic() - begun, watch.latest))

    command = profiler_commands.make_phase(request, "torch", folder.path, {}).record
    try:
        code = process.run(command.words, log, tick)
    except KeyboardInterrupt:
        code = 130
    finally:
        known["power"].update(during=watch.stop(), after=machine.power_state())
        machines.write(note, {**known, "done": True})
    problem = reasons.explain("torch", code, {}, log, command.purpose)
    with contextlib.suppress(ProfileError):
        machines.wait(folder.final.exists, "")
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
