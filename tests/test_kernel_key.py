"""One key for the three spellings of a kernel's name, and another one for another function."""

from __future__ import annotations

import csv
import gzip
import random
import sqlite3
import sys
import time
from typing import TYPE_CHECKING

import pytest
from sample_runs import recorded

from tracetui.parsers.names.itanium import demangle
from tracetui.parsers.names.kernel_key import function_name, key, scoped_words
from tracetui.parsers.names.kernel_names import category, short_name
from tracetui.parsers.nsys.database import kernel_keys as nsys_kernel_keys
from tracetui.parsers.runs.opening import kernel_keys as trace_kernel_keys

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from _typeshed import TraceFunction

    from tracetui.parsers import Trace

    Recording = Callable[[str], Trace]

TOOLS = ("kineto_name", "nsys_name", "ncu_name")
VIM = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"
GPT = "chrome/gpt_small_ctx256.trace.json.gz"

SPELLINGS: dict[str, tuple[str, ...]] = {
    "CUTLASS 3": (
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>, "
        "cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<4, "
        "cute::tuple<cute::C<2>, cute::C<1>, cute::C<1> > >, cute::SM90_64x128x16_F32F16F16_SS<"
        "(cute::SM90::GMMA::Major)0, (cute::SM90::GMMA::ScaleIn)1> >, void> >(cutlass::gemm::kernel::GemmUniversal<"
        "int>::Params)",
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>, "
        "cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<(int)4, "
        "cute::tuple<cute::C<(int)2>, cute::C<(int)1>, cute::C<(int)1>>>, cute::SM90_64x128x16_F32F16F16_SS<"
        "(cute::SM90::GMMA::Major)0, (cute::SM90::GMMA::ScaleIn)1>>, void>>(T1::Params)",
        "void cutlass::device_kernel<kernel::GemmUniversal<cute::tuple<int, int, int, int>, collective::CollectiveMma<"
        "cutlass::MainloopSm90TmaGmmaWarpSpecialized<4, cute::tuple<cute::C<2>, cute::C<1>, cute::C<1>>>, "
        "cute::SM90_64x128x16_F32F16F16_SS<0, 1>>, void>>(T1::Params)",
    ),
    "FlashAttention 2": (
        "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::half_t, "
        "Flash_kernel_traits<64, 128, 128, 4, cutlass::half_t> >, false, true, false>(flash::Flash_fwd_params)",
        "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int)64, (int)128, (int)128, (int)4, (bool)0, (bool)0, "
        "cutlass::half_t, Flash_kernel_traits<(int)64, (int)128, (int)128, (int)4, cutlass::half_t>>, (bool)0, "
        "(bool)1, (bool)0>(flash::Flash_fwd_params)",
        "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, 0, 0, half_t, Flash_kernel_traits<64, 128, "
        "128, 4, half_t>>, 0, 1, 0>(Flash_fwd_params)",
    ),
    "FlashAttention 3, mangled as Kineto leaves long names": (
        "_ZN7cutlass13device_kernelIN5flash20enable_sm90_or_laterINS1_12SingleTileTwIN4cute5tupleIJNS4_1CILi128EEES7_"
        "EEENS_6half_tELb1EEEEEEEvNT_6ParamsE",
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::SingleTileTw<cute::tuple<cute::C<(int)128>, "
        "cute::C<(int)128>>, cutlass::half_t, (bool)1>>>(T1::Params)",
        "void device_kernel<enable_sm90_or_later<SingleTileTw<cute::tuple<cute::C<128>, cute::C<128>>, half_t, 1>>>("
        "T1::Params)",
    ),
    "CUB with its versioned namespace": (
        "void cub::CUB_200200_700_NS::DeviceRadixSortOnesweepKernel<cub::CUB_200200_700_NS::DeviceRadixSortPolicy<"
        "float, long, unsigned int>::Policy900, false, float, long, unsigned int>(int*, unsigned int const*, float*)",
        "void cub::CUB_200200_700_NS::DeviceRadixSortOnesweepKernel<cub::CUB_200200_700_NS::DeviceRadixSortPolicy<"
        "float, long, unsigned int>::Policy900, (bool)0, float, long, unsigned int>(T7 *, const T5 *, T3 *)",
        "void cub::DeviceRadixSortOnesweepKernel<cub::DeviceRadixSortPolicy<float, long, unsigned int>::Policy900, 0, "
        "float, long, unsigned int>(T7 *, const T5 *, T3 *)",
    ),
    "Thrust": (
        "void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__parallel_for::ParallelForAgent<thrust::cuda_cub"
        "::__uninitialized_fill::functor<thrust::device_ptr<int>, int>, unsigned long>, unsigned long>(unsigned long)",
        "void core::_kernel_agent<__parallel_for::ParallelForAgent<__uninitialized_fill::functor<thrust::device_ptr<"
        "int>, int>, size_t>, long unsigned int>(T2)",
    ),
    "a lambda that is marked __device__": (
        "void kern<__nv_dl_wrapper_t<__nv_dl_tag<void (*)(float*, int), &(scale(float*, int)), 1u>, float> >(int)",
        "void kern<__nv_dl_wrapper_t<__nv_dl_tag<void (*)(float *, int), &scale, (unsigned int)1>, float>>(int)",
        "void kern<__nv_dl_wrapper_t<__nv_dl_tag<void (*)(float *, int), scale, 1>, float>>(int)",
        "void kern<__nv_dl_wrapper_t<__nv_dl_tag<void (*)(float*, int), &(void scale(float*, int)), 1u>, float>>(int)",
    ),
    "a lambda of a template": (
        "void f<run<float>(float*)::{lambda(float)#2}>(int, run<float>(float*)::{lambda(float)#2})",
        "void f<void run<float>(T1 *)::[lambda(T1) (instance 2)]>(int, T1)",
        "void f<void run<float>(float*)::'lambda0'(float)>(int, void run<float>(float*)::'lambda0'(float))",
    ),
    "a generic lambda": ("void f<main::{lambda(auto:1)#1}>(int)", "void f<main::[lambda(auto) (instance 1)]>(int)"),
    "a lambda of a member function": (
        "void kern<Op<float>::operator()(int) const::{lambda(int)#2}>(int)",
        "void kern<Op<float>::operator ()(int) const::[lambda(int) (instance 2)]>(T1)",
    ),
    "a type without a name": (
        "void kern<foo(int)::{unnamed type#1}>(int)",
        "void kern<foo(int)::[unnamed type (instance 1)]>(T1)",
        "void kern<foo(int)::'unnamed'>(int)",
    ),
    "NCCL": (
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    ),
    "an enumerator, vLLM": (
        "void vllm::paged_attention_v1_kernel<unsigned short, 128, (vllm::Fp8KVCacheDataType)0, false>(short*)",
        "void vllm::paged_attention_v1_kernel<unsigned short, (int)128, (vllm::Fp8KVCacheDataType)0, (bool)0>(T1 *)",
        "void vllm::paged_attention_v1_kernel<unsigned short, 128, 0, 0>(T1 *)",
    ),
    "a function as an argument, llama.cpp": (
        "void k_bin_bcast<&op_add, float, float, float>(float const*, float*)",
        "void k_bin_bcast<&(op_add(float, float)), float, float, float>(float const*, float*)",
        "void k_bin_bcast<op_add, float, float, float>(const T2 *, T4 *)",
    ),
    "the function's type given, FlashInfer": (
        "void flashinfer::activation::act_and_mul_kernel<__half, &(__half silu<__half>(__half const&))>(__half*, int)",
        "void flashinfer::activation::act_and_mul_kernel<__half, &silu<__half>>(T1 *, int)",
        "void activation::act_and_mul_kernel<__half, &silu<__half>>(T1 *, int)",
    ),
    "an enumeration in a namespace without a name": (
        "void (anonymous namespace)::act<__half, ((anonymous namespace)::Kind)2>(int)",
        "void <unnamed>::act<__half, (<unnamed>::Kind)2>(int)",
        "void <unnamed>::act<__half, 2>(int)",
    ),
    "nvprof's long": (
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<long, unsigned long, 4> >(long)",
        "void at::native::reduce_kernel<int=512, int=1, at::native::ReduceOp<__int64, unsigned __int64, int=4>>(int)",
    ),
    "cuDNN": (
        "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true, (cudnnKernelDataType_t)0>(int)",
        "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, (bool)0, (bool)1, (cudnnKernelDataType_t)0>(int)",
        "void cudnn::nchwToNhwcKernel<__half, __half, float, 0, 1, 0>(int)",
        "void ops::nchwToNhwcKernel<__half, __half, float, 0, 1, 0>(int)",
    ),
    "cuFFT": (
        "void vector_fft<64u, EPT<8u>, 2u, (padding_t)0, (layout_t)1, unsigned int, float>(args_t<unsigned>)",
        "void vector_fft<(unsigned int)64, EPT<(unsigned int)8>, (unsigned int)2, (padding_t)0, (layout_t)1, "
        "unsigned int, float>(kernel_arguments_t<T6>)",
        "void vector_fft<64, EPT<8>, 2, 0, 1, unsigned int, float>(kernel_arguments_t<T6>)",
    ),
    "constants as tools of 2020 wrote them": (
        "void at::native::(anonymous namespace)::k<4, true, 2ul, at::detail::Array<char*, 3>, (E)-1>(int)",
        "void at::native::_NV_ANON_NAMESPACE_::k<int=4, bool=1, unsigned long=2, at::detail::Array<char*, int=3>, "
        "E=-1>(int)",
    ),
    "declarators": (
        "void Foo<char const*, void (*)(int, float const&), int (&) [4], unsigned long long, float* const*>(int)",
        "void Foo<const char *, void (*)(int, const float &), int (&)[4], unsigned long long, float *const *>(int)",
    ),
    "qualifiers": ("void k<volatile int, int const volatile*>(int)", "void k<int volatile, const volatile int *>(int)"),
    "constants": (
        "void Foo<std::integral_constant<int, -1>, -1l, (char)97, 3u, true>(int)",
        "void Foo<std::integral_constant<int, (int)-1>, (long)-1, 'a', 0x3, (bool)1>(int)",
    ),
    "nullptr and a function's type": (
        "void Foo<decltype(nullptr), std::function<void (int)> >()",
        "void Foo<std::nullptr_t, std::function<void(int)>>(void)",
    ),
    "a return type with an expression": (
        "std::enable_if<((sizeof (float))>(2)), void>::type kern<float, 3>(float*)",
        "std::enable_if<(sizeof(T1) > 2), void>::type kern<float, (int)3>(T1 *)",
    ),
    "a clone": ("void foo<float>(float*) [clone .kd]", "void foo<float>(T1 *)"),
    "a mangled name": (
        "_ZN12_GLOBAL__N_120softmax_warp_forwardIfffLi10ELb0ELb0EEEvPT0_PKT_iiiPKbib",
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>(float*, int)",
        "void <unnamed>::softmax_warp_forward<float, float, float, 10, 0, 0>(T2 *, const T1 *, int)",
    ),
    "an operator": ("void k<a::operator< <int>(int)::T>(int)", "void k<bool a::operator< <int>(T1)::T>(int)"),
}

DISTINCT = (
    "void f<float>(float*)",
    "void f<double>(double*)",
    "void f<float*>(float*)",
    "void f<float const*>(float*)",
    "void f<float* const>(float*)",
    "void f<float&>(float*)",
    "void f<unsigned int>(int)",
    "void f<int>(int)",
    "void f<unsigned long>(int)",
    "void f<unsigned long long>(int)",
    "void f<signed char>(int)",
    "void f<4>(int)",
    "void f<-4>(int)",
    "void f<44>(int)",
    "void f<4, 4>(int)",
    "void f<g<4>, 4>(int)",
    "void f<g<4, 4> >(int)",
    "void f<void (int)>(int)",
    "void f<void (*)(int)>(int)",
    "void f<int [4]>(int)",
    "void f<run()::{lambda(float)#1}>(int)",
    "void f<run()::{lambda(float)#2}>(int)",
    "void f<run()::{lambda(double)#1}>(int)",
    "void f<walk()::{lambda(float)#1}>(int)",
    "void f<run<int>()::{lambda(float)#1}>(int)",
    "void f<run()::{lambda()#1}::operator()() const::{lambda(float)#1}>(int)",
    "void f<run()::{lambda()#2}::operator()() const::{lambda(float)#1}>(int)",
    "void f<Policy<int>::Small>(int)",
    "void f<Policy<int>::Large>(int)",
    "void g<float>(float*)",
    "f",
    "triton_poi_fused_add_0",
    "triton_poi_fused_add_1",
    "loop_add_fusion.2",
    "Cijk_Ailk_Bljk_HHS_BH_MT64x64x64",
    "[CUDA graph 1]",
    "[CUDA graph 2]",
)


@pytest.fixture(scope="module")
def truth() -> list[dict[str, str]]:
    """Kernels of one program as three tools spell them, and whether each used tensor cores."""
    with recorded("ops/truth.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def mangled(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """Mangled names and what Nsight Systems made of them."""
    pairs: set[tuple[str, str]] = set()
    for name in ("ops/ops", "nsys/vim_tiny_fp32_bs4", "nsys/gpt_small_ctx256"):
        file = tmp_path_factory.mktemp("mangled") / "export.sqlite"
        file.write_bytes(gzip.decompress(recorded(f"{name}.sqlite.gz").read_bytes()))
        connection = sqlite3.connect(file)
        pairs.update(
            connection.execute(
                "SELECT DISTINCT m.value, d.value FROM CUPTI_ACTIVITY_KIND_KERNEL k"
                " JOIN StringIds m ON m.id = k.mangledName JOIN StringIds d ON d.id = k.demangledName"
            ).fetchall()
        )
        connection.close()
    return sorted(pair for pair in pairs if pair[0].startswith("_Z"))


def test_three_tools_spell_one_function(truth: list[dict[str, str]]) -> None:
    keys = [{key(row[tool]) for tool in TOOLS} for row in truth]
    assert all(len(found) == 1 for found in keys)
    assert len(set.union(*keys)) == len(truth)  # and no two functions share a key
    assert len(truth) >= 26


@pytest.mark.parametrize("spellings", SPELLINGS.values(), ids=SPELLINGS)
def test_spellings_of_other_libraries(spellings: tuple[str, ...]) -> None:
    assert {key(name) for name in spellings} == {key(spellings[0])}


def test_different_functions_have_different_keys() -> None:
    assert len({key(name) for name in DISTINCT}) == len(DISTINCT)


@pytest.mark.parametrize(
    "name", ["_layer_norm_fwd_1pass_kernel", "fusion", "Cijk_Ailk_SB_MT32x32", "loop_fusion.2", ""]
)
def test_names_without_cxx_are_their_own_key(name: str) -> None:
    assert key(name) == name
    assert function_name(name).bare


def test_kernels_of_whole_programs(recording: Recording) -> None:
    vim = trace_kernel_keys(recording(VIM))
    assert len(vim) == 20
    assert nsys_kernel_keys(recorded("nsys/vim_tiny_fp32_bs4.sqlite.gz")) == vim
    assert trace_kernel_keys(recording("ncu/vim_full_raw.csv.gz")) < vim
    gpt = trace_kernel_keys(recording(GPT))
    assert nsys_kernel_keys(recorded("nsys/gpt_small_ctx256.sqlite.gz")) < gpt  # one more outside its window
    assert len(gpt) == 42


def test_parameters_name_what_they_refer_to() -> None:
    cupti = function_name("void f<float, a::Big<int> >(float*, a::Big<int> const&, int)")
    nsys = function_name("void f<float, a::Big<int>>(T1 *, const T2 &, int)")
    assert cupti.parameters == nsys.parameters == ("float*", "const Big<int>&", "int")
    assert function_name("void f<float>()").parameters == ()
    assert function_name("f<float>").parameters is None
    assert cupti.base == "f"


def test_words_keep_the_namespaces() -> None:
    assert scoped_words("void a::b::f<c::D<int> >(int)") == ("a", "b", "f", "c", "D", "int")
    assert scoped_words("void a::<unnamed>::f<int>(int)") == ("a", "f", "int")


def test_names_that_were_left_mangled(mangled: list[tuple[str, str]]) -> None:
    assert len(mangled) > 50
    for name, demangled in mangled:
        assert key(name) == key(demangled), name
        assert short_name(name) == short_name(demangled)
        assert category(name) == category(demangled)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("_Z3fooIiEvT_", "foo<int>(int)"),
        ("_ZL6kernelPKfPf", "kernel(float const*, float*)"),
        ("_ZN1a1bILNS_1EE3EEEvv", "a::b<3>()"),
        ("_Z1fILin1ELb1EEvv", "f<-1, 1>()"),
        ("_Z4kernIZ4mainEUlfE0_EvT_", "kern<main::{lambda(float)#2} >(main::{lambda(float)#2})"),
        ("_Z1fIJifdEEvDpT_", "f<int, float, double>(int, float, double)"),
        ("_Z1fPFvifE", "f(void (*)(int, float))"),
        ("_Z1fRA4_i", "f(int (&)[4])"),
        ("_Z1fM1Ai", "f(int A::*)"),
        ("_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int, std::allocator<int> >::push_back(int&&)"),
        ("_Z3fooi.kd", "foo(int)"),
        ("_Z3fo", None),
        ("_ZN1a", None),
        ("_Z1fS9_", None),
        ("foo", None),
    ],
)
def test_mangled_names(name: str, expected: str | None) -> None:
    text = demangle(name)
    assert text == expected or key(text or "") == key(expected or ""), text


HOSTILE = (
    "a<" * 10_000, "(" * 20_000, ")" * 20_000, "<" * 20_000, "a<b," * 5_000, "[{" * 9_000, "'lambda'(" * 2_000,
    "::" * 9_000, "operator" * 2_500, "foo(int" * 3_000, "T1 " * 7_000, "a<1" * 5_000 + ">" * 5_000, "&" * 20_000,
    "void f<" + "T1," * 6_000 + "g<" + "x" * 6_000 + ">::[lambda(" + "T1," * 3_000 + "int) (instance 1)]>(int)",
    "_Z" + "P" * 20_000, "_Z" + "Z" * 20_000, "_Z1fI" + "J" * 20_000, "_Z1f" + "N" * 9_999, "_Z1fIX" + "nt" * 9_999,
    "_Z1f" + "A1_" * 5_000, "_Z1a" + "B1a" * 5_000, "_ZN1aE" + "P1b" + "FvS_S_E" * 2_000,
    "_Z1f3foo" + "".join(f"St4pairIS{n}_S{n}_E" for n in "_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[1:]),
    "\x00<\ud800>", "'" * 9_000, '"' * 9_000, "void operator<", "0x" + "f" * 9_000 + "<", "f<" + "9" * 9_000 + ">",
)  # fmt: skip


STEPS_PER_CHARACTER = 300
"""Lines of Python that a character may take; a template's argument repeated by references takes 206."""


def steps(work: Callable[[], object]) -> int:
    """How many lines of Python some work runs through, however fast the machine is."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> TraceFunction:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:12]))
def test_any_text_is_read_in_linear_time(text: str) -> None:
    begin = time.thread_time()  # what runs beside this takes no part in it
    found = function_name(text)
    scoped_words(text)
    assert time.thread_time() - begin < 1.5, "regular expressions and copies are no lines of Python"
    assert len(found.key) < 1_000_000
    function_name.cache_clear()
    assert steps(lambda: (function_name(text), scoped_words(text))) < STEPS_PER_CHARACTER * len(text)


def test_damaged_names_are_read(truth: list[dict[str, str]]) -> None:
    chance = random.Random(7)
    names = [row[tool] for row in truth for tool in TOOLS]
    for _ in range(1500):
        letters = list(chance.choice(names))
        for _ in range(chance.randint(1, 5)):
            place = chance.randrange(len(letters))
            if chance.random() < 0.5:
                letters[place] = chance.choice("<>(){}[]:,&* #T1\"'~-=x")
            elif len(letters) > 40:
                del letters[place : place + chance.randint(1, 30)]
        assert isinstance(key("".join(letters)), str)


def test_a_name_cut_short_is_said_to_be() -> None:
    found = function_name("void at::native::vectorized_elementwise_kernel<4, at::nat")
    assert found.cut
    assert found.base == "vectorized_elementwise_kernel"
    assert not function_name("void f<int>(int)").cut
