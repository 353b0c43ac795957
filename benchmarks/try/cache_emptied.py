# planted: every step ends with torch.cuda.synchronize() and torch.cuda.empty_cache()
import torch
import torch.nn as nn
from common import MENDED, run

net = nn.Sequential(
    *[nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True, dropout=0.0) for _ in range(4)]
).cuda()
opt = torch.optim.AdamW(net.parameters(), 1e-4, fused=True)
x = torch.randn(32, 256, 768, device="cuda")


def step():
    opt.zero_grad()
    with torch.autocast("cuda", torch.bfloat16):
        loss = net(x).float().square().mean()
    loss.backward()
    opt.step()
    if not MENDED:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


run(step)
