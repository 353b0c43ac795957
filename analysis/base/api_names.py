"""Names of calls into the runtimes and drivers of GPUs: whose they are, without their variants, and which wait."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache

_VERSION = re.compile(r"_v\d{4,5}$")
"""What CUPTI adds to tell the version that the function's parameters have: ``cudaMemcpy_v3020``."""
_VARIANT = re.compile(r"(_v\d|_ptds|_ptsz|_spt)$")
"""A later form of a driver's function, and those that mean each thread's own default stream."""
_WAITS = re.compile(
    r"^(cuda|cu|hip)\w*Synchronize"
    # copies that may return once they are done; only those called Async never promise it
    r"|^(cuda|hip)Memcpy(2D|3D)?((To|From)?(Array|Symbol)|ArrayToArray|Peer|DtoH|HtoD|DtoD|AtoH|HtoA|DtoA|AtoD|AtoA)*$"
    r"|^cuMemcpy(2D|3D)?(Unaligned|Peer|DtoH|HtoD|DtoD|AtoH|HtoA|DtoA|AtoD|AtoA)*$"
    r"|^hipMemcpyWithStream$|^(hip|cuda)MemcpyParam2D$"
    # the memory must not be in use any more
    r"|^(cuda|hip)Free$|^cuMemFree$"
    r"|^hsa_signal_wait\w*$|^hsa_amd_memory_async_copy_wait$"
)
_FILLS = re.compile(r"^(cuda|hip)Memset(2D|3D|D8|D16|D32)?$|^cuMemset(D8|D16|D32|D2D8|D2D16|D2D32)$")
_DEVICE_WIDE = re.compile(r"(Device|Ctx|Thread)Synchronize$|^(cuda|hip)Free$|^cuMemFree$")
_COPIES = re.compile(r"[Mm]emcpy|^hsa_amd_memory_async_copy")
_STREAM_WAITS = re.compile(r"^(cuda|cu|hip)StreamWaitEvent$")


_RUNTIMES = (
    ("CUDA", re.compile(r"^(cuda|cu)[A-Z]|^cu(da)?_")),
    ("HIP", re.compile(r"^hip[A-Z]|^hsa_")),
    ("SYCL", re.compile(r"^(ur|pi)[A-Z]")),
    ("Level Zero", re.compile(r"^ze[A-Z]")),
    ("CANN", re.compile(r"^acl[A-Za-z]|^rt[A-Z]")),
)
"""Whose functions begin so."""

READS_A_VALUE = ("aten::item", "aten::is_nonzero", "aten::_local_scalar_dense")
"""Operators that bring a value to the host, once the GPU has done what it waits for."""


def runtime(names: Iterable[str | None]) -> str:
    """The runtime that most of these calls belong to: ``CUDA``, ``HIP``; empty where no name tells."""
    found = Counter(of for name in filter(None, names) for of, pattern in _RUNTIMES if pattern.search(name))
    return found.most_common(1)[0][0] if found else ""


@cache
def plain(name: str) -> str:
    """The function without its version and variant: ``cudaMemcpyAsync`` of ``cudaMemcpyAsync_ptsz_v7000``."""
    name = _VERSION.sub("", name)
    while (shorter := _VARIANT.sub("", name)) != name:
        name = shorter
    return name


def waits(name: str) -> bool:
    """Whether the call returns only once the GPU has done what it waits for.

    Not so `fills`: CUDA runs those of device memory beside the host, whatever their name.
    """
    return _WAITS.search(plain(name)) is not None


def fills(name: str) -> bool:
    """Whether the call fills memory and, by its name, waits for it: true of memory of the host only."""
    return _FILLS.search(plain(name)) is not None


def copies(name: str) -> bool:
    """Whether the call copies memory, at once or later."""
    return _COPIES.search(plain(name)) is not None


def waits_for_all(name: str) -> bool:
    """Whether the call waits for all streams."""
    return _DEVICE_WIDE.search(plain(name)) is not None


def makes_stream_wait(name: str) -> bool:
    """Whether the call lets a stream wait for an event."""
    return _STREAM_WAITS.search(plain(name)) is not None
