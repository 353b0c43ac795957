"""A mangled name as it is read from left to right, and the codes of types and operators in it."""

from __future__ import annotations

_DEEPEST = 150
"""Names, types and expressions within each other."""
_MOST_CHARACTERS = 1 << 22
"""How much may be written for one name; back references could make a short one grow without end."""

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
    """Not a mangled name, or one with something in it that is not read here."""


class MangledText:
    """One name, how far it is read, and what its references refer to."""

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at
        self.known: list[str] = []
        """What ``S_``, ``S0_``, … refer to."""
        self.last: tuple[str, ...] = ()
        """The template arguments read last."""
        self.scope: tuple[str, ...] = ()
        """What ``T_``, ``T0_``, … refer to."""
        self.depth = 0
        self.written = 0
        self.in_lambda = False

    def peek(self, what: str) -> bool:
        """Whether this comes next."""
        return self.text.startswith(what, self.at)

    def take(self, what: str) -> bool:
        """Goes past this if it comes next, and says whether it did."""
        if self.text.startswith(what, self.at):
            self.at += len(what)
            return True
        return False

    def expect(self, what: str) -> None:
        """Goes past this, which must come next."""
        if not self.take(what):
            raise UnknownError(what)

    def one(self) -> str:
        """The next character."""
        self.at += 1
        return self.text[self.at - 1]

    def number(self) -> int:
        """A decimal number."""
        start = self.at
        while self.at < len(self.text) and self.text[self.at] in "0123456789":
            self.at += 1
        if not 0 < self.at - start < 9:
            raise UnknownError("number")
        return int(self.text[start : self.at])

    def count(self) -> int:
        """``_`` is 0, ``0_`` is 1, ``1_`` is 2."""
        value = 0 if self.peek("_") else self.number() + 1
        self.expect("_")
        return value

    def deeper(self) -> None:
        """Counts how deep names are in each other; whoever calls it takes one off at its end."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise UnknownError("too deep")

    def keep(self, text: str) -> str:
        """Makes a text something that can be referred to."""
        self.known.append(self.counted(text))
        return text

    def counted(self, text: str) -> str:
        """The text, unless with it too much has been written."""
        self.written += len(text)
        if self.written > _MOST_CHARACTERS:
            raise UnknownError("too long")
        return text
