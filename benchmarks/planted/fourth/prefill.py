"""Clean: reads prompts (bf16 inference, compiled), 4 x 2048 tokens."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DEV, compiled, drive, seed, size

DIM, HEADS, DEPTH, BATCH, LENGTH = size((4096, 32, 4, 4, 2048), (32, 2, 2, 1, 8))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(DIM), nn.RMSNorm(DIM)
        self.qkv, self.o = nn.Linear(DIM, 3 * DIM, bias=False), nn.Linear(DIM, DIM, bias=False)
        self.gate_up, self.down = nn.Linear(DIM, 6 * DIM, bias=False), nn.Linear(3 * DIM, DIM, bias=False)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, n, 3, HEADS, d // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, d)
        x = x + self.o(y)
        gate, up = self.gate_up(self.n2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


if __name__ == "__main__":
    seed()
    model = nn.Sequential(*[Layer() for _ in range(DEPTH)]).to(DEV, torch.bfloat16).eval()
    run = compiled(model)
    x = torch.randn(BATCH, LENGTH, DIM, device=DEV, dtype=torch.bfloat16)

    @torch.inference_mode()
    def step():
        return run(x)

    drive("prefill", step)
