# planted: AdamW goes through its 480 tensors one by one (foreach=False)
import torch
import torch.nn as nn
from common import MENDED, run

net = nn.Sequential(*[m for _ in range(120) for m in (nn.Linear(512, 512), nn.LayerNorm(512), nn.ReLU())]).cuda()
opt = torch.optim.AdamW(net.parameters(), 1e-4, **({"fused": True} if MENDED else {"foreach": False}))
x = torch.randn(2048, 512, device="cuda")


def step():
    opt.zero_grad()
    net(x).square().mean().backward()
    opt.step()


run(step)
