"""Finds paths in a text, and tells what of a path may be shown: the name of a file, not those of folders."""

from __future__ import annotations

import re
from collections.abc import Callable

SYSTEM = re.compile(
    r"/(?:usr/(?:lib|lib64|bin|sbin|include|share)|usr/local/cuda[\w.-]*|usr/local/(?:lib|bin)|lib|lib64|bin|sbin|"
    r"proc|sys|dev|opt/nvidia)(?![\w-])|/(?:host|device|job|replica|task):"
)
"""Paths that every machine has; ``/host:CPU`` and ``/device:GPU:0`` are names in JAX's traces."""
_ROOTS = (
    "home|root|Users|users|mnt|media|data\\d*|datasets?|scratch|workspaces?|work|tmp|var|srv|opt|run|nfs|lustre|gpfs|"
    "projects?|shared?|storage|net|exports?|private|Volumes|afs|cluster|fsx|efs|content|kaggle|app|apps|code|repos?|"
    "src|usr|etc|redacted|dev/shm|global|gpuhome|homes?|u|ssd\\d*|raid\\d*|disk\\d*|vol\\d*|local|cache|build|__w|ebs"
)
"""First folders of paths; a name such as ``/layer1/attention`` is not a path."""
_STOP = r"\s\"'<>|:;,()\[\]{}*?=\0`\\"
_BEFORE = r"(?:^|(?<=[\s\"'=:,(\[{;<|@`\0]))(?!//\w)"
_PART = rf"[^{_STOP}/]+(?:(?<![.\d]\w\w)(?<!\.\w)(?<!\.\w\w\w)(?: [^{_STOP}/.]+){{1,5}}(?=/))?"
"""A folder may have blanks in its name: what follows a blank up to the next slash, unless a file ended before."""
_POSIX = re.compile(
    rf"{_BEFORE}(?:"
    rf"/+(?:{_ROOTS})(?=[/\s\"'<>|:;,()\[\]{{}}=\0`]|$)(?:/+{_PART})*/?"
    rf"|(?:/+[^{_STOP}/]+)+\.(?:pyx?|so(?:\.\d+)*|cu|cuh|cpp|cc|c|h|hpp|js|json|ya?ml|toml|sh|ipynb|txt|log|pth?|"
    rf"safetensors|onnx|engine|sqlite|qdrep|nsys-rep|ncu-rep|csv|gz)(?![\w/])"
    rf"|~[\w.-]*/[^{_STOP}]+)"
)
"""Matches what is a path even in the name of a range: it starts as paths do, or ends in a file."""
_ANY_POSIX = re.compile(rf"{_BEFORE}/+[^{_STOP}/]+(?:/+{_PART})+/?")
"""Matches a path in any other text."""
_NO_SLASH = _STOP.replace(chr(92) * 2, "")
_WINDOWS = re.compile(
    rf"(?<![\w])(?:[A-Za-z]:|\\\\[\w.-]+)(?:[\\/]+[^{_NO_SLASH}/\\]+(?:(?: [^{_NO_SLASH}/\\]+){{1,5}}(?=[\\/]))?)+"
)
FRAME = re.compile(r"(?P<path>(?:/|[A-Za-z]:\\).*\.pyx?)(?P<rest>\(\d+\): .*)", re.DOTALL)
"""Matches a Python function as the profiler names it; its path may contain blanks."""
_PACKAGES = re.compile(r"(?:^|[/\\])(?P<kept>(?:site|dist)-packages[/\\].+)$")
_STANDARD = re.compile(r"(?:^|[/\\])(?P<kept>lib(?:64)?[/\\]python\d(?:\.\d+)?[/\\].+)$")
PERSON = re.compile(r"(?:^|[\\/])(?:home|Users|homes|gpuhome)[\\/]+(?P<user>[^\\/\s\"':;,]+)")
_WHOLE = re.compile(r"(?!/redacted)(?:/[^/\s:;,\"'()]+){2,}(?: ?[^/\s:;,.\"'()]+| ?/){0,12}")
"""A text that is one path, with blanks in it."""
_FILE = re.compile(r"[^/\\]*\.[A-Za-z][\w-]{0,14}(?:\.[\d.]*\d)?(?:\+0x[0-9a-f]+)?")
_PROGRAM = re.compile(r"[\\/](?:s?bin|Scripts)[\\/]+[^\\/]+$")


def without_paths(text: str, change: Callable[[str], str], *, everywhere: bool) -> str:
    """Replaces the paths in a text.

    Args:
        text: any text.
        change: what stands in a path's place.
        everywhere: also what looks like a path only in a text that is no name.
    """
    if "/" in text:
        if everywhere and " " in text and _WHOLE.fullmatch(text):
            return change(text)
        text = _POSIX.sub(lambda match: _changed(match, change), text)
        if everywhere:
            text = _ANY_POSIX.sub(lambda match: _changed(match, change), text)
    return _WINDOWS.sub(lambda match: change(match[0]), text) if "\\" in text else text


def _changed(match: re.Match[str], change: Callable[[str], str]) -> str:
    path = match[0].rstrip(".")  # a sentence may end after a path
    return change(path) + match[0][len(path) :]


def is_absolute(path: str) -> bool:
    """Whether a path says where it starts."""
    return path.startswith(("/", "~", "\\\\")) or re.match(r"[A-Za-z]:[\\/]", path) is not None


def kept_part(path: str) -> str:
    """The end of a path that may be shown: within a package, or a file's name; a folder's may be a project's."""
    if PERSON.fullmatch(path.rstrip("\\/")) or path.rstrip("/") in ("/root", "~", ""):
        return ""
    kept = _PACKAGES.search(path) or _STANDARD.search(path)
    if kept:
        return kept["kept"]
    last = re.split(r"[\\/]+", path.rstrip("\\/"))[-1]
    return last if _FILE.fullmatch(last) or _PROGRAM.search(path) else ""
