"""ResNet-50 with a loader."""
import torch
import torch.nn.functional as F
import torchvision
from torch.utils.data import DataLoader, Dataset

from common import DEV, TINY, bf16, compiled, drive, seed, size

BATCH, SIDE, CLASSES, STORED = size((256, 224, 1000, 2048), (2, 64, 10, 16))


class Stored(Dataset):
    """Decoded images in memory (the workers inherit them), channels last; a batch is fetched at once."""

    def __init__(self):
        self.images = torch.randint(256, (STORED, SIDE, SIDE, 3), dtype=torch.uint8)
        self.labels = torch.randint(CLASSES, (STORED,))

    def __len__(self):
        return 1 << 30

    def __getitem__(self, i):
        first = i * BATCH % STORED
        return self.images[first:first + BATCH].clone(), self.labels[first:first + BATCH].clone()


class Prefetcher:
    """The next batch is copied and normalised on a stream of its own while this one is computed."""

    def __init__(self, loader):
        self.source = iter(loader)
        self.stream = torch.cuda.Stream() if DEV == "cuda" else None
        self.mean = torch.tensor([123.7, 116.3, 103.5], device=DEV).view(1, 3, 1, 1)
        self.scale = 1 / torch.tensor([58.4, 57.1, 57.4], device=DEV).view(1, 3, 1, 1)
        self.fetch()

    def fetch(self):
        images, labels = next(self.source)
        with torch.cuda.stream(self.stream) if self.stream else torch.no_grad():
            images = images.to(DEV, non_blocking=True).permute(0, 3, 1, 2)
            self.ready = ((images - self.mean) * self.scale).bfloat16(), labels.to(DEV, non_blocking=True)

    def next(self):
        if self.stream:
            now = torch.cuda.current_stream()
            now.wait_stream(self.stream)
            for t in self.ready:
                t.record_stream(now)
        batch = self.ready
        self.fetch()
        return batch


def main():
    seed()
    torch.backends.cudnn.benchmark = True
    model = torchvision.models.resnet50(num_classes=CLASSES).to(DEV, memory_format=torch.channels_last)
    model = compiled(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, fused=True)
    workers = {} if TINY else dict(num_workers=6, persistent_workers=True, prefetch_factor=2)
    batches = Prefetcher(DataLoader(Stored(), batch_size=None, pin_memory=not TINY, **workers))

    def step():
        images, labels = batches.next()
        with bf16():
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.detach()

    drive("resnet", step)


if __name__ == "__main__":
    main()
