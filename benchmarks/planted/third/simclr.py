"""Contrastive learning of two views per image."""
import torch
import torch.nn.functional as F
from torch import nn

from common import DEV, FIX, bf16, drive, seed, size

IMAGES, SIDE, WIDTHS = size((3072, 32, (64, 128, 256)), (4, 16, (8, 8)))
PROJECTED = size(128, 8)


class Residual(nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(a, b, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(b, b, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(b), nn.BatchNorm2d(b)
        self.skip = nn.Conv2d(a, b, 1, stride, bias=False) if a != b or stride > 1 else nn.Identity()

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        return F.relu(self.norm2(self.conv2(y)) + self.skip(x))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, WIDTHS[0], 3, 2, 1)
        self.body = nn.Sequential(*(Residual(a, b, 1 if i == 0 else 2)
                                    for i, (a, b) in enumerate(zip((WIDTHS[0], *WIDTHS), WIDTHS))))
        self.project = nn.Sequential(nn.Linear(WIDTHS[-1], 512), nn.ReLU(), nn.Linear(512, PROJECTED))

    def forward(self, x):
        return self.project(self.body(self.stem(x)).mean((2, 3)))


class Views:
    def __init__(self, count=size(50000, 8)):
        self.images = torch.randint(256, (count, 3, SIDE, SIDE), dtype=torch.uint8, device=DEV)

    def view(self, images):
        images = torch.where(torch.rand(len(images), 1, 1, 1, device=DEV) < 0.5, images, images.flip(-1))
        gain = 0.6 + 0.8 * torch.rand(len(images), 3, 1, 1, device=DEV)
        return (images * gain).to(memory_format=torch.channels_last)

    def pair(self):
        images = self.images[torch.randint(len(self.images), (IMAGES,), device=DEV)].float().div(127.5) - 1
        return torch.cat([self.view(images), self.view(images)])


class NTXent:
    def __init__(self, temperature=0.2):
        self.temperature = temperature
        n = 2 * IMAGES
        self.itself = torch.eye(n, dtype=torch.bool, device=DEV)
        self.partner = torch.arange(n, device=DEV).roll(IMAGES)
        self.is_partner = F.one_hot(self.partner, n).bool()

    def logits(self, similarity):
        if FIX:
            return similarity.masked_fill(self.itself, -torch.inf), self.partner
        positive = similarity[self.is_partner].view(len(similarity), 1)
        negative = similarity[~(self.is_partner | self.itself)].view(len(similarity), -1)
        target = torch.zeros(len(similarity), dtype=torch.long, device=DEV)
        return torch.cat([positive, negative], 1), target

    def __call__(self, z):
        z = F.normalize(z.float(), dim=-1)
        logits, target = self.logits(z @ z.T)
        return F.cross_entropy(logits / self.temperature, target)


def main():
    seed()
    views, loss_of = Views(), NTXent()
    model = Encoder().to(DEV, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, fused=True)

    def step():
        with bf16():
            z = model(views.pair())
        loss = loss_of(z)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    drive("simclr", step)


if __name__ == "__main__":
    main()
