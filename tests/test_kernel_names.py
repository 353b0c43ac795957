"""Names of kernels and calls: short form, category, tensor cores, and which calls wait for the GPU."""

import csv
from collections import Counter
from collections.abc import Callable

import polars as pl
import pytest
from other_definitions import tb_uses_tensor_cores
from sample_runs import recorded

from tracetui.analysis.base import api_names
from tracetui.parsers import Trace
from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.kernel_names import (
    CATEGORIES,
    category,
    short_name,
    tensor_cores_unclear,
    uses_tensor_cores,
)

RECORDINGS = (
    "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz",
    "chrome/vim_tiny_fp16_bs4.pt.trace.json.gz",
    "chrome/gpt_small_ctx256.trace.json.gz",
    "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz",
    "chrome/ddp_vit_small_2ranks/rank0.pt.trace.json.gz",
    "chrome/kineto_samples/resnet50_num_workers_0.pt.trace.json.gz",
    "chrome/forms/amd_mi250_rocm.json.gz",
)


def test_tensor_cores_of_measured_launches() -> None:
    """truth.csv was decided by the GPU's pipe counters; all three tools' spellings must give its answer."""
    with recorded("ops/truth.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert sum(int(row["launches"]) for row in rows) == 43
    for row in rows:
        spellings = [row[tool] for tool in ("kineto_name", "nsys_name", "ncu_name")]
        assert [uses_tensor_cores(name) for name in spellings] == [row["tensor_cores"] == "1"] * 3, row["kineto_name"]
        assert len({short_name(name) for name in spellings}) == 1
        assert len({category(name) for name in spellings}) == 1


def test_torch_tb_takes_plain_fp32_products_for_tensor_cores() -> None:
    plain = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4"
    assert (tb_uses_tensor_cores(plain), uses_tensor_cores(plain)) == (True, False)


@pytest.mark.parametrize("name", ["nvjet_sm90_tst_64x48_64x15_2x4_h_bz_NNT", "cutlass3x_sm90_tensorop_gemm_f16"])
def test_torch_tb_misses_todays_tensor_core_kernels(name: str) -> None:
    assert (tb_uses_tensor_cores(name), uses_tensor_cores(name)) == (False, True)


@pytest.mark.parametrize("path", RECORDINGS)
def test_little_time_is_in_other(recording: Callable[[str], Trace], path: str) -> None:
    device = recording(path).device.filter(pl.col("kind") == "kernel")
    by_name = device.group_by(pl.col("name").cast(pl.String)).agg(pl.col("duration").sum())
    time = dict(by_name.iter_rows())
    other = {name: spent for name, spent in time.items() if category(name) == "other"}
    assert sum(other.values()) < 0.02 * sum(time.values()), other
    assert all(len(short_name(name)) <= kernel_names.SHORT_NAME_LENGTH for name in time)
    assert {category(name) for name in time} <= set(kernel_names.CATEGORIES)


def test_the_moe_products_of_a_b200_are_half_of_its_kernel_time(recording: Callable[[str], Trace]) -> None:
    device = recording("public/tl_b200_eager.json.gz").device.filter(pl.col("kind") == "kernel")
    spent = device.select(pl.col("name").cast(pl.String), "duration")
    products = spent.filter(pl.col("name").str.starts_with("bmm_"))
    assert {(category(name), uses_tensor_cores(name)) for name in products["name"]} == {("gemm", True)}
    assert products["duration"].sum() / spent["duration"].sum() == pytest.approx(0.48, abs=0.005)


@pytest.mark.parametrize("name", ["public/tl_vllm_piecewise.json.gz", "public/tl_sglang_decode.json.gz"])
def test_no_kernel_is_called_by_its_entry_point(recording: Callable[[str], Trace], name: str) -> None:
    device = recording(name).device.filter(pl.col("kind") == "kernel")
    assert "kentry" not in {short_name(kernel) for kernel in device["name"].cast(pl.String).unique()}


SUFFIXES = (".json.gz", ".csv.gz", ".sqlite.gz")


def table() -> list[dict[str, str]]:
    with recorded("kernel_names.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def tensor_cores(name: str) -> str:
    if uses_tensor_cores(name):
        return "yes"
    return "unclear" if tensor_cores_unclear(name) else "no"


@pytest.mark.parametrize("column", ["category", "tensor_cores", "short_name"])
def test_every_name_reads_as_judged(column: str) -> None:
    read = {"category": category, "tensor_cores": tensor_cores, "short_name": short_name}[column]
    wrong = {row["name"]: (row[column], read(row["name"])) for row in table() if row[column]}
    assert {name: both for name, both in wrong.items() if both[0] != both[1]} == {}


def test_a_name_of_nothing_and_a_helper_of_attention() -> None:
    assert (short_name(""), category("")) == ("unknown", "other")
    assert not uses_tensor_cores("void ck_tile::kentry<64, 2, ck_tile::FmhaBwdOGradDotOKernel<int> >(int)")


def test_the_table_is_wide_enough() -> None:
    rows = table()
    names = {row["name"] for row in rows}
    assert len(names) == len(rows) >= 400
    assert sum(row["source"].endswith(SUFFIXES) for row in rows) >= 300  # of recordings
    assert set(Counter(row["category"] for row in rows)) == set(CATEGORIES)
    for part in (
        "nvjet", "cutlass_80_", "cutlass3x", "Sm90Tma", "cudnn::", "triton_per", "bmm_", "flashinfer::",
        "flash_fwd_kernel", "FlashAttnFwdSm90", "_ZN7ck_tile", "Cijk_", "igemm_", "SubTensorOp", "Eigen::",
        "loop_", "sm87_xmma", "ampere_",
    ):  # fmt: skip
        assert any(part in name for name in names), part


@pytest.mark.parametrize(
    ("written", "function"),
    [
        ("cudaMemcpyAsync_v3020", "cudaMemcpyAsync"),
        ("cudaMemcpyAsync_ptsz_v7000", "cudaMemcpyAsync"),
        ("cudaMemcpy_ptds_v7000", "cudaMemcpy"),
        ("cudaStreamIsCapturing_v10000", "cudaStreamIsCapturing"),
        ("cudaGetDeviceProperties_v2_v12000", "cudaGetDeviceProperties"),
        ("cuMemcpyHtoD_v2", "cuMemcpyHtoD"),
        ("cuMemcpyHtoD_v2_ptds", "cuMemcpyHtoD"),
        ("cuStreamSynchronize_ptsz", "cuStreamSynchronize"),
        ("hipMemcpyAsync_spt", "hipMemcpyAsync"),
        ("cudaLaunchKernel", "cudaLaunchKernel"),
        ("my_kernel_v2x", "my_kernel_v2x"),
    ],
)
def test_a_call_is_known_without_its_version_and_variant(written: str, function: str) -> None:
    assert api_names.plain(written) == function


WAITING = """
cudaDeviceSynchronize cudaDeviceSynchronize_v3020 cudaStreamSynchronize_ptsz_v7000 cudaEventSynchronize_v3020
cudaThreadSynchronize hipDeviceSynchronize hipStreamSynchronize hipEventSynchronize hipCtxSynchronize cuCtxSynchronize
cuStreamSynchronize_ptsz cuEventSynchronize hsa_signal_wait_scacquire hsa_signal_wait_relaxed
cudaMemcpy cudaMemcpy_v3020 cudaMemcpy_ptds_v7000 cudaMemcpy2D cudaMemcpy3D_v3020 cudaMemcpyToSymbol
cudaMemcpyFromSymbol cudaMemcpyToArray cudaMemcpy2DToArray cudaMemcpy2DArrayToArray cudaMemcpyPeer cudaMemcpy3DPeer
hipMemcpy hipMemcpyHtoD hipMemcpyDtoH hipMemcpyDtoD hipMemcpy2D hipMemcpyParam2D hipMemcpyToSymbol hipMemcpyWithStream
hipMemcpyPeer hipMemcpy_spt cuMemcpy cuMemcpyHtoD_v2 cuMemcpyDtoH_v2_ptds cuMemcpyDtoD_v2 cuMemcpyAtoH_v2 cuMemcpy2D_v2
cuMemcpy2DUnaligned_v2 cuMemcpy3D_v2 cuMemcpy3DPeer cuMemcpyPeer_ptds cudaFree cudaFree_v3020 hipFree cuMemFree_v2
"""
GOING_ON = """
cudaLaunchKernel cudaLaunchKernel_ptsz_v7000 cuLaunchKernelEx cudaGraphLaunch_v10000 hipLaunchKernel
hipModuleLaunchKernel cudaMemcpyAsync cudaMemcpyAsync_v3020 cudaMemcpyAsync_ptsz_v7000 cudaMemcpy2DAsync
cudaMemcpyPeerAsync cudaMemcpyToSymbolAsync hipMemcpyAsync hipMemcpyDtoHAsync hipMemcpyHtoDAsync hipMemcpyPeerAsync
cuMemcpyHtoDAsync_v2 cuMemcpy2DAsync_v2_ptsz cudaMemset cudaMemset_v3020 cudaMemsetAsync hipMemsetAsync
cudaStreamWaitEvent cudaEventRecord cudaFreeAsync cuMemFreeAsync cudaMalloc hsa_signal_create
cudaStreamIsCapturing_v10000
"""
ALL = (*WAITING.split(), *GOING_ON.split())


def test_calls_that_wait_are_known_in_all_their_forms() -> None:
    assert [name for name in WAITING.split() if not api_names.waits(name)] == []
    assert [name for name in GOING_ON.split() if api_names.waits(name)] == []


def test_copies_and_fills_are_known_in_all_their_forms() -> None:
    named = {name for name in ALL if api_names.copies(name)}
    assert named == {name for name in ALL if "emcpy" in name}
    assert [name for name in ALL if api_names.fills(name)] == ["cudaMemset", "cudaMemset_v3020"]
    assert api_names.fills("cuMemsetD8_v2_ptds")
    assert api_names.fills("hipMemsetD32")
    assert not api_names.fills("cuMemsetD32Async")


def test_some_wait_for_all_streams() -> None:
    wide = [name for name in WAITING.split() if api_names.waits_for_all(name)]
    assert {api_names.plain(name) for name in wide} == {
        "cudaDeviceSynchronize", "cudaThreadSynchronize", "hipDeviceSynchronize", "hipCtxSynchronize",
        "cuCtxSynchronize", "cudaFree", "hipFree", "cuMemFree",
    }  # fmt: skip
    assert api_names.makes_stream_wait("cudaStreamWaitEvent_ptsz_v7000")
    assert not api_names.makes_stream_wait("cudaEventRecord")
