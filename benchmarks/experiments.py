"""Profiles models on this GPU and proves what their findings advise: the experiments of docs/reference/experiments.md.

    python benchmarks/experiments.py --output FOLDER [--seconds 480] [--only NAME ...]

Writes `experiments.json` (findings and proofs of each experiment, after each one), `log.txt`, and the recordings packed
into `runs-1.tar`, … of at most 15 MB each. Goes on after a failure, and starts nothing new when the time is over. Needs
torch, a CUDA GPU, and timm for some. `tests/experiments_page.py` makes the page from recorded results.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = "tracetui.experiments/1"
PROFILE_S, PROVE_S = 60, 100
"""The most that one recording, and one process of a proof, may take."""
PACKED = 15 << 20
FOLDERS = ("analysis", "app", "collectors", "models", "parsers", "samples")
RECORDING = ("--no-stack", "--light-steps", "5", "--clean-steps", "10", "--no-open")
PROGRAM = '''\
"""A training loop whose loader decodes in the training process, unless --workers says otherwise."""

import argparse

import torch
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, number):
        source = torch.Generator().manual_seed(number)
        return torch.randn(3, 160, 160, generator=source), number % 10


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--workers", type=int, default=0)
    asked = options.parse_args()
    torch.set_num_threads(4)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, 2), torch.nn.ReLU(), torch.nn.Conv2d(32, 64, 3, 2), torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(64, 10),
    ).cuda()
    adam = torch.optim.Adam(net.parameters())
    more = {"persistent_workers": True} if asked.workers else {}
    for pictures, labels in DataLoader(Pictures(), 32, num_workers=asked.workers, pin_memory=True, **more):
        adam.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(pictures.cuda(non_blocking=True)), labels.cuda())
        loss.backward()
        adam.step()


if __name__ == "__main__":
    main()
'''


@dataclass(frozen=True)
class Experiment:
    """A run, and what is proved of it."""

    name: str
    what: str
    """In a few words, for the page."""
    profile: tuple[str, ...]
    """Options of `tracetui profile`."""
    proofs: tuple[tuple[str, ...], ...] = ((),)
    """Options of `tracetui try`: the first that it can do counts."""
    program: tuple[str, ...] = ()
    """After ``--``: a program of one's own."""
    changed: tuple[str, ...] = ()
    """The same, changed."""
    seconds: float = field(default=150.0)
    """The most that all of it may take."""


def model(name: str, what: str, words: str, *proofs: str) -> Experiment:
    """An experiment with a known model."""
    return Experiment(name, what, tuple(words.split()), tuple(tuple(one.split()) for one in proofs or ("",)))


EXPERIMENTS = (
    model(
        "gpt-attention", "GPT medium of 8 blocks, bf16, batch 16, attention in steps",
        "gpt_medium --depth 8 --dtype bf16 --batch 16",
        "F6 F7 --change attention=fused --change compile",
    ),
    model(
        "gpt-fp32", "GPT medium, fp32, batch 8, fused attention", "gpt_medium --batch 8 --attention fused",
        "F1 --change dtype=tf32 --change dtype=bf16",
    ),
    model(
        "gpt-one", "GPT small, bf16, one sample", "gpt_small --dtype bf16 --batch 1 --attention fused",
        "S2 --change cuda_graphs --change compile",
    ),
    model(
        "gpt-loop", "GPT small trained, bf16, AdamW tensor by tensor",
        "gpt_small --train --dtype bf16 --batch 4 --attention fused --optimizer loop",
        "F4 --change optimizer=fused --change cuda_graphs",
    ),
    model(
        "vit-tiny", "ViT tiny of timm, bf16, batch 128", "timm:vit_tiny_patch16_224 --dtype bf16 --batch 128",
        "F7 --change compile",
    ),
    model(
        "resnet-loader", "ResNet-18 of timm trained, fp16, batch 64, images made by the training process",
        "timm:resnet18 --dtype fp16 --batch 64 --workers 0 --train", "S5 --change workers=4",
    ),
    model(
        "resnet-layout", "ResNet-50 of timm, bf16, batch 64", "timm:resnet50 --dtype bf16 --batch 64",
        "F11 F7 --change channels_last --change compile",
    ),
    model(
        "gpt-foreach", "GPT medium trained, bf16, AdamW as PyTorch chooses",
        "gpt_medium --train --dtype bf16 --batch 4 --attention fused", "F4 --change optimizer=fused",
    ),
    model(
        "deit-one", "DeiT tiny, fp32, one image, all tokens kept", "topk_deit_tiny --batch 1 --keep 1.0",
        "S2 --change cuda_graphs",
    ),
    model(
        "mlp-large", "MLP, bf16, 65,536 samples: matrix products alone", "mlp --dtype bf16 --batch 65536",
        "--change cuda_graphs --change compile",
    ),
    model(
        "gpt-batch", "GPT small, bf16, batch 2", "gpt_small --dtype bf16 --batch 2 --ctx 512 --attention fused",
        "S12 K4 G5 --change batch=8",
    ),
    Experiment(
        "own-loader", "a program of its own, whose loader has no workers",
        (), (("S5", "--rounds", "3"), ("--rounds", "3")),
        program=("{python}", "{program}"), changed=("{python}", "{program}", "--workers", "8"),
    ),
    model("resnet-fp32", "ResNet-50 of timm, fp32, batch 32", "timm:resnet50 --batch 32", "F1 --change dtype=tf32"),
    model(
        "vim-one", "Vision Mamba tiny, reference scan, 2 blocks", "vim_tiny --depth 2 --batch 1 --img-size 64",
        "S2 --change cuda_graphs",
    ),
)  # fmt: skip


def main() -> int:
    """Runs the experiments that fit into the time."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--output", type=Path, required=True)
    options.add_argument("--seconds", type=float, default=480.0)
    options.add_argument("--only", nargs="+", default=[], metavar="NAME")
    options.add_argument("--device", default="cuda")
    asked = options.parse_args()
    asked.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="experiments-") as name:
        folder = Path(name)
        work = _Work(folder, asked.output, asked.device, time.monotonic() + asked.seconds)
        for experiment in EXPERIMENTS:
            if not asked.only or experiment.name in asked.only:
                work.run(experiment)
        work.pack()
    print(f"{'experiment':16} {'finding':8} proof")
    for result in work.results:
        for proof in result["proofs"]:
            print(f"{result['name']:16} {_row(proof)}")
        if result["problem"]:
            print(f"{result['name']:16} {'':8} {result['problem']}")
    return 0


def _row(proof: dict[str, Any]) -> str:
    ids = ",".join(claim["id"] for claim in proof["claims"]) or "-"
    if proof.get("gain_ns") is None:
        return f"{ids:8} {proof['change']}: {proof.get('explanation')}"
    bounds = [claim["bound_ns"] for claim in proof["claims"] if claim["bound_ns"] is not None]
    bound = f"{max(bounds) / 1e6:.3f}" if bounds else "-"
    low, high = ("-" if end is None else f"{end / 1e6:.3f}" for end in (proof["low_ns"], proof["high_ns"]))
    return (
        f"{ids:8} {proof['change']}: {proof['step_ns'] / 1e6:.3f} -> {proof['changed_ns'] / 1e6:.3f} ms, gain"
        f" {proof['gain_ns'] / 1e6:.3f} ({low} to {high}) of at most {bound} ms"
    )


class _Work:
    """The experiments under way, and what has come of them."""

    def __init__(self, folder: Path, output: Path, device: str, ends: float) -> None:
        self.folder, self.output, self.device, self.ends = folder, output, device, ends
        self.results: list[dict[str, Any]] = []
        self.log = output / "log.txt"
        self.log.write_text("")
        self.program = folder / "train.py"
        self.program.write_text(PROGRAM)
        links = folder / "path" / "tracetui"  # the checkout need not be installed
        links.mkdir(parents=True)
        for name in FOLDERS:
            (links / name).symlink_to(ROOT / name)
        paths = [str(links.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "XDG_CACHE_HOME": str(folder / "cache")}

    def run(self, experiment: Experiment) -> None:
        """One experiment; whatever fails is noted, and what was measured before stays."""
        left = self.ends - time.monotonic()
        if left < 30:
            self._keep(experiment, "not started: the time is over")
            return
        ends = time.monotonic() + min(left, experiment.seconds)
        begun = time.monotonic()
        target = self.folder / "runs" / experiment.name
        target.parent.mkdir(exist_ok=True)
        words = ["profile", *experiment.profile, *RECORDING, "--device", self.device, "--output", str(target)]
        words += ["--timeout", str(PROFILE_S), *self._program(experiment.program)]
        problem = self._tracetui(words, ends)
        recorded = time.monotonic() - begun
        if target.exists():
            for proof in experiment.proofs:
                words = ["prove", str(target), *proof, "--timeout", str(PROVE_S), *self._program(experiment.changed)]
                problem = self._tracetui(words, ends)
                if not problem:
                    break
        self._keep(experiment, problem, (recorded, time.monotonic() - begun))

    def _program(self, words: tuple[str, ...]) -> list[str]:
        names = {"{python}": sys.executable, "{program}": str(self.program)}
        return ["--", *(names.get(word, word) for word in words)] if words else []

    def _tracetui(self, words: list[str], ends: float, output: Any = None) -> str:
        """Runs the program; returns why it failed, empty if it did not."""
        with self.log.open("a") as log:
            print("$ tracetui", *words, flush=True, file=log)
            process = subprocess.Popen(
                [sys.executable, "-m", "tracetui.app", *words], env=self.environment, stdin=subprocess.DEVNULL,
                stdout=log if output is None else output, stderr=log, start_new_session=True, cwd=self.folder,
            )  # fmt: skip
            try:
                code = process.wait(max(ends - time.monotonic(), 5))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                return "ended by its time limit"
        if not code:
            return ""
        last = [line for line in self.log.read_text(errors="replace").splitlines() if line.startswith("tracetui: ")]
        return f"exit code {code}: {last[-1].removeprefix('tracetui: ') if last else 'see log.txt'}"

    def _keep(self, experiment: Experiment, problem: str, seconds: tuple[float, float] = (0.0, 0.0)) -> None:
        target = self.folder / "runs" / experiment.name
        result: dict[str, Any] = {
            "name": experiment.name, "what": experiment.what, "problem": problem,
            "profile": " ".join((*experiment.profile, *(("--", "python", "train.py") if experiment.program else ()))),
            "changed": " ".join(("python", "train.py", *experiment.changed[2:])) if experiment.changed else "",
            "seconds": [round(value, 1) for value in seconds], "findings": [], "proofs": [],
        }  # fmt: skip
        if target.exists():
            result |= self._read(target)
        self.results.append(result)
        text = json.dumps({"schema": SCHEMA, "experiments": self.results}, indent=1)
        (self.output / "experiments.json").write_text(text + "\n")
        print(f"{experiment.name}: {seconds[1]:.0f} s {problem}", flush=True)
        for proof in result["proofs"]:
            print(f"  {_row(proof)}", flush=True)

    def _read(self, target: Path) -> dict[str, Any]:
        """What the page needs of a run: its proofs, findings and verdict."""
        found: dict[str, Any] = {}
        proofs = target / "proofs.json"
        if proofs.exists():
            found["proofs"] = json.loads(proofs.read_text())["proofs"]
            for proof in found["proofs"]:  # paths of this machine
                proof["command"] = []
        report = self.folder / "report.json"
        with report.open("wb") as file:
            self._tracetui(
                ["report", str(target), "--format", "json", "--section", "overview", "findings"],
                time.monotonic() + 60, file,
            )  # fmt: skip
        try:
            document = json.loads(report.read_text())
        except ValueError:
            return found
        for part in document["run"]["traces"][:1]:
            if "findings" in part:
                keys = ("id", "severity", "title", "impact_us", "ceiling_percent", "formula", "changes")
                found["findings"] = [{key: row.get(key) for key in keys} for row in part["findings"]]
            overview = part.get("overview") or {}
            if overview.get("waits_for"):
                found["waits_for"] = overview["waits_for"]
        manifest = json.loads((target / "run.json").read_text())
        found["clean_step_ns"] = manifest["measurement"].get("clean_step_ns")
        found["device"] = next((one.get("name") for one in manifest["device"]), None)
        found["torch"] = manifest["software"].get("torch")
        return found

    def pack(self) -> None:
        """Packs the recordings, so that a bound that was too low can be looked into."""
        held, number, size = None, 0, 0
        for folder in sorted((self.folder / "runs").glob("*")):
            files = [file for file in folder.glob("*") if file.is_file() and file.name != "log.txt"]
            weight = sum(file.stat().st_size for file in files) + 4096 * len(files)
            if weight > PACKED:
                continue
            if held is None or size + weight > PACKED:
                if number == 5:
                    break
                if held is not None:
                    held.close()
                number, size = number + 1, 0
                held = tarfile.open(self.output / f"runs-{number}.tar", "w")  # noqa: SIM115  closed below
            for file in files:
                held.add(file, f"{folder.name}/{file.name}")
            size += weight
        if held is not None:
            held.close()


if __name__ == "__main__":
    sys.exit(main())
