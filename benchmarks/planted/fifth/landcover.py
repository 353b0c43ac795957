"""Fine-tunes a land-cover classifier on one region's few tiles, over many short epochs."""
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, RandomSampler

from common import DEV, FIX, TINY, bf16, seed, size
from pace import Pace
from tiles.data import Tiles, collate
from tiles.net import land_net

BATCH, KINDS, SIDE = size(192, 4), 12, size(64, 16)
PER_EPOCH = size(12, 2)


def loader_for(data, order, **more):
    return DataLoader(data, BATCH, sampler=RandomSampler(data, generator=order), num_workers=size(6, 1),
                      collate_fn=collate, pin_memory=not TINY, drop_last=True, **more)


def epochs(data):
    """An iterable over the tiles for each epoch."""
    order = torch.Generator().manual_seed(8)
    if FIX:
        loader = loader_for(data, order, persistent_workers=True)
        while True:
            yield loader
    while True:
        yield loader_for(data, order)


def train(model, optimizer, data, pace):
    for epoch, loader in enumerate(epochs(data)):
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * 0.999 ** epoch
        for images, kinds in loader:
            images = images.to(DEV, non_blocking=True).float().div_(255).to(memory_format=torch.channels_last)
            kinds = kinds.to(DEV, non_blocking=True)
            with bf16():
                loss = F.cross_entropy(model(images), kinds, label_smoothing=0.1)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if pace.done(loss.detach()):
                return


if __name__ == "__main__":
    seed(8)
    net = land_net(KINDS, size(96, 8), size(3, 1)).to(DEV, memory_format=torch.channels_last)
    adam = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    train(net, adam, Tiles(BATCH * PER_EPOCH, SIDE, KINDS), Pace("landcover", unit=PER_EPOCH))
