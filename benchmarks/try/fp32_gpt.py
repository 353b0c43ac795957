# planted: all products in fp32; TF32 by torch.set_float32_matmul_precision("high") (changes what is computed)
import torch
import torch.nn as nn
from common import MENDED, run

if MENDED:
    torch.set_float32_matmul_precision("high")
net = nn.Sequential(
    *[nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, dropout=0.0) for _ in range(4)]
).cuda()
opt = torch.optim.AdamW(net.parameters(), 1e-4, fused=True)
x = torch.randn(8, 512, 1024, device="cuda")


def step():
    opt.zero_grad()
    net(x).square().mean().backward()
    opt.step()


run(step)
