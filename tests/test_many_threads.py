"""Reports say the same on any number of Polars' threads: under ``-n`` the other tests compute on one."""

import json
import os
import subprocess
import sys

import pytest
from sample_runs import recorded, report_of

from tracetui.app.reports.json_report import to_json

NAMES = (
    "chrome/ddp_vit_small_2ranks",
    "nsys/gpt_small_ctx256.sqlite.gz",
)
SCRIPT = """
import sys
import polars
from tracetui.analysis.report.report import report
from tracetui.app.reports.json_report import to_json
from tracetui.parsers import open_path
assert polars.thread_pool_size() == 4
print("[", ",".join(to_json(report(open_path(path))) for path in sys.argv[1:]), "]")
"""


def test_a_report_is_the_same_on_four_threads() -> None:
    command = [sys.executable, "-c", SCRIPT, *(str(recorded(name)) for name in NAMES)]
    environment = {**os.environ, "POLARS_MAX_THREADS": "4"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    for name, found in zip(NAMES, json.loads(done.stdout), strict=True):
        _alike(found, json.loads(to_json(report_of(name))), name)


def _alike(ours: object, theirs: object, place: str) -> None:
    """Fails where two values of JSON differ; the order in which floats were added up may show in their last digits."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        assert list(ours) == list(theirs), place
        for key in ours:
            _alike(ours[key], theirs[key], f"{place}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list):
        assert len(ours) == len(theirs), place
        for number, pair in enumerate(zip(ours, theirs, strict=True)):
            _alike(*pair, f"{place}.{number}")
    elif isinstance(ours, float) and isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=1e-12, abs=1e-12), place
    else:
        assert ours == theirs, place
