"""Changes made from outside in a real program, on the CPU; needs torch."""

from __future__ import annotations

import json
import sys

import pytest

torch = pytest.importorskip("torch", reason="programs are changed inside torch")

from tracetui.app.cli.main import main  # noqa: E402
from tracetui.collectors import trying  # noqa: E402
from tracetui.collectors.child.changes import cores  # noqa: E402
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
        return 4000
    def __getitem__(self, i):
        return torch.full((3, 8, 8), i % 7 / 7), i % 10
def main():
    kept = [[number] for number in range(300_000)]  # what the collector goes through
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
    shaken = trying.distance(before.results, tried._turn((), shake=2.0**-23).results)
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
    shaken = tried._turn((), shake=2.0**-23)
    apart = trying.distance(before.results, compiled.results)
    assert apart[0] <= trying.ROUNDING * trying.distance(before.results, shaken.results)[0]


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
    assert collected["memory_bytes"] > 0
    assert (collected["device"], collected["one_process"]) == ("cpu", False)
