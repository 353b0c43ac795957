"""docs/report.md: the commands that it shows, run, and what it shows of their output."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracetui.app.cli.main import main

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "report.md"
LEFT_OUT = "…"
"""A line of a block that stands for lines of the output."""
_BLOCK = re.compile(r"^```console\n\$ (tracetui .*)\n((?:.*\n)*?)```$", re.MULTILINE)


def shown(section: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a section (``## 003: …``) with the lines shown of its output."""
    page = PAGE.read_text(encoding="utf-8")
    text = next(part for part in re.split(r"^(?=## )", page, flags=re.MULTILINE) if part.startswith(f"## {section}"))
    for command, lines in _BLOCK.findall(text):
        yield command, lines.splitlines()


def holds(command: str, lines: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails unless the command, run from the project's folder, prints these lines in this order.

    Lines are next to each other but where `LEFT_OUT` stands between them.
    """
    monkeypatch.chdir(ROOT)
    assert main(shlex.split(command)[1:]) == 0
    output = capsys.readouterr().out.splitlines()
    at, free = 0, False
    for line in lines:
        if line == LEFT_OUT:
            free = True
            continue
        found = next((n for n in range(at, len(output)) if output[n] == line), None) if free else at
        assert found is not None, f"{command}: not printed: {line}"
        assert found < len(output), f"{command}: nothing follows {output[-1]!r}"
        assert output[found] == line, f"{command}: {line!r} is {output[found]!r}"
        at, free = found + 1, False
    assert free or at == len(output), f"{command}: goes on with {output[at]!r}"
