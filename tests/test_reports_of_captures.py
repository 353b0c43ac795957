"""What docs/report.md shows of Nsight Systems over contexts and of token reduction is what the commands print."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs
from reported import swept
from reports_page import ROOT, holds, shown

from tracetui.analysis.report import sweep
from tracetui.analysis.report.sweep import SweepReport
from tracetui.analysis.sweeps import reading

SECTIONS = ("003", "004")
BLOCKS = [
    pytest.param(*block, id=f"{section} {n}") for section in SECTIONS for n, block in enumerate(shown(section), 1)
]


def _named_by(path: Path, *_: object) -> SweepReport:
    """The report of the sweep in this folder of the repository, which it says as the page does."""
    found = swept(ROOT / path)
    return structs.replace(found, sweep=replace(found.sweep, path=path))


@pytest.fixture(scope="module", autouse=True)
def read_once() -> Iterator[None]:
    """Several commands are about one sweep, which is read once for them and for other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "read_sweep", lambda path, *_: path)
        patch.setattr(sweep, "sweep_report", _named_by)
        yield


@pytest.mark.parametrize(("command", "lines"), BLOCKS)
def test_a_command_prints_what_the_page_shows(command, lines, capsys, monkeypatch) -> None:
    assert len(lines) > 2
    holds(command, lines, capsys, monkeypatch)


def test_there_are_blocks() -> None:
    assert all(len(list(shown(section))) >= 4 for section in SECTIONS)
