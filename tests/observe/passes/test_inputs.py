"""Data and networks as people have them, and errors that name the fix."""

import random
from collections.abc import Iterator
from typing import Any

import jaxtyping
import numpy as np
import pandas as pd
import pytest
import torch
from nets import mlp
from PIL import Image
from samples import rows
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, TensorDataset

import winze

X, Y = rows(60)


class Words(Dataset):  # type: ignore[type-arg]
    """A dataset whose samples are dicts, as Hugging Face's are."""

    def __init__(self, key: str = "labels", **more: Any) -> None:
        self.key, self.more = key, more

    def __len__(self) -> int:
        return len(Y)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"values": X[index], self.key: Y[index], **self.more}


class Streamed(IterableDataset):  # type: ignore[type-arg]
    """Samples without a length."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return iter(zip(X, Y, strict=True))


class Named(nn.Module):
    """A network whose forward takes its input by the name of Hugging Face's batches."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = mlp()

    def forward(self, values: Tensor, scale: float = 1.0) -> Tensor:
        return self.layers(values * scale)


def probes(net: nn.Module, data: Any) -> list[float]:
    return winze.scan(net, data, data, measures="probe", progress=False).curve("probe").tolist()


FORMS = {
    "arrays": (X.numpy(), Y.numpy()),
    "float64 arrays and a list": (X.double().numpy(), Y.tolist()),
    "int32 labels": (X, Y.int()),
    "a dataset": TensorDataset(X, Y),
    "a loader": DataLoader(TensorDataset(X, Y), 60),
    "dicts": DataLoader(Words(), 60),
    "dicts with label": DataLoader(Words("label"), 60),
    "dicts with more": DataLoader(Words(id="sample", row=3), 60),
    "a dataset of dicts": Words(),
    "a stream": Streamed(),
    "a loader of a stream": DataLoader(Streamed(), 16),
    "tables": (pd.DataFrame(X.numpy()), pd.Series(Y.numpy())),
}


@pytest.mark.parametrize("form", FORMS)
def test_data_of_every_form_is_read_alike(form: str) -> None:
    net = Named()
    assert probes(net, FORMS[form]) == pytest.approx(probes(net, (X, Y)), abs=1e-12)


def test_the_only_tensor_of_a_dict_goes_in_whatever_it_is_called() -> None:
    net = mlp()
    assert probes(net, Words()) == pytest.approx(probes(net, (X, Y)), abs=1e-12)


@pytest.mark.parametrize("wrap", [nn.DataParallel, torch.compile])
def test_what_is_wrapped_around_a_network_is_taken_off(wrap: Any) -> None:
    net = mlp()
    scan = winze.scan(wrap(net), (X, Y), (X, Y), measures="rank")
    assert [place.name for place in scan.places] == [
        place.name for place in winze.scan(net, (X, Y), (X, Y), measures="rank").places
    ]
    assert [p.name for p in winze.cka_between(wrap(net), net, (X, Y)).places] == [p.name for p in scan.places]
    assert winze.Watch(wrap(net), (X, Y)).readings.conventions["places"] == [p.name for p in scan.places]


def test_a_folder_of_images_is_data(tmp_path) -> None:
    for number in range(24):
        folder = tmp_path / ("Train" if number % 3 else "validation") / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.random.default_rng(number).integers(0, 255, (8, 8, 3), dtype=np.uint8)).save(
            folder / f"{number}.png"
        )
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.ReLU(), nn.Linear(8, 2))
    scan = winze.scan(net, tmp_path, ood={"again": tmp_path})
    assert scan.readings.conventions["samples"][tmp_path.name] == {"train": 16, "test": 8}
    assert scan.readings.conventions["classes"] == ["a", "b"]
    assert "normalised by the data's statistics" in " ".join(scan.readings.conventions["notes"])
    assert scan.best_for("again").accuracy > 0


GOOD = X, Y
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a name for a network": ({"net": "resnet18"}, "build"),
    "a function for a network": ({"net": mlp}, "torch.nn.Module, not a function"),
    "no test data": ({"test": None}, "needs test data"),
    "inputs without labels": ({"test": X}, "without labels"),
    "a number": ({"test": 3}, "a Dataset or a DataLoader, got int"),
    "samples for batches": ({"test": [(X[0], Y[0]), (X[1], Y[1])]}, "pass the Dataset|Pass the Dataset"),
    "one-hot labels": ({"test": (X, nn.functional.one_hot(Y))}, r"labels.argmax\(1\)"),
    "a column of labels": ({"test": (X, Y[:, None])}, r"labels.squeeze\(1\)"),
    "labels as texts": ({"test": (X, np.array(["cat"] * 60))}, "number them"),
    "bool labels": ({"test": (X, Y > 0)}, r"labels.long\(\)"),
    "three parts": ({"test": [(X, X, Y)]}, r"3 parts; expected \(x, y\)"),
    "a dict without labels": ({"test": [{"values": X, "target": Y}]}, "no key 'labels' or 'label', but values, target"),
    "a dict of others": ({"test": [{"a": X, "b": X, "labels": Y}]}, "a, b, the network's forward takes"),
    "a function of one's own": ({"measures": [torch.mean]}, "got mean: add a measure of your own by"),
    "a measure": ({"measures": "rnak"}, "measures are probe, rank.*got rnak"),
    "places by number": ({"places": [3]}, "places are module names.*got 3"),
    "other data alone": ({"ood": {"other": X}}, r"takes \(train, test\)"),
    "other data as one pair": ({"ood": {"other": GOOD}}, r"one pair: give \(\(x, y\), \(x_test, y_test\)\)"),
    "other data without names": ({"ood": [(GOOD, GOOD)]}, "ood maps names to data"),
    "a table without labels": ({"test": pd.DataFrame(X.numpy())}, "DataFrame of inputs without labels"),
    "texts for inputs": ({"test": (["a"] * 60, Y)}, r"no tensors \(str\): pass a tensor or array"),
    "a number for inputs": ({"test": (torch.tensor(1.0), Y)}, r"60 labels for input of shape \(\)"),
    "one of two inputs too short": ({"test": ((X, X[:7]), Y)}, r"60 labels for input of shape \(7, 12\)"),
    "half a batch": ({"batch": 2.5}, "whole numbers from 1, and memory at least 1, got 2.5"),
    "weights without memory": ({"net": mlp().to("meta")}, "meta device: load them first"),
    "an exported network": ({"net": torch.export.export(mlp(), (X,)).module()}, "pass the network it was made from"),
}


@pytest.fixture
def untyped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch the checks of types off, which only tests have."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("trouble", WRONG)
def test_an_argument_that_makes_no_sense_is_refused_with_the_fix(trouble: str) -> None:
    given, says = WRONG[trouble]
    with pytest.raises((ValueError, TypeError), match=says) as caught:
        winze.scan(**{"net": mlp(), "train": GOOD, "test": GOOD, **given})
    assert "\n" not in str(caught.value)


def test_a_dataset_of_images_without_a_transform_is_refused_with_the_fix() -> None:
    class Photographs(Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> Any:
            return Image.new("RGB", (4, 4)), index % 2

    with pytest.raises(ValueError, match="a transform that makes tensors"):
        winze.scan(mlp(), GOOD, Photographs())


def test_a_loader_that_a_training_loop_is_reading_keeps_its_place() -> None:
    data = DataLoader(TensorDataset(X, Y), 10, num_workers=1, persistent_workers=True)
    net = mlp()
    watch = winze.Watch(net, data, every=1, train=data)
    assert sum(len(y) for _, y in data if watch.step() is None) == 60


@pytest.mark.parametrize("own", [True, False])
def test_reading_draws_no_random_numbers_of_training(own: bool) -> None:
    generator = torch.Generator().manual_seed(0) if own else None
    data = DataLoader(TensorDataset(X, Y), 10, shuffle=True, generator=generator)
    net, torch_state, numpy_state = mlp(), torch.get_rng_state(), np.random.get_state()[1].tolist()
    own_state = generator.get_state() if generator is not None else torch_state
    winze.Watch(net, data, train=data).read()
    winze.scan(net, data, data, costs=True)
    winze.cka_between(net, net, data)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert np.random.get_state()[1].tolist() == numpy_state
    if generator is not None:
        assert torch.equal(generator.get_state(), own_state)


def test_a_sampler_with_a_generator_of_numpy_goes_on_where_it_was() -> None:
    class Order(Sampler[int]):
        def __init__(self) -> None:
            self.rng, self.other = np.random.default_rng(0), random.Random(0)

        def __iter__(self) -> Iterator[int]:
            self.other.random()
            return iter(self.rng.permutation(len(X)).tolist())

        def __len__(self) -> int:
            return len(X)

    order = Order()
    before = order.rng.bit_generator.state, order.other.getstate()
    data = DataLoader(TensorDataset(X, Y), 10, sampler=order)
    winze.Watch(mlp(), data).read()
    winze.scan(mlp(), None, data, measures="rank")
    assert (order.rng.bit_generator.state, order.other.getstate()) == before
