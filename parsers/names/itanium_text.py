"""Reads a mangled name from left to right, and lists the codes of its types and operators."""

from __future__ import annotations

_DEEPEST = 150
"""The deepest nesting of names, types and expressions."""
_MOST_CHARACTERS = 1 << 22
"""The most text written for one name; back references could make a short name grow without end."""

BUILTIN = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long",
    "y": "unsigned long long", "n": "__int128", "o": "unsigned __int128", "f": "float", "d": "double",
    "e": "long double", "g": "__float128", "z": "...",
}  # fmt: skip
EXTENDED = {
    "Dd": "decimal64", "De": "decimal128", "Df": "decimal32", "Dh": "half", "Di": "char32_t", "Ds": "char16_t",
    "Du": "char8_t", "Da": "auto", "Dc": "decltype(auto)", "Dn": "decltype(nullptr)",
}  # fmt: skip
_TRAITS = "char, std::char_traits<char>"
STANDARD = {
    "a": "std::allocator",
    "b": "std::basic_string",
    "s": f"std::basic_string<{_TRAITS}, std::allocator<char> >",
    "i": f"std::basic_istream<{_TRAITS} >",
    "o": f"std::basic_ostream<{_TRAITS} >",
    "d": f"std::basic_iostream<{_TRAITS} >",
}
UNARY = {"ps": "+", "ng": "-", "ad": "&", "de": "*", "co": "~", "nt": "!", "pp": "++", "mm": "--"}
BINARY = {
    "pl": "+", "mi": "-", "ml": "*", "dv": "/", "rm": "%", "an": "&", "or": "|", "eo": "^", "aS": "=", "eq": "==",
    "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=", "ls": "<<", "rs": ">>", "aa": "&&", "oo": "||",
    "ss": "<=>", "cm": ",", "pL": "+=", "mI": "-=", "mL": "*=", "dV": "/=", "rM": "%=", "aN": "&=", "oR": "|=",
    "eO": "^=", "lS": "<<=", "rS": ">>=", "pm": "->*", "pt": "->", "ix": "[]", "cl": "()",
}  # fmt: skip
_NEW = {"nw": "new", "na": "new[]", "dl": "delete", "da": "delete[]"}
OPERATORS = {**UNARY, **BINARY, **_NEW, "qu": "?"}
QUALIFIERS = {"r": "", "V": " volatile", "K": " const"}


class UnknownError(Exception):
    """Not a mangled name, or one with something that this module does not support."""


class MangledText:
    """One name, the position up to which it has been read, and the targets of its references."""

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at
        self.known: list[str] = []
        """The targets of ``S_``, ``S0_``, …."""
        self.last: tuple[str, ...] = ()
        """The template arguments read last."""
        self.scope: tuple[str, ...] = ()
        """The targets of ``T_``, ``T0_``, …."""
        self.depth = 0
        self.written = 0
        self.in_lambda = False

    def peek(self, what: str) -> bool:
        """Whether this text comes next."""
        return self.text.startswith(what, self.at)

    def take(self, what: str) -> bool:
        """Skips this text if it comes next, and returns whether it did."""
        if self.text.startswith(what, self.at):
            self.at += len(what)
            return True
        return False

    def expect(self, what: str) -> None:
        """Skips this text, which must come next."""
        if not self.take(what):
            raise UnknownError(what)

    def one(self) -> str:
        """Reads the next character."""
        self.at += 1
        return self.text[self.at - 1]

    def number(self) -> int:
        """Reads a decimal number."""
        start = self.at
        while self.at < len(self.text) and self.text[self.at] in "0123456789":
            self.at += 1
        if not 0 < self.at - start < 9:
            raise UnknownError("number")
        return int(self.text[start : self.at])

    def count(self) -> int:
        """Reads a sequence number: ``_`` is 0, ``0_`` is 1, ``1_`` is 2."""
        value = 0 if self.peek("_") else self.number() + 1
        self.expect("_")
        return value

    def deeper(self) -> None:
        """Counts one more level of nesting; the caller takes it off at its end."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise UnknownError("too deep")

    def keep(self, text: str) -> str:
        """Adds a text to the targets of references."""
        self.known.append(self.counted(text))
        return text

    def counted(self, text: str) -> str:
        """Returns the text, unless too much has been written with it."""
        self.written += len(text)
        if self.written > _MOST_CHARACTERS:
            raise UnknownError("too long")
        return text
