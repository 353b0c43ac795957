"""Token-by-token decoding for a batch of chats: fixed cache, one CUDA graph for a token."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DEV, TINY, drive, seed, size

CHATS, PLACES, WORDS, DIM, DEPTH = size(32, 2), size(2048, 32), size(32_000, 40), size(2048, 32), size(16, 2)
HEADS, FIRST, TOKENS = size(16, 2), size(1920, 24), size(8, 2)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(DIM), nn.RMSNorm(DIM)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM, bias=False), nn.Linear(DIM, DIM, bias=False)
        self.up, self.down = nn.Linear(DIM, 4 * DIM, bias=False), nn.Linear(4 * DIM, DIM, bias=False)
        shape = CHATS, HEADS, PLACES, DIM // HEADS
        self.register_buffer("keys", torch.randn(shape))
        self.register_buffer("values", torch.randn(shape))

    def forward(self, x, place, mask):
        q, k, v = self.qkv(self.norm1(x)).view(CHATS, 1, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        self.keys.index_copy_(2, place, k)
        self.values.index_copy_(2, place, v)
        seen = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask)
        x = x + self.out(seen.transpose(1, 2).reshape(CHATS, 1, DIM))
        return x + self.down(F.silu(self.up(self.norm2(x))))


class Decoder:
    """Greedy decoding after a long prompt; the cache's last places are used round and round."""

    def __init__(self):
        self.words = nn.Embedding(WORDS, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(DEPTH))
        self.norm = nn.RMSNorm(DIM)
        self.last = torch.arange(CHATS)[:, None] + 1
        self.place = torch.full((1,), FIRST)
        self.reach = torch.arange(PLACES)
        self.graph = None

    def token(self):
        mask = (self.reach <= self.place)[None, None, None]
        x = self.words(self.last)
        for layer in self.layers:
            x = layer(x, self.place, mask)
        self.last.copy_(F.linear(self.norm(x), self.words.weight).argmax(-1))
        self.place.sub_(FIRST - 1).remainder_(PLACES - FIRST).add_(FIRST)

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.token()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.token()

    def __call__(self):
        for _ in range(TOKENS):
            self.token() if self.graph is None else self.graph.replay()
        return self.last


if __name__ == "__main__":
    seed(27)
    torch.set_default_dtype(torch.float32 if TINY else torch.bfloat16)
    torch.set_grad_enabled(False)
    with torch.device(DEV):
        decoder = Decoder()
    if not TINY:
        decoder.capture()
    drive("chat_decode", decoder)
