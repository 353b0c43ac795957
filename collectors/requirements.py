"""Asks the Python that will be profiled whether the packages of a run are there, before anything is made."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

from tracetui.collectors.request import ProfileError, ProfileRequest
from tracetui.models import registry
from tracetui.models.needs import TORCH, Need

SECONDS = 60
MARK = "tracetui-requirements:"
IN_PYTHON = frozenset({"torch", "memory"})
"""The tools that work inside the profiled Python, by torch."""
_ASK = """
import importlib.util, json, platform, sys
from importlib import metadata
def there(module):
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
found = {}
for name, modules in json.loads(sys.argv[1]).items():
    try:
        found[name] = metadata.version(name) if all(map(there, modules)) else None
    except metadata.PackageNotFoundError:
        found[name] = "unknown"
print("tracetui-requirements:" + json.dumps([platform.python_version(), found]))
"""
"""Imports none of them; runs on Python 3.8 or later."""


def installed(python: str, needs: Sequence[Need]) -> tuple[str, dict[str, str | None]]:
    """The Python's version, and each package's by its name: None if it is not installed.

    Raises:
        OSError, subprocess.SubprocessError, ValueError, IndexError: it does not answer.
    """
    done = subprocess.run(
        [python, "-c", _ASK, json.dumps({need.name: need.modules for need in needs})],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    version, found = json.loads(lines[-1].removeprefix(MARK))
    return version, found


def check_packages(request: ProfileRequest) -> None:
    """Reports a missing package before there is anything to clean up.

    A Python that gives no answer is not judged: the run itself will say what is wrong with it.

    Raises:
        ProfileError: a package that the run can't do without is not installed; says how to install it.
    """
    in_python = [tool for tool in request.tools if tool in IN_PYTHON]
    if request.entry is not None or in_python:
        check_modules(request.python, request.entry, request.entry or f"--tool {in_python[0]}")


def check_modules(python: str, entry: str | None, who: str) -> None:
    """Reports that torch, or what a model needs, is missing in a Python.

    Args:
        python: the Python that is asked.
        entry: the model; None for a program of the user's own.
        who: needs the packages, in words.

    Raises:
        ProfileError: says how to install it.
    """
    needs = [TORCH] if entry is None else [TORCH, *(need for need in registry.find(entry).needs if not need.optional)]
    try:
        versions = installed(python, needs)[1]
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return
    lacking = next((need for need in needs if versions[need.name] is None), None)
    if lacking is not None:
        where = "" if python == sys.executable else f" in {python}"
        raise ProfileError(f"{who} needs {lacking.name}, which is not installed{where}: {lacking.install}")
