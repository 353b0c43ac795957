"""Finds names and addresses of machines in a text by their shape alone."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from tracetui.collectors.scrubbing.marks import ADDRESS, HOST, LOCATION, is_mark

if TYPE_CHECKING:
    from collections.abc import Callable

IPV4 = re.compile(
    r"(?<![\w.-])(?!0\.\d)(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w.-]|\.\d)"
)
_VERSIONED = re.compile(
    r"(?:cu[a-z]{3,}|nccl|tensorrt|nsys|ncu|driver|version|release|nsight[\w ]*)[\s:=v(]{1,3}$", re.IGNORECASE
)
_IPV6 = re.compile(r"(?<![\w:.])[0-9a-f:]{6,39}(?![\w:])", re.IGNORECASE)
_URL = re.compile(
    r"(?P<scheme>\b[a-z][a-z0-9+.-]{0,20}://(?:\*\*\*\d*@)?)(?P<host>[A-Za-z0-9][\w.-]*)(?P<port>:\d+)?"
    r"(?P<rest>[/?#][^\s\"'<>|,;\\]*)?",
    re.IGNORECASE,
)
_PUBLIC = (
    "nvidia.com", "pytorch.org", "github.com", "python.org", "tensorflow.org", "jax.dev", "w3.org", "perfetto.dev",
    "huggingface.co",
)  # fmt: skip
"""Sites that say nothing of whoever recorded: documentation, sources, models. A registry may be somebody's own."""
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_TOP = (
    "com|org|net|edu|gov|mil|int|io|ai|dev|cloud|app|tech|info|de|fr|uk|ch|at|it|es|nl|be|se|no|fi|dk|pl|cz|eu|us|ca|"
    "mx|br|au|nz|jp|cn|kr|in|sg|tw|hk|il|ru|internal|local|lan|corp|intra|intranet|localdomain|private|cluster|home|"
    "example|svc|domain|arpa"
)
_FULL = re.compile(
    rf"(?<![\w.@/-])(?:{_LABEL}\.){{1,6}}(?:{_TOP})(?![\w-]|\.\w)(?P<port>:\d{{2,5}}(?P<rest>/[\w./:-]+)?)?"
)
_SURE = re.compile(r"\.(?:com|org|edu|gov|mil|example|corp|lan|intranet|localdomain)$")
_PORT = re.compile(
    r"(?<![\w.:/@-])(?P<host>[A-Za-z][A-Za-z0-9-]*):(?P<port>\d{4,5})(?![\w.:]|-\d)(?P<rest>/[\w./:-]+)?"
)
_MOUNTED = re.compile(r"(?<![\w.:/@-])(?P<host>[A-Za-z][A-Za-z0-9-]*):(?=/\w)")
_COUNTED = re.compile(
    r"(?:layers?|blocks?|stages?|steps?|epochs?|iters?|ranks?|local|global|conv\d?d?|linear|gemm|mm|bmm|heads?|experts?|"
    r"batch|stream|streams|cuda|gpu|cpu|sm|xpu|hip|npu|tpu|device|thread|tid|pid|worker|line|fp|bf|int|uint|float|tf|"
    r"relu|pool|norm|attn|attention|mlp|embed|token|block|node|dim|level|L|h|a|v|b|k|m|n|x|y|z)-?\d*[a-z]?",
    re.IGNORECASE,
)
"""Words that count something rather than name a machine: ``layer1:1024``."""


def without_hosts(text: str, mark: Callable[[str, str], str]) -> str:
    """Replaces addresses, full host names, hosts before a port, and hosts of URLs that are not public."""
    if "://" in text:
        text = _URL.sub(lambda match: _url(match, mark), text)
    if text.count(".") > 2:
        text = without_four(text, mark)
    if text.count(":") > 1:
        text = _IPV6.sub(lambda match: mark(ADDRESS, match[0]) if _is_six(match[0]) else match[0], text)
    if "." in text:
        text = _FULL.sub(lambda match: _full(match, mark), text)
    if ":/" in text:
        text = _MOUNTED.sub(lambda match: _before_path(match, mark), text)
    return _PORT.sub(lambda match: _with_port(match, mark), text) if ":" in text else text


def without_four(text: str, mark: Callable[[str, str], str]) -> str:
    """Replaces addresses of four numbers, except after the name of something that has versions."""

    def one(match: re.Match[str]) -> str:
        before = match.string[max(match.start() - 32, 0) : match.start()]
        return match[0] if _VERSIONED.search(before) else mark(ADDRESS, match[0])

    return IPV4.sub(one, text)


def _is_public(host: str) -> bool:
    host = host.lower()
    return host == "localhost" or any(host == known or host.endswith(f".{known}") for known in _PUBLIC)


def _url(match: re.Match[str], mark: Callable[[str, str], str]) -> str:
    host, rest = match["host"], match["rest"] or ""
    if _is_public(host):
        return match[0]
    if host.partition(".")[0] != host and is_mark(host):
        return match[0]
    shown = host if is_mark(host) or IPV4.fullmatch(host) else mark(HOST, host)
    if len(rest) > 1 and not is_mark(rest[1:]):
        rest = rest[0] + mark(LOCATION, rest[1:])
    return f"{match['scheme']}{shown}{match['port'] or ''}{rest}"


def _is_six(text: str) -> bool:
    groups = [group for group in text.split(":") if group]
    # `add::b` is a name of C++, `::1` is every machine
    if len(groups) < 2 or not any(c.isdigit() for c in text) or (len(groups) < 3 and len(groups[0]) < 4):
        return False
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _full(match: re.Match[str], mark: Callable[[str, str], str]) -> str:
    port, rest = match["port"] or "", match["rest"] or ""
    host = match[0][: len(match[0]) - len(port)]
    labels = host.split(".")
    if is_mark(host) or _is_public(host):
        return match[0]
    is_machine = any((any(c.isdigit() for c in label) and any(c.isalpha() for c in label)) or "-" in label
                     for label in labels[:-1])  # fmt: skip
    sure = _SURE.search(host) and (len(labels) > 2 or host.endswith((".com", ".org", ".edu", ".gov")))
    if not (sure or port or (is_machine and len(labels) > 2)):
        return match[0]  # `torch.utils.data`, `threading.local`: a module
    if rest:
        rest = "/" + mark(LOCATION, rest[1:])
    return mark(HOST, host) + port[: len(port) - len(match["rest"] or "")] + rest


def _with_port(match: re.Match[str], mark: Callable[[str, str], str]) -> str:
    host = match["host"]
    telling = any(c.isdigit() for c in host)
    if not telling or _COUNTED.fullmatch(host) or is_mark(host) or int(match["port"]) < 1024:
        return match[0]
    rest = f"/{mark(LOCATION, match['rest'][1:])}" if match["rest"] else ""
    return f"{mark(HOST, host)}:{match['port']}{rest}"


def _before_path(match: re.Match[str], mark: Callable[[str, str], str]) -> str:
    """A file server before the path that it exports."""
    host = match["host"]
    if not any(c.isdigit() for c in host) or _COUNTED.fullmatch(host) or is_mark(host):
        return match[0]
    return f"{mark(HOST, host)}:"
