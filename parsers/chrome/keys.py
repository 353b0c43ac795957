"""The JSON keys that are read, and a perfect hash that finds them among all strings of a chunk in one go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOP_LEVEL = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "id")
ARGUMENTS = (
    "correlation", "External id", "external id", "Sequence number", "Python module id",
    "device", "stream", "context", "registers per thread", "shared memory", "blocks per SM",
    "est. achieved occupancy %", "bytes", "grid", "block", "Input Dims", "Input type", "Call stack",
    "Addr", "Bytes", "Total Allocated", "Total Reserved", "Device Id", "Device Type",
    "correlation_id", "graph node id", "cuda_graph_node_id",
    "hlo_op", "hlo_module", "tf_op", "step_num", "kernel_details", "memcpy_details", "Memset_details",
    "memset_details", "context_id", "size",
    "Collective name", "In msg nelems", "Out msg nelems", "Group size", "dtype", "In split size", "Out split size",
    "Process Group Name", "Process Group Description", "Process Group Ranks", "Seq", "Src Rank", "Dst Rank",
    "Concrete Inputs",
)  # fmt: skip
ARGS = "args"
ALL = (*TOP_LEVEL, ARGS, *ARGUMENTS)

PREFIX, TAIL = 4, 8
"""How many bytes of a key are compared at its start, and at its end including the quote and the colon."""
CLOSING = len('":')
_SLOT_BITS = 12
_SHIFT = np.uint32(32 - _SLOT_BITS)


def _little_endian(text: bytes) -> int:
    return int.from_bytes(text, "little")


class KeyTable:
    """Groups strings by their first four bytes (which tell nearly all keys apart) and compares the rest after."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._full: dict[str, tuple[np.uint64, np.uint64, int]] = {}
        self._tails: dict[str, np.uint64] = {}
        prefixes: dict[int, int] = {}
        self._code: dict[str, int] = {}
        for name in names:
            text = name.encode() + b'":'  # a key shorter than four bytes is compared with its closing bytes
            prefix = _little_endian(text[:4])
            self._code[name] = prefixes.setdefault(prefix, len(prefixes) + 1)
            head = text[:8]
            self._tails[name] = np.uint64(_little_endian(text[-8:]))
            self._full[name] = (np.uint64(_little_endian(head)), np.uint64((1 << 8 * len(head)) - 1), len(name))
        self.codes = len(prefixes) + 1
        self._multiplier = self._perfect_multiplier(list(prefixes))
        self._slots = np.zeros(1 << _SLOT_BITS, np.uint8)
        self._prefix = np.zeros(256, np.uint32)
        for prefix, code in prefixes.items():
            self._slots[(prefix * int(self._multiplier) & 0xFFFFFFFF) >> int(_SHIFT)] = code
            self._prefix[code] = prefix

    @staticmethod
    def _perfect_multiplier(prefixes: list[int]) -> np.uint32:
        """A factor that sends every prefix to a slot of its own."""
        for factor in range(0x9E3779B1, 0x9E3779B1 + 2_000_000, 2):
            if len({(prefix * factor & 0xFFFFFFFF) >> int(_SHIFT) for prefix in prefixes}) == len(prefixes):
                multiplier: np.uint32 = np.uint32(factor & 0xFFFFFFFF)
                return multiplier
        raise AssertionError("no perfect hash for the key table")

    def classify(self, first4: NDArray[np.uint32]) -> NDArray[np.uint8]:
        """The code of each string by its first four bytes, 0 where no key begins so."""
        slot = (first4 * self._multiplier) >> _SHIFT
        code: NDArray[np.uint8] = self._slots[slot]
        code *= self._prefix[code] == first4
        return code

    def code(self, name: str) -> int:
        """The code of the group that holds this key's strings."""
        return self._code[name]

    @staticmethod
    def is_told_by_prefix(name: str) -> bool:
        """Whether the four bytes that `classify` compares hold the whole key, its closing quote and the colon."""
        return len(name) + CLOSING <= PREFIX

    def matches(self, name: str, words: NDArray[np.uint64], begin: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which strings of a group are this key, compared by its bytes, closing quote and colon."""
        head, mask, size = self._full[name]
        same: NDArray[np.bool_]
        if size + CLOSING <= TAIL:
            same = (words[begin] & mask) == head
            return same
        # the first four bytes are known to match; these are the last six, the quote and the colon
        same = words[begin + (size + CLOSING - TAIL)] == self._tails[name]
        if size + CLOSING > PREFIX + TAIL:
            same &= (words[begin] & mask) == head
        return same


TABLE = KeyTable(ALL)


class Vocabulary:
    """Maps strings of a chunk to the position of the known word they are, or -1."""

    _MIX_HEAD, _MIX_TAIL = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)

    def __init__(self, words: tuple[str, ...]) -> None:
        signatures = np.array([self._signature_of(word.encode()) for word in words], np.uint64)
        self._order = np.argsort(signatures)
        self._signatures = signatures[self._order]
        if np.unique(signatures).size != len(words):
            raise AssertionError("two words of a vocabulary look alike")

    @classmethod
    def _signature_of(cls, word: bytes) -> int:
        padded = np.frombuffer(word + bytes(16), np.uint8)
        view = np.ndarray((padded.size - 8,), "<u8", padded, 0, (1,))
        return int(cls._signatures_at(view, np.zeros(1, np.int64), np.array([len(word)]))[0])

    @classmethod
    def _signatures_at(
        cls, words: NDArray[np.uint64], begin: NDArray[np.int64], length: NDArray[np.int64]
    ) -> NDArray[np.uint64]:
        """Length, first eight and last eight bytes of each string, mixed."""
        short = np.minimum(length, 8).astype(np.uint64) << np.uint64(3)
        head = words[begin] << (np.uint64(64) - short)
        tail = words[begin + np.maximum(length - 8, 0)] << (np.uint64(64) - short)
        mixed: NDArray[np.uint64] = (head * cls._MIX_HEAD) ^ (tail * cls._MIX_TAIL) ^ length.astype(np.uint64)
        return mixed

    def lookup(
        self, words: NDArray[np.uint64], begin: NDArray[np.int64], length: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The position of each string's word, or -1."""
        signature = self._signatures_at(words, begin, length)
        at = np.minimum(np.searchsorted(self._signatures, signature), self._signatures.size - 1)
        return np.where(self._signatures[at] == signature, self._order[at], -1)
