"""A small server: each step answers a batch of prompts, one iteration of prefill and then some of decode.

Each iteration is in a range with the name that SGLang gives its own, and ends when the host has read the new tokens, as
a server does to see which answers are complete.

Imports torch; `registry` imports this module when a model is built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..data import RandomTokens
from ..graphs import CASTS, Graph
from ..ranges import SILENT
from ..sizes import ANSWER, GPT_SIZES, GptShape, server_cost
from ..tasks import labelled
from .gpt import Gpt

if TYPE_CHECKING:
    from ..tasks import Parts


def build(name: str, options: dict[str, Any]) -> Parts:
    """The server, with everything that a step of it needs."""
    width, hidden, _, heads = GPT_SIZES["gpt_medium"]
    prompts = GptShape(width, hidden, options["depth"], heads, ctx=options["ctx"])
    server = Server(prompts, growing=options["kv_cache"] == "growing", graphs=options["cuda_graphs"])
    parts = labelled(
        server.to(CASTS.get(options["dtype"], torch.float32)),
        RandomTokens(prompts.ctx, prompts.vocabulary, options["seed"]),
        lambda batch, *_: server_cost(prompts, batch, bytes_each=2 if options["dtype"] in CASTS else 4),
    )
    parts.serves = True
    return parts


class Server(nn.Module):
    """Prompts (batch, ctx) to answers (batch, 1 + `ANSWER`), each the likeliest next token after token."""

    def __init__(self, prompts: GptShape, *, growing: bool, graphs: bool) -> None:
        super().__init__()
        whole = GptShape(prompts.width, prompts.hidden, prompts.depth, prompts.heads, ctx=prompts.ctx + ANSWER)
        self.gpt = Gpt(whole, fused=True)
        self.register_buffer("places", torch.arange(whole.ctx), persistent=False)
        self.ranges = SILENT
        self._kinds = Growing if growing else Static
        self._caches: list[Growing] = []
        self.graph = Graph(self._iteration, lambda: None) if graphs else None

    def forward(self, prompts: Tensor) -> Tensor:
        """Answers the prompts."""
        batch, count = prompts.shape
        if self._kinds is Growing or not self._caches or self._caches[0].batch != batch:
            self._caches = [self._kinds(batch, self.places) for _ in self.gpt.layers]
        with self.ranges.within(f"step[EXTEND bs={batch} toks={batch * count} {_sums('c', batch, count, count)}]"):
            tokens = self._iteration((prompts, self.places[:count]))
            answers = [tokens.clone()]
            tokens.tolist()
        for place in range(count, count + ANSWER):
            with self.ranges.within(f"step[DECODE bs={batch} {_sums('g', batch, 1, place + 1)}]"):
                tokens = (self.graph or self._iteration)((tokens, self.places[place : place + 1]))
                answers.append(tokens.clone())
                tokens.tolist()
        return torch.cat(answers, 1)

    def _iteration(self, tokens_at: tuple[Tensor, Tensor]) -> Tensor:
        tokens, at = tokens_at
        for cache in self._caches:
            cache.at = at
        found: Tensor = self.gpt(tokens, at, self._caches).argmax(-1)
        return found


def _sums(of: str, batch: int, new: int, attended: int) -> str:
    """New and attended tokens of all requests, their squares and products, as SGLang writes them."""
    sums = {"sq": new, "sk": attended, "sqsq": new * new, "sqsk": new * attended}
    return " ".join(f"{of}_{key}={batch * value}" for key, value in sums.items())


class Growing:
    """Keys and values of a layer, copied into longer ones with each token."""

    at: Tensor
    """The places of the new tokens."""

    def __init__(self, batch: int, places: Tensor) -> None:
        self.batch, self.places = batch, places
        self.kept: list[Tensor] = []

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """What the new tokens see of themselves and of those before; all (batch, heads, tokens, width of a head)."""
        if query.shape[2] > 1:
            self._keep(key, value)
            return functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self._seen(query, key, value)

    def _keep(self, key: Tensor, value: Tensor) -> None:
        self.kept = [key, value]

    def _seen(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        self.kept = [torch.cat([old, new], 2) for old, new in zip(self.kept, (key, value))]
        return functional.scaled_dot_product_attention(query, *self.kept)


class Static(Growing):
    """Keys and values of a layer with room for all tokens, so that a graph finds them at their place."""

    def _keep(self, key: Tensor, value: Tensor) -> None:
        if not self.kept:
            room = (*key.shape[:2], self.places.shape[0], key.shape[3])
            self.kept = [part.new_zeros(room) for part in (key, value)]
        for mine, new in zip(self.kept, (key, value)):
            mine.index_copy_(2, self.at, new)

    def _seen(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        self._keep(key, value)
        before = (self.places <= self.at)[None, None, None]
        return functional.scaled_dot_product_attention(query, *self.kept, attn_mask=before)
