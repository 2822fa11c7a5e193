"""The reader hands on places of one width together, and each as it was when the network left it."""

import pytest
import torch
from nets import ResNet, mlp
from samples import images, outputs_of, rows
from torch import nn

from winze.measure import CentredBatch
from winze.observe.passes.feed import Batch, Feed
from winze.observe.passes.reader import Reader
from winze.observe.places.find_places import find_spots

LAYERS = ["0", "2", "4", "6"]  # of an MLP: before its in-place ReLUs; the last has another width


def handed_on(
    net: nn.Module, data: tuple[torch.Tensor, torch.Tensor], places: list[str], batch: int = 256, pool: str = "mean"
) -> list[tuple[int, torch.Tensor]]:
    found: list[tuple[int, torch.Tensor]] = []

    def take(first: int, block: CentredBatch, batch: Batch) -> None:
        found.append((first, block.features.clone()))

    reader = Reader(net, find_spots(net, data[0][:2], places), pool)
    for _ in reader.run(Feed(data, "data", batch), take, ""):
        pass
    return found


def test_places_of_one_width_come_together() -> None:
    found = handed_on(mlp(width=8, depth=3), rows(20), LAYERS)
    assert [(first, len(block)) for first, block in found] == [(0, 3), (3, 1)]


def test_each_batch_comes_by_itself() -> None:
    found = handed_on(mlp(width=8, depth=3), rows(20), LAYERS, batch=15)
    assert [(first, *block.shape[:2]) for first, block in found] == [(0, 3, 15), (3, 1, 15), (0, 3, 5), (3, 1, 5)]


def test_what_is_large_is_handed_on_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("winze.observe.passes.reader.AT_ONCE", 2 * 20 * 20)
    assert [first for first, _ in handed_on(mlp(width=8, depth=3), rows(20), LAYERS)] == [0, 2, 3]
    monkeypatch.setattr("winze.observe.passes.reader.AT_ONCE", 20 * 20)
    assert [first for first, _ in handed_on(mlp(width=8, depth=3), rows(20), LAYERS)] == [0, 1, 2, 3]


@pytest.mark.parametrize("pool", ["mean", "flatten"])
@pytest.mark.parametrize("most", [1, 1 << 20])
def test_waiting_features_are_those_before_an_in_place_operation(
    pool: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("winze.observe.passes.reader.AT_ONCE", most)
    net, data = mlp(width=8, depth=3), rows(20)
    for first, block in handed_on(net, data, LAYERS, pool=pool):
        for features, name in zip(block, LAYERS[first:], strict=False):
            want = outputs_of(net, name, data[0])
            assert (want < 0).any()  # a ReLU changes it
            torch.testing.assert_close(features, want)


def test_the_width_of_a_place_is_known_without_a_run() -> None:
    net, x = ResNet(), images(4)[0]
    for pool in ("mean", "flatten", 2):
        spots = find_spots(net, x[:2], ["stem", "blocks.*"])
        feed = Feed((x, torch.zeros(4).long()), "data")
        assert [spot.width(pool) for spot in spots] == Reader(net, spots, pool).widths(feed)
