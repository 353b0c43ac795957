"""Which calls wait for the GPU, whatever variant of a function and whatever version of the recorder."""

from __future__ import annotations

import pytest

from tracetui.analysis.base import api_names


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
