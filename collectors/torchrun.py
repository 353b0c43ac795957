"""A program of many processes, one per rank, that torchrun starts: which words are torchrun's, which the program's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tracetui.collectors.request import ProfileError

MODULE = "torch.distributed.run"
_OLD = "torch.distributed.launch"
_PYTHON_VALUES = frozenset({"-W", "-X", "--check-hash-based-pycs"})
"""Options of Python that take the next word."""
_MODULE_FLAGS = frozenset({"-m", "--module"})
_WITHOUT_VALUE = _MODULE_FLAGS | {"-h", "--help", "--standalone", "--run-path", "--virtual-local-rank"}
"""torchrun's options that take no value, with dashes as in its documentation; `--no-python` is refused."""


@dataclass(frozen=True)
class RankedCommand:
    """A command that torchrun runs on every rank."""

    options: tuple[str, ...]
    """torchrun's own, without the one that says that a module follows."""
    program: tuple[str, ...]
    """What each rank runs, as ``python`` takes it: a script or ``-m`` and a module, and its arguments."""

    def option(self, name: str) -> str | None:
        """The value of one of torchrun's options, ``nnodes`` say; None where it is not given."""
        wanted = "--" + name
        for word, following in zip(self.options, (*self.options[1:], None), strict=True):
            given, equals, value = word.partition("=")
            if _dashed(given) == wanted:
                return value if equals else following
        return None


def ranked(command: Sequence[str]) -> RankedCommand | None:
    """The command in parts if torchrun runs it, itself or as Python's module; None for any other program.

    Raises:
        ProfileError: torchrun would run no Python program, or none at all.
    """
    words = _after_launcher(list(command))
    if words is None:
        return None
    options: list[str] = []
    module = False
    while words and words[0].startswith("-") and words[0] != "-":
        option = words.pop(0)
        name = _dashed(option)
        if name == "--no-python":
            raise ProfileError("torchrun --no-python starts no Python program, and a profiler can be put into no other")
        if name in _MODULE_FLAGS:
            module = True
            continue
        options.append(option)
        if name not in _WITHOUT_VALUE and "=" not in option and words:
            options.append(words.pop(0))
    if not words:
        raise ProfileError("torchrun is given no program: -- torchrun --nproc-per-node N SCRIPT …")
    return RankedCommand(tuple(options), ("-m", *words) if module else tuple(words))


def _after_launcher(words: list[str]) -> list[str] | None:
    """The words after torchrun, or after ``python -m torch.distributed.run``."""
    if not words:
        return None
    if Path(words[0]).name == "torchrun":
        return words[1:]
    if not Path(words[0]).name.startswith("python"):
        return None
    dashed, module, *rest = [*words[1 + len(python_options(words)) :], "", ""]
    if dashed == "-m" and module == _OLD:
        raise ProfileError(f"python -m {_OLD} is torch's old name for it: use torchrun")
    return rest[:-2] if (dashed, module) == ("-m", MODULE) else None


def python_options(command: Sequence[str]) -> tuple[str, ...]:
    """Python's own options in ``python -W ignore -u train.py``: what stands before the script or ``-m``."""
    at = 1
    if not command or not Path(command[0]).name.startswith("python"):
        return ()
    while at < len(command) and command[at].startswith("-") and command[at] not in ("-m", "-c", "-"):
        at += 2 if command[at] in _PYTHON_VALUES else 1
    return tuple(command[1:at])


def _dashed(option: str) -> str:
    """A name of an option as torchrun documents it: it takes underscores too."""
    name = option.partition("=")[0]
    return name.replace("_", "-") if name.startswith("--") else name


def interpreter(torchrun: Path) -> str | None:
    """The Python that a ``torchrun`` on the path runs in, by its first line, else the one beside it."""
    try:
        with torchrun.open("rb") as script:
            first = script.readline(4096).decode("utf-8", "replace").strip()
    except OSError:
        first = ""
    words = first.removeprefix("#!").split() if first.startswith("#!") else []
    if words and Path(words[0]).name.startswith("python"):
        return words[0]
    beside = torchrun.parent / "python"
    return str(beside) if beside.exists() else None
