"""Jobs as they lie in folders: two in one, a folder per node, ranks without a name, files that are empty or cut."""

import gzip
import json
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from simulated_job import GZIP, three_d
from simulated_job import Job as Simulated

from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Finding
from tracetui.analysis.findings.engine import find
from tracetui.analysis.ranks.of_run import jobs_of, ranks_of
from tracetui.analysis.ranks.sentences import answer, in_title
from tracetui.analysis.ranks.summarise import environment, gpus_of, machine_of
from tracetui.app.cli.main import main
from tracetui.app.screen.status import rank_words
from tracetui.collectors import jobs
from tracetui.collectors.folder import RunFolder
from tracetui.collectors.launch import launch
from tracetui.collectors.process import Outcome
from tracetui.collectors.request import ProfileError, ProfileRequest
from tracetui.parsers import Run, open_path, schema
from tracetui.parsers.runs import manifest as run_manifest
from tracetui.parsers.runs.manifest import parse
from tracetui.parsers.runs.opening import find_ranks
from tracetui.parsers.trace import Source, Trace, TraceInfo

LATE = 2


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base") / "job"
    Simulated(4, 3, extra={LATE: 4000}).run(three_d).write(folder, GZIP)
    return folder


def copied(base: Path, target: Path, names: dict[int, str]) -> Path:
    """The job's files under other names."""
    for rank, name in names.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(base / f"rank{rank}.pt.trace.json.gz", target / name)
    return target


def late(folder: Path) -> list[int]:
    (job,) = jobs_of(open_path(folder, cache=False))
    return [one.rank for one in job.answers.program]


@pytest.mark.parametrize(
    "name",
    [
        "node{node}/rank{rank}.pt.trace.json.gz",
        "node{node}/local{local}.pt.trace.json.gz",
        "host_{word}.pt.trace.json.gz",
    ],
)
def test_ranks_are_told_by_their_headers_wherever_they_lie(base: Path, tmp_path: Path, name: str) -> None:
    names = {
        rank: name.format(node=rank // 2, rank=rank, local=rank % 2, word=("red", "green", "blue", "grey")[rank])
        for rank in range(4)
    }
    folder = copied(base, tmp_path / "job", names)
    assert late(folder) == [LATE]
    files, problems = find_ranks(folder)
    assert ([file.rank for file in files], problems) == ([0, 1, 2, 3], ())


def test_of_two_jobs_in_a_folder_the_other_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "both"
    Simulated(2, 3).run(three_d).write(folder, GZIP)
    for path in Simulated(2, 3, seed=5).run(three_d).write(tmp_path / "other", GZIP):
        shutil.copy(path, folder / f"other_{path.name}")
    files, problems = find_ranks(folder)
    assert len(files) == 2
    assert problems == (f"{folder}: one of 2 runs in this folder; left out: rank0.pt.trace.json.gz and 1 more",)
    assert main(["ranks", str(folder), "--no-cache", "--run", "rank0.pt.trace.json.gz and 1 more"]) == 0
    assert "left out" not in capsys.readouterr().err


def test_recordings_without_a_rank_are_no_job(base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(2):
        document = json.loads(gzip.decompress((base / f"rank{rank}.pt.trace.json.gz").read_bytes()))
        del document["distributedInfo"]
        (tmp_path / f"{'ab'[rank]}.pt.trace.json").write_text(json.dumps(document))
    assert main(["ranks", str(tmp_path), "--no-cache"]) == 0
    printed = capsys.readouterr()
    assert "recordings are one job if their headers or names say their ranks" in printed.err
    assert "In the program no rank is late" not in printed.out
    assert "There are no two ranks to compare." in printed.out


def test_an_empty_file_is_the_rank_that_it_is_called(base, tmp_path, capsys) -> None:
    """It has no header, so it was taken for a run of its own, and its rank only for missing."""
    folder = tmp_path / "job"
    shutil.copytree(base, folder)
    (folder / "rank1.pt.trace.json.gz").write_bytes(b"")
    run = open_path(folder, cache=False)
    assert run.others == ()
    assert "the file is empty" in run.warnings[0]
    assert late(folder) == [LATE]  # most ranks are here
    assert ranks_of(run, make=False)["rank"].to_list() == [0, 2, 3]
    assert main(["ranks", str(folder), "--no-cache", "--jobs", "1"]) == 0
    assert "rank 1 (rank1.pt.trace.json.gz): the file is empty" in " ".join(capsys.readouterr().out.split())


def test_a_rank_that_was_cut_gives_waiting_per_step_of_what_was_matched(base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    shutil.copytree(base, folder)
    path = folder / "rank1.pt.trace.json.gz"
    document = json.loads(gzip.decompress(path.read_bytes()))
    second = next(event["ts"] for event in document["traceEvents"] if event["name"] == "ProfilerStep#11")
    document["traceEvents"] = [event for event in document["traceEvents"] if event["ts"] < second]
    path.write_bytes(gzip.compress(json.dumps(document).encode()))
    (whole,), (cut,) = (jobs_of(open_path(place, cache=False)) for place in (base, folder))
    assert (cut.shared, cut.called_steps, cut.step_count) == ((10,), 1, 3)
    assert cut.kinds["per_step"].to_list() == whole.kinds["per_step"].to_list() == [4]
    for name in ("transfer_ns", "wait_ns"):
        assert cut.kinds[name][0] == pytest.approx(whole.kinds[name][0], rel=0.02)
    waits = cut.ranks.join(whole.ranks, on="rank").select((pl.col("wait_ns") / pl.col("wait_ns_right")).alias("share"))
    assert waits["share"][0] == pytest.approx(1, rel=0.02)
    assert any("Rank 1 has 1 of 3 steps: collectives are matched in step 10" in said for said in answer((cut,)))


def test_clocks_that_differ_by_hours_change_nothing(tmp_path: Path) -> None:
    clocks = dict.fromkeys((2, 3), (2.5 * 3600e6, 30.0))
    Simulated(4, 3, extra={LATE: 4000}, clocks=clocks).run(three_d).write(tmp_path)
    (job,) = jobs_of(open_path(tmp_path, cache=False))
    assert [one.rank for one in job.answers.program] == [LATE]
    assert job.collectives.height == 12
    assert job.residual_ns is not None
    assert job.residual_ns < 5_000
    said = answer((job,))
    assert any("Clocks of hosts differ by up to 9,000 s" in one for one in said)
    assert job.distant == (0, 1)
    assert said[0].startswith("Ranks 0, 1 may be of another run: recorded 9,000 s from the others")


def found_in(run: Run) -> tuple[Finding, ...]:
    return find(Facts(run), rules={"V30": all_rules("run")["V30"]}).found


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return found


def write(path: Path, said: dict[str, Any]) -> None:
    path.write_bytes(gzip.compress(json.dumps(said).encode(), 1))


def test_a_rank_s_recording_under_another_rank_s_number_is_left_out(base: Path, tmp_path: Path) -> None:
    folder = copied(base, tmp_path / "job", {rank: f"rank{rank}.pt.trace.json.gz" for rank in (0, 1, 2)})
    said = read(base / "rank1.pt.trace.json.gz")
    said["distributedInfo"]["rank"] = 3
    write(folder / "rank3.pt.trace.json.gz", said)
    (job,) = jobs_of(run := open_path(folder, cache=False))
    assert (job.copies, job.missing, job.here) == ({3: 1}, (3,), 3)
    assert answer((job,))[0].startswith("Rank 3's recording is rank 1's: its steps and collectives are the same")
    (whole,) = (one for one in found_in(run) if one.id == "V30")
    assert whole.severity == "warning"
    assert whole.title.startswith("rank 3's recording is rank 1's; 3 of 4 ranks are here (0-2)")


def test_ranks_that_are_counted_from_one_lack_none(base: Path, tmp_path: Path) -> None:
    (expected,) = jobs_of(open_path(base, cache=False))
    (tmp_path / "job").mkdir()
    for rank in range(4):
        said = read(base / f"rank{rank}.pt.trace.json.gz")
        said["distributedInfo"]["rank"] = rank + 1
        write(tmp_path / "job" / f"rank{rank + 1}.pt.trace.json.gz", said)
    (job,) = jobs_of(open_path(tmp_path / "job", cache=False))
    assert (job.missing, job.world_size, job.ranks["rank"].to_list()) == ((), 4, [1, 2, 3, 4])
    assert job.kinds.equals(expected.kinds)
    assert not job.bounded
    for here in ((1, 2), (2, 3, 4)):  # of four: others are missing
        folder = copied(tmp_path / "job", tmp_path / str(here), {rank: f"rank{rank}.pt.trace.json.gz" for rank in here})
        (job,) = jobs_of(open_path(folder, cache=False))
        assert 0 in job.missing


def test_ranks_that_have_no_step_in_common_are_told(base: Path, tmp_path: Path) -> None:
    folder = copied(base, tmp_path / "job", {rank: f"rank{rank}.pt.trace.json.gz" for rank in range(4)})
    for rank in (2, 3):
        said = read(path := folder / f"rank{rank}.pt.trace.json.gz")
        for event in said["traceEvents"]:
            if event["name"].startswith("ProfilerStep#"):
                event["name"] = f"ProfilerStep#{int(event['name'][13:]) + 100}"
        write(path, said)
    (whole,) = (one for one in found_in(open_path(folder, cache=False)) if one.id == "V30")
    assert whole.severity == "warning"
    first = "no step is on all ranks: rank 0 has 10-12, rank 1 has 10-12, rank 2 has 110-112, rank 3 has 110-112"
    assert whole.title.startswith(first)
    assert not any(one.id == "V30" for one in found_in(open_path(base, cache=False)))


def test_of_a_job_with_missing_ranks_it_is_said_how_many_are_here(base: Path, tmp_path: Path) -> None:
    folder = copied(base, tmp_path / "job", {rank: f"rank{rank}.pt.trace.json.gz" for rank in (1, 3)})
    assert rank_words(open_path(folder, cache=False), 3) == "rank 3 of 4, 2 here"
    assert rank_words(open_path(base, cache=False), 3) == "rank 3 of 4"
    (job,) = jobs_of(open_path(folder, cache=False))
    assert in_title(job) == "no rank of the 2 that are here is late in the program"


def gpus(*throttled):
    states = [{"index": number, "throttle_reasons": list(reasons)} for number, reasons in enumerate(throttled)]
    return {"before": {"gpus": states}}


JOB = parse(
    {
        "schema": "tracetui.run/1",
        "identity": {"host": "one"},
        "software": {"driver": "580.1"},
        "device": [{"index": 0, "uuid": "a"}, {"index": 1, "uuid": "b"}],
        "power": gpus([], []),
        "ranks": [
            {"rank": 0, "host": "one", "gpu_uuid": "b"},
            {"rank": 1, "host": "two", "gpu_uuid": "d"},
            {"rank": 2, "host": "two"},
            {"rank": 3, "host": "three"},
        ],
        "machines": [
            {
                "host": "two",
                "software": {"driver": "570.2"},
                "device": [{"index": 0, "uuid": "c"}, {"index": 1, "uuid": "d"}],
                "power": gpus(["sw_power_cap"], ["hw_thermal_slowdown"]),
            }
        ],
    }
)


def on_gpu(number):
    empty = Trace.empty(TraceInfo("chrome", "Kineto"), Source(__file__, 0))
    row = pl.DataFrame({"device": [number]}).cast({"device": schema.DEVICE["device"]})
    return Trace(**{**vars(empty), "device": row})


@pytest.mark.parametrize(
    ("rank", "driver", "throttled"),
    [
        (0, "580.1", "nothing"),
        (1, "570.2", "hw_thermal_slowdown"),  # its process sees one GPU and counts it as 0
        (2, "570.2", "sw_power_cap"),
        (3, None, None),
        (None, "580.1", "nothing"),
    ],
)
def test_throttling_and_versions_are_those_of_the_ranks_own_machine(rank, driver, throttled):
    found = dict(environment(on_gpu(0), JOB, rank))
    assert (found.get("driver"), found.get("throttled by")) == (driver, throttled)


def test_a_gpu_without_a_name_has_the_number_of_the_recording():
    assert gpus_of(JOB, 1, {0}) == {1}
    assert gpus_of(JOB, 2, {0}) == {0}
    assert machine_of(JOB, 3) is None


PYTHON = """#!/bin/sh
# what torchrun would do here: one rank, whose number is the sixth word, and which reports
[ "$1" = -c ] && exit 1
for spec; do :; done
folder=$(dirname "$(dirname "$spec")")
while [ "$6" = 1 ] && [ ! -e "$folder/result.rank0.torch.json" ]; do sleep 0.05; done
echo x > "$folder/rank$6.pt.trace.json.gz"
echo "{\\"error\\": null, \\"rank\\": {\\"rank\\": $6, \\"world_size\\": 2, \\"host\\": \\"h$6\\"},
  \\"measurement\\": {\\"clean_step_ns\\": [$6]}}" > "$folder/result.rank$6.torch.json"
[ "$6" = 0 ] && while [ ! -e "$folder/result.rank1.torch.json" ]; do sleep 0.05; done
exit 0
"""


def request_of(tmp_path: Path, node: int, nodes: str = "2", program: str = "") -> ProfileRequest:
    python = tmp_path / "python"
    if not python.exists():
        python.write_text(PYTHON)
        python.chmod(0o755)
    words = f"torchrun --nnodes={nodes} --node_rank {node} --master-addr a --master-port 1 train.py {program}".split()
    return ProfileRequest(output=tmp_path / "out", command=tuple(words), python=str(python), device="cpu")


@pytest.mark.parametrize(("nodes", "several"), [("1", False), ("1:1", False), ("2", True), ("1:4", True)])
def test_a_job_of_jobs_says_so(tmp_path: Path, nodes: str, several: bool) -> None:
    assert (jobs.job_of(request_of(tmp_path, 0, nodes)) is not None) == several


def test_its_machines_agree_on_which_job_it_is(tmp_path: Path) -> None:
    one, two, other = (
        jobs.job_of(request_of(tmp_path, node, "2", program)) for node, program in ((0, "a"), (1, "a"), (1, "b"))
    )
    assert one == two != other


def test_the_first_to_come_makes_the_folder(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "runs" / "out")
    assert jobs.leads(folder, "job")
    assert not jobs.leads(folder, "job")
    with pytest.raises(ProfileError, match="another job"):
        jobs.leads(folder, "other")
    old = time.time() - 10 * jobs.ALIVE_S
    os.utime(folder.path / jobs.JOB, (old, old))
    (folder.path / "left").touch()
    assert jobs.leads(folder, "other")  # the first was cut off
    assert not (folder.path / "left").exists()
    jobs.Beat(folder.path)()
    assert not jobs.leads(folder, "other")


def test_a_folder_that_nobody_finishes_making_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(tmp_path / "out")
    folder.path.mkdir()
    monkeypatch.setattr(jobs, "ALIVE_S", 0.3)
    assert jobs.leads(folder, "job")


def test_all_machines_write_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "PATIENCE_S", 20.0)
    ended: dict[int, Outcome] = {}

    def run(node: int) -> None:
        ended[node] = launch(request_of(tmp_path, node), lambda _: None)

    machines = [threading.Thread(target=run, args=(node,)) for node in (0, 1)]
    machines[0].start()
    while not (tmp_path / "out.partial" / jobs.JOB).exists():
        time.sleep(0.01)
    machines[1].start()
    for machine in machines:
        machine.join()
    assert [(ended[node].status, ended[node].folder) for node in (0, 1)] == [("finished", tmp_path / "out")] * 2
    manifest = run_manifest.load(tmp_path / "out")
    assert manifest is not None
    assert manifest.notes == ()
    assert [(rank.rank, rank.host, rank.clean_step_ns) for rank in manifest.ranks] == [(0, "h0", (0,)), (1, "h1", (1,))]
    (other,) = manifest.machines
    assert other.host
    assert other.power.before is not None
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"rank0.pt.trace.json.gz", "rank1.pt.trace.json.gz", "run.json", "log.txt"} <= names
    assert not {name for name in names if name.startswith(("machine.", "job", "result"))}


def test_samples_of_every_machine_are_a_line_each(tmp_path: Path) -> None:
    from tracetui.collectors.folder import manifest_text

    sample = {"time_unix_ns": 1, "gpus": [{"index": 0, "clock_hz": None}]}
    power = {"before": None, "during": [sample, sample], "after": None}
    manifest = {"power": power, "machines": [{"host": "b", "power": power}, {"host": "c", "power": {"during": []}}]}
    text = manifest_text(manifest)
    assert text.count('{"time_unix_ns":1,"gpus":[{"index":0}]}') == 4
    kept = json.loads(text)
    assert len(kept["machines"][0]["power"]["during"]) == 2
    assert kept["machines"][1]["power"]["during"] == []
