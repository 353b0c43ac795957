"""The state of machines, from the files and tools of boards and GPUs."""

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from machine_trees import (
    AGX_ORIN_30W,
    GEFORCE,
    H200,
    MHZ,
    ORIN_NANO_25W,
    ORIN_NX_10W,
    THOR,
    Board,
    Tools,
    jetson,
    smi,
    write,
    x86,
)
from programs import PATIENCE_SECONDS, eventually, is_running

from tracetui.collectors.machine import jetson as machine_jetson
from tracetui.collectors.machine import recording as machine
from tracetui.collectors.machine import smi as machine_smi
from tracetui.collectors.machine.masking import masked
from tracetui.collectors.machine.probe import Probe, Ran, find_tool, run_command, tool_version, version_numbers
from tracetui.collectors.machine.recording import Lines, Sampler
from tracetui.parsers.runs.manifest import SCHEMA, parse


def state(root: Path, board: Board) -> dict[str, Any]:
    tree, tools = jetson(root, board)
    return machine.power_state(root=tree, runner=tools)


def test_orin_nano_in_its_25_watt_mode(tmp_path: Path) -> None:
    tree, tools = jetson(tmp_path, ORIN_NANO_25W)
    found = machine.power_state(root=tree, runner=tools)
    assert (found["mode_id"], found["mode_name"], found["jetson_clocks"]) == (1, "25W", False)
    (gpu,) = found["gpus"]
    assert (gpu["clock_hz"], gpu["min_clock_hz"], gpu["max_clock_hz"]) == (306 * MHZ, 306 * MHZ, 918 * MHZ)
    assert (gpu["governor"], gpu["load_percent"], gpu["tpc_pg_mask"]) == ("nvhost_podgov", 45.7, 240)
    assert (gpu["railgate"], gpu["scaling"], gpu["power_mw"], gpu["throttle_reasons"]) == (True, True, None, None)
    assert (found["emc"]["cap_hz"], found["emc"]["rate_hz"]) == (3199 * MHZ, None)
    assert found["cpu"] == {
        "online": 6, "governor": "schedutil", "clock_hz": 1344 * MHZ, "max_clock_hz": 1344 * MHZ,
        "hardware_max_clock_hz": 1984 * MHZ, "load_1m": 0.61, "load_5m": 0.55, "load_15m": 0.40,
    }  # fmt: skip
    assert found["temperatures_c"] == {"cpu-thermal": 51.218, "gpu-thermal": 49.531}
    assert [(rail["name"], rail["power_mw"]) for rail in found["rails"]] == [("VDD_IN", 6088), ("VDD_CPU_GPU_CV", 2093)]
    assert found["rails"][0]["critical_current_ma"] == 4920
    assert found["alarms"] == {
        "VDD_IN.curr1_crit_alarm": 1, "VDD_IN.curr1_max_alarm": 0, "oc1_event_cnt": 0, "oc3_event_cnt": 17,
    }  # fmt: skip
    assert found["memory"] == {
        "total_bytes": 8_000_000 * 1024, "available_bytes": 5_200_000 * 1024, "swap_total_bytes": 3_905_536 * 1024,
        "swap_used_bytes": 100_000 * 1024, "zram_bytes": 650_922 * 1024, "pages_swapped_in": 1234,
        "pages_swapped_out": 987,
    }  # fmt: skip
    assert found["sources"] == ("sysfs", "nvpmodel")
    assert not any(command[0] == "nvidia-smi" for command in tools.asked)


def test_what_an_orin_nano_is(tmp_path: Path) -> None:
    tree, tools = jetson(tmp_path, ORIN_NANO_25W)
    (device,) = machine.devices(root=tree, runner=tools)
    assert (device["name"], device["compute_capability"], device["integrated"]) == ("Orin", "8.7", True)
    assert device["module_id"] == "p3767-0005"
    assert device["board"] == "NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super"
    assert device["max_clock_hz"] == 1020 * MHZ, "the chip's highest, not the mode's"
    assert device["memory_bytes"] == 8_000_000 * 1024
    known = machine.software(sys.executable, root=tree, runner=tools)
    assert (known["l4t"], known["jetpack"], known["driver"]) == ("36.4.3", "6.2", "540.4.0")
    assert (known["kernel"], known["os"], known["python"]) == ("5.15.148-tegra", "Ubuntu 22.04.5 LTS", None)


def test_orin_nx_with_most_of_its_tpcs_off(tmp_path: Path) -> None:
    found = state(tmp_path, ORIN_NX_10W)
    assert (found["mode_name"], found["gpus"][0]["max_clock_hz"]) == ("10W", 612 * MHZ)
    assert (found["gpus"][0]["tpc_pg_mask"], found["emc"]["cap_hz"], found["cpu"]["online"]) == (252, 2133 * MHZ, 4)


def test_agx_orin_of_jetpack_5_with_pinned_clocks(tmp_path: Path) -> None:
    found = state(tmp_path, AGX_ORIN_30W)
    assert found["jetson_clocks"] is True
    assert (found["gpus"][0]["clock_hz"], found["gpus"][0]["tpc_pg_mask"]) == (612 * MHZ, 240)
    assert found["emc"] is None, "a cap of 0 is no cap, and the clock is for root"
    probe = Probe(tmp_path, Tools())
    assert machine_jetson.devices(probe)[0].module_id == "p3701-0005"
    assert machine_jetson.jetpack(machine_jetson.l4t_release(probe)) == "5.1.2"


def test_thor_has_no_mask_and_no_switch_for_scaling(tmp_path: Path) -> None:
    found = state(tmp_path, THOR)
    (gpu,) = found["gpus"]
    assert (gpu["clock_hz"], gpu["max_clock_hz"], gpu["tpc_pg_mask"], gpu["scaling"]) == (
        1000 * MHZ, 1575 * MHZ, None, None,
    )  # fmt: skip
    (device,) = machine.devices(root=tmp_path, runner=Tools())
    assert (device["name"], device["compute_capability"], device["module_id"]) == ("Thor", "11.0", "p3834-0008")


def test_who_else_holds_a_jetsons_gpu(tmp_path: Path) -> None:
    tree, tools = jetson(tmp_path, ORIN_NANO_25W)
    for pid, name, target in (
        (812, "Xorg", "/dev/nvhost-gpu"),
        (4711, "jtop", "/dev/nvgpu/igpu0/ctrl"),
        (99, "bash", "/dev/pts/0"),
        (os.getpid(), "python", "/dev/nvhost-gpu"),
    ):
        write(tree, {f"proc/{pid}/comm": name})
        (tree / f"proc/{pid}/fd").mkdir()
        (tree / f"proc/{pid}/fd/3").symlink_to(target)
    found = machine.power_state(root=tree, runner=tools)
    assert [(other["pid"], other["name"]) for other in found["gpu_processes"]] == [(812, "Xorg"), (4711, "jtop")]


def test_the_name_of_a_mode_does_not_hide_the_caps_in_force(tmp_path: Path) -> None:
    found = state(tmp_path, replace(ORIN_NANO_25W, mode=(0, "15W"), high=1020, clock=1020))
    assert (found["mode_name"], found["gpus"][0]["max_clock_hz"]) == ("15W", 1020 * MHZ)


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("NV Power Mode: MAXN_SUPER\n2\n", (2, "MAXN_SUPER")),
        ("NVPM WARN: power mode is not set!\n", (None, None)),
        ("NV Fan Mode:quiet\nNV Power Mode: MODE_15W_6CORE\n2\n", (2, "MODE_15W_6CORE")),
        ("NV Power Mode: 30W", (None, "30W")),
    ],
)
def test_forms_of_nvpmodel(tmp_path: Path, printed: str, expected: tuple[int | None, str | None]) -> None:
    assert machine_jetson.power_mode(Probe(tmp_path, Tools({"nvpmodel -q": printed}))) == expected


def test_the_power_mode_without_nvpmodel(tmp_path: Path) -> None:
    write(tmp_path, {
        "var/lib/nvpmodel/status": "pmode:0002 fmode:quiet",
        "etc/nvpmodel.conf": "< POWER_MODEL ID=0 NAME=15W >\n< POWER_MODEL ID=2 NAME=MAXN_SUPER >",
    })  # fmt: skip
    assert machine_jetson.power_mode(Probe(tmp_path, Tools())) == (2, "MAXN_SUPER")


@pytest.mark.parametrize(
    ("release", "expected"),
    [("39.1.0", "7.2"), ("38.4.0", "7.1"), ("38.2.0", "7.0"), ("36.4.4", "6.2.1"), ("36.4.0", "6.1"), ("36.3.0", "6.0"),
     ("35.6.1", "5.1.4"), ("32.7.4", "4"), ("99.1", None), (None, None)],
)  # fmt: skip
def test_which_jetpack(release: str | None, expected: str | None) -> None:
    assert machine_jetson.jetpack(release) == expected


def test_what_only_root_may_read_is_named(tmp_path: Path) -> None:
    class Guarded(Probe):
        def text(self, name: str | Path, what: str = "") -> str | None:
            if "debug" in str(name):
                if what and what not in self.denied:
                    self.denied.append(what)
                return None
            return super().text(name, what)

    tree, tools = jetson(tmp_path, ORIN_NANO_25W)
    found = machine._state(Guarded(tree, tools), full=True)
    assert found.needs_root == ("EMC clock",)
    assert found.emc is not None
    assert found.emc.rate_hz is None
    write(tree, {f"{machine_jetson.EMC_DEBUG}/{name}": 2133 * MHZ for name in ("rate", "max_rate", "min_rate")})
    seen = machine._state(Probe(tree, tools), full=True)
    assert seen.needs_root == ()
    assert seen.emc is not None
    assert (seen.emc.rate_hz, seen.emc.max_hz) == (2133 * MHZ, 2133 * MHZ)


def test_a_file_of_another_owner_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = Probe(tmp_path, Tools())
    write(tmp_path, {"secret": 1})

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("pathlib.Path.open", refuse)
    assert probe.number("secret", "the secret") is None
    assert probe.number("secret", "the secret") is None
    assert probe.denied == ["the secret"]


def test_a_machine_without_anything(tmp_path: Path) -> None:
    found = machine.power_state(root=tmp_path, runner=Tools())
    assert found["gpus"] == ()
    assert found["gpu_processes"] is None
    assert found["memory"]["total_bytes"] is None
    assert found["memory"]["zram_bytes"] is None
    assert machine.devices(root=tmp_path, runner=Tools()) == []
    assert machine.software(root=tmp_path, runner=Tools())["driver"] is None


def test_a_data_centre_gpu(tmp_path: Path) -> None:
    tools = smi(H200, apps="4711, /home/ada/miniconda3/bin/python3, 1024\n4712, [Not Found], [N/A]\n")
    found = machine.power_state(root=x86(tmp_path), runner=tools)
    (gpu,) = found["gpus"]
    assert (gpu["clock_hz"], gpu["max_clock_hz"], gpu["applications_clock_hz"]) == (345 * MHZ, 1980 * MHZ, 1980 * MHZ)
    assert (gpu["power_mw"], gpu["power_limit_mw"], gpu["temperature_c"]) == (76_380, 700_000, 28.0)
    assert (gpu["throttle_reasons"], gpu["pstate"], gpu["load_percent"]) == (("gpu_idle",), "P0", 0.0)
    assert found["gpu_processes"] == (
        {"pid": 4711, "name": "python3", "gpu_memory_bytes": 1 << 30},
        {"pid": 4712, "name": None, "gpu_memory_bytes": None},
    )
    assert found["cpu"]["online"] == 5
    assert found["cpu"]["governor"] == "performance,powersave"
    assert found["sources"] == ("sysfs", "nvidia-smi")
    (device,) = machine.devices(root=tmp_path, runner=tools)
    assert (device["ecc"], device["mig"], device["persistence"], device["compute_mode"]) == (
        True,
        False,
        True,
        "Default",
    )
    assert device["memory_bytes"] == 143_771 * (1 << 20)
    known = machine.software(root=tmp_path, runner=tools)
    assert (known["driver"], known["cuda_driver"], known["l4t"]) == ("580.159.04", "13.0", None)


def test_what_a_gpu_does_not_tell_is_null(tmp_path: Path) -> None:
    tools = smi(GEFORCE)
    (gpu,) = machine.power_state(root=tmp_path, runner=tools)["gpus"]
    assert gpu["applications_clock_hz"] is None
    assert gpu["applications_memory_clock_hz"] is None
    assert gpu["power_mw"] is None
    assert gpu["memory_load_percent"] is None
    assert gpu["throttle_reasons"] == ("sw_power_cap", "sw_thermal_slowdown", "0x200")
    (device,) = machine.devices(root=tmp_path, runner=tools)
    assert (device["name"], device["ecc"], device["mig"]) == ("NVIDIA GeForce RTX 3080, LHR", None, None)
    assert device["persistence"] is False


def test_an_older_nvidia_smi_is_asked_by_its_own_names(tmp_path: Path) -> None:
    old = dict(H200)
    old["clocks_throttle_reasons.active"] = "0x0000000000000040"
    tools = smi(old, unknown=("clocks_event_reasons.active", "compute_cap", "mig.mode.current"))
    (gpu,) = machine.power_state(root=tmp_path, runner=tools)["gpus"]
    assert gpu["throttle_reasons"] == ("hw_thermal_slowdown",)
    assert gpu["clock_hz"] == 345 * MHZ
    (device,) = machine.devices(root=tmp_path, runner=tools)
    assert (device["name"], device["compute_capability"], device["mig"]) == ("NVIDIA H200", None, None)


def test_two_gpus_and_a_driver_that_fails(tmp_path: Path) -> None:
    second = {**H200, "index": "1", "clocks.current.sm": "1980"}
    found = machine.power_state(root=tmp_path, runner=smi(H200, second))
    assert [(gpu["index"], gpu["clock_hz"]) for gpu in found["gpus"]] == [(0, 345 * MHZ), (1, 1980 * MHZ)]
    broken = Tools({"nvidia-smi": Ran(9, "NVIDIA-SMI has failed because it couldn't communicate with the driver.")})
    assert machine.power_state(root=tmp_path, runner=broken)["gpus"] == ()


def test_a_query_that_always_refuses_ends(tmp_path: Path) -> None:
    tools = Tools(
        {"nvidia-smi": lambda command: Ran(2, f'Field "{command[1][12:].split(",")[0]}" is not a valid field')}
    )
    assert machine_smi.query(Probe(tmp_path, tools), machine_smi.STATE_FIELDS) == []


def test_secrets_in_a_command_are_masked() -> None:
    words = [
        "train.py", "--hf-token", "hf_abc", "--max-tokens", "512", "--tokenizer", "gpt2", "--api-key=xyz", "--epochs",
        "3", "WANDB_API_KEY=123abc", "https://ada:pw@host/x", "ghp_abcdefghijklmnopqrstuvwxyz", "--password", "-v",
        "--token-file", "t.txt", "--key-dim", "64", "model=vim",
    ]  # fmt: skip
    assert masked(words) == (
        "train.py", "--hf-token", "***", "--max-tokens", "512", "--tokenizer", "gpt2", "--api-key=***", "--epochs",
        "3", "WANDB_API_KEY=***", "https://***@host/x", "***", "--password", "-v",
        "--token-file", "t.txt", "--key-dim", "64", "model=vim",
    )  # fmt: skip


def test_the_state_of_the_code(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path), *words], check=True)

    outside = machine.identity(["x"], tmp_path / "nowhere")
    assert outside["git_sha"] is None
    assert outside["git_dirty"] is None
    git("init", "-q", "-b", "work")
    (tmp_path / "a.py").write_text("one\n")
    git("add", "a.py")
    git("commit", "-q", "-m", "a")
    clean = machine.identity(["x"], tmp_path)
    assert (clean["git_branch"], clean["git_dirty"], clean["git_diff_sha256"]) == ("work", False, None)
    assert len(clean["git_sha"]) == 40
    (tmp_path / "a.py").write_text("two\n")
    dirty, again = machine.identity(["x"], tmp_path), machine.identity(["x"], tmp_path)
    assert dirty["git_dirty"] is True
    assert dirty["git_diff_sha256"] == again["git_diff_sha256"]
    assert len(dirty["git_diff_sha256"]) == 64
    assert dirty["run_id"] != again["run_id"]
    git("checkout", "-q", "--detach")
    assert machine.identity(["x"], tmp_path)["git_branch"] is None


def test_tools_off_path_are_found_and_asked(tmp_path: Path) -> None:
    for name in ("opt/nvidia/nsight-compute/2024.3.2/ncu", "opt/nvidia/nsight-compute/2025.10.1/ncu"):
        write(tmp_path, {name: "#!/bin/sh"})
        (tmp_path / name).chmod(0o755)
    write(tmp_path, {"usr/local/cuda-12.6/bin/nsys": "not a program"})
    tools = Tools({str(tmp_path): "NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2025.10.1.0 (build 1)\n"})
    probe = Probe(tmp_path, tools)
    found = find_tool(probe, "ncu", "")
    assert found is not None
    assert found.parent.name == "2025.10.1"
    assert tool_version(probe, found) == "2025.10.1.0"
    assert find_tool(probe, "nsys", "") is None
    tools.answers[str(tmp_path)] = "NVIDIA Nsight Systems version 2025.3.2.474-253236389321v0"
    assert tool_version(probe, found) == "2025.3.2.474"
    assert version_numbers("2025.3.2") > version_numbers("2024.10") > version_numbers(None)


def test_a_command_never_raises() -> None:
    assert run_command(["/no/such/program"], 1.0).code is None
    assert run_command([sys.executable, "-c", "import time; time.sleep(9)"], 0.2).code is None
    assert run_command([sys.executable, "-c", "print('a'); raise SystemExit(3)"], PATIENCE_SECONDS) == Ran(3, "a\n")


def test_a_sampler_samples_survives_errors_and_stops() -> None:
    calls: list[int] = []
    ten = threading.Event()

    def take() -> int:
        calls.append(1)
        if len(calls) == 10:
            ten.set()
        if len(calls) % 3 == 0:
            raise OSError("sensor")
        return len(calls)

    sampler = Sampler(take, interval_s=0.005)
    sampler.start()
    assert ten.wait(PATIENCE_SECONDS)
    sampler.stop()
    assert sampler._thread is not None
    sampler._thread.join(PATIENCE_SECONDS)
    assert not sampler._thread.is_alive(), "nothing is taken any more"
    samples = sampler.stop()
    assert samples == [n for n in range(1, len(calls) + 1) if n % 3]


def test_a_long_run_keeps_evenly_spread_samples() -> None:
    sampler: Sampler[int] = Sampler(lambda: 0, most=8)
    for n in range(1000):
        sampler._keep(n)
    kept = sampler.samples
    assert 4 <= len(kept) <= 8
    assert {b - a for a, b in itertools.pairwise(kept)} == {256}
    assert sampler.latest == 999


@pytest.mark.parametrize(("took", "pause"), [(0.5, 10.0), (0.25, 5.0), (0.0, 0.5), (0.015625, 0.484375)])
def test_a_sample_that_takes_long_is_taken_seldom(monkeypatch: pytest.MonkeyPatch, took: float, pause: float) -> None:
    now = [0.0]
    waits: list[float | None] = []

    class Stop(threading.Event):
        def is_set(self) -> bool:
            return len(waits) == 3

        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            return False

    def take() -> int:
        now[0] += took
        return 1

    monkeypatch.setattr(machine, "time", SimpleNamespace(monotonic=lambda: now[0]))
    sampler: Sampler[int] = Sampler(take, interval_s=0.5)
    sampler._stopping = Stop()
    sampler._watch()
    assert waits == [pause] * 3, "watching takes a twentieth of the time at most"


def test_watching_a_jetson_merges_tegrastats(tmp_path: Path) -> None:
    tree, tools = jetson(tmp_path, ORIN_NANO_25W)
    line = (
        "11-20-2026 10:10:10 RAM 2448/7620MB (lfb 3x4MB) SWAP 0/3810MB (cached 0MB) CPU [1%@1510,off] "
        "EMC_FREQ 12%@2133 GR3D_FREQ 99%@[918] VDD_IN 4889mW/4889mW"
    )
    write(tree, {"usr/bin/tegrastats": f"#!/bin/sh\nwhile echo '{line}'; do sleep 0.2; done"})
    (tree / "usr/bin/tegrastats").chmod(0o755)
    watch = machine.Watch(0.02, root=tree, runner=tools)
    watch.start()
    eventually(lambda: any("tegrastats" in sample["sources"] for sample in watch.samples))
    sample = next(sample for sample in watch.stop() if "tegrastats" in sample["sources"])
    assert (sample["emc"]["rate_hz"], sample["emc"]["load_percent"]) == (2133 * MHZ, 12.0)
    assert sample["emc"]["cap_hz"] == 3199 * MHZ
    assert sample["gpus"][0]["load_percent"] == 45.7, "what sysfs says stays"
    assert sample["mode_name"] is None
    assert not any(command[0] == "nvpmodel" for command in tools.asked), "a sample starts no program"


def test_watching_a_desktop_keeps_one_nvidia_smi(tmp_path: Path) -> None:
    started: list[list[str]] = []

    class Printed(Lines):
        def __init__(self, command: Sequence[str]) -> None:
            started.append(list(command))
            self.rows: list[str] = []

        def last(self, seconds: float) -> list[str]:
            return self.rows

        def close(self) -> None:
            self.rows = ["closed"]

    tools = smi(H200, {**H200, "index": "10"}, unknown=("clocks_event_reasons.active",))
    watch = machine.Watch(0.01, root=x86(tmp_path), runner=tools, stream=Printed)
    watch._open()
    asked = len(tools.asked)
    lines = watch._lines
    assert isinstance(lines, Printed)
    assert started[0][-1] == "--loop-ms=100"
    fields = started[0][1].removeprefix("--query-gpu=").split(",")
    assert "clocks_event_reasons.active" not in fields
    rows = [{**H200, "index": "10", "clocks.current.sm": "900"}, H200, {**H200, "clocks.current.sm": "1980"}]
    lines.rows = [", ".join(row[name] for name in fields) for row in rows]
    sample = watch._sample()
    assert [(gpu["index"], gpu["clock_hz"]) for gpu in sample["gpus"]] == [(0, 1980 * MHZ), (10, 900 * MHZ)]
    assert len(tools.asked) == asked, "a sample starts no program"
    lines.rows = []
    assert watch._sample()["gpus"] == ()
    watch._opened -= 10
    assert [gpu["index"] for gpu in watch._sample()["gpus"]] == [0, 10], "asked anew where it has stopped printing"


def test_lines_of_a_program_end_with_it() -> None:
    # not told to flush: only a terminal makes it write at once
    lines = Lines([sys.executable, "-c", "import time; print('one'); print('two'); time.sleep(600)"])
    eventually(lambda: len(lines.last(600)) == 2)
    assert lines.last(600) == ["one", "two"]
    assert lines.last(0) == []
    process = lines._process
    assert process is not None
    lines.close()
    assert process.poll() is not None
    assert lines.last(600) == ["one", "two"]
    Lines(["/no/such/program"]).close()


def test_the_program_that_prints_ends_with_a_killed_parent(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = (
        "import os, pathlib, signal, sys, time\n"
        "from tracetui.collectors.machine.recording import Lines\n"
        "lines = Lines([sys.executable, '-c', 'import time; print(1); time.sleep(600)'])\n"
        "while not lines.last(600): time.sleep(0.01)\n"
        "pathlib.Path(sys.argv[1]).write_text(str(lines._process.pid))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(note)], check=False, timeout=PATIENCE_SECONDS)
    eventually(lambda: not is_running(int(note.read_text())))


def test_a_state_is_what_the_manifest_understands(tmp_path: Path) -> None:
    for name, board in {"nano": ORIN_NANO_25W, "thor": THOR}.items():
        tree, tools = jetson(tmp_path / name, board)
        now = machine.power_state(root=tree, runner=tools)
        document = {
            "schema": SCHEMA, "status": "finished", "identity": machine.identity(["x"], tree, root=tree, runner=tools),
            "software": machine.software(root=tree, runner=tools), "device": machine.devices(root=tree, runner=tools),
            "power": {"before": now, "during": [now, now], "after": now},
        }  # fmt: skip
        read = parse(document)
        assert read is not None
        assert read.notes == ()
        assert read.power.during[1].gpus[0].max_clock_hz == board.high * MHZ
        assert read.identity.host == "orin"
