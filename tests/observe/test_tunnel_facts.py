"""A scan gives a tunnel only where it means something, and says why not elsewhere."""

import pytest
import torch
from nets import ResNet, mlp
from samples import images, rows, taught
from torch import Tensor, nn

import winze


class Renamed(nn.Module):
    """A network whose outputs stand in another order."""

    def __init__(self, net: nn.Module, order: list[int]) -> None:
        super().__init__()
        self.net, self.order = net, order

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)[:, self.order]


def first_line(scan: winze.Scan) -> str:
    return scan.summary().splitlines()[0]


@pytest.mark.parametrize("seed", range(4))
def test_an_untrained_network_has_no_tunnel(seed: int) -> None:
    torch.manual_seed(seed)
    scan = winze.scan(ResNet(), images(200, seed=1), images(200))
    found = scan.tunnel()
    assert found.start is None
    assert not found
    assert found.reason in first_line(scan)
    assert "not clearly above chance" in found.reason


def test_a_trained_network_has_one_and_its_own_accuracy_is_the_reference() -> None:
    net = taught(ResNet(), images(200, seed=1))
    scan = winze.scan(net, images(200, seed=1), images(200))
    assert scan.tunnel().start is not None
    assert first_line(scan).startswith("Extractor")


@pytest.mark.parametrize("order", [[1, 2, 0], [0, 2, 1]])
def test_outputs_in_another_order_are_told_and_the_last_probe_is_the_reference(order: list[int]) -> None:
    net = taught(mlp(), rows(300, seed=1), 60)
    scan = winze.scan(Renamed(net, order), rows(300, seed=1), rows(300), places="net.*")
    assert "do not match these labels" in first_line(scan)
    assert scan.tunnel().start is not None


def test_labels_that_come_in_turn_do_not_hide_that_outputs_are_renamed() -> None:
    x, y = rows(400, 4)
    turns = torch.stack([(y == label).nonzero()[:60, 0] for label in range(4)], 1).flatten()
    net = taught(mlp(classes=4), rows(400, 4, seed=1), 60)
    scan = winze.scan(Renamed(net, [1, 2, 3, 0]), rows(400, 4, seed=1), (x[turns], y[turns]), places="net.*")
    assert y[turns][:8].tolist() == [0, 1, 2, 3] * 2
    assert scan.readings.conventions["relabelled_accuracy"] > 0.6
    assert scan.tunnel().start is not None
    assert scan.tunnel().reference == pytest.approx(scan.curve("probe")[-1])


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_constant_data_have_no_tunnel(value: float) -> None:
    train, test = rows(90, seed=1), rows(90)
    flat = (torch.full_like(train[0], value), train[1]), (torch.full_like(test[0], value), test[1])
    scan = winze.scan(taught(mlp(), train), *flat)
    assert scan.tunnel().start is None
    assert "same for every sample" in first_line(scan)
    assert winze.scan(mlp(), *flat, measures="probe").tunnel().start is None


def test_chance_is_the_share_of_the_largest_class() -> None:
    x, y = rows(300)
    y = (torch.arange(300) % 10 == 0).long()
    net = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 2))
    with torch.no_grad():
        net[-1].bias.copy_(torch.tensor([100.0, -100.0]))
    scan = winze.scan(net, (x, y), (x, y))
    assert scan.readings.conventions["chance"] == {"data": pytest.approx(0.9)}
    assert "is not clearly above chance, 90 %" in first_line(scan)


def test_a_scan_shows_itself() -> None:
    net = taught(ResNet(), images(200, seed=1))
    scan = winze.scan(net, images(200, seed=1), images(200), name="<b>shapes</b>")
    assert repr(scan).startswith("<Scan of ResNet on <b>shapes</b>: 3 places. Extractor: ")
    shown = scan._repr_html_()
    assert "<td>blocks.2</td>" in shown
    assert "probe accuracy" in shown
    assert "<b>" not in shown
    assert len(shown) < 3000
    assert [axes.get_ylabel() for axes in scan.plot().axes] == ["probe accuracy", "numerical rank"]
    assert repr(winze.scan(net, None, images(40), measures="norm")).endswith("3 places>")


def test_a_share_of_the_reference_that_chance_reaches_too_is_no_tunnel() -> None:
    x, _ = rows(400)
    rare = torch.arange(400) % 30 == 0
    data = x + 9 * rare[:, None], rare.long()
    scan = winze.scan(taught(mlp(), data, 60), data, data)
    assert scan.tunnel().start is None
    assert "not above chance" in first_line(scan)
    assert scan.tunnel(threshold=0.99).start is not None


@pytest.mark.parametrize("seed", [2, 10, 14, 17, 21])
def test_random_outputs_that_predict_a_little_do_not_count_as_renamed(seed: int) -> None:
    """Each of these has a last probe clearly above chance, and outputs that tell classes apart a little."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 10))
    train, test = noisy(1200, seed), noisy(1200, 100 + seed)
    scan = winze.scan(net, train, test, measures="probe")
    told = scan.readings.conventions
    assert told["relabelled_accuracy"] > told["chance"]["data"] + 0.015
    assert scan.tunnel().start is None


def noisy(samples: int, seed: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    y = torch.randint(10, (samples,), generator=draw)
    centres = torch.randn(10, 12, generator=torch.Generator().manual_seed(0))
    return 0.25 * centres[y] + torch.randn(samples, 12, generator=draw), y


@pytest.mark.parametrize("outputs", [10, 30])
def test_norm_layers_as_they_were_made_show_that_a_network_is_untrained(outputs: int) -> None:
    """Where the outputs are not the labels, nothing else would show it."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(12, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, outputs))
    train, test = rows(300, seed=1), rows(300)
    scan = winze.scan(net, train, test, measures="probe")
    assert scan.tunnel().start is None
    assert "seems untrained" in first_line(scan)
    assert winze.scan(taught(net, train), train, test, measures="probe").tunnel().start is not None


def test_a_stored_scan_without_data_places_and_ood_still_answers() -> None:
    scan = winze.scan(taught(mlp(), rows(300, seed=1)), rows(300, seed=1), rows(300))
    kept = {name: value for name, value in scan.readings.conventions.items() if name not in ("data", "places", "ood")}
    scan.readings.conventions = winze.readings.Conventions.of(kept)
    assert scan.data == "data"
    assert scan.best_for("data").place in scan.places
    with pytest.raises(ValueError, match="no data 'x'"):
        scan.best_for("x")
