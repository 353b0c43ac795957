"""Reinforcement of a small language model on arithmetic tasks: groups of answers, clipped ratios, no critic."""
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from common import DEV, FIX, TINY, bf16, drive, seed, size

DIM, HEADS, DEPTH = size(768, 32), size(12, 2), size(4, 2)
VOCAB = size(65536, 128)
GROUPS, GROUP, LENGTH = size(2, 2), size(4, 2), size(1024, 16)


@dataclass
class Recipe:
    rate: float = 1e-6
    clip_low: float = 0.2
    clip_high: float = 0.28
    kl_weight: float = 1e-3
    entropy_weight: float = 0.0
    max_norm: float = 1.0


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(DIM), nn.RMSNorm(DIM)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM, bias=False), nn.Linear(DIM, DIM, bias=False)
        self.up, self.down = nn.Linear(DIM, 4 * DIM, bias=False), nn.Linear(4 * DIM, DIM, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, -1))
        return x + self.down(F.silu(self.up(self.n2(x))))


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(VOCAB, DIM), nn.Embedding(LENGTH, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(DEPTH))
        self.norm, self.head = nn.RMSNorm(DIM), nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, ids):
        x = self.embed(ids) + self.place.weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Loss:
    def __init__(self, recipe):
        self.r = recipe

    def __call__(self, logits, batch):
        mask, taken = batch["mask"], batch["ids"][:, 1:]
        lp = logits[:, :-1].float().log_softmax(-1)
        logp = lp.gather(2, taken[..., None])[..., 0]
        ratio = (logp - batch["old"]).exp()
        gain = batch["advantage"][:, None]
        clipped = ratio.clamp(1 - self.r.clip_low, 1 + self.r.clip_high)
        loss = -torch.minimum(ratio * gain, clipped * gain)
        gap = batch["reference"] - logp
        loss = loss + self.r.kl_weight * (gap.exp() - gap - 1)
        if not FIX or self.r.entropy_weight:
            entropy = -(lp.exp() * lp).sum(-1)
            loss = loss - self.r.entropy_weight * entropy
        return (loss * mask).sum() / mask.sum()


class Learner:
    def __init__(self, policy, recipe):
        self.policy, self.recipe = policy, recipe
        self.loss = Loss(recipe)
        self.opt = torch.optim.AdamW(policy.parameters(), lr=recipe.rate, fused=True)

    def step(self, batch):
        with bf16():
            logits = self.policy(batch["ids"])
        loss = self.loss(logits, batch)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.policy.parameters(), self.recipe.max_norm, foreach=True)
        self.opt.step()
        return loss.detach()


def experience():
    """Answers with their rewards, and what the sampler and the reference said of each token."""
    n = GROUPS * GROUP
    reward = torch.rand(GROUPS, GROUP, device=DEV).round()
    advantage = ((reward - reward.mean(1, keepdim=True)) / (reward.std(1, keepdim=True) + 1e-4)).flatten()
    length = torch.randint(LENGTH // 2, LENGTH, (n, 1), device=DEV)
    old = -torch.rand(n, LENGTH - 1, device=DEV) - torch.tensor(float(VOCAB)).log()
    return {"ids": torch.randint(0, VOCAB, (n, LENGTH), device=DEV), "old": old, "reference": old + 0.01,
            "advantage": advantage, "mask": (torch.arange(LENGTH - 1, device=DEV) < length).float()}


def main():
    seed()
    with torch.device(DEV):
        policy = Policy()
    if not TINY:
        for layer in policy.layers:
            layer.compile()
    learner = Learner(policy, Recipe())
    pool = [experience() for _ in range(8)]
    turn = iter(range(10 ** 12))
    drive("solve_rl", lambda: learner.step(pool[next(turn) % len(pool)]))


if __name__ == "__main__":
    main()
