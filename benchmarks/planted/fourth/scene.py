"""One trunk, four tasks: depth, normals, labels and edges of each patch of a scene."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DEV, drive, seed, size
from multitask import losses
from multitask.trainer import MultiTaskTrainer

BATCH = size(32, 2)
PATCHES = size(256, 16)
DIM = size(768, 32)
DEPTH = size(8, 2)
HEADS = size(12, 2)


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, HEADS, d // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class SceneNet(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.embed = nn.Linear(768, DIM)
        self.blocks = nn.ModuleList([Block(DIM) for _ in range(DEPTH)])
        self.heads = nn.ModuleDict({k: nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, n)) for k, n in outputs.items()})

    def forward(self, patches):
        x = self.embed(patches)
        for block in self.blocks:
            x = block(x)
        return {k: head(x) for k, head in self.heads.items()}


def make_batch():
    shape = (BATCH, PATCHES)
    return {"patches": torch.randn(*shape, 768, device=DEV), "depth": torch.rand(shape, device=DEV),
            "normals": F.normalize(torch.randn(*shape, 3, device=DEV), dim=-1),
            "labels": torch.randint(0, 40, shape, device=DEV), "edges": torch.rand(shape, device=DEV).round()}


if __name__ == "__main__":
    seed()
    model = SceneNet({"depth": 1, "normals": 3, "labels": 40, "edges": 1}).to(DEV)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    criteria = {"depth": losses.depth_loss, "normals": losses.normal_loss, "labels": losses.label_loss,
                "edges": losses.edge_loss}
    trainer = MultiTaskTrainer(model, opt, criteria, losses.Weighting(list(criteria), DEV))
    batch = make_batch()
    drive("scene", lambda: trainer.step(batch))
