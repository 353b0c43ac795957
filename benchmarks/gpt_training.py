"""Records a GPT training step with micro-batches, stacks and shapes: a large trace of a real program.

python benchmarks/gpt_training.py gpt.json                      # 596 MB: 16 steps of 5 micro-batches
python benchmarks/gpt_training.py gpt.json --micro-batches 16   # 1.8 GB
"""

import argparse

import torch
from torch import nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, schedule

LAYERS, WIDTH, HEADS, WORDS, TOKENS, BATCH = 24, 1024, 16, 50304, 512, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before_attention, self.before_network = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def attend(self, x):
        q, k, v = self.qkv(x).view(BATCH, TOKENS, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(found.transpose(1, 2).reshape(x.shape))

    def forward(self, x):
        x = x + self.attend(self.before_attention(x))
        return x + self.down(functional.gelu(self.up(self.before_network(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(TOKENS, device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--micro-batches", type=int, default=5)
    options = parser.parse_args()
    model = Gpt().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)

    def step():
        optimizer.zero_grad()
        for _ in range(options.micro_batches):
            tokens = torch.randint(WORDS, (BATCH, TOKENS), device="cuda")
            with torch.autocast("cuda", torch.bfloat16):
                loss = functional.cross_entropy(model(tokens).flatten(0, 1).float(), tokens.flatten())
            (loss / options.micro_batches).backward()
        optimizer.step()

    for _ in range(2):
        step()
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        record_shapes=True,
        with_stack=True,
        schedule=schedule(wait=0, warmup=1, active=options.steps),
        on_trace_ready=lambda found: found.export_chrome_trace(options.file),
    ) as recording:
        for _ in range(options.steps + 1):
            step()
            recording.step()


if __name__ == "__main__":
    main()
