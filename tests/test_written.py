"""What is written: whole or not at all, and never over a file that somebody still needs."""

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from programs import PATIENCE_SECONDS, eventually, started
from sample_runs import recorded

from tracetui.app.cli import headless
from tracetui.app.cli import main as cli
from tracetui.app.text.exit_codes import DONE, UNREADABLE
from tracetui.parsers.errors import TraceError
from tracetui.parsers.written import write_text, written

TRACE = "chrome/cudagraph_replay.trace.json.gz"


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_has_the_rights_that_any_new_file_has(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    write_text(tmp_path / "new", "one\r\n")
    assert (tmp_path / "new").read_bytes() == b"one\r\n"
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert left(tmp_path) == ["new", "plain"]


def test_what_is_there_stays_without_force_and_keeps_its_rights_with_it(tmp_path: Path) -> None:
    file = tmp_path / "kept"
    file.write_text("old")
    file.chmod(0o640)
    with pytest.raises(TraceError, match="is there already; ask nicely"):
        write_text(file, "new", advice="ask nicely")
    assert file.read_text() == "old"
    write_text(file, "new", force=True)
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("new", 0o640)


def test_a_file_that_appears_meanwhile_stays(tmp_path: Path) -> None:
    file = tmp_path / "both"

    def both() -> None:
        with written(file) as part:
            part.write_text("ours")
            file.write_text("theirs")

    with pytest.raises(TraceError, match="is there already"):
        both()
    assert file.read_text() == "theirs"
    assert left(tmp_path) == ["both"]


@pytest.mark.parametrize("through", ["itself", "link", "hard link", "other way"])
def test_a_source_is_never_replaced(tmp_path: Path, through: str) -> None:
    source = tmp_path / "source"
    source.write_text("recorded")
    target = tmp_path / "target"
    if through == "link":
        target.symlink_to(source)
    elif through == "hard link":
        target.hardlink_to(source)
    elif through == "other way":
        target = tmp_path / "." / ".." / tmp_path.name / "source"
    else:
        target = source
    with pytest.raises(TraceError, match="never replaced"):
        write_text(target, "report", force=True, sources=[tmp_path / "other", source])
    assert source.read_text() == "recorded"


def test_a_full_disk_leaves_the_old_file_and_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "report.md"
    file.write_text("old")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(TraceError, match=r"report\.md: could not be written: no space left"):
        write_text(file, "new", force=True)
    assert file.read_bytes() == b"old"
    assert left(tmp_path) == ["report.md"]


def test_an_interrupted_writer_leaves_nothing(tmp_path: Path) -> None:
    def interrupted() -> None:
        with written(tmp_path / "new") as part:
            part.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert left(tmp_path) == []


def test_what_a_killed_writer_left_goes_with_the_next_one(tmp_path: Path) -> None:
    """Not what another one writes just now, nor a folder that only has such a name."""
    held = "import sys,time; from pathlib import Path; from tracetui.parsers.written import scratch\n"
    held += f"with scratch(Path({str(tmp_path)!r})) as own: print(own, flush=True); time.sleep(600)"
    with ExitStack() as stack:
        words = [sys.executable, "-c", held]
        writers = [stack.enter_context(started(words, stdout=subprocess.PIPE, text=True)) for _ in range(2)]
        killed, at_work = (Path(writer.stdout.readline().strip()) for writer in writers)
        writers[0].kill()
        writers[0].wait()
        (killed / "half.json").write_text("{")
        (tmp_path / "elsewhere").mkdir()
        (link := tmp_path / ".tracetui-writing-abcd1234").symlink_to("elsewhere")
        write_text(tmp_path / "a.json", "{}")
        assert killed.exists(), "it may be about to take its lock"
        for folder in (killed, at_work):
            os.utime(folder, (0, 0))
        write_text(tmp_path / "b.json", "{}")
        assert not killed.exists()
        assert at_work.exists()
        assert link.is_symlink()


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "far" / "file")
    write_text(link, "one")
    with pytest.raises(TraceError, match="is there already"):
        write_text(link, "two")
    write_text(link, "three", force=True)
    assert link.is_symlink()
    assert (tmp_path / "far" / "file").read_text() == "three"
    assert left(tmp_path / "far") == ["file"]


def test_a_pipe_and_a_device_get_the_bytes(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "through")
    reader.join(30)
    assert got == ["through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    write_text(Path(os.devnull), "gone")
    assert not Path(os.devnull).is_file()


def test_standard_output_redirected_to_a_file_is_written_through(tmp_path: Path) -> None:
    program = (
        "from pathlib import Path; from tracetui.parsers import written as w; w.write_text(Path('/dev/stdout'), 'a')"
    )
    with (tmp_path / "out").open("w") as out:
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True, timeout=120)
    assert (tmp_path / "out").read_text() == "a"


@pytest.mark.parametrize("target", ["", "missing/report.md", "a\0b"])
def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path, target: str) -> None:
    with pytest.raises((TraceError, ValueError)) as raised:
        write_text(tmp_path / target, "text")
    assert str(tmp_path) in str(raised.value) or "null" in str(raised.value)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing_half_written(tmp_path: Path, number: int) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")  # nobody reads it, so that writing waits
    words = ["report", str(recorded(TRACE)), "--section", "overview", "--no-cache", "--output", str(pipe)]
    program = "from tracetui.app.cli.main import script; script()"
    with started([sys.executable, "-c", program, *words], env={**os.environ, "TMPDIR": str(tmp_path)}) as process:
        eventually(lambda: list(tmp_path.glob(".tracetui-*/*")))
        process.send_signal(number)
        assert process.wait(PATIENCE_SECONDS) == 128 + number
    assert left(tmp_path) == ["pipe"]


FULL = {
    "query": (["query", str(recorded(TRACE)), "select count(*) from host"], "no frame could be written to"),
    "scrub": (["scrub", str(recorded("nsys/graph_node.sqlite.gz")), "-o", "copy.sqlite"], "file too large"),
    "cut": (["cut", str(recorded(TRACE)), "--from", "0ms", "-o", "copy.json"], "copy.json: could not be written"),
    "report": (["report", str(recorded(TRACE)), "--format", "html", "--output", "r.html"], "r.html: could not be writ"),
}


@pytest.mark.parametrize("command", FULL)
def test_a_disk_that_is_full_is_one_line_and_nothing_stays(tmp_path: Path, command: str) -> None:
    words, said = FULL[command]
    if command == "query":
        pytest.importorskip("duckdb", reason="needs tracetui[query]")
    program = "from tracetui.app.cli.main import script; script()"
    ended = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 10, 1 << 10)),
    )  # fmt: skip
    line = ended.stderr.strip().splitlines()[-1]
    assert said in line
    assert "bug" not in line
    assert ended.returncode > 0
    assert left(tmp_path) == []


def test_a_command_outlives_its_terminal_if_that_was_asked_for() -> None:
    program = (
        "import os, signal; from tracetui.app.cli import main;"
        "main._run = lambda *_: os.kill(os.getpid(), signal.SIGHUP) or 0; main.script()"
    )
    for ignored, code in (True, 0), (False, 129):
        ignores = (lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) if ignored else None
        ended = subprocess.run([sys.executable, "-c", program, "doctor"], check=False, timeout=120, preexec_fn=ignores)
        assert ended.returncode == code


# --- what the commands write


def test_a_report_replaces_a_file_only_when_told_and_a_recording_never(tmp_path, capsys) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    trace = folder / "a.trace.json.gz"
    trace.write_bytes(recorded(TRACE).read_bytes())
    (folder / "run.json").write_text("{}")
    content = trace.read_bytes()

    def report(*words: str) -> tuple[int, str]:
        code = cli.main(["report", *words, "--section", "overview", "--no-cache"])
        return code, capsys.readouterr().err

    for target in (trace, folder / "run.json"):
        for source in (str(trace), str(folder)):
            code, said = report(source, "--output", str(target), "--force")
            assert (code, said) == (
                UNREADABLE, f"tracetui: {target}: is a recording, which is never replaced; give another name\n"
            )  # fmt: skip
    assert trace.read_bytes() == content
    out = tmp_path / "report.txt"
    assert report(str(trace), "--output", str(out)) == (DONE, "")
    first = out.read_text()
    out.write_text("mine")
    code, said = report(str(trace), "--output", str(out))
    assert (code, said) == (
        UNREADABLE, f"tracetui: {out}: is there already; --force replaces it, --output writes to another file\n"
    )  # fmt: skip
    assert out.read_text() == "mine"
    assert report(str(trace), "--output", str(out), "--force") == (DONE, "")
    assert out.read_text() == first


def test_a_diff_and_a_cut_keep_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "a.trace.json.gz"
    trace.write_bytes(recorded(TRACE).read_bytes())
    out = tmp_path / "out.json"
    out.write_text("mine")
    assert cli.main(["diff", str(trace), str(trace), "--output", str(out), "--no-cache"]) == UNREADABLE
    cut = ["cut", str(trace), "--from", "0ms", "--to", "1ms", "--no-cache", "-o"]
    assert cli.main([*cut, str(out)]) == UNREADABLE
    assert cli.main([*cut, str(trace), "--force"]) == UNREADABLE
    assert out.read_text() == "mine"
    assert cli.main([*cut, str(out), "--force"]) == DONE
    assert '"traceEvents"' in out.read_text()
    capsys.readouterr()


@pytest.mark.parametrize("words", [["report"], ["report", "--nsys-report", "cuda_gpu_kern_sum"], ["diff"], ["check"]])
def test_an_output_that_is_there_is_refused_before_anything_is_read(tmp_path, monkeypatch, capsys, words) -> None:
    monkeypatch.setattr(headless, "open_run", lambda *_: pytest.fail("the recording was read"))
    trace, out = tmp_path / "a.json", tmp_path / "out.txt"
    trace.write_text("{}")
    out.write_text("mine")
    both = [str(trace)] * (2 if words == ["diff"] else 1)
    command = [words[0], *both, *words[1:], "--output", str(out)]
    assert cli.main(command) == UNREADABLE
    assert f"{out}: is there already; --force replaces it" in capsys.readouterr().err
    assert out.read_text() == "mine"
