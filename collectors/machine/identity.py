"""Identifies a run: when, where, by which command and on which state of the code it ran."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import time
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from tracetui.collectors.machine.masking import masked
from tracetui.parsers.runs.manifest import Identity

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tracetui.collectors.machine.probe import Probe

GIT_SECONDS = 5.0
_QUIET = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
"""Options that keep git from executing what a repository's configuration asks for."""


def identity(probe: Probe, command: Sequence[str], cwd: Path) -> Identity:
    """Returns everything that identifies this run."""
    now = time.time_ns()
    started = datetime.fromtimestamp(now / 1e9, timezone.utc).isoformat(timespec="milliseconds")
    sha = _git(probe, cwd, "rev-parse", "HEAD")
    diff = _git(probe, cwd, "diff", "--no-ext-diff", "--no-textconv", "--no-color", "HEAD") if sha else None
    branch = _git(probe, cwd, "rev-parse", "--abbrev-ref", "HEAD") if sha else None
    return Identity(
        run_id=f"{started[:10].replace('-', '')}-{secrets.token_hex(4)}",
        started_utc=started,
        started_unix_ns=now,
        started_monotonic_ns=time.monotonic_ns(),
        host=probe.text("proc/sys/kernel/hostname") or socket.gethostname() or None,
        pid=os.getpid(),
        boot_id=probe.text("proc/sys/kernel/random/boot_id"),
        command=masked(command),
        cwd=str(cwd),
        git_sha=sha,
        git_branch=branch if branch != "HEAD" else None,
        git_dirty=None if diff is None else bool(diff),
        git_diff_sha256=hashlib.sha256(diff.encode("utf-8", "replace")).hexdigest() if diff else None,
        tracetui_version=tracetui_version(),
    )


def _git(probe: Probe, cwd: Path, *words: str) -> str | None:
    ran = probe.run("git", *_QUIET, "-C", str(cwd), *words, timeout_s=GIT_SECONDS)
    return ran.out.strip() if ran.ok else None


def tracetui_version() -> str | None:
    """The version of this program; None where it runs without being installed."""
    try:
        return version("tracetui")
    except PackageNotFoundError:
        return None
