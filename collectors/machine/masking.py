"""Finds keys, tokens and passwords in texts, and masks them: one table, for what is recorded and what is shared.

Kept by hand: libraries of patterns are made for source code, where secrets stand in quotes
(benchmarks/libraries.md). What a name says (`token=`, `--api-key`) tells most here, and the table also holds the names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

MASK = "***"
SECRET = "secret"


class Form(NamedTuple):
    """One form; the group `x` of its pattern is what must not be shown, or the whole match if there is none."""

    signs: tuple[str, ...]
    """One of these stands, in lower case, in any text that has the form: cheaper to look for than the pattern."""
    pattern: re.Pattern[str]
    kind: str = SECRET
    """Of what has it (`scrubbing.marks`)."""

    def replaced(self, text: str, mark: Callable[[str, str], str]) -> str:
        """The text with what has the form replaced; `mark` says by what, given the kind and itself."""
        group: int | str = "x" if "x" in self.pattern.groupindex else 0

        def changed(match: re.Match[str]) -> str:
            start, end = match.start(group) - match.start(), match.end(group) - match.start()
            return match[0][:start] + mark(self.kind, match[group]) + match[0][end:]

        return self.pattern.sub(changed, text)


EXACT = re.RegexFlag(0)


def form(signs: str, pattern: str, flags: re.RegexFlag = re.IGNORECASE, kind: str = SECRET) -> Form:
    """A form from its signs, with blanks between them, and its pattern."""
    return Form(tuple(signs.split()), re.compile(pattern, flags), kind)


_PREFIXES = (
    "pplx- xai- lsv2_pt_ lsv2_sk_ wandb_v1_ nfp_ lin_api_ ntn_ figd_ figo_ shpat_ shpca_ shpss_ shppa_ glsa_ PMAK- "
    "NRAK- NRJS- ATATT3x ATCTT3x tskey- CCIPAT_ CCIPRJ_ xkeysib- xsmtpsib- KGAT_ hvs. hvb. hvr. dp.pt. dp.st. dp.ct. "
    "dp.sa. dop_v1_ doo_v1_ dor_v1_ sbp_ rubygems_ rpa_ r8_ ATBB secret_ sq0atp- sq0csp- pscale_tkn_ pscale_pw_ "
    "api_org_ dt0c01. bkua_ tfp_ cfut_ cfat_ rnd_ pul- ops_ey sntrys_ phc_ phx_"
)
"""What stands before at least 16 letters, digits and dashes: one is a digit, and 12 stand together as in no name."""

_TOKENS = (
    form("hf_", r"\bhf_[A-Za-z0-9]{16,}", EXACT),
    form("ghp_ gho_ ghu_ ghs_ ghr_", r"\bgh[pousr]_[A-Za-z0-9]{20,}", EXACT),
    form("github_pat_", r"\bgithub_pat_\w{20,}", EXACT),
    form("glpat- gldt- glrt-", r"\bgl(?:pat|dt|rt)-[\w-]{16,}", EXACT),
    form("sk- pk-", r"(?<![\w-])[sp]k-[\w-]{16,}", EXACT),
    # the secret of an access key usually stands beside it
    form(
        "akia asia",
        r"\bA(?:KIA|SIA)[0-9A-Z]{16}(?:[\s:,;|/\"'\\]{1,6}(?:\w*secret\w*[\"'\s:=\\]{1,6})?[A-Za-z0-9/+]{40}(?![\w/+]))?",
        EXACT,
    ),
    form("fwogzxivyxdz iqojb3jpz2lu", r"(?:FwoGZXIvYXdz|IQoJb3JpZ2lu)[\w/+=]{16,}", EXACT),
    form("aiza", r"\bAIza[\w-]{30,}", EXACT),
    form("ya29.", r"\bya29\.[\w.-]{16,}", EXACT),
    form("1//0", r"(?<![\w/])1//0[\w-]{20,}", EXACT),
    form("xox", r"\bxox[a-z]-[\w-]{10,}", EXACT),
    form("npm_", r"\bnpm_[A-Za-z0-9]{20,}", EXACT),
    form("pypi-", r"\bpypi-[\w-]{16,}", EXACT),
    form("dckr_pat_ dckr_oat_", r"\bdckr_[po]at_[\w-]{16,}", EXACT),
    form("sg.", r"\bSG\.[\w-]{12,}\.[\w-]{12,}", EXACT),
    form("_live_ _test_", r"\b[sr]k_(?:live|test)_\w{10,}", EXACT),
    form("nvapi- gsk_ whsec_ age-secret-key-", r"\b(?:nvapi-|gsk_|whsec_|AGE-SECRET-KEY-)[\w-]{16,}", EXACT),
    form("atlasv1.", r"\b\w+\.atlasv1\.[\w-]{16,}", EXACT),
    form(
        _PREFIXES.lower(),
        rf"(?<![\w.-])(?:{'|'.join(map(re.escape, _PREFIXES.split()))})(?=[\w-]*\d)(?=[\w-]*[A-Za-z0-9]{{12}})"
        r"[\w-]{16,}",
        EXACT,
    ),
    form("dapi ac sk", r"(?<![\w-])(?:dapi|AC|SK)[0-9a-f]{32}(?:-\d+)?(?![\w-])", EXACT),
    form("key-", r"(?<![\w-])key-(?=[A-Za-z]*\d)[0-9A-Za-z]{32}(?![\w-])", EXACT),
    form("s.", r"(?<![\w./-])s\.(?=[a-zA-Z]*\d)(?=[a-z\d]*[A-Z])(?=[A-Z\d]*[a-z])[A-Za-z0-9]{24,}(?![\w-])", EXACT),
    # a bot of Discord: its number in base64, which has few letters, then when and a signature
    form(".", r"(?<![\w.-])(?:[MNO][DTjz][AEIMQUYcgk][w-z0-5]){5,6}\w{0,3}\.[\w-]{6}\.[\w-]{20,}", EXACT),
    form(":aa", r"(?<!\w)\d{8,10}:AA[\w-]{30,}", EXACT),
    form("eyj", r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+", EXACT),
    # keys without the lines around them: OpenSSH's, those of PKCS, public ones, which have their owner's name
    form("b3blbnnzac1rzxktdje", r"b3BlbnNzaC1rZXktdjE[\w+/=]*", EXACT),
    form("mii", r"(?<![\w+/])MII[A-Z][\w+/]{40,}={0,2}", EXACT),
    form("aaaab3nzac1 aaaac3nzac1 aaaae2vjzhnh", r"AAAA(?:[BC]3NzaC1|E2VjZHNh)[\w+/=]{16,}", EXACT),
    form("|1|", r"\|1\|[\w+/]{8,}={0,2}\|[\w+/]+={0,2}", EXACT),
    form("sha256:", r"\bSHA256:[\w+/]{43}(?![\w+/])", EXACT),
)  # fmt: skip
"""Keys and tokens that are told by how they begin: each maker gives its own a prefix."""

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
    *_TOKENS,
    form("authorization", r"\b(?:proxy-)?authorization[\"'\\]*\s*[:=]\s*[\"'\\]*(?P<x>(?:[a-z]+\s+)?[^\s\"'\\,;]+)"),
    form("bearer basic token", r"\b(?:bearer|basic|token)\s+(?P<x>(?=[\w+/.~-]*(?:\d|[a-z][A-Z]))[\w+/.~-]{10,}=*)"),
    form("cookie", r"\b(?:set-)?cookie[\"'\\]*\s*[:=]\s*[\"'\\]*(?P<x>[^\n\"'\\]+)"),
    # of an address with a login only the scheme and the host are kept
    form("://", r"\b[a-z][a-z0-9+.-]{0,20}://(?P<x>[^/@\s]+)@"),
    form("login", r"\blogin\s+(?P<x>\S+\s+(?:account\s+\S+\s+)?password\s+\S+)"),
    form("key", r"\bkeys?[\"'\\\s:=]{1,24}(?P<x>[0-9a-f]{32,})\b"),
    form("_key", r"(?-i:\b[A-Z][A-Z0-9_]*_KEYS?)[\"'\\\s:=]{1,24}(?P<x>[0-9a-f]{16,})\b"),
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


def without_blocks(text: str, mark: Callable[[str, str], str]) -> str:
    """Replaces the keys that stand in a text over several lines; of a text that is then looked at line by line."""
    return FORMS[0].replaced(text, mark)


def without_forms(text: str, mark: Callable[[str, str], str], forms: Iterable[Form] = FORMS) -> str:
    """Replaces what has one of the forms; `mark` says by what, given the kind and the text."""
    lowered = text.lower()
    for each in forms:
        if any(sign in lowered for sign in each.signs):
            text = each.replaced(text, mark)
    return text


_WORD = re.compile(r"(-{0,2}[A-Za-z_][\w.-]*)(=|:)(.+)", re.DOTALL)
_SHORT = re.compile(r"-p(?=.*\d)(?=.*[a-z]).{6,}", re.DOTALL)
"""``-pPASSWORD``, as clients of databases take it; ``-print0`` and ``-pthread`` have no number, or only a short one."""


def masked(words: Sequence[str]) -> tuple[str, ...]:
    """Returns a command's words with the value of each option like ``--token`` replaced by ``***``.

    A number is not a secret: ``--max-token 512`` stays.
    """
    found = []
    follows = False
    for word in words:
        if follows and not word.startswith("-"):
            found.append(word if NUMBER.fullmatch(word) else MASK)
            follows = False
            continue
        follows = False
        parts = _WORD.fullmatch(word)
        if parts and names_secret(parts[1]) and not NUMBER.fullmatch(parts[3]):
            found.append(f"{parts[1]}{parts[2]}{MASK}")
            continue
        follows = word.startswith("-") and not parts and names_secret(word)
        found.append(f"-p{MASK}" if _SHORT.fullmatch(word) else without_secrets(word))
    return tuple(found)


def masked_line(line: str) -> str:
    """A command line in one text, without the values of such options and without what looks like a secret."""
    return " ".join(masked(line.split(" ")))


def without_secrets(text: str) -> str:
    """A text, such as one word with a whole command in it, without what looks like a secret."""
    text = without_forms(text, lambda *_: MASK)
    return assigned(text, lambda name, sign, value: MASK if holds_secret(name, sign, value) else None)
