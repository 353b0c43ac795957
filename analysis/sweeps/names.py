"""What the axes and numbers of a sweep are called: by `tracetui profile`, in file names, in tables."""

from __future__ import annotations

import re

AXES = {
    "batch": "batch batchsize bs b bsz nbatch minibatch samples",
    "img_size": "imgsize imagesize is img image res resolution inputsize imsize px",
    "ctx": "ctx context contextlength contextsize ctxlen seqlen seq sequencelength sequence tokens length maxlen",
    "keep": "keep keeprate keepratio keepshare kr",
    "token_reduction": "tokenreduction tr reduction withtr usetr reduced",
    "dtype": "dtype precision type amp datatype",
    "depth": "depth layers nlayers numlayers",
    "model": "model arch architecture network modelname",
    "compile": "compile compiled torchcompile",
    "workers": "workers numworkers nw",
    "variant": "variant method config configuration mode setting name experiment",
}
"""The name of each axis and its other spellings, in letters only."""
REPEATS = frozenset(("repeat", "rep", "run", "trial", "iteration", "iter", "repetition", "seed", "try", "attempt"))
"""What tells repeats of one point apart."""
_KNOWN = {spelling: axis for axis, spellings in AXES.items() for spelling in (*spellings.split(), axis)}


def letters(name: str) -> str:
    """Reduces a name to the letters that identify it: ``Batch Size`` and ``batch_size`` are ``batchsize``."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def axis_name(name: str) -> str:
    """The usual name of an axis; its own name where there is no usual one."""
    return _KNOWN.get(letters(name), name.strip())


def known_axis(name: str) -> str | None:
    """The usual name of an axis; None where there is none."""
    return _KNOWN.get(letters(name))


def is_repeat(name: str) -> bool:
    """Whether an axis only numbers the repeats."""
    return letters(name) in REPEATS
