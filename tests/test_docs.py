"""The documentation: its code runs, its links lead somewhere, and it names every key and section of the report."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from as_json import report

from tracetui.analysis.report.report import SECTIONS
from tracetui.app.cli.command import COMMANDS, build_parser
from tracetui.app.cli.options import SAMPLES
from tracetui.parsers import open_path

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "samples" / "README.md",
]
SAMPLE = ROOT / "samples" / SAMPLES["vim_tiny"]


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target, place in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8")):
            if not target.startswith("https://"):
                file = page.parent / target if target else page
                assert file.exists(), f"{page.name}: {target}"
                assert not place or place in _places(file), f"{page.name}: {target}#{place}"


def _places(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_notebook_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    (tmp_path / "prof_output").mkdir()
    shutil.copy(SAMPLE / "trace.pt.trace.json.gz", tmp_path / "prof_output")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACETUI_CACHE_MB", "0")
    page = (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 16
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)
    assert len(names["run"].traces) == 1
    assert len(names["frames"]["device"]) == names["trace"].device.height


def _keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return {key for key, inner in value.items() for key in (key, *_keys(inner))}
    return {key for item in value for key in _keys(item)} if isinstance(value, list) else set()


def test_every_key_of_the_report_is_described() -> None:
    page = (ROOT / "docs" / "reference" / "report.md").read_text(encoding="utf-8")
    named = set(re.findall(r"[a-z_0-9]+", " ".join(re.findall(r"`([^`\n]+)`", page))))
    found = report(open_path(SAMPLE, cache=False))
    for trace in found["run"]["traces"]:
        trace["source"]["captured"] = {}  # its keys are the recorder's
        trace["counts"] = {}  # its keys are the sections
    assert _keys(found) - named == set()
    assert set(SECTIONS) - named == set()


def test_every_option_is_in_the_docs() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))
    parsers = {name: next(a for a in build_parser(name)._actions if a.dest == "command").choices for name in COMMANDS}
    options = {
        option
        for name, choices in parsers.items()
        for action in (choices or {})[name]._actions
        for option in action.option_strings
        if option.startswith("--") and option != "--help"
    }
    assert len(options) > 15
    assert {option for option in options if option not in pages} == set()
