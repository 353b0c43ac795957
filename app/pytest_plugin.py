"""`@pytest.mark.tracetui`: records a test, whose body is a step, and holds it to limits and to a stored baseline.

pytest imports this module in every session, so it imports nothing else until a marked test runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

MARK = (
    "tracetui(limits={}, regression=None, **recording): record the test as the step of a program; it fails if a number "
    "of the JSON report, such as overview.step.us, is above its limit, or if the run is a regression ('5%') "
    "against its baseline"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Says where runs and baselines are, and how these are made."""
    group = parser.getgroup("tracetui")
    group.addoption("--tracetui-dir", default=".tracetui", metavar="DIR", help="where marked tests are recorded")
    group.addoption("--tracetui-update", action="store_true", help="make the recordings of this session the baselines")


def pytest_configure(config: pytest.Config) -> None:
    """Declares the mark."""
    config.addinivalue_line("markers", MARK)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a marked test as often as its recording has steps; others as ever."""
    mark = pyfuncitem.get_closest_marker("tracetui")
    if mark is None:
        return None
    import re
    import shutil
    from inspect import iscoroutinefunction

    if iscoroutinefunction(pyfuncitem.obj):
        raise pytest.UsageError(f"{pyfuncitem.nodeid}: tracetui records no coroutines")
    options = dict(mark.kwargs)
    limits, regression = options.pop("limits", {}), options.pop("regression", None)
    folder = pyfuncitem.config.rootpath / pyfuncitem.config.getoption("--tracetui-dir")
    name = re.sub(r"[^\w.-]+", "-", pyfuncitem.nodeid).strip("-")
    run, baseline = folder / "runs" / name, folder / "baselines" / name
    if (run / "run.json").exists():
        shutil.rmtree(run)
    _record(pyfuncitem, run, options)
    wrong = _above(run, limits) if limits else []
    if pyfuncitem.config.getoption("--tracetui-update"):
        if (baseline / "run.json").exists():
            shutil.rmtree(baseline)
        shutil.copytree(run, baseline)
    elif regression is not None:
        wrong += _slower(pyfuncitem, baseline, run, regression)
    if wrong:
        pytest.fail("\n".join([*wrong, f"tracetui {run}"]), pytrace=False)
    return True


def _record(item: pytest.Function, run: Path, options: dict[str, Any]) -> None:
    from tracetui.collectors.child.recording import recording

    given = {name: item.funcargs[name] for name in item._fixtureinfo.argnames}
    with recording(run, **options) as record:
        while True:
            item.obj(**given)
            record.step()
            if not record.going:
                return


def _above(run: Path, limits: dict[str, float]) -> list[str]:
    """What is above its limit; a number that the recording can't tell is so, too."""
    from msgspec import to_builtins

    from tracetui.analysis.report.report import SECTIONS, report
    from tracetui.parsers import open_path

    sections = sorted({name.partition(".")[0] for name in limits} & {*SECTIONS})  # others have no number
    told = report(open_path(run, cache=False), sections=sections).run
    values = {name: _number(to_builtins(told.traces[told.main or 0]), name) for name in limits}
    return [
        f"{name} is {'not known' if value is None else f'{value:.6g}'}, its limit {limits[name]:.6g}"
        for name, value in values.items()
        if value is None or value > limits[name]
    ]


def _number(part: Any, name: str) -> float | None:
    try:
        for key in name.split("."):
            part = part if part is None else part[int(key) if isinstance(part, list) else key]
    except (LookupError, TypeError, ValueError):
        part = name
    if part is None or isinstance(part, (int, float)):
        return part
    raise pytest.UsageError(f"the report has no number {name}")


def _slower(item: pytest.Function, baseline: Path, run: Path, regression: str) -> list[str]:
    """What `tracetui diff --fail-on` says where it finds a regression; what it can't judge is only shown."""
    from contextlib import redirect_stderr, redirect_stdout
    from io import StringIO

    from tracetui.app.cli.main import main
    from tracetui.app.text.exit_codes import CONDITION_HOLDS, DONE

    if not (baseline / "run.json").exists():
        return [f"no baseline in {baseline}: --tracetui-update makes it"]
    out, said = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(said):
        code = main(["diff", str(baseline), str(run), "--no-cache", "--fail-on", f"regression:{regression}"])
    item.add_report_section("call", "tracetui diff", out.getvalue() + said.getvalue())
    return [said.getvalue().strip()] if code == CONDITION_HOLDS or (code != DONE and not out.getvalue()) else []
