"""The columnar reader against the plain json reader, on every recording and every way of writing the same events."""

import gzip
import itertools
import json
import random

import json_reader
import polars as pl
import pytest
from chrome_file import ChromeFile
from sample_runs import recorded

from tracetui.parsers import open_path, resources
from tracetui.parsers.chrome import chunks, layout, reader, records, tokens
from tracetui.parsers.chrome.cut import cut
from tracetui.parsers.chrome.reader import read_chrome
from tracetui.parsers.chrome.tokens import Irregular
from tracetui.parsers.errors import TraceError
from tracetui.parsers.iterations import with_steps
from tracetui.parsers.trace import FRAMES

RECORDINGS = (
    "chrome/cudagraph_replay.trace.json.gz",
    "chrome/ddp_vit_small_2ranks/rank0.pt.trace.json.gz",
    "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz",
    "chrome/forms/amd_mi250_rocm.json.gz",
    "chrome/forms/cpu_only_rank34.json.gz",
    "chrome/forms/torch213_cpu_mlp_modules.pt.trace.json.gz",
    "chrome/gloo_2ranks/rank0.pt.trace.json.gz",
    "chrome/gpt_small_ctx256.trace.json.gz",
    "chrome/hta_trace_diff/control.json.gz",
    "chrome/kineto_samples/resnet50_num_workers_0.pt.trace.json.gz",
    "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz",
    "jax/h200.trace.json.gz",
    "ops/ops.trace.json.gz",
)


def assert_same(left, right, without=("offset",)):
    for name in FRAMES:
        a, b = getattr(left, name).drop(without, strict=False), getattr(right, name).drop(without, strict=False)
        assert a.schema == b.schema, name
        assert a.height == b.height, name
        for column in a.columns:
            text = a[column].dtype == pl.Categorical
            x, y = (s.cast(pl.String) if text else s for s in (a[column], b[column]))
            differing = x.ne_missing(y).arg_true()
            assert not len(differing), (name, column, differing[0], x[differing[0]], y[differing[0]])


@pytest.mark.parametrize("name", RECORDINGS)
def test_frames_are_those_of_the_json_reader(recording, name):
    judged = with_steps(json_reader.read_trace(recorded(name)))
    read, cached = read_chrome(recorded(name)), recording(name)
    assert_same(read, judged)
    assert read.info == judged.info
    assert read.source.events_total == judged.source.events_total
    # what other tests get, which another worker may have read
    assert_same(cached, read, without=())
    assert (cached.info, cached.source, cached.notes) == (read.info, read.source, read.notes)


@pytest.fixture(scope="module")
def document():
    raw = gzip.decompress(recorded("ops/ops.trace.json.gz").read_bytes())
    return raw, json.loads(raw, parse_float=lambda text: text)


class Number(float):
    """A float that json writes with the digits it was read with."""

    def __new__(cls, text):
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __repr__(self):
        return self.text


def rewritten(raw, **how):
    return json.dumps(json.loads(raw, parse_float=Number), **how).encode()


FORMS = {
    "minified": lambda raw: rewritten(raw, separators=(",", ":")),
    "json.dump": rewritten,
    "indented by 2": lambda raw: rewritten(raw, indent=2),
    "indented by a tab": lambda raw: rewritten(raw, indent="\t"),
    "blank before colons": lambda raw: rewritten(raw, separators=(" , ", " : ")),
    "CRLF": lambda raw: raw.replace(b"\n", b"\r\n"),
    "keys sorted": lambda raw: rewritten(raw, sort_keys=True),
    "byte order mark": lambda raw: b"\xef\xbb\xbf" + raw,
    "gzip": gzip.compress,
    "gzip in two members": lambda raw: gzip.compress(raw[:5000]) + gzip.compress(raw[5000:]),
    "top-level keys after the events": lambda raw: rewritten(raw[:-2] + b"}").replace(b"traceEvents", b"traceEvents"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chunk", [None, 20_000])
def test_any_layout_gives_the_same_frames(tmp_path, monkeypatch, recording, document, form, chunk):
    if chunk:
        monkeypatch.setattr(chunks, "CHUNK_BYTES", chunk)
    path = tmp_path / "trace"  # no suffix: told by content
    path.write_bytes(FORMS[form](document[0]))
    trace = read_chrome(path)
    assert_same(trace, recording("ops/ops.trace.json.gz"))
    assert trace.info == recording("ops/ops.trace.json.gz").info


def test_metadata_and_header_may_stand_at_either_end(tmp_path, recording, document):
    content = json.loads(document[0], parse_float=Number)
    events = content.pop("traceEvents")
    events.sort(key=lambda event: event["ph"] != "M")
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events, **content}))
    trace = read_chrome(path)
    assert_same(trace, recording("ops/ops.trace.json.gz"))
    assert trace.info == recording("ops/ops.trace.json.gz").info


def test_small_chunks_and_one_thread_change_nothing(monkeypatch, recording):
    name = "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz"
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 50_000)
    monkeypatch.setattr(resources, "THREADS", 1)
    assert_same(read_chrome(recorded(name)), recording(name), without=())


@pytest.mark.parametrize(("pids", "chosen"), [((1, 2), 1), ((1, 2, 2), 2)])
def test_steps_are_of_one_thread_of_one_process(tmp_path, pids, chosen):
    file = ChromeFile()
    for at, pid in enumerate(pids):
        for number in range(2):
            begin = 1000 * at + 100 * number
            file.event("user_annotation", f"ProfilerStep#{2 * at + number}", (begin, begin + 90), pid=pid)
    trace = read_chrome(file.write(tmp_path / "a.json"))
    mine = [2 * at + number for at, pid in enumerate(pids) for number in range(2) if pid == chosen]
    assert trace.steps["index"].to_list() == mine


@pytest.mark.parametrize("slow", [False, True])
def test_offset_counts_bytes_behind_letters_outside_ascii(tmp_path, monkeypatch, slow):
    names = [f"grün {at} \U0001f98a" for at in range(4)]
    events = [{"ph": "X", "cat": "cpu_op", "name": name, "ts": at, "dur": 1, "pid": 1, "tid": 1}
              for at, name in enumerate(names)]  # fmt: skip
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"traceEvents": events}, ensure_ascii=False), "utf-8")
    if slow:
        monkeypatch.setattr(reader, "scan", lambda _: (_ for _ in ()).throw(Irregular("slow")))
    found, content = read_chrome(path).host, path.read_bytes()
    where = [content.rindex(b"{", 0, content.index(name.encode())) for name in names]
    assert found.select("name", "offset").rows() == list(zip(names, where, strict=True))


def test_offset_is_where_the_event_stands(recording):
    name = "chrome/forms/torch213_cpu_mlp_modules.pt.trace.json.gz"
    raw = gzip.decompress(recorded(name).read_bytes()).decode()
    decoder = json.JSONDecoder()
    for event, offset in recording(name).host.select("name", "offset").sample(50, seed=1).iter_rows():
        decoded, _ = decoder.raw_decode(raw, raw.index("{", offset))
        assert decoded["name"] == event


def write(path, *events, **top):
    path.write_text(json.dumps({"schemaVersion": 1, **top, "traceEvents": list(events)}))
    return path


def kernel(ts=1, dur=1, **changes):
    args = {"device": 0, "stream": 7, "correlation": 5, **changes.pop("args", {})}
    return {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": args, **changes}


TAILS = {
    "lists of objects": {"args": {"list": [{"a": 1}], "more": {"b": [2]}}},
    "a bracket in the name": {"name": 'name":void f(T){lambda()#1}]}', "tid": "stream 7"},
}


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("how", [{}, {"separators": (",", ":")}, {"indent": 2}])
def test_the_last_event_may_hold_what_looks_like_the_end(tmp_path, tail, how):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [kernel(), kernel(ts=2, **TAILS[tail])], "deviceProperties": []}, **how))
    trace = read_chrome(path)
    assert trace.device["start"].to_list() == [1000, 2000]
    assert not trace.notes


def test_chunks_do_not_end_within_an_event(tmp_path, monkeypatch):
    for case in itertools.product(range(500, 1_000, 37), ["ph", "zone"]):
        chunk, first = case
        monkeypatch.setattr(chunks, "CHUNK_BYTES", chunk)
        groups = [{"rank": n, "members": [n]} for n in range(4 if first == "ph" else 0)]
        path = tmp_path / "t.json"
        events = [{first: "X", **kernel(ts=n, args={"groups": groups})} for n in range(60)]
        path.write_text(json.dumps({"traceEvents": events}, separators=(",", ":")))
        trace = read_chrome(path)
        assert trace.device["start"].to_list() == [1000 * n for n in range(60)], case
        assert not trace.notes, case


@pytest.mark.parametrize("place", ["event", "behind"])
def test_what_is_too_long_to_be_read_ends_the_reading_and_is_told(tmp_path, monkeypatch, place):
    monkeypatch.setattr(chunks, "HEADER_LIMIT", 1 << 20)
    long = json.dumps("x" * (8 << 20))
    event = '{"ph": "X", "cat": "cpu_op", "name": "%s", "pid": 1, "tid": 1, "ts": 5, "dur": 1, "args": {"k": %s}}'
    first, last = event % ("a", 1), event % ("b", long if place == "event" else 2)
    (tmp_path / "a.json").write_text(f'{{"traceEvents": [{first}, {last}], "note": {long}}}')
    trace = read_chrome(tmp_path / "a.json")
    assert trace.host["name"].to_list() == (["a"] if place == "event" else ["a", "b"])
    assert any(note.reason.startswith("more than 64 MiB without the end of an event") for note in trace.notes)


def test_shapes_of_a_list_indented_by_two(tmp_path):
    """Between two events it looks like a file of Kineto's."""
    operator = {"ph": "X", "cat": "cpu_op", "name": "o", "pid": 1, "tid": 1, "dur": 1, "args": {"Input Dims": [[2, 3]]}}
    path = tmp_path / "t.json"
    path.write_text(json.dumps([{**operator, "ts": n} for n in range(9)], indent=2))
    assert set(read_chrome(path).host["input_shapes"].cast(pl.String)) == {"[[2, 3]]"}


def test_names_keep_what_json_escapes(tmp_path):
    names = ['a"b', "back\\slash", "tab\there", "\x1b[31mred", "µ–日本", "emoji 🚀", "a" * 5_000, ""]
    names += ["x\\n", "x\n", "x\\\\n"]  # each is written as the next one reads
    path = write(tmp_path / "t.json", *(kernel(ts=n, name=name) for n, name in enumerate(names)))
    trace = read_chrome(path)
    assert trace.device["name"].cast(pl.String).to_list() == names


def test_a_list_of_2020(tmp_path):
    """Kineto's first files: a bare list, capitalised categories, string thread ids, lower-case external id."""
    thread = {"pid": 25738, "tid": "25738"}
    operator, launch = {"external id": 3}, {"external id": 3, "correlation": 77}
    gpu = {"pid": 0, "tid": "stream 7"}
    events = [
        {"ph": "M", "name": "process_name", "pid": 25738, "tid": 0, "ts": 0, "args": {"name": "python3"}},
        {"ph": "X", "cat": "Operator", "name": "aten::mm", **thread, "ts": 10, "dur": 20, "args": operator},
        {"ph": "X", "cat": "Runtime", "name": "cudaLaunchKernel", **thread, "ts": 12, "dur": 5, "args": launch},
        {"ph": "X", "cat": "Kernel", "name": "sgemm", **gpu, "ts": 30, "dur": 8, "args": {**launch, "warps per SM": 2}},
        {"ph": "s", "cat": "async", "name": "launch", "id": 77, **thread, "ts": 12},
    ]
    path = tmp_path / "old.json"
    path.write_text(json.dumps(events))
    trace = read_chrome(path)
    row = trace.device.row(0, named=True)
    assert (row["stream"], row["start"], row["duration"]) == (7, 30_000, 8_000)
    assert trace.host["name"].cast(pl.String)[row["operator"]] == "aten::mm"
    assert trace.host["name"].cast(pl.String)[row["launch"]] == "cudaLaunchKernel"
    assert trace.source.events_parsed == trace.source.events_total == 5


def test_threads_in_quotes_and_times_since_1970_are_read_at_once(tmp_path, monkeypatch):
    """As PyTorch wrote them until 2022; what is less plain goes through the JSON decoder."""
    plain = ['"1"', '"25738"', '"stream 7"', '"stream -1"', "-3"]
    odd = ['"stream  7"', '"stream seven"', '"7 "', '"7x"', '"stream 7x"', '""', '"thread 12 (main)"']
    events = [{**kernel(ts=1661203462837425 + n, name=tid), "tid": "#" + tid} for n, tid in enumerate((*plain, *odd))]
    text = json.dumps({"traceEvents": [*events, {"ph": "M"}]})
    for tid in (*plain, *odd):
        text = text.replace(json.dumps("#" + tid), tid)
    path = tmp_path / "t.json"
    path.write_text(text)
    decoded = []
    add = records.Collector.add
    monkeypatch.setattr(records.Collector, "add", lambda *args: (decoded.append(args[2].get("name")), add(*args))[1])
    trace = read_chrome(path)
    assert_same(trace, json_reader.read_trace(path))
    assert trace.device["start"].to_list() == [(1661203462837425 + n) * 1000 for n in range(len(events))]
    assert decoded == [*odd, None]


def test_ids_beyond_63_bits_stay_equal(tmp_path):
    huge = 10159970886766084423
    launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 0, "dur": 1,
              "args": {"correlation": huge}}  # fmt: skip
    trace = read_chrome(write(tmp_path / "t.json", launch, kernel(args={"correlation": huge})))
    assert trace.device["launch"].to_list() == [0]
    assert any("64" in note.reason for note in trace.notes)


def test_an_argument_called_like_a_field_is_not_the_field(tmp_path):
    event = kernel(ts=5, dur=2, args={"name": "not me", "ts": 99, "dur": 98, "cat": "cpu_op"})
    shuffled = {"args": event["args"], **{k: v for k, v in event.items() if k != "args"}}
    trace = read_chrome(write(tmp_path / "t.json", event, shuffled))
    assert trace.device.select("name", "start", "duration").cast({"name": pl.String}).rows() == [("k", 5000, 2000)] * 2


def test_numbers_in_unusual_clothes(tmp_path):
    trace = read_chrome(
        write(
            tmp_path / "t.json",
            kernel(ts="1.5", dur="2.25"),
            kernel(ts=4, dur=1e-3),
            kernel(ts=2.5e1, dur=3, args={"stream": "0x1f", "registers per thread": "64"}),
            kernel(ts=30, dur=1, args={"blocks per SM": "inf", "grid": [1, 2, 3], "block": None}),
        )
    )
    assert trace.device["start"].to_list() == [1500, 4000, 25000, 30000]
    assert trace.device["duration"].to_list() == [2250, 1, 3000, 1000]
    assert trace.device["stream"].to_list() == [7, 7, 31, 7]
    assert trace.device["registers"].to_list() == [None, None, 64, None]
    assert trace.device["grid"].to_list() == [None, None, None, [1, 2, 3]]
    assert trace.device["blocks_per_sm"].to_list() == [None] * 4


@pytest.mark.parametrize("phase", ["Z", "XY", "x", "\u00e9", ""])
def test_an_event_of_an_unknown_phase_is_skipped_and_counted(tmp_path, phase):
    """Beside few and many others; a letter that Chrome's format has and nothing here reads counts as read."""
    for many in (3, 3000):
        events = [kernel(ts=10 * i, ph=("X", phase, "P")[i % 3]) for i in range(many)]
        path = write(tmp_path / "t.json", *events)
        trace = read_chrome(path)
        assert trace.device.height == many // 3
        assert (trace.source.events_parsed, trace.source.events_total) == (2 * many // 3, many)
        assert [(note.kind, note.count) for note in trace.notes if "unknown phase" in note.reason] == [
            ("skipped", many // 3)
        ]
        done = cut(path, tmp_path / "cut.json", (0, 10**9), force=True)
        assert [note.count for note in done.notes if "unknown phase" in note.reason] == [many // 3]


def test_begin_and_end_events_become_one(tmp_path):
    def mark(phase, name, ts, **more):
        return {"ph": phase, "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, **more}

    events = [mark("B", "outer", 1), mark("B", "inner", 2), mark("E", "inner", 3.5), mark("E", "outer", 9),
              mark("E", "alone", 10), mark("B", "open", 11)]  # fmt: skip
    trace = read_chrome(write(tmp_path / "t.json", *events))
    assert trace.host.select("name", "start", "duration").cast({"name": pl.String}).rows() == [
        ("outer", 1000, 8000),
        ("inner", 2000, 1500),
    ]
    assert trace.host["parent"].to_list() == [None, 0]
    assert (trace.source.events_parsed, trace.source.events_total) == (4, 6)


def test_begin_and_end_belong_together_however_their_thread_is_spelled(tmp_path):
    halves = [("B", "1", "7", 1), ("B", '"1"', '"io"', 2), ("B", '"1"', '"main"', 3), ("E", "1.0", "70e-1", 4),
              ("E", "1", '"io"', 5), ("E", "1", '"main"', 6)]  # fmt: skip
    events = (
        f'{{"ph":"{ph}","name":"a","cat":"cpu_op","pid":{pid},"tid":{tid},"ts":{ts}}}' for ph, pid, tid, ts in halves
    )
    (path := tmp_path / "t.json").write_text(f'{{"traceEvents":[{",".join(events)}]}}')
    trace = read_chrome(path)
    assert trace.host.select("start", "duration").sort("start").rows() == [(1000, 3000), (2000, 3000), (3000, 2000)]
    assert [note.kind for note in trace.notes] == ["repaired"]  # threads without a number lie on one, and are cut there


def test_begin_and_end_events_may_stand_in_any_order(tmp_path):
    def mark(phase, name, ts):
        return {"ph": phase, "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts}

    events = [mark("B", "step", 0), mark("B", "a", 1), mark("E", "a", 10), mark("B", "a", 10), mark("B", "z", 11),
              mark("E", "z", 11), mark("E", "a", 20), mark("E", "step", 20), mark("B", "step", 20), mark("B", "b", 21),
              mark("E", "b", 30), mark("E", "step", 40)]  # fmt: skip
    expected = [("step", 0, 20_000), ("a", 1000, 9000), ("a", 10_000, 10_000), ("z", 11_000, 0),
                ("step", 20_000, 20_000), ("b", 21_000, 9000)]  # fmt: skip
    for seed in range(40):
        if seed:
            random.Random(seed).shuffle(events)
        trace = read_chrome(write(tmp_path / "t.json", *events))
        assert trace.host.select("name", "start", "duration").cast({"name": pl.String}).rows() == expected, seed
        assert not trace.notes


def test_of_two_lists_of_events_the_last_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 20_000)

    def events(name, count):
        return json.dumps([kernel(ts=10 * i, name=name) for i in range(count)])

    path = tmp_path / "t.json"
    for many in (3, 1000):  # in one chunk, and over several
        for between in ("", '"deviceProperties": [{"id": 0, "name": "G"}], '):
            for count in (0, 2, many):
                lists = (f'"traceEvents": {events(name, size)}' for name, size in (("first", many), ("last", count)))
                path.write_text("{" + f", {between}".join(lists) + ', "z": 1}')
                trace = read_chrome(path)
                assert trace.device["name"].cast(pl.String).to_list() == ["last"] * count
                assert [note.reason for note in trace.notes if note.kind == "repaired"] == [layout.TWICE]
                assert [device.name for device in trace.info.devices] == ["G"] * bool(between)
                with pytest.raises(TraceError, match="traceEvents more than once"):
                    cut(path, tmp_path / "cut.json", (0, 10**9))


def test_counters_are_kept(tmp_path):
    event = {
        "ph": "C",
        "name": "GPU 0 Utilization",
        "pid": "GPU 0 Counters",
        "ts": 3,
        "args": {"busy": 0.5, "note": "x"},
    }
    trace = read_chrome(write(tmp_path / "t.json", kernel(), event))
    assert trace.counters.select("time", "value").rows() == [(3000, 0.5)]


def test_environment_variables_are_not_kept(tmp_path):
    path = write(tmp_path / "t.json", kernel(), PT_PROFILER_JOB_NAME="hunter2", host_name="secret-host")
    trace = read_chrome(path)
    assert "hunter2" not in repr(trace.info)
    assert "secret-host" not in repr(trace.info)


def test_progress_counts_up_and_cancel_keeps_what_was_read(monkeypatch):
    import threading

    monkeypatch.setattr(chunks, "CHUNK_BYTES", 1_000_000)
    path = recorded("chrome/gpt_small_ctx256.trace.json.gz")
    seen, cancel = [], threading.Event()

    def watch(progress):
        seen.append(progress)
        if progress.events > 10_000:
            cancel.set()

    trace = open_path(path, progress=watch, cancel=cancel, cache=False).traces[0]
    assert trace.source.partial
    assert 10_000 < trace.source.events_parsed < 47_129
    assert [p.events for p in seen] == sorted(p.events for p in seen)
    assert all(p.done <= p.total for p in seen)
    whole = open_path(path, cache=False).traces[0]
    assert not whole.source.partial
    assert whole.source.events_parsed == 47_129


def test_keys_that_resemble_one_are_not_it(tmp_path):
    """Each key that is read, with its last or a middle letter changed, and with letters added."""
    decoys = {}
    for key in tokens.ARGUMENTS:
        for other in (key + "s", key[:-1], key[:-1] + "?", key[: len(key) // 2] + "~" + key[len(key) // 2 + 1 :]):
            if other not in tokens.ALL and len(other) > 2:
                decoys[other] = 77
    plain = kernel(args={"device": 1, "stream": 2, "context": 3, "registers per thread": 4, "bytes": 5})
    spoiled = kernel(args={**plain["args"], **decoys})
    trace = read_chrome(write(tmp_path / "t.json", plain, spoiled))
    first, second = trace.device.drop("offset").rows()
    assert first == second


@pytest.mark.parametrize("numbers", [[5] * 40, [5, 5, 6] * 14, [12345678, 12345679] * 20, [123456789012] * 40])
def test_threads_that_repeat_and_change(tmp_path, numbers):
    operator = {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "dur": 1}
    path = write(tmp_path / "t.json", *({**operator, "tid": tid, "ts": n} for n, tid in enumerate(numbers)))
    assert sorted(read_chrome(path).host["thread"]) == sorted(numbers)
