"""The options of models: their meaning, the values they accept, and their defaults."""

from __future__ import annotations

import re
from typing import Any

from .errors import WrongOption
from .parallel import KINDS

DTYPES = ("fp32", "fp16", "bf16", "tf32")
ATTENTION = ("steps", "fused")
COMMON = ("dtype", "device", "train", "compile", "workers", "seed", "parallel")
"""The options that every model accepts, besides batch."""
COMMON_DEFAULTS: dict[str, Any] = {
    "dtype": "fp32",
    "device": "cpu",
    "train": False,
    "compile": False,
    "workers": None,
    "seed": 0,
    "parallel": None,
}
WORDS = {
    "batch": "samples in a step",
    "img_size": "height and width of the images, in pixels",
    "patch": "height and width of a patch, in pixels",
    "depth": "blocks of the model",
    "ctx": "tokens in a sequence",
    "attention": "steps (scores, softmax and product, one after another) or fused (PyTorch's own)",
    "keep": "share of the tokens that each reduction keeps, above 0 and up to 1 (1: no reduction)",
    "reduction_loc": "blocks, counted from 0, in which tokens are dropped: 3,6,9",
    "dtype": "fp32, fp16 or bf16 (autocast), tf32",
    "device": "cpu, cuda or cuda:N",
    "train": "forward, backward and AdamW instead of the forward pass only",
    "compile": "through torch.compile",
    "data": "random, or imagefolder:PATH",
    "workers": "processes of a DataLoader (0: none of its own); not given: one batch, made before the first step",
    "seed": "of the weights and of random data",
    "parallel": "ddp, fsdp, pipeline or tensor: how the processes of --ranks share a training step",
}
_LEAST = {"batch": 1, "img_size": 1, "patch": 1, "depth": 1, "ctx": 1, "workers": 0, "seed": 0}


def resolve(name: str, understood: tuple[str, ...], defaults: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of one build: the checked given ones over the defaults.

    Args:
        name: name of the model, for the error.
        understood: the options that the model accepts.
        defaults: the values of options that were not given.
        given: option to value; null means that it was not given.

    Raises:
        WrongOption: an option that the model does not accept (the error lists those it does) or a wrong value.
    """
    options = dict(defaults)
    for option, value in given.items():
        if value is None:
            continue
        if option not in understood:
            raise WrongOption(f"{name} takes no {option!r}; it takes {', '.join(understood)}")
        options[option] = _checked(option, value)
    return options


def check_patch(options: dict[str, Any]) -> None:
    """Raises WrongOption if a patch is larger than the image."""
    if options["patch"] > options["img_size"]:
        raise WrongOption(f"a patch of {options['patch']} px does not fit into an image of {options['img_size']} px")


def _checked(option: str, value: Any) -> Any:
    if option in _LEAST:
        return _whole(option, value, _LEAST[option])
    if option in ("train", "compile"):
        return bool(value)
    check = {"keep": _share, "reduction_loc": _blocks, "attention": _attention, "dtype": _dtype, "data": _data,
             "device": _device, "parallel": _parallel}[option]  # fmt: skip
    return check(option, value)


def _whole(option: str, value: Any, least: int) -> int:
    try:
        number = int(value)
        right = number == float(value) and number >= least
    except (TypeError, ValueError, OverflowError):
        number, right = 0, False
    if not right:
        raise WrongOption(f"{option} is {value!r}, but must be a whole number of at least {least} ({WORDS[option]})")
    return number


def _share(option: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0.0
    if not 0 < number <= 1:
        raise WrongOption(f"{option} is {value!r}, but must be above 0 and at most 1 ({WORDS[option]})")
    return number


def _blocks(option: str, value: Any) -> tuple[int, ...]:
    parts = value.split(",") if isinstance(value, str) else [value] if isinstance(value, int) else list(value)
    return tuple(sorted({_whole(option, part, 0) for part in parts if part != ""}))


def _attention(option: str, value: Any) -> str:
    if value not in ATTENTION:
        raise WrongOption(f"{option} is {value!r}, but must be one of {', '.join(ATTENTION)}")
    return str(value)


def _parallel(option: str, value: Any) -> str:
    if value not in KINDS:
        raise WrongOption(f"{option} is {value!r}, but must be one of {', '.join(KINDS)}")
    return str(value)


def _dtype(option: str, value: Any) -> str:
    if value not in DTYPES:
        raise WrongOption(f"{option} is {value!r}, but must be one of {', '.join(DTYPES)}")
    return str(value)


def _data(option: str, value: Any) -> str:
    text = str(value)
    kind, _, path = text.partition(":")
    if text != "random" and not (kind == "imagefolder" and path):
        raise WrongOption(f"{option} is {value!r}, but must be random or imagefolder:PATH")
    return text


def _device(option: str, value: Any) -> str:
    if not re.fullmatch(r"cpu|cuda(:\d+)?", str(value)):
        raise WrongOption(f"{option} is {value!r}, but must be {WORDS[option]}")
    return str(value)
