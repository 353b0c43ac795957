import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

from common import FIX


class Table(Dataset):
    def __init__(self, n, width):
        self.x, self.y = torch.randn(n, width), torch.randint(0, 2, (n,)).float()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def loader(data, batch):
    if FIX:  # a batch's indices go to the dataset at once
        sampler = BatchSampler(RandomSampler(data), batch, drop_last=True)
        return DataLoader(data, sampler=sampler, batch_size=None)
    return DataLoader(data, batch_size=batch, shuffle=True, drop_last=True)


def forever(loader, device):
    while True:
        for x, y in loader:
            yield x.to(device), y.to(device)
