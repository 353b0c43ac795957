"""The command line: exit codes, one-line errors, and what it must not import."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sample_runs import FP16, FP32, linked, recorded

from tracetui.app.cli import headless
from tracetui.app.cli import main as cli
from tracetui.app.cli.commands import open as open_command
from tracetui.app.cli.commands import report as report_command
from tracetui.app.cli.commands.completion import known_commands, script
from tracetui.app.cli.main import main
from tracetui.app.settings import recent
from tracetui.app.text.exit_codes import CONDITION_HOLDS, DONE, INTERRUPTED, NOT_JUDGED, UNREADABLE, USAGE

VIM = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"
VIM_FP16 = "chrome/vim_tiny_fp16_bs4.pt.trace.json.gz"
TWO_RANKS = "chrome/ddp_vit_small_2ranks"


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, as a person runs it, without a terminal."""
    command = [sys.executable, "-m", "tracetui.app", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize(
    "words", [["report", ""], ["open", ""], ["diff", "a", ""], ["cut", ""], ["scrub", ""], ["sweep", ""]]
)
def test_an_empty_path_is_not_this_folder(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A shell's variable that is not set becomes one."""
    assert cli.main(words) == USAGE
    assert "an empty path; . is this folder" in capsys.readouterr().err


def test_a_path_in_place_of_a_command_is_opened_and_a_near_word_is_suggested(tmp_path, capsys) -> None:
    target = tmp_path / "sample"
    target.symlink_to(recorded(VIM))
    assert cli.main([str(target), "--no-cache", "--tab", "kern"]) == DONE
    told = capsys.readouterr()
    assert told.out.startswith("tracetui report: sample\n")
    assert told.err == "tracetui: --tab does nothing without a terminal: this is the report\n"
    assert cli.main([str(target), "--tab", "nothing"]) == USAGE
    assert "no tab 'nothing'" in capsys.readouterr().err
    assert cli.main(["reprot", "x"]) == USAGE
    assert "'reprot' is no command, and no file; did you mean report?" in capsys.readouterr().err


def test_a_path_that_is_not_there_is_told_with_the_one_that_may_be_meant(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trace_one.json").touch()
    assert main(["trace_onee.json"]) == 1
    assert capsys.readouterr().err == (
        "tracetui: trace_onee.json: no such file or folder; did you mean trace_one.json?\n"
    )
    Path("loop.json").symlink_to("loop.json")
    assert main(["loop.json"]) == 1
    assert "loop.json: a link that leads nowhere; give the file" in capsys.readouterr().err
    assert cli.main(["nothing-here"]) == USAGE
    assert "invalid choice" in capsys.readouterr().err


def test_what_reference_holds_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["reference", "--help"]) == DONE
    assert re.findall(r"^    (\w+)", capsys.readouterr().out, re.MULTILINE) == ["rules", "models", "schema", "skill"]
    assert cli.main(["reference"]) == cli.main(["reference", "nothing"]) == USAGE
    assert "invalid choice: 'nothing'" in capsys.readouterr().err


def test_help_is_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ([], ["open"], ["report"], ["diff"], ["cache"]):
        assert cli.main([*command, "--help"]) == DONE
    assert capsys.readouterr().out.isascii()


@pytest.mark.parametrize(
    "arguments",
    [
        ["explore"],
        ["report"],
        ["open"],
        ["report", "--sample", "nothing_of_that_name"],
        ["report", "--sample", "--format", "yaml"],
        ["report", "--sample", "--steps", "3-2"],
        ["report", "--sample", "--steps", "one"],
        ["report", "--sample", "--limit", "-1"],
        ["report", "--sample", "--section", "kernel"],
        ["report", "--sample", "--format", "csv", "--section", "kernels", "api"],
        ["report", "--sample", "--steps", "7-9", "--section", "overview"],
        ["report", "--sample", "--skip-steps", "3", "--section", "overview"],
        ["report", "--sample", "--rank", "0", "--section", "overview"],
        ["report", "--sample", "--device", "4", "--section", "overview"],
        ["report", "--sample", "gpt_small", "--steps", "1", "--section", "overview"],
        ["diff", "a.json", "b.json", "--fail-on", "regression"],
        ["diff", "a.json", "b.json", "--fail-on", "slower:5%"],
        ["diff", "a.json"],
    ],
)
def test_wrong_usage_is_one_clear_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert err.strip()


def test_what_does_not_fit_the_trace_is_said_with_what_would(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["report", "--sample", "--steps", "7-9"])
    assert "steps 1-3" in capsys.readouterr().err
    cli.main(["report", "--sample", "--device", "4"])
    assert "GPU 0" in capsys.readouterr().err


def test_a_rank_that_is_asked_for_alone_is_one_of_its_job(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["report", str(recorded(TWO_RANKS)), "--section", "overview", "--format", "json", "--no-cache", "--rank"]
    said = []
    for rank in ("0", "1"):
        assert cli.main([*words, rank]) == DONE
        said.append(json.loads(capsys.readouterr().out)["run"]["traces"][0]["overview"]["waits_for"]["sentence"])
    assert said[0].startswith("Waits for rank 1, which is late in the program: of a step as recorded it waits 33.25 ms")
    assert not said[1].startswith("Waits for rank")


def test_ranks_that_are_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(recorded(TWO_RANKS)), "--rank", "7"]) == USAGE
    assert "ranks 0, 1" in capsys.readouterr().err


def test_a_gpu_chooses_the_rank_that_used_it(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["report", str(recorded(TWO_RANKS)), "--device", "1", "--section", "overview", "ranks"]
    assert cli.main([*arguments, "--format", "json"]) == DONE
    found = json.loads(capsys.readouterr().out)["run"]
    assert [trace["source"]["rank"] for trace in found["traces"]] == [1]
    assert found["traces"][0]["base"] == "steps 1-3, GPU 1"
    assert found["ranks"] == []


def test_an_unreadable_input_is_one_line_and_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    text = tmp_path / "notes.txt"
    text.write_text("no trace at all\n")
    for path in (tmp_path / "missing.json", empty, text):
        assert cli.main(["report", str(path)]) == UNREADABLE
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        assert path.name in err


def test_no_screen_is_opened_for_a_path_that_is_not_there(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(open_command, "has_terminal", lambda: True)
    assert cli.main(["open", str(tmp_path / "missing.json")]) == UNREADABLE
    assert capsys.readouterr().err.count("\n") == 1


def test_a_file_name_with_escapes_is_shown_harmless(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(tmp_path / "\x1b[31mred.json")]) == UNREADABLE
    assert "\x1b" not in capsys.readouterr().err


def test_an_output_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "no" / "such" / "folder.txt"
    assert cli.main(["report", "--sample", "--section", "overview", "--output", str(target)]) == UNREADABLE
    assert str(target) in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_one_line() -> None:
    command = f"{sys.executable} -m tracetui.app report --sample --section overview > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == UNREADABLE
    assert done.stderr == "tracetui: standard output: No space left on device\n"


def test_a_closed_output_is_one_line() -> None:
    command = f"{sys.executable} -m tracetui.app report --sample --section overview >&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == UNREADABLE
    assert done.stderr == "tracetui: standard output: Bad file descriptor\n"
    command = f"{sys.executable} -m tracetui.app report --sample --section overview --output /dev/null >&-"
    assert subprocess.run(["bash", "-c", command], check=False).returncode == DONE


def test_numbers_larger_than_any_trace(capsys: pytest.CaptureFixture[str]) -> None:
    huge = str(10**30)
    assert cli.main(["report", "--sample", "--section", "kernels", "--format", "json", "--limit", huge]) == DONE
    assert cli.main(["report", "--sample", "--skip-steps", huge]) == USAGE
    assert "has steps 1-3" in capsys.readouterr().err


def test_a_bug_is_one_line_and_a_traceback_only_with_debug(monkeypatch, capsys) -> None:
    def broken(_: object) -> int:
        raise RuntimeError("broken")

    monkeypatch.setattr(report_command, "run", broken)
    assert cli.main(["report", "--sample"]) == UNREADABLE
    assert "--debug" in capsys.readouterr().err
    with pytest.raises(RuntimeError, match="broken"):
        cli.main(["--debug", "report", "--sample"])
    with pytest.raises(RuntimeError, match="broken"):
        cli.main(["report", "--sample", "--debug"])


def test_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(report_command, "run", interrupted)
    assert cli.main(["report", "--sample"]) == INTERRUPTED


def test_output_goes_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "report.json"
    arguments = ["report", "--sample", "--format", "json", "--section", "overview", "--output", str(target)]
    assert cli.main(arguments) == DONE
    assert capsys.readouterr().out == ""
    assert json.loads(target.read_text())["run"]["traces"][0]["overview"]["steps"] == 3


def test_a_path_after_the_sections_is_a_path(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", "--section", "overview", str(recorded(VIM))]) == DONE
    assert "The step: 102.9 ms as recorded" in capsys.readouterr().out


def test_open_without_a_terminal_prints_the_report_or_the_diff(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["open", "--sample", "--section-is-unknown"]) == USAGE
    capsys.readouterr()
    assert cli.main(["open", "--sample"]) == DONE
    out, err = capsys.readouterr()
    assert out.startswith("tracetui report: vim_tiny")
    assert err == ""
    assert cli.main(["open", str(recorded(VIM)), str(recorded(VIM_FP16))]) == DONE
    assert capsys.readouterr().out.startswith("tracetui diff")


@pytest.mark.parametrize(
    ("term", "streams", "screen"),
    [
        ("xterm-256color", (True, True, True), True),
        ("dumb", (True, True, True), False),
        ("xterm-256color", (True, False, True), False),
        ("xterm-256color", (False, True, True), False),
        ("xterm-256color", (True, True, False), True),
    ],
)
def test_the_screen_needs_a_terminal_for_keys_and_output(monkeypatch, term, streams, screen) -> None:
    class Stream:
        def __init__(self, terminal: bool) -> None:
            self.terminal = terminal

        def isatty(self) -> bool:
            return self.terminal

    monkeypatch.setenv("TERM", term)
    for name, terminal in zip(("stdin", "stdout", "stderr"), streams, strict=True):
        monkeypatch.setattr(sys, name, Stream(terminal))
    has = open_command.has_terminal()
    monkeypatch.undo()
    assert has is screen


def test_a_closed_pipe_ends_quietly() -> None:
    command = f"{sys.executable} -m tracetui.app report {recorded(VIM)} --format json | head -c 100"
    done = subprocess.run(
        ["bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == DONE
    assert done.stderr == ""
    assert len(done.stdout) == 100


def test_an_ascii_terminal_gets_ascii() -> None:
    import os

    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = run("report", str(recorded(VIM)), "--section", "overview", env=environment)
    assert done.returncode == DONE, done.stderr
    assert done.stdout.isascii()


def test_fail_on_judges_the_step(capsys: pytest.CaptureFixture[str]) -> None:
    samples = recorded("chrome/kineto_samples")
    slow, fast = (str(samples / f"resnet50_num_workers_{many}.pt.trace.json.gz") for many in (0, 4))
    assert cli.main(["diff", slow, fast, "--fail-on", "regression:0%"]) == DONE
    # a wait for the loader is no work: two runs do not tell whether others wait as long
    assert cli.main(["diff", fast, slow, "--fail-on", "regression:5%"]) == NOT_JUDGED
    said = capsys.readouterr().err
    assert "not judged: median step 126.7 ms -> 177.4 ms, +40.1 % (limit 5 %); no added work explains it" in said
    assert cli.main(["diff", fast, slow, "--fail-on", "regression:900%"]) == DONE
    assert cli.main(["diff", fast, slow, "--fail-on", "regression:900%", "--fail-on", "regression:5%"]) == NOT_JUDGED


def test_fail_on_needs_more_than_noise(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = str(recorded(VIM)), str(recorded(VIM_FP16))
    assert cli.main(["diff", a, b, "--fail-on", "regression:5%"]) == NOT_JUDGED
    said = capsys.readouterr().err
    assert "not judged: median step 105.7 ms -> 119.0 ms, +12.6 % (limit 5 %); may be chance" in said
    # one step has no noise to compare with: the work alone decides, and that is said
    assert cli.main(["diff", a, b, "--fail-on", "regression:5%", "--steps", "3"]) == CONDITION_HOLDS
    assert "More operators (+1,053 per step): that explains it" in capsys.readouterr().err


def test_the_cache_can_be_seen_and_emptied(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("TRACETUI_CACHE_DIR", str(tmp_path))
    assert cli.main(["cache"]) == DONE
    assert f"{tmp_path}: 0 parsed traces" in capsys.readouterr().out
    cli.main(["report", "--sample", "--section", "overview"])
    first = capsys.readouterr().out
    cli.main(["cache", "info"])
    assert "5 parsed traces," in capsys.readouterr().out
    cli.main(["report", "--sample", "--section", "overview"])
    assert capsys.readouterr().out == first
    assert cli.main(["cache", "clear"]) == DONE
    assert "removed 5 parsed traces," in capsys.readouterr().out
    cli.main(["report", "--sample", "--section", "overview", "--no-cache"])
    cli.main(["cache"])
    assert "0 parsed traces" in capsys.readouterr().out


def test_progress_shows_on_a_terminal_only_what_takes_long(monkeypatch, capsys) -> None:
    with headless.status_line() as nobody:
        assert nobody is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with headless.status_line(3600) as show:
        assert show is not None
        show("reading")
    assert capsys.readouterr().err == ""
    with headless.status_line(0, 3600) as show:
        assert show is not None
        show("reading 1 of 2")
        show("reading 2 of 2")  # too soon after the first
        assert capsys.readouterr().err == "\rreading 1 of 2"
    assert capsys.readouterr().err == "\r              \r"
    monkeypatch.setattr(headless, "PATIENCE_S", 0)
    assert cli.main(["report", str(recorded(VIM)), "--section", "overview", "--no-cache"]) == DONE
    assert re.match(r"\r\w+ [\d.]+ [KM]?i?B of [\d.]+ [KM]iB.*\r *\r", capsys.readouterr().err, re.DOTALL)


def test_a_diff_of_several_ranks_says_which_it_compares(capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(recorded(TWO_RANKS))
    assert cli.main(["diff", folder, folder]) == DONE
    out, err = capsys.readouterr()
    assert "comparing rank 0; --rank N or --source KIND picks another" in err
    assert "rank 0" in out
    assert cli.main(["diff", folder, folder, "--rank", "1"]) == DONE
    out, err = capsys.readouterr()
    assert err == ""
    assert "rank 1" in out


@pytest.mark.parametrize("section", ["kernels", "memops", "operators", "modules", "host_functions", "api", "ranges"])
def test_an_empty_table_keeps_its_header(tmp_path: Path, capsys: pytest.CaptureFixture[str], section: str) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text('{"schemaVersion": 1, "traceEvents": []}')
    headers = []
    for path in (empty, recorded(VIM)):
        assert cli.main(["report", str(path), "--format", "csv", "--section", section]) == 0
        headers.append(capsys.readouterr().out.splitlines()[0])
    assert headers[0] == headers[1]


@pytest.mark.parametrize("format", ["text", "markdown"])
def test_reports_without_charts(capsys: pytest.CaptureFixture[str], format: str) -> None:
    def printed(*options: str) -> str:
        assert cli.main(["report", "--sample", "--format", format, *options]) == 0
        return capsys.readouterr().out

    whole, plain = printed(), printed("--no-charts")
    for words in ("how busy each lane is", "launches, by duration", "The same as boxes", "FLOP/byte →"):
        assert words in whole
        assert words not in plain
    assert "```" not in plain
    assert whole.count("```") % 2 == 0
    kept = iter(whole.splitlines())
    of_charts = ("Step ", "Steps as recorded: ")
    without_times = [line for line in plain.splitlines() if line and not line.lstrip().startswith(of_charts)]
    assert all(line in kept for line in without_times), "charts add lines only"


def test_a_working_directory_that_is_gone_is_said(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    inside = f"import os, sys; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r}); from tracetui.app.cli.main import main"
    done = subprocess.run(
        [sys.executable, "-c", f"{inside}; sys.exit(main(['report', 'x.json']))"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "tracetui: the working directory is gone; change to one that is there\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of two runs."""
    place = tmp_path / "runs"
    place.mkdir()
    linked(FP16, place / "half.pt.trace.json.gz")
    linked(FP32, place / "full.pt.trace.json.gz")
    return place


def opened(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The file that a report is about."""
    code = cli.main(["report", *arguments, "--section", "overview", "--format", "json"])
    out, err = capsys.readouterr()
    assert code == DONE, err
    return str(json.loads(out)["run"]["traces"][0]["source"]["path"]).rpartition("/")[2]


@pytest.mark.parametrize(
    ("wanted", "name"),
    [("B", "half"), ("ull", "full")],
)
def test_a_run_of_a_folder_by_letter_or_name(folder, wanted, name, capsys) -> None:
    assert opened([str(folder), "--run", wanted], capsys) == f"{name}.pt.trace.json.gz"


@pytest.mark.parametrize("wanted", ["c", "x", "nothing", "", "trace"])
@pytest.mark.parametrize("command", ["report", "open"])
def test_a_run_that_is_not_there_is_wrong_usage_and_lists_what_is(folder, wanted, command, capsys) -> None:
    assert cli.main([command, str(folder), "--run", wanted]) == USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "a full.pt.trace.json.gz, b half.pt.trace.json.gz" in err
    assert ("several such runs" if wanted == "trace" else "no such run") in err


def test_the_only_run_goes_by_its_letter_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "half.pt.trace.json.gz"
    assert opened([str(file), "--run", "a"], capsys) == file.name
    assert cli.main(["report", str(file), "--run", "b"]) == USAGE
    assert "there are a half.pt.trace.json.gz" in capsys.readouterr().err


def test_of_files_that_make_one_run_there_is_none_to_pick(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", *map(str, sorted(folder.iterdir())), "--run", "a"]) == USAGE
    assert "2 paths were given" in capsys.readouterr().err


def test_without_a_terminal_the_run_named_is_the_base(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(path) for path in sorted(folder.iterdir())]
    for wanted, base in (("b", "half"), ("full", "full")):
        assert cli.main(["open", *paths, "--run", wanted]) == DONE
        head = capsys.readouterr().out.split("\n")
        assert next(line for line in head if line.startswith("A ")).split()[1].startswith(base)


def test_more_than_two_runs_need_a_screen(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["open", *[str(folder)] * 3]) == USAGE
    assert "without a terminal" in capsys.readouterr().err


def test_tab_filter_and_run_go_together(folder, monkeypatch, capsys) -> None:
    asked = {}

    def run_tui(paths: object, **options: object) -> int:
        asked.update(options, paths=paths)
        return DONE

    monkeypatch.setattr(open_command, "has_terminal", lambda: True)
    monkeypatch.setattr("tracetui.app.screen.run.run_tui", run_tui)
    words = ["open", str(folder), str(folder), str(folder), "--tab", "kern", "--filter", "gemm", "--run", "b"]
    assert cli.main(words) == DONE, capsys.readouterr().err
    assert [asked[name] for name in ("tab", "filter", "run")] == ["kern", "gemm", "b"]
    assert asked["paths"] == (folder,) * 3


def alone(place: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`tracetui` without a command, without a terminal."""
    command = [sys.executable, "-m", "tracetui.app"]
    given = {**os.environ, "TRACETUI_NO_STATE": "", **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=place, env=given)


def test_alone_it_lists_what_there_is(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = str(tmp_path / "data")
    monkeypatch.setenv("TRACETUI_DATA_DIR", data)
    monkeypatch.setenv("TRACETUI_NO_STATE", "0")
    recent.remember(folder, ["chrome"], 5 << 20)
    recent.remember(tmp_path / "gone", ["nsys"], 1 << 20)
    done = alone(folder, TRACETUI_DATA_DIR=data)
    assert done.returncode == DONE
    assert done.stderr == ""
    assert "In this folder:" in done.stdout
    assert "full.pt.trace.json.gz" in done.stdout
    assert f"{folder}   (Chrome, 5.000 MiB, just now)" in done.stdout
    assert "missing" in done.stdout
    off = alone(folder, TRACETUI_DATA_DIR=data, TRACETUI_NO_STATE="1")
    assert "In this folder:" in off.stdout
    assert "missing" not in off.stdout


def test_alone_with_nothing_to_list_it_says_what_to_do(tmp_path: Path) -> None:
    done = alone(tmp_path, TRACETUI_DATA_DIR=str(tmp_path / "data"))
    assert done.returncode == DONE
    assert "tracetui open --sample" in done.stdout
    assert "tracetui profile" in done.stdout
    assert not (tmp_path / "data").exists()


def test_a_report_is_not_remembered(folder, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("TRACETUI_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("TRACETUI_NO_STATE")
    opened([str(folder)], capsys)
    assert recent.recents() == []


COMPLETE = """
{script}
COMP_WORDS=({words})
COMP_CWORD={at}
_tracetui
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def bash(line: str, cwd=None) -> list[str]:
    """What bash offers at the end of a line; a ``=`` is a word of its own there."""
    words = shlex.split(line)
    words = [part for word in words for part in (word.replace("=", " = ").split() if word.startswith("--") else [word])]
    words += [""] if line.endswith(" ") else []
    code = COMPLETE.format(script=script("bash"), words=" ".join(map(shlex.quote, words)), at=len(words) - 1)
    done = subprocess.run(
        ["bash", "--norc", "-c", code], capture_output=True, text=True, check=True, cwd=cwd, timeout=120
    )
    assert not done.stderr
    return [word for word in done.stdout.split("\n") if word]


def fish(line: str, cwd=None) -> list[str]:
    code = f"{script('fish')}\ncomplete -C {shlex.quote(line)}"
    done = subprocess.run(["fish", "--no-config", "-c", code], capture_output=True, text=True, check=True, cwd=cwd)
    return [word.split("\t")[0] for word in done.stdout.split("\n") if word]


@pytest.fixture
def spaced(tmp_path):
    (tmp_path / "run one.json").write_text("{}")
    (tmp_path / "runs").mkdir()
    return tmp_path


needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
needs_fish = pytest.mark.skipif(shutil.which("fish") is None, reason="no fish here")
SHELLS = [pytest.param(bash, marks=needs_bash), pytest.param(fish, marks=needs_fish)]


@pytest.mark.parametrize("offered", SHELLS)
@pytest.mark.parametrize(
    ("line", "wanted", "unwanted"),
    [
        ("tracetui ", {"open", "report", "profile", "config", "serve"}, {"vim_tiny"}),
        ("tracetui rep", {"report"}, {"open"}),
        ("tracetui open --the", {"--theme"}, {"--tab"}),
        ("tracetui open --theme ", {"light", "high-contrast"}, {"never"}),
        ("tracetui open --tab k", {"kernels"}, {"overview"}),
        ("tracetui report x.json --section over", {"overview"}, {"kernels"}),
        ("tracetui report --format ", {"json", "csv"}, {"light"}),
        ("tracetui reference models vim", {"vim_tiny", "vim_small"}, {"gpt_small"}),
        ("tracetui profile vim_t", {"vim_tiny"}, set()),
        ("tracetui profile vim_tiny --dtype ", {"fp16", "bf16"}, {"vim_tiny"}),
        ("tracetui reference rules S", {"S1", "S2"}, {"K1"}),
        ("tracetui config completion ", {"bash", "zsh", "fish"}, set()),
        ("tracetui config cache ", {"info", "clear"}, set()),
        ("tracetui ", {"reference", "config"}, {"rules", "models", "schema", "skill", "completion", "cache"}),
        ("tracetui reference ", {"rules", "models", "schema", "skill"}, {"cache", "S1"}),
        ("tracetui reference schema ", {"report", "diff"}, {"rules.md"}),
        ("tracetui config c", {"completion", "cache"}, {"clear"}),
        ("tracetui config cache cl", {"clear"}, {"info", "cache"}),
        ("tracetui profile --tool torch,n", {"torch,nsys", "torch,ncu"}, {"nsys"}),
    ],
)
def test_what_is_offered(offered, line, wanted, unwanted) -> None:
    found = set(offered(line))
    assert wanted <= found
    assert not unwanted & found


@pytest.mark.parametrize("offered", SHELLS)
@pytest.mark.parametrize("line", ["tracetui open r", "tracetui diff a.json r", "tracetui report --output r"])
def test_paths_where_a_path_is_meant(offered, line, spaced) -> None:
    found = [name.rstrip("/").replace("\\ ", " ") for name in offered(line, cwd=spaced)]
    assert {"run one.json", "runs"} <= set(found)


@needs_bash
def test_bash_knows_a_value_after_an_equals_sign() -> None:
    assert bash("tracetui open --theme=li") == ["light"]
    assert "dark" in bash("tracetui open --theme=")


@needs_bash
def test_bash_goes_on_with_several_sections_and_paths(spaced) -> None:
    found = bash("tracetui report --section overview k", cwd=spaced)
    assert "kernels" in found
    assert "run one.json" in bash("tracetui report --section overview r", cwd=spaced)


@pytest.mark.parametrize("offered", SHELLS)
def test_a_program_of_ones_own_is_completed_as_elsewhere(offered, spaced) -> None:
    assert "python3" in offered("tracetui profile -- pytho")
    found = [name.rstrip("/").replace("\\ ", " ") for name in offered("tracetui profile -- python3 r", cwd=spaced)]
    assert "runs" in found
    assert not set(offered("tracetui profile -- python3 --", cwd=spaced)) & {"--theme", "--dtype"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_whole(shell, tmp_path, capsys) -> None:
    assert main(["config", "completion", shell]) == 0
    printed = capsys.readouterr().out
    assert printed == script(shell)
    for command in known_commands():
        assert command.name in printed
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here to read it")
    file = tmp_path / "script"
    file.write_text(printed)
    check = "--no-execute" if shell == "fish" else "-n"
    assert subprocess.run([shell, check, str(file)], capture_output=True, check=False).stderr == b""


def test_every_option_that_a_person_sees_is_known() -> None:
    options = {flag for command in known_commands() for option in command.options for flag in option.flags}
    assert {"--sample", "--steps", "--no-mouse", "--low-bandwidth", "--no-low-bandwidth", "--keys"} <= options
    assert "--no-ascii" not in options


@pytest.mark.parametrize(
    ("command", "set_"),
    [
        ("report", cli.KEPT_PAGES | cli.NO_BLAS),
        ("ranks", cli.FREED_PAGES | cli.NO_BLAS),
        ("profile", {}),
        ("prove", {}),
    ],
)
def test_what_a_command_runs_inherits_no_setting_of_the_allocator_or_of_threads(command, set_, monkeypatch) -> None:
    monkeypatch.setattr(cli, "main", lambda: 0)
    monkeypatch.setattr(cli.gc, "set_threshold", lambda *often: None)
    monkeypatch.setattr(cli.os, "_exit", sys.exit)
    monkeypatch.setattr(cli.sys, "argv", ["tracetui", command])
    monkeypatch.setattr(cli.os, "environ", environment := {})
    monkeypatch.setattr(cli, "_few_threads", lambda: {})
    with pytest.raises(SystemExit):
        cli.script()
    assert environment == set_


@pytest.mark.parametrize(
    ("cores", "share", "threads"), [(16, "max 100000", "4"), (16, "", "4"), (16, "25000 100000", None), (4, "", None)]
)
def test_polars_starts_few_threads_where_there_are_many_cores(cores, share, threads, monkeypatch) -> None:
    monkeypatch.setattr(cli.os, "sched_getaffinity", lambda _: range(cores), raising=False)

    def read(path: Path) -> str:
        if not share:
            raise FileNotFoundError(path)
        return share

    monkeypatch.setattr(cli.Path, "read_text", read)
    assert cli._few_threads().get("POLARS_MAX_THREADS") == threads
