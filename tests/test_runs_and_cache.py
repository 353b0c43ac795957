"""Folders, runs and ranks; and what the cache keeps."""

import io
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest
from nsys_file import NsysFile
from sample_runs import VIM_FP16, changeable, recorded

from tracetui.app.cli.main import main
from tracetui.parsers import TraceError, open_path
from tracetui.parsers.runs import cache, entries
from tracetui.parsers.trace import FRAMES

OF_EACH_KIND = (
    "chrome/ddp_vit_small_2ranks/rank0.pt.trace.json.gz",
    "chrome/cudagraph_replay.trace.json.gz",
    "jax/h200.trace.json.gz",
    "nsys/graph_node.sqlite.gz",
    "nsys/gpt_small_ctx256.sqlite.gz",
    "ncu/vim_full_raw.csv.gz",
    "ncu/vim_full_details.csv.gz",
    "memory/gpt_memory_snapshot.pickle.gz",
    "ops/ops.sqlite.gz",
)


def trace_file(path, rank=None, world=None, name="k", count=1):
    events = [
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": n, "dur": 1, "args": {"stream": 7}}
        for n in range(count)
    ]
    top = {} if rank is None else {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world}}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"schemaVersion": 1, **top, "traceEvents": events}))
    return path


def test_ranks_of_one_world_are_one_run():
    run = open_path(recorded("chrome/ddp_vit_small_2ranks"), cache=False)
    assert run.ranks == (0, 1)
    assert run.others == ()
    assert [trace.info.world_size for trace in run.traces] == [2, 2]


def test_a_repeated_rank_begins_another_run(tmp_path):
    for stamp in (1_700_000_000_000_000_001, 1_700_000_000_000_000_002):
        for rank in (0, 1):
            trace_file(tmp_path / f"w{rank}.{stamp}.pt.trace.json", rank, 2)
    run = open_path(tmp_path, cache=False)
    assert run.ranks == (0, 1)
    assert all("0002.pt" in trace.source.path.name for trace in run.traces)  # the newest
    assert [len(files) for _, files in run.others] == [2]


def test_several_runs_in_a_folder_are_listed(tmp_path):
    trace_file(tmp_path / "worker.1700000000000000000.pt.trace.json", name="old")
    trace_file(tmp_path / "worker.1800000000000000000.pt.trace.json", name="new")
    run = open_path(tmp_path, cache=False)
    assert run.traces[0].device["name"].cast(pl.String).to_list() == ["new"]
    assert [name for name, _ in run.others] == ["worker.1700000000000000000.pt.trace.json"]


def test_a_bad_file_among_good_ones_is_a_warning(tmp_path):
    trace_file(tmp_path / "a.trace.json")
    (tmp_path / "b.trace.json").write_text("no json at all")
    (tmp_path / "config.json").write_text('{"not": "a trace"}')
    run = open_path(tmp_path, cache=False)
    assert len(run.traces) == 1
    assert [warning for warning in run.warnings if "b.trace.json" in warning]
    assert not [warning for warning in run.warnings if "config.json" in warning]


def test_a_list_of_events_with_a_byte_order_mark_is_found_in_a_folder(tmp_path):
    event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 1, "args": {"stream": 7}}
    (tmp_path / "a.json").write_text(json.dumps([event]), encoding="utf-8-sig")
    run = open_path(tmp_path, cache=False)
    assert run.main.device.height == 1
    assert run.path.name == "a.json" or run.path == tmp_path


def test_traces_below_subfolders_are_found(tmp_path):
    trace_file(tmp_path / "plugins" / "profile" / "2026_01_01" / "host.trace.json")
    assert len(open_path(tmp_path, cache=False).traces) == 1


def test_an_empty_folder_says_so(tmp_path):
    with pytest.raises(TraceError, match="no trace in this folder"):
        open_path(tmp_path)


def test_a_missing_path_says_so(tmp_path):
    with pytest.raises(TraceError, match="no such file"):
        open_path(tmp_path / "nothing.json")


@pytest.fixture
def store(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("TRACETUI_CACHE_DIR", str(folder))
    monkeypatch.setattr(cache, "MIN_SOURCE_BYTES", 0)
    return folder


@pytest.fixture
def stages():
    seen = []
    return seen, lambda progress: seen.append(progress.stage)


@pytest.mark.parametrize("name", OF_EACH_KIND)
def test_the_second_look_comes_from_the_cache_and_is_the_same(store, stages, name):
    seen, watch = stages
    path = recorded(name)
    first = open_path(path).traces[0]
    second = open_path(path, progress=watch).traces[0]
    assert seen == ["cached"]
    for name in FRAMES:
        assert getattr(first, name).equals(getattr(second, name)), name
        assert getattr(first, name).schema == getattr(second, name).schema, name
    assert (first.info, first.source, first.notes) == (second.info, second.source, second.notes)


def test_a_changed_file_is_read_again(tmp_path, store, stages):
    seen, watch = stages
    path = trace_file(tmp_path / "t.json", name="one")
    open_path(path)
    trace_file(path, name="two")
    assert open_path(path, progress=watch).traces[0].device["name"].cast(pl.String).to_list() == ["two"]
    assert "cached" not in seen


def test_the_columns_of_a_long_entry_are_in_one_piece(tmp_path, store, stages):
    seen, watch = stages
    path = trace_file(tmp_path / "t.json", count=130_000)  # Polars' own batches have fewer rows
    first = open_path(path).main
    second = open_path(path, progress=watch).main
    assert seen == ["cached"]
    assert set(second.device.n_chunks("all")) == {1}
    assert first.device.equals(second.device)
    assert first.device.schema == second.device.schema


def test_columns_without_values_are_not_written(tmp_path, store, stages):
    seen, watch = stages
    path = trace_file(tmp_path / "t.json", count=3)
    first = open_path(path).main
    (file,) = store.rglob("device.arrow")
    written = pl.read_ipc_schema(file)
    assert first.device["grid"].null_count() == 3
    assert "grid" not in written
    assert "start" in written
    second = open_path(path, progress=watch).main
    assert seen == ["cached"]
    assert first.device.equals(second.device)
    assert first.device.schema == second.device.schema


def test_no_cache_writes_nothing(tmp_path, store):
    open_path(trace_file(tmp_path / "t.json"), cache=False)
    assert not store.exists()


def test_nothing_is_written_beside_the_input(tmp_path, store):
    folder = tmp_path / "in"
    open_path(trace_file(folder / "t.json"))
    assert [path.name for path in folder.iterdir()] == ["t.json"]
    assert entries.info().traces == 1


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


DAMAGE = {
    "cut": lambda path, _: path.write_bytes(path.read_bytes()[:-9]),
    "rubbish": lambda path, _: path.write_bytes(b"rubbish"),
    "a bit": lambda path, _: _flip(path),
    "gone": lambda path, _: path.unlink(),
    "empty": lambda path, _: path.write_bytes(b""),
    "another's": lambda path, other: path.write_bytes(other.read_bytes()),
    "nested deep": lambda path, _: path.write_bytes(b"[" * 100_000),
    "no object": lambda path, _: path.write_text("[1, 2]"),
    "a folder": lambda path, _: (path.unlink(), path.mkdir()),
    "a pipe": lambda path, _: (path.unlink(), os.mkfifo(path)),
    "without end": lambda path, _: (path.unlink(), path.symlink_to("/dev/zero")),
}


@pytest.mark.parametrize("file", ["context.json", "device.arrow"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_entry_is_read_again_and_replaced(tmp_path, store, stages, file, damage):
    other, path = trace_file(tmp_path / "o.json", name="other", count=3), trace_file(tmp_path / "t.json")
    open_path(other)
    (foreign,) = store.iterdir()
    whole = open_path(path).traces[0]
    (entry,) = set(store.iterdir()) - {foreign}
    DAMAGE[damage](entry / file, foreign / file)
    seen, watch = stages
    for _ in range(2):
        again = open_path(path, progress=watch).traces[0]
        assert all(getattr(again, frame).equals(getattr(whole, frame)) for frame in FRAMES)
        assert (again.info, again.notes) == (whole.info, whole.notes)
    assert seen.count("cached") == (0 if damage == "a folder" else 1), "the second look finds a whole entry"


def test_another_traces_entry_is_not_this_ones(tmp_path, store):
    other, path = trace_file(tmp_path / "o.json", name="other", count=3), trace_file(tmp_path / "t.json")
    open_path(other)
    (foreign,) = store.iterdir()
    open_path(path)
    (entry,) = set(store.iterdir()) - {foreign}
    shutil.rmtree(entry)
    foreign.rename(entry)
    assert open_path(path).traces[0].device.height == 1


def test_other_content_of_the_same_size_and_time_is_read_anew(tmp_path, store):
    path = trace_file(tmp_path / "t.json", name="one", count=20_000)
    before = path.stat()
    assert before.st_size > 2 * cache.SAMPLES * cache.SAMPLE_BYTES, "longer than what is sampled of it"
    open_path(path)
    content = path.read_bytes()
    at = content.index(b'"one"', cache.SAMPLE_BYTES + 9)
    path.write_bytes(content[:at] + b'"two"' + content[at + 5 :])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "two" in open_path(path).traces[0].device["name"].cast(pl.String).to_list()


def _foreign(folder: Path) -> dict[str, str]:
    """What of the user's lies in a folder; made on the first call."""
    kept = {
        "thesis/chapter.tex": "a", f"{'01234567' * 5}/notes.txt": "b", ".writing-draft/a.md": "c", "report.json": "d",
        f"{'fedcba98' * 5}/host.arrow/deep": "e",
    }  # fmt: skip
    for name, text in kept.items():
        if not (folder / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    return kept


@pytest.mark.parametrize("how", ["clear", "limit", "leftovers"])
def test_what_else_lies_in_the_folder_stays(tmp_path, store, monkeypatch, how):
    kept = _foreign(store)
    for folder in store.iterdir():
        os.utime(folder, (10, 10))
    open_path(trace_file(tmp_path / "a.json", name="a"))
    assert entries.info().traces == 1
    if how == "clear":
        assert entries.clear().traces == 1
    elif how == "limit":
        monkeypatch.setattr(entries, "limit", lambda: 1)
        open_path(trace_file(tmp_path / "b.json", name="b"))
    else:
        open_path(trace_file(tmp_path / "b.json", name="b"))
    assert {name: (store / name).read_text() for name in kept} == kept


def test_an_entry_holds_no_string_of_another_trace(tmp_path, store):
    open_path(trace_file(tmp_path / "a.json", name="secret_kernel_of_a"))
    shutil.rmtree(store)
    open_path(trace_file(tmp_path / "b.json", name="kernel_of_b"))
    held = b"".join(path.read_bytes() for path in store.rglob("*") if path.is_file())
    assert b"kernel_of_b" in held
    assert b"secret_kernel_of_a" not in held


def test_many_writers_leave_one_whole_entry(tmp_path, store):
    path = trace_file(tmp_path / "t.json", count=500)
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda _: open_path(path), range(16)))
    assert {run.traces[0].device.height for run in runs} == {500}
    assert entries.info().traces == 1
    assert not list(store.glob(".writing-*"))


def test_what_is_half_written_goes_when_the_program_ends(tmp_path, store, monkeypatch):
    write, written = pl.DataFrame.write_ipc, []

    def ends_at_the_third(frame, *arguments, **options):
        written.append(arguments)
        if len(written) == 3:
            entries.abandon()
            assert not list(store.iterdir())
        return write(frame, *arguments, **options)

    monkeypatch.setattr(pl.DataFrame, "write_ipc", ends_at_the_third)
    path = trace_file(tmp_path / "t.json")
    assert open_path(path).traces[0].device.height == 1
    assert len(written) == 3
    assert not list(store.iterdir())
    open_path(path)
    entries.abandon()
    assert entries.info().traces == 1, "what is complete stays"


def test_what_a_killed_program_left_goes_in_time(tmp_path, store):
    for name, age in (("old", entries.LEFTOVER_SECONDS + 60), ("new", 60)):
        left = store / f".writing-{name}"
        left.mkdir(parents=True)
        (left / "host.arrow").write_bytes(b"half")
        os.utime(left, (time.time() - age,) * 2)
    open_path(trace_file(tmp_path / "t.json"))
    assert [entry.name for entry in store.glob(".writing-*")] == [".writing-new"]


def test_the_oldest_go_when_the_cache_is_full(tmp_path, store, monkeypatch):
    import os

    for n in range(4):
        open_path(trace_file(tmp_path / f"{n}.json", name=f"k{n}"))
        for entry in store.iterdir():
            os.utime(entry, (n - 10, n - 10) if entry.stat().st_mtime > 10 else None)
    size = entries.info().bytes // 4
    monkeypatch.setattr(entries, "limit", lambda: 2 * size + size // 2)
    open_path(trace_file(tmp_path / "new.json", name="new"))
    assert entries.info().traces == 2
    entries.clear()
    assert entries.info().traces == 0


@pytest.mark.parametrize("name", ["chrome/cudagraph_replay.trace.json.gz", "nsys/graph_node.sqlite.gz"])
def test_a_file_that_changes_while_it_is_read_is_told(tmp_path, name):
    path = tmp_path / name.rpartition("/")[2]

    def written_to(_):
        if path.exists():
            os.utime(path, ns=(1, 1))

    shutil.copy(recorded(name), path)
    trace = open_path(path, progress=written_to, cache=False).main
    assert any("changed while the run was open" in note.reason for note in trace.notes)
    assert not any("changed while" in note.reason for note in open_path(path, cache=False).main.notes)
    with pytest.raises(TraceError, match=r"no such file|unable to open"):
        open_path(path, progress=lambda _: path.unlink(missing_ok=True), cache=False)


def test_a_light_recording_that_changed_since_its_run_was_opened_is_not_used(tmp_path):
    folder = shutil.copytree(recorded("two_passes"), tmp_path / "run")
    assert open_path(folder, cache=False).light is not None
    run = open_path(folder, cache=False)
    os.utime(folder / "light.pt.trace.json.gz", ns=(1, 1))
    assert run.light is None
    assert "changed while its run was open; open the run again" in str(run.light_pass.problem)


def test_an_unwritable_cache_is_no_error(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("TRACETUI_CACHE_DIR", str(blocked / "below"))
    monkeypatch.setattr(cache, "MIN_SOURCE_BYTES", 0)
    assert open_path(trace_file(tmp_path / "t.json")).traces[0].device.height == 1


@pytest.mark.parametrize("missing", ["pandas", "pyarrow"])
def test_a_missing_extra_is_named(tmp_path, missing):
    script = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from tracetui.parsers import open_path\n"
        "open_path(sys.argv[1], cache=False).traces[0].to_pandas()"
    )
    command = [sys.executable, "-c", script, str(trace_file(tmp_path / "t.json"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "pip install 'tracetui[pandas]'" in done.stderr.splitlines()[-1]


def test_the_hosts_of_a_jax_run_are_its_ranks(tmp_path):
    folder = tmp_path / "plugins" / "profile" / "2026_01_01_00_00_00"
    for host in ("b-host", "a-host"):
        trace_file(folder / f"{host}.trace.json", name=host)
    trace_file(folder / "perfetto_trace.json", name="the same again")
    run = open_path(tmp_path, cache=False)
    assert run.others == ()
    assert [(trace.info.rank, trace.info.world_size, trace.source.path.name) for trace in run.traces] == [
        (0, 2, "a-host.trace.json"),
        (1, 2, "b-host.trace.json"),
    ]


def test_a_report_of_nvidia_says_how_to_export_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    for name, command in (("a b.nsys-rep", "nsys export"), ("c.qdrep", "nsys export")):
        path = tmp_path / name
        path.write_bytes(b"NVTX")
        with pytest.raises(TraceError, match=command) as refused:
            open_path(path)
        assert "\n" not in str(refused.value)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("answer", "words", "code"),
    [(None, [], 1), (None, ["--export"], 0), ("y\n", [], 0), ("\n", [], 1), ("no\n", [], 1)],
)
def test_nsys_exports_a_report_only_if_it_may(tmp_path, monkeypatch, capsys, answer, words, code):
    """At a terminal tracetui asks; a script says `--export`."""
    export = tmp_path / "export.sqlite"
    file = NsysFile()
    file.launch("k", (0, 1000), (2000, 3000))
    file.write(export)
    tool = tmp_path / "bin" / "nsys"
    tool.parent.mkdir()
    ran = tmp_path / "ran"
    copied = f'case $word in --output=*) cp {export} "${{word#--output=}}";; esac'
    tool.write_text(f"#!/bin/sh\ntouch {ran}\nfor word; do {copied}; done\n")
    tool.chmod(0o755)
    report = tmp_path / "a.nsys-rep"
    report.write_bytes(b"NVTX")
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("TRACETUI_EXPORT", "")
    if answer is not None:
        monkeypatch.setattr(sys, "stdin", _Terminal(answer))
        monkeypatch.setattr(sys, "stderr", _Terminal())
    assert main(["report", str(report), "--no-cache", *words]) == code
    assert ran.exists() == (code == 0)
    said = capsys.readouterr()
    if answer is not None:
        assert "a.nsys-rep: nsys has to export this first" in sys.stderr.getvalue()
    elif code:
        assert "--export" in said.err
        assert len(said.err.splitlines()) == 1
    assert ("tracetui report: a.nsys-rep" in said.out) == (code == 0)


def test_an_exported_report_is_not_opened_twice(tmp_path):
    trace_file(tmp_path / "a.trace.json")
    (tmp_path / "b.nsys-rep").write_bytes(b"NVTX")
    assert len(open_path(tmp_path, cache=False).warnings) == 1
    (tmp_path / "b.sqlite").write_bytes(b"")
    assert open_path(tmp_path, cache=False).warnings == ()


@pytest.mark.parametrize("status", ["failed", "interrupted", "running", "finished"])
def test_a_run_that_did_not_end_well_says_so(tmp_path, status):
    changeable(VIM_FP16, tmp_path / "run")
    text = (VIM_FP16 / "run.json").read_text().replace('"status": "finished"', f'"status": "{status}"')
    said = '"explanation": "nsys: killed (SIGKILL)"'
    (tmp_path / "run" / "run.json").write_text(text.replace('"explanation": null', said))
    problems = open_path(tmp_path / "run").warnings
    assert len(problems) == (status != "finished")
    assert all("nsys: killed (SIGKILL)" in problem for problem in problems)
