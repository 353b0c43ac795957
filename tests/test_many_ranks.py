"""Jobs of many ranks: which recordings are read, what becomes of damaged ones, and `tracetui ranks`."""

import gzip
import json
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from many_ranks import KILLED, LATE, dies, rank_file, write_job
from rank_summaries import Made
from sample_runs import run_of

from tracetui.analysis.base.number_format import spans
from tracetui.analysis.ranks.files import store as stores
from tracetui.analysis.ranks.files.reading import affordable_jobs, outcomes, plain_size, read
from tracetui.analysis.ranks.files.store import Store, Stored, mark_of, packed, unpacked
from tracetui.analysis.ranks.files.worker import Task
from tracetui.analysis.ranks.job import jobs
from tracetui.analysis.ranks.of_run import judged, missing, of_run, rank_rows, rank_table, ranks_of
from tracetui.analysis.ranks.summarise import summarise
from tracetui.analysis.ranks.summary import FRAMES, STEPS, RankSummary, members
from tracetui.analysis.scope import Scope
from tracetui.app.cli import main as cli
from tracetui.app.cli.commands.ranks import recordings_of
from tracetui.app.text.exit_codes import DONE, UNREADABLE, USAGE
from tracetui.parsers import Note, open_path
from tracetui.parsers.runs import entries
from tracetui.parsers.runs.opening import READ_AT_ONCE, find_ranks
from tracetui.parsers.runs.run import KEPT_RANKS

MANY = READ_AT_ONCE + 4


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All ranks but one of a job."""
    folder = tmp_path_factory.mktemp("many") / "job"
    write_job(folder, MANY)
    (folder / "rank5.pt.trace.json").unlink()
    return folder


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACETUI_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


# --- opening


def test_one_rank_of_many_is_read(job: Path) -> None:
    run = open_path(job, cache=False)
    assert [trace.info.rank for trace in run.traces] == [0]
    assert run.ranks == tuple(rank for rank in range(MANY) if rank != 5)
    assert run.unread == run.ranks[1:]
    assert (run.name, run.warnings) == ("job", ())
    assert sorted(run.files) == sorted(job.iterdir())
    chosen = open_path(job, cache=False, rank=7)
    assert [trace.info.rank for trace in chosen.traces] == [7]


def test_other_ranks_are_read_when_they_are_asked_for_and_few_are_kept(job: Path) -> None:
    run = open_path(job, cache=False)
    for rank in (3, 1, 8, 4, 3):
        run = run.with_rank(rank)
        assert rank not in run.unread
    read_now = [trace.info.rank for trace in run.traces]
    assert read_now == [0, 8, 4, 3]
    assert len(read_now) == KEPT_RANKS
    assert run.with_rank(3) is run
    assert run.with_rank(5) is run


def test_few_ranks_are_read_at_once(tmp_path: Path) -> None:
    write_job(tmp_path / "job", READ_AT_ONCE)
    run = open_path(tmp_path / "job", cache=False)
    assert (len(run.traces), run.unread) == (READ_AT_ONCE, ())


def test_the_next_rank_stands_in_for_one_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_job(tmp_path / "job", MANY)
    from tracetui.parsers import TraceError
    from tracetui.parsers.runs import opening

    whole = opening._read

    def fails(candidate: Any, watch: Any) -> Any:
        if candidate.rank == 0:
            raise TraceError(candidate.path, "no")
        return whole(candidate, watch)

    monkeypatch.setattr(opening, "_read", fails)
    run = open_path(tmp_path / "job", cache=False)
    assert [trace.info.rank for trace in run.traces] == [1]
    assert len(run.warnings) == 1


def test_folders_rich_and_light_are_one_job(tmp_path: Path) -> None:
    for name in ("rich", "light"):
        write_job(tmp_path / "job" / name, 3)
    (tmp_path / "job" / "truth_rank0.json").write_text("{}")
    run = open_path(tmp_path / "job", cache=False)
    assert (run.others, run.name) == ((), "job")
    assert [trace.source.path.parent.name for trace in run.traces] == ["rich"] * 3
    for trace in run.traces:
        assert trace.info.recorded_pass == "rich"
        assert trace.light is not None
        light = trace.light()
        assert light is not None
        assert (light.info.rank, light.info.recorded_pass) == (trace.info.rank, "light")
        assert light.source.path.parent.name == "light"
    assert [(file.rank, file.recorded_pass) for file in run.rank_files] == [
        (rank, name) for rank in range(3) for name in ("rich", "light")
    ]
    alone = open_path(tmp_path / "job" / "light", cache=False)
    assert [trace.info.recorded_pass for trace in alone.traces] == [None] * 3
    shutil.rmtree(tmp_path / "job" / "light")
    write_job(tmp_path / "job" / "light", 3, world=6)  # another job's
    assert len(open_path(tmp_path / "job", cache=False).others) == 1


# --- summaries


def test_the_table_of_many_is_that_of_all_traces(job: Path, threads: ThreadPoolExecutor) -> None:
    files, problems = find_ranks(job)
    found = read(files, None, executor=threads)
    assert (problems, found.problems, found.made) == ((), (), MANY - 1)
    assert missing(found.ranks) == (5,)
    every = open_path(*(file.path for file in files[:READ_AT_ONCE]), cache=False)
    few = [one for one in found.ranks if one.rank in every.ranks]
    for name in ("rank", "step_ns", "compute_ns", "idle_ns", "behind_percent"):
        assert rank_rows(few, Scope())[name].to_list() == pytest.approx(rank_table(every)[name].to_list())


def test_summaries_are_made_once_and_anew_where_they_are_not_whole(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    paths = write_job(tmp_path / "job", 4)
    files, _ = find_ranks(tmp_path / "job")
    store = Store(tmp_path / "out")

    def made() -> int:
        return read(files, store, executor=threads).made

    assert (made(), made()) == (4, 0)
    kept = next(store.folder.iterdir())
    kept.write_bytes(kept.read_bytes()[:-1])
    assert (made(), made()) == (4, 0)
    rank_file(1, 4).write(paths[1])
    os.utime(paths[1], ns=(1, 1))
    assert (made(), made()) == (1, 0)
    assert not read(files, Store(tmp_path / "none"), make=False).ranks
    assert read(files, Store(tmp_path / "other"), also=[store]).made == 0
    assert len(Store(tmp_path / "other").entries()) == 4
    assert not entries.folder().is_dir()


def test_a_damaged_rank_is_a_problem_and_a_cut_one_has_its_note(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    paths = write_job(tmp_path / "job", 4)
    files, _ = find_ranks(tmp_path / "job")
    paths[1].write_bytes(b"\x1f\x8b\x08\x00 no stream")
    cut = gzip.compress(paths[2].read_bytes(), 0)
    paths[2].write_bytes(cut[: len(cut) * 2 // 3])
    paths[3].unlink()
    found = read(files, None, executor=threads)
    assert [one.rank for one in found.ranks] == [0, 2]
    assert any("ends early" in note.reason for note in found.ranks[1].notes)
    assert [(rank, name) for rank, name, _ in found.problems] == [(1, paths[1].name), (3, paths[3].name)]
    assert all(why for _, _, why in found.problems)


def test_a_killed_process_costs_its_own_rank_only(tmp_path: Path) -> None:
    ranks = (1, KILLED, 3)
    tasks = [Task(str(tmp_path / str(rank)), str(rank), rank) for rank in ranks]
    found = {one.task.rank: one for one in outcomes(tasks, jobs=1, work=dies)}
    assert found.keys() == set(ranks)
    assert found[KILLED].content is None
    assert "killed" in found[KILLED].problem
    assert {rank: one.content for rank, one in found.items() if rank != KILLED} == {
        rank: str(rank).encode() for rank in ranks if rank != KILLED
    }


def test_an_executor_that_was_shut_down_leaves_problems(tmp_path: Path) -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    (found,) = outcomes([Task(str(tmp_path), "a", 0)], executor=pool)
    assert "ended" in found.problem


def test_workers_are_as_many_as_fit_into_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from tracetui.analysis.ranks.files import reading

    monkeypatch.setattr(reading, "cores", lambda: 16)
    monkeypatch.setattr(reading, "free_memory", lambda: 8 << 30)
    assert affordable_jobs(20 << 20) == 16
    assert affordable_jobs(500 << 20) == 4
    assert affordable_jobs(1 << 40) == 1
    monkeypatch.setattr(reading, "free_memory", lambda: None)
    assert affordable_jobs(1 << 40) == 16
    plain = tmp_path / "a.json"
    plain.write_bytes(b"x" * 5000)
    packed = tmp_path / "a.json.gz"
    packed.write_bytes(gzip.compress(os.urandom(100) + b"x" * 900))
    assert (plain_size(plain), plain_size(packed), plain_size(tmp_path / "none")) == (5000, 1000, 0)


# --- the command


def printed(words: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    assert cli.main([*words, "--format", "json"]) == DONE
    return json.loads(capsys.readouterr().out)


def test_parts_come_together(job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = printed(["ranks", str(job), "--no-cache"], capsys)
    assert (whole["here"], whole["world_size"], whole["missing"]) == (MANY - 1, MANY, [5])
    assert [row["rank"] for row in whole["ranks"] if row["straggler"]] == [LATE]
    out = tmp_path / "out"
    for number in range(3):
        assert cli.main(["ranks", str(job), "--no-cache", "--part", f"{number}/3", "--into", str(out)]) == DONE
        said = capsys.readouterr()
        assert (said.out, f"part {number} of 3" in said.err) == ("", True)
    assert len(Store(out).files()) == 3
    opened = printed(["report", str(out)], capsys)
    assert {**opened, "path": whole["path"]} == whole
    assert printed(["ranks", str(out)], capsys) == opened
    assert cli.main(["open", str(out)]) == DONE
    text = capsys.readouterr().out
    assert f"{MANY - 1} of {MANY} are here; missing: 5" in text
    assert f"In the program rank {LATE} has" in " ".join(text.split())


def test_summaries_lead_back_to_their_recordings(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    write_job(tmp_path / "job", MANY)
    files, _ = find_ranks(tmp_path / "job")
    out = Store(tmp_path / "out")
    read(files, out, executor=threads)
    assert recordings_of(out.folder) == tmp_path / "job"
    run = open_path(tmp_path / "job")
    assert of_run(run, make=False).absent == 0
    assert ranks_of(run, make=False).height == MANY
    files[3].path.unlink()
    assert recordings_of(out.folder) is None
    shutil.rmtree(tmp_path / "cache")
    assert of_run(run, make=False).absent == MANY - 1
    assert not ranks_of(run, make=False).height


def test_what_does_not_go_together_is_said(job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["--part", "0/2"], "--into"),
        (["--part", "2/2", "--into", "x"], "parts 0 to 1"),
        (["--jobs", "0"], "at least 1"),
    ):
        assert cli.main(["ranks", str(job), *words]) == USAGE
        assert said in capsys.readouterr().err
    assert cli.main(["ranks", str(tmp_path / "none")]) == UNREADABLE


def test_a_report_of_many_ranks_shows_the_straggler(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(["report", str(job), "--section", "ranks", "overview"], capsys)["run"]
    assert len(found["ranks"]) == MANY - 1
    assert [trace["source"]["rank"] for trace in found["traces"]] == [0, LATE]
    one = printed(["report", str(job), "--rank", "9", "--section", "ranks", "overview"], capsys)["run"]
    assert [trace["source"]["rank"] for trace in one["traces"]] == [9]
    assert one["ranks"] == []
    assert cli.main(["report", str(job), "--rank", "5"]) == USAGE
    assert "ranks 0-4, 6-11" in capsys.readouterr().err


def test_a_folder_of_other_recordings_is_no_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(2):
        rank_file(0, 1).write(tmp_path / f"run_{'ab'[rank]}.pt.trace.json")
    one = printed(["ranks", str(tmp_path)], capsys)
    assert one["here"] == 1


def test_numbers_in_short_form() -> None:
    assert spans([3, 1, 2, 7, 9, 10]) == "1-3, 7, 9, 10"
    assert spans([]) == ""


TWO_RANKS = "chrome/ddp_vit_small_2ranks"


@pytest.fixture(scope="module")
def two() -> list[RankSummary]:
    return [summarise(trace) for trace in run_of(TWO_RANKS).traces]


def same(one: RankSummary, other: RankSummary) -> bool:
    headers = (field.name for field in fields(one) if field.name != "frames")
    return all(getattr(one, name).equals(getattr(other, name)) for name in FRAMES) and all(
        getattr(one, name) == getattr(other, name) for name in headers
    )


# --- what is in them


def test_the_table_of_ranks_is_the_same_from_traces_and_from_summaries(two: list[RankSummary]) -> None:
    for scope in (Scope(), Scope(skip_steps=1), Scope(steps=(1, 2))):
        ours, theirs = rank_rows(two, scope), rank_table(run_of(TWO_RANKS), scope)
        assert ours.height == 2
        assert judged(ours, jobs(two))["straggler"].to_list() == [False, True]
        for name in ("steps", "step_ns", "kernel_ns", "compute_ns", "communication_ns", "behind_percent"):
            assert ours[name].to_list() == pytest.approx(theirs[name].to_list()), name
    assert rank_rows(two, Scope())["idle_ns"].to_list() == pytest.approx(rank_table(run_of(TWO_RANKS))["idle_ns"])


def test_a_scope_that_summaries_cannot_answer_gives_no_table(two: list[RankSummary]) -> None:
    assert not rank_rows(two, Scope(devices=frozenset({0}))).height
    assert not rank_rows(two, Scope(window=(0, 1))).height


def test_steps_by_hand(tmp_path: Path) -> None:
    file = rank_file(3, 8)
    file.operator("aten::quiet", 1300, 1301)
    file.step(2, 1200, 5000)
    file.call("cudaDeviceSynchronize", (2700, 4200))
    found = summarise(open_path(file.write(tmp_path / "a.pt.trace.json"), cache=False).main)
    assert (found.rank, found.world_size, found.absolute) == (3, 8, True)
    assert found.steps.schema == STEPS
    rows = found.steps.to_dicts()
    assert [row["step"] for row in rows] == [0, 1, 2]
    zero = 10**18 + 3
    assert (rows[0]["begin"], rows[0]["end"]) == (zero + 1_000_000, zero + 1_100_000)
    assert [row["compute_ns"] for row in rows] == [60_000, 60_000, 0]
    assert [row["communication_ns"] for row in rows] == [20_000, 20_000, 0]
    assert [row["idle_ns"] for row in rows] == [20_000, 20_000, 3_800_000]
    assert [row["own_gpu_ns"] for row in rows] == [60_000, 60_000, 0]
    assert [row["launches"] for row in rows] == [2, 2, 0]
    # from 1301 to 2700 nothing begins or ends; the call blocks; what follows until the step's end is too short
    assert [row["silent_ns"] for row in rows] == [0, 0, 1_399_000]
    assert [row["loader_ns"] for row in rows] == [None] * 3


def test_a_recording_without_steps_is_one_window() -> None:
    trace = run_of(TWO_RANKS).main
    found = summarise(replace(trace, steps=trace.steps.clear())).steps
    assert found["step"].to_list() == [-1]


def test_a_file_gives_back_what_was_put_in(two: list[RankSummary]) -> None:
    odd = replace(
        two[0],
        path="rénk/\udcff0",
        groups=(("0", "default_pg", (0, 1)),),
        notes=(Note("missing", "something", 3, "such as this"),),
        window=None,
    )
    found = unpacked(packed([Stored(odd, "m", "/a"), Stored(two[1], "n", "/b")]))
    assert [(entry.mark, entry.source) for entry in found] == [("m", "/a"), ("n", "/b")]
    assert same(found[0].summary, odd)
    assert same(found[1].summary, two[1])
    assert len(packed([Stored(two[0], "", "")])) < 50_000


def torn(content: bytes) -> bytes:
    return content[:-7]


def other_byte(content: bytes) -> bytes:
    return content[:400] + bytes([content[400] ^ 1]) + content[401:]


def other_version(content: bytes) -> bytes:
    import zlib

    start = len(stores.MAGIC) + 8
    body = content[start:].replace(b'"version":%d' % stores.VERSION, b'"version":9', 1)
    length = int.from_bytes(content[start - 8 : start - 4], "little")
    return content[: start - 8] + length.to_bytes(4, "little") + zlib.crc32(body).to_bytes(4, "little") + body


def foreign(content: bytes) -> bytes:
    return b'{"traceEvents": []}'


@pytest.mark.parametrize("damage", [torn, other_byte, other_version, foreign, lambda _: b""])
def test_what_is_not_whole_counts_as_none(two: list[RankSummary], damage: Callable[[bytes], bytes]) -> None:
    content = packed([Stored(two[0], "m", "/a")])
    assert len(unpacked(content)) == 1
    assert damage(content) != content
    assert unpacked(damage(content)) == []


def test_other_columns_count_as_none(two: list[RankSummary]) -> None:
    wrong = replace(two[0], frames={**two[0].frames, "steps": two[0].steps.rename({"begin": "start"})})
    assert unpacked(packed([Stored(wrong, "m", "/a")])) == []


def test_a_mark_changes_with_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(100_000))
    before, stat = mark_of(path), path.stat()
    assert mark_of(path) == before
    path.write_bytes(bytes(99_999) + b"x")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert mark_of(path) != before
    path.write_bytes(bytes(100_000))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert mark_of(path) == before
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert mark_of(path) != before


def test_a_store_gathers_into_one_file_and_leaves_others_alone(tmp_path: Path, two: list[RankSummary]) -> None:
    store = Store(tmp_path / "out")
    entries = [Stored(replace(one, path=f"rank{one.rank}"), "m", "/a") for one in two]
    for entry in entries:
        store.add(entry.summary.path, packed([entry]))
    (store.folder / "notes.txt").write_text("mine")
    (store.folder / f"torn{stores.SUFFIX}").write_bytes(b"no")
    assert sorted(entry.summary.rank for entry in store.entries()) == [0, 1]
    store.gather(entries)
    names = sorted(path.name for path in store.folder.iterdir())
    assert names == [f"job{stores.SUFFIX}", "notes.txt", f"torn{stores.SUFFIX}"]
    assert [entry.summary.rank for entry in store.entries()] == [0, 1]
    newer = Stored(replace(two[0], path="rank0", host="other"), "m2", "/a")
    store.add("rank0", packed([newer]))
    os.utime(store.single("rank0"), ns=(2**62, 2**62))
    assert {entry.summary.path: entry.mark for entry in store.entries()} == {"rank0": "m2", "rank1": "m"}


def test_a_summary_is_as_large_in_a_job_of_many_ranks() -> None:
    def stored(count: int) -> tuple[int, RankSummary]:
        groups = (("0", "default_pg", members(range(count))), ("1", "odd", members((0, 1, 5))))
        summary = replace(Made(ranks=2).summaries()[0], world_size=count, groups=groups)
        content = packed([Stored(summary, "m", "/rank0")])
        return len(content), unpacked(content)[0].summary

    small, large = stored(1000), stored(100_000)
    assert large[0] - small[0] < 64
    assert large[1].groups == (("0", "default_pg", range(100_000)), ("1", "odd", (0, 1, 5)))


def test_ranks_of_a_group_have_one_form() -> None:
    assert members([4, 8, 12]) == members((4, 8, 12)) == range(4, 16, 4)
    assert members((3, 1)) == range(3, -1, -2)
    for odd in ((), (7,), (0, 1, 3), (2, 2)):
        assert members(odd) == odd
