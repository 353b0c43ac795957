"""What collectives are called: by c10d, by the ranges around them and by their kernels, as one kind each."""

from __future__ import annotations

import re

KINDS = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "send",
    "recv",
    "send_recv",  # a kernel of NCCL that sends, receives or does both: its name says no more
    "barrier",
)
"""Every kind of collective, as c10d spells them; sends and receives are among them."""

KERNEL = r"(?i)^nccl|ncclKernel|ncclDevKernel|rccl"
"""Kernels of NCCL and RCCL."""
PARAMETERS = "record_param_comms"
"""The operator with which PyTorch says what a collective is."""
RANGE = r"^(?:nccl|gloo|mpi|ucc|xccl|hccl):"
"""Ranges that PyTorch opens around a collective, by its backend."""
ON_HOST = r"^(?:gloo|mpi):"
"""Those of backends that communicate while the range is open."""
NCCL = "nccl:"
"""What ranges of PyTorch's NCCL backend begin with."""
CALL = "^nccl[A-Z]"
"""Ranges that NCCL opens around its own functions."""
COALESCED = "coalesced"
MOST_RANKS, MOST_ELEMENTS = 1 << 24, 1 << 36
"""More ranks or elements than these are damage."""

_LIBRARY = re.compile(r"^(?:(?:nccl|gloo|mpi|ucc|xccl|hccl|_?c10d(?:_functional)?):+|nccl)")
_COLLECTIVE = re.compile(r"^nccl|ncclKernel|ncclDevKernel|rccl|^(hccl|hcom_|SenRdma)", re.IGNORECASE)
_HOST_COLLECTIVE = re.compile(r"^(gloo|mpi|ucc|ccl):")
_NO_LETTER = re.compile(r"[^a-z]")
_NAMED = (
    ("reducescatter", "reduce_scatter"),
    ("allreduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("alltoall", "all_to_all"),
    ("broadcast", "broadcast"),
    ("bcast", "broadcast"),
    ("barrier", "barrier"),
    ("scatter", "scatter"),
    ("gather", "gather"),
    ("reduce", "reduce"),
    ("sendrecv", "send_recv"),
)
_PEER = re.compile(r"\d\s*(?:->|<-)\s*(\d{1,9})(?!\d)")

_ELEMENT_TYPES: dict[str, tuple[str, int]] = {
    "float": ("fp32", 4), "double": ("fp64", 8), "half": ("fp16", 2), "bfloat16": ("bf16", 2),
    "byte": ("uint8", 1), "unsigned char": ("uint8", 1), "char": ("int8", 1), "signed char": ("int8", 1),
    "short": ("int16", 2), "short int": ("int16", 2), "int": ("int32", 4), "long": ("int64", 8),
    "long int": ("int64", 8), "bool": ("bool", 1), "uint16": ("uint16", 2), "uint32": ("uint32", 4),
    "uint64": ("uint64", 8), "complexfloat": ("complex64", 8), "complexdouble": ("complex128", 16),
    "c10::complex<float>": ("complex64", 8), "c10::complex<double>": ("complex128", 16),
    "float8_e4m3fn": ("fp8_e4m3fn", 1), "float8_e5m2": ("fp8_e5m2", 1), "float8_e4m3fnuz": ("fp8_e4m3fnuz", 1),
    "float8_e5m2fnuz": ("fp8_e5m2fnuz", 1),
}  # fmt: skip

BYTES = dict(_ELEMENT_TYPES.values())
"""Size of each element type by its name in the tables."""


def is_host_collective(name: str) -> bool:
    """Whether a host event is a collective of a library that exchanges memory of the host: ``gloo:all_reduce``."""
    return _HOST_COLLECTIVE.search(name) is not None


def is_collective_kernel(name: str) -> bool:
    """Whether a kernel belongs to NCCL, RCCL or HCCL, or is the exchange of a collective of IBM's AIU."""
    return _COLLECTIVE.search(name) is not None


def kind_of(said: str) -> str | None:
    """The kind of what c10d, a range or NCCL calls so; None of what is no collective, as a wait."""
    letters = _NO_LETTER.sub("", _LIBRARY.sub("", said.lower()))
    for word, kind in _NAMED:
        if word in letters:
            return kind
    return next((kind for kind in ("send", "recv") if letters.startswith(kind)), None)


def kernel_kind(name: str) -> str | None:
    """The kind of collective that a kernel of NCCL or RCCL computes; None where its name does not say."""
    return kind_of(re.split(r"[<(]", name, maxsplit=1)[0])


def peer_of(said: str) -> int | None:
    """The other rank of a send or receive that is called so (``send 0->1``)."""
    found = _PEER.search(said)
    return int(found[1]) if found else None


def element_type(said: str) -> tuple[str, int | None]:
    """The name of an element type as the tables have it, and its size in bytes; as it is where it is not known."""
    return _ELEMENT_TYPES.get(said.lower().removeprefix("c10::"), _ELEMENT_TYPES.get(said.lower(), (said, None)))
