import random

import torch

from common import DEV


class Answer:
    __slots__ = ("tokens", "limit")

    def __init__(self, limit):
        self.tokens, self.limit = [], limit


class Batcher:
    """A fixed number of seats; a seat that comes free is given to the next one who waits."""

    def __init__(self, model, watcher, seats, room, prompt, seed=9):
        self.model, self.watcher = model, watcher
        self.random = random.Random(seed)
        self.room, self.prompt = room, prompt
        self.answers = [self._new() for _ in range(seats)]
        vocab = model.embed.num_embeddings
        for a in self.answers:
            a.tokens = [self.random.randrange(vocab) for _ in range(self.random.randrange(a.limit))]
        self.finished = 0
        self.next = torch.zeros(seats, 1, dtype=torch.long, device=DEV)

    def _new(self):
        return Answer(self.random.randrange((self.room - self.prompt) // 2, self.room - self.prompt))

    @torch.inference_mode()
    def step(self):
        at = torch.tensor([[self.prompt + len(a.tokens)] for a in self.answers], pin_memory=DEV == "cuda")
        logits = self.model(self.next, at.to(DEV, non_blocking=True))[:, -1].float()
        noise = torch.empty_like(logits).exponential_()
        self.next = (logits.softmax(-1) / noise).argmax(-1, keepdim=True)
        for seat, token in enumerate(self.next[:, 0].tolist()):
            answer = self.answers[seat]
            answer.tokens.append(token)
            if len(answer.tokens) >= answer.limit or self.watcher.hit(answer.tokens):
                self.answers[seat] = self._new()
                self.finished += 1
        return self.next
