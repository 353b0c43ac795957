"""Lines of tegrastats as boards and releases print them."""

from __future__ import annotations

import pytest

from tracetui.collectors.machine.sampler import parse
from tracetui.collectors.machine.smi import MHZ

ORIN_JP6 = (
    "11-20-2026 10:10:10 RAM 2448/7620MB (lfb 3x4MB) SWAP 12/3810MB (cached 1MB) "
    "CPU [1%@1510,0%@1510,100%@1344,off,off,0%@729] EMC_FREQ 1%@2133 GR3D_FREQ 10%@[306] NVDEC off NVJPG off VIC off "
    "OFA off APE 200 cpu@51.218C soc2@50.312C gpu@49.531C tj@52.1C cv0@-256C "
    "VDD_IN 4889mW/4767mW VDD_CPU_GPU_CV 1094mW/1094mW VDD_SOC 1573mW/1533mW"
)


def test_every_field_of_an_orin() -> None:
    line = parse(ORIN_JP6)
    assert line is not None
    assert (line.emc_percent, line.emc_hz) == (1, 2133 * MHZ)
    assert (line.gpu_percent, line.gpu_hz) == (10, (306 * MHZ,))
    assert line.temperatures_c == {"cpu": 51.218, "soc2": 50.312, "gpu": 49.531, "tj": 52.1}
    assert line.rails_mw == {"VDD_IN": 4889, "VDD_CPU_GPU_CV": 1094, "VDD_SOC": 1573}


@pytest.mark.parametrize(
    ("gpu", "percent", "clocks"),
    [
        ("GR3D_FREQ 10%@1000", 10, (1000,)),
        ("GR3D_FREQ 0%@[1300,1300]", 0, (1300, 1300)),
        ("GR3D_FREQ @[1000,1000,1000]", None, (1000, 1000, 1000)),
        ("GR3D_FREQ 99%", 99, ()),
        ("GR3D 39%@76", 39, (76,)),
        ("", None, ()),
    ],
)
def test_forms_of_the_gpu(gpu: str, percent: int | None, clocks: tuple[int, ...]) -> None:
    line = parse(f"RAM 1/2MB (lfb 1x4MB) CPU [0%@729] EMC_FREQ 0% {gpu} APE 174 CPU@40C")
    assert line is not None
    assert line.gpu_percent == percent
    assert line.gpu_hz == tuple(clock * MHZ for clock in clocks)
    assert (line.emc_percent, line.emc_hz) == (0, None)


def test_forms_of_older_releases() -> None:
    line = parse("RAM 3468/3983MB (lfb 48x4MB) SWAP 873/8192MB (cached 295MB) cpu [17%,13%]@408 EMC 1%@408 GR3D 3%@76")
    assert line is not None
    assert (line.emc_percent, line.emc_hz) == (1, 408 * MHZ)
    xavier = parse(
        "RAM 264/28409MB (lfb 7004x4MB) CPU [0%@1817] EMC_FREQ @2133 GR3D_FREQ 0%@1109 CPU@31.5C GPU 0/0 SOC 930/930"
    )
    assert xavier is not None
    assert (xavier.emc_percent, xavier.emc_hz) == (None, 2133 * MHZ)
    assert xavier.rails_mw == {"GPU": 0, "SOC": 930}
    nano = parse("RAM 1/2MB (lfb 1x4MB) PMIC@100C POM_5V_IN 2532/2532 POM_5V_GPU 40/40")
    assert nano is not None
    assert nano.rails_mw == {"POM_5V_IN": 2532, "POM_5V_GPU": 40}


@pytest.mark.parametrize("text", ["", "tegrastats: command not found", "NVPM WARN", "RAM usage is high"])
def test_other_lines_are_none(text: str) -> None:
    assert parse(text) is None
