"""Pre-trains a vision transformer by filling in three quarters of the patches of each picture."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DEV, bf16, compiled, drive, seed, size

PICTURES, GRID, PATCH, KEPT = size(224, 2), size(14, 4), size(16, 4), size(49, 4)
DIM, THIN = size(768, 32), size(512, 16)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class MaskedViT(nn.Module):
    def __init__(self, depth, thin_depth):
        super().__init__()
        self.enter, self.thin = nn.Linear(3 * PATCH ** 2, DIM), nn.Linear(DIM, THIN)
        self.place = nn.Parameter(torch.randn(GRID ** 2, DIM) * 0.02)
        self.thin_place = nn.Parameter(torch.randn(GRID ** 2, THIN) * 0.02)
        self.unknown = nn.Parameter(torch.zeros(1, 1, THIN))
        self.encode = nn.Sequential(*[compiled(Block(DIM, max(1, DIM // 64)), dynamic=False) for _ in range(depth)])
        self.decode = nn.Sequential(*[Block(THIN, max(1, THIN // 64)) for _ in range(thin_depth)])
        self.norm, self.leave = nn.LayerNorm(THIN), nn.Linear(THIN, 3 * PATCH ** 2)

    def forward(self, patches):
        b, n, _ = patches.shape
        order = torch.rand(b, n, device=patches.device).argsort(1)
        back = order.argsort(1)[..., None]
        shown = patches.gather(1, order[:, :KEPT, None].expand(-1, -1, patches.shape[2]))
        x = self.encode(self.enter(shown) + self.place[order[:, :KEPT]])
        x = torch.cat([self.thin(x), self.unknown.to(x.dtype).expand(b, n - KEPT, -1)], 1)
        x = x.gather(1, back.expand(-1, -1, x.shape[2])) + self.thin_place
        return self.leave(self.norm(self.decode(x))), (back.squeeze(-1) >= KEPT).float()


seed(29)
pictures = torch.randn(size(2000, 6), GRID ** 2, 3 * PATCH ** 2, device=DEV)
model = MaskedViT(size(12, 1), size(2, 1)).to(DEV)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), fused=True)


def step():
    patches = pictures[torch.randint(len(pictures), (PICTURES,), device=DEV)]
    with bf16():
        guess, hidden = model(patches)
    loss = (F.mse_loss(guess.float(), patches, reduction="none").mean(2) * hidden).sum() / hidden.sum()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


if __name__ == "__main__":
    drive("maskpatch", step)
