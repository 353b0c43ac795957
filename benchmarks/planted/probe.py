"""A classifier with attention pooling on the features of a pretrained vision transformer."""
import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, FIX, bf16, drive, pinned, seed, size

BATCH, SIDE, PATCH, CLASSES = size((64, 224, 16, 200), (2, 32, 16, 5))
D, LAYERS, HEADS = size((768, 12, 12), (16, 2, 2))


def attend(q, k, v):
    q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))

    def forward(self, x):
        x = x + self.out(attend(*self.qkv(self.n1(x)).chunk(3, -1)))
        return x + self.mlp(self.n2(x))


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, D, PATCH, stride=PATCH)
        self.pos = nn.Parameter(torch.randn((SIDE // PATCH) ** 2, D) * 0.02)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(D)

    def forward(self, images):
        return self.norm(self.blocks(self.patch(images).flatten(2).transpose(1, 2) + self.pos))


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Parameter(torch.randn(1, 1, D))
        self.kv, self.out = nn.Linear(D, 2 * D), nn.Linear(D, CLASSES)

    def forward(self, features):
        query = self.query.to(features.dtype).expand(features.size(0), -1, -1)
        return self.out(attend(query, *self.kv(features).chunk(2, -1)).squeeze(1))


def load_backbone():
    backbone = Backbone().to(DEV).eval()  # a checkpoint would be read here
    if FIX:
        backbone.requires_grad_(False)
    return backbone


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = load_backbone(), Head().to(DEV)

    def forward(self, images):
        return self.head(self.backbone(images))


def batches(count=4):
    ring = [(pinned(torch.randn(BATCH, 3, SIDE, SIDE)), pinned(torch.randint(CLASSES, (BATCH,))))
            for _ in range(count)]
    while True:
        for images, labels in ring:
            yield images.to(DEV, non_blocking=True), labels.to(DEV, non_blocking=True)


def main():
    seed()
    model = Classifier()
    opt = torch.optim.AdamW(model.head.parameters(), lr=1e-3, fused=True)
    source = batches()

    def step():
        images, labels = next(source)
        with bf16():
            loss = F.cross_entropy(model(images), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    drive("probe", step)


if __name__ == "__main__":
    main()
