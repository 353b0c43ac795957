"""`tracetui ranks --dask` on a local cluster of several worker processes, of which some are killed.

Needs tracetui[dask]: ``pytest -m dask``.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from many_ranks import KILLED, LATE, dies, fails_once, rank_file, waits, write_job

from tracetui.analysis.ranks.files.reading import Cluster, outcomes, read, tasks_of
from tracetui.analysis.ranks.files.worker import Task
from tracetui.app.cli import main as cli
from tracetui.app.text.exit_codes import DONE, UNREADABLE, USAGE
from tracetui.parsers.runs.opening import find_ranks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

distributed = pytest.importorskip("distributed", reason="tracetui[dask] is not installed")
# Dask's own warnings, such as of a port that is taken, are not about this project
pytestmark = [pytest.mark.dask, pytest.mark.filterwarnings("default")]
RANKS = 12


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    import dask

    with (
        # a worker that dies twice with the same task is enough to know
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_a_cluster_says_what_this_machine_says(client: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_job(tmp_path / "job", RANKS)
    (tmp_path / "job" / "rank4.pt.trace.json").unlink()

    def said(*words: str) -> Any:
        arguments = ["ranks", str(tmp_path / "job"), "--no-cache", "--format", "json", *words]
        assert cli.main(arguments) == DONE
        return json.loads(capsys.readouterr().out)

    here = said()
    there = said("--dask", client.scheduler.address, "--into", str(tmp_path / "out"))
    assert there == here
    assert (there["missing"], [row["rank"] for row in there["ranks"] if row["straggler"]]) == ([4], [LATE])


def test_a_rank_that_kills_its_workers_becomes_a_note(client: Any, tmp_path: Path) -> None:
    tasks = [Task(str(tmp_path / str(rank)), str(rank), rank) for rank in range(6)]
    found = {one.task.rank: one for one in outcomes(tasks, executor=client.get_executor(pure=False), work=dies)}
    assert found.keys() == set(range(6))
    assert found[KILLED].problem == "its reader was killed, perhaps for want of memory"
    assert {rank for rank, one in found.items() if one.content is not None} == set(range(6)) - {KILLED}


def test_a_recording_that_changed_is_read_again(client: Any, tmp_path: Path) -> None:
    (path,) = write_job(tmp_path / "job", 1)
    files, _ = find_ranks(tmp_path / "job")
    with_executor = {"executor": client.get_executor(pure=False)}
    before = read(files, None, **with_executor).ranks[0]
    file = rank_file(0, 1)
    file.step(2, 1200, 1300)
    file.write(path)
    after = read(files, None, **with_executor).ranks[0]
    assert (before.steps.height, after.steps.height) == (2, 3)


def test_what_was_made_is_kept_when_it_is_interrupted(client: Any, tmp_path: Path) -> None:
    write_job(tmp_path / "job", 4)
    tasks = tasks_of(find_ranks(tmp_path / "job")[0])
    found = []

    def idle() -> None:
        if len(found) == 3:  # only the one that waits is not there
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        for one in outcomes(tasks, executor=Cluster(client, idle), work=waits):
            found.append(one)  # noqa: PERF402  those before the interrupt are kept
        pytest.fail("it was not interrupted")
    (tmp_path / "job" / "go").touch()
    assert {one.task.rank for one in found} == {0, 1, 3}


def test_a_recording_that_another_attempt_finds_is_no_problem(client: Any, tmp_path: Path) -> None:
    tasks = [Task(str(tmp_path / str(rank)), str(rank), rank) for rank in range(200)]  # pieces of three
    found = list(outcomes(tasks, executor=Cluster(client, lambda: None), work=fails_once))
    assert {one.task.rank: one.problem for one in found} == {rank: f"read {rank}" for rank in range(200)}


def test_no_scheduler_is_one_line(tmp_path, capsys, monkeypatch) -> None:
    from tracetui.app.cli.commands import ranks

    monkeypatch.setattr(ranks, "DASK_SECONDS", 1)
    write_job(tmp_path / "job", 2)
    assert cli.main(["ranks", str(tmp_path / "job"), "--no-cache", "--dask", "tcp://127.0.0.1:9"]) == USAGE
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("tracetui")]
    assert len(lines) == 1
    assert "no scheduler answers" in lines[0]


def test_a_scheduler_without_workers_is_told_and_waited_for(tmp_path, capsys, monkeypatch) -> None:
    from tracetui.app.cli.commands import ranks

    monkeypatch.setattr(ranks, "NO_WORKERS_SECONDS", 1)
    write_job(tmp_path / "job", 2)
    with distributed.LocalCluster(n_workers=0, processes=True, dashboard_address=None) as cluster:
        words = ["ranks", str(tmp_path / "job"), "--no-cache", "--dask", cluster.scheduler.address]
        assert cli.main([*words, "--wait", "3"]) == UNREADABLE
        said = capsys.readouterr().err
        assert "has no workers; waiting for them" in said
        assert "has had no workers for 3 s" in said
        cluster.adapt(minimum=0, maximum=1)  # starts workers only when there is work
        assert cli.main([*words, "--wait", "60"]) == DONE


def test_wait_is_for_a_cluster(tmp_path: Path) -> None:
    write_job(tmp_path / "job", 2)
    assert cli.main(["ranks", str(tmp_path / "job"), "--wait", "3"]) == USAGE
