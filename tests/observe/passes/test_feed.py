"""Data as a scan takes it: which labels come, and what is said where they are numbered anew."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from nets import mlp
from samples import images, rows
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, SequentialSampler, SubsetRandomSampler
from torchvision.datasets import VisionDataset

import winze
from winze.observe.passes.feed import Feed


class Kept(VisionDataset):
    """Rows with their labels in `targets`, as torchvision's datasets have them."""

    def __init__(self, x: Tensor, y: Tensor, **options: Any) -> None:
        super().__init__("", **options)
        self.x, self.targets, self.taken = x, y.tolist(), 0

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        self.taken += 1
        x, y = self.x[index], self.targets[index]
        return self.transforms(x, y) if self.transforms is not None else (x, y)

    def __len__(self) -> int:
        return len(self.targets)


def classes(data: Any) -> list[int]:
    return Feed(data, "data").classes().tolist()


@pytest.mark.parametrize(
    "options",
    [
        {"target_transform": lambda y: y - 5},
        {"transform": lambda x: 2 * x, "target_transform": lambda y: y - 5},
        {"transforms": lambda x, y: (x, y - 5)},
    ],
)
def test_labels_come_as_the_dataset_transforms_them(options: dict[str, Callable[..., Any]]) -> None:
    x, y = rows(40)
    loader = DataLoader(Kept(x, y + 5, **options), 8)
    assert classes(loader) == [0, 1, 2]
    scan = winze.scan(mlp(), loader, loader, measures=["probe"])
    assert scan.readings.conventions["notes"] == []
    assert scan.readings.select(measure="accuracy").rows[0].note == ""
    want = winze.scan(mlp(), (x, y), (x, y), measures=["probe"], batch=8)
    assert scan.readings.conventions["class_count"] == want.readings.conventions["class_count"] == 3


def test_known_labels_are_compared_with_one_sample_per_class_and_spare_the_rest() -> None:
    x, y = rows(40)
    dataset = Kept(x, y + 5, transform=None, target_transform=lambda y: y - 5)
    assert classes(DataLoader(dataset, 8, shuffle=True)) == [0, 1, 2]
    assert dataset.taken == 3


@pytest.mark.parametrize(
    "loader",
    [
        lambda data: DataLoader(data, 4, sampler=SubsetRandomSampler(range(4))),
        lambda data: DataLoader(data, batch_sampler=[[0, 1], [2, 3]]),
        lambda data: DataLoader(data, batch_sampler=Firsts(SequentialSampler(data), 2, drop_last=False)),
        lambda data: DataLoader(data, 8, collate_fn=lambda items: (items[0][0][None], torch.tensor([2]))),
    ],
)
def test_labels_that_a_loader_leaves_out_or_changes_are_read_from_it(loader: Callable[[Dataset[Any]], Any]) -> None:
    data = Kept(torch.zeros(12, 3), torch.tensor([2, 2, 2, 2, *[0, 1] * 4]))
    assert classes(loader(data)) == [2]
    assert classes(DataLoader(data, 8)) == [0, 1, 2]


class Firsts(BatchSampler):
    """The first two batches."""

    def __iter__(self) -> Any:
        return iter(list(super().__iter__())[:2])

    def __len__(self) -> int:
        return 2


def accuracy_note(y: Tensor, x: Tensor, outputs: int) -> str:
    net = mlp(classes=outputs)
    scan = winze.scan(net, (x, y), (x, y), measures=["probe"])
    return scan.readings.select(measure="accuracy").rows[0].note


def test_the_note_says_whether_the_number_or_the_numbering_of_classes_differs() -> None:
    x, y = rows(40)
    assert accuracy_note(y, x, 3) == ""
    assert accuracy_note(y, x, 5) == "the network has 5 outputs, the data 3 classes"
    assert "are not 0 to 2" in accuracy_note(y + 1, x, 3)
    assert accuracy_note(y + 1, x, 5) == "the network has 5 outputs, the data 3 classes"


@pytest.mark.parametrize("broken", [True, False])
def test_a_network_comes_back_from_its_device_even_through_an_exception(broken: bool) -> None:
    net, (x, y) = mlp(), images(20, size=2)
    asked: list[str] = []
    net.to = lambda device: asked.append(str(device))  # type: ignore[assignment,method-assign]
    x = x.flatten(1)
    net[3].train()
    modes = [module.training for module in net.modules()]
    if broken:
        x[15] = torch.nan
        with pytest.raises(ValueError, match="hold NaN"):
            winze.scan(net, (x, y), (x, y), device="cpu:0")
    else:
        winze.scan(net, (x, y), (x, y), device="cpu:0")
    assert asked == ["cpu:0", "cpu"]
    assert [module.training for module in net.modules()] == modes
