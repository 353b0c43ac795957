"""The options of models: their meaning, the values they accept, and their defaults."""

from __future__ import annotations

import re
from typing import Any

from .errors import WrongOption

DTYPES = ("fp32", "fp16", "bf16", "tf32")
ATTENTION = ("steps", "fused")
CACHES = ("static", "growing")
COMPILE_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
OPTIMIZERS = ("loop", "foreach", "fused")
PARALLEL = ("ddp", "fsdp", "pipeline", "tensor")
"""DistributedDataParallel, FSDP2 (`fully_shard`), 1F1B stages, and tensor parallelism within each block."""
COMMON_DEFAULTS: dict[str, Any] = {
    "dtype": "fp32",
    "device": "cpu",
    "train": False,
    "optimizer": None,
    "compile": False,
    "compile_mode": None,
    "cuda_graphs": False,
    "workers": None,
    "seed": 0,
    "parallel": None,
}
"""The options that every model accepts, besides batch."""
WORDS = {
    "batch": "samples in a step",
    "img_size": "height and width of the images, in pixels",
    "patch": "height and width of a patch, in pixels",
    "depth": "blocks of the model",
    "ctx": "tokens in a sequence",
    "attention": "steps (scores, softmax and product, one after another) or fused (PyTorch's own)",
    "kv_cache": "static (room for all tokens from the start) or growing (torch.cat in each iteration)",
    "keep": "share of the tokens that each reduction keeps, above 0 and up to 1 (1: no reduction)",
    "reduction_loc": "blocks, counted from 0, in which tokens are dropped: 3,6,9",
    "dtype": "fp32, fp16 or bf16 (autocast), tf32",
    "device": "cpu, cuda or cuda:N",
    "train": "forward, backward and AdamW instead of the forward pass only",
    "optimizer": "how AdamW updates: loop (tensor by tensor), foreach or fused; not given: as PyTorch chooses",
    "compile": "through torch.compile",
    "compile_mode": "through torch.compile in this mode: default, reduce-overhead, max-autotune",
    "cuda_graphs": "captures the step once as a CUDA graph and replays it",
    "channels_last": "model and images in memory format channels_last (NHWC)",
    "data": "random, or imagefolder:PATH",
    "workers": "processes of a DataLoader (0: none of its own); not given: one batch, made before the first step",
    "seed": "of the weights and of random data",
    "parallel": "ddp, fsdp, pipeline or tensor: how the processes of --ranks share a training step",
}
_CHOICES = {
    "attention": ATTENTION,
    "kv_cache": CACHES,
    "dtype": DTYPES,
    "parallel": PARALLEL,
    "optimizer": OPTIMIZERS,
    "compile_mode": COMPILE_MODES,
}
_LEAST = {"batch": 1, "img_size": 1, "patch": 1, "depth": 1, "ctx": 1, "workers": 0, "seed": 0}


def resolve(name: str, defaults: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of one build: the checked given ones over the defaults.

    Args:
        name: name of the model, for the error.
        defaults: the options that the model accepts, with the values of those that were not given.
        given: option to value; null means that it was not given.

    Raises:
        WrongOption: an option that the model does not accept (the error lists those it does) or a wrong value.
    """
    options = dict(defaults)
    for option, value in given.items():
        if value is None:
            continue
        if option not in defaults:
            raise WrongOption(f"{name} takes no {option!r}; it takes {', '.join(defaults)}")
        options[option] = _checked(option, value)
    _check_together(name, options)
    return options


def _check_together(name: str, options: dict[str, Any]) -> None:
    """Fills in what an option implies, and refuses what can't be done together."""
    if options.get("compile_mode"):
        options["compile"] = True
    if options.get("optimizer") and not (options["train"] or options["parallel"]):
        raise WrongOption(f"{name}: optimizer is an option of training; add train")
    if "kv_cache" in options:
        refused = next((option for option in ("train", "compile", "parallel") if options[option]), None)
        if refused:
            raise WrongOption(f"{name} serves requests, eagerly or from a graph, in one process: it takes no {refused}")
        if options["cuda_graphs"] and options["kv_cache"] != "static":
            raise WrongOption(f"{name}: a graph is of fixed sizes, so cuda_graphs needs the static cache")
    if options.get("cuda_graphs"):
        if options["device"] == "cpu":
            raise WrongOption(f"{name}: cuda_graphs needs a CUDA device")
        if options["parallel"]:
            raise WrongOption(f"{name}: cuda_graphs captures the step of one process; leave parallel out")
        if options["train"] and options["dtype"] == "fp16":
            raise WrongOption(f"{name}: the loss scaling of fp16 reads a value in each step, which no graph can hold")


def check_patch(options: dict[str, Any]) -> None:
    """Raises WrongOption if a patch is larger than the image."""
    if options["patch"] > options["img_size"]:
        raise WrongOption(f"a patch of {options['patch']} px does not fit into an image of {options['img_size']} px")


def _checked(option: str, value: Any) -> Any:
    if option in _LEAST:
        return _whole(option, value, _LEAST[option])
    if option in ("train", "compile", "cuda_graphs", "channels_last"):
        return bool(value)
    if option in _CHOICES:
        return _choice(option, value)
    check = {"keep": _share, "reduction_loc": _blocks, "data": _data, "device": _device}[option]
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


def _choice(option: str, value: Any) -> str:
    if value not in _CHOICES[option]:
        raise WrongOption(f"{option} is {value!r}, but must be one of {', '.join(_CHOICES[option])}")
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
