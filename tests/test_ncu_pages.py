"""Raw and details page of one Nsight Compute report are one recording."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from sample_runs import VIM

from tracetui.parsers import open_path
from tracetui.parsers.ncu.pages import join_pages


def test_a_run_s_pages_are_one_recording(tmp_path: Path) -> None:
    run = open_path(VIM)
    (both,) = run.of_kind("ncu")
    raw, details = (open_path(VIM / name).main for name in ("ncu.csv", "ncu.details.csv"))
    kinds = dict(both.counters["kind"].value_counts().iter_rows())
    assert kinds["metric"] == raw.counters.height
    rules = details.counters.filter(details.counters["kind"] != "metric")
    assert both.counters.height == raw.counters.height + rules.height
    assert both.device.equals(raw.device)
    assert both.counters["device_row"].is_sorted()


def test_rules_of_a_copy_do_not_count_twice() -> None:
    raw, details = (open_path(VIM / name).main for name in ("ncu.csv", "ncu.details.csv"))
    (once,) = join_pages([raw, details])
    both, copy = join_pages([raw, details, replace(details)])
    assert both.counters.equals(once.counters)
    assert copy.counters.equals(details.counters)
    assert len(join_pages([raw, details, replace(raw), replace(details)])) == 2


@pytest.mark.parametrize("change", ["duration", "launch"])
def test_pages_of_two_reports_stay_two(tmp_path: Path, change: str) -> None:
    for name in ("trace.pt.trace.json.gz", "run.json", "ncu.csv"):
        shutil.copy(VIM / name, tmp_path / name)
    lines = (VIM / "ncu.details.csv").read_text().splitlines(keepends=True)
    if change == "launch":  # the last launch is not there
        last = lines[-1].split(",")[0]
        lines = [line for line in lines if not line.startswith(last + ",")]
    else:
        lines = [_slower(line) if '"Duration"' in line else line for line in lines]
    (tmp_path / "ncu.details.csv").write_text("".join(lines))
    assert len(open_path(tmp_path, cache=False).of_kind("ncu")) == 2


def _slower(line: str) -> str:
    head, value, tail = line.rpartition('","')[0].rpartition('","') if line.endswith('""\n') else ("", "", "")
    return f'{head}{value}{2 * float(tail)}",""\n'
