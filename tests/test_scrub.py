"""Copies that can be shared: nothing private in their bytes, the same numbers in their frames."""

import gzip
import json
import pickle
import random
import sqlite3
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from sample_runs import recorded

from tracetui.app.cli.main import main
from tracetui.collectors.scrub import LeftOut, Scrubbed, scrub, scrub_file
from tracetui.collectors.scrubbing.json_text import JsonScrubber
from tracetui.collectors.scrubbing.keys import document
from tracetui.collectors.scrubbing.redactor import Redactor
from tracetui.parsers import Trace, TraceError, open_path
from tracetui.parsers.runs.manifest import load

PRIVATE = ("adalove", "lab-gpu7", "s3cret", "10.20.30.40", "11111111-2222", "projekt-x", "hf_abcdefghijklmnop")
"""What must not be left anywhere in a copy."""
FRAMES = ("steps", "host", "device", "memory", "counters")


def copied(path: Path, name: str = "", redactor: Redactor | None = None) -> Scrubbed:
    folder = path.parent / "copies"
    return scrub_file(path, folder / (name or path.name), redactor or Redactor())


def content(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def assert_nothing_private(path: Path) -> None:
    held = content(path)
    assert [word for word in PRIVATE if word.encode() in held] == []


def opened(path: Path) -> Trace:
    return open_path(path, cache=False).traces[0]


def assert_same_numbers(a: Trace, b: Trace) -> None:
    """Frames of the same size, every number the same, every name apart that was apart."""
    for name in FRAMES:
        one, two = getattr(a, name), getattr(b, name)
        assert one.shape == two.shape, name
        for column in one.columns:
            if column == "offset":
                continue
            if isinstance(one[column].dtype, (pl.Categorical, pl.String)):
                x, y = one[column].cast(pl.String), two[column].cast(pl.String)
                pairs = pl.DataFrame({"x": x, "y": y}).unique()
                assert pairs.height == x.n_unique() == y.n_unique(), column
            else:
                assert one[column].equals(two[column]), f"{name}.{column}"
    assert (a.source.events_total, a.source.events_parsed) == (b.source.events_total, b.source.events_parsed)
    known = Redactor(("adalove",), ("lab-gpu7",))
    assert [(n.kind, known.value(n.reason), n.count) for n in a.notes] == [(n.kind, n.reason, n.count) for n in b.notes]


CHROME: dict[str, Any] = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "uuid": "GPU-11111111-2222-3333-4444-555555555555"}],
    "host_name": "lab-gpu7",
    "cuda_runtime_version": 13000,
    "user": "adalove",
    "command": ["python", "/home/adalove/projekt-x/train.py", "--token", "s3cret"],
    "environment": {"HOME": "/home/adalove", "API_KEY": "s3cret", "nested": {"more": ["s3cret"]}},
    "tracetui": {"schema": "tracetui.run/1", "identity": {"host": "lab-gpu7", "cwd": "/home/adalove/projekt-x"}},
    "driver_version": "10.20.30.4",
    "traceEvents": [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0,
         "args": {"name": "python /scratch/adalove/x.py on lab-gpu7"}},
        {"ph": "M", "name": "process_labels", "pid": 1, "tid": 0,
         "args": {"labels": "lab-gpu7 10.20.30.40"}},
        {"ph": "X", "cat": "python_function", "name": "/home/adalove/projekt-x/train.py(12): main", "pid": 1, "tid": 1,
         "ts": 1000000.123, "dur": 90.5, "args": {"Python id": 1}},
        {"ph": "X", "cat": "python_function", "name": "/home/adalove/other place/train.py(12): main", "pid": 1,
         "tid": 1, "ts": 1000001.123, "dur": 80.25, "args": {"Python id": 2, "Python parent id": 1}},
        {"ph": "X", "cat": "python_function", "pid": 1, "tid": 1, "ts": 1000002.0, "dur": 70.0,
         "name": "/home/adalove/v/lib/python3.12/site-packages/torch/nn/modules/linear.py(3): forward", "args": {}},
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1000003.0, "dur": 60.0,
         "args": {"External id": 7, "Call stack": "/home/adalove/projekt-x/a.py(1): f;torch/x.py(2): g",
                  "Input Dims": [[4, 3], []], "note": "hf_abcdefghijklmnop /home/adalove", "host": "lab-gpu7"}},
        {"ph": "X", "cat": "user_annotation", "name": "layer1/attn \"q\" \\ step", "pid": 1, "tid": 1,
         "ts": 1000004.0, "dur": 5.5, "args": {}},
        {"ph": "X", "cat": "kernel", "name": "void k<a::b>(float const*, \u00b5)", "pid": 0, "tid": 7, "ts": 1000010.5,
         "dur": 33.125, "args": {"device": 0, "stream": 7, "External id": 7, "grid": [1, 2, 3], "block": [32, 1, 1]}},
    ],
    "traceName": "/home/adalove/projekt-x/trace.json",
}  # fmt: skip


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("packed", [False, True])
def test_a_chrome_trace(tmp_path: Path, indent: int | None, packed: bool) -> None:
    text = json.dumps(CHROME, indent=indent).encode()
    path = tmp_path / ("t.trace.json.gz" if packed else "t.trace.json")
    path.write_bytes(gzip.compress(text) if packed else text)
    done = copied(path)
    assert_nothing_private(done.target)
    assert (done.target.read_bytes()[:2] == b"\x1f\x8b") == packed
    new = json.loads(content(done.target))
    names = [event["name"] for event in new["traceEvents"]]
    assert names[2:] == [
        "/redacted/train.py(12): main",
        "/redacted/2/train.py(12): main",
        "/redacted/site-packages/torch/nn/modules/linear.py(3): forward",
        "aten::mm",
        'layer1/attn "q" \\ step',
        "void k<a::b>(float const*, \u00b5)",
    ]
    assert new["traceEvents"][5]["args"]["Call stack"] == "/redacted/a.py(1): f;torch/x.py(2): g"
    assert (new["command"], new["environment"], new["host_name"]) == ([], {}, "host-1")
    assert new["driver_version"] == "10.20.30.4", "a version is no address"
    assert new["traceName"] == "/redacted/trace.json"
    assert new["tracetui"]["identity"] == {"host": "host-1", "cwd": "/redacted"}
    assert_same_numbers(opened(path), opened(done.target))
    assert done.counts["path"] >= 6
    assert done.counts["host name"] >= 4
    assert {"command line", "environment", "secret", "UUID", "network address"} <= done.counts.keys()


def test_the_name_of_a_range_stays_even_with_a_users_name_in_it(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    event = {"ph": "X", "cat": "user_annotation", "name": "adalove-step", "ts": 1, "dur": 2, "pid": 1, "tid": 1}
    path.write_text(json.dumps({"traceEvents": [event | {"args": {"by": "adalove"}}]}))
    copy = json.loads(copied(path, redactor=Redactor(("adalove",))).target.read_text())
    assert copy["traceEvents"] == [event | {"args": {"by": "user-1"}}]


@pytest.mark.parametrize("size", [1, 7, 64, 300, 1 << 20])
def test_pieces_of_any_size_give_the_same_copy(size: int) -> None:
    text = json.dumps(CHROME, indent=1).encode()

    def pieces() -> Iterator[bytes]:
        for at in range(0, len(text), size):
            yield text[at : at + size]

    def redactor() -> Redactor:
        return Redactor(("adalove",), ("lab-gpu7",))

    whole = b"".join(JsonScrubber(redactor()).scrub([text]))
    assert b"".join(JsonScrubber(redactor()).scrub(pieces())) == whole
    assert json.loads(whole) == document(CHROME, redactor()) | {
        "traceEvents": json.loads(whole)["traceEvents"],
        "command": [],
        "environment": {},
    }


WORDS = (
    "aten::mm", "/home/adalove/a.py(1): f", "/home/adalove/b/a.py(2): f", 'x"y', "a\\b", "C:\\Users\\ada\\x.py",
    "10.2.3.4", "adalove", "lab-gpu7", "\u00e9\u2028", "PATH=/a\0HOME=/home/bob\0", "{", "}", "[", "],", '":', "",
    "a\nb", "512", "/home/bob/x;torch/y.py(3): g", "https://u:p@h/x", '{"schema":"tracetui.run/1","host":"q"}',
)  # fmt: skip
KEYS = (
    "name",
    "cat",
    "host",
    "user",
    "command",
    "env",
    "args",
    "x",
    "uuid",
    "cwd",
    "hf_token",
    "driver_version",
    'a"b',
)


def made_up(dice: random.Random, depth: int) -> Any:
    """A value of any kind; lists hold no lists, of whose strings the stream does not know the key."""
    kind = dice.random()
    if depth == 0 or kind < 0.5:
        return dice.choice(WORDS) if kind < 0.35 else dice.choice((1, 2.5, -3e10, None, True))
    if kind < 0.7:
        return [dice.choice(WORDS) for _ in range(dice.randint(0, 3))]
    return {dice.choice(KEYS): made_up(dice, depth - 1) for _ in range(dice.randint(0, 4))}


@pytest.mark.parametrize("seed", range(5))
def test_the_stream_does_what_the_decoded_document_says(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(150):
        value = {"traceEvents": [made_up(dice, 4) for _ in range(dice.randint(0, 4))]}
        text = json.dumps(value, indent=dice.choice((None, 1)), ensure_ascii=dice.random() < 0.5).encode()
        size = dice.choice((1, 3, 17, 100, 1 << 20))
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        copy = b"".join(JsonScrubber(Redactor(("adalove",), ("lab-gpu7",))).scrub(pieces))
        assert json.loads(copy) == document(value, Redactor(("adalove",), ("lab-gpu7",))), text


def test_without_anything_private_the_copy_is_the_original() -> None:
    text = b'\xef\xbb\xbf{"traceEvents": [\n {"name":"a\\u00e4 \xff","ts":1e3,"dur":NaN,"args":{"x":[1.50,-0]}},{}\n]}'
    assert b"".join(JsonScrubber(Redactor()).scrub([text])) == text


@pytest.mark.parametrize(
    "damaged",
    [
        b'{"traceEvents":[{"name":"/home/adalove/a.py(1): f","ts":1,"dur":2,"ph":"X"},{"name":"/home/adalove/b.py(2)',
        b'{"traceEvents":[{"name":"say "hi" there","p":"/home/adalove/x","ts":1},{"name":"/home/adalove/y.py"}]}',
        b'{"traceEvents":[{"name":"bad \\p escape /home/adalove/z.py","ts":1}]}',
        b'{"traceEvents":[{"name":"x","environment":{"A":"s3cret","B":["s3cret',
        b'"/home/adalove/x.py" /home/adalove/y.py',
    ],
)
def test_damage_hides_nothing(damaged: bytes) -> None:
    for size in (len(damaged), 11):
        pieces = [damaged[at : at + size] for at in range(0, len(damaged), size)]
        copy = b"".join(JsonScrubber(Redactor(("adalove",))).scrub(pieces))
        assert b"adalove" not in copy
        assert b"s3cret" not in copy


@pytest.mark.parametrize(
    "odd", [b"", b'{"name":"a quote is missing,"ts":1},\n', b'{"env":{"A":"s3cret"},"x":"/home/adalove/y"},\n']
)
def test_a_trace_of_any_size_is_copied_in_little_memory(odd: bytes) -> None:
    event = b'{"name":"aten::mm","ts":1.5,"dur":2.25,"args":{"Input Dims":[[4,4]]}},\n'
    piece = event * 1000

    def pieces() -> Iterator[bytes]:
        yield b'{"traceEvents":[' + odd
        for _ in range(60):
            yield piece
        yield b"{}]}"

    tracemalloc.start()
    copy = [part.count(b"1.5,") for part in JsonScrubber(Redactor()).scrub(pieces())]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(copy) == 60_000
    assert peak < 35 * len(piece), "a few pieces, not the whole file"


@pytest.mark.parametrize(
    "name",
    [
        "ops/ops.trace.json.gz",
        "chrome/forms/torch213_cpu_mlp_modules.pt.trace.json.gz",
        "jax/h200.trace.json.gz",
        "nsys/graph_node.sqlite.gz",
        "ncu/vim_basic_stdout_details.csv.gz",
        "memory/gpt_memory_snapshot.pickle.gz",
    ],
)
def test_a_recording_keeps_its_numbers(tmp_path: Path, name: str) -> None:
    source = recorded(name)
    done = scrub_file(source, tmp_path / source.name, Redactor())
    before, after = opened(source), opened(done.target)
    assert_same_numbers(before, after)
    assert after.info.captured == before.info.captured
    assert after.info.devices == before.info.devices
    held = content(done.target)
    for word in (b"/home/", b"hunter2", b"EXAMPLE_SECRET", b"127.0.0.1"):
        assert word not in held


ENVIRONMENT = "HOME=/home/adalove\0HOSTNAME=lab-gpu7\0API_KEY=s3cret\0PATH=/usr/bin:/home/adalove/bin\0"


def nsys_file(path: Path) -> Path:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA secure_delete=OFF")
    connection.executescript(
        """
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
        CREATE TABLE META_DATA_CAPTURE (name TEXT NOT NULL, value TEXT);
        CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
        CREATE TABLE TARGET_INFO_SYSTEM_ENV
            (globalVid INTEGER, devStateName TEXT, name TEXT, nameEnum INTEGER, value TEXT);
        CREATE TABLE TARGET_INFO_GPU
            (id INTEGER, name TEXT, uuid TEXT, smCount INTEGER, computeMajor INTEGER, computeMinor INTEGER);
        CREATE TABLE TARGET_INFO_NIC_INFO (guid INTEGER, name TEXT);
        CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
        CREATE TABLE ProcessStreams (globalPid INTEGER, filenameId INTEGER, contentId INTEGER);
        CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, severity INTEGER, text TEXT);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,
            streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER,
            gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER);
        CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER,
            globalTid INTEGER, domainId INTEGER, binaryData TEXT);
        CREATE TABLE GENERIC_EVENTS (data TEXT, raw BLOB);
        CREATE TABLE LEAK (value TEXT);
        CREATE TRIGGER spread AFTER UPDATE ON StringIds BEGIN INSERT INTO LEAK VALUES (old.value); END;
        """
    )
    strings = [
        "void k(float*)", "forward/attention", "/home/adalove/projekt-x/out.log", "printed: s3cret token of adalove",
        ENVIRONMENT, "ioctl", "/home/adalove/projekt-x/lib.so", "python3",
        "/gpfs9/adalove/bin/tool", "thread of adalove",
    ]  # fmt: skip
    connection.executemany("INSERT INTO StringIds VALUES (?, ?)", list(enumerate(strings, 1)))
    connection.execute("INSERT INTO StringIds VALUES (99, CAST(? AS TEXT))", (b"caf\xe9 /home/adalove/x.py",))
    connection.executemany("INSERT INTO META_DATA_CAPTURE VALUES (?, ?)", [
        ("PROCESS_0:COMMAND", "/home/adalove/projekt-x/train.py"), ("PROCESS_0:ARGUMENT_1", "--token=s3cret"),
        ("PROCESS_0:USER_NAME", "adalove"), ("PROCESS_0:ENVIRONMENT", ENVIRONMENT), ("RATE_HZ", "0"),
        ("PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE", "Graph"), ("CAPTURE_EVENT_TYPE", "Cuda"),
    ])  # fmt: skip
    connection.executemany("INSERT INTO META_DATA_EXPORT VALUES (?, ?)", [
        ("EXPORT_PRODUCT_VERSION", "2025.3.2.0"), ("EXPORT_USER", "adalove"),
        ("EXPORT_PARAM_INPUT_FILE", "/home/adalove/projekt-x/run.nsys-rep"),
    ])  # fmt: skip
    connection.executemany("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (1, 'lab-gpu7', ?, 1, ?)", [
        ("Hostname", "lab-gpu7"), ("NvDriverVersion", "580.159.04"), ("NicInfo", '{"ip": "10.20.30.40"}'),
        ("CpuDescription", "Intel(R) Xeon(R)"),
    ])  # fmt: skip
    uuid = "GPU-11111111-2222-3333-4444-555555555555"
    connection.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H200', ?, 132, 9, 0)", (uuid,))
    connection.execute("INSERT INTO TARGET_INFO_NIC_INFO VALUES (1, 'mlx5 lab-gpu7')")
    process = (1 << 56) | (4711 << 24)
    connection.execute("INSERT INTO PROCESSES VALUES (?, 4711, '/home/adalove/v/bin/python3')", (process,))
    connection.execute("INSERT INTO ProcessStreams VALUES (?, 3, 4)", (process,))
    connection.execute("INSERT INTO DIAGNOSTIC_EVENT VALUES (1, 2, 'lost on lab-gpu7, see /home/adalove/l.log')")
    for n in range(3):
        row = (n * 1000, n * 1000 + 321, 0, 1, 7, n, process, 1, 1, 4, 1, 1, 128, 1, 1)
        connection.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({','.join('?' * len(row))})", row)
    ranges = [(0, 5000, 59, "step 1", None), (10, 400, 59, None, 2), (20, 30, 59, ENVIRONMENT, None)]
    for start, end, kind, text, text_id in ranges:
        row = (start, end, kind, text, text_id, process | 4711, 0, None)
        connection.execute("INSERT INTO NVTX_EVENTS VALUES (?,?,?,?,?,?,?,?)", row)
    connection.execute('INSERT INTO GENERIC_EVENTS VALUES (\'{"Host": "lab-gpu7"}\', ?)', (b"x /home/adalove/y " * 9,))
    connection.commit()
    # something private that was deleted still stands in free pages
    connection.executemany("INSERT INTO LEAK VALUES (?)", [(f"s3cret adalove {n} " * 40,) for n in range(200)])
    connection.commit()
    connection.execute("DELETE FROM LEAK")
    connection.commit()
    connection.close()
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_an_nsys_export(tmp_path: Path, packed: bool) -> None:
    path = nsys_file(tmp_path / "run.sqlite")
    assert b"s3cret adalove" in path.read_bytes()
    if packed:
        packed_path = tmp_path / "run.sqlite.gz"
        packed_path.write_bytes(gzip.compress(path.read_bytes()))
        path = packed_path
    done = copied(path)
    assert_nothing_private(done.target)
    assert_same_numbers(opened(path), opened(done.target))
    after = opened(done.target).info
    assert dict(after.captured)["CUDA graph trace"] == "Graph"
    assert dict(after.captured)["NVIDIA driver"] == "580.159.04"
    assert "adalove" not in str(after)
    plain = tmp_path / "plain.sqlite"
    plain.write_bytes(content(done.target))
    connection = sqlite3.connect(plain)
    assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)
    assert connection.execute("SELECT count(*) FROM sqlite_master WHERE type='trigger'").fetchone() == (0,)
    assert connection.execute("SELECT count(*) FROM LEAK").fetchone() == (0,)
    strings = dict(connection.execute("SELECT id, CAST(value AS BLOB) FROM StringIds"))
    assert strings[1] == b"void k(float*)"
    assert strings[2] == b"forward/attention"
    assert strings[3] == b"/redacted/out.log"
    assert strings[4] == b"", "what the program printed"
    assert strings[7] == b"/redacted/lib.so"
    assert (strings[9], strings[10]) == (b"/redacted/tool", b"thread of user-1")
    assert strings[99] == b"caf\xe9 /redacted/x.py"
    assert connection.execute("SELECT name FROM META_DATA_CAPTURE ORDER BY 1").fetchall() == [
        ("CAPTURE_EVENT_TYPE",), ("PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE",),
    ]  # fmt: skip
    assert connection.execute("SELECT typeof(value) FROM StringIds GROUP BY 1").fetchall() == [("text",)]
    connection.close()
    assert {
        "environment",
        "command line",
        "path",
        "host name",
        "UUID",
        "program output",
        "setting",
    } <= done.counts.keys()
    assert not list(tmp_path.glob("**/.tracetui-*"))


def test_rows_in_a_write_ahead_log_are_copied(tmp_path: Path) -> None:
    path = nsys_file(tmp_path / "run.sqlite")
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("INSERT INTO StringIds VALUES (500, '/home/adalove/late.py')")
    writer.commit()
    done = copied(path)
    writer.close()
    assert_nothing_private(done.target)
    read = sqlite3.connect(done.target)
    assert read.execute("SELECT value FROM StringIds WHERE id=500").fetchone() == ("/redacted/late.py",)
    read.close()


def test_a_damaged_database_is_said_in_one_line(tmp_path: Path) -> None:
    path = nsys_file(tmp_path / "run.sqlite")
    data = bytearray(path.read_bytes())
    data[4096 * 3 : 4096 * 12] = b"\xff" * (4096 * 9)
    path.write_bytes(data)
    with pytest.raises(
        TraceError, match=r"run\.sqlite: (too damaged to be copied|an SQLite database that can't be read)"
    ):
        copied(path)
    assert list((tmp_path / "copies").iterdir()) == []


NCU_HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Section Name","Metric Name",'
    '"Metric Unit","Metric Value"\n'
)


def ncu_row(number: int, value: str, *, kernel: str = "void k(a::b, float)") -> str:
    return (
        f'"{number}","4711","/home/adalove/v/bin/python3.12","lab-gpu7","{kernel}","1","7",'
        f'"GPU Speed Of Light Throughput","Duration","us","{value}"\n'
    )


def test_an_ncu_table_with_a_programs_words_around_it(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(
        "the token is s3cret, said adalove\n"
        "==PROF== Connected to process 4711 (/home/adalove/v/bin/python3.12)\n"
        + NCU_HEADER
        + ncu_row(0, "12.5")
        + "epoch 1, s3cret\n"
        + "tail without a break s3cret"
        + ncu_row(1, "1,234.5", kernel='k<(""x"")>')
        + '"2","4711","python3.12","lab-gpu7","cut'
    )
    done = copied(path)
    assert_nothing_private(done.target)
    before, after = opened(path), opened(done.target)
    assert_same_numbers(before, after)
    assert after.device.height == 2
    text = done.target.read_text()
    assert text.splitlines()[0] == "[program output]"
    assert "==PROF== Connected to process 4711 (/redacted/python3.12)" in text
    assert '"0","4711","/redacted/python3.12","host-1","void k(a::b, float)"' in text
    assert done.counts["program output"] == 3


def test_a_memory_snapshot(tmp_path: Path) -> None:
    frames = [
        {"filename": "/home/adalove/projekt-x/train.py", "line": 12, "name": "main"},
        {"filename": "??", "line": 0, "name": "at::native::mm"},
    ]
    snapshot = {
        "segments": [
            {"device": 0, "address": 4096, "total_size": 2 << 20, "allocated_size": 512, "active_size": 512,
             "stream": 0, "segment_type": "small", "segment_pool_id": (0, 1), "frames": frames,
             "blocks": [{"address": 4096, "size": 512, "requested_size": 500, "state": "active_allocated",
                         "frames": frames},
                        {"address": 4608, "size": (2 << 20) - 512, "requested_size": 0, "state": "inactive",
                         "frames": []}]}
        ],
        "device_traces": [[
            {"action": "segment_alloc", "addr": 4096, "size": 2 << 20, "stream": 0, "time_us": 10, "frames": []},
            {"action": "alloc", "addr": 4096, "size": 512, "stream": 0, "time_us": 11, "frames": frames},
        ]],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "path:/home/adalove", "expandable_segments": True},
        "external_annotations": [{"stage": "START", "name": "step 1", "device": 0, "time_us": 9}],
    }  # fmt: skip
    path = tmp_path / "memory.pickle"
    path.write_bytes(pickle.dumps(snapshot))
    done = copied(path)
    assert_nothing_private(done.target)
    assert_same_numbers(opened(path), opened(done.target))
    new = pickle.loads(done.target.read_bytes())
    shared = new["segments"][0]["frames"]
    assert shared[0] == {"filename": "/redacted/train.py", "line": 12, "name": "main"}
    assert shared is new["device_traces"][0][1]["frames"], "what was one object stays one"
    assert new["segments"][0]["segment_pool_id"] == (0, 1)
    assert new["allocator_settings"] == {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": True}


def test_a_pickle_that_would_execute_something_is_refused(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (print, ("executed",))

    path = tmp_path / "memory.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [Evil()]}))
    with pytest.raises(TraceError, match="builtins"):
        copied(path)


def test_a_run_json(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps({
        "schema": "tracetui.run/1", "status": "finished",
        "identity": {"run_id": "20261120-ab", "host": "lab-gpu7", "boot_id": "b", "cwd": "/home/adalove/projekt-x",
                     "command": ["tracetui", "profile", "/home/adalove/x.py"], "git_sha": "abc",
                     "git_branch": "adalove/x"},
        "software": {"python_executable": "/home/adalove/v/bin/python", "cudnn": "9.10.2.21", "driver": "580.1"},
        "device": [{"index": 0, "uuid": "GPU-11111111-2222-3333-4444-555555555555", "sm_count": 132}],
        "power": {"before": {"gpus": [{"clock_hz": 1980000000}], "gpu_processes": [{"pid": 3, "name": "python"}]}},
        "workload": {"model": "vim_tiny", "data": "imagefolder:/data/adalove/imagenet",
                     "environment": {"CUDA_VISIBLE_DEVICES": "GPU-11111111-2222-3333-4444-555555555555"}},
        "measurement": {"commands": [["nsys", "-o", "/home/adalove/out"]], "clean_step_ns": [1, 2]},
    }))  # fmt: skip
    done = copied(path)
    assert_nothing_private(done.target)
    read = load(done.target)
    assert read is not None
    assert (read.identity.host, read.identity.command, read.identity.git_sha) == ("host-1", (), "abc")
    assert read.identity.git_branch is None
    assert read.measurement.clean_step_ns == (1, 2)
    assert read.power.before is not None
    assert read.power.before.gpus[0].clock_hz == 1980000000
    assert read.device[0].sm_count == 132
    assert read.workload.data == "imagefolder:/redacted"
    assert read.notes == ()


def test_a_run_json_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(
        json.dumps({"schema": "tracetui.run/1", "identity": {"host": "lab-gpu7", "cwd": "/home/adalove/x"}})[:-9]
    )
    assert_nothing_private(copied(path).target)


def test_the_index_of_a_sweep(tmp_path: Path) -> None:
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps({"schema": "tracetui.sweep-index/1", "command": ["s3cret"], "points": [{"batch": 4}]}))
    copy = json.loads(copied(path).target.read_text())
    assert copy == {"schema": "tracetui.sweep-index/1", "command": [], "points": [{"batch": 4}]}


def test_a_folder_is_copied_as_far_as_it_can_be(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "more").mkdir(parents=True)
    (run / "more" / "lab-gpu7_123.trace.json").write_text(json.dumps(CHROME))
    nsys_file(run / "nsys.sqlite")
    (run / "log.txt").write_text("hello adalove")
    (run / "settings.json").write_text('{"name": "adalove"}')
    (run / "nsys.nsys-rep").write_bytes(b"\0\1report")
    found = scrub([run], None, redactor=Redactor(("adalove",), ("lab-gpu7",)))
    copies = {one.target.relative_to(tmp_path).as_posix() for one in found if isinstance(one, Scrubbed)}
    assert copies == {"run.scrubbed/more/host-1_123.trace.json", "run.scrubbed/nsys.sqlite"}
    left = {one.source.name: one.reason for one in found if isinstance(one, LeftOut)}
    assert left.keys() == {"log.txt", "nsys.nsys-rep", "settings.json"}
    assert "NVIDIA" in left["nsys.nsys-rep"]
    for copy in (tmp_path / "run.scrubbed").rglob("*.*"):
        assert_nothing_private(copy)


def test_the_command_says_what_it_removed_and_never_overwrites(tmp_path, capsys) -> None:
    path = tmp_path / "t.pt.trace.json"
    path.write_text(json.dumps(CHROME))
    assert main(["scrub", str(path)]) == 0
    copy = tmp_path / "t.scrubbed.pt.trace.json"
    out = capsys.readouterr().out
    assert f"{path} -> {copy}" in out
    assert "removed: " in out
    assert "1 command line" in out
    before = copy.read_bytes()
    assert main(["scrub", str(path)]) == 1
    assert "is there already; --force replaces it" in capsys.readouterr().err
    assert main(["scrub", str(path), "--force"]) == 0
    assert copy.read_bytes() == before
    assert main(["scrub", str(path), "-o", str(path), "--force"]) == 1
    assert "is a recording, which is never replaced" in capsys.readouterr().err
    assert main(["scrub", str(tmp_path / "none.json")]) == 1
    assert "no such file" in capsys.readouterr().err
    assert main(["scrub", str(path), "-o", str(tmp_path / "new" / "x.json")]) == 0
    assert (tmp_path / "new" / "x.json").read_bytes() == before
    assert main(["scrub", str(path), str(copy), "-o", str(tmp_path / "both")]) == 0
    assert {file.name for file in (tmp_path / "both").iterdir()} == {path.name, copy.name}


def test_a_folder_without_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "folder").mkdir()
    for n in range(9):
        (tmp_path / "folder" / f"{n}.py").write_text("pass")
    assert main(["scrub", str(tmp_path / "folder")]) == 1
    said = capsys.readouterr()
    assert said.out == "left out: 9 other files (0.py, 1.py, 2.py, 3.py, 4.py, 5.py, ...)\n"
    assert "nothing was copied" in said.err


def test_a_copy_of_a_copy_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(CHROME))
    first = copied(path).target
    second = scrub_file(first, tmp_path / "second.json", Redactor())
    assert second.target.read_bytes() == first.read_bytes()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/adalove/a/b.py", "/redacted/b.py"),
        ("/home/adalove", "/redacted"),
        ("/usr/lib/python3.12/threading.py(9): run", "/usr/lib/python3.12/threading.py(9): run"),
        ("C:\\Users\\adalove\\x\\y.py", "/redacted/y.py"),
        ("~/data/x.bin", "/redacted/x.bin"),
        ("file:///home/adalove/x.html", "file:/redacted/x.html"),
        ("https://docs.nvidia.com/nsight-compute/x/index.html", "https://docs.nvidia.com/nsight-compute/x/index.html"),
        ("https://git.corp.example/adalove.git", "https://host-1.domain/place-1"),
        ("https://adalove:s3cret@github.com/x", "https://***@github.com/x"),
        ("external/xla+/xla/pjrt/client.cc", "external/xla+/xla/pjrt/client.cc"),
        ("jit(f)/jit(main)/dot_general", "jit(f)/jit(main)/dot_general"),
        ("/host:CPU", "/host:CPU"),
        ("/gpfs9/adalove/data set", "/redacted"),
        ("ran /gpfs9/adalove/bin/app", "ran /redacted/app"),
        ("memory bandwidth (GB/s)", "memory bandwidth (GB/s)"),
        ("see /tmp/out.log.", "see /redacted/out.log."),
        ("at (/scratch/adalove/x.so+0x12)", "at (/redacted/x.so+0x12)"),
        ("ran on lab-gpu7.corp.example by adalove", "ran on host-1.domain by user-1"),
        ("mail adalove@corp.example", "mail user-1"),
        ("cuDNN 9.10.2", "cuDNN 9.10.2"),
        ("10.20.30.40:8080", "0.0.0.1:8080"),
        ("fe80::1ff:fe23:4567:890a", "::"),
        ("at::native::add", "at::native::add"),
        ("AB:CD:EF:01:23:45", "::"),
    ],
)
def test_one_text(text: str, expected: str) -> None:
    assert Redactor(("adalove",), ("lab-gpu7",)).value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/layer1/attention", "/layer1/attention"),
        ("/layer1/attention/x.py(3): f", "/redacted/x.py(3): f"),
        ("adalove-step on lab-gpu7", "adalove-step on lab-gpu7"),
        ("init tcp://10.20.30.40:29500", "init tcp://0.0.0.1:29500"),
        ("/home/adalove/run", "/redacted"),
        ("load hf_abcdefghijklmnopqrst", "load ***"),
        ("a;b", "a;b"),
        ("memcpy@GLIBC_2.14", "memcpy@GLIBC_2.14"),
        ("void ns::k<(ns::E)3, 1.2.3>(a*, b&)", "void ns::k<(ns::E)3, 1.2.3>(a*, b&)"),
    ],
)
def test_one_name(text: str, expected: str) -> None:
    assert Redactor(("adalove",), ("lab-gpu7",)).name(text) == expected


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("hf_token", "anything", None),
        ("max_tokens", "512", "512"),
        ("os_env", {"A": "b"}, {}),
        ("cuda_version", "12.4.0.1", "12.4.0.1"),
        ("driver_version", "/home/adalove/x", "/redacted"),
        ("cwd", "/work", "/redacted"),
        ("Host Name", "lab", "host-1"),
        ("username", "adalove", "user-1"),
        ("hlo_op", "fusion.10.20.30.4", "fusion.10.20.30.4"),
        ("anything", {"list": ["/home/adalove/x", 3, None]}, {"list": ["/redacted", 3, None]}),
    ],
)
def test_a_value_by_its_key(key: str, value: Any, expected: Any) -> None:
    assert document({key: value}, Redactor(("adalove",))) == {key: expected}
    text = json.dumps({key: value}).encode()
    assert json.loads(b"".join(JsonScrubber(Redactor(("adalove",))).scrub([text]))) == {key: expected}


def test_two_paths_never_become_one() -> None:
    redactor = Redactor()
    paths = [f"/home/{user}/{folder}/x.py" for user in ("a", "b") for folder in ("p", "q", "p/q")]
    shown = [redactor.name(path) for path in paths]
    assert len(set(shown)) == len(paths)
    assert shown == [redactor.name(path) for path in paths], "the same each time"


def test_the_command_of_a_run_stays_without_its_places(tmp_path):
    words = ["tracetui", "profile", "vim_tiny", "--batch", "4", "--output", "/home/ada/run", "--data=imagefolder:/x"]
    run = {
        "schema": "tracetui.run/1",
        "identity": {"command": words},
        "outcome": {"files": [{"name": "a", "sha256": "7"}]},
    }
    (tmp_path / "run.json").write_text(json.dumps(run))
    scrub([tmp_path / "run.json"], tmp_path / "copy.json", redactor=Redactor())
    copy = json.loads((tmp_path / "copy.json").read_text())
    assert copy["identity"]["command"] == ["tracetui", "profile", "vim_tiny", "--batch", "4"]
    assert copy["outcome"]["files"] == [{"name": "a"}]
    run["identity"]["command"] = [*words[:3], "--out", "lovelace", "--python=x", "--batch", "4", "--note", "ada"]
    (tmp_path / "run.json").write_text(json.dumps(run))
    scrub([tmp_path / "run.json"], tmp_path / "copy.json", redactor=Redactor(("ada",)), force=True)
    command = json.loads((tmp_path / "copy.json").read_text())["identity"]["command"]
    assert command == ["tracetui", "profile", "vim_tiny", "--batch", "4", "--note"]
    run["identity"]["command"] = [*words[:3], {"a": 1}, None, ["ada"]]
    (tmp_path / "run.json").write_text(json.dumps(run))
    scrub([tmp_path / "run.json"], tmp_path / "copy.json", redactor=Redactor(("ada",)), force=True)
    command = json.loads((tmp_path / "copy.json").read_text())["identity"]["command"]
    assert command == [*words[:3], "None"]
    for odd in (True, 3, "text", {"a": 1}):
        (tmp_path / "run.json").write_text(json.dumps({**run, "power": {"during": odd}}))
        scrub([tmp_path / "run.json"], tmp_path / "copy.json", redactor=Redactor(), force=True)
        assert json.loads((tmp_path / "copy.json").read_text())["power"]["during"] == odd
    run["identity"]["command"] = ["tracetui", "profile", "--", "python", "secret.py"]
    (tmp_path / "run.json").write_text(json.dumps(run))
    scrub([tmp_path / "run.json"], tmp_path / "copy.json", redactor=Redactor(), force=True)
    assert json.loads((tmp_path / "copy.json").read_text())["identity"]["command"] == []
