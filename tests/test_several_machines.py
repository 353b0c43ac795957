"""One job on several machines with a shared folder: who makes it, who joins, and what is left of each."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import TYPE_CHECKING

import pytest

from tracetui.collectors.folder import RunFolder
from tracetui.collectors.jobs import machines as several_machines
from tracetui.collectors.launch import launch
from tracetui.collectors.request import ProfileError, ProfileRequest
from tracetui.parsers.runs import manifest as run_manifest

if TYPE_CHECKING:
    from pathlib import Path

    from tracetui.collectors.following import Outcome

PYTHON = """#!/bin/sh
# what torchrun would do here: one rank, whose number is the sixth word, and which reports
[ "$1" = -c ] && exit 1
for spec; do :; done
folder=$(dirname "$(dirname "$spec")")
while [ "$6" = 1 ] && [ ! -e "$folder/result.rank0.torch.json" ]; do sleep 0.05; done
echo x > "$folder/rank$6.pt.trace.json.gz"
echo "{\\"error\\": null, \\"rank\\": {\\"rank\\": $6, \\"world_size\\": 2, \\"host\\": \\"h$6\\"},
  \\"measurement\\": {\\"clean_step_ns\\": [$6]}}" > "$folder/result.rank$6.torch.json"
[ "$6" = 0 ] && while [ ! -e "$folder/result.rank1.torch.json" ]; do sleep 0.05; done
exit 0
"""


def request_of(tmp_path: Path, node: int, nodes: str = "2", program: str = "") -> ProfileRequest:
    python = tmp_path / "python"
    if not python.exists():
        python.write_text(PYTHON)
        python.chmod(0o755)
    words = f"torchrun --nnodes={nodes} --node_rank {node} --master-addr a --master-port 1 train.py {program}".split()
    return ProfileRequest(output=tmp_path / "out", command=tuple(words), python=str(python), device="cpu")


@pytest.mark.parametrize(("nodes", "several"), [("1", False), ("1:1", False), ("2", True), ("1:4", True)])
def test_a_job_of_several_machines_says_so(tmp_path: Path, nodes: str, several: bool) -> None:
    assert (several_machines.job_of(request_of(tmp_path, 0, nodes)) is not None) == several


def test_its_machines_agree_on_which_job_it_is(tmp_path: Path) -> None:
    one, two, other = (
        several_machines.job_of(request_of(tmp_path, node, "2", program))
        for node, program in ((0, "a"), (1, "a"), (1, "b"))
    )
    assert one == two != other


def test_the_first_to_come_makes_the_folder(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "runs" / "out")
    assert several_machines.leads(folder, "job")
    assert not several_machines.leads(folder, "job")
    with pytest.raises(ProfileError, match="another job"):
        several_machines.leads(folder, "other")
    old = time.time() - 10 * several_machines.ALIVE_S
    os.utime(folder.path / several_machines.JOB, (old, old))
    (folder.path / "left").touch()
    assert several_machines.leads(folder, "other")  # the first was cut off
    assert not (folder.path / "left").exists()
    several_machines.Beat(folder.path)()
    assert not several_machines.leads(folder, "other")


def test_a_folder_that_nobody_finishes_making_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(tmp_path / "out")
    folder.path.mkdir()
    monkeypatch.setattr(several_machines, "ALIVE_S", 0.3)
    assert several_machines.leads(folder, "job")


def test_all_machines_write_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several_machines, "PATIENCE_S", 20.0)
    ended: dict[int, Outcome] = {}

    def run(node: int) -> None:
        ended[node] = launch(request_of(tmp_path, node), lambda _: None)

    machines = [threading.Thread(target=run, args=(node,)) for node in (0, 1)]
    machines[0].start()
    while not (tmp_path / "out.partial" / several_machines.JOB).exists():
        time.sleep(0.01)
    machines[1].start()
    for machine in machines:
        machine.join()
    assert [(ended[node].status, ended[node].folder) for node in (0, 1)] == [("finished", tmp_path / "out")] * 2
    manifest = run_manifest.load(tmp_path / "out")
    assert manifest is not None
    assert manifest.notes == ()
    assert [(rank.rank, rank.host, rank.clean_step_ns) for rank in manifest.ranks] == [(0, "h0", (0,)), (1, "h1", (1,))]
    (other,) = manifest.machines
    assert other.host
    assert other.power.before is not None
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"rank0.pt.trace.json.gz", "rank1.pt.trace.json.gz", "run.json", "log.txt"} <= names
    assert not {name for name in names if name.startswith(("machine.", "job", "result"))}


def test_samples_of_every_machine_are_a_line_each(tmp_path: Path) -> None:
    from tracetui.collectors.folder import manifest_text

    sample = {"time_unix_ns": 1, "gpus": [{"index": 0, "clock_hz": None}]}
    power = {"before": None, "during": [sample, sample], "after": None}
    manifest = {"power": power, "machines": [{"host": "b", "power": power}, {"host": "c", "power": {"during": []}}]}
    text = manifest_text(manifest)
    assert text.count('{"time_unix_ns":1,"gpus":[{"index":0}]}') == 4
    kept = json.loads(text)
    assert len(kept["machines"][0]["power"]["during"]) == 2
    assert kept["machines"][1]["power"]["during"] == []
