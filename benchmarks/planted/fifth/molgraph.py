"""Regresses molecules' energies with a message-passing network."""
import torch
from torch.nn import functional as F

from callbacks import MemoryKeeper, RunningLoss, Warmup
from common import DEV, seed, size
from molnet.model import MolNet
from pace import Pace

torch.set_float32_matmul_precision("high")
MOLECULES, ATOMS, BONDS = size(4096, 4), size(32, 6), size(128, 14)


def molecule_batch():
    """Equal-sized molecules: kinds, bond features, bond ends, energies."""
    n, first = MOLECULES, torch.arange(MOLECULES, device=DEV)[:, None] * ATOMS
    ends = torch.randint(ATOMS, (2, n, BONDS), device=DEV) + first
    kinds = torch.randint(20, (n * ATOMS,), device=DEV)
    return kinds, torch.randn(n * BONDS, 4, device=DEV), *ends.flatten(1), torch.randn(n, device=DEV)


class Trainer:
    def __init__(self, model, optimizer, callbacks):
        self.model, self.optimizer, self.callbacks = model, optimizer, callbacks

    def run(self, batches, pace):
        number = 0
        while True:
            for *graph, energy in batches:
                loss = F.huber_loss(self.model(*graph, MOLECULES), energy)
                self.optimizer.zero_grad(set_to_none=True)
                loss.backward()
                self.optimizer.step()
                for callback in self.callbacks:
                    callback.after_step(number, loss.detach())
                number += 1
                if pace.done(loss.detach()):
                    return


if __name__ == "__main__":
    seed(11)
    net = MolNet(20, size(192, 16), size(6, 2)).to(DEV)
    adam = torch.optim.AdamW(net.parameters(), lr=0.0, fused=True)
    trainer = Trainer(net, adam, [Warmup(adam, 500, 1e-3), RunningLoss(), MemoryKeeper()])
    trainer.run([molecule_batch() for _ in range(size(8, 2))], Pace("molgraph"))
