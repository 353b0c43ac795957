"""What doctor finds on machines, boards and terminals in good and bad order."""

import json
import os
import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from machine_trees import AGX_ORIN_30W, H200, ORIN_NANO_25W, Board, Tools, jetson, smi, write, x86

from tracetui.app.cli.commands.doctor import doctor_text
from tracetui.app.cli.main import main
from tracetui.collectors.checks import doctor, target_python
from tracetui.collectors.checks.check import FAIL, OK, SKIPPED, WARN, Check, Terminal
from tracetui.collectors.machine.probe import Probe, Ran

GOOD_TERMINAL = {"TERM": "xterm-256color", "LANG": "en_US.UTF-8", "PATH": ""}
TORCH = {
    "version": "3.12.3", "torch": "2.11.0+cu130", "cuda_runtime": "13.0", "cuda_available": True, "cudnn": "91900",
    "compute_capability": "9.0", "sm_count": 132, "architectures": ["sm_80", "sm_90", "sm_100"], "cupti": "13.0.85",
    "packages": {"mamba_ssm": "2.3.2.post1", "causal_conv1d": "1.7.0", "timm": "1.0.20"},
}  # fmt: skip


def said(**changes: Any) -> str:
    return target_python.MARK + json.dumps({**TORCH, **changes})


def examine(root, tools, python="", *, environment=None, screen=None, is_root=False) -> dict[str, Check]:
    tools.answers["/opt/py/bin/python"] = python or said()
    found = doctor.examine(
        "/opt/py/bin/python",
        root,
        root=root,
        runner=tools,
        environment=environment or GOOD_TERMINAL,
        screen=screen or Terminal(True, 120, 40),
        is_root=is_root,
    )
    return {check.name: check for check in found}


def server(root: Path, **changes: str) -> tuple[Path, Tools]:
    x86(root)
    write(root, {"proc/self/status": "Name: x\nCapEff:\t0000000000000000\n"})
    return root, smi({**H200, **changes})


def program(root: Path, name: str, tools: Tools, printed: str | Ran) -> None:
    write(root, {name: "#!/bin/sh"})
    (root / name).chmod(0o755)
    tools.answers[str(root / name)] = printed


def test_a_server_in_good_order(tmp_path: Path) -> None:
    root, tools = server(tmp_path)
    write(root, {"proc/driver/nvidia/params": "RmProfilingAdminOnly: 0"})
    program(root, "usr/local/cuda-13.0/bin/nsys", tools, "NVIDIA Nsight Systems version 2025.3.2.474-x")
    program(root, "opt/nvidia/nsight-compute/2025.3.1/ncu", tools, "Version 2025.3.1.0 (build 3)")
    found = examine(root, tools)
    assert {name: check.status for name, check in found.items() if check.status != OK} == {}
    assert found["CUDA in torch"].message == "13.0, cuDNN 91900, sm_90, 132 SMs"
    assert found["nsys"].message.startswith("2025.3.2.474 at ")
    assert found["driver"].message == "580.159.04, for CUDA up to 13.0"
    assert found["GPU"].message == "NVIDIA H200, 345 of 1980 MHz, P0"


@pytest.mark.parametrize(
    ("capabilities", "driver", "is_root", "status", "said"),
    [
        (0, "580.1", False, FAIL, "ERR_NVGPUCTRPERM"),
        (0, "580.1", True, FAIL, "container"),
        (1 << 21, "535.1", True, OK, "CAP_SYS_ADMIN"),
        (1 << 38, "580.1", False, OK, "CAP_PERFMON"),
        (1 << 38, "550.1", False, FAIL, "ERR_NVGPUCTRPERM"),
    ],
)
def test_who_may_read_counters(tmp_path, capabilities, driver, is_root, status, said) -> None:
    root, tools = server(tmp_path)
    write(root, {
        "proc/self/status": f"Name: x\nCapEff:\t{capabilities:016x}\n",
        "proc/driver/nvidia/version": f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {driver}  Tue",
    })  # fmt: skip
    check = examine(root, tools, is_root=is_root)["counters"]
    assert (check.status, said in check.message) == (status, True)
    assert bool(check.remedy) == (status == FAIL)


def test_a_driver_that_does_not_say_who_may(tmp_path: Path) -> None:
    root, tools = server(tmp_path)
    (root / "proc/driver/nvidia/params").unlink()
    assert examine(root, tools)["counters"].status == SKIPPED


@pytest.mark.parametrize(
    ("changes", "name", "status", "words"),
    [
        ({"torch": None, "cuda_runtime": None}, "torch", FAIL, "needed to profile"),
        ({"torch": None, "torch_error": "OSError: libcudart.so.12: not found"}, "torch", FAIL, "libcudart"),
        ({"cuda_runtime": None, "cuda_available": False}, "CUDA in torch", FAIL, "CPU only"),
        (
            {"cuda_available": False, "cuda_error": "RuntimeError: driver too old"},
            "CUDA in torch",
            FAIL,
            "driver too old",
        ),
        ({"architectures": ["sm_50", "sm_80"]}, "CUDA in torch", FAIL, "no kernels for sm_90"),
        ({"architectures": ["sm_80", "compute_80"]}, "CUDA in torch", OK, "sm_90"),
        ({"compute_capability": "8.7", "architectures": ["sm_80"]}, "CUDA in torch", OK, "sm_87"),
        ({"compute_capability": "8.6", "architectures": ["sm_87", "sm_90a"]}, "CUDA in torch", FAIL, "sm_86"),
        ({"compute_capability": "12.0", "architectures": ["sm_90", "sm_120"]}, "CUDA in torch", OK, "sm_120"),
        ({"cuda_runtime": "14.1"}, "driver", FAIL, "older than the 14.1"),
        ({"cuda_runtime": "13.2"}, "driver", WARN, "13.2"),
        ({"cupti": "12.4.127"}, "CUPTI", WARN, "no kernels"),
        ({"cupti": "12.4.99"}, "CUPTI", OK, "12.4.99"),
        ({"cupti": "12.5.82"}, "CUPTI", OK, "12.5.82"),
        ({"cupti": "11.1.105"}, "CUPTI", WARN, "crashes"),
        ({"cupti": None}, "CUPTI", SKIPPED, "not known"),
        ({"packages": {}}, "mamba backend", WARN, "reference"),
        (
            {"packages": {"mamba_ssm": "error: ImportError: undefined symbol"}},
            "mamba backend",
            WARN,
            "undefined symbol",
        ),
        ({"packages": {}}, "timm", WARN, "not installed"),
        ({"version": "3.7.9"}, "python", FAIL, "too old"),
    ],
)
def test_what_is_wrong_with_a_python(tmp_path, changes, name, status, words) -> None:
    root, tools = server(tmp_path)
    check = examine(root, tools, said(**changes))[name]
    assert (check.status, words in check.message) == (status, True), check
    assert bool(check.remedy) == (status in (WARN, FAIL))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Ran(None, err="No such file or directory"), "No such file"),
        (Ran(-11), "signal 11"),
        (Ran(1, err="Traceback\nSyntaxError: invalid syntax"), "SyntaxError"),
        (Ran(0, "tracetui-doctor:{broken"), "could not be read"),
    ],
)
def test_a_python_that_does_not_answer(tmp_path: Path, answer: Ran, words: str) -> None:
    root, tools = server(tmp_path)
    found = examine(root, tools, answer)
    assert found["python"].status == FAIL
    assert words in found["python"].message
    assert "torch" not in found


def test_this_python_answers() -> None:
    python = target_python.ask(Probe(), None)
    assert python.answered, python.error
    assert python.version == ".".join(str(n) for n in sys.version_info[:3])
    assert python.torch is None or python.torch_error == ""


def test_a_machine_without_a_gpu_needs_nothing_mended(tmp_path: Path) -> None:
    write(
        tmp_path, {"proc/meminfo": "MemTotal: 16000000 kB\nMemAvailable: 9000000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB"}
    )
    found = examine(tmp_path, Tools(), said(torch=None, cuda_runtime=None, packages={}, cupti=None))
    assert {name for name, check in found.items() if check.status == FAIL} == set()
    assert found["torch"].status == WARN
    assert found["GPU"].status == SKIPPED


def test_a_card_without_its_driver(tmp_path: Path) -> None:
    write(tmp_path, {
        "sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de", "sys/bus/pci/devices/0000:01:00.0/class": "0x030000",
    })  # fmt: skip
    check = examine(tmp_path, Tools())["driver"]
    assert (check.status, "not loaded" in check.message) == (FAIL, True)


def test_profilers_that_are_missing_old_or_broken(tmp_path: Path) -> None:
    root, tools = server(tmp_path)
    found = examine(root, tools)
    assert (found["nsys"].status, found["nsys"].remedy) == (WARN, "sudo apt install cuda-nsight-systems-13-0")
    assert found["ncu"].remedy == "sudo apt install cuda-nsight-compute-13-0"
    program(root, "opt/nvidia/nsight-compute/2025.3.1/host/target-linux-x64/nsys", tools, "version 2025.3.0.1")
    assert "unfinished" in examine(root, tools)["nsys"].message
    program(root, "usr/local/cuda/bin/nsys", tools, "NVIDIA Nsight Systems version 2021.3.2.4-027534f")
    assert "too old" in examine(root, tools)["nsys"].message
    program(root, "usr/local/cuda/bin/ncu", tools, Ran(127, err="error while loading shared libraries"))
    assert examine(root, tools)["ncu"].status == FAIL
    program(root, "usr/local/cuda/bin/ncu", tools, "Version 2025.3.1.0 (build 3)")
    volta = smi({**H200, "name": "Tesla V100", "compute_cap": "7.0"})
    volta.answers |= {key: value for key, value in tools.answers.items() if key.startswith("/")}
    assert "Volta" in examine(root, volta)["ncu"].message


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"clocks_event_reasons.active": "0x0000000000000048"}, WARN, "hw_slowdown, hw_thermal_slowdown"),
        ({"clocks_event_reasons.active": "0x0000000000000001"}, OK, "P0"),
        ({"power.limit": "400.00"}, WARN, "400 W, below the usual 700 W"),
        ({"clocks.applications.graphics": "1200"}, WARN, "1200 of 1980"),
        ({"mig.mode.current": "Enabled"}, WARN, "MIG"),
        ({"compute_mode": "Prohibited"}, FAIL, "Prohibited"),
    ],
)
def test_what_slows_a_gpu_down(tmp_path: Path, changes: dict[str, str], status: str, words: str) -> None:
    root, tools = server(tmp_path, **changes)
    check = examine(root, tools)["GPU"]
    assert (check.status, words in check.message) == (status, True), check


def test_other_programs_and_heat(tmp_path: Path) -> None:
    root, tools = server(tmp_path, **{"temperature.gpu": "84", "utilization.gpu": "61"})
    tools.answers["nvidia-smi --query-compute-apps"] = "812, /usr/bin/Xorg, 40\n"
    found = examine(root, tools)
    assert found["other programs"].message == "on the GPU: Xorg (812)"
    assert (found["heat"].status, found["heat"].message) == (WARN, "84 C (GPU 0): it may slow down")
    tools.answers["nvidia-smi --query-compute-apps"] = ""
    assert examine(root, tools)["other programs"].message == "the GPU is 61 % busy"


def board(root: Path, kind: Board, python: str = "", *, is_root: bool = False) -> dict[str, Check]:
    tree, tools = jetson(root, kind)
    return examine(tree, tools, python, is_root=is_root)


def test_a_jetson_of_jetpack_6_records_kernels_for_root_only(tmp_path: Path) -> None:
    python = said(cuda_runtime="12.6", compute_capability="8.7", architectures=["sm_87"])
    found = board(tmp_path, ORIN_NANO_25W, python)
    assert found["kernels"].status == FAIL
    assert "silently missing" in found["kernels"].message
    assert found["kernels"].remedy.startswith("sudo -E env PATH=")
    assert found["counters"].status == WARN
    assert found["power mode"].message == "25W (GPU up to 918 MHz of 1020): this mode is not the fastest"
    assert (found["clocks"].status, found["clocks"].remedy) == (WARN, "sudo jetson_clocks (until the next start)")
    assert found["alarms"].message.startswith("VDD_IN.curr1_crit_alarm 1, oc3_event_cnt 17")
    assert "shared with the GPU" in found["memory"].message
    assert found["swap"].status == WARN
    assert "zram" in found["swap"].message
    assert found["nsys"].remedy == "sudo apt install nvidia-jetpack"
    root = board(tmp_path / "again", ORIN_NANO_25W, python, is_root=True)
    assert (root["kernels"].status, root["counters"].status) == (OK, OK)


def test_a_jetson_of_cuda_13_needs_its_device_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = replace(ORIN_NANO_25W, release=(39, "1.0"))
    assert "not there" in board(tmp_path, new)["kernels"].message
    write(tmp_path, {"dev/nvhost-prof-ctx-gpu": "", "dev/nvgpu/igpu0/prof": "", "dev/nvgpu/igpu0/prof-ctx": ""})
    assert board(tmp_path, new)["kernels"].status == OK
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: "prof-ctx" not in str(path) and real(path, mode))
    check = board(tmp_path, new)["kernels"]
    assert (check.status, check.remedy) == (FAIL, "sudo chmod a+rw /dev/nvhost-prof-ctx-gpu /dev/nvgpu/igpu0/prof-ctx")


def test_a_mode_whose_name_and_caps_disagree(tmp_path: Path) -> None:
    check = board(tmp_path, replace(ORIN_NANO_25W, mode=(0, "15W"), high=1020))["power mode"]
    assert check.status == WARN
    assert "that mode has 612 MHz: its name and its caps disagree" in check.message
    assert board(tmp_path / "b", replace(ORIN_NANO_25W, mode=(2, "MAXN_SUPER"), high=1020))["power mode"].status == OK


def test_pinned_clocks_and_the_model_that_jetpack_5_can_not_have(tmp_path: Path) -> None:
    found = board(tmp_path, AGX_ORIN_30W, said(packages={}, cuda_runtime="11.4"))
    assert found["clocks"].status == OK
    assert "can't be installed on JetPack 5" in found["mamba backend"].message


@pytest.mark.parametrize(
    ("environment", "name", "status", "words"),
    [
        ({"TERM": "dumb"}, "colours", WARN, "dumb"),
        ({"TERM": ""}, "colours", WARN, "not set"),
        ({"TERM": "screen"}, "colours", WARN, "16"),
        ({"TERM": "screen-256color"}, "colours", OK, "256"),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, "colours", OK, "all"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "colours", OK, "NO_COLOR"),
        ({"TERM": "xterm-256color", "LANG": "C"}, "characters", WARN, "not UTF-8"),
        ({"TERM": "xterm-256color", "LANG": "de_DE.utf8"}, "characters", OK, "UTF-8"),
        ({"TERM": "xterm-256color", "LANG": "de_DE.UTF-8", "LC_ALL": "POSIX"}, "characters", WARN, "POSIX"),
        ({"TERM": "xterm-256color"}, "characters", WARN, "no locale"),
        ({"TERM": "x", "SSH_TTY": "/dev/pts/1"}, "connection", OK, "the mouse is off unless --mouse is given"),
        ({"TERM": "x", "SSH_TTY": "/dev/pts/1", "TMUX": "a"}, "connection", OK, ", in tmux"),
    ],
)  # fmt: skip
def test_terminals(tmp_path: Path, environment: dict[str, str], name: str, status: str, words: str) -> None:
    check = examine(tmp_path, Tools(), environment=environment)[name]
    assert (check.status, words in check.message) == (status, True), check


def test_the_size_of_the_terminal(tmp_path: Path) -> None:
    assert examine(tmp_path, Tools(), screen=Terminal(True, 79, 24))["size"].status == WARN
    assert examine(tmp_path, Tools(), screen=Terminal(True, 80, 24))["size"].status == OK
    assert examine(tmp_path, Tools(), screen=Terminal(False, 80, 24))["size"].status == SKIPPED


def test_room_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tracetui.collectors.checks import state

    for free, status in ((100 << 30, OK), (2 << 30, WARN), (1 << 20, FAIL)):
        monkeypatch.setattr(state.shutil, "disk_usage", lambda path, free=free: _Usage(free))
        assert state._disk(tmp_path / "not" / "yet").status == status
    monkeypatch.undo()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert state._disk(tmp_path).message.endswith("can't be written to")


class _Usage:
    def __init__(self, free: int) -> None:
        self.free = free


def test_little_memory(tmp_path: Path) -> None:
    for kib, status in ((500_000, FAIL), (2_000_000, WARN), (4_000_000, OK)):
        write(
            tmp_path, {"proc/meminfo": f"MemTotal: 8000000 kB\nMemAvailable: {kib} kB\nSwapTotal: 0 kB\nSwapFree: 0 kB"}
        )
        assert examine(tmp_path, Tools())["memory"].status == status


def test_a_subject_that_breaks_does_not_hide_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> list[Check]:
        raise ZeroDivisionError("a sensor")

    monkeypatch.setitem(doctor.SUBJECTS, "software", broken)
    found = examine(tmp_path, Tools())
    assert found["software"].message == "could not be looked at: ZeroDivisionError: a sensor"
    assert "disk" in found


def test_the_text_is_at_most_80_columns_and_may_be_ascii(tmp_path: Path) -> None:
    tree, tools = jetson(tmp_path, ORIN_NANO_25W)
    found = list(examine(tree, tools, said(packages={})).values())
    text = doctor_text(found)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "\n  FAIL  kernels         CUDA 13" not in text
    assert "\n  FAIL  kernels         the profiler's device nodes are not there" in text
    assert text.splitlines()[-1].startswith(f"{sum(c.status == FAIL for c in found)} to mend, ")
    odd = [replace(found[0], message="µ \x1b[31m ünd", status=WARN)]
    assert doctor_text(odd, ascii=True).isascii()
    assert "\x1b" not in doctor_text(odd)


def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert main(["doctor", "--format", "json", "--output", str(tmp_path)]) in (0, 1)
    printed = json.loads(capsys.readouterr().out)
    assert printed["schema"] == "tracetui.doctor/1"
    assert sum(printed["summary"].values()) == len(printed["checks"])
    bad = Check("G", "n", FAIL, "m", "r")
    monkeypatch.setattr("tracetui.collectors.checks.doctor.examine", lambda python, output: [bad])
    assert main(["doctor"]) == 1
    assert capsys.readouterr().out == "G\n  FAIL  n               m\n                        -> r\n\n1 to mend\n"
    monkeypatch.setattr("tracetui.collectors.checks.doctor.examine", lambda python, output: [replace(bad, status=WARN)])
    assert main(["doctor"]) == 0


def test_doctor_changes_nothing(tmp_path: Path) -> None:
    tree, tools = jetson(tmp_path, ORIN_NANO_25W)
    before = {path: (path.stat().st_mtime_ns, stat.S_IMODE(path.stat().st_mode)) for path in tree.rglob("*")}
    examine(tree, tools)
    assert {path: (path.stat().st_mtime_ns, stat.S_IMODE(path.stat().st_mode)) for path in tree.rglob("*")} == before
    assert not any("sudo" in command for command in tools.asked)
