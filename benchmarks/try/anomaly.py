# planted: anomaly mode was left on
import torch
import torch.nn as nn
from common import MENDED, run

torch.autograd.set_detect_anomaly(not MENDED)
net = nn.Sequential(*[nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, dropout=0.0) for _ in range(8)]).cuda()
opt = torch.optim.AdamW(net.parameters(), 1e-4, fused=True)
x = torch.randn(16, 64, 256, device="cuda")


def step():
    opt.zero_grad()
    net(x).square().mean().backward()
    opt.step()


run(step)
