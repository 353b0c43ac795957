"""Computes one key for a kernel's name, however a tool spells it.

CUPTI (so torch.profiler) demangles as libiberty does: ``f<true, 4u, float const*>(float const*)``; Nsight Systems
writes ``f<(bool)1, (unsigned int)4, const float *>(T3)`` and Nsight Compute ``f<1, 4, const float *>(T3)`` with some
namespaces left out. The key keeps what all of them have: the function's own name, its template arguments, and the
functions and lambdas that contain local types. It has no return type, parameter list or namespace, and one spelling
for types, constants and lambdas.

Each bracketed group is reduced to the normal form of its parts when it closes. This takes one pass and no recursion, so
that any text of any depth is read in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial

from msgspec import Struct, field

from tracetui.parsers.names.itanium import demangle

_DEEPEST = 200
"""The most nested groups; no name is so deep, and deeper text is treated as plain text."""
ANONYMOUS = "<unnamed>"
"""The normal form of an anonymous namespace, however a tool writes it."""
_TOKEN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<anonymous>\(anonymous\ (?:namespace|class)\)|<unnamed>|\{anonymous\}|`anonymous[- ]namespace')
    | (?P<operator>operator\s*(?:\(\s*\)|\[\s*\]|<=>|->\*?|<<=?|>>=?|&&|\|\||\+\+|--|[-+*/%^&|=!<>]=?|[~,]))
    | (?P<closure>'(?:lambda|unnamed)\d{0,6}')
    | (?P<letter>'(?:\\.|[^'\\])')
    | (?P<word>auto:\d+|(?:[^\W\d]|\$)[\w$]*(?:\.\w[\w$]*)*)
    | (?P<number>\d(?:\w|\.(?!\.)|(?<=[eEpP])[+-](?=\d))*)
    | (?P<mark>::|->|&&|\.\.\.|.)
    """,
    re.VERBOSE | re.DOTALL,
)
"""`auto:1` is how libiberty writes the type of a generic lambda's parameter."""
_OPENS = frozenset("(<[{")
_NEVER_TEMPLATES = frozenset({"const", "volatile", "true", "false", "nullptr"})
CLOSES = {")": "(", ">": "<", "]": "[", "}": "{"}


class Group(Struct, eq=False):
    """A bracketed group."""

    kind: str
    """The bracket that opens the group."""
    items: list[str | Group] = field(default_factory=list)
    parts: tuple[str, ...] = ()
    """The parts between its commas, in normal form, once the group is closed."""


def read(text: str, normal: Callable[[list[str | Group]], str]) -> tuple[list[str | Group], bool]:
    """The tokens of a text with its bracketed groups reduced, and whether a group was left open.

    Args:
        text: a name, or any text.
        normal: returns the normal form of the items between two commas of a group.
    """
    outer = Group("")
    open_groups = [outer]
    kinds = dict.fromkeys(_OPENS, 0)

    def close() -> None:
        group = open_groups.pop()
        kinds[group.kind] -= 1
        group.parts = tuple(filter(None, (normal(part) for part in _split(group.items))))

    for match in _TOKEN.finditer(text):
        token, kind = match.group(), match.lastgroup
        group = open_groups[-1]
        if kind == "space":
            continue
        if kind == "operator":
            group.items.append("".join(token.split()))
        elif kind == "mark" and token in _OPENS and (token != "<" or _takes_arguments(group.items)):
            if len(open_groups) > _DEEPEST:
                return [], True
            inner = Group(token)
            group.items.append(inner)
            open_groups.append(inner)
            kinds[token] += 1
        elif kind == "mark" and token in CLOSES and (group.kind == CLOSES[token] or token != ">"):
            if kinds[CLOSES[token]]:  # else it closes nothing
                while open_groups[-1].kind != CLOSES[token]:
                    close()
                close()
        else:
            group.items.append(ANONYMOUS if kind == "anonymous" else token)
    cut = len(open_groups) > 1
    while len(open_groups) > 1:
        close()
    return outer.items, cut


def _takes_arguments(items: list[str | Group]) -> bool:
    """Whether a ``<`` after these items opens a list of template arguments; else it means "less than"."""
    if not items:
        return False
    last = items[-1]
    if isinstance(last, Group):
        return last.kind == "["  # a tag, f[abi:cxx11]<int>, or a lambda
    return (last[0].isalpha() or last[0] in "_$'") and last not in _NEVER_TEMPLATES


def _split(items: list[str | Group]) -> list[list[str | Group]]:
    parts: list[list[str | Group]] = [[]]
    for item in items:
        if item == ",":
            parts.append([])
        else:
            parts[-1].append(item)
    return parts


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_QUALIFIERS = frozenset({"const", "volatile"})
_IGNORED = _words(
    """restrict __restrict __restrict__ class struct enum union typename static inline extern noexcept
    __cdecl __stdcall __global__ __device__ __host__"""
)
_WITH_BRACKETS = _words("decltype __attribute__ alignas requires typeof noexcept __launch_bounds__")
_FUNDAMENTAL = _words(
    """void bool char wchar_t char8_t char16_t char32_t short int long signed unsigned float double __int128 __int64
    __float128 _Float16"""
)
_ALIASES = {
    "size_t": "unsigned long",
    "ptrdiff_t": "long",
    "int8_t": "signed char",
    "uint8_t": "unsigned char",
    "int16_t": "short",
    "uint16_t": "unsigned short",
    "int32_t": "int",
    "uint32_t": "unsigned int",
    "int64_t": "long",
    "uint64_t": "unsigned long",
}
_CONSTANTS = {"true": "1", "false": "0", "nullptr": "0"}
_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)[uUlLzZ]*")
_BACK_REFERENCE = re.compile(r"\bT(\d+)\b")
_BINARY = _words("+ - / % | ^ ! = < > ? : ==")
_CLOSING = {opening: closing for closing, opening in CLOSES.items()}
_LONGEST_NUMBER = 40
_LONGEST_RESOLVED = 1 << 16


class _Component(Struct):
    """One part of a qualified name."""

    own: str
    arguments: tuple[str, ...] | None = None
    plain: bool = True
    """Whether it may be a namespace: it has no template arguments and is neither a function nor a lambda."""

    def text(self) -> str:
        return self.own if self.arguments is None else f"{self.own}<{','.join(self.arguments)}>"


class Name(Struct):
    """A qualified name."""

    spaces: bool
    """Whether namespaces are kept."""
    parts: list[_Component] = field(default_factory=list)
    parameters: Group | None = None

    def text(self) -> str:
        """The name in normal form; without namespaces, every part that may be one is dropped."""
        last = len(self.parts) - 1
        kept = [part.text() for n, part in enumerate(self.parts) if self.spaces or n == last or not part.plain]
        return "::".join(kept)

    @property
    def arguments(self) -> tuple[str, ...]:
        """Template arguments of the innermost part that has them: what ``T1`` refers to."""
        return next((part.arguments for part in reversed(self.parts) if part.arguments is not None), ())

    def resolve(self, text: str) -> str:
        """The text with its back references replaced by this name's template arguments."""

        def argument(match: re.Match[str]) -> str:
            number = int(match[1]) - 1
            return self.arguments[number] if 0 <= number < len(self.arguments) else match[0]

        references = text.count("T")
        if not references or references * max(map(len, self.arguments), default=0) > _LONGEST_RESOLVED:
            return text
        return _BACK_REFERENCE.sub(argument, text)


def function(items: list[str | Group], *, spaces: bool, kernel: bool = True) -> Name | None:
    """The function that a whole text names: the last name before its parameters; None if the text is not C++.

    Kernels return nothing, or a type computed from template arguments, so a plain word before a kernel's name is not a
    return type.
    """
    name: Name | None = None
    at = 0
    while at < len(items):
        item = items[at]
        if isinstance(item, str) and item in _WITH_BRACKETS and _is_group(items, at + 1, "("):
            at += 2
        elif _begins_name(item):
            found, at = _name(items, at, spaces=spaces)
            if not found.parts or found.text() in _FUNDAMENTAL or found.text() == "auto":
                continue
            if kernel and name is not None and name.parts[0].plain and len(name.parts) == 1:
                return None
            name = found
        elif name is not None and isinstance(item, Group) and item.kind == "(":
            name.parameters = item
            break
        else:
            at += 1
    return name


def _is_group(items: list[str | Group], at: int, kind: str) -> bool:
    if at >= len(items):
        return False
    item = items[at]
    return isinstance(item, Group) and item.kind == kind


def _begins_name(item: str | Group) -> bool:
    if isinstance(item, Group):
        return _closure(item) is not None
    return item == "::" or item == ANONYMOUS or _is_word(item)


def _is_word(item: str | Group) -> bool:
    return (
        isinstance(item, str)
        and (item[0].isalpha() or item[0] in "_$" or item.startswith(("'lambda", "'unnamed")))
        and item not in _QUALIFIERS
        and item not in _IGNORED
        and item not in _CONSTANTS
    )


def _name(items: list[str | Group], at: int, *, spaces: bool) -> tuple[Name, int]:
    """The qualified name that starts at an item, and the item after it.

    A part with a parameter list belongs to the name only if ``::`` follows: what comes next is local to that function.
    A part before ``::*`` is the class of a pointer to member; the name then ends with its ``::``.
    """
    name = Name(spaces)
    while at < len(items):
        item = items[at]
        if item == "::":
            at += 1
            continue
        if item == "~":  # a destructor
            at += 1
            continue
        if item == ANONYMOUS:
            at += 1
        elif isinstance(item, Group):
            closure = _closure(item)
            if closure is None:
                break
            name.parts.append(_Component(name.resolve(closure), plain=False))
            at += 1
        elif _is_word(item):
            own, at = _own(items, at)
            name.parts.append(_Component(own))
        else:
            break
        at = _suffixes(items, at, name)
        if at >= len(items) or items[at] != "::":
            break
    return name, at


def _own(items: list[str | Group], at: int) -> tuple[str, int]:
    """A part's own name: a word, an operator, or the type that a conversion operator returns."""
    word = str(items[at])
    at += 1
    if word.startswith("'"):  # LLVM's demangler: 'lambda' is the first, 'lambda0' the second
        kind = "lambda" if word.startswith("'lambda") else "unnamed"
        number = word.strip("'")[len(kind) :]
        signature = ""
        if kind == "lambda" and _is_group(items, at, "("):
            signature = f"({','.join(_parts(items[at]))})"
            at += 1
        return f"{{{kind}{signature}#{int(number) + 2 if number else 1}}}", at
    if word.startswith("auto:"):  # a generic lambda's parameter
        return "auto", at
    if word == "operator":
        target: list[str | Group] = []
        while at < len(items) and not _is_group(items, at, "("):
            target.append(items[at])
            at += 1
        return f"operator {normal(target, spaces=False)}", at
    return word, at


def _suffixes(items: list[str | Group], at: int, name: Name) -> int:
    """Reads a part's template arguments, tags, and the parameter list of a function that contains something local."""
    part = name.parts[-1] if name.parts else _Component("")
    while at < len(items):
        if _is_group(items, at, "<"):
            part.arguments = _parts(items[at])
            part.plain = False
            at += 1
        elif isinstance(group := items[at], Group) and group.kind == "[" and group.items[:1] in (["abi"], ["clone"]):
            at += 1
        elif _is_group(items, at, "("):
            after = at + 1
            while after < len(items) and items[after] in ("const", "volatile", "&", "&&", "noexcept"):
                after += 1
            if after < len(items) and items[after] == "::" and name.parts:
                part.plain = False
                return after
            return at
        else:
            return at
    return at


def _parts(item: str | Group) -> tuple[str, ...]:
    return item.parts if isinstance(item, Group) else ()


def _closure(group: Group) -> str | None:
    """The normal form of a lambda or of an unnamed type; None for any other group.

    ``{lambda(float)#1}`` and ``[lambda(float) (instance 1)]`` are the same, and so are ``{unnamed type#1}`` and
    ``[unnamed type (instance 1)]``.
    """
    if group.kind not in "[{" or not group.items or group.items[0] not in ("lambda", "unnamed", "default"):
        return None
    number, signature = "1", ""
    for at, item in enumerate(group.items):
        if item == "#" and at + 1 < len(group.items):
            number = str(group.items[at + 1])
        elif isinstance(item, Group) and item.kind == "(":
            if item.items[:1] == ["instance"] and len(item.items) > 1:
                number = str(item.items[1])
            elif group.items[0] == "lambda":
                signature = f"({','.join(part for part in item.parts if part != 'void')})"
    return f"{{{group.items[0]}{signature}#{number}}}"


def normal(items: list[str | Group], *, spaces: bool) -> str:
    """The normal form of one template argument or parameter: a type, a constant, or an expression.

    ``const`` moves before the type it belongs to. Casts of constants are dropped, and so is the return type of a
    function that contains a local type.
    """
    form = _Form()
    at = 0
    while at < len(items):
        item = items[at]
        at += 1
        if _begins_name(item):
            name, at = _name(items, at - 1, spaces=spaces)
            if items[at - 1] == "::":  # int C::*
                form.tail.append(f" {name.text()}::")
            elif name.text() == "decltype" and at < len(items) and _parts(items[at]) == ("0",):
                form.operand("nullptr_t")
                at += 1
            elif name.text() in _FUNDAMENTAL:
                words = [name.text()]
                while at < len(items) and (items[at] in _FUNDAMENTAL or items[at] in _QUALIFIERS):
                    words.append(str(items[at]))
                    at += 1
                form.operand(_fundamental(words))
                form.qualifiers.update(_QUALIFIERS.intersection(words))
            else:
                form.operand(_ALIASES.get(name.text(), name.text()))
        elif isinstance(item, Group):
            if item.kind == "(" and not form.base and at < len(items) and _begins_operand(items[at]):
                continue  # a cast
            form.group(item, spaces=spaces)
        elif item in _QUALIFIERS:
            if form.tail:
                form.tail.append(f" {item}")
            else:
                form.qualifiers.add(item)
        elif item in _CONSTANTS:
            form.operand(_CONSTANTS[item])
        elif item[0].isdigit():
            form.operand(_number(item))
        elif item[0] == "'" and len(item) > 2:
            form.operand(str(ord(item[1])) if len(item) == 3 else item)
        elif item not in _IGNORED:
            form.mark(item)
    return form.text()


class _Form(Struct):
    """The normal form of an element, as far as it has been read."""

    base: str = ""
    prefix: str = ""
    qualifiers: set[str] = field(default_factory=set)
    """Qualifiers of the base: ``const``, ``volatile``."""
    tail: list[str] = field(default_factory=list)
    """Declarators: ``*``, ``&``, ``* const``, ``(int)``, ``[4]``."""

    def operand(self, text: str) -> None:
        """A name or constant."""
        if self.base and self.tail and self.tail[-1] in _BINARY:
            self.base += "".join(self.tail) + text
        else:
            if self.tail:  # what came before is the return type with its qualifiers
                self.qualifiers.clear()
            if self.base:
                self.prefix = ""
            self.base = text
        self.tail = []

    def mark(self, token: str) -> None:
        """Reads punctuation."""
        if token == "=" and self.base:  # int=4, as tools of 2020 and before wrote constants
            self.base, self.prefix = "", ""
            self.tail.clear()
            self.qualifiers.clear()
        elif self.base:
            self.tail.append(token)
        else:
            self.prefix += token

    def group(self, group: Group, *, spaces: bool) -> None:
        """Reads a bracketed group: of a function's type, an array, an address or an expression."""
        inside = ",".join(part for part in group.parts if part != "void")
        if group.kind != "(":
            self.mark(f"{group.kind}{inside}{_CLOSING[group.kind]}")
        elif self.prefix.endswith("&"):
            if not self.base:  # &(f(int)), the address of a function
                address = function(group.items, spaces=spaces, kernel=False)
                self.base = address.text() if address is not None else inside
        elif not self.base or (self.tail and self.tail[-1] in _BINARY):
            self.operand(inside)
        else:
            self.tail.append(f"({inside})")

    def text(self) -> str:
        leading = "".join(f"{word} " for word in sorted(self.qualifiers))
        prefix = self.prefix.removesuffix("&")  # f and &f are the same constant
        return f"{leading}{prefix}{self.base}{''.join(self.tail)}"


def _begins_operand(item: str | Group) -> bool:
    if isinstance(item, Group):
        return item.kind == "(" or _closure(item) is not None
    return (
        item in ("-", "&", "!", "~", "+") or item in _CONSTANTS or item[0] in "'" or item[0].isdigit() or _is_word(item)
    )


def _fundamental(words: list[str]) -> str:
    """``unsigned long`` for ``long unsigned int``."""
    kinds = [word for word in words if word not in ("signed", "unsigned", *_QUALIFIERS)]
    longs = kinds.count("long")
    if "char" in words:
        return f"{'signed ' if 'signed' in words else 'unsigned ' if 'unsigned' in words else ''}char"
    if "double" in words:
        return "long double" if longs else "double"
    if "short" in words:
        kind = "short"
    elif longs or "__int64" in words:  # nvprof's word for long
        kind = "long long" if longs > 1 else "long"
    else:
        kind = kinds[0] if kinds else "int"
    return f"unsigned {kind}" if "unsigned" in words else kind


def _number(text: str) -> str:
    """A constant without its type's suffix (``4`` for ``4u``), integers in decimal."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        return text
    digits = match[1]
    if digits[:2] in ("0x", "0X"):
        return str(int(digits, 16)) if len(digits) <= _LONGEST_NUMBER else digits
    return digits.lstrip("0") or "0"


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
    """The types of its parameters in their normal form, references to template arguments resolved; None if not
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
