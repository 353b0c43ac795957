import torch

from common import DEV, FIX


class SelfSpeculative:
    """The first layers propose some tokens, the whole model checks them in one pass; greedy."""

    def __init__(self, model, early, proposals, prompt, room):
        self.model, self.early, self.n = model, early, proposals
        self.prompt, self.limit = prompt, room - 2 * proposals - 2
        rows = model.rows.shape[0]
        self.length = torch.randint(prompt, self.limit, (rows,), device=DEV)
        self.last = torch.zeros(rows, 1, dtype=torch.long, device=DEV)
        self.ahead = torch.arange(proposals + 1, device=DEV)

    def propose(self):
        tokens = [self.last]
        for i in range(self.n):
            logits = self.model(tokens[-1], self.length[:, None] + i, self.early)
            tokens.append(logits[:, -1:].argmax(-1))
        return torch.cat(tokens, 1)

    def verify(self, tokens):
        """How many proposals hold for each row, and the token that follows them."""
        best = self.model(tokens, self.length[:, None] + self.ahead).argmax(-1)
        agreed = (best[:, :-1] == tokens[:, 1:]).long().cumprod(1).sum(1)
        return agreed, best.gather(1, agreed[:, None])

    def commit(self, tokens, agreed):
        """Keeps the agreed tokens in the cache; what lies behind them is overwritten by the next round."""
        if not FIX:
            upto = torch.minimum(self.ahead, agreed[:, None])
            self.model(tokens.gather(1, upto), self.length[:, None] + upto)
        self.length = self.length + agreed + 1

    @torch.inference_mode()
    def round(self):
        tokens = self.propose()
        agreed, follow = self.verify(tokens)
        self.commit(tokens, agreed)
        self.last = follow
        self.length = torch.where(self.length > self.limit, self.prompt, self.length)
        return agreed
