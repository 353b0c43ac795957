# planted: eager chains of small elementwise operators in bf16 autocast, which torch.compile fuses
import torch
import torch.nn as nn
from common import MENDED, run
from torch.nn import functional


class Norm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w = nn.Parameter(torch.ones(d))

    def forward(self, x):
        x = x.float()
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.w


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.n1, self.n2 = Norm(d), Norm(d)
        self.gate, self.up, self.down, self.mix = (
            nn.Linear(d, 2 * d),
            nn.Linear(d, 2 * d),
            nn.Linear(2 * d, d),
            nn.Linear(d, d),
        )
        self.a, self.b = nn.Parameter(torch.full((d,), 0.1)), nn.Parameter(torch.full((d,), 0.1))

    def forward(self, x):
        h = self.n1(x)
        one, two = self.mix(h).chunk(2, -1)
        h = torch.cat([one * torch.cos(two) - two * torch.sin(one), one * torch.sin(two) + two * torch.cos(one)], -1)
        x = x + self.a * h
        h = self.n2(x)
        return x + self.b * self.down(functional.silu(self.gate(h)) * self.up(h))


net = nn.Sequential(*[Block(1024) for _ in range(8)]).cuda()
if MENDED:
    net.compile()
opt = torch.optim.AdamW(net.parameters(), 1e-4, fused=True)
x = torch.randn(16, 1024, 1024, device="cuda")


def step():
    opt.zero_grad()
    with torch.autocast("cuda", torch.bfloat16):
        loss = net(x).float().square().mean()
    loss.backward()
    opt.step()


run(step)
