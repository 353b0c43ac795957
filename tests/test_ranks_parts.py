"""A job summarised in parts, as the elements of a job array do: what is missing is named until it has come."""

import json
import shutil
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from simulated_job import GZIP, three_d
from simulated_job import Job as Simulated

from tracetui.analysis.ranks.files.reading import of_store
from tracetui.analysis.ranks.files.store import MAGIC, Store, packed
from tracetui.analysis.ranks.job import jobs
from tracetui.analysis.ranks.one_rank import own_calls
from tracetui.analysis.ranks.sentences import BOUNDED, answer
from tracetui.analysis.ranks.summarise import summarise
from tracetui.analysis.report.ranks import ranks_report
from tracetui.app.cli.commands.ranks import recordings_of
from tracetui.app.cli.main import main
from tracetui.app.session.of_summaries import run_of
from tracetui.parsers import open_path

LATE = 5


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parts") / "job"
    Simulated(7, 3, extra={LATE: 4000}).run(three_d).write(folder, GZIP)
    return folder


@pytest.fixture(scope="module")
def parts(job: Path) -> Path:
    """All three parts."""
    folder = job.parent / "out"
    for number in range(3):
        part(job, folder, f"{number}/3")
    return folder


def part(job: Path, folder: Path, which: str) -> None:
    assert main(["ranks", str(job), "--part", which, "--into", str(folder), "--no-cache", "--jobs", "1"]) == 0


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(list(arguments)) == 0
    return " ".join(capsys.readouterr().out.split())


def of_version(path: Path, version: int) -> None:
    """Makes a file of summaries one of another version, with a checksum that is right."""
    content = path.read_bytes()
    start = len(MAGIC) + 8
    (length,) = struct.unpack_from("<I", content, len(MAGIC))
    header = json.loads(content[start : start + length])
    header["version"] = version
    text = json.dumps(header).encode()
    body = text + content[start + length :]
    path.write_bytes(MAGIC + struct.pack("<II", len(text), zlib.crc32(body)) + body)


def test_a_part_that_is_missing_is_named_and_completes_the_job(job, parts, tmp_path, capsys) -> None:
    out = tmp_path / "out"
    shutil.copytree(parts, out)
    (out / "part-2-of-3.tracetui-rank").unlink()
    text = printed(capsys, "ranks", str(out))
    assert "4 of 7 are here; missing: 4-6" in text
    assert "part 2 of 3 is not here, or not done" in text
    assert "In the program no rank of the 4 that are here is late" in text
    assert BOUNDED in text
    assert "Waiting and transfer (per step; busbw in GB/s; bounds: ranks are missing)" in text
    assert recordings_of(out) is None  # its recordings would be opened without what their ranks say together
    assert "part 2 of 3 is not here, or not done" in run_of(out).warnings
    part(job, out, "2/3")
    assert "3 summaries (rank 4-6)" in capsys.readouterr().err
    text = printed(capsys, "ranks", str(out))
    assert "Ranks 7 of 7" in text
    assert f"In the program rank {LATE} has " in text
    assert "not here" not in text
    assert "bounds" not in text
    assert recordings_of(out) == job


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:900]), "is torn, or no summary of ranks"),
        (lambda path: path.write_bytes(b""), "is torn, or no summary of ranks"),
        (lambda path: of_version(path, 1), "was written by another version of tracetui"),
    ],
)
def test_a_part_that_cannot_be_read_is_named_with_the_reason(parts, tmp_path, capsys, damage, why) -> None:
    out = tmp_path / "out"
    shutil.copytree(parts, out)
    damage(out / "part-1-of-3.tracetui-rank")  # type: ignore[operator]
    text = printed(capsys, "ranks", str(out))
    assert "5 of 7 are here; missing: 2, 3" in text
    assert f"part-1-of-3.tracetui-rank {why}" in text
    assert "part 1 of 3" not in text
    found = ranks_report(of_store(Store(out)), str(out))
    assert [(row.rank, row.path) for row in found.problems] == [(None, "part-1-of-3.tracetui-rank")]
    shutil.copy(parts / "part-1-of-3.tracetui-rank", out)
    assert of_store(Store(out)).problems == ()


def test_a_folder_of_nothing_that_can_be_read_says_why(parts, tmp_path, capsys) -> None:
    (tmp_path / "part-0-of-3.tracetui-rank").write_bytes((parts / "part-0-of-3.tracetui-rank").read_bytes()[:50])
    for command in ("ranks", "open", "report"):
        assert main([command, str(tmp_path)]) == 1
        assert "part-0-of-3.tracetui-rank is torn" in capsys.readouterr().err


def test_more_parts_than_ranks_miss_nothing(job: Path, tmp_path: Path) -> None:
    part(job, tmp_path, "0/16")  # it has no rank
    assert len(Store(tmp_path).files()) == 1
    assert Store(tmp_path).missing_parts() == "1-15 of 16"


def test_summaries_of_two_jobs_in_one_folder_are_named(parts: Path, tmp_path: Path) -> None:
    entries = Store(parts).entries()
    Store(tmp_path).gather(entries[:3], "part-0-of-2")
    moved = [replace(entry, source=f"/elsewhere/{entry.summary.path}") for entry in entries[3:]]
    (tmp_path / "part-1-of-2.tracetui-rank").write_bytes(packed(moved))
    ((rank, name, why),) = of_store(Store(tmp_path)).problems
    assert (rank, name) == (None, tmp_path.name)
    assert why.startswith("has summaries of recordings in 2 folders: ")
    assert "/elsewhere" in why


def test_a_job_without_the_late_rank_has_bounds(job: Path, tmp_path: Path) -> None:
    """All wait for the rank that is missing, so the shortest call is no transfer."""
    exact = {}
    for name, here in (("all", range(7)), ("some", (0, 1, 2))):
        folder = tmp_path / name
        folder.mkdir()
        for rank in here:
            shutil.copy(job / f"rank{rank}.pt.trace.json.gz", folder)
        run = open_path(folder, cache=False)
        (found,) = jobs([summarise(trace) for trace in run.traces])
        exact[name] = found, own_calls((found,), run.traces[0])
    (whole, calls), (part_of, some) = exact["all"], exact["some"]
    assert calls is not None
    assert some is not None
    assert (whole.bounded, part_of.bounded) == (False, True)
    assert (set(calls["whole"]), set(some["whole"])) == ({True}, {False})
    assert part_of.kinds["busbw_gbps"][0] < whole.kinds["busbw_gbps"][0] / 2
    said = " ".join(answer((part_of,)))
    assert ", at least " in said
    assert "is waiting for others and at most " in said
    assert "at least" not in " ".join(answer((whole,)))
