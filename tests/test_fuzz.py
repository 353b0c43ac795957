"""A few inputs of the fuzzer (`make fuzz`) with a fixed seed; every find has a test of its own in `test_fuzz_finds`."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from fuzz import loop, road, worker
from fuzz.case import Plan, build, plan_of
from fuzz.formats import FORMATS
from fuzz.page import table, write_table

from tracetui.parsers.runs import cache

SEED = 20_260
COUNTS = {
    "chrome": 12,
    "jax": 5,
    "nsys": 12,
    "ncu": 12,
    "memory snapshot": 12,
    "run.json": 5,
    "cache": 4,
    "settings": 12,
    "equivalent chrome": 6,
    "equivalent nsys": 12,
    "equivalent ncu": 12,
    "equivalent run.json": 12,
    "equivalent snapshot": 12,
    "ncu report": 12,
    "xplane": 6,
    "other databases": 8,
    "rocprof": 12,
    "edge": 12,
}


SETTLED = {
    "nsys": (
        (3002, 393, (("no row numbers", 357972039), ("no row numbers", 1276128634))),
        (3002, 403, (("index and trigger", 3059357143), ("row twice", 713729159))),
    ),
    "jax": (
        (3002, 1614, (("other order", 583048482), ("gzip cut off", 260385121))),
        (42_001, 534, (("foreign event", 4266188614),)),
    ),
    "memory snapshot": ((43_001, 320, (("entries removed", 1721729346),)),),
}
"""Inputs at which the oracle was wrong: by a step that spoilt more than it said, or a name cut off."""


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder for inputs; what the fuzzer sets in the environment is restored."""
    for name in ("CACHE_DIR", "CONFIG_DIR", "DATA_DIR", "NO_STATE"):
        monkeypatch.setenv(f"TRACETUI_{name}", os.environ.get(f"TRACETUI_{name}", ""))
    monkeypatch.setattr(cache, "MIN_SOURCE_BYTES", 0)
    monkeypatch.setattr(road, "SHARE", 0.025)
    worker.apart(tmp_path)
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def prepared(name: str, folder: Path) -> Any:
    """A format with its bases; Chrome's take longest to read, and are read once."""
    if name not in _known:
        format = FORMATS[name]()
        format.prepare(folder)
        if name != "chrome":
            return format
        _known[name] = format
    return _known[name]


_known: dict[str, Any] = {}


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_and_odd_inputs_keep_the_oracle(apart: Path, name: str) -> None:
    format = prepared(name, apart)
    plans = [plan_of(format, SEED, number) for number in range(COUNTS[name])]
    plans += [Plan(name, seed, number, steps) for seed, number, steps in SETTLED.get(name, ())]
    outcomes = [worker.attempt(format, plan, apart) for plan in plans]
    assert [(outcome.plan, outcome.find) for outcome in outcomes if outcome.find] == []


def test_the_fuzzer_sees_what_is_wrong(apart: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event that is lost without a word, a wrong value and an exception are finds, made as small as they can be."""
    from tracetui.parsers.chrome import scan

    format = prepared("chrome", apart)
    ids = scan.HOST_INTS | {"correlation": "External id"}
    plans = [plan_of(format, SEED, number) for number in range(60)]
    plan = next(plan for plan in plans if len(plan.steps) > 1 and all(step[0] in format.shaped for step in plan.steps))
    assert build(format, plan).write(apart).read_bytes() == build(format, plan).write(apart).read_bytes()
    monkeypatch.setattr(scan, "HOST_INTS", ids)
    monkeypatch.setattr(road, "both_paths", lambda *_: None)
    finds = [found for plan in [plan, *plans[:3]] if (found := worker.attempt(format, plan, apart)).find]
    finds = [found for found in finds if "host event" in found.find]
    assert finds
    large = max(finds, key=lambda found: len(found.plan.steps))
    assert len(worker.smaller(format, large, apart).plan.steps) == 1


DEATHS = {
    "silent": ("print(said, flush=True); time.sleep(60)", [(5, "SILENT")]),
    "aborted": ("print(said, flush=True); os.abort()", [(5, "DIED -6")]),
    "before the first input": ("raise SystemExit('no recording')", [(5, "DIED 1")] * loop.TRIES),
}


@pytest.mark.parametrize("how", DEATHS)
def test_a_process_that_hangs_or_dies_is_a_find_and_ends_no_run(tmp_path, monkeypatch, how) -> None:
    code, finds = DEATHS[how]
    program = f"import os, time; said = '{{\"begin\": 5}}'; {code}"
    start = loop.subprocess.Popen
    monkeypatch.setattr(loop.subprocess, "Popen", lambda _, **given: start([sys.executable, "-c", program], **given))
    monkeypatch.setattr(loop, "SILENT_SECONDS", 2)
    monkeypatch.setattr(loop, "POLL_SECONDS", 0.1)
    summary = loop.run(["jax"], 1, 5, 1, 1, tmp_path)
    kinds = summary["formats"]["jax"]["finds"]
    assert [(number, kind["signature"]) for kind in kinds for number in kind["numbers"]] == finds


def test_no_input_begins_when_the_time_is_over(tmp_path: Path) -> None:
    summary = loop.run(["settings"], 1, 0, 5, 1, tmp_path, seconds=0)
    assert summary["formats"]["settings"]["inputs"] == 0


def test_no_input_is_counted_twice(tmp_path: Path) -> None:
    part = {"seed": 1, "first": 0, "formats": {"chrome": {"inputs": 3, "outcomes": {}, "classes": {}, "finds": []}}}
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps(part))
    with pytest.raises(SystemExit, match="same inputs"):
        write_table([tmp_path / "a.json", tmp_path / "b.json"])


def test_the_table_adds_up() -> None:
    part = {"inputs": 3, "outcomes": {"read": 2, "find": 1}, "classes": {"packed": 3}, "finds": []}
    text = table([{"formats": {"chrome": part}}, {"formats": {"chrome": part, "ncu": part}}])
    assert "| chrome | 6 | 4 | 0 | 0 | 2 |" in text
    assert "| all | 9 | 6 | 0 | 0 | 3 |" in text
    assert "| chrome | packed 6 |" in text
    assert json.dumps(part)
