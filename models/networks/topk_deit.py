"""DeiT (Touvron et al., 2021) that keeps the tokens its class token attends to most; parameters named as in timm.

In the blocks of `reduction_loc`, between attention and MLP, each patch token is scored by the class token's attention
to it, averaged over the heads; the best `ceil(keep * tokens)` stay, best first. With keep 1 it is a plain DeiT whose
attention matrix is computed explicitly, so that runs with and without reduction can be compared.

Imports torch; `registry` imports this module when a model is built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..errors import WrongOption
from ..options import check_patch
from ..ranges import SILENT
from ..sizes import CHANNELS, DEIT_SIZES, REDUCTION_LOC, DeitShape, deit_cost, kept
from ..tasks import image_task

if TYPE_CHECKING:
    from ..tasks import Parts

EPS = 1e-6


def shape_of(name: str, options: dict[str, Any]) -> DeitShape:
    """The sizes under these options.

    Raises:
        WrongOption: a reduction in a block that does not exist, or a patch larger than the image.
    """
    check_patch(options)
    width, heads = DEIT_SIZES[name]
    depth, blocks = options["depth"], options["reduction_loc"]
    if blocks == REDUCTION_LOC:  # the default is for 12 blocks; with fewer, only those that exist
        blocks = tuple(block for block in blocks if block < depth)
    if blocks and blocks[-1] >= depth:
        raise WrongOption(f"reduction_loc names block {blocks[-1]}, but there are {depth}, counted from 0")
    return DeitShape(
        width,
        heads,
        depth=depth,
        img_size=options["img_size"],
        patch=options["patch"],
        keep=options["keep"],
        reduction_loc=blocks if options["keep"] < 1 else (),
    )


def build(name: str, options: dict[str, Any]) -> Parts:
    """The network, with everything that a step of it needs."""
    shape = shape_of(name, options)
    return image_task(
        TopkDeit(shape),
        options,
        backend="torch",
        cost=lambda batch, train, each: deit_cost(shape, batch, train=train, output_bytes_each=each),
    )


class TopkDeit(nn.Module):
    """Images (batch, 3, size, size) to logits (batch, classes)."""

    def __init__(self, shape: DeitShape) -> None:
        super().__init__()
        self.patch_embed = PatchEmbed(shape)
        self.cls_token = nn.Parameter(torch.empty(1, 1, shape.width))
        self.pos_embed = nn.Parameter(torch.empty(1, shape.patches + 1, shape.width))
        self.blocks = nn.Sequential(
            *(Block(shape, shape.keep if n in shape.reduction_loc else 1.0) for n in range(shape.depth))
        )
        self.norm = nn.LayerNorm(shape.width, eps=EPS)
        self.head = nn.Linear(shape.width, shape.classes)
        for parameter in (self.cls_token, self.pos_embed):
            nn.init.trunc_normal_(parameter, std=0.02)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def forward(self, images: Tensor) -> Tensor:
        """The logits of the class token."""
        patches = self.patch_embed(images)
        tokens = torch.cat([self.cls_token.expand(patches.shape[0], -1, -1), patches], 1) + self.pos_embed
        logits: Tensor = self.head(self.norm(self.blocks(tokens))[:, 0])
        return logits


class PatchEmbed(nn.Module):
    """Images to a row of patches (batch, patches, width)."""

    def __init__(self, shape: DeitShape) -> None:
        super().__init__()
        self.proj = nn.Conv2d(CHANNELS, shape.width, shape.patch, shape.patch)

    def forward(self, images: Tensor) -> Tensor:
        """The patches row by row."""
        found: Tensor = self.proj(images).flatten(2).transpose(1, 2)
        return found


class Block(nn.Module):
    """Attention, in some blocks a token reduction, and MLP."""

    def __init__(self, shape: DeitShape, keep: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(shape.width, eps=EPS)
        self.attn = Attention(shape)
        self.reduction = TokenReduction(keep) if keep < 1 else None
        self.norm2 = nn.LayerNorm(shape.width, eps=EPS)
        self.mlp = Mlp(shape.width)

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, tokens, width) to the same, perhaps with fewer tokens."""
        attended, weights = self.attn(self.norm1(tokens))
        tokens = tokens + attended
        if self.reduction is not None:
            tokens = self.reduction(tokens, weights)
        return tokens + self.mlp(self.norm2(tokens))


class Attention(nn.Module):
    """Multi-head attention that also returns its weights."""

    def __init__(self, shape: DeitShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.proj = nn.Linear(shape.width, shape.width)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, tokens, width) to the same, and the weights (batch, heads, tokens, tokens)."""
        batch, count, width = tokens.shape
        each = width // self.heads
        query, key, value = self.qkv(tokens).view(batch, count, 3, self.heads, each).permute(2, 0, 3, 1, 4).unbind(0)
        weights = ((query * each**-0.5) @ key.transpose(-2, -1)).softmax(-1)
        mixed = (weights @ value).transpose(1, 2).reshape(batch, count, width)
        return self.proj(mixed), weights


class TokenReduction(nn.Module):
    """Keeps the class token and the patch tokens that it attends to most."""

    def __init__(self, keep: float) -> None:
        super().__init__()
        self.keep = keep
        self.ranges = SILENT

    def forward(self, tokens: Tensor, weights: Tensor) -> Tensor:
        """(batch, tokens, width) to (batch, 1 + kept, width)."""
        left = kept(self.keep, tokens.shape[1] - 1)
        if left == tokens.shape[1] - 1:
            return tokens
        with self.ranges.within("token_reduction"):
            scores = weights[:, :, 0, 1:].mean(1)
            best = scores.topk(left, dim=1).indices.unsqueeze(-1).expand(-1, -1, tokens.shape[2])
            return torch.cat([tokens[:, :1], tokens[:, 1:].gather(1, best)], 1)


class Mlp(nn.Module):
    """Two layers with GELU between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, tokens, width) to the same."""
        found: Tensor = self.fc2(self.act(self.fc1(tokens)))
        return found
