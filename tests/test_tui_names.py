"""Kernels with one short name are told apart by what differs in their templates."""

from __future__ import annotations

import polars as pl

from tracetui.app.text.names import differences, tell_apart

SCAN = "void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<32, 8, 1, {}, float> >(SSMParamsBase)"


def test_element_types_tell_instances_apart() -> None:
    assert differences([SCAN.format("c10::Half"), SCAN.format("float")]) == ["fp16", "fp32"]


def test_as_little_is_said_as_tells_all_apart() -> None:
    engine = "void wgrad_alg0_engine<float, 128, {}, 3, false>(int)"
    assert differences([engine.format(text) for text in ("5, 5", "6, 7", "6, 8")]) == ["5", "6,7", "6,8"]


def test_the_kind_of_loop_tells_elementwise_kernels_apart() -> None:
    names = [
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3> >",
        "void at::native::elementwise_kernel<128, 2, gpu_kernel_impl<at::native::CUDAFunctor_add<float> > >",
    ]
    assert differences(names) == ["vectorized", "128"]


def test_only_names_that_are_shared_get_an_ending() -> None:
    names = [SCAN.format("c10::Half"), SCAN.format("float"), "void copy_kernel<int>(int)"]
    frame = pl.DataFrame({"name": names, "short_name": ["scan<a>", "scan<a>", "copy_kernel"]})
    assert tell_apart(frame)["short_name"].to_list() == ["scan<a,fp16>", "scan<a,fp32>", "copy_kernel"]
    assert tell_apart(frame.head(1)).equals(frame.head(1))


def test_names_that_differ_in_nothing_readable_stay() -> None:
    frame = pl.DataFrame({"name": ["k<*>()", "k<&>()"], "short_name": ["k", "k"]})
    assert tell_apart(frame)["short_name"].to_list() == ["k", "k"]
