"""Batches of samples: their shapes, their copy to the device, and the DataLoader that supplies them."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader, Dataset, default_collate

from .errors import ModelError
from .needs import PILLOW, require

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

    from .ranges import Ranges

IMAGE_ENDINGS = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".ppm", ".pgm", ".webp", ".tif", ".tiff"})
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and deviation of ImageNet's images, per channel."""
RESIZE = 256 / 224
"""The shorter side is resized to this many times the crop, as usual for ImageNet."""


def tensors(batch: Any) -> list[Tensor]:
    """All tensors of a batch, in order, through tuples, lists and dicts."""
    if isinstance(batch, torch.Tensor):
        return [batch]
    inside = batch.values() if isinstance(batch, dict) else batch if isinstance(batch, (list, tuple)) else ()
    return [tensor for part in inside for tensor in tensors(part)]


def shapes(batch: Any) -> list[list[int]]:
    """The shape of every tensor in the batch."""
    return [list(tensor.shape) for tensor in tensors(batch)]


def samples(batch: Any) -> int | None:
    """The first dimension of the first tensor that has one."""
    return next((int(tensor.shape[0]) for tensor in tensors(batch) if tensor.dim()), None)


def stacked(rows: list[Any]) -> Any:
    """Collates samples into a batch, as a DataLoader does."""
    return default_collate(rows)


def to_device(batch: Any, device: torch.device, ranges: Ranges | None = None) -> Any:
    """The batch on the device; a copy is made in a range, and without waiting if the memory is pinned."""
    if all(tensor.device.type == device.type for tensor in tensors(batch)):
        return batch
    with nullcontext() if ranges is None else ranges("copy_to_device"):
        return mapped(batch, lambda tensor: tensor.to(device, non_blocking=True))


def mapped(batch: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The batch with every tensor changed; tuples, lists and dicts keep their structure."""
    if isinstance(batch, torch.Tensor):
        return change(batch)
    if isinstance(batch, dict):
        return {name: mapped(part, change) for name, part in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*[mapped(part, change) for part in batch])
    if isinstance(batch, (list, tuple)):
        return type(batch)([mapped(part, change) for part in batch])
    return batch


def loader_batches(dataset: Any, options: dict[str, Any], *, shuffle: bool, pin: bool) -> Iterator[Any]:
    """A DataLoader's batches, all of the requested size; starts again when the samples are used up.

    Raises:
        ModelError: there are fewer samples than one batch needs.
    """
    batch, count = options["batch"], len(dataset)
    if count < batch:
        raise ModelError(f"{count} samples don't fill a batch of {batch}")
    order = torch.Generator().manual_seed(options["seed"])
    loader = DataLoader(
        dataset,
        batch_size=batch,
        shuffle=shuffle,
        drop_last=True,
        num_workers=options["workers"] or 0,
        pin_memory=pin,
        generator=order,
    )
    while True:
        yield from loader


class Endless(Dataset):
    """Random samples, made on demand."""

    def __init__(self, sample: Callable[[int], Any]) -> None:
        self.sample = sample

    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, number: int) -> Any:
        return self.sample(number)


class RandomImages:
    """Random images (3, size, size) of normally distributed numbers, each with a label."""

    def __init__(self, size: int, classes: int, seed: int) -> None:
        self.size, self.classes, self.seed = size, classes, seed

    def __call__(self, number: int) -> tuple[Tensor, int]:
        """The same sample for the same number."""
        source = torch.Generator().manual_seed(self.seed + number)
        image = torch.randn(3, self.size, self.size, generator=source)
        return image, int(torch.randint(self.classes, (), generator=source))


class RandomTokens:
    """Random sequences of tokens; the label of each token is the token that follows it."""

    def __init__(self, ctx: int, vocabulary: int, seed: int) -> None:
        self.ctx, self.vocabulary, self.seed = ctx, vocabulary, seed

    def __call__(self, number: int) -> tuple[Tensor, Tensor]:
        """The same sample for the same number."""
        source = torch.Generator().manual_seed(self.seed + number)
        tokens = torch.randint(self.vocabulary, (self.ctx + 1,), generator=source)
        return tokens[:-1].contiguous(), tokens[1:].contiguous()


class RandomVectors:
    """Random vectors of normally distributed numbers, each with a label."""

    def __init__(self, width: int, classes: int, seed: int) -> None:
        self.width, self.classes, self.seed = width, classes, seed

    def __call__(self, number: int) -> tuple[Tensor, int]:
        """The same sample for the same number."""
        source = torch.Generator().manual_seed(self.seed + number)
        return torch.randn(self.width, generator=source), int(torch.randint(self.classes, (), generator=source))


class ImageFolder(Dataset):
    """Images of a folder: each subfolder is a class; images directly in the folder form one class.

    A sample is the image with its shorter side resized, cropped in the middle, scaled with ImageNet's mean and
    deviation, (3, size, size) fp32, and its class modulo `classes`.
    """

    def __init__(self, path: str, size: int, classes: int) -> None:
        """Lists the images.

        Raises:
            ModelError: there is no such folder or no image in it.
            MissingRequirement: Pillow is missing.
        """
        require(PILLOW, "data imagefolder")
        folder = Path(path).expanduser()
        if not folder.is_dir():
            raise ModelError(f"{path}: no such folder")
        self.size = size
        groups = sorted(inner for inner in folder.iterdir() if inner.is_dir() and not inner.name.startswith("."))
        named = [(file, label % classes) for label, group in enumerate(groups) for file in _images(group.rglob("*"))]
        self.files = named or [(file, 0) for file in _images(folder.iterdir())]
        if not self.files:
            raise ModelError(f"{path}: no images ({', '.join(sorted(IMAGE_ENDINGS))})")

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        file, label = self.files[number]
        return _image(file, self.size), label


def _images(files: Any) -> list[Path]:
    return sorted(file for file in files if file.suffix.lower() in IMAGE_ENDINGS and file.is_file())


def _image(file: Path, size: int) -> Tensor:
    from PIL import Image

    try:
        with Image.open(file) as opened:
            picture = opened.convert("RGB")
    except Exception as error:  # Pillow's plugins raise whatever they like
        raise ModelError(f"{file}: can't be read as an image ({type(error).__name__})") from None
    scale = size * RESIZE / min(picture.size)
    picture = picture.resize([max(round(side * scale), size) for side in picture.size])
    left, top = ((side - size) // 2 for side in picture.size)
    picture = picture.crop((left, top, left + size, top + size))
    pixels = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8).view(size, size, 3)
    scaled = pixels.permute(2, 0, 1).float() / 255
    return (scaled - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(DEVIATION).view(3, 1, 1)
