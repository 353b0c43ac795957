"""The captures of a user's program are recorded around the program's own calls, which stay what they were."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from tracetui.collectors.child import graphs


class Graph:
    """Stands for torch.cuda.CUDAGraph."""

    def capture_begin(self, *_, **__):
        DONE.append("begin")
        if FAILS:
            raise RuntimeError("the program's own")

    def capture_end(self):
        DONE.append("end")


DONE: list[str] = []
FAILS: list[bool] = []


@pytest.fixture
def captures(monkeypatch, tmp_path):
    """Captures under way, with a stand-in for torch that writes down what is called."""
    DONE.clear()
    FAILS.clear()
    graph = type("CUDAGraph", (Graph,), dict(Graph.__dict__))

    class Profile:
        def __init__(self, **_):
            pass

        def start(self):
            DONE.append("start")

        def stop(self):
            DONE.append("stop")

        def add_metadata_json(self, *_):
            pass

        def export_chrome_trace(self, path):
            Path(path).write_text("x" * 10)

    @contextlib.contextmanager
    def record_function(name):
        DONE.append(name)
        yield

    profiler = SimpleNamespace(profile=Profile, record_function=record_function)
    stream = SimpleNamespace(cuda_stream=7)
    torch = SimpleNamespace(
        cuda=SimpleNamespace(CUDAGraph=graph, current_stream=lambda: stream),
        profiler=profiler,
        autograd=SimpleNamespace(_profiler_enabled=lambda: "busy" in DONE),
    )
    monkeypatch.setitem(__import__("sys").modules, "torch", torch)
    monkeypatch.setitem(__import__("sys").modules, "torch.profiler", profiler)
    monkeypatch.setattr(graphs, "_captured", lambda stream: iter([f"kernel_of_{stream}"]))
    monkeypatch.delenv(graphs.WANTED, raising=False)
    spec = {"out": str(tmp_path), "with_stack": True, "run_id": "r", "entry": None}
    made = graphs.Captures(spec, contextlib.nullcontext)
    made.begin()
    return made, graph, tmp_path


def test_a_recording_starts_before_the_capture_and_ends_after_it(captures):
    made, graph, folder = captures
    for _ in range(2):
        graph().capture_begin()
        graph().capture_end()
    whole = ["start", "begin", "end", "graph kernel kernel_of_7", "stop"]
    assert whole * 2 == DONE
    assert made.files == ["capture.pt.trace.json.gz", "capture2.pt.trace.json.gz"]
    assert all((folder / name).is_file() for name in made.files)
    made.end()
    graph().capture_begin()
    assert DONE[len(whole) * 2 :] == ["begin"]


def test_no_capture_is_looked_at_where_the_user_leaves_them_out(captures, monkeypatch):
    made, graph, folder = captures
    made.end()
    monkeypatch.setenv(graphs.WANTED, "0")
    DONE.clear()
    unasked = graphs.Captures({"out": str(folder), "with_stack": True}, contextlib.nullcontext)
    unasked.begin()
    graph().capture_begin()
    graph().capture_end()
    assert DONE == ["begin", "end"]
    assert unasked.told() == []


def test_a_capture_that_fails_fails_as_it_would_and_leaves_no_recording(captures):
    made, graph, folder = captures
    FAILS.append(True)
    with pytest.raises(RuntimeError, match="the program's own"):
        graph().capture_begin()
    assert DONE == ["start", "begin", "stop"]
    assert not made.files
    assert not list(folder.iterdir())


def test_the_program_goes_on_where_the_profiler_does_not(captures, monkeypatch):
    made, graph, _ = captures

    def refuses():
        raise RuntimeError("no CUPTI\nmore")

    monkeypatch.setattr(made, "_start", refuses)
    graph().capture_begin()
    graph().capture_end()
    assert DONE == ["begin", "end"]
    assert made.told() == ["captures of CUDA graphs were not recorded: RuntimeError: no CUPTI"]


def test_a_profiler_of_the_program_s_own_is_left_alone(captures):
    made, graph, _ = captures
    DONE.append("busy")
    graph().capture_begin()
    graph().capture_end()
    assert DONE == ["busy", "begin", "end"]
    assert made.told() == ["1 captures of CUDA graphs were not recorded"]


def test_captures_have_a_limit(captures, monkeypatch):
    made, graph, _ = captures
    monkeypatch.setattr(graphs, "MOST_BYTES", 10)
    for _ in range(3):
        graph().capture_begin()
        graph().capture_end()
    assert made.files == ["capture.pt.trace.json.gz"]
    assert DONE.count("start") == 1
