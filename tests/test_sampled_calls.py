"""The lines of calls that a recording knows by their functions, by samples of a planted program; and their files."""

import json
import re
import shutil
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from sample_runs import OUTSIDE, changeable
from tui_pilot import opened, press, screen_text

from tracetui.analysis.dependencies.host_path import host_path
from tracetui.analysis.dependencies.model import model
from tracetui.analysis.host_lines import Sampled, host_lines, longest_line, sampled
from tracetui.analysis.sampled_calls import SampledCalls, located, path_by_line
from tracetui.analysis.selection import select
from tracetui.app.cli.main import main
from tracetui.app.session.source_file import SourceLine, editor_command, file_here, source_line
from tracetui.app.text.exit_codes import UsageError
from tracetui.parsers import open_path
from tracetui.parsers.runs import samples
from tracetui.parsers.runs.samples import Frame, Samples, Stack, Stay, Thread

MS = 1_000_000
PERIOD = 2 * MS
SITE = "/opt/lib/python3.13/site-packages"
_FRAME = re.compile(r"(?P<function>.*) \((?P<file>.*):(?P<line>\d+)\)")


def of_stacks(stacks: dict[tuple[Frame, ...], int], **known: Any) -> Samples:
    """Samples of one step; how many of each stack."""
    frames = {frame: at for at, frame in enumerate(dict.fromkeys(frame for stack in stacks for frame in stack))}
    whole = sum(stacks.values()) * PERIOD
    return Samples(
        schema=samples.SCHEMA, rate_hz=500.0, step_ns=(whole,), host_ns=(whole,), threads=(Thread("MainThread", True),),
        frames=tuple(frames), stacks=tuple(Stack(tuple(frames[frame] for frame in stack)) for stack in stacks),
        stays=tuple(Stay(0, 0, at, number * PERIOD) for at, number in enumerate(stacks.values())), **known,
    )  # fmt: skip


def own(line: int, function: str = "build.<locals>.step", file: str = "/home/ann/train.py") -> Frame:
    return Frame(file, line, function)


def library(function: str) -> Frame:
    return Frame(f"{SITE}/torch/_tensor.py", 900, function)


def test_a_call_is_found_by_what_it_calls() -> None:
    calls = SampledCalls(
        Sampled(
            of_stacks(
                {
                    (own(4),): 5,
                    (own(7), library("Tensor.norm"), library("norm")): 3,
                    (own(9), library("Module._wrapped_call_impl"), library("Module._call_impl")): 2,
                    (own(3, file="/home/bob/train.py"), library("norm")): 8,
                }
            ),
            None,
        )
    )
    assert calls.lines(("ann/train.py", "step", ("norm", "norm"))) == {own(7): 3 * PERIOD}
    assert calls.lines(("ann/train.py", "step", ("_call_impl",))) == {own(9): 2 * PERIOD}, "the module stands for it"
    assert calls.lines(("ann/train.py", "step", ("norm", "seen", "by", "none"))) == {own(7): 3 * PERIOD}
    assert calls.lines(("/home/ann/train.py", "step", ())) == {own(4): 5 * PERIOD}
    assert len(calls.lines(("train.py", "step", ("other",)))) == 4, "whatever the function does"
    assert not calls.lines(("train.py", "other", ()))
    assert not calls.lines(("carl/train.py", "step", ()))


@pytest.fixture(scope="module")
def clip_loop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with a loop over its parameters, recorded, with samples that were taken of it at another time."""
    planted = OUTSIDE / "planted"
    if not planted.exists():
        pytest.skip("the recordings of planted faults are not here")
    folder = changeable(planted / "clip_loop", tmp_path_factory.mktemp("clip") / "clip_loop")
    stacks: Counter[tuple[Frame, ...]] = Counter()
    for line in (planted / "samples" / "clip_loop.txt").read_text().splitlines():
        text, _, number = line.rpartition(" ")
        found = [match for part in text.split(";") if (match := _FRAME.fullmatch(part))]
        frames = [Frame(_whole(match["file"]), int(match["line"]), match["function"]) for match in found]
        if any(frame.function == "build.<locals>.step" for frame in frames):
            stacks[tuple(frames)] += int(number)
    run_id = json.loads((folder / "run.json").read_text())["identity"]["run_id"]
    (folder / samples.FILE).write_bytes(msgspec.json.encode(of_stacks(stacks, run_id=run_id)))
    return folder


def _whole(file: str) -> str:
    if file.startswith("torch/"):
        return f"{SITE}/{file}"
    return f"/home/ann/{file}" if file == "clip_loop.py" else f"/usr/lib/python3.13/{file}"


def test_the_host_s_part_of_the_path_is_that_of_lines(clip_loop: Path) -> None:
    sel = select(open_path(clip_loop).main)
    replay = model(sel, sel.clean_step_ns)
    assert replay is not None
    by_line = {line.line: percent for line, percent in path_by_line(sel, replay).items()}
    path = host_path(sel, replay)
    known = sum(percent for percent in by_line.values() if percent is not None)
    assert 60 < known < 100 * path.ns.sum() / path.total_ns + 1e-6
    assert by_line[10] == pytest.approx(42, abs=3), "the thread that runs backwards is waited for there"
    assert by_line[14] is by_line[16] is None, "both call, and wait, in the same function"
    table = host_lines(sampled(sel.trace)[0], path_by_line(sel, replay))
    assert dict(table.select("short_name", "path_percent").rows())["clip_loop.py:10"] == by_line[10]


def test_a_place_has_its_line(clip_loop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = open_path(clip_loop).main
    host = trace.host
    named = host["name"].cast(str).to_numpy()
    for call, line in (("aten::linalg_vector_norm", 14), ("aten::item", None)):
        rows = np.flatnonzero(named == call)
        assert set(located(trace, rows)["line"]) == {line}, call
    longest = longest_line(trace)
    assert longest is not None
    assert longest.short == "clip_loop.py:9, step"
    assert main(["report", str(clip_loop), "--section", "findings"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "clip_loop.py(7): step, line 14, 239 × aten::linalg_vector_norm" in said
    assert "clip_loop.py:9, step, of the sampled steps" in said
    assert main(["report", str(clip_loop), "--section", "overview"]) == 0
    assert "Longest in clip_loop.py:9, step: 42.1 % of the" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("/home/ann/my runs/train.py:14", ("/home/ann/my runs/train.py", 14, "")),
        ("train.py:9, Net.forward", ("train.py", 9, "Net.forward")),
        ("train.py(7): step", ("train.py", 7, "step")),
        ("train.py(7): step, line 14, 240 × aten::norm", ("train.py", 14, "step")),
        ("backward of a/train.py(7): step, in Net/Linear", ("a/train.py", 7, "step")),
        ("a.py(7): step, from b.py(12): run, from c.py(1): <module>", ("a.py", 7, "step")),
        ("aten::mm", None),
        ("", None),
    ],
)
def test_lines_are_read_as_they_are_shown(text: str, line: tuple[str, int, str] | None) -> None:
    assert source_line(text) == (None if line is None else SourceLine(*line))


def test_only_the_recorded_file_is_opened(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("import os\ndef step():\n    pass\n")
    folders = (None, tmp_path / "other", tmp_path)
    assert file_here(SourceLine("train.py", 2, "step"), folders) == file
    assert file_here(SourceLine(str(file), 3, "Net.step"), ()) == file
    assert file_here(SourceLine(str(file), 3, "<module>"), ()) == file
    for other in (SourceLine("train.py", 9, "step"), SourceLine("train.py", 2, "forward")):
        with pytest.raises(UsageError, match="another file than the one recorded"):
            file_here(other, folders)
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "pipe.py").symlink_to("/dev/zero")
    for absent in ("none.py", "folder.py", "pipe.py", "nul\0.py"):
        with pytest.raises(UsageError, match="not on this machine"):
            file_here(SourceLine(absent, 1, ""), folders)


def test_no_shell_reads_a_name() -> None:
    path = Path("/tmp/$(touch x); a.py")
    assert editor_command(path, 7, {"EDITOR": "vim -R"}) == ["vim", "-R", "+7", str(path)]
    assert editor_command(path, 7, {"EDITOR": "code -w"}) == ["code", "-w", "--goto", f"{path}:7"]
    for unset in ({}, {"EDITOR": " "}):
        with pytest.raises(UsageError, match="EDITOR is not set"):
            editor_command(path, 7, unset)


async def test_a_key_opens_the_line(clip_loop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr("subprocess.run", lambda command, **_: ran.append(command))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EDITOR", raising=False)
    async with opened(clip_loop, tab="findings") as (app, pilot):
        await press(pilot, "j", "j", "ctrl+e")
        assert "clip_loop.py is not on this machine" in screen_text(app)
        shutil.copy(OUTSIDE / "planted" / "programs" / "clip_loop.py", tmp_path / "clip_loop.py")
        await press(pilot, "ctrl+e")
        assert "$EDITOR is not set" in screen_text(app)
        monkeypatch.setenv("EDITOR", "nano")
        await press(pilot, "ctrl+e")
        assert "can't be handed to an editor" in screen_text(app)
        monkeypatch.setattr(app, "suspend", nullcontext)
        await press(pilot, "ctrl+e")
    assert ran == [["nano", "+14", str(tmp_path / "clip_loop.py")]]
