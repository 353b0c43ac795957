"""Secrets and names of users are masked where they are read and recorded, before anything is shared."""

import json
import stat
import sys
from pathlib import Path

import polars as pl
import pytest
from nsys_file import NsysFile
from snapshot_file import Allocator, snapshot, write

from tracetui.collectors import process
from tracetui.collectors.folder import RunFolder
from tracetui.collectors.machine.masking import masked, masked_line
from tracetui.parsers import open_path
from tracetui.parsers.names.people import without_users


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("python train.py --token s3cret --lr 0.1", "python train.py --token *** --lr 0.1"),
        ("train --api-key=s3cret --max-tokens 512", "train --api-key=*** --max-tokens 512"),
        ("sh -c PASSWORD=hunter2", "sh -c PASSWORD=***"),
        ("run npm_abcdefghijklmnopqrstuvwxyz0123456789", "run ***"),
        ("fetch https://ada:pw@host/x", "fetch https://***@host/x"),
        ("python -m torch.distributed.run --nnodes 2 x.py", "python -m torch.distributed.run --nnodes 2 x.py"),
        ("mysql -ps3cretword9 -print0", "mysql -p*** -print0"),
    ],
)  # fmt: skip
def test_a_command_line_is_masked(line: str, expected: str) -> None:
    assert masked_line(line) == expected
    assert " ".join(masked(line.split())) == expected


def test_files_that_may_hold_a_secret_are_the_users_alone(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.create()
    folder.write_spec("torch", {"script": ["x.py", "--token", "s3cret"]})
    folder.write_manifest({"schema": "tracetui.run/1"})
    code = process.run([sys.executable, "-c", "print(1)", "--token", "s3cret"], folder.log, lambda: None)
    assert code == 0
    found = [*folder.path.glob("*/spec.torch.json"), folder.path / "run.json", folder.log]
    assert len(found) == 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o600}
    assert "s3cret" not in folder.log.read_text()
    assert json.loads(found[1].read_text()) == {"schema": "tracetui.run/1"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see /home/ada/log.txt of ada on gpu-7", "see ~/log.txt of *** on gpu-7"),
        ("/home/ada", "~"),
        ("C:\\Users\\ada\\x", "~\\x"),
        ("started as user 'ada' on node7:29500", "started as user '***' on node7:29500"),
        ("ssh ada@gpu-7 failed", "ssh ***@gpu-7 failed"),
        ("/usr/bin/python3", "/usr/bin/python3"),
        ("a user range was lost", "a user range was lost"),
        ("/device:GPU:0", "/device:GPU:0"),
        ("memcpy@GLIBC_2.14", "memcpy@GLIBC_2.14"),
    ],
)
def test_users_are_masked_and_machines_stay(text: str, expected: str) -> None:
    assert without_users(text) == expected


def test_reading_keeps_users_out_of_diagnostics_and_processes(tmp_path: Path) -> None:
    file = NsysFile()
    file.launch("gemm", call=(10, 20), kernel=(30, 60))
    file.row("PROCESSES", globalPid=0, pid=100, name="/home/ada/v/bin/python3")
    file.row("DIAGNOSTIC_EVENT", severity=2, text="lost on gpu-7, see /home/ada/l.log of ada")
    trace = open_path(file.write(tmp_path / "n.sqlite"), cache=False).traces[0]
    said = str(trace.info) + str(trace.notes)
    assert "lost on gpu-7, see ~/l.log of ***" in said
    assert "~/v/bin/python3" in said
    assert "ada" not in said
    path = tmp_path / "t.json"
    name = {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "/home/ada/v/bin/python3"}}
    work = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2, "pid": 1, "tid": 1}
    path.write_text(json.dumps({"traceEvents": [name, work]}))
    assert open_path(path, cache=False).traces[0].info.processes == ((1, "~/v/bin/python3"),)


def test_reading_keeps_homes_out_of_threads_and_functions(tmp_path: Path) -> None:
    """A function of Python is named by its file: what finds it stays, whose home it lies in does not."""
    path = tmp_path / "t.json"
    base = {"ts": 1, "dur": 9, "pid": 1, "tid": 1}
    events = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "worker of ada@gpu-7"}},
        {"ph": "X", "cat": "python_function", "name": "/home/ada/p/train.py(3): <lambda>", **base},
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "args": {"Call stack": "/home/ada/p/t.py(7): f;x"}, **base},
    ]
    path.write_text(json.dumps({"traceEvents": events}))
    trace = open_path(path, cache=False).traces[0]
    assert trace.info.threads == ((1, 1, "worker of ***@gpu-7"),)
    assert set(trace.host["name"].cast(pl.String)) == {"~/p/train.py(3): <lambda>", "aten::mm"}
    assert trace.host["stack"].drop_nulls().cast(pl.String).to_list() == ["~/p/t.py(7): f;x"]

    file = NsysFile()
    file.launch("gemm", call=(10, 20), kernel=(30, 60))
    file.thread_name("/home/ada/run", 100)
    assert open_path(file.write(tmp_path / "n.sqlite"), cache=False).traces[0].info.threads == ((100, 100, "~/run"),)

    allocator = Allocator()
    allocator.alloc(512)
    memory = open_path(write(tmp_path / "m.pickle", snapshot(allocator)), cache=False).traces[0].memory
    said = " ".join(memory["stack"].drop_nulls().cast(pl.String))
    assert "~/train.py:3" in said
    assert "/home/me" not in said
