"""Folders too large for memory: images decoded and augmented by torchvision in worker processes, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from winze.data.data_error import DataError, MissingDataError
from winze.data.sources.image_folder import TEST, TRAIN, VALIDATION, split_folders

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class FolderStream:
    """The batches (x, y) of ROOT/train/CLASS/* or ROOT/val/CLASS/*, as ImageNet-1k is laid out.

    Train images get timm's default augmentation: a random resized crop (scale 0.08-1, ratio 3/4-4/3), a flip and
    colours (`jitter`); test images are resized to size / 0.875 and cropped in the middle. What epoch e draws depends
    on `seed`, e and the number of workers alone. Of several processes each takes its share: pass `rank` and `world`.
    """

    def __init__(
        self,
        root: str | Path,
        train: bool,
        size: int = 224,
        batch: int = 256,
        *,
        jitter: float = 0.4,
        mean: tuple[float, ...] = IMAGENET[0],
        std: tuple[float, ...] = IMAGENET[1],
        workers: int = 4,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        from torchvision.datasets import ImageFolder

        if size < 1 or batch < 1 or workers < 0:
            raise DataError(f"size and batch must be at least 1 and workers at least 0, got {size}, {batch}, {workers}")
        folder = _part(Path(root), train)
        try:
            self.dataset = ImageFolder(
                str(folder), _train(size, jitter, mean, std) if train else _test(size, mean, std)
            )
        except FileNotFoundError as error:
            raise DataError(f"{folder} has no class folders with images: {error}") from error
        self.train, self.batch, self.workers, self.seed = train, batch, workers, seed
        self.rank, self.world, self.epoch = rank, world, 0
        if train and len(self.dataset) < batch * world:
            raise DataError(f"{folder} has {len(self.dataset)} images, fewer than one batch of {batch * world}")

    @property
    def classes(self) -> list[str]:
        """The names of the classes, in the order of their labels."""
        return list(self.dataset.classes)

    def set_epoch(self, number: int) -> None:
        """Shuffle and augment as epoch `number` does."""
        self.epoch = number

    def __len__(self) -> int:
        mine = len(range(self.rank, len(self.dataset), self.world))
        return len(self.dataset) // (self.batch * self.world) if self.train else -(-mine // self.batch)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        from torch.utils.data import DataLoader, Subset

        draw = torch.Generator().manual_seed((self.seed << 20) + self.epoch)
        count = len(self.dataset)
        order = torch.randperm(count, generator=draw) if self.train else torch.arange(count)
        mine = order[self.rank :: self.world][: len(self) * self.batch].tolist()
        draw.manual_seed((self.seed << 20) + self.epoch + (self.rank + 1 << 40))  # workers take their seeds from it
        loader: DataLoader[Any] = DataLoader(
            Subset(self.dataset, mine),
            self.batch,
            num_workers=self.workers,
            pin_memory=torch.cuda.is_available(),
            generator=draw,
        )
        batches = iter(loader)
        for number in range(len(loader)):
            # without workers the augmentation draws from everybody's generator, which is borrowed batch by batch
            with torch.random.fork_rng([]):
                torch.default_generator.manual_seed(draw.initial_seed() + (number << 20))
                batch = next(batches)
            yield batch


def _part(root: Path, train: bool) -> Path:
    train_folder, test_folder, _ = split_folders(root) if root.is_dir() else (None, None, ())
    found = train_folder if train else test_folder
    if found is None:
        looked = ", ".join(TRAIN if train else (*TEST, *VALIDATION))
        raise MissingDataError(
            f"{root} has no {'train' if train else 'test'} images: looked for class folders in {looked}"
        )
    return found


def _train(size: int, jitter: float, mean: tuple[float, ...], std: tuple[float, ...]) -> Any:
    from torchvision.transforms import v2

    colours = [v2.ColorJitter(jitter, jitter, jitter)] if jitter else []
    return v2.Compose([v2.RandomResizedCrop(size), v2.RandomHorizontalFlip(), *colours, *_ready(mean, std)])


def _test(size: int, mean: tuple[float, ...], std: tuple[float, ...]) -> Any:
    from torchvision.transforms import v2

    return v2.Compose([v2.Resize(round(size / 0.875)), v2.CenterCrop(size), *_ready(mean, std)])


def _ready(mean: tuple[float, ...], std: tuple[float, ...]) -> list[Any]:
    from torchvision.transforms import v2

    return [v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std)]
