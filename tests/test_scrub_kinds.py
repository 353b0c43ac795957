"""Copies to share, of files of every kind: what is private in odd places or damaged parts of them is not there."""

import gzip
import json
import os
import pickle
import random
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import planted
import pytest
from as_json import report
from ncu_file import long_table
from nsys_file import NsysFile
from planted import DOC, FORMATS, KINDS, left, plants, table
from sample_runs import recorded

from tracetui.app.cli.main import main
from tracetui.collectors.scrub import LeftOut, Scrubbed, scrub, scrub_file
from tracetui.collectors.scrubbing.marks import DAMAGED
from tracetui.collectors.scrubbing.redactor import Redactor
from tracetui.parsers import TraceError, open_path
from tracetui.parsers.runs.detect import files_below


@pytest.mark.parametrize("form", FORMATS)
def test_no_kind_is_left(tmp_path: Path, form: str) -> None:
    assert len(KINDS) > 100
    what = plants(seed=11)
    values = left(tmp_path, form, what, in_names=False, names=False)
    assert [(plant.kind.title, plant.form) for plant in values] == []
    names = left(tmp_path, form, what, in_names=True, names=True)
    assert [(plant.kind.title, plant.form) for plant in names] == []


@pytest.mark.parametrize("form", ["Chrome", "run.json"])
@pytest.mark.parametrize("names", [False, True])
def test_no_kind_is_left_in_a_file_that_escapes_its_letters(tmp_path: Path, form: str, names: bool) -> None:
    what = [plant for plant in plants(seed=5) if plant.form == "in a sentence"]
    name, write = planted._WRITERS[form]
    write(tmp_path / name, what, names=names)
    text = (tmp_path / name).read_text("utf-8")
    for plant in what:
        escaped = "".join(f"\\u{ord(letter):04x}" for letter in plant.text)
        text = text.replace(json.dumps(plant.text), f'"{escaped}"')
    assert text.count("\\u0062\\u0065\\u0067\\u0061\\u006e") >= len(what) // 2  # "began"
    (tmp_path / name).write_text(text, "utf-8")
    scrub_file(tmp_path / name, tmp_path / "copy" / name, Redactor(names=names))
    held = planted.content(tmp_path / "copy" / name)
    assert [plant.kind.title for plant in what if plant.word in held] == []


def test_the_table_in_the_documentation_is_what_came_of_it() -> None:
    """Nothing is left of any kind, as the test above shows; here only that the page has each of them."""
    assert table({form: ([], []) for form in FORMATS}) in DOC.read_text(encoding="utf-8"), "run `make trust`"


NAMES = (
    "aten::mm", "void k<(ns::E)3, 1.2.3>(a*, b&)", "triton_poi_fused_add_0", "cutlass::Kernel2<x, 1, false>",
    "ProfilerStep#3", "nccl:all_reduce", "layer1:1024", "torch.nn.modules.conv", "threading.local", "a@plt",
    "## Call CompiledFxGraph fxp2qzv3mbn4xrwk7yd5sg6t ##", "cuBLAS 13.0.2.14", "step=3", "max_tokens=512",
    "pass: forward",
    "_ZN2at6native18elementwise_kernelILi128ELi4EEEviT1_", "jit(f)/jit(main)/dot_general", "/host:CPU", "fusion.10.2.3",
    "memcpy@GLIBC_2.14", "Optimizer.step#AdamW.step", "autograd::engine::evaluate_function: MmBackward0",
    "google.protobuf.internal.decoder", "model.layers.0.self_attn.q_proj", "nn.Module: Linear_0", "(1, 2, 3)",
    "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", "0x7f3a2b10", "12:30:45", "3.9 ms", "key: value",
    "conv1:/relu", "bmm[128,256]", "x[0,1]", "1234.5678.9012", "0000:3b:00.0", "user id = 3", "Uid=1000;",
    "SHA256: 64 rounds", "nvcr.io/nvidia/pytorch:24.05-py3", "https://huggingface.co/docs/transformers", "author",
    "+1 -2 +3", "r8_conv_16x16x16", "commit 9f2c4e1a7b3d5f60718293a4b5c6d7e8f9012345", "fw::Functor1:1024:2048:a:b",
    "uid=0x7f", "SK_conv2d_fp16_nhwc_16816", "ProfilerStepProfilerStep", "aten::convolution_backward", "CN=3, C=4",
    "project=run", "a:1024:2048:64:float32", "secret_sharing_kernel_v2", "key-value-cache-update",
    "ops_eye_64x64_float32_kernel", "dp.pt.layer", "AC coupling",
    "s.register_forward_hook_2", "CACHE_KEY f3a1", "op_key: 12", "models--", "gid=(3)", "GRAPH_USER: 3",
    "\\u0061\\u0064\\u0064",
    "Modules.linear.forward_of_all_the_layers_in_turn_1", "key-value-cache-update-of-all-layers-1", "--dataset x",
)  # fmt: skip


@pytest.mark.parametrize("text", NAMES)
def test_a_name_that_is_nobodys_stays(text: str) -> None:
    assert Redactor(names=True).name(text) == text
    assert Redactor().value(text) == text


def test_names_are_replaced_one_to_one() -> None:
    redactor = Redactor(names=True)
    names = [f"load {what} {n}" for what in ("ada@gpu-7", "bob@gpu-7", "s3://a/x", "s3://b/x") for n in (1, 2)]
    names += [f"read hf_abcdefghijklmnop{n}" for n in range(3)] + [f"10.2.3.{n}" for n in range(1, 4)]
    names += [f"node{n}.cluster.internal" for n in range(3)] + [f"fe80::{n}:1:2" for n in range(3)]
    new = [redactor.name(name) for name in names]
    assert len(set(new)) == len(names), new
    assert [redactor.name(name) for name in names] == new, "the same each time"
    assert [redactor.name(name) for name in new] == new, "the copy of a copy is the same"
    assert new[0] == "load user-1 1"


def test_hosts_have_one_number_in_all_files_of_a_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for n, hosts in enumerate((("gpu-a1", "gpu-b2"), ("gpu-b2", "gpu-a1"))):
        document = {"hostname": hosts[0], "note": f"{hosts[0]} asks {hosts[1]}:29500", "traceEvents": []}
        (run / f"{n}.json").write_text(json.dumps(document))
    found = [one for one in scrub([run], None, redactor=Redactor()) if isinstance(one, Scrubbed)]
    copies = [json.loads(one.target.read_text()) for one in found]
    assert copies[0]["note"] == "host-1 asks host-2:29500"
    assert (copies[1]["hostname"], copies[1]["note"]) == ("host-2", "host-2 asks host-1:29500")


def test_a_link_that_leads_out_is_not_followed(tmp_path: Path) -> None:
    outside, run = tmp_path / "outside", tmp_path / "run"
    outside.mkdir()
    run.mkdir()
    (outside / "o.json").write_text('{"traceEvents": []}')
    (run / "in.json").write_text('{"traceEvents": []}')
    (run / "link.json").symlink_to(outside / "o.json")
    (run / "folder").symlink_to(outside)
    (run / "within.json").symlink_to(run / "in.json")
    found = scrub([run], None, redactor=Redactor())
    left_out = {one.source.relative_to(run).as_posix(): one.reason for one in found if isinstance(one, LeftOut)}
    assert left_out.keys() == {"link.json", "folder/o.json"}
    assert set(left_out.values()) == {"a link that leads out of the folder"}
    assert {one.target.name for one in found if isinstance(one, Scrubbed)} == {"in.json", "within.json"}


def test_what_cannot_be_judged_is_said_and_strict_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.json"
    name = {"ph": "X", "cat": "cpu_op", "name": "load s3://zq/x", "ts": 1, "dur": 1, "pid": 1, "tid": 1}
    event = name | {"name": "aten::mm", "args": {"note": "Zk3vQ9xT7bLm2RwY8nHc4PdS"}}
    path.write_text(json.dumps({"traceEvents": [name, event]}))
    assert main(["scrub", str(path)]) == 0
    said = capsys.readouterr().out
    assert "look at: 1 name that only --names changes (load s3://zq/x); 1 text with a word that may be a key" in said
    copy = tmp_path / "t.scrubbed.json"
    copy.unlink()
    assert main(["scrub", str(path), "--strict"]) == 1
    assert "not copied: 1 name" in capsys.readouterr().err
    assert not copy.exists()
    event["args"] = {}
    path.write_text(json.dumps({"traceEvents": [name, event]}))
    assert main(["scrub", str(path), "--names", "--strict"]) == 0
    assert json.loads(copy.read_text())["traceEvents"][0]["name"] == "load s3://place-1"


def test_a_setting_of_raw_bytes_in_an_export_of_2022(tmp_path: Path) -> None:
    file = NsysFile()
    file.launch("gemm", call=(10, 20), kernel=(30, 60))
    file.row("TARGET_INFO_SYSTEM_ENV", globalVid=1, name="NvDriverVersion", value="515.1")
    path = file.write(tmp_path / "n.sqlite")
    connection = sqlite3.connect(path)
    raw = b"\x0a\x10\xff\xfe\x80GPU zqsecret"
    connection.execute("INSERT INTO TARGET_INFO_SYSTEM_ENV (name, value) VALUES ('GpuInfo', CAST(? AS TEXT))", (raw,))
    connection.execute("INSERT INTO TARGET_INFO_SYSTEM_ENV (name, value) VALUES ('GpuInfo2', ?)", (raw,))
    connection.execute("INSERT INTO TARGET_INFO_SYSTEM_ENV (name, value) VALUES (CAST(? AS TEXT), NULL)", (raw,))
    connection.commit()
    connection.close()
    copy = scrub_file(path, tmp_path / "copy.sqlite", Redactor()).target
    assert b"zqsecret" not in copy.read_bytes()
    connection = sqlite3.connect(copy)
    kept = connection.execute("SELECT name, value FROM TARGET_INFO_SYSTEM_ENV").fetchall()
    assert kept == [("NvDriverVersion", "515.1")]
    connection.close()


def test_other_processes_of_the_machine_have_no_names(tmp_path: Path) -> None:
    file = NsysFile()
    file.launch("gemm", call=(10, 20), kernel=(30, 60))
    path = file.write(tmp_path / "n.sqlite")
    connection = sqlite3.connect(path)
    (process,) = connection.execute("SELECT globalPid FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
    connection.execute("CREATE TABLE IF NOT EXISTS PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT)")
    connection.execute("DELETE FROM PROCESSES")
    rows = [(process, 100, "python3"), (process + (7 << 24), 107, "zqeditor"), (process + (8 << 24), 108, "zqmail")]
    connection.executemany("INSERT INTO PROCESSES (globalPid, pid, name) VALUES (?, ?, ?)", rows)
    connection.commit()
    connection.close()
    connection = sqlite3.connect(scrub_file(path, tmp_path / "copy.sqlite", Redactor()).target)
    assert [name for (name,) in connection.execute("SELECT name FROM PROCESSES ORDER BY pid")] == [
        "python3",
        "process-1",
        "process-2",
    ]
    connection.close()


def test_a_log_is_copied_when_it_is_named_itself(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("epoch 1\n-----BEGIN KEY-----\nabc\n-----END KEY-----\nloss 0.5 on gpu-a1:29500\n")
    copy = tmp_path / "copy.txt"
    scrub([log], copy, redactor=Redactor())
    assert copy.read_text() == "epoch 1\n***\nloss 0.5 on host-1:29500\n"
    (found,) = scrub([tmp_path], tmp_path / "out", redactor=Redactor())[:1]
    assert isinstance(found, (LeftOut, Scrubbed))


def test_strict_raises_nothing_where_all_is_judged(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents": [{"name": "aten::mm", "ph": "X", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]}')
    assert scrub_file(path, tmp_path / "c.json", Redactor(), strict=True).unjudged == ()
    with pytest.raises(TraceError, match="is there already"):
        scrub_file(path, tmp_path / "c.json", Redactor(), strict=True)


def test_the_command_line_of_an_own_program_is_no_name(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "child").mkdir(parents=True)
    line = "python /home/ada/x/train.py --token s3cret --model /models/private/llama --lr 0.1"
    document = {"schema": "tracetui.run/1", "workload": {"model": line, "steps": 3}, "identity": {}}
    (run / "run.json").write_text(json.dumps(document))
    (run / "child" / "spec.torch.json").write_text(json.dumps({"tool": "torch", "script": line.split()}))
    found = scrub([run], None, redactor=Redactor())
    (copy,) = (one.target for one in found if isinstance(one, Scrubbed))
    model = json.loads(copy.read_text())["workload"]["model"]
    assert model == "python /redacted/train.py --token *** --model place-1 --lr 0.1"
    assert [one.source.name for one in found if isinstance(one, LeftOut)] == ["spec.torch.json"]
    document["workload"] = {"model": "vim_tiny"}
    (run / "run.json").write_text(json.dumps(document))
    again = scrub_file(run / "run.json", tmp_path / "again.json", Redactor(names=True)).target
    assert json.loads(again.read_text())["workload"]["model"] == "vim_tiny"


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("ops/ops.trace.json.gz", True),
        ("nsys/graph_node.sqlite.gz", True),
    ],
)
def test_no_number_of_a_report_changes(tmp_path: Path, name: str, names: bool) -> None:
    source = recorded(name)
    copy = scrub_file(source, tmp_path / source.name, Redactor(names=names))
    before, after = (
        json.loads(json.dumps(report(open_path(path, cache=False))).replace(str(path), "FILE"))
        for path in (source, copy.target)
    )
    assert list(differing(before, after)) == []


def differing(a: Any, b: Any, at: str = "") -> Iterator[str]:
    """Where two reports differ; paths, the size of the file, which is packed anew, and rounding aside."""
    if isinstance(a, dict) and isinstance(b, dict):
        if a.keys() != b.keys():
            yield f"{at}: {a.keys() ^ b.keys()}"
        for key in a.keys() & b.keys():
            yield from differing(a[key], b[key], f"{at}/{key}")
    elif isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            yield f"{at}: {len(a)} and {len(b)}"
        for n, (one, two) in enumerate(zip(a, b, strict=False)):
            yield from differing(one, two, f"{at}[{n}]")
    elif isinstance(a, str) and isinstance(b, str):
        if a != b and "/redacted/" not in b:
            yield f"{at}: {a!r} is {b!r}"
    elif type(a) is not type(b) or (a != b and not at.endswith("/source/bytes") and a != pytest.approx(b, rel=1e-12)):
        yield f"{at}: {a!r} is {b!r}"


def test_no_text_takes_long_or_nests_too_deep() -> None:
    units = ("a", "a-", "a.", "/a", "a:", "a=", "--a ", "%41", "1.", "a b/", "/home/a ", "ab:", "\\a", "key ", "token ",
             "x-1",
             '"a":', "://a", "a/b@", "docker -p", "?sig=&", "::1", "-----BEGIN A", "machine id ",
             "curl -u ", "author: A ", "arn:aws:a:a:", "a.a:1234:", "|1|a", "+1 20 ", "CN=a,OU=", "a1:/", "uid=a",
             "a=\\\"", "\\\"a\\\":", "gcr.io/a-", "YWRh", "user id=a", "a[01", "projects/a/", "mnemonic a ",
             "wandb login ")  # fmt: skip
    started = time.process_time()
    for unit in units:
        Redactor(names=True).value(unit * (20_000 // len(unit)))
    assert time.process_time() - started < 10


WORDS = {"hf_Qabcdefghijklmnop%d": "Qabcdefghijklmnop%d", "/home/zqu%d/x.py": "zqu%d", "zqm%d@example.org": "zqm%d",
         "zqh%d.cluster.internal": "zqh%d", "ada@zqn%d": "zqn%d"}  # fmt: skip


@pytest.mark.parametrize("indent", [None, 1])
def test_a_missing_or_foreign_quote_shows_nothing_behind_it(tmp_path: Path, indent: int | None) -> None:
    events = []
    for n in range(20):
        args = {f"k{i}": word % (100 * n + i) for i, word in enumerate(WORDS)} | {"token": f"Zt{n}q", "n": n + 0.125}
        events.append(
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": n, "dur": 1, "pid": 1, "tid": 1, "args": args}
        )
    content = json.dumps({"schemaVersion": 1, "traceEvents": events}, indent=indent).encode()
    private = [word % (100 * n + i) for n in range(20) for i, word in enumerate(WORDS.values())]
    private += [f"Zt{n}q" for n in range(20)]
    quotes = [at for at, byte in enumerate(content) if byte == ord('"')]
    path, copy = tmp_path / "a.json", tmp_path / "b.json"
    reasons: set[str] = set()
    for at in quotes[len(quotes) // 3 : len(quotes) // 3 + 60 : 5]:
        damaged = (content[:at] + content[at + 1 :], content[:at] + b'"' + content[at:])
        for text in (damaged[0], damaged[1], content[:at] + bytes(1) + content[at + 1 :], content[: at + 9]):
            path.write_bytes(text)
            found = scrub_file(path, copy, Redactor(), force=True)
            held = copy.read_text("utf-8", "replace")
            # the value at the damage may no longer be told from any other
            assert sum(word in held for word in private) <= 1, (at, text[at - 40 : at + 40])
            assert held.count(".125") >= text.count(b".125") - 1, "numbers stay, but in a string that damage made"
            reasons.update(dict(found.unjudged).values())
    assert reasons == {DAMAGED}


def test_what_stands_outside_of_strings_in_an_intact_file_is_copied_as_it_is(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.json", tmp_path / "b.json"
    odd = {
        "a": ": ",
        "b": ", ",
        "c": "}]",
        "d": ":1",
        "e": [True, False, None, float("nan"), float("-inf"), 1e-300],
        "f": "",
    }
    path.write_text(json.dumps({"traceEvents": [{"ph": "X", "ts": 1, "dur": 2, "name": "k", "args": odd}]}))
    assert scrub_file(path, copy, Redactor(), strict=True).unjudged == ()
    assert copy.read_text() == path.read_text()


SECRET = "hf_Qzabcdefghijklmnop1234"


@pytest.mark.parametrize("key", ["ph", "s", "bp", "ts", "displayTimeUnit", "schema", "status", "trace_id"])
def test_keys_whose_values_stay_hide_nothing(tmp_path: Path, key: str) -> None:
    path, copy = tmp_path / "a.json", tmp_path / "b.json"
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2, "pid": 1, "tid": 1}
    said = {
        "a": {key: SECRET},
        "b": {key: "failed at /home/zqada/x.py"},
        "c": {key: ["ada@zqnode"]},
        "d": {key: "finished"},
    }
    path.write_text(json.dumps({"traceEvents": [{**event, "args": said}], key: SECRET}))
    scrub_file(path, copy, Redactor())
    held = copy.read_text()
    assert SECRET not in held
    assert "zqada" not in held
    assert "zqnode" not in held
    assert json.loads(held)["traceEvents"][0]["args"]["d"] == {key: "finished"}


STATEMENTS = {
    "a default": f"CREATE TABLE t (a TEXT DEFAULT '{SECRET}', b)",
    "a table's name": f'CREATE TABLE "{SECRET}" (a)',
    "a column's name": f'CREATE TABLE t ("{SECRET}" TEXT, b)',
    "the only column's name": f'CREATE TABLE t ("{SECRET}" TEXT)',
    "a comment": f"CREATE TABLE t (a /* {SECRET} */, b)",
    "a condition": f"CREATE TABLE t (a CHECK (a != '{SECRET}'))",
    "a generated column": f"CREATE TABLE t (a, b AS ('{SECRET}' || a))",
    "a view": f"CREATE VIEW v AS SELECT '{SECRET}' AS a",
    "a trigger": f"CREATE TRIGGER g AFTER INSERT ON StringIds BEGIN SELECT '{SECRET}'; END",
    "an index's name": f'CREATE INDEX "{SECRET}" ON StringIds(value)',
    "an index's condition": f"CREATE INDEX i ON StringIds(value) WHERE value != '{SECRET}'",
    "a number's column": f"CREATE TABLE t (a INTEGER, b REAL); INSERT INTO t VALUES ('{SECRET}', '{SECRET}')",
    "bytes": f"CREATE TABLE t (a); INSERT INTO t VALUES (CAST('{SECRET}' AS BLOB))",
    "a name in bytes": f"INSERT INTO StringIds VALUES (900, CAST('{SECRET}' AS BLOB))",
    "bytes of UTF-16": f"CREATE TABLE t (a); INSERT INTO t VALUES (x'{SECRET.encode('utf-16-le').hex()}')",
    "packed bytes": f"CREATE TABLE t (a); INSERT INTO t VALUES (x'{gzip.compress(SECRET.encode()).hex()}')",
    "a removed row": f"CREATE TABLE t (a); INSERT INTO t VALUES ('{SECRET}'); DELETE FROM t",
    "statistics": f"CREATE TABLE t (a, b); CREATE INDEX i ON t(a); INSERT INTO t VALUES ('{SECRET}', 1); ANALYZE",
}


@pytest.mark.parametrize("place", STATEMENTS)
def test_no_place_of_a_database_hides_anything(tmp_path: Path, place: str) -> None:
    file = NsysFile()
    file.launch("gemm", call=(10, 20), kernel=(30, 60))
    path = file.write(tmp_path / "n.sqlite")
    whole = open_path(path, cache=False).main
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(STATEMENTS[place])
        connection.commit()
    copy = scrub_file(path, tmp_path / "copy.sqlite", Redactor()).target
    content = copy.read_bytes()
    for part in (SECRET.encode(), SECRET.encode("utf-16-le"), gzip.compress(SECRET.encode())[10:-8]):
        assert part not in content
    after = open_path(copy, cache=False).main
    assert after.device.equals(whole.device)
    assert after.host.equals(whole.host)


def test_a_table_of_events_is_written_anew_with_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "n.sqlite"
    path.write_bytes(gzip.decompress(recorded("nsys/graph_node.sqlite.gz").read_bytes()))
    whole = open_path(path, cache=False).main
    table = "CUPTI_ACTIVITY_KIND_KERNEL"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"ALTER TABLE {table} ADD COLUMN \"{SECRET}\" TEXT DEFAULT 'x'")
        before = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        connection.commit()
    copy = scrub_file(path, tmp_path / "copy.sqlite", Redactor()).target
    assert SECRET.encode() not in copy.read_bytes()
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == before
    after = open_path(copy, cache=False).main
    assert after.device.drop("name").equals(whole.device.drop("name"))


def test_names_of_files_say_nothing_of_the_machine(tmp_path: Path) -> None:
    run = tmp_path / "of ada@zqnode"
    names = (
        "zqlab-7_4711.1712345678901.pt.trace.json", "plugins/profile/2024_05_01/zqjax8.trace.json", "rank0.json",
        "ip-10-83-0-7.json", "zq9.corp.example.json", "rank1_7.1712345678901.pt.trace.json",
    )  # fmt: skip
    for name in names:
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text('{"traceEvents": [], "note": "zqlab-7 asks zqjax8"}')
    found = [one for one in scrub([run], None, redactor=Redactor()) if isinstance(one, Scrubbed)]
    copies = {one.source.relative_to(run).as_posix(): one.target for one in found}
    assert copies.keys() == set(names)
    assert not any("zq" in str(target.relative_to(tmp_path)) or "10-83" in target.name for target in copies.values())
    kept = copies["plugins/profile/2024_05_01/zqjax8.trace.json"].relative_to(copies["rank0.json"].parent)
    assert kept.parent.as_posix() == "plugins/profile/2024_05_01"
    assert kept.name.endswith(".trace.json")
    assert copies[names[0]].name.endswith("_4711.1712345678901.pt.trace.json")
    assert {copies[name].name for name in (names[2], names[5])} == {names[2], names[5]}
    assert not any("zq" in target.read_text() for target in copies.values())
    (alone,) = scrub([run / names[0]], None, redactor=Redactor())
    assert isinstance(alone, Scrubbed)
    assert alone.target.name == "host-1_4711.1712345678901.scrubbed.pt.trace.json"


def test_a_source_page_of_ncu_keeps_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    text = gzip.decompress(recorded("ncu/source_lines.csv.gz").read_bytes()).decode()
    whole = open_path(written(path, text), cache=False).main
    rows = text.split("\n")
    at = next(n for n, row in enumerate(rows) if row.startswith('"File'))
    rows[at] = '"File Path","/home/zqada/secret/t.cu"'
    rows.insert(at, "epoch 1 of ada@zqnode")
    copy = scrub_file(written(path, "\n".join(rows)), tmp_path / "copy.csv", Redactor()).target
    assert "zq" not in copy.read_text()
    found = open_path(copy, cache=False).main
    assert found.device.equals(whole.device)
    columns = ["device_row", "metric", "value"]
    assert found.counters.select(columns).equals(whole.counters.select(columns))


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_headers_of_ncu_and_keys_of_bytes(tmp_path: Path) -> None:
    table = long_table([(0, "k", "Occupancy", "Achieved", "block", "1")])
    path = written(tmp_path / "a.csv", table.replace('"Metric Value"', f'"Metric Value","{SECRET}"', 1))
    copy = scrub_file(path, tmp_path / "b.csv", Redactor()).target
    assert SECRET not in copy.read_text()
    assert open_path(copy, cache=False).main.counters.height == 1
    value = {"segments": [], "device_traces": [[]], "x": {SECRET.encode(): 1, f"{SECRET}2".encode(): 2}}
    (path := tmp_path / "m.pickle").write_bytes(pickle.dumps(value))
    content = pickle.loads(scrub_file(path, tmp_path / "c.pickle", Redactor()).target.read_bytes())
    assert content["x"] == {b"***": 1, b"***2": 2}


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    assert main(["scrub", str(tmp_path / "pipe.json")]) == 1
    assert "neither a file nor a folder" in capsys.readouterr().err


def test_the_current_folder_is_copied_beside_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder := tmp_path / "run").mkdir()
    (folder / "t.json").write_text('{"traceEvents": [{"ph": "X", "name": "k", "ts": 1, "dur": 1, "pid": 1, "tid": 1}]}')
    monkeypatch.chdir(folder)
    assert main(["scrub", "."]) == 0
    assert (tmp_path / "run.scrubbed" / "t.json").exists()


def test_a_link_that_leads_back_up_shows_no_file_twice(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("{}")
    (tmp_path / "in").mkdir()
    (tmp_path / "self").symlink_to(".")
    (tmp_path / "in" / "up").symlink_to("..")
    assert list(files_below(tmp_path)) == [tmp_path / "t.json"]


CUT = ("Chrome", "JAX", "ncu", "run.json", "log.txt")
"""Formats of which a part can be read; a damaged database or a pickle that is cut off gives no copy."""


def _fragment(word: str, held: str) -> str | None:
    """A part of a word that is no chance."""
    return next((word[at : at + 7] for at in range(len(word) - 6) if word[at : at + 7] in held), None)


@pytest.mark.parametrize("form", CUT)
def test_a_secret_that_the_end_of_the_file_cuts_is_not_in_the_copy(tmp_path: Path, form: str) -> None:
    """A part of a key has no known form, but the text in which it stands has no end."""
    dice = random.Random(form)
    name, writer = planted._WRITERS[form]
    source, copy = tmp_path / name, tmp_path / "copies" / name
    what = [plant for plant in planted.plants(11) if len(plant.word) >= 7]
    tried = 0
    for plant in dice.sample(what, 60):
        before = dice.choice(what)
        writer(source, [before, plant], names=False)
        content = source.read_bytes()
        plain = gzip.decompress(content) if name.endswith(".gz") else content
        places = [match.start() for match in re.finditer(re.escape(plant.word.encode()), plain)]
        if not places:
            continue
        plain = plain[: dice.choice(places) + dice.randint(min(7, len(plant.word) - 1), len(plant.word) - 1)]
        source.write_bytes(gzip.compress(plain) if name.endswith(".gz") else plain)
        scrub_file(source, copy, Redactor(), force=True)
        held = planted.content(copy)
        assert _fragment(plant.word, held) is None, (plant, plain[-60:], held[-60:])
        tried += 1
    assert tried > 40


@pytest.mark.parametrize("args", ['"password": "zq81-kept", "n": 12.25', '"n": 12.25, "password": "zq81-kept"'])
def test_a_string_beside_damage_is_not_in_the_copy(tmp_path: Path, args: str) -> None:
    """What has lost its key, its quotes or its end can't be judged; intact events beside it are copied as they are."""
    path, copy = tmp_path / "a.json", tmp_path / "b.json"
    whole = {"ph": "X", "name": "aten::mm", "cat": "cpu_op", "ts": 1, "dur": 2.5, "pid": 1, "tid": 1, "args": {"n": 7}}
    damages = (
        ('"password"', '"pass\x00ord"'), ('"password": ', 'word": '), ('"password": ', '"password" '), (": ", ""),
        ('"zq', '"x" "zq'), ('ept"', 'ept"x'), ('ept"', "ept"), ('"zq', "zq"), ('ept"', 'ept\xff"'),
        ('"password"', '"passwo\\qrd"'), ('"password": ', '"password": "x", '), ('"password": ', '"password": 5, '),
    )  # fmt: skip
    for old, new in damages:
        damaged = json.dumps(whole | {"args": 0})[:-2] + "{" + args.replace(old, new, 1) + "}}"
        assert args.replace(old, new, 1) != args
        text = '{"traceEvents": [' + ", ".join([json.dumps(whole), damaged, json.dumps(whole)]) + "]}"
        path.write_bytes(text.encode("latin-1"))
        scrub_file(path, copy, Redactor(), force=True)
        left = copy.read_text("utf-8", "replace")
        assert "zq81" not in left, (old, new)
        assert left.count(json.dumps(whole)) == 2, (old, new)


def test_lines_of_a_log_that_are_not_whole_are_left_out(tmp_path: Path) -> None:
    path, copy = tmp_path / "log.txt", tmp_path / "copy.txt"
    path.write_text("began\nkey zq\n[123 bytes left out]\n71fe\nloss 0.5\nghp_zqtail")
    scrub_file(path, copy, Redactor())
    assert copy.read_text() == "began\n***\n[123 bytes left out]\n***\nloss 0.5\n***"
