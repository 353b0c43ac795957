"""Builds what machines report about themselves: sysfs trees and outputs of tools, as on real boards and GPUs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tracetui.collectors.machine.probe import Ran

MHZ = 1_000_000


def write(root: Path, files: dict[str, str | int]) -> Path:
    """Makes the files below a root."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n" if not str(content).endswith("\0") else str(content), encoding="utf-8")
    return root


@dataclass
class Tools:
    """A runner that answers by the first words of a command, and remembers what it was asked."""

    answers: dict[str, Ran | str | Callable[[Sequence[str]], Ran]] = field(default_factory=dict)
    asked: list[list[str]] = field(default_factory=list)

    def __call__(self, command: Sequence[str], timeout_s: float) -> Ran:
        self.asked.append(list(command))
        line = " ".join(command)
        for begin in sorted(self.answers, key=len, reverse=True):
            if line.startswith(begin):
                answer = self.answers[begin]
                if isinstance(answer, str):
                    return Ran(0, answer)
                return answer if isinstance(answer, Ran) else answer(command)
        return Ran(None, err="No such file or directory")


@dataclass(frozen=True)
class Board:
    """A Jetson board in one power mode."""

    model: str
    compatible: tuple[str, ...]
    release: tuple[int, str]
    """(36, "4.3")"""
    gpu: str
    """Its name in /sys/class/devfreq."""
    clock: int
    """MHz, as everything below."""
    low: int
    high: int
    clocks: tuple[int, ...]
    mode: tuple[int, str]
    tpc_mask: int | None
    emc_cap: int | None
    cores: int
    cpu: int
    memory_gib: int


ORIN_NANO_25W = Board(
    model="NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super",
    compatible=("nvidia,p3768-0000+p3767-0005-super", "nvidia,p3767-0005", "nvidia,tegra234"),
    release=(36, "4.3"), gpu="17000000.gpu", clock=306, low=306, high=918,
    clocks=(306, 408, 510, 612, 714, 816, 918, 1020), mode=(1, "25W"),
    tpc_mask=240, emc_cap=3199, cores=6, cpu=1344, memory_gib=8,
)  # fmt: skip
ORIN_NX_10W = Board(
    model="NVIDIA Jetson Orin NX Engineering Reference Developer Kit",
    compatible=("nvidia,p3768-0000+p3767-0000", "nvidia,p3767-0000", "nvidia,tegra234"),
    release=(36, "4.4"), gpu="17000000.gpu", clock=612, low=306, high=612, clocks=(306, 408, 612, 918, 1173),
    mode=(1, "10W"), tpc_mask=252, emc_cap=2133, cores=4, cpu=1190, memory_gib=16,
)  # fmt: skip
AGX_ORIN_30W = Board(
    model="Jetson AGX Orin Developer Kit",
    compatible=("nvidia,p3737-0000+p3701-0005", "nvidia,tegra234"),
    release=(35, "4.1"), gpu="17000000.ga10b", clock=612, low=612, high=612, clocks=(306, 612, 816, 1301),
    mode=(2, "30W"), tpc_mask=0xF0, emc_cap=0, cores=8, cpu=1728, memory_gib=64,
)  # fmt: skip
THOR = Board(
    model="NVIDIA Jetson AGX Thor Developer Kit",
    compatible=("nvidia,p3971-0089+p3834-0008", "nvidia,tegra264"),
    release=(38, "2.0"), gpu="gpu-gpc-0", clock=1000, low=315, high=1575, clocks=(315, 1000, 1575),
    mode=(0, "MAXN"), tpc_mask=None, emc_cap=None, cores=14, cpu=2601, memory_gib=128,
)  # fmt: skip


def jetson(root: Path, board: Board) -> tuple[Path, Tools]:
    """The board's files, and its tools."""
    major, minor = board.release
    gpu = f"sys/class/devfreq/{board.gpu}"
    files: dict[str, str | int] = {
        "etc/nv_tegra_release": f"# R{major} (release), REVISION: {minor}, GCID: 38968081, BOARD: generic",
        "etc/os-release": 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 22.04.5 LTS"',
        "proc/device-tree/model": board.model + "\0",
        "proc/device-tree/compatible": "\0".join(board.compatible) + "\0",
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  540.4.0  Release",
        "proc/sys/kernel/osrelease": "5.15.148-tegra",
        "proc/sys/kernel/hostname": "orin",
        "proc/loadavg": "0.61 0.55 0.40 1/512 4242",
        "proc/meminfo": f"MemTotal: {board.memory_gib * 1000000} kB\nMemFree: 800000 kB\nMemAvailable: 5200000 kB\n"
        "SwapTotal: 3905536 kB\nSwapFree: 3805536 kB",
        "proc/vmstat": "pgpgin 5\npswpin 1234\npswpout 987",
        "proc/swaps": "Filename Type Size Used Priority\n/dev/zram0 partition 650922 0 5\n/swapfile file 3254614 0 -2",
        f"{gpu}/cur_freq": board.clock * MHZ,
        f"{gpu}/min_freq": board.low * MHZ,
        f"{gpu}/max_freq": board.high * MHZ,
        f"{gpu}/governor": "nvhost_podgov",
        f"{gpu}/available_frequencies": " ".join(str(clock * MHZ) for clock in board.clocks),
        f"{gpu}/device/load": 457,
        f"{gpu}/device/railgate_enable": 1,
        "sys/class/devfreq/15340000.vic/cur_freq": 729600000,
        "sys/devices/system/cpu/online": f"0-{board.cores - 1}",
        "sys/class/thermal/thermal_zone0/type": "cpu-thermal",
        "sys/class/thermal/thermal_zone0/temp": 51218,
        "sys/class/thermal/thermal_zone1/type": "gpu-thermal",
        "sys/class/thermal/thermal_zone1/temp": 49531,
        "sys/class/thermal/thermal_zone2/type": "cv0-thermal",
        "sys/class/thermal/thermal_zone2/temp": -256000,
        "sys/class/hwmon/hwmon1/name": "ina3221",
        "sys/class/hwmon/hwmon1/in1_label": "VDD_IN",
        "sys/class/hwmon/hwmon1/in1_input": 5040,
        "sys/class/hwmon/hwmon1/curr1_input": 1208,
        "sys/class/hwmon/hwmon1/curr1_max": 4720,
        "sys/class/hwmon/hwmon1/curr1_crit": 4920,
        "sys/class/hwmon/hwmon1/curr1_max_alarm": 0,
        "sys/class/hwmon/hwmon1/curr1_crit_alarm": 1,
        "sys/class/hwmon/hwmon1/in2_label": "VDD_CPU_GPU_CV",
        "sys/class/hwmon/hwmon1/in2_input": 5032,
        "sys/class/hwmon/hwmon1/curr2_input": 416,
        "sys/class/hwmon/hwmon1/in3_label": "NC",
        "sys/class/hwmon/hwmon1/in3_input": 0,
        "sys/class/hwmon/hwmon1/curr3_input": 0,
        "sys/class/hwmon/hwmon1/in7_label": "sum of shunt voltages",
        "sys/class/hwmon/hwmon3/name": "soctherm_oc",
        "sys/class/hwmon/hwmon3/oc1_event_cnt": 0,
        "sys/class/hwmon/hwmon3/oc3_event_cnt": 17,
        "sys/class/hwmon/hwmon4/name": "pwmfan",
    }
    if major < 38:
        files[f"{gpu}/device/enable_3d_scaling"] = 1
    if board.tpc_mask is not None:
        files[f"{gpu}/device/tpc_pg_mask"] = board.tpc_mask
    if board.emc_cap is not None:
        files["sys/kernel/nvpmodel_emc_cap/emc_iso_cap"] = board.emc_cap * MHZ
    for first in range(0, board.cores, 4):
        policy = f"sys/devices/system/cpu/cpufreq/policy{first}"
        pinned = board.low == board.high
        files |= {
            f"{policy}/scaling_governor": "schedutil",
            f"{policy}/scaling_cur_freq": (board.cpu if pinned or first else 729) * 1000,
            f"{policy}/scaling_min_freq": (board.cpu if pinned else 729) * 1000,
            f"{policy}/scaling_max_freq": board.cpu * 1000,
            f"{policy}/cpuinfo_max_freq": 1984 * 1000,
        }
    number, name = board.mode
    tools = Tools({"nvpmodel -q": f"NVPM WARN: fan mode is not set!\nNV Power Mode: {name}\n{number}\n"})
    return write(root, files), tools


H200 = {
    "index": "0", "name": "NVIDIA H200", "uuid": "GPU-11111111-2222-3333-4444-555555555555",
    "pci.bus_id": "00000000:00:06.0", "compute_cap": "9.0", "memory.total": "143771", "clocks.current.sm": "345",
    "clocks.current.memory": "3201", "clocks.max.sm": "1980", "clocks.max.memory": "3201",
    "clocks.applications.graphics": "1980", "clocks.applications.memory": "3201", "power.draw": "76.38",
    "power.limit": "700.00", "power.default_limit": "700.00", "temperature.gpu": "28",
    "clocks_event_reasons.active": "0x0000000000000001", "pstate": "P0", "utilization.gpu": "0",
    "utilization.memory": "0", "memory.used": "0", "persistence_mode": "Enabled", "ecc.mode.current": "Enabled",
    "mig.mode.current": "Disabled", "compute_mode": "Default",
}  # fmt: skip
GEFORCE = {
    **H200, "name": "NVIDIA GeForce RTX 3080, LHR", "compute_cap": "8.6", "memory.total": "10240",
    "clocks.applications.graphics": "[Requested functionality has been deprecated]",
    "clocks.applications.memory": "[N/A]", "power.draw": "[Unknown Error]", "ecc.mode.current": "[N/A]",
    "mig.mode.current": "[N/A]", "clocks_event_reasons.active": "0x0000000000000224", "persistence_mode": "Disabled",
    "utilization.memory": "[Not Supported]",
}  # fmt: skip


def smi(*gpus: dict[str, str], unknown: Sequence[str] = (), apps: str = "") -> Tools:
    """An nvidia-smi with these GPUs that does not know some fields."""

    def answer(command: Sequence[str]) -> Ran:
        asked = command[1].removeprefix("--query-gpu=").split(",")
        for name in asked:
            if name in unknown or not any(name in gpu for gpu in gpus):
                return Ran(2, f'Field "{name}" is not a valid field to query.\n\n')
        lines = []
        for gpu in gpus:
            cells = [gpu[name] for name in asked]
            lines.append(", ".join(f'"{cell}"' if "," in cell else cell for cell in cells))
        return Ran(0, "\n".join(lines) + "\n")

    return Tools(
        {
            "nvidia-smi --query-gpu": answer,
            "nvidia-smi --query-compute-apps": apps,
            "nvidia-smi --version": "NVIDIA-SMI version  : 580.159.04\nCUDA Version        : 13.0\n",
        }
    )


def x86(root: Path) -> Path:
    """A server's files."""
    files: dict[str, str | int] = {
        "etc/os-release": "PRETTY_NAME='Ubuntu 24.04.3 LTS'",
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue May 27 09:41",
        "proc/driver/nvidia/params": "ModifyDeviceFiles: 1\nRmProfilingAdminOnly: 1",
        "proc/loadavg": "1.5 1.0 0.5 3/900 7",
        "proc/meminfo": "MemTotal:       131900000 kB\nMemAvailable:   120000000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB",
        "proc/vmstat": "pswpin 0\npswpout 0",
        "proc/swaps": "Filename Type Size Used Priority",
        "proc/sys/kernel/osrelease": "6.8.0-64-generic",
        "sys/devices/system/cpu/online": "0-3,8",
    }
    for core in range(40):
        policy = f"sys/devices/system/cpu/cpufreq/policy{core}"
        files |= {
            f"{policy}/scaling_governor": "powersave" if core else "performance",
            f"{policy}/scaling_cur_freq": 2_000_000 + core,
            f"{policy}/scaling_max_freq": 4_000_000,
            f"{policy}/cpuinfo_max_freq": 4_000_000,
        }
    return write(root, files)
