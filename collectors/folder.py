"""A run's folder: written under a temporary name and renamed when the run has ended, however it ended."""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from tracetui.collectors import profiler_commands
from tracetui.collectors.machine.probe import natural
from tracetui.collectors.request import ProfileError
from tracetui.parsers.runs.manifest import FILE as MANIFEST
from tracetui.parsers.runs.manifest import LOG
from tracetui.parsers.runs.samples import FILE as SAMPLES

PARTIAL = ".partial"
OWN_ONLY = 0o600
"""The mode of files that may hold what nobody else should read: a command line, what a program prints."""
KINDS = {
    profiler_commands.TRACE: "chrome",
    profiler_commands.LIGHT_TRACE: "chrome",
    profiler_commands.NSYS_EXPORT: "nsys",
    profiler_commands.NCU_RAW: "ncu",
    profiler_commands.NCU_DETAILS: "ncu",
    "memory.pickle": "memory_snapshot",
    SAMPLES: "samples",
    LOG: "log",
}
"""The kind of each file of a run, as run.json names it."""
CHILD = "tracetui_child"
"""The name of the child's package in the folder; the user's own packages don't have this name."""
_HERE = Path(__file__).resolve().parent
_PIECE = 1 << 20
_SAMPLES = "\x00samples"
"""A placeholder for the samples until they are written; no JSON text contains it by chance."""


class RunFolder:
    """The folder of one run while it is being made."""

    def __init__(self, final: Path) -> None:
        self.final = final.absolute()
        self.path = self.final.with_name(self.final.name + PARTIAL)
        self.log = self.path / LOG

    def create(self, *, made: bool = False) -> None:
        """Makes the folder and puts the child's program into it.

        Args:
            made: whether the folder is there already, and this run's (`jobs.leads`).

        Raises:
            ProfileError: its path exists already, or it can't be written.
        """
        if self.final.exists():
            raise ProfileError(f"{self.final}: exists already; give another --output, or remove it")
        try:
            if self.path.exists() and not made:  # what a run that was killed left
                shutil.rmtree(self.path)
            put_program(self.path)
        except OSError as error:
            shutil.rmtree(self.path, ignore_errors=True)
            # copying tells of each file, with the reason as the last of its words
            why = str(error.args[0][0][-1]) if isinstance(error, shutil.Error) else error.strerror or str(error)
            raise ProfileError(f"{error.filename or self.path}: {why.lower()}") from error

    def write_spec(self, tool: str, spec: dict[str, Any]) -> None:
        """Puts down what the child shall do for one tool."""
        path = self.path / profiler_commands.PROGRAM / profiler_commands.SPEC.format(tool)
        path.touch(mode=OWN_ONLY)  # it has the user's command line as it was typed
        path.write_text(json.dumps(spec, indent=1) + "\n")

    def write_manifest(self, manifest: dict[str, Any]) -> None:
        """Writes run.json, whole or not at all.

        Raises:
            ProfileError: the disk is full, or the folder is gone.
        """
        target = self.path / MANIFEST
        scratch = target.with_name(MANIFEST + PARTIAL)
        try:
            scratch.touch(mode=OWN_ONLY)
            scratch.write_text(manifest_text(manifest))
            scratch.replace(target)
        except OSError as error:
            why = "no space left on the disk" if error.errno == errno.ENOSPC else (error.strerror or str(error)).lower()
            raise ProfileError(f"{target}: {why}") from error

    def has(self, leaf: str) -> bool:
        """Whether a recording is there; the name of one of a job's is a pattern (`profiler_commands.RANK_TRACES`)."""
        return next(self.path.glob(leaf), None) is not None

    def result(self, tool: str) -> dict[str, Any]:
        """Reads what the child reported about one tool's phase; empty if it reported nothing."""
        try:
            found = json.loads((self.path / f"result.{tool}.json").read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def files(self) -> list[dict[str, Any]]:
        """The run's recordings and its log, as run.json lists them."""
        known = [(self.path / name, kind) for name, kind in KINDS.items()]
        more = {path for names in (profiler_commands.RANK_TRACES, profiler_commands.CAPTURE_TRACES)
                for path in self.path.glob(names)}  # fmt: skip
        every = [*((path, "chrome") for path in sorted(more, key=lambda path: natural(path.name))), *known]
        return [_described(path, kind) for path, kind in every if path.is_file()]

    def finish(self) -> Path:
        """Removes the child's program and its notes and gives the folder its final name."""
        for result in self.path.glob("result.*.json"):
            result.unlink()
        (self.path / profiler_commands.PROGRESS).unlink(missing_ok=True)
        shutil.rmtree(self.path / profiler_commands.PROGRAM / "__pycache__", ignore_errors=True)
        self.path.rename(self.final)
        return self.final


def put_program(folder: Path) -> None:
    """Copies the child's program and the models into a folder of a run.

    Raises:
        OSError: it can't be written.
    """
    program = folder / profiler_commands.PROGRAM
    program.mkdir(parents=True)
    for source, name in ((_HERE / "child", CHILD), (_HERE.parent / "models", profiler_commands.MODELS)):
        shutil.copytree(source, program / name, ignore=shutil.ignore_patterns("__pycache__", "*.typed"))
    (program / profiler_commands.START).write_text(
        f"import sys\n\nfrom {CHILD}.main import main\n\nsys.exit(main(sys.argv[1]))\n"
    )


def manifest_text(manifest: dict[str, Any]) -> str:
    """The JSON text, indented for people, except that each sample of a machine's state is one line without nulls."""
    samples: list[Any] = []

    def aside(part: dict[str, Any]) -> dict[str, Any]:
        """The part with a placeholder for its samples."""
        power = part.get("power")
        during = power.get("during") if isinstance(power, dict) else None
        if not isinstance(during, list) or not during:
            return part
        samples.append(during)
        return {**part, "power": {**(power or {}), "during": f"{_SAMPLES}{len(samples)}"}}

    whole = aside(manifest)
    if machines := manifest.get("machines"):
        whole = {**whole, "machines": [aside(machine) for machine in machines]}
    text = json.dumps(whole, indent=1)
    for number, during in enumerate(samples, 1):
        lines = ",\n   ".join(json.dumps(_known(sample), separators=(",", ":")) for sample in during)
        text = text.replace(json.dumps(f"{_SAMPLES}{number}"), f"[\n   {lines}\n  ]")
    return text + "\n"


def _known(value: object) -> Any:
    """Returns the value without the keys that hold nothing."""
    if isinstance(value, dict):
        return {key: _known(held) for key, held in value.items() if held is not None}
    return [_known(held) for held in value] if isinstance(value, list) else value


def _described(path: Path, kind: str) -> dict[str, Any]:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return {"name": path.name, "kind": kind, "bytes": path.stat().st_size, "sha256": digest.hexdigest()}
