"""Files made to fill a machine's memory or time, or that need more memory than is allowed, end in one line."""

import gzip
import random
from pathlib import Path
from types import SimpleNamespace

import pytest
from chrome_file import ChromeFile

from tracetui.app.cli.main import MAX_MEMORY, main
from tracetui.app.cli.values import memory_size
from tracetui.parsers import TraceError, bounds, bytes_source, open_path
from tracetui.parsers.chrome import layout
from tracetui.parsers.runs import opening

BOMBS: dict[str, tuple[bytes, bytes, bytes]] = {
    "a.trace.json.gz": (b'{"traceEvents":[{"ph":"X","cat":"kernel","ts":1,"dur":1,"name":"', b"a", b'"}]}'),
    "blanks.trace.json.gz": (b'{"traceEvents":[', b" ", b"]}"),
    "a.csv.gz": (b'"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n', b'"0","k","m","ns","1"\n', b""),
    "quotes.csv.gz": (b'"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n', b'"', b""),
    "a.pickle.gz": (b"\x80\x04]\x94(", b"K\x01", b"e."),
    "a.sqlite.gz": (b"SQLite format 3\0", b"\0", b""),
}
"""What a file begins with, what fills it, and how it ends."""


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_that_inflates_without_end_is_refused(tmp_path, monkeypatch, name) -> None:
    monkeypatch.setattr(bytes_source, "INFLATED_LEAST", 1 << 19)
    begin, filling, end = BOMBS[name]
    path = tmp_path / name
    path.write_bytes(gzip.compress(begin + filling * ((8 << 20) // len(filling)) + end))
    with pytest.raises(TraceError, match=r"inflates to more than 64 times its size, .*unpack it with gunzip"):
        open_path(path, cache=False)


def test_what_is_saved_of_a_damaged_one_has_the_same_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b" " * (64 << 20))[:-9])
    assert len(bytes_source._inflate_what_can_be(path, 0, 1 << 20)) < 8 << 20


def recording(folder: Path) -> Path:
    file = ChromeFile()
    file.launch("gemm", call=(10, 12), kernel=(20, 60))
    return file.write(folder / "a.pt.trace.json")


def test_the_command_line_s_limit_is_a_line_and_exit_code_1(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv(MAX_MEMORY, "")  # restored afterwards
    assert opening.VARIABLE == MAX_MEMORY
    path = str(recording(tmp_path))
    assert main(["report", path, "--section", "overview", "--max-memory", "64MiB", "--no-cache"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "of memory in all, --max-memory allows 64 MiB; raise it, or give a recording with fewer steps" in said.err
    assert main(["report", path, "--section", "overview", "--max-memory", "64GB", "--no-cache"]) == 0


def test_without_one_the_limit_is_what_is_free(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv(MAX_MEMORY, raising=False)
    path = recording(tmp_path)
    monkeypatch.setattr(opening, "free_bytes", lambda: 10 << 20)
    with pytest.raises(TraceError, match=r"takes about 48 MiB of memory, 10 MiB are free; --max-memory 2GiB reads it"):
        open_path(path, cache=False)
    monkeypatch.setenv(MAX_MEMORY, str(1 << 40))
    assert open_path(path, cache=False).traces
    monkeypatch.delenv(MAX_MEMORY)
    monkeypatch.setattr(opening, "free_bytes", lambda: None)
    assert open_path(path, cache=False).traces


def test_the_estimate_is_of_the_inflated_size(tmp_path) -> None:
    plain, packed, cut = tmp_path / "a.json", tmp_path / "a.json.gz", tmp_path / "cut.json.gz"
    plain.write_text(random.Random(1).randbytes(200_000).hex())
    packed.write_bytes(gzip.compress(plain.read_bytes(), 1))
    cut.write_bytes(packed.read_bytes()[:50_000])
    whole = opening.estimate(plain, "nsys")
    assert whole == opening.FIXED + 720_000 == opening.estimate(packed, "nsys")
    assert opening.FIXED < opening.estimate(cut, "nsys") <= opening.FIXED + 1.8 * 64 * 50_000
    assert opening.estimate(plain, "ncu") == opening.FIXED + 10_000_000


@pytest.mark.parametrize(
    ("text", "size"), [("8GB", 8 * 10**9), ("500MiB", 500 << 20), ("4G", 4 * 10**9), ("12", 12), ("1.5 kib", 1536)]
)
def test_sizes(text: str, size: int) -> None:
    assert memory_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "1XB", "nan"])
def test_what_is_no_size(text: str, capsys) -> None:
    assert main(["report", "x.json", f"--max-memory={text}"]) == 2
    assert "is no size" in capsys.readouterr().err


def test_the_control_group_s_limit(tmp_path) -> None:
    assert opening._group_free(tmp_path) is None
    for name, text in (("memory.max", "1000"), ("memory.current", "700"), ("memory.stat", "anon 1\ninactive_file 200")):
        (tmp_path / name).write_text(text)
    assert opening._group_free(tmp_path) == 500
    (tmp_path / "memory.max").write_text("max\n")
    assert opening._group_free(tmp_path) is None
    assert (opening.free_bytes() or 1) > 0


def many(folder: Path) -> Path:
    """Six kernels, each longer than the one before, of names, devices and streams of their own."""
    work = '{{"ph":"X","cat":"kernel","name":"{}","pid":0,"tid":0,"ts":{},"dur":{},"args":{{"device":{},"stream":{}}}}}'
    names = ["gemm", "relu", "add", "n" * 300, "softmax", "copy"]
    events = [work.format(name, 10 * at, at + 1, at, at + 7) for at, name in enumerate(names)]
    path = folder / "many.json"
    path.write_text(f'{{"traceEvents":[{",".join(events)}]}}', "utf-8")
    return path


@pytest.mark.parametrize(("bound", "most", "said", "column", "kept"), [
    ("MOST_DEVICES", 2, (4, "GPU work whose device is not kept: more than 2 devices"), "device",
     [None, None, None, None, 4, 5]),
    ("MOST_STREAMS", 3, (3, "GPU work whose stream is not kept: more than 3 streams"), "stream",
     [None, None, None, 10, 11, 12]),
    ("MOST_NAMES", {"kernel": 2, "call": 2},
     (4, "kernel whose name is not kept: more than 2 names or 4 MiB of them"), "name",
     [*["kernels of other names"] * 4, "softmax", "copy"]),
    ("MOST_NAME_BYTES", 12, (4, "kernel whose name is not kept: more than 8,192 names or 0 MiB of them"), "name",
     [*["kernels of other names"] * 4, "softmax", "copy"]),
    ("LONGEST_NAME", 9, (1, "name of more than 9 bytes cut"), "name",
     ["gemm", "relu", "add", "nnnnnnnnn…", "softmax", "copy"]),
    ("LONGEST_NAME", 300, None, "name", ["gemm", "relu", "add", "n" * 300, "softmax", "copy"]),
])  # fmt: skip
def test_what_is_too_many_keeps_its_time_and_is_told(tmp_path, monkeypatch, bound, most, said, column, kept) -> None:
    path = many(tmp_path)
    whole = open_path(path, cache=False).main
    assert whole.notes == ()
    monkeypatch.setattr(bounds, bound, most)
    trace = open_path(path, cache=False).main
    notes = [(note.count, note.reason) for note in trace.notes]
    assert notes == ([] if said is None else [said])
    assert trace.device[column].to_list() == kept
    assert trace.device["duration"].to_list() == whole.device["duration"].to_list()


def test_steps_and_names_of_calls_beyond_a_bound_are_told(tmp_path, monkeypatch) -> None:
    event = '{{"ph":"X","pid":1,"tid":1,"cat":"{}","name":"{}","ts":{},"dur":{}{}}}'
    events = []
    for at in range(5):
        events += [
            event.format("user_annotation", f"ProfilerStep#{at}", 100 * at, 90 + at, ""),
            event.format("cuda_runtime", "cudaLaunchKernel", 100 * at, 5, f',"args":{{"correlation":{at + 1}}}'),
            event.format("kernel", "k", 100 * at + 9, 9, f',"args":{{"device":0,"stream":7,"correlation":{at + 1}}}'),
        ]
    (tmp_path / "steps.json").write_text(f'{{"traceEvents":[{",".join(events)}]}}')
    assert open_path(tmp_path / "steps.json", cache=False).main.notes == ()
    monkeypatch.setattr(bounds, "MOST_STEPS", 3)
    monkeypatch.setattr(bounds, "MOST_NAMES", {"kernel": 4, "call": 4})
    trace = open_path(tmp_path / "steps.json", cache=False).main
    assert [(note.kind, note.count, note.reason) for note in trace.notes] == [
        ("skipped", 2, "step behind the first 3"),
        ("repaired", 6, "call whose name is not kept: more than 4 names or 4 MiB of them"),
    ]
    assert trace.steps["index"].to_list() == [0, 1, 2]
    assert trace.device["step"].to_list() == [0, 1, 2, None, None]
    assert set(trace.host["name"].cast(str)) == {*(f"ProfilerStep#{at}" for at in range(1, 5)), "calls of other names"}


def test_the_key_of_the_events_is_found_in_one_pass(monkeypatch) -> None:
    counted = 0
    nesting = layout._NESTING

    def counting(text, begin, end):
        nonlocal counted
        counted += end - begin
        return nesting.finditer(text, begin, end)

    monkeypatch.setattr(layout, "_NESTING", SimpleNamespace(finditer=counting))
    inner = b'{"a":[' + b'{"traceEvents":[]},' * 3000 + b'{}],"b":"\\"}{","\\u0074raceEvents" : [{}]}'
    whole = layout.EventsSearch().start(inner)
    assert whole == len(inner) - len(b"{}]}")
    search, at = layout.EventsSearch(), 0
    while (found := search.start(inner[:at])) is None:
        at += 997
    assert found == whole
    assert counted < 3 * len(inner)
