"""What tracetui says about recordings and boards, as JSON: run on two kinds of machine, it must be the same.

``python tests/on_both.py FOLDER`` reads the recordings in FOLDER; `aarch64` runs it and compares.
"""

import contextlib
import io
import json
import platform
import sys
import tempfile
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from as_json import report
from machine_trees import AGX_ORIN_30W, H200, ORIN_NANO_25W, jetson, smi, x86
from msgspec import Struct, structs

from tracetui.app.cli.main import main as tracetui
from tracetui.collectors.checks import doctor
from tracetui.collectors.machine import recording as machine
from tracetui.parsers import open_path
from tracetui.parsers.nsys.scan import BulkReader

BOARDS = {"orin nano": ORIN_NANO_25W, "agx orin": AGX_ORIN_30W}
OWN = {"python", "python_executable", "architecture", "kernel", "os", "time_unix_ns", "monotonic_ns"}
"""What is of the machine that this runs on, in any answer."""

THIS_MACHINE = {"tracetui", "terminal", "disk"}
"""Checks of `doctor` that look at the machine itself, whatever root they are given."""


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        value = structs.asdict(value)
    elif is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return {key: _plain(held) for key, held in value.items() if key not in OWN}
    return [_plain(held) for held in value] if isinstance(value, (list, tuple)) else value


def _boards() -> dict[str, Any]:
    """What is recorded of each board, and what `doctor` says of it."""
    found = {}
    for name, board in BOARDS.items():
        with tempfile.TemporaryDirectory() as folder:
            root, tools = jetson(Path(folder), board)
            checks = doctor.examine("/no/python", root, root=root, runner=tools, environment={}, is_root=False)
            said = {
                "devices": machine.devices(root=root, runner=tools),
                "state": machine.power_state(root=root, runner=tools),
                "software": machine.software("/no/python", root=root, runner=tools),
                "doctor": [check for check in checks if check.name not in THIS_MACHINE],
            }
            found[name] = json.loads(json.dumps(_plain(said), default=str).replace(folder, "ROOT"))
    with tempfile.TemporaryDirectory() as folder:
        x86(Path(folder))
        found["server"] = _plain(machine.devices(root=Path(folder), runner=smi(dict(H200))))
    return found


def _printed(*words: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = tracetui(list(words))
    return f"{code}\n{out.getvalue()}"


def _bulk(path: Path) -> int:
    """How many rows of the kernel table Arrow's driver for SQLite reads."""
    from tracetui.parsers.nsys.reader import read_nsys

    rows = []
    read = BulkReader.read

    def counted(self: BulkReader, *arguments: Any) -> Any:
        found = read(self, *arguments)
        rows.append(found.height)
        return found

    BulkReader.read = counted  # type: ignore[method-assign]
    try:
        read_nsys(path)
    finally:
        BulkReader.read = read  # type: ignore[method-assign]
    return sum(rows)


def main(folder: Path) -> int:
    """Prints everything."""
    recordings = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    found = {
        "reports": {path.name: report(open_path(path, cache=False)) for path in recordings},
        "text": {path.name: _printed("report", str(path), "--no-cache", "--ascii") for path in recordings[:3]},
        "rows read in bulk": {path.name: _bulk(path) for path in recordings if path.suffix == ".sqlite"},
        "boards": _boards(),
        "dry run": _printed("profile", "vim_tiny", "--tool", "all", "--device", "cuda", "--dry-run", "--output", "run",
                            "--python", "python3", "--no-stack"),
        "models": _printed("models", "--format", "json", "--python", "/no/python"),
    }  # fmt: skip
    json.dump({"machine": platform.machine(), "found": found}, sys.stdout, default=str)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
