"""Steps from ranges that repeat: the same program, recorded by torch.profiler and by nsys, has the same steps."""

from __future__ import annotations

import gzip
import json
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from chrome_file import ChromeFile
from fake_torch import FakeTorch
from made_run import ADD, HGEMM, Made, facts_of
from nsys_file import NsysFile
from sample_runs import recorded, run_of

from tracetui.analysis.findings.gpu import kernel_kinds
from tracetui.analysis.overview import overview
from tracetui.analysis.selection import Scope, in_steps, select
from tracetui.app.cli import main as cli
from tracetui.collectors.child import script
from tracetui.parsers import Trace, open_path
from tracetui.parsers.iterations import candidates, whole_steps
from tracetui.parsers.names.range_roles import means_step, spoken
from tracetui.parsers.runs import cache

US = 1000
GEMM = "ampere_sgemm_128x64_tn"


@dataclass
class Program:
    """What a program does, in µs."""

    ranges: list[tuple[str, int, int, int, int]] = field(default_factory=list)
    launches: list[tuple[int, int, int, int, int]] = field(default_factory=list)

    def range(self, name: str, start: int, end: int, *, thread: int = 1, process: int = 1) -> Program:
        self.ranges.append((name, start, end, thread, process))
        return self

    def work(self, called: int, start: int, end: int, *, thread: int = 1, process: int = 1) -> Program:
        """A call of 1 µs and the kernel that it launches, on a GPU for each process."""
        self.launches.append((called, start, end, thread, process))
        return self

    def steps(self, name: str, count: int, *, start: int = 1000, lasts: int = 100, **lane: int) -> Program:
        """Ranges one after the other, each with a kernel for half of its time; ``{}`` in the name is the number."""
        for number in range(count):
            at = start + number * lasts
            self.range(name.format(number + 1), at, at + lasts - 10, **lane)
            self.work(at + 10, at + 20, at + 20 + lasts // 2, **lane)
        return self

    def chrome(self, folder: Path) -> Trace:
        rows = [("user_annotation", name, start, end, process, thread, {})
                for name, start, end, thread, process in self.ranges]  # fmt: skip
        for number, (called, start, end, thread, process) in enumerate(self.launches):
            known = {"correlation": number + 1}
            rows.append(("cuda_runtime", "cudaLaunchKernel", called, called + 1, process, thread, known))
            rows.append(("kernel", GEMM, start, end, 0, 7, known | {"device": process - 1, "stream": 7}))
        keys = ("cat", "name", "ts", "dur", "pid", "tid", "args")
        events = [
            {"ph": "X", **dict(zip(keys, (cat, name, start, end - start, pid, tid, args), strict=True))}
            for cat, name, start, end, pid, tid, args in rows
        ]
        path = folder / "made.json"
        path.write_text(json.dumps({"traceEvents": events}))
        return open_path(path, cache=False).traces[0]

    def nsys(self, folder: Path) -> Trace:
        file = NsysFile()
        for name, start, end, thread, process in self.ranges:
            file.push_pop(name, start * US, end * US, tid=process * 100 + thread, pid=process)
        for called, start, end, thread, process in self.launches:
            file.launch(GEMM, (called * US, (called + 1) * US), (start * US, end * US), pid=process,
                        tid=process * 100 + thread, device=process - 1)  # fmt: skip
        path = folder / "made.sqlite"
        path.unlink(missing_ok=True)
        return open_path(file.write(path), cache=False).traces[0]


@pytest.fixture(params=["chrome", "nsys"])
def read(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Program], Trace]:
    """Records a program with one of the tools."""
    return lambda program: getattr(program, request.param)(tmp_path)


Read = "Callable[[Program], Trace]"


def marked(trace: Trace) -> tuple[str, list[int]] | None:
    """What the steps are called, and their numbers."""
    return None if trace.marked_by is None else (trace.marked_by.name, trace.steps["index"].to_list())


@pytest.mark.parametrize(
    ("name", "said", "index"),
    [
        ("train_step", "train_step", [0, 1, 2, 3]),
        ("step {}", "step", [1, 2, 3, 4]),
        ("iter{}", "iter", [1, 2, 3, 4]),
        ("train step: {}/100", "train step", [1, 2, 3, 4]),
        ("forward", "forward", [0, 1, 2, 3]),
        ("execute_model", "execute_model", [0, 1, 2, 3]),
        ("execute_context_{}(8)_generation_4(4)", "vLLM iteration", [0, 1, 2, 3]),
        ("serve request 7", "serve request 7", [0, 1, 2, 3]),
    ],
)
def test_ranges_that_repeat_are_the_steps(read: Read, name: str, said: str, index: list[int]) -> None:
    trace = read(Program().steps(name, 4))
    assert marked(trace) == (said, index)
    assert trace.steps["duration"].to_list() == [90 * US] * 4
    assert trace.device["step"].to_list() == [0, 1, 2, 3]
    assert overview(select(trace)).steps == 4


@pytest.mark.parametrize(
    "name",
    ["train_step", "optimizer_step {}", "backward", "attention {}", "aten::mm", "nccl:all_reduce", "DecoderLayer_{}",
     "model.layers.{}", "transformer.h.{}", "encoder block {}", "expert {}", "stage{}", "h_{}", "{}", "again mixer {}"],
)  # fmt: skip
def test_what_occurs_once_or_is_only_a_part_is_no_step(read: Read, name: str) -> None:
    program = Program()
    for start in (1000, 2000) if name.startswith("again") else (1000,):  # in each of two passes the same numbers
        program.steps(name, 1 if name == "train_step" else 4, start=start)
    trace = read(program)
    assert (marked(trace), trace.steps.height, trace.device["step"].null_count()) == (None, 0, trace.device.height)


def test_the_outermost_of_those_that_hold_the_same_work(read: Read) -> None:
    program = Program().steps("request", 4)
    for at in range(1000, 1400, 100):
        program.range("forward", at + 1, at + 85).range("matmul", at + 2, at + 80)
    assert marked(read(program)) == ("request", [0, 1, 2, 3])


def test_a_name_that_means_a_step_wins_over_one_around_it(read: Read) -> None:
    program = Program().steps("train_step", 6).range("phase", 990, 1290).range("phase", 1295, 1700)
    assert marked(read(program)) == ("train_step", list(range(6)))


def test_more_gpu_work_wins_over_a_better_name(read: Read) -> None:
    program = Program().steps("execute_model", 6)
    for at in range(1000, 1600, 100):  # "batch" is around the loading of a batch, which launches one small copy
        program.range("batch", at + 90, at + 99).work(at + 91, at + 92, at + 93)
    assert marked(read(program)) == ("execute_model", list(range(6)))


def test_a_part_of_the_only_step_is_no_step(read: Read) -> None:
    """One labelled step and an unlabelled warm-up before it: two forward passes are not two steps."""
    program = Program().range("forward", 1000, 1090).work(1010, 1020, 1080)
    program.range("train_step", 1100, 1200).range("forward", 1101, 1190).work(1110, 1120, 1180)
    assert marked(read(program)) is None


def test_parts_of_the_only_pass_are_no_steps_and_those_of_an_epoch_are(read: Read) -> None:
    assert marked(read(Program().steps("part {}", 6).range("MyModel.forward", 990, 1700))) is None
    for name in ("train", "epoch_0", "[pl][profile]run_training_epoch"):
        assert marked(read(Program().steps("part {}", 6).range(name, 990, 1700))) == ("part", [1, 2, 3, 4, 5, 6])
    assert marked(read(Program().steps("decoder step {}", 4))) == ("decoder step", [1, 2, 3, 4])


def test_steps_that_touch_are_cut_where_the_next_one_begins(tmp_path: Path) -> None:
    for name in ("ProfilerStep#{}", "train_step {}"):
        program = Program().steps(name, 4)
        program.ranges = [(text, start, start + 102, *lane) for text, start, _, *lane in program.ranges]
        trace = program.chrome(tmp_path)
        assert trace.steps["duration"].to_list() == [100 * US] * 3 + [102 * US], name
        assert trace.device["step"].to_list() == [0, 1, 2, 3]
        assert [note.count for note in trace.notes if note.reason.startswith("range ended after")] == [3]


def test_steps_without_a_length_are_none(tmp_path: Path) -> None:
    program = Program().steps("ProfilerStep#{}", 4)
    program.ranges = [
        (text, start, start if "#2" in text else end, *rest) for text, start, end, *rest in program.ranges
    ]
    trace = program.chrome(tmp_path)
    assert trace.steps.height == 3
    assert trace.device["step"].to_list() == [0, None, 1, 2]
    assert [note.count for note in trace.notes if "without a length" in note.reason] == [1]


def test_a_step_number_that_stands_twice(tmp_path: Path) -> None:
    program = Program().steps("ProfilerStep#{}", 4)
    program.ranges = [(text.replace("#2", "#1"), *rest) for text, *rest in program.ranges]
    trace = program.chrome(tmp_path)
    first = trace.steps["index"][0]
    assert trace.steps["index"].to_list() == [first, first + 1, first + 2, first + 3]
    (note,) = [note for note in trace.notes if "number of another" in note.reason]
    assert (note.count, note.example) == (1, "ProfilerStep#1")
    last = np.iinfo(np.int64).max  # as JAX may count them
    told = whole_steps(replace(trace, steps=trace.steps.with_columns(index=pl.lit(last)))).steps["index"].to_list()
    assert told == [last - 4, last - 3, last - 2, last - 1]


@pytest.mark.parametrize("at", [0, 4])
def test_a_step_that_the_recording_cut_off_is_left_out(read: Read, at: int) -> None:
    def program(kernels: int, ends: int) -> Program:
        made = Program()
        for number in range(5):
            start, cut = 1000 + 200 * number, number == at
            made.range(f"train_step {number}", start, start + 190)
            times = range(start + 1, start + 181, 10)
            chosen = [*times][:kernels] if at else [*times][-kernels:]
            for when in (chosen[:ends] if at else chosen[-ends:]) if cut else times:
                made.work(when, when + 2, when + 9)
        return made

    trace = read(program(10, 10))
    assert trace.steps["index"].to_list() == [number for number in range(5) if number != at]
    assert trace.device["step"].null_count() == 10
    assert trace.device["step"].drop_nulls().max() == 3
    (note,) = [note for note in trace.notes if "cut off" in note.reason]
    assert (note.count, note.example) == (1, f"train_step {at}: 10 kernels, not 18")
    assert read(program(14, 14)).steps.height == 5, "one that does somewhat less"
    spread = program(18, 18)
    gone = 1000 + 200 * at
    spread.launches = [
        one for one in spread.launches if not gone <= one[0] < gone + 190 or (one[0] - gone) % 20 == (11 if at else 1)
    ]
    assert read(spread).steps.height == 5, "less, but to its end"


def test_ranges_around_little_of_the_work_are_no_steps(read: Read) -> None:
    program = Program().steps("inner", 4)
    program.work(2000, 2010, 2900)
    assert marked(read(program)) is None


def test_the_profilers_own_steps_win(read: Read) -> None:
    program = Program().steps("train_step", 4)
    for number in range(2):
        program.range(f"ProfilerStep#{number + 5}", 990 + 200 * number, 1189 + 200 * number)
    trace = read(program)
    assert (trace.marked_by, trace.steps["name"].to_list()) == (None, ["ProfilerStep#5", "ProfilerStep#6"])
    assert select(trace, Scope(steps_by="train_step")).describe() == "steps 0-3 of train_step"
    assert select(trace).describe() == "steps 5-6"


class TestWarmUp:
    def test_by_its_name(self, read: Read) -> None:
        """An unlabelled benchmark follows: nothing there is a step, and the recording says why."""
        program = Program().steps("Warm-up Step {}", 5)
        for at in range(2000, 4000, 100):
            program.work(at, at + 10, at + 60)
        trace = read(program)
        assert (marked(trace), trace.steps.height) == (None, 0)
        (note,) = [note for note in trace.notes if note.reason.startswith("steps:")]
        assert (note.kind, note.count, note.example) == ("missing", 5, "Warm-up Step 1")
        assert "“Warm-up Step” are a warm-up" in note.reason

    def test_beside_the_steps(self, read: Read) -> None:
        trace = read(Program().steps("Warm-up Step {}", 5, start=1000).steps("Step {}", 6, start=3000))
        assert marked(trace) == ("Step", [1, 2, 3, 4, 5, 6])
        assert select(trace).describe() == "steps 1-6, 5 warm-up left out"
        assert trace.marked_by is not None
        assert trace.marked_by.begins == trace.host["start"].min()

    def test_around_the_first_steps(self, read: Read) -> None:
        trace = read(Program().range("warmup", 990, 1199).steps("step", 6))
        assert marked(trace) == ("step", [2, 3, 4, 5])
        assert select(trace).describe() == "steps 2-5, 2 warm-up left out"
        assert trace.device["step"].to_list() == [None, None, 0, 1, 2, 3]

    @pytest.mark.parametrize(("first", "left_out"), [([900], 1), ([2000, 900], 2), ([150], 0), ([], 0)])
    def test_by_its_length(self, read: Read, first: list[int], left_out: int) -> None:
        program, at = Program(), 1000
        for lasts in [*first, 100, 104, 97, 102, 99, 105]:
            program.range("train_step", at, at + lasts).work(at + 5, at + 10, at + 60)
            at += lasts + 10
        trace = read(program)
        said = f", {left_out} warm-up left out" if left_out else ""
        assert select(trace).describe() == f"steps {left_out}-{len(first) + 5} of train_step{said}"
        assert overview(select(trace)).warm_up == left_out

    def test_a_long_step_later_is_none(self, read: Read) -> None:
        program, at = Program(), 1000
        for lasts in [100, 100, 900, 100, 100]:
            program.range("train_step", at, at + lasts).work(at + 5, at + 10, at + 60)
            at += lasts + 10
        assert marked(read(program)) == ("train_step", [0, 1, 2, 3, 4])

    def test_of_two_steps_none_is_called_a_warm_up(self, read: Read) -> None:
        program = Program().range("train_step", 1000, 1900).work(1005, 1010, 1800)
        program.range("train_step", 2000, 2100).work(2005, 2010, 2090)
        assert marked(read(program)) == ("train_step", [0, 1])


def test_setup_is_apart(read: Read) -> None:
    program = Program().range("load weights", 0, 900).work(100, 110, 800).steps("train_step", 4)
    trace = read(program)
    found = overview(select(trace))
    assert (found.setup_ns, found.recorded_ns) == (1000 * US, 1390 * US)
    # a step lasts to the end of its own GPU work, and nothing of the setup is in any
    assert found.average_step_ns == 90 * US
    assert found.average.row(0)[:2] == ("kernel", 50 * US)
    assert select(trace).device.height == 5
    assert in_steps(select(trace)).device.height == 4
    assert select(trace).describe_totals() == "steps 0-3 of train_step and outside"


def test_work_is_counted_by_its_launch(read: Read) -> None:
    """All kernels run after the last range has ended; they were launched inside."""
    program = Program()
    for number in range(4):
        at = 1000 + 20 * number
        program.range("replay", at, at + 10).work(at + 2, 2000 + 100 * number, 2090 + 100 * number)
    trace = read(program)
    assert marked(trace) == ("replay", [0, 1, 2, 3])
    assert trace.device["step"].to_list() == [0, 1, 2, 3]


def test_each_process_has_its_own_steps(read: Read) -> None:
    """Rank 2 is 50 µs ahead: what it launches belongs to its own step, not to the one that rank 1 is in."""
    program = Program().steps("train_step", 4, start=1050)
    program.steps("train_step", 4, start=1000, process=2)
    trace = read(program)
    assert trace.device.filter(device=0)["step"].to_list() == [0, 1, 2, 3]
    assert trace.device.filter(device=1)["step"].to_list() == [0, 1, 2, 3]
    assert trace.device["device"].n_unique() == 2


def test_a_recording_without_gpu_work_has_steps_by_name_only(read: Read) -> None:
    def steps(name: str) -> Program:
        program = Program().steps(name, 3)
        program.launches.clear()
        return program

    assert marked(read(steps("step {}"))) == ("step", [1, 2, 3])
    assert marked(read(steps("forward"))) is None


@pytest.mark.parametrize(
    ("label", "means", "said"),
    [
        ("train step: #/#", True, "train step"), ("step[#]", True, "step"), ("batch_#", True, "batch"),
        ("train_step", True, "train_step"), ("Iteration #", True, "Iteration"), ("optimizer_step #", False,
        "optimizer_step"), ("Warm-up Step #", False, "Warm-up Step"), ("batch_size #", False, "batch_size"),
        ("footstep #", False, "footstep"), ("forward", False, "forward"), ("#", False, "#"),
    ],
)  # fmt: skip
def test_names(label: str, means: bool, said: str) -> None:
    assert (means_step(label), spoken(label)) == (means, said)


class TestStepsBy:
    def test_chooses_any_range(self, read: Read) -> None:
        program = Program().steps("train_step", 4).range("evaluation", 2000, 2100).work(2010, 2020, 2080)
        for at in range(1000, 1400, 100):
            program.range("backward", at + 5, at + 80)
        trace = read(program)
        by_part = select(trace, Scope(steps_by="Backward"))
        assert by_part.describe() == "steps 0-3 of backward"
        assert by_part.steps["duration"].to_list() == [75 * US] * 4
        assert select(trace, Scope(steps_by="evaluation")).describe() == "step 0 of evaluation"
        assert select(trace, Scope(steps_by="backward", steps=(1, 2))).device["step"].to_list() == [1, 2]
        assert select(trace, Scope(steps_by="nothing")).steps.height == 0
        assert candidates(trace) == ["train_step", "backward"]

    def test_is_made_once(self, read: Read) -> None:
        trace = read(Program().steps("train_step", 4))
        one = select(trace, Scope(steps_by="train_step")).trace
        assert select(trace, Scope(steps_by="train_step", steps=(1, 1))).trace is one
        assert select(one, Scope(steps_by="train_step")).trace is one

    def test_on_the_command_line(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        Program().steps("train_step", 4).steps("evaluate batch", 2, start=3000).chrome(tmp_path)
        report = ["report", str(tmp_path / "made.json"), "--format", "json", "--section", "overview"]

        def base(*options: str) -> str:
            assert cli.main([*report, *options]) == 0
            return str(json.loads(capsys.readouterr().out)["run"]["traces"][0]["overview"]["base"])

        assert base() == "steps 0-3 of train_step"
        assert base("--steps", "1-2") == "steps 1-2 of train_step"
        assert base("--steps-by", "evaluate batch", "--steps", "1") == "step 1 of evaluate batch"
        assert cli.main([*report, "--steps-by", "trainstep"]) == 2
        said = capsys.readouterr().err
        assert "--steps-by trainstep" in said
        assert "those that repeat: train_step, evaluate batch" in said
        assert cli.main([*report, "--steps", "7"]) == 2
        assert "has steps 0-3" in capsys.readouterr().err

    def test_without_any_range(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        Program().work(0, 10, 20).chrome(tmp_path)
        assert cli.main(["report", str(tmp_path / "made.json"), "--steps", "1"]) == 2
        assert "has no steps; --steps-by NAME takes ranges for them: no range in it repeats" in capsys.readouterr().err


def test_the_cache_keeps_what_marks_the_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MIN_SOURCE_BYTES", 0)
    trace = Program().steps("train_step", 4).chrome(tmp_path)
    open_path(trace.source.path)
    again = open_path(trace.source.path).traces[0]
    assert again.marked_by == trace.marked_by
    assert again.marked_by is not None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("chrome/gpt_small_ctx256.trace.json.gz", "steps 0-1 of train_step"),
        ("nsys/gpt_small_ctx256.sqlite.gz", "steps 0-2 of train_step"),
        ("nsys/graph_node.sqlite.gz", "steps 1-9 of replay, 1 warm-up left out"),
        ("nsys/vim_tiny_fp32_bs4.sqlite.gz", "steps 1-2 of batch, 1 warm-up left out"),
        ("chrome/vim_tiny_fp32_bs4.pt.trace.json.gz", "steps 1-3"),
        ("chrome/cudagraph_replay.trace.json.gz", "first to last GPU work (no steps)"),
        ("ops/ops.trace.json.gz", "first to last GPU work (no steps)"),
        ("ops/ops.sqlite.gz", "first to last GPU work (no steps)"),
        ("jax/h200.trace.json.gz", "steps 0-2"),
        ("public/tl_vllm_piecewise.json.gz", "first to last GPU work (no steps)"),
        ("public/hta_mtia_inf.json.gz", "first to last GPU work (no steps)"),
        ("public/hta_cupti.json.gz", "whole file (no steps)"),
    ],
)
def test_recordings(name: str, said: str) -> None:
    recorded(name)
    assert select(run_of(name).main).describe() == said


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    FakeTorch(monkeypatch)
    return sys.modules["torch"]


class Watched:
    """A program whose calls of modules are watched."""

    def __init__(self, torch: Any) -> None:
        class Net(torch.nn.Module):
            def __init__(self, name: str, *inner: Any) -> None:
                super().__init__()
                self.name, self.inner = name, inner

            def forward(self) -> None:
                for each in self.inner:
                    each()

        self.net = Net
        self.original = torch.nn.Module.__call__
        self.found: list[Any] = []
        self.rounds: list[int] = []
        self.watch = script.Watch(lambda module, calls: (self.found.append(module), self.rounds.append(calls)))

    def calls_in_places(self, net: Any, order: str) -> list[int]:
        """Calls a module in the places of this order; returns how many calls are a round of what was found."""
        places = {"a": lambda: net(), "b": lambda: net(), "c": lambda: net()}
        for place in order:
            places[place]()
        return self.rounds

    def calls(self, nets: dict[str, Any], order: str) -> list[str]:
        """Calls modules in this order; returns the names of what was found."""
        for name in order:
            nets[name]()
        return [net.name for net in self.found]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("a" * 7, []),
        ("a" * 8, ["a"]),
        ("edededed", ["e"]),  # an encoder and its decoder: a step begins anew with the encoder
        ("eddddddd", ["d"]),  # a decoder that makes token after token
        ("dcccdccc", ["d"]),  # what a detector found is classified, one after the other
        ("abcdefgh", []),
        ("abcdefgh" * 2, ["a"]),  # layers that the program calls itself, one after the other
        ("abcdefghefghefgh", ["e"]),
    ],
)
def test_the_module_that_repeats(torch: Any, order: str, expected: list[str]) -> None:
    program = Watched(torch)
    assert program.calls({name: program.net(name) for name in "abcdefgh"}, order) == expected
    assert (torch.nn.Module.__call__ is program.original) == bool(expected)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("a" * 8, [1]),
        ("ab" * 4, [2]),  # both sides of a triple are ranked, in two places
        ("aaaabc" * 2, [6]),  # four drafts, their check, and what is kept of it
        ("aaaabc" + "aaaab", []),
        ("b" + "aaaabc" * 2, [6]),  # after a prompt
        ("b" + "ac" * 4, [2]),
        ("bb" + "a" * 7, []),
        ("bb" + "a" * 8, [1]),  # a loop that warms up, and the one that follows
        ("c" + "abacbcabbaacbbcabcabaac", [1]),  # in no order
        ("b" + "a" * 15 + "b", [1]),  # token after token
    ],
)
def test_how_many_calls_are_a_round(torch: Any, order: str, expected: list[int]) -> None:
    program = Watched(torch)
    assert program.calls_in_places(program.net("a"), order) == expected


def test_modules_within_a_module_are_not_counted(torch: Any) -> None:
    program = Watched(torch)
    inner = program.net("i")
    outer = program.net("o", inner, inner, inner)
    assert program.calls({"i": inner, "o": outer}, "ooooooo") == []
    assert program.calls({"i": inner, "o": outer}, "o") == ["o"]


def test_a_call_that_fails_ends_as_well(torch: Any) -> None:
    program = Watched(torch)

    class Fails(torch.nn.Module):
        def forward(self) -> None:
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        Fails()()
    assert program.calls({"a": program.net("a")}, "a" * 8) == ["a"]


def test_replicas_in_other_threads_are_not_counted(torch: Any) -> None:
    program = Watched(torch)
    worker = threading.Thread(target=program.calls, args=({"a": program.net("a")}, "a" * 20))
    worker.start()
    worker.join()
    assert program.found == []


def test_a_program_that_has_an_optimizer_is_followed_by_its_steps(torch: Any) -> None:
    program = Watched(torch)

    class Adam(sys.modules["torch.optim"].Optimizer):  # type: ignore[name-defined,misc]
        pass

    kept = Adam()
    assert program.calls({"a": program.net("a")}, "a" * 20) == []
    assert torch.nn.Module.__call__ is program.original
    del kept


def test_a_module_compiled_in_place_is_followed_outside_of_what_was_compiled(torch: Any) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self._compiled_call_impl = lambda number: number + 1

    net, done = Net(), []
    script.after_each_call(net, lambda: done.append("step"))
    assert net._compiled_call_impl(1) == 2
    assert done == ["step"]
    assert net.hooks == []


def test_what_the_program_itself_changes_of_modules_stays(torch: Any) -> None:
    program = Watched(torch)
    net, watched = program.net("a"), torch.nn.Module.__call__
    torch.nn.Module.__call__ = own = lambda *args: watched(*args)
    assert program.calls({"a": net}, "a" * 12) == ["a"]
    assert torch.nn.Module.__call__ is own


FOREACH = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)"
    "::TensorListMetadata<2>, at::native::(anonymous namespace)::TernaryOpScalarFunctor<float, 2, 2, 0>,"
    " at::native::LerpFunctor<float>, float>(int)"
)


def _named(host: pl.DataFrame, prefix: str) -> pl.DataFrame:
    return host.filter(pl.col("name").cast(pl.String).str.starts_with(prefix)).sort("start")


def test_lightning_s_optimizer_is_as_long_as_it_was_recorded() -> None:
    """Its profiler ends a step after the forward pass, which runs in the closure of `Optimizer.step`."""
    trace = run_of("chrome/lightning.pt.trace.json.gz").main
    optimizer = _named(trace.host, "Optimizer.step#")
    events = json.loads(gzip.decompress(recorded("chrome/lightning.pt.trace.json.gz").read_bytes()))["traceEvents"]
    named = [event for event in events if event.get("name", "").startswith("Optimizer.step#") and event["ph"] == "X"]
    assert optimizer["duration"].to_list() == [round(1000 * event["dur"]) for event in named]
    assert min(optimizer["duration"]) > 4_700_000  # cut at the end of their steps they took 2.1 to 2.3 ms
    assert not [note for note in trace.notes if "outlived" in str(note)]
    steps = _named(trace.host, "ProfilerStep#")
    assert steps.filter(pl.col("parent").is_not_null()).is_empty()
    assert trace.steps["duration"].to_list() == steps["duration"].to_list()


def test_lightning_s_optimizer_is_what_follows_the_gradients() -> None:
    facts = facts_of(run_of("chrome/lightning.pt.trace.json.gz").main)
    optimizer = kernel_kinds.optimizer(facts)
    assert optimizer is not None
    assert (optimizer.calls, optimizer.parameters) == (4, 6)  # what follows the last gradients is not in the recording
    names = facts.launches.filter(pl.Series(optimizer.kernels))["name"].cast(pl.String)
    assert names.str.contains("multi_tensor_apply").sum() == names.len() == 32
    assert names.str.contains("gemm|nvjet").sum() == 0
    assert 700_000 < optimizer.host_ns / optimizer.calls < 1_300_000


def _step(made: Made, number: int, begin: float, range_end: float, *, after: str) -> None:
    """A step of 100 µs that ends 40 µs into a range of the optimizer."""
    made.step(number, begin, begin + 100)
    made.host("user_annotation", "Optimizer.step#SGD.step", begin + 60, range_end)
    made.launch(HGEMM, (begin + 10, begin + 15), (begin + 20, begin + 90))
    if after == "launch":
        made.launch(ADD, (begin + 110, begin + 115), (begin + 120, begin + 130))
    elif after:
        made.host("cpu_op", after, begin + 110, begin + 115)


@pytest.mark.parametrize(
    ("after", "lasting"),
    [
        ("launch", [100_000, 100_000]),
        ("aten::add", [100_000, 100_000]),
        ("profiler::_record_function_enter_new", [40_000, 40_000]),
        ("", [40_000, 40_000]),
    ],
)
def test_a_range_that_a_step_ends_in_is_cut_only_if_it_does_nothing_more(tmp_path, after, lasting) -> None:
    made = Made()
    for number in range(2):
        _step(made, number, 200 * number, 200 * number + 160, after=after)
    trace = made.trace(tmp_path)
    assert _named(trace.host, "Optimizer")["duration"].to_list() == lasting
    assert trace.steps["duration"].to_list() == [100_000, 100_000]


def _closure(made: Made, begin: float, *, gradients: bool, **more: Any) -> None:
    made.host("user_annotation", "Optimizer.step#SGD.step", begin, begin + 100)
    made.host("user_annotation", "M.optimizer_step", begin - 5, begin + 105)
    made.launch(HGEMM, (begin + 5, begin + 8), (begin + 10, begin + 40), **more)
    if gradients:
        made.host("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", begin + 20, begin + 50, thread=2)
    made.launch(FOREACH, (begin + 60, begin + 63), (begin + 65, begin + 95), **more)


@pytest.mark.parametrize(("gradients", "host_ns", "kernels"), [(True, 100_000, 2), (False, 200_000, 4)])
def test_an_optimizer_that_calls_a_closure_begins_after_it(tmp_path, gradients, host_ns, kernels) -> None:
    made = Made()
    for number in range(2):
        made.step(number, 200 * number, 200 * number + 150)
        _closure(made, 200 * number + 20, gradients=gradients)
    found = kernel_kinds.optimizer(made.facts(tmp_path))
    assert found is not None
    assert (found.calls, found.host_ns, int(found.kernels.sum())) == (2, host_ns, kernels)


def test_a_compiled_graph_is_called_by_the_begin_of_its_hash(tmp_path):
    file = ChromeFile()
    name = "## Call CompiledFxGraph f3cfmm3lzhnhkb3ktzwnwhcp6zwyhonjyc2wb3yfl437qid6zds3 ##"
    for number in range(4):
        begin = 100.0 * number
        file.annotation(name, begin, begin + 90)
        file.launch("gemm", (begin + 1, begin + 2), (begin + 3, begin + 80))
    trace = open_path(file.write(tmp_path / "compiled.pt.trace.json"), cache=False).main
    assert trace.marked_by is not None
    assert (trace.steps.height, trace.marked_by.name) == (4, "compiled graph f3cfmm3l")
