"""Removes from a text what names a person, a machine or a place, and counts what it removes by kind.

Names of kernels, operators and ranges stay, except for absolute paths in them. A path keeps its file name (in an
installed package everything after `site-packages`), and two different paths never become the same.
"""

from __future__ import annotations

import re
from collections import Counter

from tracetui.collectors.machine.masking import KNOWN_SECRETS, MASK, URL_LOGIN, masked
from tracetui.parsers.nsys.privacy import HIDDEN, is_environment

REDACTED = "redacted"
PLACE = "/redacted"
PATH, HOST, USER, ENVIRONMENT = "path", "host name", "user name", "environment"
COMMAND, ADDRESS, UUID, SECRET, OUTPUT = "command line", "network address", "UUID", "secret", "program output"
SETTING = "setting"

_SYSTEM = re.compile(
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
_POSIX = re.compile(
    rf"{_BEFORE}(?:"
    rf"/+(?:{_ROOTS})(?=[/\s\"'<>|:;,()\[\]{{}}=\0`]|$)(?:/+[^{_STOP}/]+)*/?"
    rf"|(?:/+[^{_STOP}/]+)+\.(?:pyx?|so(?:\.\d+)*|cu|cuh|cpp|cc|c|h|hpp|js|json|ya?ml|toml|sh|ipynb|txt|log|pth?|"
    rf"safetensors|onnx|engine|sqlite|qdrep|nsys-rep|ncu-rep|csv|gz)(?![\w/])"
    rf"|~[\w.-]*/[^{_STOP}]+)"
)
"""Matches what is a path even in the name of a range: it starts as paths do, or ends in a file."""
_ANY_POSIX = re.compile(rf"{_BEFORE}/+[^{_STOP}/]+(?:/+[^{_STOP}/]+)+/?")
"""Matches a path in any other text."""
_WINDOWS = re.compile(rf"(?<![\w])(?:[A-Za-z]:|\\\\[\w.-]+)(?:[\\/]+[^{_STOP.replace(chr(92) * 2, '')}/\\]+)+")
_FRAME = re.compile(r"(?P<path>(?:/|[A-Za-z]:\\).*\.pyx?)(?P<rest>\(\d+\): .*)", re.DOTALL)
"""Matches a Python function as the profiler names it; its path may contain blanks."""
_PACKAGES = re.compile(r"(?:^|[/\\])(?P<kept>(?:site|dist)-packages[/\\].+)$")
_STANDARD = re.compile(r"(?:^|[/\\])(?P<kept>lib(?:64)?[/\\]python\d(?:\.\d+)?[/\\].+)$")
_PERSON = re.compile(r"(?:^|[\\/])(?:home|Users|homes|gpuhome)[\\/]+(?P<user>[^\\/]+)")
_GPU = re.compile(r"\b(?P<kind>GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)
_IPV4 = re.compile(
    r"(?<![\w.-])(?!0\.0\.0\.0(?!\d))(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w.-]|\.\d)"
)
_IPV6 = re.compile(
    r"(?<![\w:.])(?:(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}|(?:[0-9a-f]{2}:){5}[0-9a-f]{2}|"
    r"f[de][0-9a-f]{2}:(?:[0-9a-f]{0,4}:){1,6}[0-9a-f]{1,4})(?![\w:])",
    re.IGNORECASE,
)
_MAIL = re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}\b")
_URL = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)(?P<host>[A-Za-z0-9][\w.-]*)", re.IGNORECASE)
_PUBLIC = (
    "nvidia.com",
    "pytorch.org",
    "github.com",
    "python.org",
    "tensorflow.org",
    "jax.dev",
    "w3.org",
    "perfetto.dev",
)
_LOGIN = re.compile(r"\b[a-z_][\w-]*@[A-Za-z][\w-]*(?:\.[\w-]+)*(?=:)")
_ASSIGNED = re.compile(
    r"(?P<name>\b(?:HOST(?:NAME)?|USER(?:NAME)?|LOGNAME)=)(?P<value>[^\s;,\0]+)",
)
_COMMON = frozenset(
    (
        "root", "user", "users", "home", "ubuntu", "debian", "admin", "test", "data", "work", "local", "localhost",
        "jovyan", "runner", "docker", "python", "nvidia", "torch", "app", "node", "server", "build", "public", "guest",
        "default", "none", "unknown", "redacted", "linux", "jetson", "orin", "desktop",
    )
)  # fmt: skip
"""Words that name nobody and may stand in any text."""
_SHORTEST_WORD = 3


class Redactor:
    """Redacts the recordings of one person: what it learns from one file it also removes from the next."""

    def __init__(self, users: tuple[str, ...] = (), hosts: tuple[str, ...] = ()) -> None:
        self.counts: Counter[str] = Counter()
        self._trying = False
        self._folders: dict[str, dict[str, int]] = {}
        self._gpus: dict[str, int] = {}
        self._words: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None
        for user in users:
            self.learn(user, USER)
        for host in hosts:
            self.learn(host, HOST)

    def learn(self, word: str | None, kind: str) -> None:
        """Learns a user's or machine's name, to remove it wherever it is a separate word."""
        word = (word or "").strip()
        names = {word, word.split(".")[0]} if kind == HOST and not _IPV4.fullmatch(word) else {word}
        for name in names:
            common = name.lower() in _COMMON or len(name) < _SHORTEST_WORD or name.isdecimal()
            if not common and name not in self._words:
                self._words[name] = kind
                self._pattern = None

    def learn_from_path(self, path: str) -> None:
        """Learns the user in whose home folder a path lies."""
        for match in _PERSON.finditer(path):
            self.learn(match["user"], USER)

    def learn_from_environment(self, text: str) -> None:
        """Learns the user and the machine from a block of environment variables."""
        for match in _ASSIGNED.finditer(text):
            self.learn(match["value"], HOST if match["name"].startswith("HOST") else USER)
        self.learn_from_path(text)

    def count(self, kind: str, times: int = 1) -> None:
        """Counts something that was removed."""
        self.counts[kind] += times

    def name(self, text: str) -> str:
        """Removes only paths, secrets, addresses and UUIDs; for names of kernels, operators, ranges and functions."""
        if ";" in text and ".py" in text:  # a stack
            return ";".join(self.name(frame) for frame in text.split(";"))
        if match := _FRAME.fullmatch(text):
            return self.path(match["path"]) + match["rest"]
        text = self._paths(self._secrets(text))
        if text.count(".") > 2:
            text = _IPV4.sub(lambda match: self._replaced(ADDRESS, "0.0.0.0"), text)
        return text

    def value(self, text: str) -> str:
        """Redacts any other text."""
        if is_environment(text):
            self.learn_from_environment(text)
            self.count(ENVIRONMENT)
            return HIDDEN
        text = self.name(text)
        if "/" in text:
            text = _ANY_POSIX.sub(self._posix, text)
        return self.words(self._addresses(text))

    def would_change(self, text: str) -> bool:
        """Whether `value` would remove something from a text; counts nothing and numbers no path."""
        counts, self.counts, self._trying = self.counts, Counter(), True
        try:
            return self.value(text) != text
        finally:
            self.counts, self._trying = counts, False

    def words(self, text: str) -> str:
        """The text without the known names of users and machines."""
        if self._pattern is None:
            names = "|".join(re.escape(word) for word in sorted(self._words, key=len, reverse=True))
            self._pattern = re.compile(rf"(?<![A-Za-z0-9])(?:{names})(?![A-Za-z0-9])" if names else r"(?!)")
        return self._pattern.sub(lambda match: self._replaced(self._words[match[0]], REDACTED), text)

    def command(self, words: tuple[str, ...]) -> str:
        """A command line as one text, without secrets and paths."""
        return " ".join(self.value(word) for word in masked(words))

    def path(self, path: str) -> str:
        """Redacts a whole path; relative paths and those of the system stay."""
        self.learn_from_path(path)
        if _SYSTEM.match(path) and not path.startswith("/dev/shm"):
            return path
        if not (path.startswith(("/", "~", "\\\\")) or re.match(r"[A-Za-z]:[\\/]", path)):
            return path
        kept = _PACKAGES.search(path) or _STANDARD.search(path)
        tail = kept["kept"] if kept else re.split(r"[\\/]+", path.rstrip("\\/"))[-1]
        folder = path[: len(path.rstrip("\\/")) - len(tail)] if tail else path
        if PLACE in (folder.rstrip("/"), path.rstrip("/")) or re.fullmatch(rf"{PLACE}/\d+/", folder):
            return path
        if _PERSON.fullmatch(path.rstrip("\\/")) or path.rstrip("/") in ("/root", "~", ""):
            tail = ""
        known = {} if self._trying else self._folders.setdefault(tail, {})
        number = known.setdefault(folder, len(known) + 1)
        self.count(PATH)
        tail = self.words(tail.replace("\\", "/"))
        return "/".join(part for part in (PLACE, str(number) if number > 1 else "", tail) if part)

    def uuid(self, text: str) -> str:
        """Replaces a GPU's UUID by one that tells only which of the GPUs it is."""
        return _GPU.sub(self._gpu, text)

    def _paths(self, text: str) -> str:
        if "/" in text:
            text = _POSIX.sub(self._posix, text)
        return _WINDOWS.sub(lambda match: self.path(match[0]), text) if "\\" in text else text

    def _posix(self, match: re.Match[str]) -> str:
        # a sentence may end after a path
        path = match[0].rstrip(".")
        return self.path(path) + match[0][len(path) :]

    def _secrets(self, text: str) -> str:
        if "://" in text:
            text = URL_LOGIN.sub(lambda match: self._replaced(SECRET, f"{match['scheme']}{MASK}@"), text)
        if len(text) > 12:
            text = KNOWN_SECRETS.sub(lambda match: self._replaced(SECRET, MASK), text)
        return self.uuid(text) if "-" in text else text

    def _addresses(self, text: str) -> str:
        if "://" in text:
            text = _URL.sub(self._url, text)
        if "@" in text:
            text = _MAIL.sub(lambda match: self._replaced(USER, REDACTED), text)
            text = _LOGIN.sub(lambda match: self._replaced(USER, REDACTED), text)
        return _IPV6.sub(lambda match: self._replaced(ADDRESS, "::"), text) if text.count(":") > 2 else text

    def _url(self, match: re.Match[str]) -> str:
        host = match["host"].lower()
        if host in (REDACTED, "localhost") or any(host == known or host.endswith(f".{known}") for known in _PUBLIC):
            return match[0]
        return self._replaced(HOST, match["scheme"] + REDACTED)

    def _gpu(self, match: re.Match[str]) -> str:
        known = match[0].lower()
        if re.fullmatch(r"(?:gpu|mig)-00000000-0000-0000-0000-\d{12}", known):
            return match[0]
        number = len(self._gpus) if self._trying else self._gpus.setdefault(known, len(self._gpus))
        return self._replaced(UUID, f"{match['kind'].upper()}-00000000-0000-0000-0000-{number:012}")

    def _replaced(self, kind: str, text: str) -> str:
        self.count(kind)
        return text
