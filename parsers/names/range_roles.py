"""What the name of a range says: which part of the program it stands for, and whether it is one of many alike."""

from __future__ import annotations

import re
from collections.abc import Sequence

EVALUATION = "evaluation"
ROLES = {
    "softmax": re.compile(r"softmax"),
    "matmul": re.compile(r"matmul|gemm|\bbmm\b|einsum|\bqk\b|\bscores?\b"),
    "attention": re.compile(r"attention|\battn\b"),
    "backward": re.compile(r"backward|\bbwd\b"),
    "optimizer": re.compile(r"\b(optim(izer)?|opt)\b(?!.*zero)"),
    "loss": re.compile(r"\bloss\b|criterion"),
    EVALUATION: re.compile(r"\beval(uation)?\b|\bvalid(ation)?\b"),
    "warmup": re.compile(r"\bwarm ?up\b"),
    "forward": re.compile(r"forward|\bfwd\b"),
}
"""The role of a range by the words of its name; the first match counts."""
PARTS_OF_STEPS = frozenset({"softmax", "matmul", "attention", "backward", "optimizer", "loss"})
"""Roles of ranges that are only ever a part of a step; a forward pass may be all of it."""
NUMBERED = re.compile(r"[#_\-\s]*\d+$")
"""What tells one instance of a range from the next."""
MADE_BY_LIBRARY = re.compile(
    r"(Optimizer\.|DistributedDataParallel|(nccl|gloo|mpi|ucc|xccl|hccl|c10d):|enumerate\(Data|[\w.]+::)"
)
"""Ranges that a library sets around a part of its work."""
COMPILED = re.compile(r"## Call CompiledFxGraph (\w{1,8})\w* ##")
"""What Inductor calls its calls of a graph by: a hash of 52 letters."""
MADE_BY_TORCH = re.compile(
    r"(Optimizer\.|DistributedDataParallel|nccl:|gloo:|enumerate\(DataLoader\)|ProfilerStep|\w+::|## Call Compiled)"
)
"""Ranges that PyTorch and what runs in it set, not the user."""
_LAYER = re.compile(r"\b(layers?|(de|en)coders?|blocks?|stages?|experts?)\b")
_SUBMODULE = re.compile(r"(?:\w+\.)+#(?:\.[\w#]+)*")
"""PyTorch's own names of modules in a list: ``transformer.h.#``."""
_WORD = re.compile(r"[^\W\d_]{2}|[^\x00-\x7f]")
_STEP = re.compile(r"(train|training|optimization)? ?(step|iter|iteration|batch)( \d+)?")
_WORDS = re.compile(r"[^a-z0-9]+")
_WORDS_OF_LINES = re.compile(r"[^a-z0-9\n]+")
_COUNTED = re.compile(
    r"(?:[a-z]+[\s_.\-]+)*(?:steps?|iters?|iterations?|(?:mini)?batch(?:es)?)"
    r"(?:\s*[#:=_\-(\[]\s*|\s+)?#[)\]]?(?:\s*(?:/|of)\s*#)?",
    re.IGNORECASE,
)
"""A word for an iteration with its number, as `without_numbers` leaves it: ``train step: #/#``."""
NUMBERS = (
    (r"(?i)(step|iter|iteration|batch|epoch)\d+", "${1}#"),
    (r"(^|[^A-Za-z0-9#])#?\d+", "${1}#"),
)
"""What turns the numbers of a name into ``#``, in the words of Polars' `str.replace_all`.

A number that is part of a word (``float32``, ``conv2d``) stays; one that counts iterations may touch its word.
"""
_TAIL = re.compile(r"[\s_.:=/\-(\[#]*#[)\]]?$")


def role_of(name: str) -> str | None:
    """The role of a range of this name; None where the name doesn't say, and for operators (``aten::softmax``)."""
    if "::" in name:
        return None
    words = _words(name)
    if _STEP.fullmatch(words):
        return "step"
    return next((role for role, pattern in ROLES.items() if pattern.search(words)), None)


def _words(name: str, between: re.Pattern[str] = _WORDS) -> str:
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return " ".join(between.split(spaced.lower()))


def any_of_role(names: Sequence[str], role: str) -> bool:
    """Whether one of these names has this role, which is none of steps, with or without the number at its end."""
    both = [*names, *(NUMBERED.sub("", name) for name in names)]
    # one search through all names first, since most recordings have none
    lines = "\n".join(name.replace("\n", " ") for name in both)
    if not ROLES[role].search(_words(lines, _WORDS_OF_LINES)):
        return False
    return any(role_of(name) == role for name in both)


def means_step(label: str) -> bool:
    """Whether a name without its numbers (``train step: #/#``) is one for an iteration of the program."""
    role = role_of(label.replace("#", " 1").strip())
    return role == "step" or (role is None and _COUNTED.fullmatch(label.strip()) is not None)


def is_layer(label: str) -> bool:
    """Whether a name without its numbers is one for a part of a model (``DecoderLayer_#``), which repeats in a pass.

    A number without a word (``h_#``, ``#``) is what lists of modules call their parts; it says no more than that.
    """
    if "#" in label and not _WORD.search(label):
        return True
    return "::" not in label and (_LAYER.search(_words(label)) or _SUBMODULE.fullmatch(label.strip())) is not None


def is_pass(label: str) -> bool:
    """Whether it is one for a pass through the model, forward or backward."""
    return role_of(label.replace("#", " 1").strip()) in ("forward", "backward")


def spoken(label: str) -> str:
    """A name without its numbers as people say it: ``train step`` of ``train step: #/#``."""
    text = COMPILED.sub(r"compiled graph \1", label.strip())
    while (shorter := _TAIL.sub("", text)) not in (text, ""):
        text = shorter
    return text.strip() or label
