"""Jobs in an object store: `tracetui ranks` of a URL, against moto's S3 server, and in fsspec's memory.

Needs tracetui[remote], for S3 moto[server], for the cluster tracetui[dask].
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from many_ranks import LATE, rank_file, write_job

from tracetui.analysis.ranks.files import listing
from tracetui.analysis.ranks.files.listing import looked_into
from tracetui.analysis.ranks.files.reading import read
from tracetui.analysis.ranks.files.store import Store
from tracetui.app.cli import main as cli
from tracetui.app.text.exit_codes import DONE, UNREADABLE, USAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

fsspec = pytest.importorskip("fsspec", reason="tracetui[remote] is not installed")
# the stores' own warnings, such as of a session that was not closed, are not about this project
pytestmark = pytest.mark.filterwarnings("default")
RANKS = 6


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Any]:
    """A job in fsspec's memory, with a folder per node, and what is none of its recordings."""
    write_job(tmp_path / "job", RANKS)
    store = fsspec.filesystem("memory")
    for path in (tmp_path / "job").iterdir():
        rank = int(path.name[4])
        store.pipe_file(f"/runs/job/node{rank // 3}/{path.name}", path.read_bytes())
    store.pipe_file("/runs/job/node0/checkpoint.pt", bytes(1000))
    store.pipe_file("/runs/job/../outside.json", b"{}")
    yield store
    store.store.clear()


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a job that is also ``s3://bucket/job``; the environment says where that is, as for other tools."""
    pytest.importorskip("s3fs", reason="tracetui[remote] is not installed")
    server = pytest.importorskip("moto.server", reason="moto[server] is not installed").ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    folder = tmp_path_factory.mktemp("remote") / "job"
    write_job(folder, RANKS)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("AWS_ENDPOINT_URL", f"http://{host}:{port}"),
            ("AWS_ACCESS_KEY_ID", "tests"),
            ("AWS_SECRET_ACCESS_KEY", "tests"),
            ("AWS_DEFAULT_REGION", "us-east-1"),
        ):
            patch.setenv(name, value)
        store = fsspec.filesystem("s3", skip_instance_cache=True)
        store.mkdir("bucket")
        store.put(f"{folder}/", "bucket/job/", recursive=True)
        yield folder
    server.stop()


def said(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    assert cli.main(["ranks", *words, "--format", "json"]) == DONE
    found = json.loads(capsys.readouterr().out)
    del found["path"]
    return found


def test_a_store_says_what_the_folder_says(bucket: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = said(capsys, str(bucket), "--no-cache")
    out = str(tmp_path / "out")
    there = said(capsys, "s3://bucket/job", "--no-cache", "--jobs", "1", "--into", out)
    assert there == here
    assert [row["rank"] for row in there["ranks"] if row["straggler"]] == [LATE]
    assert {entry.source for entry in Store(Path(out)).entries()} == {
        f"s3://bucket/job/rank{rank}.pt.trace.json" for rank in range(RANKS)
    }
    assert said(capsys, out) == here
    fsspec.filesystem("s3").put(f"{out}/", "bucket/out/", recursive=True)
    assert said(capsys, "s3://bucket/out") == here
    assert said(capsys, "s3://bucket/job", "--no-cache", "--jobs", "1", "--into", "s3://bucket/parts") == here
    assert said(capsys, "s3://bucket/parts") == here
    assert said(capsys, bucket.as_uri(), "--no-cache") == here


@pytest.mark.dask
def test_workers_of_a_cluster_read_the_store_though_one_dies(bucket, tmp_path, capsys, monkeypatch) -> None:
    distributed = pytest.importorskip("distributed", reason="tracetui[dask] is not installed")
    here = said(capsys, str(bucket), "--no-cache")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        began = tmp_path / "began"
        doomed = client.submit(_dies_once, str(began), pure=False)  # takes a worker with what it holds
        assert said(capsys, "s3://bucket/job", "--no-cache", "--dask", cluster.scheduler.address) == here
        assert doomed.result() == "again"


def _dies_once(began: str) -> str:
    import os

    if Path(began).exists():
        return "again"
    Path(began).touch()
    return os._exit(1)


def test_what_changed_in_the_store_is_read_again(memory: Any, tmp_path: Path) -> None:
    def steps() -> list[int]:
        with looked_into("memory://runs/job") as found, ThreadPoolExecutor(2) as threads:
            made = read(found.listing().files, Store(tmp_path / "out"), executor=threads)
        assert made.problems == ()
        return [made.made, *(one.steps.height for one in made.ranks)]

    assert steps() == [RANKS, *[2] * RANKS]
    assert steps() == [0, *[2] * RANKS]
    file = rank_file(4, RANKS)
    file.step(2, 1200, 1300)
    memory.pipe_file("/runs/job/node1/rank4.pt.trace.json", file.write(tmp_path / "rank4.json").read_bytes())
    assert steps() == [1, 2, 2, 2, 2, 3, 2]


def test_only_beginnings_are_read_to_tell_what_is_there(memory: Any) -> None:
    with looked_into("memory://runs/job/") as found:
        assert {path.name for path in found.folder.rglob("*.*")} == {f"rank{rank}.pt.trace.json" for rank in range(6)}
        made = found.listing()
    assert made.job == "memory://runs/job"
    assert [(task.path, task.name, task.rank) for task in made.files][:2] == [
        ("memory://runs/job/node0/rank0.pt.trace.json", "node0/rank0.pt.trace.json", 0),
        ("memory://runs/job/node0/rank1.pt.trace.json", "node0/rank1.pt.trace.json", 1),
    ]


def test_what_is_gone_or_does_not_answer_costs_no_other(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with looked_into("memory://runs/job") as found:
        files = found.listing().files
    memory.rm_file("/runs/job/node0/rank1.pt.trace.json")
    whole = type(memory).get_file

    def fails(self: Any, path: str, *rest: Any, **named: Any) -> Any:
        if "rank2" in path:
            raise TimeoutError("no answer")
        return whole(self, path, *rest, **named)

    monkeypatch.setattr(type(memory), "get_file", fails)
    made = read(files, None, jobs=None)
    assert [one.rank for one in made.ranks] == [0, 3, 4, 5]
    assert [(rank, why) for rank, _, why in made.problems] == [
        (1, "no such file or directory"),
        (2, "timeouterror: no answer"),
    ]


def test_parts_share_one_listing(memory, tmp_path, capsys, monkeypatch) -> None:
    looks = []
    whole = listing.find_ranks
    monkeypatch.setattr(listing, "find_ranks", lambda *paths, **named: looks.append(paths) or whole(*paths, **named))
    out = tmp_path / "out"
    read_now = []
    get = type(memory).get_file
    monkeypatch.setattr(
        type(memory), "get_file", lambda self, path, *rest: read_now.append(path[-17:]) or get(self, path, *rest)
    )

    def part(number: int, job: str) -> None:
        words = ["ranks", job, "--no-cache", "--into", str(out), "--part", f"{number}/3", "--jobs", "1"]
        monkeypatch.setattr("tracetui.analysis.ranks.files.reading._on_processes", lambda t, _, work: map(work, t))
        assert cli.main(words) == DONE

    for number in range(3):
        read_now.clear()
        part(number, "memory://runs/job")
        assert read_now == [f"ank{rank}.pt.trace.json"[-17:] for rank in (2 * number, 2 * number + 1)]
    assert len(looks) == 1
    assert len(said(capsys, str(out))["ranks"]) == RANKS
    part(0, str(tmp_path / "job"))  # another job's listing takes its place
    part(1, str(tmp_path / "job"))
    assert len(looks) == 2
    (tmp_path / "job" / "rank0.pt.trace.json").unlink()
    part(1, str(tmp_path / "job"))
    assert len(looks) == 3


def test_parts_come_together_in_the_store(memory, tmp_path, capsys, monkeypatch) -> None:
    """Each part leaves one file there, reads those of no other, and a part that was interrupted goes on from there."""
    monkeypatch.setattr("tracetui.analysis.ranks.files.reading._on_processes", lambda t, _, work: map(work, t))
    whole = said(capsys, "memory://runs/job", "--no-cache")
    got = []
    get = type(memory).get_file
    monkeypatch.setattr(
        type(memory), "get_file", lambda self, path, *rest: got.append(Path(path).name) or get(self, path, *rest)
    )
    for number in range(3):
        got.clear()
        words = ["--no-cache", "--into", "memory://runs/out", "--part", f"{number}/3", "--jobs", "1"]
        assert cli.main(["ranks", "memory://runs/job", *words]) == DONE
        assert [name for name in got if "tracetui" in name] == ["listing.tracetui"] * bool(number)
    names = {Path(path).name for path in memory.find("/runs/out")}
    assert names == {"listing.tracetui", *(f"part-{number}-of-3.tracetui-rank" for number in range(3))}
    assert said(capsys, "memory://runs/out") == whole
    memory.rm_file("/runs/out/part-1-of-3.tracetui-rank")
    assert said(capsys, "memory://runs/out")["problems"][0]["path"] == "part 1 of 3"
    # what one command makes is one file in the end
    assert said(capsys, "memory://runs/job", "--no-cache", "--into", "memory://runs/one", "--jobs", "1") == whole
    assert [Path(path).name for path in memory.find("/runs/one")] == ["job.tracetui-rank"]


def test_what_else_opens_paths_names_the_command_for_stores(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["open", "s3://bucket/job"]) == USAGE
    assert "`tracetui ranks s3://bucket/job`" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["memory://nothing"], UNREADABLE, "memory://nothing: has no recordings in JSON and no summaries"),
        (["nosuch://x"], UNREADABLE, "nosuch://x: can't be listed: ValueError: Protocol not known: nosuch"),
        (["memory://runs/job", "--into", "nosuch://x"], UNREADABLE, "nosuch://x: can't be used: ValueError: Protocol"),
    ],
)
def test_what_cannot_be_is_one_line(memory, capsys, words, code, text) -> None:
    assert cli.main(["ranks", *words]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert text in line
