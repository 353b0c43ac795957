"""Vision transformers of the teacher and the student."""
import torch
from torch import nn

from layers import Block


class ViT(nn.Module):
    def __init__(self, width, depth, heads, side, classes, patch=16):
        super().__init__()
        self.patch = nn.Conv2d(3, width, patch, stride=patch)
        self.position = nn.Parameter(torch.randn((side // patch) ** 2, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2) + self.position
        return self.head(self.norm(self.blocks(x)).mean(1))
