"""How the machine is asked: files below a root and commands, both replaceable, neither of which ever raises."""

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
    """What a command left."""

    code: int | None
    """Null where it could not be started or took too long."""
    out: str = ""
    err: str = ""

    @property
    def ok(self) -> bool:
        """It ended, and said that it did well."""
        return self.code == 0


Runner = Callable[[Sequence[str], float], Ran]
"""Runs a command (never through a shell) for at most so many seconds."""


def run_command(command: Sequence[str], timeout_s: float) -> Ran:
    """Runs a command with nothing to read, in the C locale, so that what it prints can be understood."""
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
    """Reads what the machine says of itself; what can't be read is null, and what only root may read is remembered."""

    root: Path = ROOT
    runner: Runner = run_command
    denied: list[str] = field(default_factory=list)
    """What was there but not for this user, in words."""

    def path(self, name: str) -> Path:
        """A path of the machine, below the root."""
        return self.root / name.lstrip("/")

    def text(self, name: str | Path, what: str = "") -> str | None:
        """A small file's text without the blanks around it; `what` names it where only root may read it."""
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
        """A file that holds one whole number, decimal or hexadecimal with its ``0x``."""
        text = self.text(name, what)
        try:
            return None if text is None else int(text, 0)
        except ValueError:
            return None

    def flag(self, name: str | Path) -> bool | None:
        """A file that holds 0 or another number."""
        number = self.number(name)
        return None if number is None else bool(number)

    def glob(self, pattern: str) -> list[Path]:
        """What is there by a pattern, in natural order: cpu2 before cpu10."""
        try:
            return sorted(self.root.glob(pattern.lstrip("/")), key=_natural)
        except OSError:
            return []

    def exists(self, name: str) -> bool:
        """Whether there is such a file or folder."""
        try:
            return self.path(name).exists()
        except OSError:
            return False

    def run(self, *command: str, timeout_s: float = 5.0) -> Ran:
        """What a command leaves."""
        return self.runner(command, timeout_s)


def _natural(path: Path) -> list[tuple[int, str]]:
    """Digits as numbers, the rest as text."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", str(path))]
