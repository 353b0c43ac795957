"""Demangles function names of the Itanium C++ ABI, which CUDA uses on Linux.

Profilers leave some names mangled (Kineto those of more than 1024 characters, as in CUTLASS). `kernel_key` reads the
result, so types and constants are spelled as it understands them, not as any demangler prints them.
Source: the ABI's section 5.1, https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling
"""

from __future__ import annotations

from functools import lru_cache

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
_OPERATIONS = ("fp", "gs", "st", "at", "sz", "az", "sZ", "sp", "nx", "cv", "cl", "il", "tl", "qu")
EXPRESSIONS = frozenset({*UNARY, *BINARY, *_OPERATIONS})
"""What an expression begins with that is neither a constant, nor a parameter, nor a name."""
QUALIFIERS = {"r": "", "V": " volatile", "K": " const"}


class UnknownError(Exception):
    """Not a mangled name, or one with something that this module does not support."""


@lru_cache(1 << 12)
def demangle(name: str) -> str | None:
    """The function that a mangled name stands for, in C++; None if the name is not mangled or can't be read."""
    start = 1 if name.startswith("__Z") else 0
    if not name.startswith("_Z", start):
        return None
    reader = _Reader(name, start + 2)
    try:
        text = reader.encoding()
    except (UnknownError, IndexError):
        return None
    rest = name[reader.at :]
    return text if not rest or rest[0] in ".$@" else None


class _Reader:
    """One name, the position up to which it has been read, and the targets of its references.

    Each method from `encoding` on takes one production of the grammar and returns its text.
    """

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

    # --- functions and names

    def encoding(self) -> str:
        """A function: its name and the types of its parameters, without the return type."""
        before = self.scope
        name, returns = self.name()
        if self.at >= len(self.text) or self.text[self.at] in "E.$@":
            return name  # data, or extern "C"
        self.scope = self.last if returns else self.scope
        if returns and not name.endswith("::operator type"):
            self.type()
        parameters = self.types_until("E.$@")
        self.scope = before
        return self.counted(name) + f"({', '.join(parameters)})"

    def types_until(self, ends: str) -> list[str]:
        found = []
        while self.at < len(self.text) and self.text[self.at] not in ends:
            found.append(self.type())
        return [] if found == ["void"] else found

    def name(self) -> tuple[str, bool]:
        """A name, and whether it ends with template arguments (such a function's type starts with its return type)."""
        if self.take("N"):
            return self.nested()
        if self.take("Z"):
            return self.local(), False
        if self.peek("S") and not self.peek("St"):
            return self.substitution() + self.arguments(), True
        name = "std::" if self.take("St") else ""
        name += self.unqualified("")
        if self.peek("I"):
            self.keep(name)
            return name + self.arguments(), True
        return name, False

    def nested(self) -> tuple[str, bool]:
        while self.at < len(self.text) and self.text[self.at] in "rVKRO":
            self.at += 1
        name, has_arguments = "", False
        while not self.take("E"):
            if self.peek("St"):
                self.at += 2
                name, refers = "std", True
            elif self.peek("S"):
                name, refers = self.substitution(), True
            elif self.peek("I"):
                name, refers, has_arguments = name + self.arguments(), False, True
            else:
                if self.peek("T"):
                    part = self.parameter()
                elif self.peek("Dt") or self.peek("DT"):
                    part = self.type()
                    self.known.pop()  # kept as a prefix below
                else:
                    part = self.unqualified(name)
                name, refers, has_arguments = f"{name}::{part}" if name else part, False, False
            if self.take("M"):
                continue  # the initializer of a member, which contains a lambda
            if not refers and not self.peek("E"):
                self.keep(name)
        return name, has_arguments

    def local(self) -> str:
        """Something that is local to a function."""
        self.deeper()
        outer = self.scope
        function = self.encoding()
        self.scope = self.last
        self.expect("E")
        if self.take("s"):
            entity = "{string literal}"
        else:
            if self.take("d"):
                self.count()
            entity, _ = self.name()
        self.scope = outer
        if self.take("__"):
            self.number()
            self.expect("_")
        elif self.take("_") and self.one() not in "0123456789":
            raise UnknownError("discriminator")
        self.depth -= 1
        return self.counted(f"{function}::{entity}")

    def unqualified(self, within: str) -> str:
        """A name without its namespaces; `within` is the scope that contains it."""
        self.deeper()
        self.take("L")
        letter = self.text[self.at]
        if letter.isdigit():
            length = self.number()
            name = self.text[self.at : self.at + length]
            if len(name) < length:
                raise UnknownError("cut short")
            self.at += length
            if name.startswith("_GLOBAL__N"):
                name = "(anonymous namespace)"
        elif self.take("Ut"):
            name = f"{{unnamed type#{self.count() + 1}}}"
        elif self.take("Ul"):
            name = self.closure()
        elif letter in "CD" and self.text[self.at + 1].isdigit():
            self.at += 2
            name = ("~" if letter == "D" else "") + _own(within)
        elif self.take("cv"):
            name = f"operator {self.type()}"
        elif self.take("li"):
            name = f'operator""{self.unqualified("")}'
        else:
            code = self.text[self.at : self.at + 2]
            if code not in OPERATORS:
                raise UnknownError(code)
            self.at += 2
            symbol = OPERATORS[code]
            name = f"operator {symbol}" if symbol[0].isalpha() else f"operator{symbol}"
            name += " " if symbol.endswith("<") else ""  # arguments may follow
        while self.take("B"):
            self.unqualified("")
        self.depth -= 1
        return name

    def closure(self) -> str:
        before, self.in_lambda = self.in_lambda, True
        while self.peek("Ty") or self.peek("Tn") or self.peek("Tp"):
            kind = self.text[self.at : self.at + 2]
            self.at += 2
            if kind == "Tn":
                self.type()
        parameters = self.types_until("E")
        self.in_lambda = before
        self.expect("E")
        return f"{{lambda({', '.join(parameters)})#{self.count() + 1}}}"

    # --- template arguments

    def arguments(self) -> str:
        found = self.list_of_arguments("I")
        self.last = tuple(found)
        text = self.counted(", ".join(filter(None, found)))
        return f"<{text} >" if text.endswith(">") else f"<{text}>"

    def list_of_arguments(self, begin: str) -> list[str]:
        self.expect(begin)
        self.deeper()
        found = []
        while not self.take("E"):
            found.append(self.argument())
        self.depth -= 1
        return found

    def argument(self) -> str:
        if self.take("X"):
            text = self.expression()
            self.expect("E")
            return text
        if self.peek("L"):
            return self.literal()
        if self.peek("J"):
            return ", ".join(filter(None, self.list_of_arguments("J")))
        return self.type()

    def literal(self) -> str:
        """A constant; numbers come without their type."""
        self.expect("L")
        if self.take("_Z"):
            name = self.encoding()
            self.expect("E")
            return f"&({name})"
        kind = self.type()
        end = self.text.index("E", self.at) if "E" in self.text[self.at :] else -1
        if end < 0:
            raise UnknownError("literal")
        value = self.text[self.at : end]
        self.at = end + 1
        if kind == "bool" and value in "01":
            return value or "0"
        if kind.endswith(")") and kind.startswith("decltype"):
            return "0"
        return f"-{value[1:]}" if value.startswith("n") else value or "0"

    def parameter(self) -> str:
        self.expect("T")
        number = self.count()
        if self.in_lambda:
            return f"auto:{number + 1}"
        return self.scope[number] if number < len(self.scope) else "auto"

    def substitution(self) -> str:
        self.expect("S")
        letter = self.text[self.at]
        if letter in STANDARD:
            self.at += 1
            return STANDARD[letter]
        start = self.at
        while self.text[self.at] != "_":
            self.at += 1
        digits = self.text[start : self.at]
        self.at += 1
        if not all("0" <= digit <= "9" or "A" <= digit <= "Z" for digit in digits) or len(digits) > 6:
            raise UnknownError("substitution")
        return self.known[int(digits, 36) + 1 if digits else 0]

    # --- types

    def type(self) -> str:
        """A type."""
        left, right = self.declared()
        return left + right

    def declared(self) -> tuple[str, str]:
        """A type as the texts to the left and right of the name that it would declare."""
        self.deeper()
        left, right = self.declarator()
        self.depth -= 1
        return self.counted(left), right

    def declarator(self) -> tuple[str, str]:
        letter = self.text[self.at]
        two = self.text[self.at : self.at + 2]
        if letter in BUILTIN:
            self.at += 1
            return BUILTIN[letter], ""
        if two in EXTENDED:
            self.at += 2
            return EXTENDED[two], ""
        if letter in "rVK":
            qualifiers = ""
            while self.text[self.at] in "rVK":
                qualifiers += QUALIFIERS[self.one()]
            left, right = self.declared()
            return self.kept(left + qualifiers, right)
        if letter in "PRO":
            self.at += 1
            left, right = self.declared()
            mark = {"P": "*", "R": "&", "O": "&&"}[letter]
            if right:
                return self.kept(f"{left}({mark}", f"){right}")
            if mark != "*" and left.endswith("&"):
                return self.kept(left if mark == "&&" else left.rstrip("&") + "&", "")
            return self.kept(left + mark, "")
        if letter == "F":
            return self.kept(*self.function_type())
        if letter == "A":
            return self.kept(*self.array())
        if letter == "M":
            self.at += 1
            owner = self.type()
            left, right = self.declared()
            if right:
                return self.kept(f"{left}({owner}::*", f"){right}")
            return self.kept(f"{left} {owner}::*", "")
        if letter == "D":
            return self.kept(*self.d_type(two))
        if letter == "T" and two not in ("Ts", "Tu", "Te"):
            return self.with_arguments(self.keep(self.parameter()))
        if letter == "S" and two != "St":
            return self.with_arguments(self.substitution())
        if letter == "u":
            self.at += 1
            return self.kept(self.unqualified(""), "")
        if letter == "U":
            self.at += 1
            self.unqualified("")
            if self.peek("I"):
                self.arguments()
            return self.kept(*self.declared())
        if letter == "C" or letter == "G":
            self.at += 1
            return self.kept(f"{self.type()} _Complex", "")
        if letter == "T":
            self.at += 2
        return self.kept(self.name()[0], "")

    def kept(self, left: str, right: str) -> tuple[str, str]:
        self.keep(left + right)
        return left, right

    def with_arguments(self, name: str) -> tuple[str, str]:
        return self.kept(name + self.arguments(), "") if self.peek("I") else (name, "")

    def function_type(self) -> tuple[str, str]:
        self.expect("F")
        self.take("Y")
        result = self.type()
        parameters = self.types_until("ERO")
        if self.text[self.at] in "RO" and self.text[self.at + 1] != "E":
            parameters += self.types_until("E")
        if not self.take("E"):
            self.at += 1
            self.expect("E")
        return f"{result} ", f"({', '.join(parameters)})"

    def array(self) -> tuple[str, str]:
        self.expect("A")
        size = str(self.number()) if self.text[self.at].isdigit() else "" if self.peek("_") else self.expression()
        self.expect("_")
        left, right = self.declared()
        return f"{left} ", f"[{size}]{right}"

    def d_type(self, two: str) -> tuple[str, str]:
        self.at += 2
        if two == "Dp":
            return self.declared()
        if two in ("Dt", "DT"):
            text = self.expression()
            self.expect("E")
            return f"decltype({text})", ""
        if two in ("Do", "DO", "Dw"):
            if two != "Do":
                raise UnknownError(two)
            return self.declared()
        if two == "DF":
            bits = self.number()
            brain = self.take("b")
            if not brain:
                self.expect("_")
            return ("__bf16" if brain else f"_Float{bits}"), ""
        if two == "Dv":
            size = str(self.number()) if self.text[self.at].isdigit() else self.expression()
            self.expect("_")
            return f"{self.type()} __vector({size})", ""
        raise UnknownError(two)

    # --- expressions, as far as they occur in template arguments

    def expression(self) -> str:
        """An expression."""
        self.deeper()
        text = self.operation()
        self.depth -= 1
        return text

    def operation(self) -> str:
        two = self.text[self.at : self.at + 2]
        if two[0] == "L":
            return self.literal()
        if two[0] == "T":
            return self.parameter()
        if two not in EXPRESSIONS:
            return self.unresolved()
        self.at += 2
        if two == "fp":
            return f"{{parm#{self.count() + 1}}}"
        if two == "gs":
            return self.expression()
        if two in ("st", "at"):
            return f"sizeof({self.type()})"
        if two in ("sz", "az", "sZ", "sp", "nx"):
            return f"sizeof({self.expression()})"
        if two == "cv":
            kind = self.type()
            parts = [self.expression()] if not self.take("_") else self.expressions()
            return f"({kind})({', '.join(parts)})"
        if two in ("cl", "il", "tl"):
            head = self.expression() if two == "cl" else self.type() if two == "tl" else ""
            marks = "()" if two == "cl" else "{}"
            return f"{head}{marks[0]}{', '.join(self.expressions())}{marks[1]}"
        if two == "qu":
            first, second, third = self.expression(), self.expression(), self.expression()
            return f"({first} ? {second} : {third})"
        if two in UNARY:
            return f"{UNARY[two]}({self.expression()})"
        left, right = self.expression(), self.expression()
        return f"(({left}){BINARY[two]}({right}))"

    def expressions(self) -> list[str]:
        found = []
        while not self.take("E"):
            found.append(self.expression())
        return found

    def unresolved(self) -> str:
        """A name in an expression that depends on template parameters."""
        if self.take("sr"):
            parts = []
            if self.take("N"):
                parts.append(self.type())
                while not self.take("E"):
                    parts.append(self.simple())
            elif self.text[self.at].isdigit():
                while not self.take("E"):
                    parts.append(self.simple())
            else:
                parts.append(self.type())
            return "::".join([*parts, self.base_name()])
        return self.base_name()

    def base_name(self) -> str:
        self.take("on")
        return self.simple()

    def simple(self) -> str:
        name = self.unqualified("")
        return name + self.arguments() if self.peek("I") else name


def _own(name: str) -> str:
    """The last part of a qualified name, without its template arguments: the name of a constructor."""
    depth, end = 0, len(name)
    for at in range(len(name) - 1, -1, -1):
        depth += (name[at] == ">") - (name[at] == "<")
        if depth == 0 and name[at] == "<":
            end = at
        elif depth == 0 and name.endswith("::", 0, at + 1):
            return name[at + 1 : end]
    return name[:end]
