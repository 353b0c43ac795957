"""`tracetui doctor`: checks everything that opening and profiling need, and says how to fix what is missing.

It changes nothing, imports nothing heavy, and a check that fails does not stop the others.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tracetui.collectors.checks import permissions, software, state, target_python
from tracetui.collectors.checks.check import OK, SKIPPED, STATUSES, WARN, Check, Machine, Terminal
from tracetui.collectors.machine import host as machine_host
from tracetui.collectors.machine import jetson as machine_jetson
from tracetui.collectors.machine import recording as machines
from tracetui.collectors.machine import smi as machine_smi
from tracetui.collectors.machine.probe import ROOT, Probe, Runner, run_command
from tracetui.parsers.runs.manifest import Device, PowerState, parse

SCHEMA = "tracetui.doctor/1"


def examine(
    python: str | None = None,
    output: Path | None = None,
    *,
    root: Path = ROOT,
    runner: Runner = run_command,
    environment: Mapping[str, str] | None = None,
    screen: Terminal | None = None,
    is_root: bool | None = None,
) -> list[Check]:
    """Runs every check and returns the results in the order in which they are shown.

    Args:
        python: the Python that runs workloads; this one if None.
        output: where runs are to be written; here if None.
        root: where the machine's files are.
        runner: runs the machine's tools.
        environment: variables; this process's if None.
        screen: what the output is connected to; looked at if None.
        is_root: whether this user is root; looked at if None.
    """
    probe = Probe(root, runner)
    jetson = machine_jetson.is_jetson(probe)
    release = machine_jetson.l4t_release(probe) if jetson else None
    devices, power = _manifest(root, runner)
    machine = Machine(
        probe=probe,
        environment=os.environ if environment is None else environment,
        terminal=screen or this_terminal(),
        output=output or Path.cwd(),
        is_root=os.geteuid() == 0 if is_root is None else is_root,
        is_jetson=jetson,
        devices=devices,
        power=power,
        driver=machine_host.driver_version(probe),
        cuda_of_driver=None if jetson else machine_smi.cuda_of_driver(probe),
        l4t=release,
        jetpack=machine_jetson.jetpack(release),
        python=target_python.ask(probe, python),
    )
    return [check for subject in SUBJECTS for check in _looked_at(subject, machine)]


def document(found: list[Check]) -> dict[str, Any]:
    """The results in the form of the JSON that scripts read."""
    counts = Counter(check.status for check in found)
    return {
        "schema": SCHEMA,
        "summary": {status: counts.get(status, 0) for status in STATUSES},
        "checks": [{**asdict(check), "remedy": check.remedy or None} for check in found],
    }


def this_terminal() -> Terminal:
    """The terminal, file or pipe that standard output is connected to."""
    size = shutil.get_terminal_size()
    return Terminal(sys.stdout is not None and sys.stdout.isatty(), size.columns, size.lines)


def _looked_at(subject: str, machine: Machine) -> list[Check]:
    """Runs the checks of one subject; its failure must not hide the others."""
    try:
        return SUBJECTS[subject](machine)
    except Exception as error:
        said = f"could not be looked at: {type(error).__name__}: {error}"
        return [Check(subject.capitalize(), subject, SKIPPED, said)]


def _manifest(root: Path, runner: Runner) -> tuple[tuple[Device, ...], PowerState]:
    """GPUs and their state, in the form of run.json."""
    now = machines.power_state(root=root, runner=runner)
    said = {"schema": "tracetui.run/1", "device": machines.devices(root=root, runner=runner), "power": {"before": now}}
    read = parse(said)
    return (read.device, read.power.before or PowerState()) if read else ((), PowerState())


# --- the terminal

TERMINAL = "Terminal"
COLUMNS, LINES = 80, 24


def terminal_checks(machine: Machine) -> list[Check]:
    """Checks what the screen needs of the terminal."""
    return [_size(machine), _colours(machine.environment), _characters(machine.environment), _way(machine.environment)]


def _size(machine: Machine) -> Check:
    terminal = machine.terminal
    if not terminal.is_terminal:
        return Check(TERMINAL, "size", SKIPPED, "the output is not a terminal")
    size = f"{terminal.columns} columns, {terminal.lines} lines"
    if terminal.columns < COLUMNS or terminal.lines < LINES:
        return Check(TERMINAL, "size", WARN, f"{size}: less than {COLUMNS} x {LINES}", "enlarge the window")
    return Check(TERMINAL, "size", OK, size)


def _colours(environment: Mapping[str, str]) -> Check:
    term = environment.get("TERM", "")
    if environment.get("NO_COLOR"):
        return Check(TERMINAL, "colours", OK, "none, as NO_COLOR asks")
    if term in ("", "dumb"):
        said = "TERM is not set" if not term else "TERM is dumb: no screen can be drawn"
        return Check(TERMINAL, "colours", WARN, said, "export TERM=xterm-256color")
    if environment.get("COLORTERM", "").lower() in ("truecolor", "24bit") or "direct" in term:
        return Check(TERMINAL, "colours", OK, f"all (TERM {term})")
    if "256color" in term or term in ("xterm-kitty", "xterm-ghostty", "alacritty", "foot", "wezterm"):
        return Check(TERMINAL, "colours", OK, f"256 (TERM {term})")
    if term.startswith(("screen", "tmux")):
        remedy = "tmux set -g default-terminal tmux-256color"
        return Check(TERMINAL, "colours", WARN, f"16 (TERM {term})", remedy)
    if term == "linux":
        return Check(TERMINAL, "colours", OK, "16, the console has no more")
    return Check(TERMINAL, "colours", WARN, f"16 (TERM {term})", "export TERM=xterm-256color, if the terminal can")


def _characters(environment: Mapping[str, str]) -> Check:
    name = next((environment[key] for key in ("LC_ALL", "LC_CTYPE", "LANG") if environment.get(key)), "")
    if "utf-8" in name.lower() or "utf8" in name.lower():
        return Check(TERMINAL, "characters", OK, f"UTF-8 ({name})")
    said = f"the locale is {name}, not UTF-8" if name else "no locale is set: LANG, LC_CTYPE and LC_ALL are empty"
    return Check(TERMINAL, "characters", WARN, said, "export LC_ALL=C.UTF-8, or give --ascii")


def _way(environment: Mapping[str, str]) -> Check:
    ways = []
    if environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"):
        ways.append("over SSH: the mouse is off unless --mouse is given")
    if environment.get("TMUX"):
        ways.append("in tmux")
    elif environment.get("STY"):
        ways.append("in screen")
    return Check(TERMINAL, "connection", OK, ", ".join(ways) or "local")


SUBJECTS: dict[str, Callable[[Machine], list[Check]]] = {
    "terminal": terminal_checks,
    "software": software.checks,
    "permissions": permissions.checks,
    "state": state.checks,
}
"""In the order in which they are shown."""
