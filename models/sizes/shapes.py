"""The sizes of the built-in models, and their numbers of parameters by arithmetic. Needs no torch."""

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
