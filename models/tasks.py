"""What a family of networks provides for a workload: its model, its batches, the loss of its output, its work."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from .data import ImageFolder, RandomImages, mapped, tensors
from .sizes import CLASSES, FP32, Cost, compulsory_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


@dataclass
class Parts:
    """What a family of models provides; `Workload` builds its step from it."""

    model: Any
    """The nn.Module, on the CPU. If it has `ranges`, the workload sets them."""
    backend: str
    """``mamba_ssm``, ``reference``, ``torch``, ``timm`` or ``user``."""
    sample: Callable[[int], Any]
    """Makes the random sample with a given number, on the host: (inputs, labels), or whatever the model takes."""
    forward: Callable[[Any, Any], Any]
    """(model, batch) -> output."""
    loss: Callable[[Any, Any], Any]
    """(output, batch) -> a scalar to minimise."""
    cost: Callable[[int, bool, int], Cost | None]
    """(samples, train, bytes of a number of the output) -> the work of a step; null if it is unknown."""
    dataset: Any = None
    """Samples from files, if they were asked for."""
    whole_batch: Callable[[int], Any] | None = None
    """Makes a whole batch, for a model whose samples can't be stacked."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of the packages that the backend uses."""
    notes: list[str] = field(default_factory=list)
    """What the user should know before the run."""
    serves: bool = False
    """Whether a forward pass serves requests: it has its weights in the number type and captures its own graphs."""


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


def counted_cost(
    model: Any, forward: Any, loss: Any, batch: Any, *, train: bool, output_bytes_each: int = FP32
) -> Cost | None:
    """The work of a step with this batch, by ``FlopCounterMode`` (matrix products, convolutions, attention).

    The step runs on a copy whose parameters and batch are meta tensors: it computes nothing, uses no memory, and leaves
    the model itself unchanged.

    Args:
        model: the nn.Module; it is not changed.
        forward: (callable, batch) -> output.
        loss: (output, batch) -> a scalar.
        batch: as the model takes it.
        train: count the backward pass too.
        output_bytes_each: size of a floating-point number of the output.

    Returns:
        Null if the model can't run on meta tensors, or if this torch has no counter (2.1 and later have one).
    """
    try:
        from torch.utils.flop_counter import FlopCounterMode

        copied = copy.deepcopy(
            model, {id(tensor): _stand_in(tensor) for tensor in [*model.parameters(), *model.buffers()]}
        )
        batch = mapped(batch, lambda tensor: tensor.to("meta"))
        with FlopCounterMode(display=False) as counter, torch.set_grad_enabled(train):
            output = forward(copied, batch)
            if train:
                loss(output, batch).backward()
    except Exception:  # a user's model may do anything; what can't be counted is unknown
        return None
    flops = int(counter.get_total_flops())
    moved = compulsory_bytes(
        sum(parameter.numel() for parameter in model.parameters()),
        sum(tensor.numel() * tensor.element_size() for tensor in tensors(batch)),
        _output_bytes(output, output_bytes_each),
        train=train,
    )
    return Cost(flops, 0, moved)


def _stand_in(tensor: Any) -> Any:
    empty = tensor.detach().to("meta")
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(empty, requires_grad=tensor.requires_grad)
    return empty


def _output_bytes(output: Any, each: int) -> int:
    """Bytes of the output; its floating-point numbers have the size that autocast gives them."""
    sizes = (
        tensor.numel() * (each if tensor.is_floating_point() else tensor.element_size()) for tensor in tensors(output)
    )
    return sum(sizes)
