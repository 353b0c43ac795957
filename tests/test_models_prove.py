"""What `tracetui try` runs in the profiled Python, and the options that it sets; needs torch."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="models are built with torch")

from tracetui.collectors import proving  # noqa: E402
from tracetui.collectors.child import prove  # noqa: E402
from tracetui.models import errors, graphs, registry  # noqa: E402
from tracetui.parsers.runs.proofs import Claim  # noqa: E402

SMALL = {"batch": 2, "ctx": 8, "depth": 1}


class Silent:
    def say(self, *_, **__):
        return None


class Steps:
    """A workload that notes its turns."""

    def __init__(self, name, log, workers=None):
        self.name, self.log, self.options, self.samples_per_step = name, log, {"workers": workers}, 2

    def batches(self):
        while True:
            yield None

    def step(self, batch):
        self.log.append(self.name)


def measured(monkeypatch, *variants, rounds=3):
    entry = SimpleNamespace(build=lambda options: options["of"])
    monkeypatch.setattr(prove.importlib, "import_module", lambda _: SimpleNamespace(find=lambda _: entry))
    spec = {
        "registry": "", "entry": "", "variants": [{"of": one} for one in variants], "rounds": rounds, "check": 0,
        "device": "cpu", "warmup": 1, "warmup_s": 0.0, "block_s": 0.0,
    }  # fmt: skip
    result = {}
    prove.run(spec, Silent(), result)
    return result["variants"]


def test_both_variants_take_turns_and_the_first_of_a_round_changes(monkeypatch):
    log = []
    first, second = measured(monkeypatch, Steps("A", log), Steps("B", log))
    turns = [name for at, name in enumerate(log) if not at or log[at - 1] != name]
    assert "".join(turns) == "ABABABAB"  # warm-up A, B; trial A, B; then A B, B A, A B
    assert [len(told["step_ns"]) for told in (first, second)] == [3, 3]
    assert {len(steps) for steps in first["step_ns"]} == {1}
    assert first["samples"] == 2


def test_a_turn_begins_when_what_workers_made_in_advance_is_used_up(monkeypatch):
    log = []
    _, second = measured(monkeypatch, Steps("A", log), Steps("B", log, workers=2), rounds=1)
    assert {len(steps) for steps in second["step_ns"]} == {5}
    assert log.count("B") == 1 + 3 + 5 + 5  # warm-up, trial, not timed, timed


def test_a_model_is_proved_in_one_process_and_its_outputs_are_compared(tmp_path):
    request = proving.ProveRequest(
        tmp_path, (), entry="gpt_small", options={**SMALL, "attention": "steps"}, device="cpu", rounds=2,
        python=sys.executable,
    )  # fmt: skip
    trial = proving.Trial("--attention fused", {"attention": "fused"}, claims=(Claim("F6", 1e9, 50.0),))
    found = proving.measure(request, trial, lambda _: None)
    assert found["explanation"] is None
    assert (found["rounds"], found["one_process"], found["device"]) == (2, True, "cpu")
    assert found["low_ns"] <= found["gain_ns"] <= found["high_ns"]
    assert found["step_ns"] > 0
    assert found["changed_ns"] > 0
    compared = found["compared"]
    assert compared["what"] == "outputs"
    assert 0 < compared["largest"] < 1e-4 < compared["scale"]
    refused = proving.measure(request, proving.Trial("--device", {"train": True, "optimizer": "other"}), lambda _: None)
    assert refused["explanation"].startswith("with the change: optimizer is 'other', but must be one of")


def test_a_program_of_ones_own_is_timed_in_processes(tmp_path, monkeypatch):
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, time, torch\nweight = torch.nn.Parameter(torch.ones(2))\n"
        "adam = torch.optim.SGD([weight])\nfor _ in range(100000):\n"
        "    time.sleep(float(sys.argv[1])); adam.step()\nprint('the end is never reached')\n"
    )
    monkeypatch.setattr(proving, "TURN_S", 0.1)
    base, changed = ((sys.executable, str(script), pause) for pause in ("0.1", "0"))
    request = proving.ProveRequest(tmp_path, (), command=base, device="cpu", rounds=2, python=sys.executable)
    found = proving.measure(request, proving.Trial("another command", command=changed), lambda _: None)
    assert (found["explanation"], found["one_process"], found["rounds"]) == (None, False, 2)
    assert found["step_ns"] > 100e6
    assert found["gain_ns"] > 0
    failing = proving.measure(
        request, proving.Trial("x", command=(sys.executable, str(tmp_path / "none.py"))), lambda _: None
    )
    assert "none.py" in failing["explanation"]


@pytest.mark.parametrize("kind", ["loop", "foreach", "fused"])
def test_the_optimizer_is_of_the_form_that_was_asked_for(kind):
    work = registry.find("mlp").build({"depth": 1, "batch": 2, "train": True, "optimizer": kind})
    work.keeps_result = True
    work.step(work.make_batch())
    group = work._optimizer.param_groups[0]
    assert {"loop": group["foreach"] is False, "foreach": group["foreach"], "fused": group["fused"]}[kind]
    assert work.result.dim() == 0


def test_options_that_can_not_be_together_are_refused():
    entry = registry.find("gpt_small")
    for options, why in (
        ({"cuda_graphs": True}, "needs a CUDA device"),
        ({"optimizer": "fused"}, "option of training"),
        ({"cuda_graphs": True, "device": "cuda", "train": True, "dtype": "fp16"}, "loss scaling"),
        ({"compile_mode": "fast"}, "must be one of"),
        ({"channels_last": True}, "takes no 'channels_last'"),
    ):
        with pytest.raises(errors.WrongOption, match=why):
            entry.check(options)
    assert entry.check({"compile_mode": "reduce-overhead"})["compile"]


def test_the_losses_of_a_graph_are_compared_with_those_of_the_same_steps():
    plain, captured = {"train": True}, {"train": True, "cuda_graphs": True}
    assert prove.STEPS_OF_CAPTURE == graphs.BEFORE_CAPTURE
    assert [prove._steps_before([plain, captured], one) for one in (plain, captured)] == [graphs.BEFORE_CAPTURE, 0]
    assert prove._steps_before([plain, plain], plain) == 0


def test_channels_last_is_the_layout_of_model_and_images(tmp_path):
    (tmp_path / "conv.py").write_text("import torch\n\ndef build():\n    return torch.nn.Conv2d(3, 4, 3)\n")
    sys.path.insert(0, str(tmp_path))
    try:
        work = registry.find("conv:build").build({"batch": 2, "img_size": 8, "channels_last": True})
    finally:
        sys.path.remove(str(tmp_path))
    work.keeps_result = True
    work.step(work.make_batch())
    assert work.result.is_contiguous(memory_format=torch.channels_last)
    assert not work.result.is_contiguous()
