"""Jobs as they lie in folders: two in one, a folder per node, ranks without a name, files that are empty or cut."""

from __future__ import annotations

import gzip
import json
import shutil
from typing import TYPE_CHECKING

import polars as pl
import pytest
from rank_traces import Job as MadeJob
from rank_traces import Plant

from tracetui.analysis.ranks.files.at_hand import jobs_of, ranks_of
from tracetui.analysis.ranks.together.said import answer, in_title
from tracetui.app.cli.main import main
from tracetui.app.screen.status import rank_words
from tracetui.parsers import open_path
from tracetui.parsers.runs.opening import find_ranks

if TYPE_CHECKING:
    from pathlib import Path

LATE = 2


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base") / "job"
    MadeJob(ranks=4, plants=(Plant(LATE, "gpu", 4000),)).write(folder)
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
    MadeJob(ranks=2).write(folder)
    for path in MadeJob(ranks=2, seed=5).write(tmp_path / "other"):
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


def test_an_empty_file_is_the_rank_that_it_is_called(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    second = next(event["ts"] for event in document["traceEvents"] if event["name"] == "ProfilerStep#5")
    document["traceEvents"] = [event for event in document["traceEvents"] if event["ts"] < second]
    path.write_bytes(gzip.compress(json.dumps(document).encode()))
    (whole,), (cut,) = (jobs_of(open_path(place, cache=False)) for place in (base, folder))
    assert (cut.shared, cut.called_steps, cut.step_count) == ((4,), 1, 3)
    assert cut.kinds["per_step"].to_list() == whole.kinds["per_step"].to_list() == [4]
    for name in ("transfer_ns", "wait_ns"):
        assert cut.kinds[name][0] == pytest.approx(whole.kinds[name][0], rel=0.02)
    waits = cut.ranks.join(whole.ranks, on="rank").select((pl.col("wait_ns") / pl.col("wait_ns_right")).alias("share"))
    assert waits["share"][0] == pytest.approx(1, rel=0.02)
    assert any("Rank 1 has 1 of 3 steps: collectives are matched in step 4" in said for said in answer((cut,)))


def test_clocks_that_differ_by_hours_change_nothing(tmp_path: Path) -> None:
    how = {"ranks": 4, "ranks_per_host": 2, "plants": (Plant(LATE, "gpu", 4000),), "seq": False}
    MadeJob(**how, clocks=((0.0, 0.0), (2.5 * 3600e6, 30.0))).write(tmp_path)  # type: ignore[arg-type]
    (job,) = jobs_of(open_path(tmp_path, cache=False))
    assert [one.rank for one in job.answers.program] == [LATE]
    assert job.collectives.height == 12
    assert job.residual_ns is not None
    assert job.residual_ns < 5_000
    assert any("Clocks of hosts differ by up to 9,000 s" in said for said in answer((job,)))


def test_of_a_job_with_missing_ranks_it_is_said_how_many_are_here(base: Path, tmp_path: Path) -> None:
    folder = copied(base, tmp_path / "job", {rank: f"rank{rank}.pt.trace.json.gz" for rank in (1, 3)})
    assert rank_words(open_path(folder, cache=False), 3) == "rank 3 of 4, 2 here"
    assert rank_words(open_path(base, cache=False), 3) == "rank 3 of 4"
    (job,) = jobs_of(open_path(folder, cache=False))
    assert in_title(job) == "no rank of the 2 that are here is late in the program"
