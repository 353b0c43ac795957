"""Keys and tokens that are told by how they begin: each maker gives its own a prefix."""

from __future__ import annotations

import re
from typing import NamedTuple


class Form(NamedTuple):
    """One form; the group `x` of its pattern is what must not be shown, or the whole match if there is none."""

    signs: tuple[str, ...]
    """One of these stands, in lower case, in any text that has the form: cheaper to look for than the pattern."""
    pattern: re.Pattern[str]


EXACT = re.RegexFlag(0)


def form(signs: str, pattern: str, flags: re.RegexFlag = re.IGNORECASE) -> Form:
    """A form from its signs, with blanks between them, and its pattern."""
    return Form(tuple(signs.split()), re.compile(pattern, flags))


_PREFIXES = (
    "pplx- xai- lsv2_pt_ lsv2_sk_ wandb_v1_ nfp_ lin_api_ ntn_ figd_ figo_ shpat_ shpca_ shpss_ shppa_ glsa_ PMAK- "
    "NRAK- NRJS- ATATT3x ATCTT3x tskey- CCIPAT_ CCIPRJ_ xkeysib- xsmtpsib- KGAT_ hvs. hvb. hvr. dp.pt. dp.st. dp.ct. "
    "dp.sa. dop_v1_ doo_v1_ dor_v1_ sbp_ rubygems_ rpa_ r8_ ATBB secret_ sq0atp- sq0csp- pscale_tkn_ pscale_pw_ "
    "api_org_ dt0c01. bkua_ tfp_ cfut_ cfat_ rnd_ pul- ops_ey sntrys_ phc_ phx_"
)
"""What stands before at least 16 letters, digits and dashes: one is a digit, and 12 stand together as in no name."""

FORMS = (
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
    form("dapi key- ac sk", r"(?<![\w-])(?:dapi|key-|AC|SK)[0-9a-f]{32}(?:-\d+)?(?![\w-])", EXACT),
    form(":aa", r"(?<!\w)\d{8,10}:AA[\w-]{30,}", EXACT),
    form("eyj", r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+", EXACT),
    # keys without the lines around them: OpenSSH's, those of PKCS, public ones, which have their owner's name
    form("b3blbnnzac1rzxktdje", r"b3BlbnNzaC1rZXktdjE[\w+/=]*", EXACT),
    form("mii", r"(?<![\w+/])MII[A-Z][\w+/]{40,}={0,2}", EXACT),
    form("aaaab3nzac1 aaaac3nzac1 aaaae2vjzhnh", r"AAAA(?:[BC]3NzaC1|E2VjZHNh)[\w+/=]{16,}", EXACT),
    form("|1|", r"\|1\|[\w+/]{8,}={0,2}\|[\w+/]+={0,2}", EXACT),
    form("sha256:", r"\bSHA256:[\w+/]{43}(?![\w+/])", EXACT),
)  # fmt: skip
