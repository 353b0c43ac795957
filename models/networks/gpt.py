"""A decoder-only language model in the sizes of Stanford's CS336 (assignment 2), with visible parts.

Attention is three separate operations in their own ranges, as in that course: ``scaled dot product attention`` >
``computing attention scores``, ``computing softmax``, ``final matmul``; or PyTorch's fused one in the outer range.
Blocks: RMSNorm, attention with rotary positions; RMSNorm, MLP with GELU. No biases; the output has its own matrix.

Imports torch; `registry` imports this module when a model is built.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..data import RandomTokens
from ..errors import WrongOption
from ..ranges import SILENT
from ..sizes import GPT_SIZES, GptShape, gpt_cost
from ..tasks import labelled

if TYPE_CHECKING:
    from ..tasks import Parts

EPS = 1e-5
ROTARY_BASE = 10_000.0


def shape_of(name: str, options: dict[str, Any]) -> GptShape:
    """The sizes under these options."""
    width, hidden, _, heads = GPT_SIZES[name]
    return GptShape(width, hidden, options["depth"], heads, ctx=options["ctx"])


def build(name: str, options: dict[str, Any]) -> Parts:
    """The network, with everything that a step of it needs."""
    shape = shape_of(name, options)
    return labelled(
        Gpt(shape, fused=options["attention"] == "fused"),
        RandomTokens(shape.ctx, shape.vocabulary, options["seed"]),
        lambda batch, train, each: gpt_cost(shape, batch, train=train, output_bytes_each=each),
    )


class Gpt(nn.Module):
    """Tokens (batch, ctx) to logits (batch, ctx, vocabulary)."""

    def __init__(self, shape: GptShape, *, fused: bool = False) -> None:
        super().__init__()
        self.token_embeddings: nn.Module | None = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(Block(shape, fused=fused) for _ in range(shape.depth))
        self.ln_final: nn.Module | None = RmsNorm(shape.width)
        self.lm_head: nn.Module | None = nn.Linear(shape.width, shape.vocabulary, bias=False)
        each = shape.width // shape.heads
        angles = torch.arange(shape.ctx).float()[:, None] * ROTARY_BASE ** (-torch.arange(0, each, 2).float() / each)
        self.register_buffer("cosine", angles.cos().repeat(1, 2), persistent=False)
        self.register_buffer("sine", angles.sin().repeat(1, 2), persistent=False)
        mask = torch.ones(shape.ctx, shape.ctx, dtype=torch.bool).triu(1)
        self.register_buffer("future", mask, persistent=False)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens: Tensor, at: Tensor | None = None, caches: list[Any] | None = None) -> Tensor:
        """For each token, the logits of the token that follows it; of a stage (`keep_stage`), from hidden to hidden.

        Args:
            tokens: (batch, count); all of the context, unless `at` says where they stand in it.
            at: their places, (count).
            caches: of each layer what attends to it and to what came before; then the last token's logits alone.
        """
        hidden = tokens if self.token_embeddings is None else self.token_embeddings(tokens)
        cosine, sine = (self.cosine, self.sine) if at is None else (self.cosine[at], self.sine[at])
        for number, layer in enumerate(self.layers):
            hidden = layer(hidden, cosine, sine, self.future if caches is None else caches[number])
        if caches is not None:
            hidden = hidden[:, -1:]
        if self.ln_final is None or self.lm_head is None:
            return hidden
        logits: Tensor = self.lm_head(self.ln_final(hidden))
        return logits

    def keep_stage(self, stage: int, stages: int) -> None:
        """Drops what other stages of a pipeline compute; the blocks are dealt out evenly, in order."""
        count = len(self.layers)
        if stages > count:
            raise WrongOption(f"--parallel pipeline deals out {count} blocks, too few for {stages} stages")
        self.layers = self.layers[count * stage // stages : count * (stage + 1) // stages]
        if stage > 0:
            self.token_embeddings = None
        if stage < stages - 1:
            self.ln_final = self.lm_head = None


class Block(nn.Module):
    """Attention and MLP, each with a norm before it and a residual around it."""

    def __init__(self, shape: GptShape, *, fused: bool = False) -> None:
        super().__init__()
        self.ln1 = RmsNorm(shape.width)
        self.attn = CausalSelfAttention(shape, fused=fused)
        self.ln2 = RmsNorm(shape.width)
        self.ffn = Mlp(shape)

    def forward(self, hidden: Tensor, cosine: Tensor, sine: Tensor, future: Any) -> Tensor:
        """(batch, ctx, width) to the same."""
        hidden = hidden + self.attn(self.ln1(hidden), cosine, sine, future)
        return hidden + self.ffn(self.ln2(hidden))


class CausalSelfAttention(nn.Module):
    """Causal multi-head attention."""

    def __init__(self, shape: GptShape, *, fused: bool = False) -> None:
        super().__init__()
        self.heads = shape.heads
        self.fused = fused
        self.qkv = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.output = nn.Linear(shape.width, shape.width, bias=False)
        self.ranges = SILENT

    def forward(self, hidden: Tensor, cosine: Tensor, sine: Tensor, future: Any) -> Tensor:
        """(batch, ctx, width) to the same; `future` is the mask of what a token may not see, or the layer's cache."""
        batch, count, _ = hidden.shape
        whole = self.qkv(hidden)
        width = whole.shape[-1] // 3  # less than that of `hidden` where the heads are split over several GPUs
        query, key, value = (part.view(batch, count, self.heads, -1).transpose(1, 2) for part in whole.split(width, -1))
        mixed = self._attend(_rotated(query, cosine, sine), _rotated(key, cosine, sine), value, future)
        found: Tensor = self.output(mixed.transpose(1, 2).reshape(batch, count, width))
        return found

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, future: Any) -> Tensor:
        within = self.ranges.within
        with within("scaled dot product attention"):
            if not isinstance(future, Tensor):
                cached: Tensor = future.attend(query, key, value)
                return cached
            if self.fused:
                return functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            with within("computing attention scores"):
                scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
                scores = scores.masked_fill(future, float("-inf"))
            with within("computing softmax"):
                weights = scores.softmax(-1)
            with within("final matmul"):
                return weights @ value


def _rotated(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotates each pair of numbers by its position's angle; a pair is a number and the one half a head further."""
    first, second = heads.chunk(2, -1)
    turned = heads * cosine + torch.cat([-second, first], -1) * sine
    return turned.to(heads.dtype)


class Mlp(nn.Module):
    """Two layers with GELU between them."""

    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        self.fc1 = nn.Linear(shape.width, shape.hidden, bias=False)
        self.fc2 = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """(batch, ctx, width) to the same."""
        found: Tensor = self.fc2(functional.gelu(self.fc1(hidden)))
        return found


class RmsNorm(nn.Module):
    """Root mean square norm, computed in fp32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, hidden: Tensor) -> Tensor:
        """Over the last dimension."""
        wide = hidden.float()
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPS)
        return (scaled * self.weight).to(hidden.dtype)
