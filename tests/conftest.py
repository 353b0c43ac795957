"""Fixtures that open recordings and make traces that many tests share, and settings for all tests."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import shared_analyses
from hypothesis import HealthCheck, settings
from sample_runs import run_of
from shared_analyses import Sharing

from tracetui.app.session import kept_report
from tracetui.parsers import open_path

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from tracetui.parsers import Trace


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Where no bytecode may be written beside the modules, it goes to a folder that workers and programs share.

    Else each worker, and each program that a test starts, would compile every module again. Signals that tests send are
    heard by these programs: a run in the background, or by nohup, would hand down that it ignores some. It goes on
    ignoring them, by a handler, which no program inherits.
    """
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    if sys.dont_write_bytecode and not (Path(__file__).parent / "__pycache__").exists():
        own = config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
        sys.pycache_prefix, sys.dont_write_bytecode = str(shared / "pycache"), False


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Has each worker begin with other files, so that together they compile each once; they are sorted afterwards."""
    report = yield
    if isinstance(collector, pytest.Dir) and "PYTEST_XDIST_WORKER" in os.environ:
        number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
        first = len(report.result) * number // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        report.result = [*report.result[first:], *report.result[:first]]
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the screen come last, behind those that look at recordings alone.

    Under ``-n`` the longest file comes first, so that no worker is left with it when the others have ended.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: (item.path.name != "test_perturbed.py", item.path))
    items.sort(key=lambda item: item.path.name.startswith("test_tui_"))


def pytest_collection_finish() -> None:
    """Makes Python collect garbage less often, since the collected tests and read recordings live to the end anyway."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Starts three workers for two cores: each collects every test; some tests wait for other programs.

    With so many, threads of Polars would only wait for each other (`test_many_threads` has more of them).
    """
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.pop("TMUX", None)  # what tests copy is not for whoever runs them
    return -(-3 * len(os.sched_getaffinity(0)) // 2)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Under ``-n`` keeps the tests of a file together, because they share what they have read (`BothEnds`)."""
    if config.getoption("dist") != "load":
        return None
    from both_ends import BothEnds

    return BothEnds(config, log)


# The same examples every time, and no limit that a busy machine could miss.
settings.register_profile(
    "tracetui",
    max_examples=60,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tracetui")
shared_analyses.begin()


@pytest.fixture(autouse=True)
def _computes_itself(request: pytest.FixtureRequest) -> Iterator[None]:
    """Has a test that changes the program compute everything itself; other screens share what they compute."""
    Sharing.test, Sharing.changed = request.node, False
    yield
    Sharing.test = None


@pytest.fixture(scope="session", autouse=True)
def _apart_from_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps tests out of the user's cache, settings, and what was remembered; all workers share one cache."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRACETUI_CACHE_DIR", str(shared / "tracetui-cache"))
        patch.setenv("TRACETUI_CONFIG_DIR", str(tmp_path_factory.mktemp("config")))
        patch.setenv("TRACETUI_DATA_DIR", str(tmp_path_factory.mktemp("data")))
        patch.setenv("TRACETUI_NO_STATE", "1")
        patch.setattr(kept_report, "MOST_FILES", 0)  # no key tells what a test changes in its own process
        patch.delenv("POLARS_MAX_THREADS", raising=False)  # programs that tests start run as a user's do
        if os.environ.get("PYTHONDONTWRITEBYTECODE"):  # what they compile goes where `pytest_configure` puts it
            patch.delenv("PYTHONDONTWRITEBYTECODE")
            patch.setenv("PYTHONPYCACHEPREFIX", str(shared / "pycache"))
        yield


@pytest.fixture(scope="session")
def recording() -> Callable[[str], Trace]:
    """Opens one recording by its path below ``tests/data``, once per session."""
    return lambda name: run_of(name).traces[0]


@pytest.fixture(scope="session")
def training() -> Trace:
    """Two training steps of a small ViT with stacks, recorded on an H200."""
    return run_of("small_vit_train.pt.trace.json.gz").main


@pytest.fixture
def handmade(tmp_path: Path) -> Callable[..., Trace]:
    """Makes a trace of a few events; times in microseconds.

    ``operator``, ``annotation``, ``call`` and ``driver`` stand on thread 1 (or `thread`), ``kernel``, ``memcpy`` and
    ``projected`` (an annotation on the GPU) on stream 7 (or `stream`) of device 0. The number that a call and its
    kernel share is their correlation.
    """
    categories = {
        "operator": "cpu_op", "annotation": "user_annotation", "call": "cuda_runtime", "driver": "cuda_driver",
        "kernel": "kernel", "memcpy": "gpu_memcpy", "memset": "gpu_memset", "projected": "gpu_user_annotation",
    }  # fmt: skip

    def make(*events: tuple[str, str, float, float] | tuple[str, str, float, float, dict[str, Any]]) -> Trace:
        rows = []
        for kind, name, start, end, *more in events:
            args = dict(more[0]) if more else {}
            on_device = kind in ("kernel", "memcpy", "memset", "projected")
            stream, device = args.pop("stream", 7), args.pop("device", 0)
            lane = {"pid": device, "tid": stream} if on_device else {"pid": 1, "tid": args.pop("thread", 1)}
            if on_device and kind != "projected":
                args |= {"stream": stream, "device": device}
            row = {"ph": "X", "cat": categories[kind], "name": name, "ts": start, "dur": round(end - start, 3), **lane}
            rows.append(row | {"args": args})
        path = tmp_path / "handmade.json"
        path.write_text(json.dumps({"traceEvents": rows}))
        return open_path(path, cache=False).traces[0]

    return make


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Puts a program of this name on PATH; nsys may export."""
    monkeypatch.setenv("TRACETUI_EXPORT", "1")
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def put(name: str, script: str) -> Path:
        program = folder / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return program

    return put
