"""Image classification, augmentation on the GPU."""
import torch
import torch.nn.functional as F
import torchvision

from common import DEV, FIX, bf16, drive, pinned, seed, size

BATCH, SIDE, CLASSES = size((128, 224, 1000), (2, 64, 10))
BLUR = size(29, 7)


def flip(x):
    pick = torch.rand(x.size(0), 1, 1, 1, device=x.device) < 0.5
    return torch.where(pick, x.flip(3), x)


def colour_jitter(x, strength=0.4):
    shape = (x.size(0), 1, 1, 1)
    brightness = 1 + strength * (2 * torch.rand(shape, device=x.device) - 1)
    contrast = 1 + strength * (2 * torch.rand(shape, device=x.device) - 1)
    mean = x.mean((1, 2, 3), keepdim=True)
    return ((x - mean) * contrast + mean) * brightness


def gaussian_blur(x, width=BLUR, sigma=2.0):
    r = torch.arange(width, device=x.device, dtype=x.dtype) - width // 2
    g = torch.exp(-r * r / (2 * sigma * sigma))
    g = g / g.sum()
    ch, p = x.size(1), width // 2
    x = F.pad(x, (p, p, p, p), mode="reflect")
    if FIX:
        x = F.conv2d(x, g.view(1, 1, 1, -1).expand(ch, 1, 1, -1), groups=ch)
        return F.conv2d(x, g.view(1, 1, -1, 1).expand(ch, 1, -1, 1), groups=ch)
    return F.conv2d(x, torch.outer(g, g).expand(ch, 1, -1, -1), groups=ch)


class Augment:
    def __init__(self):
        self.mean = torch.tensor([0.485, 0.456, 0.406], device=DEV).view(1, 3, 1, 1)
        self.scale = 1 / torch.tensor([0.229, 0.224, 0.225], device=DEV).view(1, 3, 1, 1)

    @torch.no_grad()
    def __call__(self, images):
        x = images.float().div_(255)
        x = gaussian_blur(colour_jitter(flip(x)))
        return ((x - self.mean) * self.scale).contiguous(memory_format=torch.channels_last)


def batches(count=4):
    ring = [(pinned(torch.randint(256, (BATCH, 3, SIDE, SIDE), dtype=torch.uint8)),
             pinned(torch.randint(CLASSES, (BATCH,)))) for _ in range(count)]
    while True:
        for images, labels in ring:
            yield images.to(DEV, non_blocking=True), labels.to(DEV, non_blocking=True)


def main():
    seed()
    torch.backends.cudnn.benchmark = True
    model = torchvision.models.resnet18(num_classes=CLASSES).to(DEV, memory_format=torch.channels_last)
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    augment, source = Augment(), batches()

    def step():
        images, labels = next(source)
        images = augment(images)
        with bf16():
            loss = F.cross_entropy(model(images), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    drive("augment", step)


if __name__ == "__main__":
    main()
