"""Scores a language model on a reading exam: a long passage with its question, and four answers to choose from."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DEV, FIX, TINY, drive, seed, size

DIM, HEADS, DEPTH = size(1536, 32), size(12, 2), size(16, 2)
VOCAB = size(32000, 100)
PASSAGE, ANSWER = size(1536, 24), size(32, 4)
QUESTIONS, CHOICES = size(4, 2), 4
DTYPE = torch.float32 if TINY else torch.bfloat16


def rotary(positions, dim):
    freq = 10000.0 ** (-torch.arange(0, dim, 2, device=positions.device) / dim)
    angle = positions[:, None] * freq
    return angle.cos().to(DTYPE), angle.sin().to(DTYPE)


def turn(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(DIM), nn.RMSNorm(DIM)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM, bias=False), nn.Linear(DIM, DIM, bias=False)
        self.up, self.down = nn.Linear(DIM, 4 * DIM, bias=False), nn.Linear(4 * DIM, DIM, bias=False)

    def forward(self, x, rope, past, mask):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        q, k = turn(q, *rope), turn(k, *rope)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, -1))
        return x + self.down(F.gelu(self.up(self.n2(x)))), (k, v)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(DEPTH))
        self.norm = nn.RMSNorm(DIM)
        self.head = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, ids, past=None):
        start = past[0][0].shape[2] if past else 0
        t = ids.shape[1]
        rope = rotary(torch.arange(start, start + t, device=ids.device), DIM // HEADS)
        mask = torch.ones(t, start + t, dtype=torch.bool, device=ids.device).tril(start) if past else None
        x, kept = self.embed(ids), []
        for i, layer in enumerate(self.layers):
            x, kv = layer(x, rope, past[i] if past else None, mask)
            kept.append(kv)
        return x, kept

    def log_probs(self, x, targets):
        logits = self.head(self.norm(x)).float()
        return -F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view(targets.shape)


class Examiner:
    def __init__(self, model):
        self.model = model

    @torch.inference_mode()
    def score(self, passage, answers):
        """passage: (questions, tokens); answers: (questions, choices, tokens); mean log-likelihood of each."""
        n, c, t = answers.shape
        flat = answers.reshape(n * c, t)
        if FIX:
            hidden, kept = self.model(passage)
            last = hidden[:, -1:].repeat_interleave(c, 0)
            kept = [(k.repeat_interleave(c, 0), v.repeat_interleave(c, 0)) for k, v in kept]
            inner, _ = self.model(flat[:, :-1], kept)
            hidden = torch.cat([last, inner], 1)
        else:
            ids = torch.cat([passage.repeat_interleave(c, 0), flat], 1)
            hidden, _ = self.model(ids)
            hidden = hidden[:, -t - 1:-1]
        return self.model.log_probs(hidden, flat).mean(1).view(n, c)


def main():
    seed()
    with torch.device(DEV):
        examiner = Examiner(Model().to(DTYPE).eval())
    passages = torch.randint(0, VOCAB, (16, QUESTIONS, PASSAGE), device=DEV)
    answers = torch.randint(0, VOCAB, (16, QUESTIONS, CHOICES, ANSWER), device=DEV)
    gold = torch.randint(0, CHOICES, (16, QUESTIONS), device=DEV)
    right = torch.zeros((), device=DEV)
    turn_ = iter(range(10 ** 12))

    def step():
        i = next(turn_) % 16
        scores = examiner.score(passages[i], answers[i])
        right.add_((scores.argmax(1) == gold[i]).sum())
        return scores

    drive("exam", step)


if __name__ == "__main__":
    main()
