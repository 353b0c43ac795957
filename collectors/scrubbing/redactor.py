"""Removes from a text what names a person, a machine or a place, and counts what it removes by kind.

Names of kernels, operators and ranges stay, except for absolute paths and keys of known form in them; with `names` they
are treated as any other text is. A path keeps its file name (in an installed package everything after
`site-packages`), and two different texts never become the same.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from urllib.parse import quote, unquote

from tracetui.collectors.machine.masking import EXACT, NUMBER, Form, assigned, form, holds_secret, masked, without_forms
from tracetui.collectors.scrubbing.marks import (
    ADDRESS,
    ENVIRONMENT,
    HOST,
    IDENTITY,
    IN_NAME,
    JOB,
    LOCATION,
    PATH,
    PLACE,
    PROCESS,
    RANDOM,
    SECRET,
    USER,
    UUID,
    ZONE,
    Marks,
    is_mark,
)
from tracetui.collectors.scrubbing.paths import FRAME, PERSON, SYSTEM, is_absolute, kept_part, without_paths
from tracetui.parsers.nsys.privacy import HIDDEN, is_environment

SHORTEST = 12
_ENCODED_WORD = re.compile(rf"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{{{SHORTEST},}}={{0,2}}(?![A-Za-z0-9+/_=-])")

_LOGIN = re.compile(r"[\w.@+-]+:\S{4,}")
"""A user and a password, as in a header of HTTP."""


def without_encoded(text: str, is_private: Callable[[str], bool], mark: Callable[[str], str]) -> str:
    """Replaces the words of a text that are private texts in base64.

    Args:
        text: any text.
        is_private: whether what a word says, decoded, would be changed.
        mark: what stands in the word's place.
    """

    def one(match: re.Match[str]) -> str:
        said = decoded(match[0])
        if said is not None and (_LOGIN.fullmatch(said) or is_private(said)):
            return mark(match[0])
        return match[0]

    return _ENCODED_WORD.sub(one, text)


def decoded(word: str) -> str | None:
    """What a word says in base64, in UTF-8 or as PowerShell writes it in UTF-16; None if that is no text.

    Names of programs decode to bytes that are no text: of 12 letters one in 100,000 does.
    """
    plain = word.rstrip("=").replace("-", "+").replace("_", "/")
    if len(plain) % 4 == 1:
        return None
    try:
        content = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except binascii.Error:
        return None
    encoding = "utf-16-le" if len(content) % 2 == 0 and not any(content[1::2]) else "utf-8"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        return None
    return text if all(c.isprintable() or c.isspace() for c in text) else None


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


_WORD = re.compile(r"(?<![\w/+.:<%-])[A-Za-z0-9+/_-]{24,}={0,2}(?![\w.:(<%])")
_HEX = re.compile(r"[0-9a-f]{32,}|[0-9A-F]{32,}")
_MANGLED = ("_Z", "triton_", "__omp", "nvjet_", "sm")
_PARTS = re.compile(r"[a-z]{4,}|[A-Z][a-z]{2,}|[A-Z]{4,}")
_MOST_WORDS = 0.6


def looks_random(text: str) -> bool:
    """Whether a text holds a long word of letters and digits in which no words can be read."""
    return len(text) >= 24 and any(_is_random(match[0]) for match in _WORD.finditer(text))


def _is_random(word: str) -> bool:
    if _HEX.fullmatch(word):
        return any(c.isdigit() for c in word) and any(c.isalpha() for c in word)
    if word.startswith(_MANGLED) or "/" in word[:1]:
        return False
    kinds = sum((any(map(str.isdigit, word)), any(map(str.islower, word)), any(map(str.isupper, word))))
    read = sum(len(part) for part in _PARTS.findall(word))
    digits = sum(map(str.isdigit, word))
    return kinds == 3 and digits >= 3 and read < _MOST_WORDS * len(word) and word.count("_") < len(word) / 8


_BEFORE = r"(?:^|(?<=[\s\"'=:,(\[{;<|@`\0\\]))"


def _form(kind: str, signs: str, pattern: str, flags: re.RegexFlag = re.IGNORECASE) -> Form:
    return form(signs, pattern, flags, kind)


_K8S = "[bcdfghjklmnpqrstvwxz2456789]"
_END = r"[^\s\"'<>|,;\\]"
FORMS = (
    _form(LOCATION, "://", rf"\b(?:s3[an]?|gs|gcs|az|adls?|abfss?|wasbs?|hdfs|oss|r2|dbfs|cos|b2|swift|smb|nfs|afp)://"
          rf"(?P<x>{_END}+)"),
    _form(SECRET, "://", r"\b(?:postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?|mssql|oracle|clickhouse|snowflake)"
          rf"(?:\+\w+)?://(?P<x>{_END}+)"),
    # a remote of git: the host, whose user, which project
    _form(LOCATION, "@", r"(?<![\w.@/-])(?:ssh://|git\+ssh://)?(?P<x>[\w.-]+@[\w.-]+:(?!\d+\b)[\w.~/-]*\w\.?\w*)"),
    _form(LOCATION, "ssh://", rf"\bssh://(?P<x>{_END}+)"),
    _form(LOCATION, "arn:", r"\barn:aws[\w-]*:[\w-]*:[\w-]*:(?P<x>(?:\d{12})?:[^\s\"'<>|,;\\]+)"),
    _form(LOCATION, ".io/ .dev/ .com/", r"\b(?:\d{12}\.dkr\.ecr\.[\w-]+\.amazonaws\.com|[\w-]{1,63}\.azurecr\.io|"
          r"[\w-]{1,63}-docker\.pkg\.dev|(?:[\w-]{1,20}\.)?gcr\.io|ghcr\.io|quay\.io|docker\.io)/"
          r"(?!(?:nvidia|library|pytorch|huggingface)/)(?P<x>[\w.-]+(?:/[\w.-]+)*)"),
    _form(LOCATION, "projects/",
          r"\bprojects/(?P<x>[a-z][\w-]+)(?=/(?:locations|zones|regions|secrets|topics|global)\b)"),
    _form(LOCATION, "huggingface.co/", rf"\bhuggingface\.co/(?!(?:docs|papers|blog|terms\w*)/)(?P<x>[\w.-]+/{_END}+)"),
    _form(USER, "cn= uid=", r"\b(?:CN|UID)=[^,\n\"']{1,80}(?:,\s?(?:CN|O|C|L|ST)=[^,\n\"';]{1,80})*"
          r"(?:,\s?(?:OU|DC)=[^,\n\"';]{1,80})+(?:,\s?(?:O|DC|C)=[^,\n\"';]{1,80})*"),
    # of a database's connection
    _form(USER, "uid= id=", r"\b(?:uid|user[ _]?id)\s?=\s?(?P<x>[A-Za-z][^;\"'\\\n]{0,80})(?=;|\Z)"),
    # what `id` prints
    _form(USER, "id=", r"\be?[ug]id=\d+\((?P<x>[^()\n]{1,64})\)"),
    _form(USER, "groups=", r"\bgroups=(?P<x>\d+\([^()\n]{1,64}\)(?:,\d+\([^()\n]{1,64}\))*)"),
    _form(LOCATION, "models-- datasets-- spaces--", r"(?<![\w-])(?:models|datasets|spaces)--(?P<x>[\w.-]+)"),
    _form(USER, "author committer signed-off-by co-authored-by created recorded user.name",
          r"\b(?:author|committer|signed-off-by|co-authored-by|created by|recorded by|user\.name)\s?[:=]\s?"
          r"(?P<x>(?-i:[A-Z])[\w'-]+(?: (?-i:[A-Z])[\w.'-]*){0,3})"),
    _form(USER, "user login account logged", r"\b(?:user(?:name)?|login|account|logged in as)[\"'\s:=]{1,6}"
          r"(?P<x>(?-i:[A-Z][A-Z0-9.-]{1,30})\\{1,8}[a-z][\w.-]+)"),
    _form(USER, "+", r"(?<![\w+.])\+\d{1,3}[ .-]\(?\d{2,4}\)?(?:[ .-]\d{2,5}){2,4}(?![\w.])"),
    _form(HOST, "nccl", r"(?<![\w.:-])(?P<x>[A-Za-z][\w.-]*)(?=:\d+:\d+ \[\d+\] NCCL)"),
    _form(HOST, "[0", r"(?<![\w.-])[A-Za-z][\w.-]*\[0\d+(?:[-,]\d+)+\]"),
    _form(HOST, "ip-", r"(?<![\w.-])ip-\d{1,3}(?:-\d{1,3}){3}(?![\w-])"),
    _form(HOST, ".onion", r"\b[a-z2-7]{16,56}\.onion\b"),
    _form(ADDRESS, ".", r"(?<![\w.])(?=[0-9.]*[a-f])(?=[a-f.]*\d)[0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4}(?![\w.])"),
    _form(ADDRESS, ":", r"(?<![\w:.])(?=[0-9:]*[a-f])(?:[0-9a-f]{4}:){3}[0-9a-f]{4}(?![\w:.])", EXACT),
    _form(IDENTITY, "guid", r"\bguid[\"'\s:=\\]{1,24}(?P<x>0x[0-9a-f]{8,16})\b"),
    _form(LOCATION, "\\unc\\", r"\\{2,4}[?.]\\{1,2}UNC\\{1,2}(?P<x>[^\s\"'<>|,;]+)"),
    _form(LOCATION, ".git", r"(?<=github\.com/)(?P<x>[\w.-]+/[\w.-]+\.git)\b"),
    _form(LOCATION, "//", rf"{_BEFORE}(?<!:)//(?P<x>[A-Za-z0-9][\w.-]*/[^\s\"'<>|,;]+)"),
    _form(LOCATION, "\\\\", r"(?<![\w\\:])\\{2,4}(?P<x>[A-Za-z0-9][\w.-]*\\{1,2}[^\s\"'<>|,;]+)"),
    _form(USER, "@", r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}\b"),
    _form(HOST, "@", r"(?<![\w.-])\d{3,5}@[A-Za-z0-9][\w.-]*\w"),
    _form(USER, "@", r"(?<![\w.@-])[A-Za-z_][\w.-]*@(?!(?:GLIBC|GLIBCXX|GCC|CXXABI|CUDA|LIBC|plt|cpu|gpu|cuda|latest|"
          r"main|master|default|v?\d+)(?![\w.-])|GLIBC\w*_|[A-Z]+_?\d)[A-Za-z][\w-]*(?:\.[\w-]+)*", EXACT),
    _form(UUID, "-", r"(?<![\w-])(?!0{8}-)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\w-])"),
    _form(ADDRESS, "- :", r"(?<![\w:.-])(?:[0-9a-f]{2}:){5}[0-9a-f]{2}(?![\w:-])|"
          r"(?<![\w:.-])(?:[0-9a-f]{2}-){5}[0-9a-f]{2}(?![\w:-])"),
    _form(IDENTITY, "docker container crio libpod kubepods",
          r"\b(?:docker|containerd|crio|libpod|kubepods)[\w.:/-]{0,80}?[/:-](?P<x>[0-9a-f]{12,64})\b"),
    _form(IDENTITY, "serial",
          r"\bserial(?:[ _-]?(?:number|num|no\.?))?[\"'\s:=#\\]{1,24}(?P<x>(?=[\w.-]*\d)[\w.-]{6,})"),
    _form(IDENTITY, "machine boot container pod",
          r"\b(?:machine[ _-]?id|boot[ _-]?id|container(?:[ _-]?id)?|pod[ _-]?uid)[\"'\s:=#\\]{1,24}"
          r"(?P<x>(?=[\w.-]*\d)(?=[\w.-]*[a-z])[\w.-]{6,})"),
    _form(JOB, "pod job", r"\b(?:pod(?:[ _-]?name)?|job[ _-]?name)[\"'\s:=#\\]{1,24}(?P<x>(?=[\w.-]*[\d-])[\w.-]{5,})"),
    _form(JOB, "-",
          rf"(?<![\w-])[a-z][a-z0-9]*(?:-[a-z0-9]+){{0,6}}-(?=[a-z0-9-]*\d){_K8S}{{6,10}}-{_K8S}{{5}}(?![\w-])",
          EXACT),
    _form(PROCESS, "process", r"\bprocess(?:es)?\s+[\"']?(?P<x>[A-Za-z][\w./-]*)[\"']?\s*\((?:pid\s*)?\d+\)"),
    _form(PROCESS, "pid", r"\bpid\s*[:=]?\s*\d+\s*\((?P<x>[^()]{2,80})\)"),
    _form(ZONE, "/", r"(?<![\w/.])(?:Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Europe|Indian|Pacific)"
          r"/[A-Z][A-Za-z_-]+(?:/[A-Z][A-Za-z_-]+)?\b", EXACT),
    _form(ZONE, "_", r"\b[a-z]{2,3}_[A-Z]{2}\.(?:utf-?8|iso-?8859-?\d+)(?:@\w+)?", re.IGNORECASE),
)  # fmt: skip
"""What is said around the names of people, machines and places. The first that matches takes its text away from those
that follow."""

_KINDS = (
    (USER, re.compile(r"(?:^|_)(?:user(?:_?name)?|login|logname|author|email|owner|submit_?user)$", re.IGNORECASE)),
    (
        HOST,
        re.compile(
            r"(?:^|_)(?:host(?:_?name)?|node(?:_?name|_?list)|hostlist|machine_name|computer_?name|master_addr|fqdn|"
            r"submit_?host|endpoint|server|registry)$",
            re.IGNORECASE,
        ),
    ),
    (JOB, re.compile(r"(?:^|_)(?:pod(?:_?name)?|job_?name|namespace|rdzv_?id)$", re.IGNORECASE)),
    (
        IDENTITY,
        re.compile(
            r"(?:^|_)(?:serial(?:_?(?:number|no))?|machine_?id|boot_?id|container_?id|pod_?uid)$", re.IGNORECASE
        ),
    ),
    (
        LOCATION,
        re.compile(
            r"^(?:account_?name|user_?domain|datasets?_name)$|^(?:wandb|comet|neptune|mlflow|clearml|aim)_\w*(?:entity|team|workspace|"
            r"project|run|run_?name|run_?group|experiment|experiment_?name|name)$",
            re.IGNORECASE,
        ),
    ),
    (ZONE, re.compile(r"^(?:tz|time_?zone|locale|lang|language|lc_[a-z]+)$", re.IGNORECASE)),
)
_SCHEDULER = re.compile(r"(?:SLURM|PBS|LSB|SGE|K8S|KUBERNETES|POD|FLUX|COBALT)_[A-Z0-9_]+")
_STRONG = re.compile(
    r"(?:user_?name|host_?name|node_?name|node_?list|time_?zone|pod_?name|job_?name|machine_name|(?-i:[A-Z]_USER))$",
    re.IGNORECASE,
)
_PLACES = re.compile(
    r"(?:^|[_-])(?:model|data|datasets?|checkpoint|ckpt|weights|tokenizer|corpus)(?:[_-](?:name[_-]or[_-]path|path|dir|name|root|file))?$"
    r"|^(?:model|data|dataset|checkpoint)_(?:path|dir)$",
    re.IGNORECASE,
)
_NO_NAME = frozenset(
    (
        "cpu", "gpu", "cuda", "device", "host", "localhost", "true", "false", "none", "null", "memory", "user",
        "default", "unknown", "pageable", "pinned", "managed", "all", "any", "auto", "utc", "c", "posix",
    )
)  # fmt: skip


def kind_beside(name: str, sign: str, value: str) -> str | None:
    """What kind of private value stands beside a name in a text, as in `SLURM_JOB_USER=ada`; None if it is none."""
    bare = name.lstrip("-").replace("-", "_")
    if is_mark(value):
        return None
    if holds_secret(name, sign, value):
        return SECRET
    if NUMBER.fullmatch(value) or value.lower().strip("()[]{}.") in _NO_NAME or not any(c.isalpha() for c in value):
        return IDENTITY if _KINDS[3][1].search(bare) and len(value) >= 8 else None
    is_place = _PLACES.search(bare) and (name.startswith("-") or "path" in bare or "dir" in bare)
    if is_place and ("/" in value.replace("/redacted", "") or "\\" in value):
        return LOCATION
    if sign == " " and not name.startswith("--"):
        return None
    if _SCHEDULER.fullmatch(bare):
        kind = next((kind for kind, pattern in _KINDS if pattern.search(bare)), None)
        return kind or JOB
    if sign == ":" and not _STRONG.search(bare):
        return None
    return next((kind for kind, pattern in _KINDS if pattern.search(bare)), None)


def without_people(text: str, mark: Callable[[str, str], str]) -> str:
    """Replaces what has one of the forms; `mark` says by what, given the kind and the text."""
    return without_forms(text, lambda kind, found: found if is_mark(found) else mark(kind, found), FORMS)


_GPU = re.compile(r"\b(?P<kind>GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)
_ESCAPE = re.compile(r"\\+u00([0-7][0-9A-Fa-f])")
"""A sign of ASCII as JSON may write it."""
_ENCODED = re.compile(r"[^\s\"'<>]*%[0-9A-Fa-f]{2}[^\s\"'<>]*")
_ASSIGNED = re.compile(r"(?P<name>\b(?:HOST(?:NAME)?|USER(?:NAME)?|LOGNAME)=)(?P<value>[^\s;,\0]+)")
_COMMON = frozenset(
    (
        "root", "user", "users", "home", "ubuntu", "debian", "admin", "test", "data", "work", "local", "localhost",
        "jovyan", "runner", "docker", "python", "nvidia", "torch", "app", "node", "server", "build", "public", "guest",
        "default", "none", "unknown", "redacted", "linux", "jetson", "orin", "desktop", "cpu", "gpu", "host", "device",
    )
)  # fmt: skip
"""Words that name nobody and may stand in any text."""
_SHORTEST_WORD = 3


class Redactor:
    """Redacts the recordings of one person: what it learns from one file it also removes from the next."""

    def __init__(self, users: tuple[str, ...] = (), hosts: tuple[str, ...] = (), *, names: bool = False) -> None:
        self.names = names
        """Whether names of kernels, operators, ranges and functions are treated as any other text."""
        self.counts: Counter[str] = Counter()
        self.unjudged: dict[str, str] = {}
        """What may be private and was left, with the reason."""
        self._marks = Marks()
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
        if is_mark(word):
            self._marks.reserve(kind, word)
            return
        names = {word, word.split(".")[0]} if kind == HOST and not IPV4.fullmatch(word) else {word}
        for name in sorted(names):
            common = name.lower() in _COMMON or len(name) < _SHORTEST_WORD or name.isdecimal()
            if not common and name not in self._words:
                self._words[name] = kind
                self._pattern = None

    def learn_from_path(self, path: str) -> None:
        """Learns the user in whose home folder a path lies."""
        for match in PERSON.finditer(path):
            self.learn(match["user"], USER)

    def learn_from_environment(self, text: str) -> None:
        """Learns the user and the machine from a block of environment variables."""
        for match in _ASSIGNED.finditer(text):
            self.learn(match["value"], HOST if match["name"].startswith("HOST") else USER)
        self.learn_from_path(text)

    def count(self, kind: str, times: int = 1) -> None:
        """Counts something that was removed."""
        self.counts[kind] += times

    def mark(self, kind: str, text: str) -> str:
        """What stands for a text that is private as a whole, counted; a mark of an earlier copy stays."""
        if is_mark(text):
            self._marks.reserve(kind, text)
            return text
        self.count(kind)
        return self._marks.mark(kind, text)

    def name(self, text: str) -> str:
        """Removes only paths, secrets, addresses and UUIDs; for names of kernels, operators, ranges and functions."""
        if ";" in text and ".py" in text:  # a stack
            return ";".join(self.name(frame) for frame in text.split(";"))
        if self.names:
            return self._anything(text)
        if match := FRAME.fullmatch(text):
            return self.path(match["path"]) + match["rest"]
        left = without_paths(self._secrets(text), self.path, everywhere=False)
        if left.count(".") > 2:
            left = without_four(left, self.mark)
        if not self._marks.trying and self._is_told(left):
            self.unjudged.setdefault(left, IN_NAME)
        return left

    def value(self, text: str) -> str:
        """Redacts any other text."""
        if is_environment(text):
            self.learn_from_environment(text)
            self.count(ENVIRONMENT)
            return HIDDEN
        left = self._anything(text)
        if looks_random(left) and not self._marks.trying:
            self.unjudged.setdefault(left, RANDOM)
        return left

    def would_change(self, text: str) -> bool:
        """Whether `value` would remove something from a text; counts nothing and numbers no path."""
        with self._trying():
            return self.value(text) != text

    def is_harmless(self, text: str) -> bool:
        """Whether a text stays as it is, and nobody need look at it."""
        return not self.would_change(text) and not looks_random(text)

    def words(self, text: str) -> str:
        """The text without the known names of users and machines."""
        if self._pattern is None:
            names = "|".join(re.escape(word) for word in sorted(self._words, key=len, reverse=True))
            self._pattern = re.compile(rf"(?<![A-Za-z0-9])(?:{names})(?![A-Za-z0-9])" if names else r"(?!)")
        return self._pattern.sub(lambda match: self.mark(self._words[match[0]], match[0]), text)

    def command(self, words: tuple[str, ...]) -> str:
        """A command line as one text, without secrets and paths."""
        return self.value(" ".join(masked(words)))

    def path(self, path: str) -> str:
        """Redacts a whole path; relative paths and those of the system stay."""
        self.learn_from_path(path)
        if (SYSTEM.match(path) and not path.startswith("/dev/shm")) or not is_absolute(path):
            return path
        if path == PLACE or path.startswith(f"{PLACE}/"):  # in the copy of a copy
            return path
        tail = kept_part(path)
        folder = path[: len(path.rstrip("\\/")) - len(tail)] if tail else path
        number = self._marks.number(f"folder of {tail}", folder)
        self.count(PATH)
        tail = self.words(self._secrets(tail.replace("\\", "/")))
        return "/".join(part for part in (PLACE, str(number) if number > 1 else "", tail) if part)

    def uuid(self, text: str) -> str:
        """Replaces a GPU's UUID by one that tells only which of the GPUs it is."""
        return _GPU.sub(self._gpu, text)

    def _anything(self, text: str, depth: int = 3) -> str:
        """Redacts a text by everything that is known of private texts."""
        if ";" in text and ".py" in text:  # a stack
            return ";".join(self._anything(frame, depth) for frame in text.split(";"))
        if match := FRAME.fullmatch(text):
            return self.path(match["path"]) + self._anything(match["rest"], depth)
        if "\\u00" in text and depth:
            text = self._escaped(text, depth - 1)
        if "%" in text and depth:
            text = _ENCODED.sub(lambda match: self._encoded(match[0], depth - 1), text)
        if "/" in text or "\\" in text:
            self.learn_from_path(text)
        text = self._secrets(text)
        if depth and len(text) >= SHORTEST:
            text = without_encoded(text, lambda said: self._is_told(said, depth - 1), partial(self.mark, SECRET))
        text = assigned(text, self._beside)
        text = without_people(text, self.mark)
        text = without_paths(text, self.path, everywhere=True)
        return self.words(without_hosts(text, self.mark))

    def _escaped(self, text: str, depth: int) -> str:
        """A text of JSON within the text, whose letters may be written as escapes."""
        plain = _ESCAPE.sub(lambda match: json.dumps(chr(int(match[1], 16)))[1:-1], text)
        left = self._anything(plain, depth)
        return text if left == plain else left

    def _encoded(self, text: str, depth: int) -> str:
        plain = unquote(text, errors="surrogateescape")
        left = self._anything(plain, depth)
        return text if left == plain else quote(left, safe="/:*=&?@,;+#", errors="surrogateescape")

    def _beside(self, name: str, sign: str, value: str) -> str | None:
        kind = kind_beside(name, sign, value)
        if kind is None:
            return None
        if kind in (USER, HOST):
            self.learn(value, kind)
        return self.mark(kind, value)

    def _is_told(self, text: str, depth: int = 3) -> bool:
        """Whether something would be removed from a text if it were a value."""
        with self._trying():
            return self._anything(text, depth) != text

    @contextmanager
    def _trying(self) -> Iterator[None]:
        """Counts nothing and numbers nothing for as long as it is open."""
        counts, trying = self.counts, self._marks.trying
        self.counts, self._marks.trying = Counter(), True
        try:
            yield
        finally:
            self.counts, self._marks.trying = counts, trying

    def _secrets(self, text: str) -> str:
        if len(text) > 9:
            text = without_forms(text, self.mark)
        return self.uuid(text) if "-" in text else text

    def _gpu(self, match: re.Match[str]) -> str:
        known = match[0].lower()
        if re.fullmatch(r"(?:gpu|mig)-00000000-0000-0000-0000-\d{12}", known):
            return match[0]
        number = len(self._gpus) if self._marks.trying else self._gpus.setdefault(known, len(self._gpus))
        self.count(UUID)
        return f"{match['kind'].upper()}-00000000-0000-0000-0000-{number:012}"
