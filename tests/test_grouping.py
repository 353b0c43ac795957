"""Which files of a folder are one run."""

import shutil
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from nsys_file import NsysFile
from sample_runs import recorded

from tracetui.parsers import Cancelled, TraceError, open_path
from tracetui.parsers.nsys.database import kernel_keys as nsys_kernel_keys
from tracetui.parsers.runs.detect import Candidate
from tracetui.parsers.runs.finding import group

ROOT = Path("/runs")
GEMM, NORM, SCAN, COPY, SOFT, HALF = "gemm", "norm", "scan", "copy", "softmax", "half_gemm"


def file(name: str, kind: str = "chrome", rank: int | None = None, world: int | None = None) -> Candidate:
    return Candidate(ROOT / name, kind, rank, world)


def runs(kernels: Mapping[Candidate, set[str]], *more: Candidate) -> list[list[str]]:
    found = group([*kernels, *more], lambda candidate: frozenset(kernels[candidate]))
    return [[str(candidate.path.relative_to(ROOT)) for candidate in run] for run in found]


def test_files_of_three_tools_with_the_same_kernels_are_one_run() -> None:
    chrome, nsys, ncu = file("a.json"), file("a.sqlite", "nsys"), file("a.csv", "ncu")
    assert runs({chrome: {GEMM, NORM, SCAN}, nsys: {GEMM, NORM, SCAN}, ncu: {SCAN}}) == [
        ["a.json", "a.sqlite", "a.csv"]
    ]


def test_half_of_the_fewer_kernels_must_match() -> None:
    chrome, ncu = file("a.json"), file("a.csv", "ncu")
    assert len(runs({chrome: {GEMM, NORM, SCAN}, ncu: {GEMM, COPY}})) == 1
    assert len(runs({chrome: {GEMM, NORM, SCAN}, ncu: {GEMM, COPY, SOFT}})) == 2
    assert len(runs({chrome: {GEMM}, ncu: set()})) == 2


def test_bare_names_are_held_against_bare_names() -> None:
    """What ``ncu --kernel-name-base function`` prints beside a trace with whole names."""
    trace, counters, other = file("a.json"), file("a.csv", "ncu"), file("b.json")
    whole = {"Kernel2<tn>", "Kernel2<nn>", "Agent<f::g>::run<3>", "foo::{lambda(int)#1}::apply<4>", "triton_1"}
    assert runs({trace: whole, other: {"gemm<1>", "Agent<f::g>"}, counters: {"Kernel2", "run", "apply"}}) == [
        ["a.json", "a.csv"],
        ["b.json"],
    ]
    # with whole names, a function and a template of its name are two
    assert len(runs({file("c.json"): {"gemm", "f<1>"}, file("c.csv", "ncu"): {"gemm<4>", "g<2>"}})) == 2


def test_runs_without_a_time_line_come_last() -> None:
    snapshots = (file("z.pickle", "memory_snapshot"), file("y.pickle", "memory_snapshot"))
    kernels = {file("new.csv", "ncu"): {"other"}, file("a.json"): {"gemm"}, file("b.sqlite", "nsys"): {"relu"}}
    assert runs(kernels, *snapshots) == [["a.json"], ["b.sqlite"], ["new.csv"], ["z.pickle"], ["y.pickle"]]


def test_files_of_one_tool_stay_several() -> None:
    first, second = file("a.json"), file("b.json")
    assert runs({first: {GEMM}, second: {GEMM}}) == [["a.json"], ["b.json"]]
    ncu = [file("a.csv", "ncu"), file("b.csv", "ncu")]
    assert runs({first: {GEMM}, ncu[0]: {GEMM}, ncu[1]: {GEMM}}) == [["a.json", "a.csv"], ["b.csv"]]


def test_the_best_match_wins_then_the_nearest_name_then_the_newest() -> None:
    single, half, ncu = file("net_fp32.json"), file("net_fp16.json"), file("net_fp16.csv", "ncu")
    both = {GEMM, NORM}
    assert runs({single: both, half: {HALF, NORM}, ncu: both}) == [["net_fp32.json", "net_fp16.csv"], ["net_fp16.json"]]
    assert runs({single: both, half: both, ncu: both}) == [["net_fp32.json"], ["net_fp16.json", "net_fp16.csv"]]
    newer, older, other = file("1.json"), file("2.json"), file("counters.csv", "ncu")
    assert runs({newer: both, older: both, other: both}) == [["1.json", "counters.csv"], ["2.json"]]


def test_two_programs_each_with_their_tools() -> None:
    kernels = {
        file("x/trace.json"): {GEMM, NORM},
        file("y/trace.json"): {SCAN, COPY},
        file("y/rep.sqlite", "nsys"): {SCAN, COPY},
        file("x/rep.sqlite", "nsys"): {GEMM, NORM},
    }
    assert runs(kernels) == [["x/trace.json", "x/rep.sqlite"], ["y/trace.json", "y/rep.sqlite"]]


def test_files_of_one_folder_come_first() -> None:
    kernels = {
        file("bs4/trace.json"): {GEMM, NORM, SCAN},
        file("bs8/trace.json"): {GEMM, NORM, COPY},
        file("bs4/counters.csv", "ncu"): {GEMM, COPY},
        file("bs8/counters.csv", "ncu"): {GEMM, SCAN},
    }
    assert runs(kernels) == [["bs4/trace.json", "bs4/counters.csv"], ["bs8/trace.json", "bs8/counters.csv"]]


def test_ranks_of_a_world_are_one_run_until_one_repeats() -> None:
    ranks = [file(f"r{n}.json", rank=n, world=2) for n in (0, 1)]
    again = [file(f"s{n}.json", rank=n, world=2) for n in (0, 1)]
    other = file("four.json", rank=0, world=4)
    alone = file("one.json", rank=0, world=1)
    found = runs({candidate: {GEMM} for candidate in [*ranks, *again, other, alone]})
    assert found == [["r0.json", "r1.json"], ["s0.json", "s1.json"], ["four.json"], ["one.json"]]
    ncu = file("counters.csv", "ncu")
    assert runs({candidate: {GEMM} for candidate in [*ranks, ncu]}) == [["r0.json", "r1.json", "counters.csv"]]


def test_a_memory_snapshot_joins_the_only_run_beside_it() -> None:
    chrome, snapshot = file("a/t.json"), file("a/mem.pickle", "memory_snapshot")
    assert runs({chrome: {GEMM}}, snapshot) == [["a/t.json", "a/mem.pickle"]]
    elsewhere = file("b/t.json")
    assert runs({elsewhere: {GEMM}, chrome: {NORM}}, snapshot) == [["b/t.json"], ["a/t.json", "a/mem.pickle"]]
    second = file("a/mem2.pickle", "memory_snapshot")
    assert runs({chrome: {GEMM}}, snapshot, second) == [["a/t.json", "a/mem.pickle"], ["a/mem2.pickle"]]


def test_among_several_runs_the_name_tells_whose_snapshot_it_is() -> None:
    gpt, vit = file("gpt_small.json"), file("vit_small.json")
    named = file("vit_memory_snapshot.pickle", "memory_snapshot")
    assert runs({gpt: {GEMM}, vit: {NORM}}, named) == [
        ["gpt_small.json"],
        ["vit_small.json", "vit_memory_snapshot.pickle"],
    ]
    nameless = file("snapshot.pickle", "memory_snapshot")
    assert runs({gpt: {GEMM}, vit: {NORM}}, nameless) == [["gpt_small.json"], ["vit_small.json"], ["snapshot.pickle"]]
    assert runs({}, nameless) == [["snapshot.pickle"]]


def test_kernels_are_only_asked_for_where_several_tools_are() -> None:
    def never(candidate: Candidate) -> frozenset[str]:
        raise AssertionError(candidate)

    snapshot = file("mem.pickle", "memory_snapshot")
    assert len(group([file("a.json"), file("b.json"), snapshot], never)) == 3
    assert group([], never) == []
    asked: list[Candidate] = []

    def once(candidate: Candidate) -> frozenset[str]:
        asked.append(candidate)
        return frozenset({GEMM})

    candidates = [file("a.json"), file("b.json"), file("a.csv", "ncu"), snapshot]
    group(candidates, once)
    assert asked == candidates[:3]


def test_kernel_names_of_an_nsys_export(tmp_path: Path) -> None:
    export = NsysFile()
    export.launch("void a::f<(int)4>(T1 *)", call=(0, 1), kernel=(2, 3))
    export.launch("void a::f<(int)4>(T1 *)", call=(4, 5), kernel=(6, 7))
    export.launch("gemm", call=(8, 9), kernel=(10, 11))
    assert nsys_kernel_keys(export.write(tmp_path / "a.sqlite")) == {"f<4>", "gemm"}
    broken = tmp_path / "broken.sqlite"
    broken.write_bytes((tmp_path / "a.sqlite").read_bytes()[:5000])
    assert nsys_kernel_keys(broken) in (frozenset(), {"f<4>", "gemm"})
    (tmp_path / "text.sqlite").write_text("no database")
    assert nsys_kernel_keys(tmp_path / "text.sqlite") == frozenset()
    assert nsys_kernel_keys(tmp_path / "absent.sqlite") == frozenset()


def test_a_folder_of_recordings_opens_as_one_run(tmp_path: Path) -> None:
    for name in ("ops.trace.json.gz", "ops.sqlite.gz", "ops.ncu.csv.gz"):
        (tmp_path / name).symlink_to(recorded(f"ops/{name}"))
    run = open_path(tmp_path, cache=False)
    assert [trace.info.kind for trace in run.traces] == ["chrome", "nsys", "ncu"]
    assert run.main.info.kind == "chrome"
    assert not run.others
    shutil.copy(recorded("chrome/cudagraph_replay.trace.json.gz"), tmp_path)
    run = open_path(tmp_path, cache=False)
    assert {len(run.traces), *(len(paths) for _, paths in run.others)} == {1, 3}


def test_a_run_is_called_by_its_main_file(tmp_path: Path) -> None:
    for name, link in (("ops/ops.trace.json.gz", "z.json.gz"), ("ops/ops.ncu.csv.gz", "a.csv.gz")):
        (tmp_path / link).symlink_to(recorded(name))
    (tmp_path / "z2.csv.gz").symlink_to(recorded("ncu/vim_full_raw.csv.gz"))
    run = open_path(tmp_path, cache=False)
    assert (run.path.name, len(run.traces)) == ("z.json.gz", 2)
    assert [name for name, _ in run.others] == ["z2.csv.gz"]


def test_ranks_in_a_folder_per_node_are_one_run() -> None:
    def rank(path: str, number: int, world: int = 4) -> Candidate:
        return Candidate(Path(path), rank=number, world_size=world)

    nodes = [rank("job/node0/rank0.json", 0), rank("job/node0/rank1.json", 1), rank("job/node1/rank2.json", 2)]
    assert [len(run) for run in group(nodes, lambda _: frozenset())] == [3]
    deeper = [rank("job/node0/tb/r0.json", 0), rank("job/node1/tb/r1.json", 1)]
    assert [len(run) for run in group(deeper, lambda _: frozenset())] == [2]
    # two runs, each of its nodes
    again = [rank(f"{job}/node{node}/r.json", node) for job in ("a", "b") for node in (0, 1)]
    assert sorted(sorted({c.path.parts[0] for c in run}) for run in group(again, lambda _: frozenset())) == [
        ["a"],
        ["b"],
    ]
    # two runs of which the same rank was kept, of other worlds, or that lie elsewhere
    for apart in (
        [rank("a/rank0.json", 0), rank("b/rank0.json", 0)],
        [rank("a/rank0.json", 0, 2), rank("b/rank1.json", 1, 4)],
        [rank("a/one/rank0.json", 0), rank("b/two/rank1.json", 1)],
    ):
        assert [len(run) for run in group(apart, lambda _: frozenset())] == [1, 1]


@pytest.fixture
def report(tmp_path):
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(b"NVTX")
    return path


def test_an_nsys_report_is_exported_and_read(tool, report, monkeypatch, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    recording = recorded("nsys/graph_whole.sqlite.gz")
    tool("nsys", f'for word; do case "$word" in --output=*) gzip -dc {recording} > "${{word#--output=}}";; esac; done')
    run = open_path(report, cache=False)
    assert run.main.info.kind == "nsys"
    assert run.main.source.path == report
    assert run.main.device.height
    assert list(scratch.iterdir()) == []  # it held the environment of the profiled process


def test_a_tool_that_fails_is_one_line(tool, report):
    tool("nsys", 'echo "some progress" >&2; echo "Unsupported file version" >&2; exit 3')
    with pytest.raises(TraceError, match=r"exit code 3: Unsupported file version") as refused:
        open_path(report, cache=False)
    assert "\n" not in str(refused.value)


def test_a_tool_that_writes_nothing_is_one_line(tool, report):
    tool("nsys", "exit 0")
    with pytest.raises(TraceError, match="wrote no export"):
        open_path(report, cache=False)


def test_waiting_for_a_tool_can_be_given_up(tool, report):
    tool("nsys", "exec sleep 60")
    cancel = threading.Event()
    with pytest.raises(Cancelled):
        open_path(report, cache=False, cancel=cancel, progress=lambda _: cancel.set())
