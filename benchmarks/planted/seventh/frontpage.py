"""Orders a portal's stories for its visitors: history encoder, story tower, a mixing perceptron for each pair."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DEV, TINY, drive, pinned, seed, size

STORIES, TOPICS = size(2_000_000, 500), size(5000, 20)
DIM, WIDE = size(256, 16), size(1024, 16)
VISITORS, HISTORY, CANDIDATES, SHOWN = size(2048, 4), size(128, 6), size(500, 12), size(20, 3)
DTYPE = torch.float32 if TINY else torch.bfloat16


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, size(4, 2), -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, -1))
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))


class History(nn.Module):
    """What a visitor has read, once for each visitor."""

    def __init__(self):
        super().__init__()
        self.place = nn.Parameter(torch.randn(HISTORY, DIM) * 0.02)
        self.layers = nn.ModuleList(Layer() for _ in range(2))

    def forward(self, x):
        x = x + self.place
        for layer in self.layers:
            x = layer(x)
        return x.mean(1)


class Mixer(nn.Module):
    """Score of each pair; the visitor's part of the first layer is computed once and added to all candidates."""

    def __init__(self):
        super().__init__()
        self.visitor, self.story = nn.Linear(DIM, WIDE), nn.Linear(2 * DIM, WIDE, bias=False)
        self.inner, self.last = nn.Linear(WIDE, WIDE), nn.Linear(WIDE, 1)

    def forward(self, visitor, story):
        x = F.gelu(self.visitor(visitor)[:, None] + self.story(story), approximate="tanh")
        x = F.gelu(self.inner(x), approximate="tanh")
        return self.last(x)[..., 0]


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.stories, self.topics = nn.Embedding(STORIES, DIM), nn.Embedding(TOPICS, DIM)
        self.history, self.mixer = History(), Mixer()

    def forward(self, read, candidates, topics):
        visitor = self.history(self.stories(read))
        story = torch.cat([self.stories(candidates), self.topics(topics)], 2)
        score, order = self.mixer(visitor, story).topk(SHOWN, 1)
        return score, candidates.gather(1, order)


class Desk:
    """Requests come in pinned memory, the pages leave in it."""

    def __init__(self, n):
        self.requests = [tuple(pinned(torch.randint(0, top, (VISITORS, width))) for top, width in
                               ((STORIES, HISTORY), (STORIES, CANDIDATES), (TOPICS, CANDIDATES))) for _ in range(n)]
        self.pages = [pinned(torch.empty(VISITORS, SHOWN, dtype=torch.long)) for _ in range(2)]
        self.ready = [None, None]
        self.sent = 0

    def request(self):
        return [t.to(DEV, non_blocking=True) for t in self.requests[self.sent % len(self.requests)]]

    def answer(self, page):
        """Takes a page; the one before it has arrived by now and is handed on."""
        i = self.sent % 2
        self.pages[i].copy_(page, non_blocking=True)
        if not TINY:
            self.ready[i] = torch.cuda.Event()
            self.ready[i].record()
            if self.ready[1 - i] is not None:
                self.ready[1 - i].synchronize()
        self.sent += 1
        return self.pages[1 - i]


def main():
    seed()
    with torch.device(DEV):
        model = Ranker().to(DTYPE).eval()
    if not TINY:
        model.mixer.compile(dynamic=False)
        model.history.compile(dynamic=False)
    desk = Desk(size(8, 2))

    @torch.inference_mode()
    def step():
        score, page = model(*desk.request())
        desk.answer(page)
        return score

    drive("frontpage", step)


if __name__ == "__main__":
    main()
