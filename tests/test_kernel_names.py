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
ADD = "at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>"
COPY = "at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}, std::array<char*, 2ul>"
INDEXED_COPY = (
    "at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}"
    "::operator()() const::{lambda()#7}::operator()() const::{lambda(float)#1}>(at::TensorIteratorBase&)"
    "::{lambda(int)#1}"
)
SUM = "at::native::ReduceOp<float, at::native::func_wrapper_t<float, at::native::sum_functor<float>::operator()(int)>>"


@pytest.mark.parametrize(
    ("name", "short", "kind"),
    [
        (
            f"void at::native::vectorized_elementwise_kernel<4, {ADD} >(int, {ADD})",
            "elementwise: add bf16",
            "elementwise",
        ),
        (f"void at::native::vectorized_elementwise_kernel<8, {COPY} >(int, {COPY})", "elementwise: copy bf16", "copy"),
        (
            f"void at::native::elementwise_kernel<128, 4, {INDEXED_COPY}>(int)",
            "elementwise: copy",
            "copy",
        ),
        (f"void at::native::reduce_kernel<512, 1, {SUM} >({SUM})", "reduce: sum", "reduce"),
        (
            "void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<32, 8, 1, false, true> >(SSMParamsBase)",
            "selective_scan_fwd_kernel",
            "scan",
        ),
        (
            "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>, float>(long, int volatile*)",
            "multi_tensor_apply<AdamFunctor>",
            "optimizer",
        ),
        (
            "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>(float*, int)",
            "softmax_warp_forward",
            "softmax",
        ),
        (
            "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float, cublasGemvParamsEx<int> >()",
            "gemvx::kernel",
            "gemm",
        ),
        ("nvjet_sm90_hsh_64x8_64x16_1x4_h_bz_NNT", "nvjet_sm90_hsh_64x8_64x16_1x4_h_bz_NNT", "gemm"),
        (
            "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4"
            "_execute_split_k_kernel__5x_cublas",
            "sm80_xmma_gemm_f32_tn_n_64x64x8_ffma_split_k",
            "gemm",
        ),
        (
            "void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_nn_align1>(cutlass_80_simt_sgemm_64x64::Params)",
            "cutlass_80_simt_sgemm_64x64_8x5_nn_align1",
            "gemm",
        ),
        ("volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", None, "conv"),
        ("void implicit_convolve_sgemm<float, float, 128, 6, 7, 3>(int, int)", "implicit_convolve_sgemm", "conv"),
        ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512>(int)", "bn_fw_tr_1C11_kernel_NCHW", "norm"),
        ("void cub::DeviceRadixSortOnesweepKernel<cub::Policy<long>::Policy800>(int)", None, "other"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", None, "communication"),
        ("triton_poi_fused__softmax_add_0", "triton_poi_fused__softmax_add_0", "elementwise"),
        ("triton_per_fused_native_layer_norm_2", "triton_per_fused_native_layer_norm_2", "norm"),
        ("triton_red_fused_sum_3", "triton_red_fused_sum_3", "reduce"),
        ("Cijk_Alik_Bljk_SB_Bias_AS_MT64x16x32_MI16x16x1_SN_LDSB0", "Cijk_Alik_Bljk_SB_MT64x16x32_MI16x16x1", "gemm"),
        ("void vllm::reshape_and_cache_flash_kernel<int>(int)", "reshape_and_cache_flash_kernel", "copy"),
        ("my_own_kernel", "my_own_kernel", "other"),
        ("", "unknown", "other"),
        ("void cut::short_name<float, at::native::AddFu", "short_name", "other"),
    ],
)
def test_short_name_and_category(name: str, short: str | None, kind: str) -> None:
    assert category(name) == kind
    if short is not None:
        assert short_name(name) == short


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


@pytest.mark.parametrize(
    ("name", "used"),
    [
        ("volta_h884gemm_64x64_ldg8_nn", True),
        ("volta_fp16_s884cudnn_fp16_128x128_ldg8_relu", True),
        ("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_nn", True),
        ("volta_sgemm_128x32_nt", False),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>::Params)", True),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm75(PyTorchMemEffAttention::AttentionKernel<float>::Params)", False),
        ("void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128> >(Flash_fwd_params)", True),
        ("void flash_bwd_convert_dq_kernel<Flash_bwd_kernel_traits<64> >(Flash_bwd_params)", False),
        ("Cijk_Alik_Bljk_SB_MT64x16x32_MI16x16x1_SN", True),
        ("Custom_Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1_CMS_SN", True),
        ("Cijk_Alik_Bljk_SB_MT64x16x32_SN", False),
        (
            "void cutlass::device_kernel<gemm::kernel::GemmUniversal<MainloopSm90TmaGmmaWarpSpecialized> >()",
            True,
        ),
    ],
)
def test_tensor_cores_by_name(name: str, used: bool) -> None:
    assert uses_tensor_cores(name) is used


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


@pytest.mark.parametrize(
    ("name", "short", "kind", "tensor_cores"),
    [
        (
            "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<"
            "flash::CollectiveMainloopFwdSm90<(int)2, cute::tuple<cute::C<(int)1>>>>>>(T1::Params)",
            "FlashAttnFwdSm90",
            "attention",
            True,
        ),
        # as ncu spells it
        (
            "void device_kernel<enable_sm80_to_sm89<FlashAttnFwdSm80<int>>>(T1::Params)",
            "FlashAttnFwdSm80",
            "attention",
            True,
        ),
        ("void flashinfer::norm::RMSNormKernel<8u, __half>(int)", "RMSNormKernel", "norm", False),
        (
            "void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::X<1> >(int)",
            "BatchPrefillWithPagedKVCacheKernel",
            "attention",
            True,
        ),
    ],
)
def test_kernels_of_attention_libraries(name: str, short: str, kind: str, tensor_cores: bool) -> None:
    assert (short_name(name), category(name), uses_tensor_cores(name)) == (short, kind, tensor_cores)


# --- names that other tools' recordings have

MOE_UP = (
    "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1_16dp256b_rM_TN_transOut_schedP2x1x2x3"
    "_biasM_bN_tma_tmaOpt_clmp_swiGlu_dynBatch_sm100f"
)
MOE_DOWN = (
    "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1_16dp256b_rM_TN_transOut"
    "_schedP2x1x2x3_biasM_bN_tmaOpt_clmp_dynBatch_sm100f"
)
CK_NORM = "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePassINS_27Rmsnorm2dFwdPipelineProblemI"
CK_PREFILL = "_ZN7ck_tile6kentryILi2ENS_38FmhaBatchPrefillWithPagedKVCacheKernelINS_45BlockFmhaBatchPrefillPipelineQRKS"
CK_WHOLE = "void ck_tile::kentry<256, 2, ck_tile::FmhaFwdKernel<ck_tile::BlockFmhaPipelineQRKSVS<int> > >(int)"


@pytest.mark.parametrize(
    ("name", "short", "kind", "tensor_cores"),
    [
        (MOE_UP, "bmm_MxE4m3_MxE2m1MxE4m3_Fp32…Glu_dynBatch_sm100f", "gemm", True),
        (MOE_DOWN, "bmm_Bfloat16_MxE2m1MxE4m3_Fp…lmp_dynBatch_sm100f", "gemm", True),
        ("bn_fw_inf_1C11_kernel_NCHW", "bn_fw_inf_1C11_kernel_NCHW", "norm", False),
        ("miopen_bn_infer_spatial", "miopen_bn_infer_spatial", "norm", False),
        ("SubTensorOpWithScalar1d", "SubTensorOpWithScalar1d", "elementwise", False),
        ("SubTensorOpWithCastTensor1d", "SubTensorOpWithCastTensor1d", "copy", False),
        ("cutlass_80_tensorop_f16_s16816gemm_f16_64x64", None, "gemm", True),
        ("igemm_wrw_gtcx2_nhwc_bf16_bx0_ex1_bt256x128x16_wt32x32x8_ws2x1", None, "conv", True),
        (CK_NORM, "Rmsnorm2dFwd", "norm", False),
        (CK_PREFILL, "FmhaBatchPrefillWithPagedKVCacheKernel", "attention", True),
        (CK_WHOLE, "FmhaFwdKernel", "attention", True),
        ("void ck_tile::kentry<64, 2, ck_tile::FmhaBwdOGradDotOKernel<int> >(int)", None, "attention", False),
    ],
)
def test_names_of_generated_and_amd_kernels(name: str, short: str | None, kind: str, tensor_cores: bool) -> None:
    assert (category(name), uses_tensor_cores(name)) == (kind, tensor_cores)
    assert short is None or short_name(name) == short


def test_the_moe_products_of_a_b200_are_half_of_its_kernel_time(recording: Callable[[str], Trace]) -> None:
    device = recording("public/tl_b200_eager.json.gz").device.filter(pl.col("kind") == "kernel")
    spent = device.select(pl.col("name").cast(pl.String), "duration")
    products = spent.filter(pl.col("name").str.starts_with("bmm_"))
    assert {(category(name), uses_tensor_cores(name)) for name in products["name"]} == {("gemm", True)}
    assert products["duration"].sum() / spent["duration"].sum() == pytest.approx(0.48, abs=0.005)


@pytest.mark.parametrize(
    ("kind", "names"),
    {
        "attention": (
            "void flashinfer::BatchDecodeWithPagedKVCacheKernel<2u, P>(P)",
            "void flashinfer::BatchPODWithPagedKVCacheKernelTensor<K>(P)",
            "void flashinfer::PersistentVariableLengthMergeStatesKernel<8u, 16u>(float*)",
            "void flashinfer::mla::BatchMLAPagedAttentionKernel<K, P>(P)",
            "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<X> > >(P)",
            "void cutlass::device_kernel<flash::FlashAttnFwdCombine<X> >(P)",
            "void deep_gemm::sm90_fp8_paged_mqa_logits<2u, 64u>(P)",
            "void vllm::paged_attention_v2_reduce_kernel<__nv_bfloat16, 128>(P)",
            "reduce_segments",
            "mla_dec_stage1_bf16_a16w16_subQ128_mqa128",
            "kn_mla_reduce_v1",
        ),
        "gemm": (
            "void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 4096u>(P)",
            "void marlin_moe_wna16::Marlin<__nv_bfloat16, 256>(int4 const*)",
            "void marlin::gptq_marlin_24::Marlin_24<8, 256>(P)",
            "_w8a8_triton_block_scaled_mm",
            "_batched_moe_kernel",
        ),
        "communication": (
            "void deep_ep::internode_ll::dispatch<true, false, 7168>(P)",
            "void pplx::internode::combineKernel<P>(P)",
            "void flashinfer::trtllm_alltoall::moeAllToAllKernel<true>(P)",
            "void tensorrt_llm::kernels::twoshot_allreduce_kernel<__nv_bfloat16>(P)",
            "void flashinfer::trtllm_mnnvl_allreduce::oneshotAllreduceFusionKernel<8, float>(P)",
            "void quickreduce::allreduce_prototype_twoshot<X, half>(P)",
            "userbuffers_fp16_sum_inplace_gpu_rr_rs_oop_fp8",
        ),
        "copy": (
            "void flashinfer::AppendPagedKVCacheKernel<128u, 4u>(P)",
            "void vllm::concat_and_cache_mla_kernel<__nv_bfloat16, 0>(P)",
            "void vllm::indexer_k_quant_and_cache_kernel<P>(P)",
            "void vllm::gather_cache<__nv_bfloat16>(P)",
            "set_mla_kv_buffer_kernel",
            "_fwd_kernel_ep_scatter_1",
            "post_reorder_triton_kernel",
        ),
        "other": (
            "void flashinfer::sampling::TopPSamplingFromProbKernel<1024u, true, float>(P)",
            "void flashinfer::sampling::ChainSpeculativeSampling<1024u>(P)",
            "void flashinfer::sampling::TopPRenormProbKernel<1024u>(P)",
            "void vllm::moe::topkGatingSoftmax<8, 128, 4>(float const*)",
            "_gumbel_sample_kernel",
            "eagle_prepare_inputs_padded_kernel",
        ),
        "softmax": ("void flashinfer::sampling::OnlineSoftmaxFusedKernel<1024u, 4u>(P)",),
        "reduce": ("void at::native::upsample_kernel_sum<float>(P)",),
    }.items(),
)
def test_kernels_of_inference_servers(kind: str, names: tuple[str, ...]) -> None:
    assert {name: category(name) for name in names} == dict.fromkeys(names, kind)


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
