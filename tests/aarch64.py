"""Tries tracetui as a board runs it, on a machine that is none: ``python tests/aarch64.py`` (``make aarch64``).

CPython and the libraries it needs are Debian's for arm64, unpacked into a folder and started by qemu; the packages that
tracetui depends on are their aarch64 wheels, and tracetui itself is a wheel of this checkout. What it then says about
recordings and boards is compared with what it says here (`on_both`), and its screen is opened, used and closed.

Needs Debian's apt and the network; by hand and before a release, about five minutes. What was fetched stays in
``build/aarch64`` and is used again.
"""

from __future__ import annotations

import getpass
import gzip
import json
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
import zipfile
from fcntl import ioctl
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyte_screen import Emulator

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "aarch64"
SYSTEM, SITE, DATA = BUILD / "root", BUILD / "site", BUILD / "recordings"
QEMU = BUILD / "host" / "usr" / "bin" / "qemu-aarch64-static"
PACKAGES = (
    "python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "libc6", "libexpat1", "zlib1g", "libssl3",
    "libffi8", "libbz2-1.0", "liblzma5", "libsqlite3-0", "libncursesw6", "libtinfo6", "libreadline8", "libuuid1",
    "libcrypt1", "libgcc-s1", "libstdc++6",
)  # fmt: skip
GLIBC = 36
"""Of Debian 12, on which CPython 3.11 is tried: 2.36."""
RECORDINGS = (
    "samples/vim_tiny", "samples/vim_tiny_fp16", "tests/data/gpt_train", "tests/data/mlp_profiled",
    "tests/data/jax/h200.trace.json.gz", "tests/data/chrome/cudagraph_replay.trace.json.gz",
    "tests/data/chrome/ddp_vit_small_2ranks", "tests/data/nsys/gpt_small_ctx256.sqlite.gz",
    "tests/data/nsys/graph_node.sqlite.gz", "tests/data/ncu/vim_full_raw.csv.gz",
    "tests/data/memory/gpt_memory_snapshot.pickle.gz",
)  # fmt: skip
WHEEL = re.compile(r"manylinux_2_(\d+)_aarch64")


def _run(*words: str | Path, cwd: Path | None = None) -> None:
    subprocess.run([str(word) for word in words], check=True, cwd=cwd, stdout=subprocess.DEVNULL)


def fetch_system() -> None:
    """Debian's Python for arm64, and qemu for this machine."""
    if (SYSTEM / "usr" / "bin" / "python3.11").exists() and QEMU.exists():
        return
    lists, debs, own = BUILD / "lists", BUILD / "debs", BUILD / "own"
    for folder in (lists / "partial", debs, own):
        folder.mkdir(parents=True, exist_ok=True)
    # apt checks signatures as a user of its own, who may open nothing in some containers: then it asks for gpgv
    own_user = f"APT::Sandbox::User={getpass.getuser()}"
    options = ("APT::Architecture=arm64", "APT::Architectures=arm64", f"Dir::State::Lists={lists}", own_user)
    arm = [f"-o{name}" for name in options]
    _run("apt-get", *arm, "update")
    _run("apt-get", *arm, "download", *PACKAGES, cwd=debs)
    _run("apt-get", f"-o{own_user}", "download", "qemu-user-static", cwd=own)
    for folder, root in ((debs, SYSTEM), (own, BUILD / "host")):
        for package in sorted(folder.glob("*.deb")):
            _run("dpkg", "-x", package, root)


def fetch_wheels() -> tuple[int, ...]:
    """The dependencies' aarch64 wheels and our own; returns the glibc that each of them asks for at least, 2.x."""
    wheels = BUILD / "wheels"
    shutil.rmtree(SITE, ignore_errors=True)
    wheels.mkdir(parents=True, exist_ok=True)
    for old in wheels.glob("tracetui-*.whl"):
        old.unlink()
    _run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", wheels, ROOT)
    (own,) = wheels.glob("tracetui-*.whl")
    platforms = [word for minor in range(17, GLIBC + 1) for word in ("--platform", f"manylinux_2_{minor}_aarch64")]
    _run(
        sys.executable, "-m", "pip", "download", "-q", "--dest", wheels, "--only-binary=:all:", "--platform",
        "manylinux2014_aarch64", *platforms, "--python-version", "3.11", "--implementation", "cp", own,
    )  # fmt: skip
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as held:
            held.extractall(SITE)
    needed = (
        WHEEL.findall(wheel.name) or (["17"] if "2014_aarch64" in wheel.name else ["0"])
        for wheel in wheels.glob("*.whl")
    )
    return tuple(min(map(int, minors)) for minors in needed)


def recordings() -> None:
    """Copies of what is read, unpacked where only tests unpack it."""
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    for name in RECORDINGS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, DATA / source.name)
        elif source.name.endswith((".sqlite.gz", ".csv.gz", ".pickle.gz")):
            (DATA / source.name.removesuffix(".gz")).write_bytes(gzip.decompress(source.read_bytes()))
        else:
            shutil.copy(source, DATA)


def environment(**more: str) -> dict[str, str]:
    """That of the program on the other kind of machine."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    home = BUILD / "home"
    home.mkdir(exist_ok=True)
    path = os.pathsep.join(map(str, (SITE, ROOT / "tests")))
    return {**kept, "HOME": str(home), "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **more}


def emulated(*words: str | Path) -> list[str]:
    """A command line of the other machine's Python."""
    return [str(word) for word in (QEMU, "-L", SYSTEM, SYSTEM / "usr" / "bin" / "python3.11", *words)]


def answers() -> tuple[dict[str, Any], dict[str, Any]]:
    """What `on_both` says there and here."""
    script = ROOT / "tests" / "on_both.py"
    there = subprocess.run(emulated(script, DATA), env=environment(), check=True, capture_output=True, cwd=BUILD)
    here = subprocess.run([sys.executable, script, DATA], check=True, capture_output=True, cwd=BUILD, env={
        **os.environ, "PYTHONPATH": str(ROOT / "tests"), "HOME": str(BUILD / "home")})  # fmt: skip
    return json.loads(there.stdout), json.loads(here.stdout)


def differences(there: Any, here: Any, at: str = "") -> Iterator[str]:
    """Where two answers differ."""
    if isinstance(there, dict) and isinstance(here, dict):
        for key in {**there, **here}:
            yield from differences(there.get(key), here.get(key), f"{at}/{key}")
    elif isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        for number, (one, other) in enumerate(zip(there, here, strict=True)):
            yield from differences(one, other, f"{at}/{number}")
    elif there != here or type(there) is not type(here):
        yield f"{at}: {there!r} there, {here!r} here"


def values(found: Any) -> int:
    """How many values an answer has."""
    if isinstance(found, dict):
        return sum(map(values, found.values()))
    return sum(map(values, found)) if isinstance(found, list) else 1


class Screen:
    """tracetui on a terminal of 80x24."""

    def __init__(self, *words: str | Path) -> None:
        self._emulator = Emulator(80, 24)
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            command = emulated("-m", "tracetui.app", *words)
            os.execve(command[0], command, environment(TERM="xterm-256color", TRACETUI_NO_STATE="1"))
        ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))

    def until(self, text: str, seconds: float = 180) -> str:
        """What stands there once a text does."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            ready, _, _ = select.select([self._terminal], [], [], 0.2)
            if ready:
                try:
                    data = os.read(self._terminal, 1 << 16)
                except OSError:
                    break
                self._emulator.feed(data)
                os.write(self._terminal, b"\x1b[0n" * data.count(b"\x1b[5n"))
            shown = "\n".join(self._emulator.screen.display)
            if text in shown:
                return shown
        raise SystemExit(f"the screen never showed {text!r}:\n" + "\n".join(self._emulator.screen.display))

    def press(self, keys: str) -> None:
        """Types."""
        os.write(self._terminal, keys.encode())

    def closed(self, seconds: float = 60) -> int:
        """The exit code, once it has ended."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            ready, _, _ = select.select([self._terminal], [], [], 0.2)
            if ready:
                try:
                    data = os.read(self._terminal, 1 << 16)
                    os.write(self._terminal, b"\x1b[0n" * data.count(b"\x1b[5n"))
                except OSError:
                    pass
            ended, status = os.waitpid(self._pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
        raise SystemExit("the screen did not close")


def main() -> int:
    """Tries everything; 1 if something differs."""
    begun = time.monotonic()
    fetch_system()
    glibc = fetch_wheels()
    recordings()
    print(f"wheels ask for glibc 2.{max(glibc)} or later")
    there, here = answers()
    if there["machine"] != "aarch64":
        raise SystemExit(f"that was a {there['machine']}")
    found = list(differences(there["found"], here["found"]))
    recorded = len(here["found"]["reports"])
    print(
        f"{values(here['found']):,} values of {recorded} recordings, three boards and four commands:"
        f" {len(found)} differ from those of {here['machine']}"
    )
    print(*found[:40], sep="\n")
    screen = Screen("open", DATA / "vim_tiny")
    screen.until("Overview")
    screen.until("The step")
    screen.press("2")
    screen.until("_kernel")
    screen.press("3")
    screen.until("aten::")
    screen.press("q")
    code = screen.closed()
    print(f"the screen: opened, two tabs, closed with {code}; {time.monotonic() - begun:.0f} s in all")
    return 1 if found or code else 0


if __name__ == "__main__":
    sys.exit(main())
