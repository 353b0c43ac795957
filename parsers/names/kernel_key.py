"""Computes one key for a kernel's name, however a tool spells it.

CUPTI (so torch.profiler) demangles as libiberty does: ``f<true, 4u, float const*>(float const*)``; Nsight Systems
writes ``f<(bool)1, (unsigned int)4, const float *>(T3)`` and Nsight Compute ``f<1, 4, const float *>(T3)`` with some
namespaces left out. The key keeps what all of them have: the function's own name, its template arguments, and the
functions and lambdas that contain local types. It has no return type, parameter list or namespace, and one spelling
for types, constants and lambdas (`cxx_forms`).
"""

from __future__ import annotations

import re
from functools import lru_cache, partial

from msgspec import Struct

from tracetui.parsers.names.cxx_forms import function, normal
from tracetui.parsers.names.cxx_groups import read
from tracetui.parsers.names.itanium import demangle

_CACHE = 1 << 16
_CLONE = re.compile(r"(?:\s*\[clone [^\]]*\])+\s*$|\.kd$")
_WITHOUT_NAME = ("_NV_ANON_NAMESPACE_", "_INTERNAL_", "_GLOBAL__N_")
"""Compilers' names for namespaces that are anonymous or local to a file."""
_WORD = re.compile(r"[^\W\d]\w*")


class FunctionName(Struct, frozen=True):
    """A kernel's name taken apart."""

    key: str
    """The key, which is equal for all spellings of one function; the module's docstring defines it."""
    base: str
    """The function's own name, as ``ncu --kernel-name-base function`` prints it."""
    bare: bool
    """Whether only a name was given: no template arguments, parameters or namespaces."""
    cut: bool
    """Whether a bracket was left open, so that the end of the name is missing."""
    parameters: tuple[str, ...] | None = None
    """The types of its parameters in their normal form, references to template arguments resolved; null if not
    written."""


def key(name: str) -> str:
    """The normal form of a kernel's name, equal for the spellings that different tools use for one function.

    Text that is not a C++ name (Triton, assembly kernels, ``[CUDA graph 1]``) is its own key. Functions that differ
    only in namespaces or parameter lists share a key; `function_name` tells them apart.
    """
    return function_name(name).key


@lru_cache(_CACHE)
def function_name(name: str) -> FunctionName:
    """Takes a kernel's name apart; never fails, whatever the text is."""
    text = _text(name)
    if not any(mark in text for mark in ("<", "(", "::", "[", "{")) or text.startswith("["):
        return FunctionName(text, text, bare=True, cut=False)
    items, cut = read(text, partial(normal, spaces=False))
    found = function(items, spaces=False)
    if found is None:
        plain = "".join(text.split())
        return FunctionName(plain, plain, bare=False, cut=cut)
    parameters = None
    if found.parameters is not None:
        parameters = tuple(found.resolve(part) for part in found.parameters.parts if part != "void")
    return FunctionName(found.text(), found.parts[-1].own, bare=False, cut=cut, parameters=parameters)


@lru_cache(_CACHE)
def scoped_words(name: str) -> tuple[str, ...]:
    """The words of a kernel's qualified name and template arguments, in order, including named namespaces.

    If two functions share a key, a spelling without namespaces has a subsequence of the words of its own function.
    """
    items, _ = read(_text(name), partial(normal, spaces=True))
    found = function(items, spaces=True)
    if found is None:
        return (name,)
    return tuple(word for word in _WORD.findall(found.text()) if not word.startswith(_WITHOUT_NAME))


def _text(name: str) -> str:
    text = _CLONE.sub("", name.strip())
    if text.startswith(("_Z", "__Z")):
        return demangle(text) or text
    return text
