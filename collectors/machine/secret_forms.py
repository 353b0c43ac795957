"""The forms in which keys, tokens and passwords stand in a text: one table, for what is recorded and what is shared.

Kept by hand: libraries of patterns are made for source code, where secrets stand in quotes (docs/architecture.md,
Libraries). What a name says (`token=`, `--api-key`) tells most here, and the table also holds the names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tracetui.collectors.machine import token_forms
from tracetui.collectors.machine.token_forms import form

if TYPE_CHECKING:
    from collections.abc import Callable

_NAMES = (
    r"(?:token|secret|(?:pg|my|db|ssh|http|ftp|smtp|sudo)?passw(?:or)?d|passphrase|pass|pwd|credentials?|"
    r"auth(?:orization|entication)?|bearer|cookie|dsn|api[-_]?key|"
    r"(?:access|private|secret|signing|encryption|license|wandb|account|storage|client|ssh|shared)[-_]?(?:access)?[-_]?"
    r"key(?:[-_]data)?|certificate[-_]authority[-_]data|client[-_]certificate[-_]data|shared[-_]?access[-_]?signature)s?"
)
_NAMED = re.compile(rf"(?:^|[-_.]){_NAMES}(?:$|[-_.](?!file|path|ids?$|len|size|count|num))", re.IGNORECASE)
_WEAK = re.compile(
    r"(?:^|[-_.])(?:pass|pwd|auth\w*|bearer|tokens?|session(?:_?id)?|sid|sig(?:nature)?|key|cookies?|dsn|credentials?)$",
    re.IGNORECASE,
)
"""Names that programs give to other things too: what follows must look like no word."""
_TEXT_ONLY = re.compile(r"(?:^|[-_.])(?:session(?:_?id)?|sid|sig(?:nature)?)$", re.IGNORECASE)
DEEPEST = 6
"""How deep values are looked for within values: `"a": "b=c=d"`."""
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


FORMS = (
    form("-----begin", r"-----BEGIN [A-Z0-9 ]{3,40}-----.*?(?:-----END [A-Z0-9 ]{3,40}-----|\Z)", re.DOTALL),
    *token_forms.FORMS,
    form("authorization", r"\b(?:proxy-)?authorization[\"'\\]*\s*[:=]\s*[\"'\\]*(?P<x>(?:[a-z]+\s+)?[^\s\"'\\,;]+)"),
    form("bearer basic token", r"\b(?:bearer|basic|token)\s+(?P<x>(?=[\w+/.~-]*(?:\d|[a-z][A-Z]))[\w+/.~-]{10,}=*)"),
    form("cookie", r"\b(?:set-)?cookie[\"'\\]*\s*[:=]\s*[\"'\\]*(?P<x>[^\n\"'\\]+)"),
    # of an address with a login only the scheme and the host are kept
    form("://", r"\b[a-z][a-z0-9+.-]{0,20}://(?P<x>[^/@\s]+)@"),
    form("login", r"\blogin\s+(?P<x>\S+\s+(?:account\s+\S+\s+)?password\s+\S+)"),
    form("key", r"\bkeys?[\"'\\\s:=]{1,24}(?P<x>[0-9a-f]{32,})\b"),
    form("hooks.slack.com webhook.office.com outlook.office.com .com/api/ logic.azure.com",
          r"\b(?:[\w.-]*hooks\.slack\.com|[\w.-]*webhook\.office\.com|[\w.-]{1,80}\.logic\.azure\.com|"
          r"outlook\.office\.com|discord(?:app)?\.com/api)/(?P<x>[^\s\"'<>\\]+)"),
    form("x-amz-signature= x-goog-signature= sig= signature= x-amz-credential= accesskeyid=",
          r"[?&](?P<x>[^\s\"'<>\\]*(?:signature|sig|credential|accesskeyid)=[^\s\"'<>\\]+)"),
    form("curl", r"\bcurl\b[^\n]{0,200}?\s(?:-u|--user|--proxy-user)[\s=]?[\"'\\]*(?P<x>[^\s\"'\\:]+:[^\s\"'\\]+)"),
    form("wandb", r"\bwandb\s+login\b[^\n]{0,80}?\s(?P<x>[0-9a-f]{40}|\w{40,})\b"),
    form("private_key_id", r"\bprivate_key_id[\"'\s:=\\]{1,24}(?P<x>[0-9a-f]{16,})"),
    form("mnemonic seed", r"\b(?:mnemonic|seed[ _-]phrase)[\"'\s:=\\]{1,24}(?P<x>(?:[a-z]{3,12} ){2,23}[a-z]{3,12})\b"),
    # a line of .pgpass
    form(":", r"(?<![\w.*-])(?:localhost|\*|[\w-]+(?:\.[\w-]+)+):(?:\d{4,5}|\*):[\w*-]+:[\w*.-]+:"
         r"(?P<x>[^\s:\"'\\]{6,})"),
    form("docker helm podman mysql mariadb psql mongo redis sshpass",
          r"\b(?:docker|helm|podman|mysql\w*|mariadb\w*|psql|mongo\w*|redis-cli|sshpass)\b[^\n]{0,200}?\s-p\s?"
          r"(?P<x>[^\s-][^\s\"'\\]*)"),
    form(" -p", r"\s-p(?P<x>(?=[^\s\"'\\=]*\d)(?=[^\s\"'\\=]*[a-z])[^\s\"'\\:=]{8,})"),
)  # fmt: skip

_SHUT = r"(?(deep)(?<!\\)|(?<!(?<!\\)\\))"
"""A quote behind a backslash ends no value that began without: `"note": "password=\\"x\\""`; one behind two may."""
_ASSIGNED = re.compile(
    r"(?<![\w.-])(?P<name>-{0,2}[A-Za-z_][\w.-]{1,63})(?P<shut>\\*[\"'])?\s?(?P<sign>=|:(?![:/\\]))\s?"
    rf"(?:(?P<q>(?P<deep>\\+)?[\"'])(?P<quoted>.+?){_SHUT}(?P=q)|(?P<bare>[^\s\"'&;,<>|\\\0]+))"
)
_OPTION = re.compile(
    r"(?<![\w-])(?P<name>--?[A-Za-z][\w-]{1,63})[\"']?,?\s+(?:(?P<q>[\"'])(?P<quoted>.+?)(?P=q)|(?P<bare>[^\s\"'-][^\s\"']*))"
)


def names_secret(name: str) -> bool:
    """Whether a key or option of this name may hold a secret: ``hf_token``, ``api-key``, also ``max_tokens``."""
    return bool(_NAMED.search(name.lstrip("-")))


def holds_secret(name: str, sign: str, value: str) -> bool:
    """Whether what stands beside a name in a text is a secret; a number is none: ``max_token=512``."""
    bare = name.lstrip("-")
    if NUMBER.fullmatch(value) or not value:
        return False
    if _TEXT_ONLY.search(bare) or (_WEAK.search(bare) and (sign == ":" or bare.islower()) and not name.startswith("-")):
        # `pass: forward`, `session=2` and `key: value` are what programs say of their work
        named = _NAMED.search(bare) is not None and sign == "="
        mixed = any(c.isdigit() for c in value) and any(c.isalpha() for c in value) and len(value) >= 6
        return mixed or (named and len(value) >= 8 and not value.isidentifier())
    return names_secret(bare)


def assigned(text: str, change: Callable[[str, str, str], str | None], depth: int = DEEPEST) -> str:
    """Replaces the values of `name=value`, `"name": "value"` and `--name value` by what `change` says.

    Args:
        text: any text.
        change: what stands in a value's place, by its name, the sign (``":`` after a name in quotes), and itself;
            None if it stays.
        depth: how deep values within values are looked at.
    """

    def one(match: re.Match[str]) -> str:
        group = "quoted" if match["bare"] is None else "bare"
        groups = match.groupdict()
        sign = ('"' if groups.get("shut") else "") + (groups.get("sign") or " ")
        new = change(match["name"], sign, match[group])
        if new is None:  # `"note": "password=x"`
            new = assigned(match[group], change, depth - 1) if depth else match[group]
        start, end = match.start(group) - match.start(), match.end(group) - match.start()
        return match[0][:start] + new + match[0][end:]

    if "=" in text or ":" in text:
        text = _ASSIGNED.sub(one, text)
    return _OPTION.sub(one, text) if "-" in text and " " in text else text


def without_blocks(text: str, mark: Callable[[str], str]) -> str:
    """Replaces the keys that stand in a text over several lines; of a text that is then looked at line by line."""
    return FORMS[0].pattern.sub(lambda match: _one(match, mark), text)


def without_forms(text: str, mark: Callable[[str], str]) -> str:
    """Replaces what has one of the forms; `mark` says by what."""
    lowered = text.lower()
    for signs, pattern in FORMS:
        for sign in signs:
            if sign in lowered:
                text = pattern.sub(lambda match: _one(match, mark), text)
                break
    return text


def _one(match: re.Match[str], mark: Callable[[str], str]) -> str:
    group: int | str = "x" if "x" in match.re.groupindex else 0
    start, end = match.start(group) - match.start(), match.end(group) - match.start()
    return match[0][:start] + mark(match[group]) + match[0][end:]
