"""What the program in the profiled Python times and records, in which order; torch is a stand-in with a GPU."""

import builtins
import copy
import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

import pytest
from fake_torch import FakeTorch

from tracetui.collectors import launch, profiler_commands
from tracetui.collectors.child import machine_torch, main, script
from tracetui.collectors.child.marks import Calls, Marks
from tracetui.collectors.child.profilers import LIGHT_TRACE, TRACE, Refused
from tracetui.collectors.child.progress import Progress
from tracetui.collectors.child.sampling import ANSWER
from tracetui.collectors.request import ProfileRequest


@pytest.fixture
def spec(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """The spec for a request, for one of its tools."""

    def make(tool: str = "torch", **asked: Any) -> dict[str, Any]:
        request = ProfileRequest(output=tmp_path / "out", entry=None if "command" in asked else "mlp", **asked)
        made = profiler_commands.child_spec(request, tool, tmp_path, "run-1")
        return {**made, "warmup_s": 0.0}

    return make


def run_model(spec: dict[str, Any], fake: FakeTorch) -> dict[str, Any]:
    """The measurement of a model whose step takes a millisecond."""

    def step(_: Any) -> None:
        time.sleep(1e-3)
        fake.done.append("step")

    workload = SimpleNamespace(batches=lambda: iter(range(10**6)), step=step)
    return main.run_steps(spec, workload, Progress(spec["progress"]))


def order(fake: FakeTorch) -> str:
    """Steps and profilers, in order."""
    kept = {"step": ".", "start light": "<", "stop light": ">", "start rich": "[", "stop rich": "]"}
    return "".join(kept[what] for what in fake.done if what in kept)


def test_clean_steps_then_light_then_rich(spec: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeTorch(monkeypatch)
    made = run_model(spec(), fake)
    # 3 to warm up, 10 clean; 2 that warm the recording up and 10 in it; 1 and 3
    assert order(fake) == "." * 13 + "<" + "." * 12 + ">" + "[" + "." * 4 + "]"
    assert [len(made[key]) for key in ("clean_step_ns", "clean_host_ns", "profiled_step_ns")] == [10, 10, 3]
    assert all(ns >= 1_000_000 for ns in made["clean_step_ns"] + made["clean_host_ns"])
    assert [(one["name"], one["file"], one["steps"]) for one in made["passes"]] == [
        ("light", LIGHT_TRACE, 10),
        ("rich", TRACE, 3),
    ]
    assert [len(one["step_ns"]) for one in made["passes"]] == [10, 3]
    assert made["files"] == [LIGHT_TRACE, TRACE]
    assert made["skipped"] == []


def test_the_light_recording_has_its_boundaries(spec: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeTorch(monkeypatch)
    before = time.time_ns()
    made = run_model(spec(light_steps=4), fake)
    said = fake.exported[LIGHT_TRACE]
    assert said["experimental_config"] == {"enable_cuda_sync_events": True}
    own = said["tracetui"]
    assert (own["run"], own["pass"], own["entry"]) == ("run-1", "light", "mlp")
    assert len(own["marks"]) == 5
    assert all(after - start >= 1_000_000 for start, after in pairwise(own["marks"]))
    assert before < own["marks"][0] < own["marks"][-1] < time.time_ns()
    assert fake.exported[TRACE]["tracetui"] == {"run": "run-1", "entry": "mlp", "pass": "rich"}
    flags = [one["flags"]["cuda_sync_events"] for one in made["passes"]]
    assert flags == [True, False]


def test_the_gpu_is_waited_for_around_each_recording(spec: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeTorch(monkeypatch)
    run_model(spec(clean_steps=0, light_steps=2, steps=1, warmup=0), fake)
    inside = fake.done[fake.done.index("start light") - 1 :]
    assert inside == [
        "synchronize", "start light", "step", "step", "synchronize", "event", "step", "event", "step", "event",
        "synchronize", "stop light",
        "start rich", "step", "synchronize", "next rich", "event", "step", "event", "synchronize", "next rich",
        "stop rich",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "gpu"), [({"light_steps": 0}, True), ({"device": "cpu"}, True), ({}, False)], ids=["asked", "cpu", "none"]
)
def test_without_a_light_recording(spec, monkeypatch, asked, gpu) -> None:
    fake = FakeTorch(monkeypatch, gpu=gpu)
    made = run_model(spec(**asked), fake)
    assert order(fake) == "." * 13 + "[" + "." * 4 + "]"
    assert [one["name"] for one in made["passes"]] == ["rich"]
    assert len(made["clean_host_ns"]) == 10
    assert made["skipped"] == []
    if asked.get("device") == "cpu" or not gpu:
        assert "event" not in fake.done
        assert made["clean_step_ns"] == made["clean_host_ns"]


def test_a_torch_without_that_setting_records_without_it(spec, monkeypatch) -> None:
    fake = FakeTorch(monkeypatch, sync_events=False)
    made = run_model(spec(), fake)
    assert "experimental_config" not in fake.exported[LIGHT_TRACE]
    assert made["passes"][0]["flags"]["cuda_sync_events"] is False


def test_a_light_recording_that_torch_refuses_is_left_out(spec, monkeypatch) -> None:
    fake = FakeTorch(monkeypatch)
    fake.refuses = "CUPTI is not there\nmore"
    made = run_model(spec(), fake)
    assert [one["name"] for one in made["passes"]] == ["rich"]
    (line,) = made["skipped"]
    assert line.endswith("CUPTI is not there")


def test_a_torch_that_cannot_record_gpus_says_so(spec: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeTorch(monkeypatch, cupti=False)
    made = run_model(spec(), fake)
    assert [one["name"] for one in made["passes"]] == ["rich"]
    assert "without CUPTI" in made["skipped"][0]
    assert "event" in fake.done  # the clean steps are those of a GPU


def test_boundaries_on_several_gpus_give_no_times(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeTorch(monkeypatch)
    marks = Marks("cuda")
    marks.add()
    marks.add()

    def refuse(_: object) -> float:
        raise RuntimeError("Both events must be on the same device")

    marks._events[0].elapsed_time = refuse
    assert marks.step_ns() == []
    assert len(marks.host_ns()) == 1


def test_clean_steps_belong_to_the_tool_that_loads_nothing_before_them(spec: Callable[..., Any]) -> None:
    tools = ("nsys", "torch", "memory")
    assert {tool: spec(tool, tools=tools)["clean_steps"] for tool in tools} == {"nsys": 0, "torch": 10, "memory": 0}
    assert {tool: spec(tool, tools=tools)["light_steps"] for tool in tools} == {"nsys": 0, "torch": 10, "memory": 0}
    assert spec("nsys", tools=("nsys",))["clean_steps"] == 10


# --- own programs

PROGRAM = """
import time
class Optimizer: pass
optimizer, other = Optimizer(), Optimizer()
for number in range({calls}):
    time.sleep(0.001)
    for hook in HOOKS:
        hook(optimizer)
"""


def run_program(spec, fake, calls, tmp_path, monkeypatch, text=PROGRAM) -> dict[str, Any]:
    """What is known of a program that calls its optimizer so often; ``error`` if it was refused."""
    program = tmp_path / "train.py"
    program.write_text(text.format(calls=calls))

    def hooked(path: str, run_name: str) -> None:
        assert run_name == "__main__"
        exec(
            compile(Path(path).read_text(), path, "exec"),
            {"HOOKS": [*fake.hooks, lambda _: fake.done.append("step")], "DONE": fake.done},
        )

    monkeypatch.setattr(script.runpy, "run_path", hooked)
    monkeypatch.setattr(script.sys, "argv", ["start.py"])
    monkeypatch.setattr(script.machine_torch, "settings", dict)
    result: dict[str, Any] = {}

    def keep() -> None:
        fake.kept.append(copy.deepcopy(result))

    try:
        script.run({**spec, "script": ["python", str(program)]}, Progress(spec["progress"]), result, keep)
    except Refused as error:
        result["error"] = str(error)
    return result


@pytest.fixture
def own(
    spec: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[dict[str, Any], FakeTorch]]:
    def run(calls: int, *, gpu: bool = True, **asked: Any) -> tuple[dict[str, Any], FakeTorch]:
        fake = FakeTorch(monkeypatch, gpu=gpu)
        made = spec(command=("python", "train.py"), **asked)
        return run_program(made, fake, calls, tmp_path, monkeypatch), fake

    return run


def test_what_is_known_is_kept_before_the_program_ends(own: Callable[..., Any]) -> None:
    """A program may leave through ``os._exit`` or be killed: after each part all that is known so far is written."""
    _, fake = own(40)
    kept = [each["measurement"] for each in fake.kept]
    assert [len(each["clean_step_ns"]) for each in kept] == [10, 10, 10, 10]
    passes = [[one["name"] for one in each["passes"]] for each in kept]
    assert passes == [[], ["light"], ["light", "rich"], ["light", "rich"]]
    assert [each["has_all"] for each in fake.kept] == [False, False, False, True]
    assert all(each["workload"] == {"backend": "user"} for each in fake.kept)


def test_an_own_program_has_all_three(own: Callable[..., Any]) -> None:
    result, fake = own(40)
    made = result["measurement"]
    # what happens after a call of the optimizer comes before that call's dot
    assert order(fake) == "." * 12 + "<" + "." * 12 + ">[" + "." * 3 + "]" + "." * 13
    assert [len(made[key]) for key in ("clean_step_ns", "clean_host_ns", "profiled_step_ns")] == [10, 10, 3]
    assert [(one["name"], one["steps"], len(one["step_ns"])) for one in made["passes"]] == [
        ("light", 10, 10),
        ("rich", 3, 3),
    ]
    assert len(fake.exported[LIGHT_TRACE]["tracetui"]["marks"]) == 11
    assert "error" not in result
    assert result["skipped"] == []


def test_28_steps_are_enough(own: Callable[..., Any]) -> None:
    result, _ = own(28)
    assert "error" not in result
    assert result["skipped"] == []
    fewer, _ = own(27)
    assert fewer["skipped"] == [
        "the program ended early, after 27 optimizer steps: 2 of 3 steps are in trace.pt.trace.json.gz"
    ]


def test_what_a_program_that_ends_early_gave_is_kept_and_said(own: Callable[..., Any]) -> None:
    clean, fake = own(8)
    assert len(clean["measurement"]["clean_step_ns"]) == 5
    assert clean["measurement"]["passes"] == []
    assert not fake.exported
    assert "optimizer.step() 8 times" in clean["error"]
    assert "recording begins after 25" in clean["error"]
    assert "--clean-steps 2 --no-light fits" in clean["error"]
    fitting, _ = own(8, clean_steps=2, light_steps=0)
    assert "error" not in fitting
    assert fitting["skipped"] == []

    lightly, fake = own(20)
    assert [(one["name"], one["steps"]) for one in lightly["measurement"]["passes"]] == [("light", 5)]
    assert len(fake.exported[LIGHT_TRACE]["tracetui"]["marks"]) == 6
    assert "5 of 10 steps are in light.pt.trace.json.gz" in lightly["skipped"][0]
    assert "error" in lightly

    warming, fake = own(14)  # within the two steps that warm the light recording up
    assert warming["measurement"]["passes"] == []
    assert fake.phases()[-1] == "synchronize"
    assert "stop light" in fake.done
    assert not fake.exported


def test_on_the_cpu_a_short_program_is_recorded_before_it_is_timed(own: Callable[..., Any]) -> None:
    result, fake = own(9, gpu=False)
    assert order(fake) == "." * 2 + "[" + "." * 3 + "]" + "." * 4
    assert len(result["measurement"]["clean_step_ns"]) == 3
    assert result["skipped"] == [
        "the program ended early, after 9 optimizer steps: 3 of 10 steps were timed without a profiler"
    ]
    assert "error" not in result


def test_a_program_that_has_a_gpu_and_does_not_use_it_is_one_of_the_cpu(spec, tmp_path, monkeypatch) -> None:
    fake = FakeTorch(monkeypatch)
    fake.initialized = False
    made = run_program(spec(command=("python", "x.py")), fake, 20, tmp_path, monkeypatch)
    assert [one["name"] for one in made["measurement"]["passes"]] == ["rich"]
    assert "event" not in fake.done  # an event would make it use the GPU


def test_steps_that_become_part_of_a_graph_are_no_steps(spec, tmp_path, monkeypatch) -> None:
    fake = FakeTorch(monkeypatch)
    fake.capturing = True
    made = run_program(spec(command=("python", "x.py")), fake, 40, tmp_path, monkeypatch)
    assert "it called no optimizer.step()" in made["error"]
    assert "synchronize" not in fake.done[:-1]  # waiting would end the capture


def test_the_first_optimizer_ends_the_steps_while_it_is_called(spec, tmp_path, monkeypatch) -> None:
    def told(program: str, calls: int) -> str:
        asked = spec(command=("python", "train.py"))
        line: str = run_program(asked, FakeTorch(monkeypatch), calls, tmp_path, monkeypatch, program)["skipped"][0]
        return line.partition(":")[0]

    both = PROGRAM.replace("        hook(optimizer)", "        hook(optimizer)\n        hook(other)")
    assert told(both, 20) == "the program ended early, after 20 optimizer steps"
    each = PROGRAM.replace("optimizer, other = ", "others = [Optimizer() for _ in range(300)]\noptimizer, other = ")
    each = each.replace("        hook(optimizer)", "        for one in (optimizer, *others): hook(one)")
    assert told(each, 20) == "the program ended early, after 20 optimizer steps"
    stages = PROGRAM.replace("hook(optimizer)", "hook(optimizer if number < 5 else other)")
    assert told(stages, 5 + script.MOST_OTHERS + 12) == "the program ended early, after 17 optimizer steps"


REPLAYED = (
    PROGRAM
    + """
TORCH.cuda.is_current_stream_capturing = lambda: True
for hook in HOOKS[:-1]:
    hook(optimizer)
TORCH.cuda.is_current_stream_capturing = lambda: False
graph, inner = TORCH.cuda.CUDAGraph(), TORCH.cuda.CUDAGraph()
for number in range(40):
    time.sleep(0.002)
    graph.replay()
    inner.replay()
"""
)


def graph_torch(monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    fake = FakeTorch(monkeypatch)
    torch = sys.modules["torch"]
    torch.cuda.CUDAGraph = type("CUDAGraph", (), {each: lambda *_: None for each in GRAPH})
    monkeypatch.setattr(builtins, "TORCH", torch, raising=False)
    return fake


@pytest.mark.parametrize("before", [2, 9, 20, 26, 60], ids=["warm-up", "clean", "light", "rich", "done"])
def test_replays_are_the_steps_once_the_optimizer_is_in_a_graph(spec, tmp_path, monkeypatch, before) -> None:
    """However far the recording of the steps before came: they were a warm-up of the capture."""
    fake = graph_torch(monkeypatch)
    asked = spec(command=("python", "train.py"))
    result = run_program(asked, fake, before, tmp_path, monkeypatch, REPLAYED)
    made = result["measurement"]
    assert (made["step_of"], "error" in result, result["skipped"]) == ("CUDAGraph.replay()", False, [])
    assert [one["steps"] for one in made["passes"]] == [10, 3]
    assert len(made["clean_step_ns"]) == 10
    # the eager steps took half as long
    assert min(made["clean_host_ns"]) > 1_900_000
    assert result["notes"][0].startswith("steps are the replays of a CUDA graph")


def test_replays_are_the_steps_of_a_program_that_has_no_others(spec, tmp_path, monkeypatch) -> None:
    fake = graph_torch(monkeypatch)
    result = run_program(spec(command=("python", "x.py")), fake, 0, tmp_path, monkeypatch, REPLAYED)
    assert [one["steps"] for one in result["measurement"]["passes"]] == [10, 3]
    # a module that repeated in a capture's eager warm-up comes no more; one that comes between replays does
    decoding = INFERENCE + "graph = TORCH.cuda.CUDAGraph()\nfor number in range({replays}):\n    graph.replay()\n"
    asked = spec(command=("python", "x.py"))
    for replays, between, step_of in ((140, 0, "CUDAGraph.replay()"), (800, 20, "Net.forward()")):
        fake = graph_torch(monkeypatch)
        program = decoding.replace("{replays}", str(replays))
        program += f"    if {between} and number % {between or 1} == 0: net()\n"
        made = run_program(asked, fake, 10, tmp_path, monkeypatch, program)["measurement"]
        assert (made["step_of"], [one["steps"] for one in made["passes"]]) == (step_of, [10, 3])


GRAPH = ("replay", "capture_begin", "capture_end")


def test_a_stretch_of_time_has_no_clean_steps_and_says_so(spec, tmp_path, monkeypatch) -> None:
    fake = FakeTorch(monkeypatch)
    asked = spec(command=("python", "x.py"), window=(0.005, 0.02))
    handler = signal.getsignal(signal.SIGALRM)
    try:
        made = run_program(asked, fake, 60, tmp_path, monkeypatch)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    assert made["skipped"] == ["no clean steps and no light recording: --window has no steps to time"]
    (recorded,) = made["measurement"]["passes"]
    assert (recorded["name"], recorded["steps"], recorded["step_ns"]) == ("rich", None, [])
    assert made["measurement"]["clean_step_ns"] == []


IDLE = """
import time
for number in range({calls}):
    time.sleep(0.001)
"""


def test_without_steps_a_stretch_of_time_is_recorded_which_later_steps_replace(spec, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(script, "NO_STEP_S", 0.03)
    monkeypatch.setattr(script, "STRETCH_S", 0.03)
    asked = spec(command=("python", "x.py"))
    fake = FakeTorch(monkeypatch)
    made = run_program(asked, fake, 200, tmp_path, monkeypatch, IDLE)
    assert order(fake) == "[]"
    assert "error" not in made
    assert made["skipped"] == ["no clean steps and no light recording: nothing ended a step"]
    assert made["notes"] == ["nothing ended a step for 0.03 s: 0.03 s were recorded, as --window does"]
    (recorded,) = made["measurement"]["passes"]
    assert (recorded["name"], recorded["steps"], made["measurement"]["step_of"]) == ("rich", None, None)

    growing = FakeTorch(monkeypatch)  # as a program does that loads what it will use
    growing.reserved = iter(range(10**6)).__next__
    assert "no steps to record" in run_program(asked, growing, 200, tmp_path, monkeypatch, IDLE)["error"]
    assert order(growing) == ""

    late = FakeTorch(monkeypatch)
    made = run_program(asked, late, 40, tmp_path, monkeypatch, "import time; time.sleep(0.2)\n" + PROGRAM)
    assert order(late) == "[]" + "." * 12 + "<" + "." * 12 + ">[" + "." * 3 + "]" + "." * 13
    assert [one["steps"] for one in made["measurement"]["passes"]] == [10, 3]
    assert made["skipped"] == ["CUPTI is attached in the clean steps: nothing ended a step for long before them"]
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


FUNCTION = """
import time
from types import FunctionType
op = FunctionType(compile("None", "ops.py", "exec"), {{"__name__": "torch.ops"}})

class World:
    def force(self, *, n=2):
        for _ in range(n): op()
    def advance(self):
        self.force(n=3), self.force()
        time.sleep(0.001)
        DONE.append("step")

def drive(step):
    for number in range({calls}):
        step()

def simulate():
    world = World()
    def step(): world.advance()
    drive(step)

simulate()
"""


@pytest.mark.parametrize("monitors", [False, True])
def test_a_function_that_repeats_ends_steps_until_an_optimizer_does(
    spec: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, monitors: bool
) -> None:
    if monitors and not hasattr(sys, "monitoring"):
        pytest.skip("Python 3.12 is the first that has it")
    if not monitors:
        monkeypatch.delattr(sys, "monitoring", raising=False)
    monkeypatch.setattr(script, "NO_STEP_S", 0.3)
    fake, asked = FakeTorch(monkeypatch), spec(command=("python", "x.py"))
    made = run_program(asked, fake, 400, tmp_path, monkeypatch, FUNCTION)
    before = order(fake).index("<")
    assert before > 40  # two looks of 20 ms before the first one at a function
    assert order(fake)[before:].rstrip(".") == "<" + "." * 12 + ">[" + "." * 3 + "]"
    assert (made["measurement"]["step_of"], made["skipped"]) == ("step (train.py:20)", [])
    assert made["notes"] == ["steps are the calls of step (train.py:20), since nothing else ended one"]
    assert len(made["measurement"]["clean_step_ns"]) == 10
    assert min(made["measurement"]["clean_step_ns"]) >= 1_000_000
    assert (sys.getprofile(), signal.getsignal(signal.SIGALRM)) == (None, signal.SIG_DFL)

    made = run_program(asked, FakeTorch(monkeypatch), 300, tmp_path, monkeypatch, FUNCTION + PROGRAM)
    assert made["measurement"]["step_of"] == "optimizer.step()"
    assert [one["steps"] for one in made["measurement"]["passes"]] == [10, 3]
    (line,) = made["skipped"]
    assert line == "CUPTI is attached in the clean steps: calls of step (train.py:20) came before"


LOOP = "begin()\nfor number in range(20):\n    "


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("def a(): op()\ndef b(): op(), op()\n" + LOOP + "for _ in range(4): a()\n    b(), op()\nfound()", "b"),
        ("def a(): op()\n" + LOOP + "a(), a()\nfound()", None),
        ("def a(): op()\ndef b(): [a() for _ in range(4)]\n" + LOOP + "b()\nfound()", "b"),
        ("def a(): op()\ndef b():\n    for _ in range(4): a()\n    found()\nbegin()\nb()", "a"),
        ("def a(): op()\ndef b():\n    a(), a(), a(), a()\n    found()\nbegin()\nb()", None),
        ("def a(): op()\ndef b():\n    while True: yield a()\n" + LOOP + "next(b())\nfound()", "a"),
        ("def a(): op()\n" + LOOP + "a(), op(), sleep(0.005)\nfound()", None),
        ("def a(): op(), op(), op()\n" + LOOP + "around(a), sleep(0.005)\nfound()", "a"),
        ("def a(): sum(range(1000))\n" + LOOP + "a()\nfound()", None),
    ],
    ids=[
        "in turn",
        "from two places",
        "outermost",
        "innermost",
        "no loop",
        "generator",
        "no function",
        "decorated",
        "no torch",
    ],
)
def test_the_function_that_repeats_is_the_outermost_that_does_most_of_the_work(program: str, name: str | None) -> None:
    looks: list[Calls] = []
    names: list[str | None] = []

    def found() -> None:
        looks[0].end()
        code = looks[0].found()
        names.append(code and code.co_name)

    named = {"begin": lambda: looks.append(Calls()), "found": found}
    op = FunctionType(compile("None", "ops.py", "exec"), {"__name__": "torch.ops"})
    around = FunctionType((lambda given: given()).__code__, {"__name__": "torch.utils"})
    exec(compile(program, "program.py", "exec"), {**named, "op": op, "around": around, "sleep": time.sleep})
    assert names == [name]
    assert sys.getprofile() is None


# --- what is told of it


def test_progress_is_told_no_more_often_than_it_is_read(tmp_path: Path) -> None:
    progress = Progress(str(tmp_path / "progress"))
    for number in range(1, 1001):
        progress.say("clean", number, 1000)
    progress.say("light", 1, 10)
    lines = [json.loads(line) for line in (tmp_path / "progress").read_text().splitlines()]
    assert len(lines) < 50
    assert [(line["phase"], line["step"]) for line in (lines[0], *lines[-2:])] == [
        ("clean", 1), ("clean", 1000), ("light", 1),
    ]  # fmt: skip


def test_a_dry_run_says_what_will_be_timed_and_recorded() -> None:
    request = ProfileRequest(output=Path("out"), entry="mlp", tools=("torch", "nsys"))
    said = profiler_commands.plan(request, "torch")
    assert said.index("3 steps to warm up") < said.index("10 timed") < said.index("10 recorded lightly")
    assert said.index("recorded lightly") < said.index("3 recorded with operators, shapes, modules")
    assert profiler_commands.plan(request, "nsys") == "3 steps to warm up, then 3 recorded"
    for without in ({"device": "cpu"}, {"light_steps": 0}):
        assert "lightly" not in profiler_commands.plan(ProfileRequest(Path("out"), "mlp", **without), "torch")
    timed = ProfileRequest(Path("out"), command=("python", "x.py"), window=(10, 5))
    assert profiler_commands.plan(timed, "torch").startswith("it records 5 s, 10 s after")


def test_the_command_of_an_own_program_is_not_in_what_the_child_leaves(own: Callable[..., Any]) -> None:
    """It may hold a secret, and a run that is cut off keeps what the child left; the parent writes it, masked."""
    result, _ = own(40)
    assert result["workload"] == {"backend": "user"}
    assert "train.py" not in json.dumps(result)
    manifest: dict[str, Any] = {
        "software": {},
        "device": [],
        "workload": {"model": "python train.py"},
        "measurement": {},
    }
    command = ("python", "train.py", "--token", "s3cret")
    run = SimpleNamespace(_manifest=manifest, _request=SimpleNamespace(command=command))
    launch._Run._take_over(run, result)  # type: ignore[arg-type]
    assert manifest["workload"]["model"] == "train.py --token ***"


INFERENCE = """
import time
from torch import nn

class Net(nn.Module):
    def forward(self):
        time.sleep(0.001)
        DONE.append("step")

net = Net()
for number in range({calls}):
    net()
"""


def test_a_program_without_an_optimizer_has_the_calls_of_its_module_as_steps(spec, tmp_path, monkeypatch) -> None:
    fake = FakeTorch(monkeypatch)
    asked = spec(command=("python", "infer.py"))
    result = run_program(asked, fake, 40, tmp_path, monkeypatch, INFERENCE)
    # 8 calls show which module repeats; then the same as with an optimizer, but for the dot before what its call does
    assert order(fake) == "." * 21 + "<" + "." * 12 + ">[" + "." * 3 + "]" + "." * 4
    made = result["measurement"]
    assert [len(made[key]) for key in ("clean_step_ns", "clean_host_ns", "profiled_step_ns")] == [10, 10, 3]
    assert made["step_of"] == "Net.forward()"
    assert result["notes"] == ["steps are the calls of Net, since the program had no optimizer when it began"]
    assert "error" not in result
    early = run_program(asked, FakeTorch(monkeypatch), 30, tmp_path, monkeypatch, INFERENCE)
    assert early["skipped"] == [
        "the program ended early, after 22 calls of Net: 7 of 10 steps are in light.pt.trace.json.gz"
    ]


def test_the_warm_up_begins_anew_after_a_captured_graph(spec, tmp_path, monkeypatch) -> None:
    fake, captures = FakeTorch(monkeypatch), []

    class Told(script.Captures):
        def __init__(self, *asked: Any) -> None:
            super().__init__(*asked)
            captures.append(self)

    monkeypatch.setattr(script, "Captures", Told)
    monkeypatch.setattr(builtins, "capture", lambda: setattr(captures[0], "seen", captures[0].seen + 1), raising=False)
    program = INFERENCE.replace("    net()", "    number == 9 and capture()\n    net()")
    run_program(spec(command=("python", "infer.py")), fake, 41, tmp_path, monkeypatch, program)
    # the second of three steps to warm up was the first after a capture
    assert order(fake).index("<") == 22


def test_a_program_without_steps_is_told_to_give_a_stretch_of_time(own: Callable[..., Any]) -> None:
    result, _ = own(0)
    assert result["error"] == (
        "the program ended and had no steps to record: it called no optimizer.step() and repeated no module; "
        "record a stretch of time: --window DELAY+LENGTH"
    )
    assert result["skipped"] == []


# --- samples of the lines


def test_a_model_is_sampled_between_clean_steps_and_recordings(spec, monkeypatch, tmp_path) -> None:
    (tmp_path / ANSWER).write_text('{"rate_hz": 500}')
    fake = FakeTorch(monkeypatch)
    made = run_model(spec(sample_seconds=0.05), fake)
    told = made["sampled"]
    steps = len(told["step_ns"])
    assert steps >= 5
    assert order(fake) == "." * (13 + steps) + "<" + "." * 12 + ">" + "[" + "." * 4 + "]"
    assert len(told["marks"]) == steps + 1
    assert told["moments"]["began"] <= told["marks"][0] < told["marks"][-1] <= told["moments"]["ended"]
    assert told["moments"]["ended"] - told["moments"]["began"] >= 0.05e9
    assert (told["thread"], told["pid"]) == (threading.get_ident(), os.getpid())


def test_who_is_refused_goes_on(spec: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ANSWER).write_text('{"refused": "py-spy: no"}')
    fake = FakeTorch(monkeypatch)
    made = run_model(spec(sample_seconds=5.0), fake)
    assert made["skipped"] == ["no samples: py-spy: no"]
    assert made["sampled"] is None
    assert order(fake) == "." * 13 + "<" + "." * 12 + ">" + "[" + "." * 4 + "]"


@pytest.mark.parametrize("gpu", [True, False])
def test_an_own_program_is_sampled_after_its_clean_steps(own: Callable[..., Any], tmp_path: Path, gpu: bool) -> None:
    (tmp_path / ANSWER).write_text('{"rate_hz": 500}')
    result, fake = own(200, gpu=gpu, sample_seconds=0.02)
    told = result["measurement"]["sampled"]
    assert told["step_ns"]
    assert told["attached"] == gpu
    before = "." * 12 + f"<{'.' * 12}>[...]" if gpu else "..[...]" + "." * 10
    assert order(fake).startswith(before + "." * len(told["step_ns"]))
    assert result["skipped"] == []


@pytest.mark.parametrize(("steps", "sampled"), [(28, 0), (30, 2), (60, 32)])
def test_a_short_program_has_all_recordings_and_what_samples_fit(own, tmp_path, steps, sampled) -> None:
    (tmp_path / ANSWER).write_text('{"rate_hz": 500}')
    result, _ = own(steps, sample_seconds=5.0)
    measured = result["measurement"]
    assert len(measured["clean_step_ns"]) == 10
    assert [one["steps"] for one in measured["passes"]] == [10, 3]
    told = measured["sampled"]
    assert (len(told["step_ns"]) if told else 0) == sampled
    [line] = result["skipped"]
    assert line.startswith(f"the program ended early, after {steps} optimizer steps: ")
    if told:
        assert told["moments"].keys() == {"began", "ended"}
        assert re.search(r"about \d+ of 1100 samples of its lines were taken$", line)
    else:
        assert line.endswith("no steps were left to sample its lines")


def test_looking_for_objects_holds_no_tuple_that_another_thread_is_filling() -> None:
    class Kept:
        pass

    class Derived(Kept):
        pass

    broken: list[BaseException] = []
    done = threading.Event()

    def fill() -> None:
        while not done.is_set():
            try:
                tuple(number for number in range(300))
            except SystemError as error:  # noqa: PERF203
                broken.append(error)

    kept = [Kept(), Derived()]
    thread = threading.Thread(target=fill)
    thread.start()
    try:
        end = time.monotonic() + 2
        while time.monotonic() < end and not broken:
            assert {id(each) for each in machine_torch.instances(Kept)} == {id(each) for each in kept}
    finally:
        done.set()
        thread.join()
    assert not broken
