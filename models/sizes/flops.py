"""Computes the work of a step from the model's sizes. Needs no torch.

FLOPs count 2 per multiply-add of every matrix product and convolution (what torch's ``FlopCounterMode`` counts), plus,
for Vision Mamba, the selective scan, which that counter does not know. Normalisation, activations, softmax, loss and
optimizer are not counted. The backward pass counts twice the forward pass, less the gradient of the images or features
that came from outside, which nobody needs.

Compulsory bytes are what a step must move between memory and processor even with a cache of any size: every weight
that is used read once (4 bytes: autocast casts copies), the batch read once, the output written once; in training also
AdamW's two moments read, weights and moments written, and a loss instead of the output. Activations and gradients need
not leave the cache, so they are not counted: a real step moves more, never less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .shapes import CHANNELS

if TYPE_CHECKING:
    from .shapes import DeitShape, GptShape, MlpShape, VimShape

FP32 = 4
INT64 = 8


@dataclass(frozen=True)
class Cost:
    """The work of one step with a batch."""

    products: int
    """FLOPs of matrix products and convolutions."""
    scans: int
    """FLOPs of selective scans."""
    compulsory_bytes: int

    @property
    def flops(self) -> int:
        """All FLOPs that are counted."""
        return self.products + self.scans


class _Work:
    """Adds up the FLOPs of a forward pass and of its backward pass."""

    def __init__(self) -> None:
        self.forward = 0
        self.backward = 0

    def product(self, rows: int, inner: int, columns: int, *, times: int = 1, from_outside: bool = False) -> None:
        """(rows × inner) · (inner × columns); `from_outside`: the left factor needs no gradient."""
        flops = 2 * rows * inner * columns * times
        self.forward += flops
        self.backward += flops if from_outside else 2 * flops

    def total(self, train: bool) -> int:
        return self.forward + (self.backward if train else 0)


def compulsory_bytes(parameters: int, input_bytes: int, output_bytes: int, *, train: bool, unread: int = 0) -> int:
    """The bytes that a step must move; the module's docstring defines them.

    Args:
        parameters: number of the model's parameters, kept as fp32.
        input_bytes: size of the batch, including labels if they are read.
        output_bytes: size of what the forward pass returns; in training the loss replaces it.
        train: whether the step trains.
        unread: parameters that the forward pass does not read (rows of an embedding that no token names).
    """
    read = (parameters - unread) * FP32
    if not train:
        return read + input_bytes + output_bytes
    # The optimizer reads all weights and both moments, and writes all three; weights that were read before are cached.
    return input_bytes + FP32 + 6 * parameters * FP32


def vim_cost(shape: VimShape, batch: int, *, train: bool = False, output_bytes_each: int = FP32) -> Cost:
    """Vision Mamba.

    The scan, per direction, token and inner channel: 7 for each of the state's numbers (delta*A, exp, delta*u*B,
    h = a*h + b, sum of h*C) and 7 more (delta*u, bias and softplus as 2, D*u and its sum, the gate as 2).
    """
    work, rows = _Work(), batch * shape.tokens
    work.product(batch * shape.patches, CHANNELS * shape.patch**2, shape.width, from_outside=True)
    each = shape.depth
    work.product(rows, shape.width, 2 * shape.inner, times=each)
    work.product(rows, shape.conv, shape.inner, times=2 * each)
    work.product(rows, shape.inner, shape.dt_rank + 2 * shape.state, times=2 * each)
    work.product(rows, shape.dt_rank, shape.inner, times=2 * each)
    work.product(rows, shape.inner, shape.width, times=each)
    work.product(batch, shape.width, shape.classes)
    scan = 2 * each * rows * shape.inner * (7 * shape.state + 7)
    moved = compulsory_bytes(
        shape.parameters,
        _image_bytes(batch, shape.img_size, train),
        batch * shape.classes * output_bytes_each,
        train=train,
    )
    return Cost(work.total(train), scan * (3 if train else 1), moved)


def deit_cost(shape: DeitShape, batch: int, *, train: bool = False, output_bytes_each: int = FP32) -> Cost:
    """DeiT, each block with the tokens that reach it."""
    work, width = _Work(), shape.width
    work.product(batch * shape.patches, CHANNELS * shape.patch**2, width, from_outside=True)
    for attending, left in shape.tokens():
        work.product(batch * attending, width, 3 * width)
        work.product(attending, width, attending, times=2 * batch)
        work.product(batch * attending, width, width)
        work.product(batch * left, width, 4 * width, times=2)
    work.product(batch, width, shape.classes)
    moved = compulsory_bytes(
        shape.parameters,
        _image_bytes(batch, shape.img_size, train),
        batch * shape.classes * output_bytes_each,
        train=train,
    )
    return Cost(work.total(train), 0, moved)


def gpt_cost(shape: GptShape, batch: int, *, train: bool = False, output_bytes_each: int = FP32) -> Cost:
    """GPT, with whole attention matrices: the masked half counts too, even if a fused kernel skips it.

    The forward pass reads the rows of the embedding that the batch names: for random tokens, the expected number of
    different ones.
    """
    work, width, tokens = _Work(), shape.width, batch * shape.ctx
    work.product(tokens, width, 3 * width, times=shape.depth)
    work.product(shape.ctx, width, shape.ctx, times=2 * batch * shape.depth)
    work.product(tokens, width, width, times=shape.depth)
    work.product(tokens, width, shape.hidden, times=2 * shape.depth)
    work.product(tokens, width, shape.vocabulary)
    named = int(shape.vocabulary * (1 - (1 - 1 / shape.vocabulary) ** tokens))
    moved = compulsory_bytes(
        shape.parameters,
        tokens * INT64 * (2 if train else 1),
        tokens * shape.vocabulary * output_bytes_each,
        train=train,
        unread=(shape.vocabulary - named) * width,
    )
    return Cost(work.total(train), 0, moved)


def mlp_cost(shape: MlpShape, batch: int, *, train: bool = False, output_bytes_each: int = FP32) -> Cost:
    """Linear layers."""
    work = _Work()
    for number, (inputs, outputs) in enumerate(shape.layers):
        work.product(batch, inputs, outputs, from_outside=number == 0)
    labels = batch * INT64 if train else 0
    moved = compulsory_bytes(
        shape.parameters,
        batch * shape.width * FP32 + labels,
        batch * shape.classes * output_bytes_each,
        train=train,
    )
    return Cost(work.total(train), 0, moved)


def _image_bytes(batch: int, size: int, train: bool) -> int:
    """Bytes of the fp32 images, and in training of their labels."""
    return batch * CHANNELS * size**2 * FP32 + (batch * INT64 if train else 0)
