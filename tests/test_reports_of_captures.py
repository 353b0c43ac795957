"""What docs/report.md shows of Nsight Systems over contexts and of token reduction is what the commands print."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from reported import swept
from reports_page import ROOT, holds, shown

from tracetui.analysis.report.sets import sweep
from tracetui.analysis.sweeps import reading

if TYPE_CHECKING:
    from collections.abc import Iterator

SECTIONS = ("003", "004")
BLOCKS = [
    pytest.param(*block, id=f"{section} {n}") for section in SECTIONS for n, block in enumerate(shown(section), 1)
]


@pytest.fixture(scope="module", autouse=True)
def read_once() -> Iterator[None]:
    """Several commands are about one sweep, which is read once for them and for other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "read_sweep", lambda path, *_: path)
        patch.setattr(sweep, "sweep_report", lambda path, *_: {**swept(ROOT / path), "path": str(path)})
        yield


@pytest.mark.parametrize(("command", "lines"), BLOCKS)
def test_a_command_prints_what_the_page_shows(
    command: str, lines: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(lines) > 2
    holds(command, lines, capsys, monkeypatch)


def test_there_are_blocks() -> None:
    assert all(len(list(shown(section))) >= 4 for section in SECTIONS)
