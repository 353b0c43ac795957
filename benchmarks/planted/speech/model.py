"""Convolutional acoustic model: frames to word pieces, one output for two frames."""
import torch
import torch.nn.functional as F
from torch import nn


class ConvBlock(nn.Module):
    def __init__(self, d, width):
        super().__init__()
        self.a = nn.Conv1d(d, d, width, padding=width // 2)
        self.b = nn.Conv1d(d, d, width, padding=width // 2)
        self.scale = nn.Parameter(torch.full((d, 1), 0.1))

    def forward(self, x, mask):
        h = F.silu(self.a(x)) * mask
        return x + self.scale.to(x.dtype) * self.b(h) * mask


class Acoustic(nn.Module):
    def __init__(self, mels, d, blocks, width, vocab):
        super().__init__()
        self.front = nn.Conv1d(mels, d, 5, stride=2, padding=2)
        self.blocks = nn.ModuleList(ConvBlock(d, width) for _ in range(blocks))
        self.head = nn.Conv1d(d, vocab, 1)

    def forward(self, features, frames):
        """log probabilities (T, B, vocab) and the number of outputs of each utterance"""
        x = self.front(features.transpose(1, 2))
        lengths = (frames + 1) // 2
        where = torch.arange(x.size(2), device=x.device)
        mask = (where < lengths.to(x.device, non_blocking=True)[:, None]).to(x.dtype)[:, None]
        x = x * mask
        for block in self.blocks:
            x = block(x, mask)
        return self.head(x).permute(2, 0, 1).float().log_softmax(-1), lengths
