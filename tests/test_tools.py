"""The records of the kinds of recordings: what they name is there, and readers and words know the same kinds."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tracetui.analysis.report.report import SECTIONS
from tracetui.app.tabs import TITLES
from tracetui.app.text.tool_words import KINDS, TABLES, WORDS
from tracetui.app.text.words import nothing
from tracetui.collectors import scrub
from tracetui.parsers import tool_registry as tools
from tracetui.parsers.errors import TraceError
from tracetui.parsers.runs.detect import inspect as inspect_file
from tracetui.parsers.runs.detect import looks_like_trace


def test_readers_and_words_know_the_same_kinds() -> None:
    assert KINDS == tools.KINDS


@pytest.mark.parametrize("tool", tools.TOOLS, ids=tools.KINDS)
def test_what_a_record_names_is_there(tool: tools.Tool) -> None:
    assert list(inspect.signature(tools.function(tool.reader)).parameters)[:2] == ["path", "watch"]
    assert tool.same_files_as in (*tools.KINDS, "")
    assert bool(tool.same_files_as) != bool(tool.example), "it has an example, or is told apart by reading only"
    if tool.sniff:
        assert tools.function(tool.sniff)(b"\xff" * 99) is False
    if tool.kernel_names:
        assert tools.function(tool.kernel_names)(Path(__file__)) == frozenset()
    assert not tool.reports or tool.exported in tool.suffixes
    re.compile(tool.magic)
    re.compile(tool.found_by)


@pytest.mark.parametrize("kind", KINDS)
def test_words_name_tabs_and_sections(kind: str) -> None:
    words = WORDS[kind]
    assert words.first_tab in TITLES
    assert set(words.own_sections) <= set(SECTIONS)
    assert set(words.absent) <= {"steps", "device", "modules", "ranges", "memory"}
    # what a tool copies, and counts, not all say
    assert set(words.advice) - {"counters"} | {"copies"} == set(TABLES)
    for what in words.advice.keys() & set(TABLES):
        assert words.advice[what] in nothing(what, kind)
    assert bool(words.no_overview) is (kind in tools.WITHOUT_TIME_LINE)


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.db", b"SQLite format 3\x00 ==PROF== StringIds", "nsys"),
        ("a.pkl", b"\x80\x04segments\n==PROF== \n", "memory_snapshot"),
        ("a.log", b"[1, 2]\n==PROF== Connected\n", "ncu"),
        ("a.json", b'\n[{"ph": "X"}]', "chrome"),
        ("a.json", b'\xef\xbb\xbf[{"ph": "X"}]', "chrome"),
        ("a.nsys-rep", b"anything", "nsys_report"),
        ("a.ncu-rep", b"SQLite format 3\x00", "nsys"),
    ],
)
def test_a_file_is_told_by_its_content(tmp_path: Path, name: str, content: bytes, kind: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert inspect_file(path).kind == kind
    assert looks_like_trace(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.db", b"SQLite format 3\x00 of something else"),
        ("a.pkl", b"\x80\x04of something else"),
        ("a.log", b"[1, 2]\n"),
        ("a.csv", b'{"traceEvents": []}'),
        ("a.json", b"{}"),
        ("a.txt", b"segments StringIds"),
    ],
)
def test_a_folder_passes_over_what_is_something_else(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert not looks_like_trace(path)


def test_only_what_may_well_be_a_trace_is_worth_a_complaint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(path: Path, most: int) -> bytes:
        raise TraceError(path, "permission denied")

    monkeypatch.setattr("tracetui.parsers.runs.detect.read_all", unreadable)
    for name, worth in (("a.json.gz", True), ("a.gz", True), ("a.csv.gz", False), ("a.pickle", False), ("a.db", False)):
        assert looks_like_trace(tmp_path / name) is worth, name


def test_what_has_no_scrubber_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'{"traceEvents": []}')
    assert scrub.kind_of_file(path) == "chrome"
    monkeypatch.delitem(scrub._COPIERS, "chrome")
    with pytest.raises(TraceError, match="by hand"):
        scrub.kind_of_file(path)
    path = path.rename(tmp_path / "a.nsys-rep")
    with pytest.raises(TraceError, match="nsys export"):
        scrub.kind_of_file(path)


def test_the_words_need_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "import tracetui.app.text.tool_words, tracetui.app.cli.main\n"
        "print([name for name in ('polars', 'numpy', 'textual', 'tracetui.parsers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.strip() == "[]", done.stderr
