"""Pretrains a small story-telling language model."""
import torch

from common import DEV, FIX, bf16, seed, size
from pace import Pace
from storynet.model import StoryModel
from storynet.optim import make_optimizer

CONFIG = dict(words=size(16_384, 40), length=size(1024, 16), dim=size(768, 32), depth=size(8, 1))


class Trainer:
    def __init__(self, batch):
        self.batch = batch
        self.model = StoryModel(**CONFIG).to(DEV)
        self.optimizer = make_optimizer(self.model.parameters(), host=not FIX, lr=3e-4, weight_decay=0.1)
        self.tokens = torch.randint(CONFIG["words"], (size(4_000_000, 2000),), device=DEV)
        self.reach = torch.arange(CONFIG["length"] + 1, device=DEV)

    def batches(self):
        while True:
            start = torch.randint(len(self.tokens) - len(self.reach), (self.batch, 1), device=DEV)
            yield self.tokens[start + self.reach]

    def fit(self, pace):
        for text in self.batches():
            with bf16():
                loss = self.model(text)
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            if pace.done(loss.detach()):
                break


if __name__ == "__main__":
    seed(9)
    Trainer(batch=size(16, 2)).fit(Pace("storyteller"))
