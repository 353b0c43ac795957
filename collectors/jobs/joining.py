"""Runs one machine's ranks of a job into the folder that another machine made."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import TYPE_CHECKING, Any

from tracetui.collectors import process, profiler_commands, reasons
from tracetui.collectors.following import Follower, Outcome, Tick
from tracetui.collectors.jobs import machines
from tracetui.collectors.machine import recording as machine
from tracetui.collectors.request import ProfileError

if TYPE_CHECKING:
    from collections.abc import Callable

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
