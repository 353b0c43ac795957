"""Counts the FLOPs of models whose sizes are unknown, by running a step on meta tensors under torch's counter."""

from __future__ import annotations

import copy
from typing import Any

import torch

from ..data import mapped, tensors
from .flops import FP32, Cost, compulsory_bytes


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

        copied = copy.deepcopy(model, {id(tensor): _stand_in(tensor) for tensor in _numbers_of(model)})
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
        _input_bytes(batch),
        _output_bytes(output, output_bytes_each),
        train=train,
    )
    return Cost(flops, 0, moved)


def _numbers_of(model: Any) -> list[Any]:
    return [*model.parameters(), *model.buffers()]


def _stand_in(tensor: Any) -> Any:
    empty = tensor.detach().to("meta")
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(empty, requires_grad=tensor.requires_grad)
    return empty


def _input_bytes(batch: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors(batch))


def _output_bytes(output: Any, each: int) -> int:
    """Bytes of the output; its floating-point numbers have the size that autocast gives them."""
    sizes = (
        tensor.numel() * (each if tensor.is_floating_point() else tensor.element_size()) for tensor in tensors(output)
    )
    return sum(sizes)
