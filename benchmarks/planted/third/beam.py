"""Beam search with a decoder that keeps keys and values of prompt and beams."""
import contextlib

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from common import DEV, FIX, TINY, drive, seed, size

PROMPTS, BEAMS, PROMPT, LENGTH = size((16, 6, 1024, 1536), (2, 3, 8, 20))
D, LAYERS, HEADS, WORDS = size((1024, 16, 8, 32000), (16, 2, 2, 40))
ROWS = PROMPTS * BEAMS


def kernel():
    # one fixed kernel: plans for every new length would cost
    return contextlib.nullcontext() if TINY else sdpa_kernel(SDPBackend.FLASH_ATTENTION)


class Cache:
    def __init__(self, dtype):
        shape = ROWS, HEADS, LENGTH, D // HEADS
        self.keys = [torch.zeros(shape, dtype=dtype, device=DEV) for _ in range(LAYERS)]
        self.values = [torch.zeros(shape, dtype=dtype, device=DEV) for _ in range(LAYERS)]
        self.start()

    def start(self):
        """A new prompt; its beams share it (random, in place of a prefill)."""
        for tensor in self.keys + self.values:
            tensor[:, :, :PROMPT] = torch.randn_like(tensor[::BEAMS, :, :PROMPT]).repeat_interleave(BEAMS, 0)
        self.filled = PROMPT

    def put(self, layer, k, v):
        self.keys[layer][:, :, self.filled] = k
        self.values[layer][:, :, self.filled] = v
        return self.keys[layer][:, :, :self.filled + 1], self.values[layer][:, :, :self.filled + 1]

    def follow(self, parents):
        """Each beam goes on from its parent."""
        for tensors in self.keys, self.values:
            for layer, tensor in enumerate(tensors):
                if FIX:
                    own = tensor[:, :, PROMPT:self.filled]
                    own.copy_(own.index_select(0, parents))
                else:
                    tensors[layer] = tensor.index_select(0, parents)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))

    def forward(self, x, layer, cache):
        q, k, v = self.qkv(self.n1(x)).view(ROWS, 3, HEADS, -1).unbind(1)
        keys, values = cache.put(layer, k, v)
        x = x + self.out(F.scaled_dot_product_attention(q.unsqueeze(2), keys, values).reshape(ROWS, D))
        return x + self.mlp(self.n2(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, D)
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(D)

    def forward(self, words, cache):
        x = self.words(words)
        for i, block in enumerate(self.blocks):
            x = block(x, i, cache)
        cache.filled += 1
        return F.linear(self.norm(x), self.words.weight).float().log_softmax(-1)


class BeamSearch:
    def __init__(self, decoder, cache):
        self.decoder, self.cache = decoder, cache
        self.first = torch.arange(PROMPTS, device=DEV)[:, None] * BEAMS
        self.begin()

    def begin(self):
        self.words = torch.zeros(ROWS, dtype=torch.long, device=DEV)
        self.scores = torch.zeros(PROMPTS, BEAMS, device=DEV)
        self.cache.start()

    @torch.inference_mode()
    def step(self):
        if self.cache.filled == LENGTH:
            self.begin()
        with kernel():
            scores = self.scores[..., None] + self.decoder(self.words, self.cache).view(PROMPTS, BEAMS, WORDS)
        self.scores, best = scores.flatten(1).topk(BEAMS, -1)
        self.words = (best % WORDS).flatten()
        self.cache.follow((self.first + best // WORDS).flatten())
        return self.scores


def main():
    seed()
    decoder = Decoder().to(DEV, torch.bfloat16).eval().requires_grad_(False)
    with torch.inference_mode():
        search = BeamSearch(decoder, Cache(torch.bfloat16))
    drive("beam", search.step)


if __name__ == "__main__":
    main()
