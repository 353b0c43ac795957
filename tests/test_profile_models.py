"""`tracetui profile` of models on the CPU, end to end; needs torch."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys

import pytest

from tracetui.analysis.gpu.step_kinds import page_kinds
from tracetui.analysis.modules import modules
from tracetui.analysis.selection import select
from tracetui.collectors.launch import launch
from tracetui.collectors.request import INDEX, Axis, ProfileError, ProfileRequest
from tracetui.parsers import open_path

pytest.importorskip("torch", reason="the profiled program needs torch")

SMALL = {"img_size": 64, "depth": 2}


@pytest.fixture(scope="module", autouse=True)
def _one_thread_each():
    """Threads of several processes on few cores mostly wait for each other, by computing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


def profiled(tmp_path, entry, **more):
    request = ProfileRequest(
        output=tmp_path / "out", entry=entry, device="cpu", python=sys.executable, steps=2, warmup=1, clean_steps=2,
        **more,
    )  # fmt: skip
    return launch(request, lambda _: None)


def test_vim_tiny_ends_with_a_run_whose_modules_are_its_layers(tmp_path):
    outcome = profiled(tmp_path, "vim_tiny", options=SMALL)
    assert (outcome.status, outcome.problems) == ("finished", [])
    run = open_path(outcome.folder, cache=False)
    assert run.main.steps.height == 2
    classes = set(modules(select(run.main))["class_name"].drop_nulls())
    assert {"VisionMamba", "Block", "Mamba"} <= classes
    manifest = run.manifest
    assert manifest is not None
    assert manifest.notes == ()
    assert manifest.workload.model == "vim_tiny"
    assert manifest.workload.backend == "reference"
    assert manifest.workload.batch == 4
    assert manifest.workload.input_shapes[0] == (4, 3, 64, 64)
    assert manifest.workload.flops_per_step
    assert manifest.software.torch
    assert len(manifest.measurement.clean_step_ns) == 2
    assert all(ns > 0 for ns in manifest.measurement.clean_step_ns)
    assert manifest.measurement.clean_host_ns == manifest.measurement.clean_step_ns  # there is no other clock
    (recorded,) = manifest.measurement.passes
    assert (recorded.name, recorded.file, recorded.steps) == ("rich", run.main.source.path.name, 2)
    assert recorded.step_ns == manifest.measurement.profiled_step_ns
    assert recorded.flags["with_stack"]
    assert manifest.outcome.skipped == ()
    assert run.main.info.recorded_pass == "rich"
    assert run.main.info.run_id == manifest.identity.run_id
    assert run.light is None


def test_training_has_its_ranges(tmp_path):
    outcome = profiled(tmp_path, "gpt_small", options={"ctx": 8, "batch": 1, "depth": 1, "train": True})
    if outcome.problems and "takes no" in outcome.problems[0]:
        pytest.fail(outcome.problems[0])
    names = set(open_path(outcome.folder, cache=False).main.host["name"].cast(str))
    assert {"forward_pass", "backward_pass", "optimizer_step"} <= names


def test_a_model_of_the_users_own_runs_from_their_folder(tmp_path, monkeypatch):
    (tmp_path / "models.py").write_text("WIDTH = 8\n")
    (tmp_path / "mine.py").write_text(
        "import torch\nfrom models import WIDTH\n\n\ndef build():\n"
        "    net = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4))\n"
        "    return net, lambda batch: torch.randn(batch or 2, WIDTH)\n"
    )
    monkeypatch.chdir(tmp_path)
    outcome = profiled(tmp_path, "mine:build")
    assert outcome.status == "finished", outcome.problems
    assert "Linear" in set(modules(select(open_path(outcome.folder, cache=False).main))["class_name"].drop_nulls())


def test_a_model_that_fails_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("def build():\n    raise ValueError('no weights')\n")
    monkeypatch.chdir(tmp_path)
    outcome = profiled(tmp_path, "mine:build")
    assert outcome.status == "failed"
    assert "no weights" in outcome.problems[0]
    assert "\n" not in outcome.problems[0]
    assert "ValueError" in (outcome.folder / "log.txt").read_text()


def test_a_mistyped_option_leaves_nothing(tmp_path):
    with pytest.raises(ProfileError, match="takes no 'ctx'"):
        profiled(tmp_path, "vim_tiny", options={"ctx": 8})
    assert list(tmp_path.iterdir()) == []


def test_tools_that_need_a_gpu_say_so(tmp_path):
    outcome = profiled(tmp_path, "mlp", tools=("torch", "memory"))
    assert outcome.status == "failed"
    assert outcome.exit_code == 2
    assert "no CUDA device" in outcome.problems[0]
    assert open_path(outcome.folder, cache=False).main.host.height  # the trace is there


def test_a_sweep_leaves_a_folder_per_point_and_an_index(tmp_path, monkeypatch, capsys):
    from tracetui.app.cli.commands.profile import profile

    request = ProfileRequest(
        output=tmp_path / "out", entry="mlp", device="cpu", python=sys.executable, steps=1, warmup=0, clean_steps=1
    )
    code, folder = profile(request, [Axis("batch", (1, 2))], 1)
    assert code == 0
    index = json.loads((folder / INDEX).read_text())
    assert [(point["values"], point["status"]) for point in index["points"]] == [
        ({"batch": 1}, "finished"),
        ({"batch": 2}, "finished"),
    ]
    for point in index["points"]:
        manifest = open_path(folder / point["folder"], cache=False).manifest
        assert manifest is not None
        assert manifest.workload.batch == point["values"]["batch"]


def test_a_program_is_profiled_around_its_optimizer(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, torch\nnet = torch.nn.Linear(4, 4)\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for _ in range(int(sys.argv[1])):\n"
        "    net(torch.randn(2, 4)).sum().backward()\n    optimizer.step()\n    optimizer.zero_grad()\n"
    )

    request = ProfileRequest(
        output=tmp_path / "done", command=("python", str(script), "6"), device="cpu", steps=2, warmup=1,
        python=sys.executable,
    )  # fmt: skip
    done = launch(request, lambda _: None)
    assert done.status == "finished", done.problems
    opened = open_path(done.folder, cache=False)
    assert opened.main.steps.height == 2
    assert opened.manifest is not None
    assert len(opened.manifest.measurement.clean_step_ns) == 3  # of ten: the program ends
    assert len(opened.manifest.measurement.profiled_step_ns) == 2
    assert opened.manifest.outcome.skipped == tuple(done.problems)
    assert "3 of 10 steps were timed" in done.problems[0]


def test_a_program_that_fails_when_its_operators_are_looked_at_keeps_what_was_recorded(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\nnet = torch.nn.Linear(4, 4)\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for _ in range(60):\n    net(torch.randn(2, 4)).sum().backward()\n    optimizer.step()\n"
        "    if torch.utils._python_dispatch._get_current_dispatch_mode_stack():\n"
        "        raise RuntimeError('lengths are on another device')\n"
    )
    request = ProfileRequest(
        output=tmp_path / "out", command=("python", str(script)), device="cpu", steps=2, warmup=1, clean_steps=3,
        sample_seconds=0, python=sys.executable,
    )  # fmt: skip
    done = launch(request, lambda _: None)
    assert done.status == "finished", done.problems
    (told,) = done.problems
    assert told.endswith("the program failed under it (RuntimeError: lengths are on another device)")
    assert open_path(done.folder, cache=False).main.steps.height == 2


@pytest.mark.parametrize(("when", "status"), [("recorded", "finished"), ("sampling", "interrupted")])
def test_a_program_without_end_is_ended_by_its_user(tmp_path, when, status):
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\nnet = torch.nn.Linear(4, 4)\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "while True:\n    net(torch.randn(2, 4)).sum().backward()\n    optimizer.step()\n"
    )
    request = ProfileRequest(
        output=tmp_path / "out", command=("python", str(script)), device="cpu", steps=2, clean_steps=4,
        sample_seconds=60 if when == "sampling" else 0, python=sys.executable,
    )  # fmt: skip

    def stop(state):
        if state.phase.startswith(when):
            raise KeyboardInterrupt

    done = launch(request, stop)
    assert (done.status, done.exit_code) == (status, 0 if status == "finished" else 130)
    opened = open_path(done.folder, cache=False)
    assert opened.main.steps.height == 2
    assert len(opened.main.clean_step_ns) == 4


@pytest.mark.parametrize("how", ["torch.compile(net)", "torch.jit.trace"])
def test_a_program_without_an_optimizer_is_profiled_around_its_model(tmp_path, how):
    script = tmp_path / "infer.py"
    script.write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.body = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())\n"
        "    def forward(self, x):\n"
        "        return self.body(x)\n"
        "net, eager = Net(), {'backend': 'eager', 'fullgraph': True}\n"
        + {
            "torch.compile(net)": "net = torch.compile(net, **eager)\n",
            "torch.jit.trace": "net = torch.jit.trace(net, torch.randn(2, 4))\n",
        }[how]
        + "with torch.inference_mode():\n    for _ in range(30):\n        net(torch.randn(2, 4))\n"
    )
    request = ProfileRequest(
        output=tmp_path / "done", command=("python", str(script)), device="cpu", python=sys.executable
    )
    done = launch(request, lambda _: None)
    assert done.status == "finished", done.problems
    opened = open_path(done.folder, cache=False)
    assert opened.main.steps.height == 3
    assert opened.manifest is not None
    measured = opened.manifest.measurement
    assert len(measured.clean_step_ns) == 10
    assert measured.step_of == ("TopLevelTracedModule.forward()" if how == "torch.jit.trace" else "Net.forward()")


def test_kineto_keeps_the_marks_of_a_light_recording(tmp_path, monkeypatch):
    """What the GPU would do, operators do here: each lies in its step, in the first recording and in the second."""
    from types import SimpleNamespace

    import torch

    from tracetui.collectors.child.profilers import LIGHT_TRACE, LIGHT_WARMUP, LightPass

    monkeypatch.setattr(torch.profiler, "ProfilerActivity", SimpleNamespace(CUDA=torch.profiler.ProfilerActivity.CPU))
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        recording = LightPass({"run_id": name, "entry": None, "out": str(tmp_path / name), "device": "cpu"})
        recording.start()
        for number in range(LIGHT_WARMUP + 4):
            if number == LIGHT_WARMUP:
                recording.begin()
            torch.ones(64, 64) @ torch.ones(64, 64)
            if number >= LIGHT_WARMUP:
                recording.step()
        said = recording.finish()
        assert (said["steps"], len(said["step_ns"])) == (4, 4)
        trace = open_path(tmp_path / name / LIGHT_TRACE, cache=False).main
        assert (trace.info.run_id, trace.info.recorded_pass, trace.notes) == (name, "light", ())
        start = trace.steps["start"].to_numpy()
        products = trace.host.filter(trace.host["name"].cast(str) == "aten::mm")["start"].to_numpy()
        assert ((start.searchsorted(products, side="right") - 1).tolist()) == [-1, -1, 0, 1, 2, 3]
        assert products[-1] < start[-1] + trace.steps["duration"][-1]


SPREAD = """
import os
import sys
import torch
import torch.distributed as dist
from tracetui.models import registry

for said in sys.argv[1:]:
    kind, _, os.environ["MASTER_PORT"] = said.partition(":")
    options = {"ctx": 8, "batch": 4, "depth": 2, "parallel": kind, "device": "cpu"}
    workload = registry.find("gpt_small").build(options)
    batch = next(workload.batches())
    inner, total = workload._parts.loss, torch.zeros(())
    def kept(output, batch):
        found = inner(output, batch)
        total.add_(found.detach())
        return found
    workload._parts.loss = kept
    workload.step(batch)
    total.zero_()
    workload.step(batch)
    dist.all_reduce(total)
    parts = workload._pipeline.micro_batches if workload._pipeline else dist.get_world_size()
    print(kind, float(total) / parts, flush=True)
    workload.leave()
"""
KINDS = ("ddp", "fsdp", "pipeline")


@pytest.fixture(scope="module")
def losses():
    """By kind, the loss of the second step on each of two ranks, which go from one job to the next."""
    with contextlib.ExitStack() as stack:
        free = [stack.enter_context(socket.socket()) for _ in KINDS]
        for one in free:
            one.bind(("127.0.0.1", 0))
        jobs = [f"{kind}:{one.getsockname()[1]}" for kind, one in zip(KINDS, free, strict=True)]
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", SPREAD, *jobs],
            env={**os.environ, "MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": "2", "RANK": rank, "LOCAL_RANK": rank},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in "01"
    ]
    try:
        said = [dict(line.split() for line in rank.communicate(timeout=120)[0].splitlines()) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    return {kind: [float(of_rank[kind]) for of_rank in said if kind in of_rank] for kind in KINDS}


@pytest.fixture(scope="module")
def loss_alone():
    """The loss of the second step in one process, with the same weights and the same batch."""
    import torch

    from tracetui.models import registry

    alone = registry.find("gpt_small").build({"ctx": 8, "batch": 4, "depth": 2, "train": True, "device": "cpu"})
    batch = next(alone.batches())
    alone.step(batch)
    parts = alone._parts
    with torch.no_grad():
        return float(parts.loss(parts.forward(alone.model, batch), batch))


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_on_two_ranks_learns_what_it_learns_alone(kind, losses, loss_alone):
    """The loss of the second step, after one update, with the same weights and the same batch on every rank."""
    assert losses[kind] == pytest.approx([loss_alone, loss_alone], rel=1e-4)


def test_a_job_of_ranks_is_recorded(tmp_path):
    outcome = profiled(
        tmp_path, "gpt_small", options={"ctx": 16, "batch": 2, "depth": 1, "parallel": "tensor"}, ranks=2
    )
    assert (outcome.status, outcome.problems) == ("finished", [])
    run = open_path(outcome.folder, cache=False)
    assert run.ranks == (0, 1)
    manifest = run.manifest
    assert manifest is not None
    assert manifest.notes == ()
    assert [(rank.rank, len(rank.clean_step_ns), rank.error) for rank in manifest.ranks] == [(0, 2, None), (1, 2, None)]
    assert manifest.workload.options["parallel"] == "tensor"
    assert {file.name for file in manifest.outcome.files} >= {"rank0.pt.trace.json.gz", "rank1.pt.trace.json.gz"}
    for trace in run.traces:
        assert trace.steps.height == 2
        assert trace.clean_step_ns == manifest.clean_steps(trace.info.rank)
        assert "c10d::allreduce_" in set(trace.host["name"].unique())


def test_the_rank_that_fails_is_named_and_the_others_recordings_are_kept(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\nrank = dist.get_rank()\n"
        "net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for step in range(9):\n"
        "    net(torch.randn(2, 4)).sum().backward()\n    optimizer.step()\n    optimizer.zero_grad()\n"
        "    if step == 5 and rank == 1:\n        raise ValueError('planted')\n"
    )
    request = ProfileRequest(
        output=tmp_path / "out", command=("torchrun", "--standalone", "--nproc-per-node=2", str(script)),
        device="cpu", steps=2, warmup=1, clean_steps=9, python=sys.executable,
    )  # fmt: skip
    outcome = launch(request, lambda _: None)
    assert outcome.status == "failed"
    assert "rank 1: ValueError: planted; recorded: ranks 0 and 1" in outcome.problems[0]
    assert open_path(outcome.folder, cache=False).ranks == (0, 1)


def test_a_server_s_iterations_are_kinds(tmp_path):
    outcome = profiled(tmp_path, "gpt_server", options={"batch": 2, "ctx": 16, "depth": 1})
    assert (outcome.status, outcome.problems) == ("finished", [])
    kinds = page_kinds(select(open_path(outcome.folder, cache=False).main))
    assert [(one.phase, len(one.steps)) for one in kinds.kinds] == [("decode", 32), ("prefill", 2)]
    decode, prefill = (one.served for one in kinds.kinds)
    assert (decode.batch, decode.tokens, decode.context) == (2, 2, 24.5)
    assert (prefill.batch, prefill.tokens, prefill.context) == (2, 32, 16)
    assert (decode.busy_percent, decode.launches, decode.kernels) == (None, None, None)  # there was no GPU
    assert [(point.by, point.least, point.most) for point in decode.curve][::7] == [
        ("context", 17, 18),
        ("context", 31, 32),
    ]
