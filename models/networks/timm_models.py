"""Any model of timm by its name: ``timm:vit_tiny_patch16_224``, with random weights.

Imports torch and timm; `registry` imports this module when a model is built.
"""

from __future__ import annotations

import difflib
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import torch

from ..errors import ModelError, UnknownModel, WrongOption
from ..needs import TIMM, require
from ..tasks import counted_cost, image_task

if TYPE_CHECKING:
    from ..sizes import Cost
    from ..tasks import Parts


def build(name: str, options: dict[str, Any]) -> Parts:
    """The network, with everything that a step of it needs.

    Raises:
        UnknownModel: timm has no such model.
        ModelError: timm can't be imported, or its model can't be built with these options.
    """
    require(TIMM, name)
    timm = _imported()
    wanted = name.partition(":")[2]
    if not timm.is_model(wanted):
        near = difflib.get_close_matches(wanted, timm.list_models(), 3)
        raise UnknownModel(f"timm has no model {wanted!r}" + (f"; it has {', '.join(near)}" if near else ""))
    asked = {"img_size": options["img_size"], "depth": options.get("depth")}
    model = _created(timm, wanted, {option: value for option, value in asked.items() if value is not None})
    size = options["img_size"] or model.default_cfg["input_size"][-1]
    options["img_size"] = size
    parts = image_task(
        model,
        options,
        backend="timm",
        cost=lambda batch, train, each: None,
        versions={"timm": timm.__version__},
        classes=getattr(model, "num_classes", None) or 1000,
    )

    @lru_cache(maxsize=None)
    def cost(batch: int, train: bool, each: int) -> Cost | None:
        images = torch.empty(batch, 3, size, size, device="meta")
        labels = torch.empty(batch, dtype=torch.int64, device="meta")
        given = (images, labels) if train else (images,)
        return counted_cost(model, parts.forward, parts.loss, given, train=train, output_bytes_each=each)

    parts.cost = cost
    return parts


def _created(timm: Any, name: str, options: dict[str, Any]) -> Any:
    """Convolutional networks accept images of any size and have no option for it."""
    try:
        return timm.create_model(name, pretrained=False, **options)
    except TypeError as error:
        refused = next((option for option in options if repr(option) in str(error)), None)
        if refused == "img_size":
            return _created(timm, name, {option: value for option, value in options.items() if option != refused})
        if refused is not None:
            raise WrongOption(f"timm's {name} takes no {refused!r}") from None
        raise ModelError(f"timm's {name}: {error}") from None
    except (AssertionError, RuntimeError, ValueError) as error:
        raise ModelError(f"timm's {name}: {str(error).strip().splitlines()[0]}") from None


def _imported() -> Any:
    try:
        import timm
    except Exception as error:
        why = str(error).strip().splitlines()[0]
        if "torchvision" in why:
            raise ModelError(
                f"timm needs a torchvision that was built for this torch {torch.__version__}, and this one"
                f" {_version('torchvision')} was not ({why}); install torchvision from the index that torch came from"
            ) from None
        raise ModelError(f"timm can't be imported: {type(error).__name__}: {why}") from None
    return timm


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(not installed)"
