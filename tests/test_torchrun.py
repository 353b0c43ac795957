"""Jobs of many ranks: which words are torchrun's, what each rank writes, and which rank is blamed for a failure."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from fake_torch import FakeTorch
from programs import PATIENCE_SECONDS, started

from tracetui.app.cli.main import main
from tracetui.collectors import jobs, profiler_commands, torchrun
from tracetui.collectors.child import main as child_main
from tracetui.collectors.child import ranks
from tracetui.collectors.child.main import main as child
from tracetui.collectors.folder import RunFolder
from tracetui.collectors.request import ProfileError, ProfileRequest
from tracetui.parsers.runs import manifest as run_manifest


@pytest.mark.parametrize(
    ("command", "options", "program"),
    [
        ("torchrun --nproc-per-node 4 train.py --lr 1", "--nproc-per-node 4", "train.py --lr 1"),
        ("/opt/bin/torchrun --standalone --nproc_per_node=2 a.py", "--standalone --nproc_per_node=2", "a.py"),
        ("torchrun --nnodes 2 -m pkg.train -m x", "--nnodes 2", "-m pkg.train -m x"),
        ("torchrun -r 3 -t 0:1 --module --node_rank 1 train", "-r 3 -t 0:1 --node_rank 1", "-m train"),
        (
            "python -u -m torch.distributed.run --nproc-per-node gpu t.py --nnodes 9",
            "--nproc-per-node gpu",
            "t.py --nnodes 9",
        ),
        ("torchrun train.py", "", "train.py"),
    ],
)
def test_torchruns_words_end_where_the_program_begins(command: str, options: str, program: str) -> None:
    found = torchrun.ranked(command.split())
    assert found is not None
    assert (" ".join(found.options), " ".join(found.program)) == (options, program)


@pytest.mark.parametrize(
    ("command", "options", "rest"),
    [
        ("python -W ignore -u train.py -W x", "-W ignore -u", "train.py -W x"),
        ("python -Wignore -X dev -m pkg.train -O", "-Wignore -X dev", "-m pkg.train -O"),
        ("python train.py", "", "train.py"),
    ],
)
def test_pythons_own_options_are_none_of_the_programs(command: str, options: str, rest: str, tmp_path: Path) -> None:
    words = tuple(command.split())
    assert torchrun.python_options(words) == tuple(options.split())
    request = ProfileRequest(output=tmp_path, command=words, python="python")
    assert profiler_commands.program_of(request) == tuple(rest.split())
    phase = profiler_commands.make_phase(request, "torch", tmp_path, {})
    assert " ".join(phase.record.words).startswith(f"python {options} -u ".replace("  ", " "))


def test_python_options_may_stand_before_torchruns_module() -> None:
    found = torchrun.ranked(["python", "-W", "ignore", "-m", "torch.distributed.run", "--standalone", "train.py"])
    assert found is not None
    assert found.program == ("train.py",)


@pytest.mark.parametrize("command", ["python train.py torchrun", "python -m pytest -m torch.distributed.run", "sh", ""])
def test_other_programs_have_no_ranks(command: str) -> None:
    assert torchrun.ranked(command.split()) is None


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("torchrun --no_python ./a.out", "--no-python starts no Python program"),
        ("torchrun --nproc-per-node 2", "is given no program"),
        ("python -m torch.distributed.launch t.py", "old name"),
    ],
)
def test_what_cannot_be_recorded_is_said(command: str, why: str) -> None:
    with pytest.raises(ProfileError, match=why):
        torchrun.ranked(command.split())


def test_an_option_of_torchrun_is_found_however_it_is_written() -> None:
    found = torchrun.ranked(["torchrun", "--nnodes=2", "--node_rank", "1", "--standalone", "t.py", "--nnodes", "5"])
    assert found is not None
    assert [found.option(name) for name in ("nnodes", "node-rank", "rdzv-id")] == ["2", "1", None]


def test_torchruns_python_is_that_of_its_first_line(tmp_path: Path) -> None:
    script = tmp_path / "torchrun"
    script.write_text("#!/opt/torch/bin/python3.12 -E\nimport sys\n")
    assert torchrun.interpreter(script) == "/opt/torch/bin/python3.12"
    script.write_text("#!/bin/sh\n")
    assert torchrun.interpreter(script) is None
    (tmp_path / "python").touch()
    assert torchrun.interpreter(script) == str(tmp_path / "python")


def test_every_rank_runs_the_child_with_the_users_own_options(tmp_path: Path) -> None:
    words = ("torchrun", "--nproc-per-node", "2", "--standalone", "train.py", "--lr", "1")
    request = ProfileRequest(output=tmp_path, command=words, python="/opt/python")
    phase = profiler_commands.make_phase(request, "torch", tmp_path, {})
    start = str(tmp_path / "child" / "start.py")
    assert phase.record.words == (
        "/opt/python", "-u", "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", start,
        str(tmp_path / "child" / "spec.torch.json"),
    )  # fmt: skip
    spec = profiler_commands.child_spec(request, "torch", tmp_path, "run-1")
    assert (spec["ranked"], spec["script"]) == (True, ["/opt/python", "train.py", "--lr", "1"])
    assert phase.leaves == ("rank*.pt.trace.json.gz",)


def test_nsys_runs_torchrun_itself(tmp_path: Path) -> None:
    request = ProfileRequest(output=tmp_path, command=("torchrun", "train.py"), tools=("nsys",))
    phase = profiler_commands.make_phase(request, "nsys", tmp_path, {"nsys": "nsys"})
    assert phase.record.words[-2:] == ("torchrun", "train.py")


def test_ranks_of_a_model_need_a_way_to_share_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "mlp", "--ranks", "2", "--dry-run"]) == 2
    assert "--ranks and --parallel go together" in capsys.readouterr().err
    assert main(["profile", "mlp", "--ranks", "2", "--parallel", "ddp", "--tool", "nsys", "--dry-run"]) == 2
    assert "--tool torch only" in capsys.readouterr().err
    assert main(["profile", "mlp", "--ranks", "3", "--parallel", "ddp", "--device", "cpu", "--dry-run"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "-m torch.distributed.run --standalone --nproc-per-node=3" in printed


# --- in the child


def spec_of(folder: Path, monkeypatch: pytest.MonkeyPatch, rank: int, world: int = 2) -> dict[str, Any]:
    for name, value in (("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", world)):
        monkeypatch.setenv(name, str(value))
    return ranks.placed({"ranked": True, "out": str(folder), "tool": "torch"})


def test_a_ranks_files_have_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(tmp_path, monkeypatch, 3, 4)
    names = ("trace.pt.trace.json.gz", "light.pt.trace.json.gz")
    assert [ranks.file_of(spec, name) for name in names] == ["rank3.pt.trace.json.gz", "rank3.light.pt.trace.json.gz"]
    assert [ranks.file_of({}, name) for name in names] == list(names)
    assert not ranks.told(spec)
    assert ranks.told(spec_of(tmp_path, monkeypatch, 0))
    assert ranks.told({})


def test_a_rank_reports_beside_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeTorch(monkeypatch, gpu=False)
    for rank in (0, 1):
        spec_of(tmp_path, monkeypatch, rank)
        path = tmp_path / "spec.json"
        path.write_text(
            json.dumps({"ranked": True, "tool": "torch", "out": str(tmp_path), "progress": str(tmp_path / "p"),
                        "script": ["python"], "warmup": 1, "device": "cpu"})
        )  # fmt: skip
        assert child(str(path)) == 2
    found = jobs.read(tmp_path, "torch")
    assert [(said["error"], said["rank"]["rank"]) for said in found.values()] == [
        ("no program to run", 0),
        ("no program to run", 1),
    ]


class Store:
    """A store in which the other ranks have come `others` times."""

    def __init__(self, others: int) -> None:
        self.kept = {"tracetui/clean": others}

    def add(self, key: str, more: int) -> int:
        self.kept[key] = self.kept.get(key, 0) + more
        return self.kept[key]


@pytest.mark.parametrize(("others", "met"), [(3, True), (2, False)])
def test_ranks_meet_in_the_store_and_never_wait_for_ever(others, met, tmp_path, monkeypatch) -> None:
    spec = spec_of(tmp_path, monkeypatch, 1, 4)
    c10d = ModuleType("torch.distributed.distributed_c10d")
    store = Store(others)
    c10d.__dict__.update(_get_default_store=lambda: store)
    dist = ModuleType("torch.distributed")
    dist.__dict__.update(distributed_c10d=c10d, is_available=lambda: True, is_initialized=lambda: True)
    torch = ModuleType("torch")
    torch.__dict__["distributed"] = dist
    for module in (torch, dist, c10d):
        name = {id(torch): "torch", id(dist): "torch.distributed"}.get(id(module), module.__name__)
        monkeypatch.setitem(__import__("sys").modules, name, module)
    monkeypatch.setattr(ranks, "MEETING_S", 0.02)
    said = ranks.meet(spec, "clean")
    assert (said is None) == met
    assert met or "not all came" in str(said)
    assert store.kept["tracetui/clean"] == others + 1


def test_without_a_process_group_a_rank_goes_on_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeTorch(monkeypatch, gpu=False)
    assert "no process group" in str(ranks.meet(spec_of(tmp_path, monkeypatch, 0), "clean"))
    assert ranks.meet({}, "clean") is None


# --- what the parent makes of it

BLAMED = """
Root Cause (first observed failure):
[0]:
  time      : 2026-01-01_00:00:00
  rank      : {} (local_rank: 1)
  exitcode  : {} (pid: 7)
"""


KILLED = "killed (SIGKILL), most likely because the machine ran out of memory"
TOO_SMALL = "the GPU's memory was too small: a smaller --batch needs less"


def result(rank: int, error: str | None = None, ended: int = 0, world: int = 3, **more: Any) -> dict[str, Any]:
    """What a rank reports."""
    who = {"rank": rank, "world_size": world, "host": "a", "ended_unix_ns": ended}
    return {"tool": "torch", "error": error, "rank": who, "measurement": {"clean_step_ns": [10 + rank]}, **more}


def unfinished(rank: int) -> dict[str, Any]:
    """What a rank wrote that went on after that."""
    return {**result(rank), "unfinished": True}


@pytest.mark.parametrize(
    ("results", "left", "log", "said"),
    [
        ([result(0), result(1), result(2)], [0, 1, 2], "", None),
        ([result(0), result(2)], [0, 1, 2], BLAMED.format(1, -9), f"rank 1: {KILLED}; recorded: ranks 0 to 2"),
        (
            [result(0, "interrupted"), result(1, "ValueError: boom"), result(2, "interrupted")],
            [0],
            BLAMED.format(1, 1),
            "rank 1: ValueError: boom; recorded: rank 0",
        ),
        (
            [result(0, "RuntimeError: closed by peer", 9), result(1), result(2, "ValueError: boom", 5)],
            [],
            "",
            "rank 2: ValueError: boom; no rank left a recording",
        ),
        (
            [result(0, "OutOfMemoryError: CUDA out of memory", 9), result(1), result(2)],
            [0, 2],
            "",
            f"rank 0: {TOO_SMALL}; recorded: ranks 0 and 2",
        ),
        ([result(0), result(1)], [0, 1], "", "rank 2: it reported nothing; recorded: ranks 0 and 1"),
        (
            [result(0), unfinished(1), result(2)],
            [0, 2],
            BLAMED.format(1, -9),
            f"rank 1: {KILLED}; recorded: ranks 0 and 2",
        ),
        ([unfinished(0), unfinished(1), unfinished(2)], [0, 1, 2], "", None),  # all left through os._exit(0)
    ],
)
def test_the_rank_that_failed_first_is_blamed(results, left, log, said) -> None:
    merged = jobs.merged({one["rank"]["rank"]: one for one in results}, left, log)
    assert merged["error"] == said


def test_a_job_that_never_began_is_said() -> None:
    assert jobs.merged({}, [], BLAMED.format(2, 1))["error"] == "rank 2: exit code 1"
    assert jobs.merged({}, [], "no such option")["error"] is None  # the log says it best


def test_run_json_tells_the_ranks_apart() -> None:
    results = [
        result(0, devices=[{"uuid": "A", "name": "x"}], skipped=["late"]),
        result(1, devices=[{"uuid": "A"}, {"uuid": "B"}], skipped=["late"]),
        result(2, skipped=["late", "odd"]),
    ]
    merged = jobs.merged(dict(enumerate(results)), [0, 1, 2], "")
    assert [device["uuid"] for device in merged["devices"]] == ["A", "B"]
    assert merged["skipped"] == ["late", "rank 2: odd"]
    manifest = run_manifest.parse(
        {"schema": run_manifest.SCHEMA, "ranks": merged["ranks"], "measurement": {"clean_step_ns": [10]}}
    )
    assert manifest is not None
    assert manifest.notes == ()
    assert [manifest.clean_steps(rank) for rank in (0, 1, 2, 9, None)] == [(10,), (11,), (12,), (10,), (10,)]


def test_the_files_of_a_job_are_listed_by_rank(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "out")
    folder.path.mkdir()
    for rank in (10, 2):
        (folder.path / f"rank{rank}.pt.trace.json.gz").write_bytes(b"")
        (folder.path / f"rank{rank}.light.pt.trace.json.gz").write_bytes(b"")
    names = [file["name"] for file in folder.files()]
    assert [name.split(".")[0] for name in names] == ["rank2", "rank2", "rank10", "rank10"]
    assert jobs.recorded(folder.path) == [2, 10]
    assert folder.has(profiler_commands.RANK_TRACES)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([4], "rank 4"),
        ([0, 1], "ranks 0 and 1"),
        ([0, 2, 3], "ranks 0, 2 and 3"),
        (list(range(9)), "ranks 0 to 8"),
        ([*range(9), 11], "10 ranks"),
    ],
)
def test_ranks_are_named_as_people_do(given: list[int], said: str) -> None:
    assert jobs.named(given) == said


def test_all_ranks_warm_up_for_as_many_steps_as_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, bytes] = {}
    store = SimpleNamespace(set=lambda key, value: kept.update({key: value.encode()}), get=kept.__getitem__)
    monkeypatch.setattr(ranks, "_store", lambda: store)
    clock = [0.0]
    monkeypatch.setattr(child_main, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(child_main, "synchronize", lambda _: clock.append(clock.pop() + 1.0))  # a step takes a second
    counts = []
    for rank, least in ((0, 5.0), (1, 0.0), (2, 60.0)):  # alone the last would go on for a minute
        done: list[int] = []
        spec = {**spec_of(tmp_path, monkeypatch, rank, 3), "device": "other", "warmup": 2, "warmup_s": least}
        child_main.warm_up(spec, lambda done=done: done.append(1), SimpleNamespace(say=lambda *_: None))
        counts.append(len(done))
    assert counts == [5, 5, 5]


WAITING = """
import ctypes, sys, types
sys.path.insert(0, sys.argv[1])
libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
torch, dist, c10d = (types.ModuleType(name) for name in ("torch", "torch.distributed", "c10d"))
torch.distributed, dist.distributed_c10d = dist, c10d
c10d.is_initialized = lambda: True
c10d._abort_process_group = lambda: libc.pthread_mutex_unlock(mutex)
sys.modules.update({"torch": torch, "torch.distributed": dist, "torch.distributed.distributed_c10d": c10d})
from child import ranks
ranks.end_with_the_others()
libc.pthread_mutex_lock(mutex)
try:
    print("waits", flush=True)
    libc.pthread_mutex_lock(mutex)  # no signal interrupts this, as none does a wait for the GPU
    print("nobody said that it shall end")
except KeyboardInterrupt:
    print("freed")
"""


def test_a_rank_that_waits_for_one_that_failed_is_freed() -> None:
    words = [sys.executable, "-c", WAITING, str(Path(ranks.__file__).parents[1])]
    with started(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "waits\n"
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=PATIENCE_SECONDS)[0] == "freed\n"


def test_what_torchrun_cannot_record_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "profile",
        "--python",
        sys.executable,
        "--output",
        str(tmp_path / "out"),
        "--",
        "torchrun",
        "--no-python",
        "a",
    ]
    assert main(words) == 2
    assert "--no-python starts no Python program" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_torchrun_that_is_not_there_is_one_line(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["profile", "--output", str(tmp_path / "out"), "--", "torchrun", "train.py"]) == 2
    assert "torchrun: no such program on PATH" in capsys.readouterr().err
