"""The JSON Schemas against what the commands really print."""

import json

import pytest
from as_json import report
from by_schema import KEYS, all_keys, jsonschema, wrong
from sample_runs import DATA, SWEEP, recorded, report_of

from tracetui.analysis.report.report import SECTIONS
from tracetui.analysis.schemas.outputs import OUTPUTS, json_schema, part_of
from tracetui.app.cli.commands.reference.schema import OUTPUTS as NAMES
from tracetui.app.cli.main import main
from tracetui.parsers import open_path

REPORTS = (
    "vim_tiny_fp32_bs4.pt.trace.json.gz", "two_passes", "jax_cpu.trace.json.gz", "mlp_profiled",
    "nsys/graph_node.sqlite.gz", "ncu/scan_metrics_raw.csv.gz", "memory/gpt_memory_snapshot.pickle.gz",
)  # fmt: skip


def test_no_key_comes_or_goes_or_changes_its_type_unnoticed() -> None:
    assert KEYS.read_text(encoding="utf-8") == all_keys(), "run `make docs`"


@pytest.mark.parametrize("name", ["two_passes", "mlp_profiled", "jax_cpu.trace.json.gz"])
def test_reports(name) -> None:
    """Those of other recordings are in `test_report`."""
    assert not wrong("report", report_of(name))


@pytest.mark.parametrize("name", ["chrome/ddp_vit_small_2ranks", "ncu/mlp", "nsys/system.sqlite.gz"])
def test_sections_of_certain_recordings(name) -> None:
    sections = {"ncu/mlp": ["counters", "configurations", "roofline"], "nsys/system.sqlite.gz": ["threads", "os_calls"]}
    run = open_path(recorded(name))
    chosen = sections.get(name, ["ranks", "waiting", "stragglers", "transfers", "stages", "collectives"])
    assert not wrong("report", report(run, sections=chosen))


@pytest.mark.parametrize(
    "words",
    [
        ("diff", str(DATA / "two_passes"), str(DATA / "mlp_profiled")),
        ("sweep", str(SWEEP)),
        ("ranks", str(DATA / "chrome" / "ddp_vit_small_2ranks")),
        ("check", str(DATA / "mlp_profiled")),
        ("rules", "S1"),
        ("rules", "K1"),
        ("models", "vim_tiny"),
        ("config",),
    ],
    ids=lambda words: " ".join(words[:1]),
)
def test_other_commands(words, capsys) -> None:
    assert main([*words, "--format", "json"]) == 0
    assert not wrong(words[0], json.loads(capsys.readouterr().out))


def test_a_query_and_its_frames(capsys) -> None:
    assert main(["query", "--schema", "--format", "json"]) == 0
    assert not wrong("frames", json.loads(capsys.readouterr().out))
    pytest.importorskip("duckdb", reason="needs tracetui[query]")
    assert main(["query", str(DATA / "mlp_profiled"), "select name, grid from device limit 3", "--format", "json"]) == 0
    assert not wrong("query", json.loads(capsys.readouterr().out))


def test_a_gpu_that_the_file_does_not_tell_is_unknown(tmp_path) -> None:
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": -1, "tid": 7, "ts": 1, "dur": 5, "args": {"stream": 7}}
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": [kernel, {**kernel, "ts": 9}]}))
    found = report(open_path(tmp_path / "trace.json", cache=False))
    assert not wrong("report", found)
    (idle,) = found["run"]["traces"][0]["overview"]["idle"]["per_device"]
    assert idle["device"] is None


def test_a_wrong_report_is_refused() -> None:
    found = json.loads(json.dumps(report_of("vim_tiny_fp32_bs4.pt.trace.json.gz")))
    kernel = found["run"]["traces"][0]["kernels"][0]
    kernel["calls"], kernel["more"] = "many", 1
    del found["run"]["traces"][0]["findings"][0]["key"]
    assert len(wrong("report", found)) == 3


def test_readers_accept_keys_that_come_later() -> None:
    found = {"schema": "tracetui.query/1", "path": "", "source": {"path": "", "kind": "nsys", "rank": None}, "sql": "",
             "frames": [], "columns": [], "rows": [], "more": False, "new": 1}  # fmt: skip
    jsonschema.validate(found, json_schema("query"))
    assert wrong("query", found)


def test_the_command_prints_each_and_parts_of_the_report(capsys) -> None:
    assert tuple(OUTPUTS) == NAMES
    for name in NAMES:
        assert main(["schema", name]) == 0
        assert json.loads(capsys.readouterr().out) == json_schema(name)
    for section in SECTIONS:
        part = part_of(json_schema("report"), section)
        assert part is not None
        jsonschema.Draft202012Validator.check_schema(part)
    assert main(["schema", "report", "kernels"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["$defs"]["kernels"]["properties"]["total_us"]["x-unit"] == "µs"
    assert said["$defs"]["kernels"]["x-key"] == "name"
    assert main(["schema", "report", "nothing"]) == 2


@pytest.mark.parametrize("name", [name for name in REPORTS if (DATA / name).exists()])
def test_the_key_of_a_table_names_a_row_once(name) -> None:
    """Rows have the same name in every report: it is a column, and not a position."""
    schema = json_schema("report")
    for trace in report_of(name)["run"]["traces"]:
        for section in ("kernels", "operators", "modules", "host_functions", "api", "ranges", "range_tree", "memops"):
            part = part_of(schema, section)
            assert part is not None
            (key,) = [row["x-key"] for row in part["$defs"].values()]
            names = [row[key] for row in trace[section]]
            assert len(set(names)) == len(names)
        keys = [row["key"] for row in trace["findings"]]
        assert len(set(keys)) == len(keys)
