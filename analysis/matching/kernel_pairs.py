"""Which kernel of one run is which of another, by their names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tracetui.analysis.matching.join import closest
from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.kernel_key import function_name

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

_ELEMENT_TYPES = re.compile(
    r"\b(?:(?:un)?signed |long )*(?:float|double|int|long|short|char|bool|__half2?|half_?t?|Half|__nv_bfloat16\w*|"
    r"BFloat16|bfloat16_t|tfloat32_t|Float8_\w+|__nv_fp8_\w+|float_\w+_t|complex<[^<>]*>|"
    r"OpaqueType<\w+>)(?![\w<])"
)
_VECTOR_WIDTH = re.compile(r"(\bvectorized_elementwise_kernel<)\d+,")
"""PyTorch loads 16 bytes at once, so the number of elements follows from their type."""
_LAMBDA_NUMBER = re.compile(r"#\d+")


def pairs(a: Iterable[str], b: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Maps names of run B to the same kernel's name in run A and to how it was found; each name is used at most once.

    ``name``: spelled alike. ``key``: one function in the spellings of two tools. ``types``: base name and category are
    equal, and template arguments differ in element types only, such as float and Half, OpaqueType<4> and
    OpaqueType<2> (and in what follows from the type: the numbers of lambdas that functions choose by type, and how many
    elements PyTorch's elementwise kernels load at once); used only where both runs have exactly one such kernel.
    """
    left, right = dict.fromkeys(a), dict.fromkeys(b)
    found = {name: (name, "name") for name in right if name in left}

    def rest(of: dict[str, None], taken: set[str]) -> list[str]:
        return [name for name in of if name not in taken]

    def add(how: str, sort_of: Callable[[str], Hashable | None], *, refine: bool) -> None:
        groups: dict[Hashable, tuple[list[str], list[str]]] = {}
        for side, names in enumerate((rest(left, {other for other, _ in found.values()}), rest(right, set(found)))):
            for name in names:
                if (sort := sort_of(name)) is not None:
                    groups.setdefault(sort, ([], []))[side].append(name)
        for ours, theirs in groups.values():
            if len(ours) == len(theirs) == 1:
                found[theirs[0]] = (ours[0], how)
            elif refine and ours:
                chosen = {name: closest(name, list(range(len(ours))), ours) for name in theirs}
                single = [candidates[0] for candidates in chosen.values() if len(candidates) == 1]
                for name, candidates in chosen.items():
                    if len(candidates) == 1 and single.count(candidates[0]) == 1:
                        found[name] = (ours[candidates[0]], how)

    add("key", lambda name: function_name(name).key, refine=True)
    add("types", _without_types, refine=False)
    return found


def _without_types(name: str) -> tuple[str, str, str] | None:
    """A name without its element types; null for one without template arguments."""
    parts = function_name(name)
    if "<" not in parts.key:
        return None
    key = _VECTOR_WIDTH.sub(r"\1·,", _ELEMENT_TYPES.sub("·", parts.key))
    return parts.base, kernel_names.category(name), _LAMBDA_NUMBER.sub("#", key)
