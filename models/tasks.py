"""The task of a step: which batches the model gets, and the loss of its output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.nn import functional

from .data import ImageFolder, RandomImages
from .parts import Parts
from .sizes.shapes import CLASSES

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from .sizes.flops import Cost


def labelled(
    model: Any, sample: Callable[[int], Any], cost: Callable[[int, bool, int], Cost | None], *, backend: str = "torch"
) -> Parts:
    """A task with batches of (inputs, labels) and the cross entropy over the output's last dimension as its loss."""
    return Parts(model=model, backend=backend, sample=sample, forward=_forward, loss=_cross_entropy, cost=cost)


def image_task(
    model: Any,
    options: dict[str, Any],
    *,
    backend: str,
    cost: Callable[[int, bool, int], Cost | None],
    versions: dict[str, str] | None = None,
    notes: list[str] | None = None,
    classes: int = CLASSES,
) -> Parts:
    """The task of classifying random images or those of a folder."""
    size = options["img_size"]
    parts = labelled(model, RandomImages(size, classes, options["seed"]), cost, backend=backend)
    kind, _, path = options["data"].partition(":")
    if kind == "imagefolder":
        parts.dataset = ImageFolder(path, size, classes)
    parts.versions, parts.notes = versions or {}, notes or []
    return parts


def _forward(model: Any, batch: Any) -> Tensor:
    output: Tensor = model(batch[0])
    return output


def _cross_entropy(output: Tensor, batch: Any) -> Tensor:
    return functional.cross_entropy(output.flatten(0, -2), batch[1].flatten())
