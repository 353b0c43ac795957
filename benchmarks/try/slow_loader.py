# planted: samples are made in the training process (num_workers=0), some 2 ms each
import torch
import torch.nn as nn
from common import MENDED, run
from torch.utils.data import DataLoader, Dataset


class Data(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, i):
        x = torch.full((3, 96, 96), (i % 255) / 255)
        for _ in range(20):
            x = torch.roll(x, 7, 1) * 0.99 + x.flip(2) * 0.01
        return x, i % 10


def main():
    net = nn.Sequential(
        nn.Conv2d(3, 64, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(64, 128, 3, 2, 1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, 10),
    ).cuda()
    opt = torch.optim.SGD(net.parameters(), 0.01)
    extra = {"num_workers": 8, "persistent_workers": True} if MENDED else {}
    batches = iter(DataLoader(Data(), 64, shuffle=True, **extra))

    def step():
        x, y = next(batches)
        opt.zero_grad()
        nn.functional.cross_entropy(net(x.cuda()), y.cuda()).backward()
        opt.step()

    run(step, 8000)


if __name__ == "__main__":
    main()
