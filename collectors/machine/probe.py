"""Asks the machine through files below a root and through commands; both are replaceable and never raise."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

MAX_TEXT = 1 << 20
ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of a command."""

    code: int | None
    """Null if the command could not be started or took too long."""
    out: str = ""
    err: str = ""

    @property
    def ok(self) -> bool:
        """Whether the command ended with exit code 0."""
        return self.code == 0


Runner = Callable[[Sequence[str], float], Ran]
"""Runs a command (never through a shell) for at most the given seconds."""


def run_command(command: Sequence[str], timeout_s: float) -> Ran:
    """Runs a command without input and in the C locale, so that its output can be parsed."""
    environment = {**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return Ran(None, err=f"no answer within {timeout_s:g} s")
    except (OSError, ValueError) as error:
        return Ran(None, err=str(error))
    return Ran(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


@dataclass(frozen=True)
class Probe:
    """Reads the machine's files and commands; returns null for what can't be read and remembers what needs root."""

    root: Path = ROOT
    runner: Runner = run_command
    denied: list[str] = field(default_factory=list)
    """What exists but this user may not read, in words."""

    def path(self, name: str) -> Path:
        """A path of the machine, placed below the root."""
        return self.root / name.lstrip("/")

    def text(self, name: str | Path, what: str = "") -> str | None:
        """A small file's text, stripped; if only root may read it, it is remembered under the name `what`."""
        path = name if isinstance(name, Path) else self.path(name)
        try:
            with path.open("rb") as file:
                content = file.read(MAX_TEXT)
        except PermissionError:
            if what and what not in self.denied:
                self.denied.append(what)
            return None
        except (OSError, ValueError):  # a sensor that is switched off answers with an error
            return None
        return content.decode("utf-8", "replace").strip("\0 \t\r\n")

    def number(self, name: str | Path, what: str = "") -> int | None:
        """Reads a file that holds one whole number, decimal or hexadecimal with ``0x``."""
        text = self.text(name, what)
        try:
            return None if text is None else int(text, 0)
        except ValueError:
            return None

    def flag(self, name: str | Path) -> bool | None:
        """Reads a file that holds 0 (false) or another number (true)."""
        number = self.number(name)
        return None if number is None else bool(number)

    def glob(self, pattern: str) -> list[Path]:
        """The paths that match a pattern, in natural order: cpu2 before cpu10."""
        try:
            return sorted(self.root.glob(pattern.lstrip("/")), key=lambda path: natural(str(path)))
        except OSError:
            return []

    @property
    def capabilities(self) -> int:
        """The effective capabilities of this process, one bit each."""
        match = re.search(r"^CapEff:\s*([0-9a-fA-F]+)", self.text("proc/self/status") or "", re.MULTILINE)
        return int(match[1], 16) if match else 0

    def exists(self, name: str) -> bool:
        """Whether this file or folder exists."""
        try:
            return self.path(name).exists()
        except OSError:
            return False

    def run(self, *command: str, timeout_s: float = 5.0) -> Ran:
        """Runs a command and returns its result."""
        return self.runner(command, timeout_s)


def natural(text: str) -> list[tuple[int, str]]:
    """A sort key with digits as numbers and the rest as text."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", text)]


# --- NVIDIA's profilers and their versions

PLACES = {
    "nsys": (
        "usr/local/cuda*/bin/nsys",
        "opt/nvidia/nsight-systems/*/bin/nsys",
        "opt/nvidia/nsight-systems-cli/*/bin/nsys",
        "opt/nvidia/nsight-systems/*/target-linux-*/nsys",
        "usr/local/cuda*/nsight-systems-*/bin/nsys",
    ),
    "ncu": (
        "usr/local/cuda*/bin/ncu",
        "opt/nvidia/nsight-compute/*/ncu",
        "usr/local/cuda*/nsight-compute-*/ncu",
    ),
    "nvpmodel": ("usr/sbin/nvpmodel",),
    "tegrastats": ("usr/bin/tegrastats",),
}
"""Path patterns below the root, the likeliest first."""
NSYS_IN_NCU = (
    "opt/nvidia/nsight-compute/*/host/target-linux-*/nsys",
    "usr/local/cuda*/nsight-compute-*/host/target-linux-*/nsys",
)
"""Nsight Compute ships a part of Nsight Systems that records but does not finish its reports."""
_VERSION = re.compile(r"\bversion\s+(\d+(?:\.\d+)+)", re.IGNORECASE)


def find_tool(probe: Probe, name: str, search_path: str | None = None) -> Path | None:
    """Finds the program: the first on PATH (or `search_path`), else the newest in its usual places."""
    for folder in (os.environ.get("PATH", "") if search_path is None else search_path).split(os.pathsep):
        if folder and _is_program(found := probe.path(folder) / name):
            return found
    return _newest(probe, PLACES.get(name, ()))


def nsys_in_ncu(probe: Probe) -> Path | None:
    """Finds the part of Nsight Systems that Nsight Compute ships."""
    return _newest(probe, NSYS_IN_NCU)


def tool_version(probe: Probe, tool: Path) -> str | None:
    """The version that the program itself reports, ``2025.3.1.0``; None if it does not start."""
    ran = probe.run(str(tool), "--version", timeout_s=20.0)
    match = _VERSION.search(ran.out + ran.err) if ran.code is not None else None
    return match[1] if match else None


def version_numbers(version: str | None) -> tuple[int, ...]:
    """The version as numbers that sort correctly; empty for an unknown version."""
    return tuple(int(part) for part in re.findall(r"\d+", version or ""))


def _newest(probe: Probe, patterns: tuple[str, ...]) -> Path | None:
    for pattern in patterns:
        if found := [path for path in probe.glob(pattern) if _is_program(path)]:
            return found[-1]
    return None


def _is_program(path: Path) -> bool:
    try:
        return path.is_file() and os.access(path, os.X_OK)
    except OSError:
        return False
