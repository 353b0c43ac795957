"""Finds fourteen signs on chest films."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from common import DEV, TINY, bf16, seed, size
from pace import Pace
from xraylib.data import Archive, Endless, ahead

BATCH, SIDE, WIDTH = size(128, 4), size(256, 32), size(64, 8)


class Dense(nn.Module):
    def __init__(self, inner, outer, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer),
                                  nn.ReLU(inplace=True), nn.Conv2d(outer, outer, 3, 1, 1, bias=False),
                                  nn.BatchNorm2d(outer))
        self.skip = nn.Conv2d(inner, outer, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x), inplace=True)


def film_net():
    w = WIDTH
    return nn.Sequential(nn.Conv2d(4, w, 5, 1, 2), nn.ReLU(inplace=True), Dense(w, w, 1), Dense(w, w, 1),
                         Dense(w, 2 * w, 2), Dense(2 * w, 2 * w, 1), Dense(2 * w, 4 * w, 2), Dense(4 * w, 4 * w, 1),
                         Dense(4 * w, 8 * w, 2), Dense(8 * w, 8 * w, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(8 * w, 14))


def augment(films):
    """Contrast, a shift and noise, on the device."""
    x = films[:, None].to(torch.bfloat16).div_(255)
    gain = torch.rand(len(x), 1, 1, 1, device=x.device, dtype=x.dtype) * 0.4 + 0.8
    x = torch.addcmul(torch.full_like(x, -0.4), x, gain)
    x = F.pixel_unshuffle(x + 0.02 * torch.randn_like(x), 2)
    return x.contiguous(memory_format=torch.channels_last)


def fit(net, optimizer, loader, pace):
    for films, signs in ahead(loader):
        with bf16():
            guess = net(augment(films))
            loss = F.binary_cross_entropy_with_logits(guess.float(), signs)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if pace.done(loss.detach()):
            return


if __name__ == "__main__":
    seed(24)
    archive = Archive(size(6000, 16), SIDE)
    loader = DataLoader(archive, batch_sampler=Endless(len(archive), BATCH), num_workers=size(8, 1),
                        collate_fn=lambda batch: batch, pin_memory=not TINY, prefetch_factor=4)
    net = film_net().to(DEV, memory_format=torch.channels_last)
    fit(net, torch.optim.AdamW(net.parameters(), lr=3e-4, fused=True), loader, Pace("xray"))
