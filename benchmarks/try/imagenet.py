"""ResNet-50 on made-up images with a loader of four workers, written as public training examples are."""

import argparse
import time

import torch
import torchvision.transforms as transforms
from torch import nn
from torchvision.datasets import FakeData
from torchvision.models import resnet50

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--workers", type=int, default=4)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--time", action="store_true")
parser.add_argument("--channels-last", action="store_true")
parser.add_argument("--benchmark", action="store_true")
parser.add_argument("--fused", action="store_true")
args = parser.parse_args()


class Meter:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n


def accuracy(output, target, topk=(1, 5)):
    with torch.no_grad():
        _, pred = output.topk(max(topk), 1, True, True)
        correct = pred.t().eq(target.view(1, -1))
        return [correct[:k].reshape(-1).float().sum(0).mul_(100.0 / target.size(0)) for k in topk]


def train(loader, model, criterion, optimizer, device, epoch):
    losses, top1, top5 = Meter(), Meter(), Meter()
    model.train()
    begun = 0.0
    for i, (images, target) in enumerate(loader):
        images = images.to(device, non_blocking=True)
        if args.channels_last:
            images = images.to(memory_format=torch.channels_last)
        target = target.to(device, non_blocking=True)
        output = model(images)
        loss = criterion(output, target)
        acc1, acc5 = accuracy(output, target)
        losses.update(loss.item(), images.size(0))
        top1.update(acc1.item(), images.size(0))
        top5.update(acc5.item(), images.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if args.time and i in (50, 200):
            torch.cuda.synchronize()
            if i == 200:
                print("STEP", vars(args), round((time.perf_counter() - begun) / 150 * 1e3, 2), "ms", flush=True)
                raise SystemExit
            begun = time.perf_counter()
    print("epoch", epoch, losses.sum / max(losses.count, 1))


def main():
    device = torch.device("cuda")
    model = resnet50().to(device)
    if args.channels_last:
        model = model.to(memory_format=torch.channels_last)
    torch.backends.cudnn.benchmark = args.benchmark
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4, fused=args.fused or None)
    steps = transforms.Compose(
        [
            transforms.RandomResizedCrop(224),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    data = FakeData(128000, (3, 256, 256), 1000, steps)
    loader = torch.utils.data.DataLoader(data, args.batch_size, shuffle=True, num_workers=args.workers, pin_memory=True)
    for epoch in range(args.epochs):
        train(loader, model, criterion, optimizer, device, epoch)


if __name__ == "__main__":
    main()
