"""The forms in which people, machines and places are named in a text, by what is said around them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tracetui.collectors.machine.masking import EXACT, NUMBER, form, holds_secret, without_forms
from tracetui.collectors.scrubbing.marks import (
    ADDRESS,
    HOST,
    IDENTITY,
    JOB,
    LOCATION,
    PROCESS,
    SECRET,
    USER,
    UUID,
    ZONE,
    is_mark,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracetui.collectors.machine.masking import Form

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
"""In this order: the first that matches takes its text away from those that follow."""

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
    (JOB, re.compile(r"(?:^|_)(?:pod(?:_?name)?|job_?name|namespace)$", re.IGNORECASE)),
    (
        IDENTITY,
        re.compile(
            r"(?:^|_)(?:serial(?:_?(?:number|no))?|machine_?id|boot_?id|container_?id|pod_?uid)$", re.IGNORECASE
        ),
    ),
    (
        LOCATION,
        re.compile(
            r"^(?:account_?name|user_?domain)$|^(?:wandb|comet|neptune|mlflow|clearml|aim)_\w*(?:entity|team|workspace|"
            r"project|run|run_?name|run_?group|experiment|experiment_?name|name)$",
            re.IGNORECASE,
        ),
    ),
    (ZONE, re.compile(r"^(?:tz|time_?zone|locale|lang|language|lc_[a-z]+)$", re.IGNORECASE)),
)
_SCHEDULER = re.compile(r"(?:SLURM|PBS|LSB|SGE|K8S|KUBERNETES|POD|FLUX|COBALT)_[A-Z0-9_]+")
_STRONG = re.compile(
    r"(?:user_?name|host_?name|node_?name|node_?list|time_?zone|pod_?name|job_?name|machine_name)$", re.I
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
    if _PLACES.search(bare) and (name.startswith("-") or "path" in bare or "dir" in bare):
        return LOCATION if "/" in value.replace("/redacted", "") or "\\" in value else None
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
