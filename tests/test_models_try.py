"""Changes made from outside in a real program, on the CPU; needs torch."""

from __future__ import annotations

import gc
import json
import sys

import pytest

torch = pytest.importorskip("torch", reason="programs are changed inside torch")

from tracetui.app.cli.main import main  # noqa: E402
from tracetui.collectors import trying  # noqa: E402
from tracetui.collectors.child.changes import BY_NAME, cores  # noqa: E402
from tracetui.collectors.child.hand import Hand  # noqa: E402
from tracetui.collectors.proving import NotMeasured  # noqa: E402

TRAINING = """
import gc, os
os.environ["OMP_NUM_THREADS"] = "1"
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
torch.autograd.set_detect_anomaly(True)
torch.use_deterministic_algorithms(True)
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 40_000
    def __getitem__(self, i):
        return torch.full((3, 8, 8), i % 7 / 7), i % 10
def main():
    kept = [[number] for number in range(100_000)]  # what the collector goes through
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3, foreach=False)
    for images, labels in torch.utils.data.DataLoader(Data(), 4):
        optimizer.zero_grad(set_to_none=False)
        nn.functional.cross_entropy(checkpoint(net, images, use_reentrant=False), labels).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0, foreach=False)
        optimizer.step()
        gc.collect()
if __name__ == "__main__":
    main()
"""
INFERENCE = """
import torch
net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)).eval()
batch = torch.randn(4, 64)
with torch.no_grad():
    for _ in range(100_000):
        net(batch)
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Makes what tries a program, whose turns are as short as can be."""
    for name in ("WARMUP_S", "TURN_S", "LEARN_WARMUP_S", "LEARN_TURN_S"):
        monkeypatch.setattr(trying, name, 0.0)
    monkeypatch.setattr(trying, "SETTLE_S", 0.1)
    monkeypatch.setattr(trying, "BLOCK_S", 0.3)

    def make(text):
        script = tmp_path / "script.py"
        script.write_text(text)
        request = trying.TryRequest(
            tmp_path, (), command=("python", str(script)), device="cpu", python=sys.executable, rounds=2
        )
        return trying.Trying(request, lambda _: None, lambda _: None)

    return make


def test_the_first_steps_tell_what_a_training_does(program):
    facts = program(TRAINING)._turn((), learns=True).facts
    assert (facts["steps"], facts["threads"], facts["cores"]) == (3, 1, cores())  # set before torch was imported
    assert facts["anomaly"]
    assert facts["deterministic"]
    assert facts["images_nchw"]
    assert facts["fp32"]
    assert not any(facts[name] for name in ("cuda", "autocast", "compiled", "seeded"))
    assert facts["calls"].pop("checkpoint") >= 3
    assert facts["calls"] == {"clip_single": 3, "zero_grad_kept": 3, "gc_collect": 2}
    assert facts["loaders"] == [{"workers": 0, "batch": 4, "pinned": False, "persistent": False, "can_share": True}]
    assert facts["optimizers"] == [{"kind": "AdamW", "fused": False, "foreach": False, "can_fuse": True}]


def test_changes_are_made_and_results_tell_what_they_did(program):
    tried = program(TRAINING)
    before = tried._turn(())
    exact = ("no_anomaly", "not_deterministic", "no_gc_collect", "no_checkpoints", "workers", "set_to_none")
    assert trying.distance(before.results, tried._turn(exact).results) == (0.0, 0.0)
    rounded = ("fused_optimizer", "clip_foreach", "threads", "channels_last", "gc_frozen")
    losses, moved = trying.distance(before.results, tried._turn(rounded).results)
    shaken = trying.distance(before.results, tried._turn((), shake=2.0**-23, ends=True).results)
    assert losses <= trying.ROUNDING * shaken[0]
    assert moved <= trying.ROUNDING * shaken[1]
    other = trying.distance(before.results, tried._turn(("foreach_optimizer", "bf16")).results)
    assert other[0] > trying.ROUNDING * shaken[0]
    doubled = tried._turn(("batch",))
    assert trying.distance(before.results, doubled.results)[0] > 0, "other samples"
    with pytest.raises(NotMeasured, match="nothing to change"):
        tried._turn(("persistent_workers",))


def test_outputs_of_an_inference_are_compared_and_its_module_is_compiled(program):
    tried = program(INFERENCE)
    before = tried._turn((), learns=True)
    assert before.results["what"] == "outputs"
    assert len(before.results["numbers"]) == 10 * 32
    compiled = tried._turn(("compile",))
    shaken = tried._turn((), shake=2.0**-23, ends=True)
    apart = trying.distance(before.results, compiled.results)
    assert apart[0] <= trying.ROUNDING * trying.distance(before.results, shaken.results)[0]


def test_a_compiled_module_of_torchs_own_draws_what_it_drew_where_results_are_compared(program):
    tried = program(
        TRAINING.replace("nn.ReLU()", "nn.Dropout(0.5)").replace(
            "checkpoint(net, images, use_reentrant=False)", "net(images)"
        )
    )
    before = tried._turn((), learns=True)
    shaken = trying.distance(before.results, tried._turn((), shake=2.0**-23, ends=True).results)
    redrawn, alike = (
        trying.distance(before.results, tried._turn(("compile",), ends=ends).results) for ends in (False, True)
    )
    assert redrawn[0] > 100 * shaken[0], "its dropout draws other numbers"
    assert alike[0] <= trying.ROUNDING * shaken[0]


SWITCHED = (
    "no_anomaly", "no_gc_collect", "no_checkpoints", "fused_optimizer", "foreach_optimizer", "clip_foreach",
    "set_to_none", "threads", "channels_last", "tf32", "bf16",
)  # fmt: skip


def settings(net, optimizer):
    """All that a change may leave behind."""
    return {
        "anomaly": torch.is_anomaly_enabled(),
        "threads": torch.get_num_threads(),
        "precision": torch.get_float32_matmul_precision(),
        "module": (net.__dict__.get("forward"), net._compiled_call_impl, len(net._forward_pre_hooks)),
        "groups": [{name: group[name] for name in ("fused", "foreach")} for group in optimizer.param_groups],
        "layouts": [(one.stride(), one.grad.stride()) for one in net.parameters()],
        "states": [
            {name: (value.stride(), value.dtype, value.device) for name, value in state.items()}
            for state in optimizer.state.values()
        ],
    }


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # what torch imports to compile
@pytest.mark.parametrize("name", [*SWITCHED, "compile"])
def test_a_change_that_is_switched_on_in_a_running_program_leaves_nothing_behind(name):
    hand = Hand(on=False)
    threads = torch.get_num_threads()
    torch.set_num_threads(cores() + 1)
    torch.autograd.set_detect_anomaly(name == "no_anomaly")
    replaced = [
        torch.set_anomaly_enabled,
        gc.collect,
        torch.nn.utils.clip_grad_norm_,
        torch.utils.checkpoint.checkpoint,
    ]
    zeroing = [torch.optim.Optimizer.zero_grad, torch.nn.Module.zero_grad]
    try:
        BY_NAME[name].make(hand)
        net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(288, 10)
        )
        optimizer = torch.optim.AdamW(net.parameters(), 1e-3, foreach=False)
        hand.optimizers = [optimizer]

        def step():
            optimizer.zero_grad(set_to_none=False)
            torch.utils.checkpoint.checkpoint(net, torch.ones(2, 3, 8, 8), use_reentrant=False).sum().backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0, foreach=False)
            optimizer.step()
            gc.collect()

        step()
        before = settings(net, optimizer)
        hand.switch_on([net])
        if name != "compile":  # it takes long, and warns of what it uses of torch
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("tracetui.collectors.child.hand.is_programs", lambda: True)
                step()
        assert hand.count
        hand.switch_off()
        if name != "set_to_none":
            step()
        else:
            assert [one.grad is None for one in net.parameters()] == [False] * 4
        assert settings(net, optimizer) == before
    finally:
        torch.set_anomaly_enabled, gc.collect, torch.nn.utils.clip_grad_norm_, torch.utils.checkpoint.checkpoint = (
            replaced
        )
        torch.nn.utils.clip_grad.clip_grad_norm_ = replaced[2]
        torch.optim.Optimizer.zero_grad, torch.nn.Module.zero_grad = zeroing
        torch.autograd.set_detect_anomaly(False)
        torch.set_num_threads(threads)


def test_changes_take_turns_in_one_process_of_the_program(program):
    tried = program(TRAINING)
    tried.facts = tried._turn((), learns=True).facts
    told = tried._switch(["no_gc_collect", "fused_optimizer", "threads", "tf32"], ())
    assert told.why is None
    assert {names for beside, names in told.turns if not beside} >= {
        ("no_gc_collect",),
        ("fused_optimizer",),
        ("threads",),
        ("tf32",),
    }
    assert {beside[0] for beside, _ in told.turns if beside} == {"no_gc_collect"}, "it stays on"
    before, after = told.turns[(), ("no_gc_collect",)][0]
    assert after.step_ns < 0.7 * before.step_ns


def test_a_gain_is_measured_from_the_command_line(program, capsys, tmp_path, monkeypatch):
    program(TRAINING)
    monkeypatch.chdir(tmp_path)
    arguments = ["--rounds", "2", "--change", "no_gc_collect", "--change", "fused_optimizer", "--format", "json"]
    assert main(["try", *arguments, "--own-folders", "--device", "cpu", "--", sys.executable, "script.py"]) == 0
    told = json.loads(capsys.readouterr().out)
    found = {"+".join(proof["changes"]): proof for proof in told["proofs"]}
    collected = found["no_gc_collect"]
    assert collected["compared"]["alike"] == "same"
    assert collected["gain_ns"] > 0.3 * collected["step_ns"]
    assert (collected["device"], collected["one_process"]) == ("cpu", True)
