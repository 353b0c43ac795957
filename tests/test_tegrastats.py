"""Lines of tegrastats as boards and releases print them."""

import json
import shutil
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from chrome_file import ChromeFile
from judged import facts, fires, silent
from sample_runs import recorded

from tracetui.analysis.compare.comparable import comparable
from tracetui.parsers import open_path
from tracetui.parsers.errors import TraceError
from tracetui.parsers.tegrastats.lines import MHZ, parse

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


@pytest.mark.parametrize(
    ("name", "samples", "said"),
    [
        (
            "xavier_nx.log",
            103,
            {
                "GPU load (GR3D)": "mean 89.087 %, largest 99 %",
                "VDD_IN": "mean 12,791.8 mW, largest 13,830 mW",
                "RAM": "mean 5,215 MB, largest 5,507 MB",
            },
        ),
        (
            "agx_orin.log",
            15,
            {
                "GPU load (GR3D)": "mean 25.667 %, largest 41 %",
                "VDD_GPU_SOC": "mean 2,691.5 mW, largest 2,798 mW",
                "GPU clock": "mean 305 MHz, largest 305 MHz",
            },
        ),
        ("tx2_two_lines.txt", 4, {"VDD_SYS_GPU": "mean 153.0 mW, largest 153 mW (of 1)"}),
    ],
)
def test_logs_of_boards(name: str, samples: int, said: dict[str, str]) -> None:
    trace = open_path(recorded(f"formats/tegrastats/{name}"), cache=False).main
    assert (trace.info.kind, trace.source.events_parsed, trace.notes) == ("tegrastats", samples, ())
    assert said.items() <= dict(trace.info.captured).items()
    assert trace.counters.filter(pl.col("metric").cast(pl.String) == "RAM").height == samples


def test_energy_is_power_times_the_time_until_the_next_sample(tmp_path: Path) -> None:
    lines = (
        "10:00:00 RAM 1/2MB VDD_IN 1000mW/1mW",
        "10:00:02 RAM 1/2MB VDD_IN 500mW/1mW",
        "10:00:01 RAM 1/2MB VDD_IN 4mW/1mW",
    )
    (tmp_path / "a.log").write_text("".join(f"01-31-2026 {line}\n" for line in lines) + "Killed\n")
    trace = open_path(tmp_path / "a.log", cache=False).main
    assert (
        dict(trace.info.captured)["energy"] == "2.5 J (VDD_IN)"
    )  # 1 W for 2 s, 0.5 W for 1 s, 4 mW for the mean 1.5 s
    assert [(note.kind, note.reason) for note in trace.notes] == [
        ("skipped", "line that is no sample"),
        ("repaired", "time before the one of the line before, taken for a second after it"),
    ]


def test_a_log_beside_a_recording_is_part_of_its_run(tmp_path: Path) -> None:
    shutil.copy(recorded("formats/tegrastats/agx_orin.log"), tmp_path / "board.log")
    shutil.copy(recorded("formats/nvprof/one_kernel.nvvp"), tmp_path / "run.nvvp")
    run = open_path(tmp_path, cache=False)
    assert [trace.info.kind for trace in run.traces] == ["nvprof", "tegrastats"]


JTOP = """\
time,uptime,CPU1,CPU2,RAM,SWAP,EMC,GPU,APE,Fan pwmfan0,Temp CPU,Temp CV0,Temp GPU,Power GPU,Power VIN_SYS_5V0,\
Power TOT,jetson_clocks,nvp model
2025-01-02 10:00:00.100000,"1 day, 2:03:04",12,OFF,0.25,0.0,3,50.5,OFF,30.0,45.5,-256,44.0,4000,2000,7000,OFF,MAXN
2025-01-02 10:00:01.100000,"1 day, 2:03:05",12,OFF,0.35,0.0,5,99.5,OFF,30.0,46.5,-256,45.0,6000,2500,10000,OFF,MAXN
2025-01-02 10:00:02.600000,"1 day, 2:03:05",12,OFF,0.35
2025-01-02 10:00:03.100000,"1 day, 2:03:07",12,OFF,0.35,0.0,5,99.5,OFF,30.0,46.5,-256,45.0,6000,2500,10000,OFF,MAXN
"""
"""As jtop's example logger writes its `stats`: the keys are those of its source."""


@pytest.mark.parametrize("name", ["board.csv", "board.log"])
def test_a_log_of_jtop(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(JTOP)
    trace = open_path(tmp_path / name, cache=False).main
    assert (trace.info.kind, trace.info.tool, trace.info.base_time) == ("tegrastats", "jtop", 1_735_812_000_100_000_000)
    assert dict(trace.info.captured) == {
        "samples": "3 in 3 s",
        "GPU load (GR3D)": "mean 83.167 %, largest 99.5 %",
        "memory load (EMC)": "mean 4.333 %, largest 5 %",
        "RAM used": "mean 31.667 %, largest 35 %",
        "GPU": "mean 5,333.3 mW, largest 6,000 mW",
        "VIN_SYS_5V0": "mean 2,333.3 mW, largest 2,500 mW",
        "Power TOT": "mean 9,000.0 mW, largest 10,000 mW",
        # 7 W for 1 s, 10 W for 2 s, and the last sample as long as the mean of the others
        "energy": "42.0 J (Power TOT)",
        "CPU temperature": "mean 46.2 °C, largest 46.5 °C",
        "GPU temperature": "mean 44.7 °C, largest 45 °C",
    }
    assert trace.counters.filter(pl.col("metric").cast(pl.String) == "Power TOT")["time"].to_list() == [
        0, 1_000_000_000, 3_000_000_000
    ]  # fmt: skip
    assert [(note.reason, note.count) for note in trace.notes] == [("row cut short", 1)]


def test_a_log_of_jtop_without_a_sample(tmp_path: Path) -> None:
    (tmp_path / "board.csv").write_text(JTOP.splitlines()[0] + "\n")
    with pytest.raises(TraceError, match="a log of jtop without a sample"):
        open_path(tmp_path / "board.csv", cache=False)


def beside_a_recording(folder: Path, samples: int, zone: int) -> dict[str, str]:
    """What the log says beside two steps from 1.5 s to 4 s after its first second, in a zone of so many minutes."""
    began = datetime(2025, 1, 2, 10, 0, 0)
    file = ChromeFile(baseTimeNanoseconds=int((began - datetime(1970, 1, 1)).total_seconds()) * 1_000_000_000)
    file.step(0, 1.5e6, 2.5e6)
    file.step(1, 2.5e6, 4e6)
    file.launch("gemm", call=(1.6e6, 1.7e6), kernel=(1.7e6, 3.9e6))
    file.write(folder / "a.pt.trace.json")
    lines = [
        f"{began + timedelta(minutes=zone, seconds=at):%m-%d-%Y %H:%M:%S} RAM 9/99MB GR3D_FREQ 99%@[{1300 - 100 * at}]"
        f" gpu@40C VDD_IN {1000 + 1000 * at}mW/9mW VDD_SOC 7mW/7mW\n"
        for at in range(samples)
    ]
    (folder / "board.log").write_text("".join(lines))
    return dict(open_path(folder, cache=False).of_kind("tegrastats")[0].info.captured)


@pytest.mark.parametrize("zone", [0, 60, -345])
def test_energy_of_a_step_beside_a_recording(tmp_path: Path, zone: int) -> None:
    said = beside_a_recording(tmp_path, 8, zone)
    # 2 W for 0.5 s, 3 W and 4 W for a second each
    assert said["energy per step"] == "4 J (VDD_IN: 8 J in 2 recorded steps, of 3 samples)"
    assert said["GPU clock in steps"] == "mean 1,100.0 MHz, 1,000 to 1,200 MHz"
    assert said["gpu temperature in steps"] == "mean 40.0 °C, 40 to 40 °C"


@pytest.mark.parametrize(("samples", "zone"), [(1_000, 0), (3, 0), (8, 7)])
def test_nothing_is_said_where_the_clocks_do_not_tell(tmp_path: Path, samples: int, zone: int) -> None:
    """A log so long that two zones fit, one that ends within the steps, and a clock that is in no zone."""
    said = {name: text for name, text in beside_a_recording(tmp_path, samples, zone).items() if "step" in name}
    not_covered = {"energy per step": "unknown, for the log does not cover the recorded steps"}
    assert said == ({} if samples == 1_000 else not_covered)


def test_throttling_is_told_from_a_log_alone(tmp_path: Path) -> None:
    lines = [
        f"01-31-2026 10:00:{at:02} RAM 9/99MB GR3D_FREQ {99 if at else 5}%@[{clock}] PMIC@100C gpu@{60 + at}C\n"
        for at, clock in enumerate([300, *[1300] * 20, *[800] * 5])
    ]
    (tmp_path / "board.log").write_text("".join(lines))
    finding = fires("T1", facts(open_path(tmp_path / "board.log", cache=False).main))
    assert finding.title == "At 85 °C the GPU's clock fell by 38.5 %"
    (tmp_path / "board.log").write_text("".join(line.replace("@[800]", "@[1250]") for line in lines))
    assert silent("T1", facts(open_path(tmp_path / "board.log", cache=False).main))


def test_energy_of_an_inference_is_the_power_of_a_busy_gpu_for_its_time(tmp_path: Path) -> None:
    shutil.copy(recorded("formats/trtexec/mobilenet.qat.profile.json"), tmp_path)
    (tmp_path / "board.log").write_text("RAM 9/99MB GR3D_FREQ 9% VDD_IN 90mW/9mW\n" * 5)
    run = open_path(tmp_path, cache=False)
    assert ([trace.info.kind for trace in run.traces], run.others) == (["trtexec", "tegrastats"], ())
    assert "energy per inference" not in dict(run.main.info.captured)
    with (tmp_path / "board.log").open("a") as file:
        file.write("RAM 9/99MB GR3D_FREQ 99% VDD_IN 2000mW/9mW\n" * 2 + "RAM 9/99MB GR3D_FREQ 50% VDD_IN 5000mW/9mW\n")
    # 3 W for 0.647062 ms
    assert dict(open_path(tmp_path, cache=False).main.info.captured)["energy per inference"] == (
        "about 1.94 mJ (VDD_IN: 3 W, the mean of 3 samples with a load of 50 % or more, for 0.647 ms)"
    )


def test_samples_of_run_json(tmp_path: Path) -> None:
    """Alone, and beside the recording: three samples in 2.5 s of two steps."""
    zero = 1_735_812_000_000_000_000
    samples = [
        {"time_unix_ns": zero + at * 1_000_000_000, "sources": ["nvidia-smi"],
         "gpus": [{"index": 0, "load_percent": 99.0, "clock_hz": 1_000_000_000, "power_mw": 100_000 * (1 + at)}]}
        for at in range(8)
    ]  # fmt: skip
    said = {"schema": "tracetui.run/1", "status": "finished", "power": {"during": samples}}
    beside_a_recording(tmp_path, 8, 0)
    (tmp_path / "board.log").unlink()
    (tmp_path / "run.json").write_text(json.dumps(said))
    alone = open_path(tmp_path / "run.json", cache=False)
    assert dict(alone.main.info.captured)["GPU power"] == "mean 450,000.0 mW, largest 800,000 mW"
    captured = dict(open_path(tmp_path, cache=False).main.info.captured)
    assert captured["energy per step"] == "400 J (GPU power: 800 J in 2 recorded steps, of 3 samples)"
    assert captured["GPU load in steps"] == "mean 99.0 %, 99 to 99 %"


def test_what_a_machine_did_is_no_setting_of_the_recording(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        assert beside_a_recording(tmp_path / name, 8, 0)["energy per step"]
    (tmp_path / "b/board.log").unlink()
    a, b = (open_path(tmp_path / name, cache=False).main for name in ("a", "b"))
    assert dict(a.info.captured)["energy per step"]
    assert not [row.field for row in comparable(a, b).differences if "step" in row.field]
