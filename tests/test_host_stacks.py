"""The sampled stacks as a tree and in the formats of other tools; of recordings whose lines are known."""

import json
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace
from sample_runs import DATA
from tui_pilot import opened, press, screen_text

from tracetui.analysis.host_lines import sampled
from tracetui.analysis.host_stacks import LEAST_PERCENT, folded, host_stacks
from tracetui.app.cli.main import main
from tracetui.app.reports.stacks import collapsed, speedscope
from tracetui.parsers import open_path
from tracetui.parsers.runs.samples import Frame

RUNS = [DATA / "causes" / name for name in ("rl_buffer", "validate_9", "topp_decode")]


def sampled_of(run: Path):
    found, problem = sampled(open_path(run).main)
    assert problem is None
    assert found is not None
    return found


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_tree_holds_all_time_and_each_row_what_is_below(run: Path) -> None:
    of = sampled_of(run)
    rows = host_stacks(of).to_dicts()
    own = [sum(ns for at, _, ns in of.stays(thread)) for thread in range(len(of.file.threads))]
    for number, thread in enumerate(of.file.threads):
        mine = [row for row in rows if row["thread"] == thread.name]
        roots = sum(row["percent"] for row in mine if row["depth"] == 0)
        assert roots == pytest.approx(100 * own[number] / of.whole_ns, abs=len(mine) * LEAST_PERCENT)
        for at, row in enumerate(mine):
            below = 0.0
            for other in mine[at + 1 :]:
                if other["depth"] <= row["depth"]:
                    break
                assert other["path"].startswith(row["path"] + "/")
                below += other["percent"] if other["depth"] == row["depth"] + 1 else 0.0
            assert row["percent"] == pytest.approx(below + row["self_percent"]), row["path"]
    by_parent: dict[str, list[float]] = {}
    for row in rows:
        by_parent.setdefault(row["path"].rpartition("/")[0], []).append(row["percent"])
    assert all(times == sorted(times, reverse=True) for times in by_parent.values())
    assert [row["other"] for row in rows] == sorted(row["other"] for row in rows)


def test_libraries_are_one_row_below_the_programs_own_frames() -> None:
    own, library = Frame("train.py", 3, "step"), Frame("/usr/lib/python3.12/random.py", 9, "sample")
    outer = Frame("/opt/site-packages/torch/nn/modules/module.py", 1, "_call_impl")
    assert folded((own, outer, library)) == (own, library)
    assert folded((outer, own)) == (own,)
    assert folded((outer, library)) == (library,)
    assert host_stacks(None).height == 0


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_other_tools_read_the_same_times(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of = sampled_of(run)
    spent: Counter[str] = Counter()
    for thread, _, ns in of.stays():
        spent[of.file.threads[thread].name] += ns
    assert main(["report", str(run), "--format", "collapsed"]) == 0
    told: Counter[str] = Counter()
    text = capsys.readouterr().out
    assert text == collapsed(of)
    for line in text.splitlines():
        stack, number = line.rsplit(" ", 1)
        assert stack.startswith("thread ")
        told[stack.split(";")[0].removeprefix("thread ")] += int(number)
    for name, ns in spent.items():
        assert told[name] == pytest.approx(ns / 1e3, abs=len(text.splitlines()))
    assert main(["report", str(run), "--format", "speedscope"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(speedscope(of, run.name))
    assert found["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    for profile in found["profiles"]:
        assert sum(profile["weights"]) == profile["endValue"] == spent[profile["name"]]
        assert len(profile["weights"]) == len(profile["samples"])
        assert max(map(max, filter(None, profile["samples"])), default=-1) < len(found["shared"]["frames"])
    assert found["profiles"][0]["name"] == next(thread.name for thread in of.file.threads if thread.steps)


def test_without_samples_one_line_says_how_to_take_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(DATA / "mlp_profiled"), "--format", "speedscope"]) == 2
    assert "tracetui profile takes them" in capsys.readouterr().err


def test_a_speedscope_file_alone_is_named_and_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.speedscope.json"
    file.write_text(speedscope(sampled_of(RUNS[0]), "a"))
    assert main(["report", str(file)]) == 1
    assert "a speedscope profile: stacks of the host and no GPU work; give the trace" in capsys.readouterr().err


def test_threads_of_one_name_are_told_apart() -> None:
    of = sampled_of(RUNS[0])
    first, second = of.file.threads[:2]
    alike = replace(of, file=replace(of.file, threads=(replace(first, name="a"), replace(second, name="a"))))
    rows = host_stacks(alike)
    assert rows["thread"].unique().sort().to_list() == ["a 1", "a 2"]
    assert rows["path"].n_unique() == rows.height
    profiles = json.loads(speedscope(alike, "x"))["profiles"]
    assert [profile["name"] for profile in profiles] == [f"a {2 - first.steps}", f"a {1 + first.steps}"]


async def test_the_tree_opens_behind_the_lines_and_enter_shows_one_alone() -> None:
    async with opened(RUNS[0], tab="host") as (app, pilot):
        await press(pilot, "v", "v")
        assert any("rl_buffer.py:26 <module>" in line for line in screen_text(app).splitlines())
        await press(pilot, "down", "down", "enter")
        assert "› rl_buffer.py:20 make.<locals>.step" in screen_text(app).splitlines()[2]
        assert "rl_buffer.py:20" in screen_text(app).splitlines()[4]
        assert not any("common.py:30 run" in line for line in screen_text(app).splitlines())
        await press(pilot, "escape")
        assert any("common.py:30 run" in line for line in screen_text(app).splitlines())
