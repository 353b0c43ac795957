"""What holds nothing to open says what it is and which file to give, in one line."""

import cProfile
import gzip
from pathlib import Path

import pytest
from sample_runs import recorded

from tracetui.app.cli.main import main
from tracetui.parsers import open_path
from tracetui.parsers.errors import TraceError
from tracetui.parsers.runs.detect import refused


@pytest.mark.parametrize(
    ("name", "what", "way_out"),
    [
        ("formats/nvprof/session_xml.nvvp", "a saved session of NVIDIA's Visual Profiler", "nvprof -o"),
        ("formats/rocprof/vector_add_results.stats.csv", "a table of rocprof", "results.json"),
        ("formats/rocprof/vector_add_results.hip_stats.csv", "a table of rocprof", "results.json"),
        ("nsys/stats/ops_nvtx_kern_sum.csv", "a table of `nsys stats`", "nsys export --type=sqlite"),
        ("nsys/stats/vim_tiny_fp32_bs4_cuda_gpu_kern_sum.csv", "a table of `nsys stats`", "nsys export --type=sqlite"),
        ("nsys/stats/gpt_small_ctx256_cuda_kern_exec_sum.csv", "a table of `nsys stats`", "nsys export --type=sqlite"),
    ],
)
def test_recorded_files(name: str, what: str, way_out: str) -> None:
    with pytest.raises(TraceError) as caught:
        open_path(recorded(name), cache=False)
    assert what in caught.value.problem
    assert way_out in caught.value.advice


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"<!DOCTYPE html>\n<html>\n<script>import {add_local_files} from 'MemoryViz.js'</script>", "memory snapshot"),
        (b'{"schema": "1.1.1-chakra.0.0.4", "pid": 3, "nodes": []}', "an execution trace of PyTorch"),
        (b'[{"frame": {"name": "ROOT"}, "metrics": {"time (ns)": 0}, "children": []}]', "Triton's Proton"),
        (b"==42== NVPROF is profiling process 42, command: ./a\n", "what nvprof printed"),
        (b"\nProcessing [a.sqlite]\nTime (%),Total Time,Instances\n", "a table of `nsys stats`"),
        (b'==42== Profiling result:\n"Type","Time(%)","Time"\n', "what nvprof printed"),
        (b"timestamp, name, utilization.gpu [%], power.draw [W]\n", "a log of nvidia-smi"),
        ('\n{"traceEvents": []}'.encode("utf-16"), "JSON in UTF-16"),
        ('[{"ph": "X"}]'.encode("utf-16-be"), "JSON in UTF-16"),
        (
            b'==PROF== x\n"ID";"Process ID";"Kernel Name";"Metric Value"\n',
            "a table of Nsight Compute with other separators",
        ),
        (gzip.compress(gzip.compress(b"[]", mtime=0), mtime=0), "gzip within gzip"),
        (b"PK\x03\x04\x14\0", "a packed file"),
        (b"trace.json".ljust(257, b"\0") + b"ustar\x0000", "a packed file"),
        (b"PAR1\x15\x04", "a Parquet file"),
        (b"ARROW1\x00\x00", "an Arrow file"),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
        (b'{"Type":48,"CudaEvent":{"startNs":"1"}}\n', "JSON lines of Nsight Systems"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_beginnings(tmp_path, content, what, packed, capsys) -> None:
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(content) if packed else content)
    assert main(["report", str(path)]) == 1
    said = capsys.readouterr().err
    assert what in said
    assert "; " in said
    assert said.count("\n") == 1


def test_a_profile_of_cprofile(tmp_path: Path) -> None:
    profile = cProfile.Profile()
    profile.runcall(sum, [1, 2])
    path = tmp_path / "program.prof"
    profile.dump_stats(path)
    with pytest.raises(TraceError, match="a profile of Python's cProfile"):
        open_path(path, cache=False)


def test_a_folder_of_nsyss_other_exports_says_what_they_are(tmp_path: Path) -> None:
    for name in ("StringIds.parquet", "CUPTI_ACTIVITY_KIND_KERNEL.parquet"):
        (tmp_path / name).write_bytes(b"PAR1\x15\x04")
    with pytest.raises(TraceError, match="a Parquet file, as `nsys export` may write"):
        open_path(tmp_path, cache=False)


def test_a_trace_of_chrome_is_no_tree_of_proton() -> None:
    assert refused(b'[{"ph": "X", "args": {"frame": {"metrics": 1}}}]') is None
