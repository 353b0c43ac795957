"""The text of a report that is kept: it is printed again only while nothing has changed that it follows from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sample_runs import recorded

from tracetui.app.cli import main as cli
from tracetui.app.cli.commands import report
from tracetui.app.session import kept_report
from tracetui.app.session.kept_report import Kept
from tracetui.app.text.exit_codes import DONE
from tracetui.parsers.runs import entries

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS = ("--section", "kernels", "--limit", "3")


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recording in a folder of its own, with nothing kept of it."""
    monkeypatch.setenv("TRACETUI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TRACETUI_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("TRACETUI_PEAKS", str(tmp_path / "peaks.json"))
    monkeypatch.setattr(kept_report, "MOST_FILES", 2_000)
    monkeypatch.setattr(kept_report, "SETTLED_S", -10)
    path = tmp_path / "project" / "run" / "t.pt.trace.json.gz"
    (path.parent / "logs").mkdir(parents=True)
    (path.parent / "logs" / "a.log").write_text("a")
    shutil.copy(recorded("vim_tiny_fp16_bs4.pt.trace.json.gz"), path)
    return path


def printed(path: Path, *words: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main(["report", str(path), *(words or WORDS)]) == DONE
    return capsys.readouterr().out


def test_the_same_question_is_answered_without_computing(recording, monkeypatch, capsys, tmp_path):
    first = printed(recording, capsys=capsys)
    assert entries.info().reports == 1
    monkeypatch.setattr(report, "computed", lambda *_: (False, "computed"))
    assert printed(recording, capsys=capsys) == first
    assert printed(recording, *WORDS, "--no-cache", capsys=capsys) == "computed"
    cli.main(["cache"])
    assert "1 parsed trace and 1 printed report," in capsys.readouterr().out
    assert entries.clear().reports == 1
    assert not list((tmp_path / "cache").iterdir())


def _rewritten(path: Path) -> None:
    """Another content of the same size, with its old time of change."""
    before, content = path.stat(), path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _new(name: str) -> Callable[[Path, pytest.MonkeyPatch], None]:
    def write(path: Path, _: pytest.MonkeyPatch) -> None:
        place = (path.parent / name).resolve()
        place.parent.mkdir(exist_ok=True)
        place.write_text("{}")

    return write


def _other_library(_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_report, "_LIBRARIES", ("polars", "numpy", "msgspec", "textual"))


def _other_code(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = path.parents[2] / "copy" / "app" / "session" / "kept_report.py"
    place.parent.mkdir(parents=True)
    for package in kept_report._PROGRAM:
        (place.parents[2] / package / "inner").mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(kept_report, "__file__", str(place))


CHANGES: dict[str, Callable[[Path, pytest.MonkeyPatch], object]] = {
    "the recording": lambda path, _: _rewritten(path),
    "a file beside it": _new("run.json"),
    "a file in a folder below": lambda path, _: (path.parent / "logs" / "a.log").write_text("b"),
    "a file that is gone": lambda path, _: (path.parent / "logs" / "a.log").unlink(),
    "the project's thresholds": _new("../.tracetui.toml"),
    "the user's thresholds": _new("../../config/config.toml"),
    "measured peaks": _new("../../peaks.json"),
    "a variable": lambda _, monkeypatch: monkeypatch.setenv("TRACETUI_MAX_MEMORY", "9000000000"),
    "the working directory": lambda path, monkeypatch: monkeypatch.chdir(path.parent),
    "a library": _other_library,
    "the program": _other_code,
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_report_follows_from_makes_another_key(recording, monkeypatch, change):
    kept = Kept([recording], WORDS)
    kept.keep("text")
    assert Kept([recording], WORDS).text() == "text"
    CHANGES[change](recording, monkeypatch)
    assert Kept([recording], WORDS).text() is None


def test_a_changed_module_of_the_program_makes_another_key(recording, monkeypatch):
    _other_code(recording, monkeypatch)
    module = recording.parents[2] / "copy" / "analysis" / "inner" / "rule.py"
    module.write_text("a = 1")
    Kept([recording], WORDS).keep("text")
    assert Kept([recording], WORDS).text() == "text"
    module.write_text("a = 2 ")
    assert Kept([recording], WORDS).text() is None


@pytest.mark.parametrize(
    "words", [("--limit", "4"), ("--format", "json"), ("--steps", "2"), ("--ascii",), ("--no-charts",), ("--all",)]
)
def test_every_option_makes_another_key(recording, monkeypatch, capsys, words):
    printed(recording, capsys=capsys)
    monkeypatch.setattr(report, "computed", lambda *_: (False, "computed"))
    assert printed(recording, *WORDS, *words, capsys=capsys) == "computed"


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda file: file.write_bytes(b""),
    "another text": lambda file: file.write_bytes(file.read_bytes().replace(b"text", b"best")),
    "rubbish": lambda file: file.write_bytes(b"\xff\xfe"),
    "a pipe": lambda file: (file.unlink(), os.mkfifo(file)),
    "without end": lambda file: (file.unlink(), file.symlink_to("/dev/zero")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_text_is_computed_again(recording, damage):
    Kept([recording], WORDS).keep("text")
    (file,) = entries.folder().glob(f"*/{entries.REPORT}")
    DAMAGE[damage](file)
    assert Kept([recording], WORDS).text() is None
    assert not file.exists()


def test_nothing_is_kept_that_may_not_hold(recording, monkeypatch, capsys):
    monkeypatch.setattr(kept_report, "SETTLED_S", 60)  # it was written just now
    printed(recording, capsys=capsys)
    monkeypatch.setattr(kept_report, "SETTLED_S", -10)
    monkeypatch.setattr(kept_report, "MOST_FILES", 1)
    printed(recording, capsys=capsys)
    monkeypatch.setattr(kept_report, "MOST_FILES", 2_000)
    monkeypatch.setattr(report, "computed", lambda *_: (True, "with a warning"))
    printed(recording, capsys=capsys)
    Kept([recording, recording], WORDS).keep("of several")
    (recording.parent / "elsewhere").symlink_to(recording.parents[1])
    Kept([recording], WORDS).keep("with a link")
    assert entries.info().reports == 0


def test_a_kept_report_imports_no_polars(recording):
    script = (
        "import sys; from tracetui.app.session import kept_report; kept_report.SETTLED_S = -10;"
        "from tracetui.app.cli.main import main; code = main(sys.argv[1:]);"
        "print('polars' in sys.modules, file=sys.stderr)"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", script, "report", str(recording), *WORDS], capture_output=True, text=True, check=True
        )
        for _ in range(2)
    ]
    assert said[0].stdout == said[1].stdout
    assert [one.stderr.split()[-1] for one in said] == ["True", "False"]
