"""The sizes of the built-in models, their numbers of parameters and the work of a step, by arithmetic. Needs no torch.

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

import math
from dataclasses import dataclass

CHANNELS = 3
CLASSES = 1000


@dataclass(frozen=True)
class VimShape:
    """A Vision Mamba: bidirectional v2, class token in the middle, absolute positions."""

    width: int
    depth: int = 24
    img_size: int = 224
    patch: int = 16
    stride: int = 16
    classes: int = CLASSES
    state: int = 16
    """Size of the scan's state, per channel."""
    expand: int = 2
    conv: int = 4
    """Taps of the causal convolution."""

    @property
    def inner(self) -> int:
        """Channels inside the mixer."""
        return self.expand * self.width

    @property
    def dt_rank(self) -> int:
        """Width of the low-rank step size."""
        return math.ceil(self.width / 16)

    @property
    def patches(self) -> int:
        """Patches of an image."""
        return ((self.img_size - self.patch) // self.stride + 1) ** 2

    @property
    def tokens(self) -> int:
        """Length of the sequence: the patches and the class token."""
        return self.patches + 1

    @property
    def parameters(self) -> int:
        """Numbers that training would change."""
        direction = (
            self.inner * (self.conv + 1)
            + self.inner * (self.dt_rank + 2 * self.state)
            + (self.dt_rank + 1) * self.inner
            + self.inner * self.state
            + self.inner
        )
        block = 3 * self.width * self.inner + 2 * direction + self.width
        embedding = (CHANNELS * self.patch**2 + 1) * self.width + self.width + self.tokens * self.width
        return embedding + self.depth * block + self.width + (self.width + 1) * self.classes


@dataclass(frozen=True)
class DeitShape:
    """A DeiT that drops tokens in some of its blocks."""

    width: int
    heads: int
    depth: int = 12
    img_size: int = 224
    patch: int = 16
    classes: int = CLASSES
    keep: float = 1.0
    reduction_loc: tuple[int, ...] = ()
    """Blocks, counted from 0, that drop tokens between attention and MLP."""

    @property
    def patches(self) -> int:
        """Patches of an image."""
        return (self.img_size // self.patch) ** 2

    def tokens(self) -> list[tuple[int, int]]:
        """Per block, how many tokens attend and how many reach its MLP; both include the class token."""
        left = self.patches
        rows = []
        for block in range(self.depth):
            attending = left + 1
            if block in self.reduction_loc:
                left = kept(self.keep, left)
            rows.append((attending, left + 1))
        return rows

    @property
    def parameters(self) -> int:
        """Numbers that training would change."""
        w = self.width
        block = (w + 1) * 3 * w + (w + 1) * w + (w + 1) * 4 * w + (4 * w + 1) * w + 4 * w
        embedding = (CHANNELS * self.patch**2 + 1) * w + w + (self.patches + 1) * w
        return embedding + self.depth * block + 2 * w + (w + 1) * self.classes


def kept(keep: float, patches: int) -> int:
    """How many patch tokens a reduction keeps: ``ceil(keep * patches)``, at least one."""
    return min(max(math.ceil(keep * patches), 1), patches)


@dataclass(frozen=True)
class GptShape:
    """A decoder-only language model: RMSNorm, rotary positions, GELU, untied output; no biases."""

    width: int
    hidden: int
    depth: int
    heads: int
    ctx: int = 256
    vocabulary: int = 10_000

    @property
    def parameters(self) -> int:
        """Numbers that training would change."""
        block = 4 * self.width**2 + 2 * self.width * self.hidden + 2 * self.width
        return self.depth * block + self.width + 2 * self.vocabulary * self.width


@dataclass(frozen=True)
class MlpShape:
    """Linear layers with ReLU between them."""

    depth: int = 4
    width: int = 1024
    classes: int = CLASSES

    @property
    def layers(self) -> list[tuple[int, int]]:
        """Inputs and outputs of each layer."""
        ends = [self.width] * self.depth + [self.classes]
        return [(ends[n], ends[n + 1]) for n in range(self.depth)]

    @property
    def parameters(self) -> int:
        """Numbers that training would change."""
        return sum((inputs + 1) * outputs for inputs, outputs in self.layers)


VIM_WIDTHS = {"vim_tiny": 192, "vim_small": 384, "vim_base": 768, "vim_tiny_s8": 192}
DEIT_SIZES = {"topk_deit_tiny": (192, 3), "topk_deit_small": (384, 6), "topk_deit_base": (768, 12)}
GPT_SIZES = {
    "gpt_small": (768, 3072, 12, 12),
    "gpt_medium": (1024, 4096, 24, 16),
    "gpt_large": (1280, 5120, 36, 20),
    "gpt_xl": (1600, 6400, 48, 25),
    "gpt_2.7B": (2560, 10240, 32, 32),
}
"""Width, hidden width of the MLP, blocks, heads."""
REDUCTION_LOC = (3, 6, 9)
ANSWER = 16
"""Iterations of decode that follow a prefill of `gpt_server`."""

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

    def cost(
        self, parameters: int, input_bytes: int, output_bytes: int, *, train: bool, scans: int = 0, unread: int = 0
    ) -> Cost:
        """Of a step, with the FLOPs of its forward pass in scans; for the rest see `compulsory_bytes`."""
        moved = compulsory_bytes(parameters, input_bytes, output_bytes, train=train, unread=unread)
        return Cost(self.forward + (self.backward if train else 0), scans * (3 if train else 1), moved)


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
    return work.cost(
        shape.parameters,
        _image_bytes(batch, shape.img_size, train),
        batch * shape.classes * output_bytes_each,
        train=train,
        scans=2 * each * rows * shape.inner * (7 * shape.state + 7),
    )


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
    return work.cost(
        shape.parameters,
        _image_bytes(batch, shape.img_size, train),
        batch * shape.classes * output_bytes_each,
        train=train,
    )


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
    return work.cost(
        shape.parameters,
        tokens * INT64 * (2 if train else 1),
        tokens * shape.vocabulary * output_bytes_each,
        train=train,
        unread=(shape.vocabulary - named) * width,
    )


def server_cost(shape: GptShape, batch: int, *, bytes_each: int = FP32) -> Cost:
    """Prefill of prompts of `shape.ctx` tokens and `ANSWER` iterations of decode, each with the last token's logits.

    The prefill counts whole attention matrices; a token of decode attends to what is there.
    """
    work, width, iterations = _Work(), shape.width, 1 + ANSWER
    work.product(batch * (shape.ctx + ANSWER), width, 4 * width + 2 * shape.hidden, times=shape.depth)
    attended = shape.ctx**2 + sum(range(shape.ctx + 1, shape.ctx + iterations))
    work.product(1, width, attended, times=2 * batch * shape.depth)
    work.product(batch * iterations, width, shape.vocabulary)
    read = shape.parameters - shape.vocabulary * shape.width
    moved = read * bytes_each + batch * (shape.ctx + iterations) * INT64
    return work.cost(0, moved, 0, train=False)


def mlp_cost(shape: MlpShape, batch: int, *, train: bool = False, output_bytes_each: int = FP32) -> Cost:
    """Linear layers."""
    work = _Work()
    for number, (inputs, outputs) in enumerate(shape.layers):
        work.product(batch, inputs, outputs, from_outside=number == 0)
    labels = batch * INT64 if train else 0
    return work.cost(
        shape.parameters,
        batch * shape.width * FP32 + labels,
        batch * shape.classes * output_bytes_each,
        train=train,
    )


def _image_bytes(batch: int, size: int, train: bool) -> int:
    """Bytes of the fp32 images, and in training of their labels."""
    return batch * CHANNELS * size**2 * FP32 + (batch * INT64 if train else 0)
