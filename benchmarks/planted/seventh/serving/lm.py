import torch
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.up, self.down = nn.Linear(dim, 4 * dim, bias=False), nn.Linear(4 * dim, dim, bias=False)

    def forward(self, x, keys, values, rows, at, mask):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).unbind(2)
        keys[rows, at], values[rows, at] = k, v
        y = F.scaled_dot_product_attention(q.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2),
                                           attn_mask=mask)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, -1))
        return x + self.down(F.silu(self.up(self.n2(x))))


class Decoder(nn.Module):
    """Decoder with a fixed cache, (rows, room, heads, width) for each layer; can leave after any layer."""

    def __init__(self, vocab, dim, heads, depth, rows, room):
        super().__init__()
        self.embed, self.place = nn.Embedding(vocab, dim), nn.Embedding(room, dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.norm, self.head = nn.RMSNorm(dim), nn.Linear(dim, vocab, bias=False)
        for i in range(depth):
            for name in ("keys", "values"):
                self.register_buffer(f"{name}{i}", torch.randn(rows, room, heads, dim // heads) * 0.1)
        self.register_buffer("rows", torch.arange(rows)[:, None])
        self.register_buffer("room", torch.arange(room))

    def forward(self, ids, at, layers=None):
        """ids and at: (rows, tokens) with each token's place; logits of all of them."""
        mask = (self.room <= at[..., None])[:, None]
        x = self.embed(ids) + self.place(at)
        for i, layer in enumerate(self.layers[:layers]):
            x = layer(x, getattr(self, f"keys{i}"), getattr(self, f"values{i}"), self.rows, at, mask)
        return self.head(self.norm(x))
