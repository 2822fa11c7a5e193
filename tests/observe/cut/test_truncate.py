import copy
import json
import math
from dataclasses import replace
from pathlib import Path

import jaxtyping
import numpy as np
import onnxruntime
import pytest
import timm
import torch
import torchvision
from nets import ResidualMLP, ResNet, mlp
from samples import hooks_of, images, lively, outputs_of, rows
from torch import Tensor, nn

import winze
from winze.observe import Cut, CutError
from winze.observe.cut.costs import SpeedUp
from winze.place import Place
from winze.readings import Readings

SIZES = {"foreign cnn": 8, "timm vit": 32, "timm convnext": 32, "timm resnet": 32, "torchvision resnet18": 32}


def build(name: str) -> nn.Module:
    torch.manual_seed(1)
    return {
        "foreign cnn": ResNet,
        "native mlp": ResidualMLP,
        "timm vit": lambda: timm.create_model("test_vit", img_size=32, num_classes=3),
        "timm convnext": lambda: timm.create_model("test_convnext", num_classes=3),
        "timm resnet": lambda: timm.create_model("test_resnet", num_classes=3),
        "torchvision resnet18": lambda: torchvision.models.resnet18(num_classes=3),
    }[name]()


def sample(name: str, n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    return rows(n, seed=seed) if name == "native mlp" else images(n, size=SIZES[name], seed=seed)


@pytest.fixture(autouse=True)
def quickly(monkeypatch) -> None:
    monkeypatch.setattr("winze.observe.cut.costs.ENOUGH", 0.05)


CASES = ["foreign cnn", "native mlp", "timm vit", "timm convnext", "timm resnet", "torchvision resnet18"]


@pytest.fixture(scope="module", params=CASES)
def case(request) -> tuple[nn.Module, winze.Scan, tuple[Tensor, Tensor]]:
    net, test = lively(build(request.param)), sample(request.param, 20)
    return net, winze.scan(net, sample(request.param, 40, seed=1), test, measures=["probe"]), test


@pytest.fixture(scope="module")
def cnn() -> tuple[nn.Module, winze.Scan, tuple[Tensor, Tensor]]:
    net, test = lively(ResNet()), images(30)
    return net, winze.scan(net, images(60, seed=1), test, measures=["probe"]), test


def test_a_cut_network_predicts_what_the_probe_did(case):
    net, scan, (x, y) = case
    for index in {0, len(scan.places) // 2, len(scan.places) - 1}:
        small = winze.truncate(net, scan, at=index, measure=False).eval()
        with torch.no_grad():
            right = small(x).argmax(1) == y
        assert right.tolist() == scan.readings.arrays["correct/data"][index].tolist()


def trained(net: nn.Module, x: Tensor) -> None:
    """One large step, in train mode, so that weights and BatchNorm statistics move."""
    net.train()(x).square().sum().backward()
    with torch.no_grad():
        for p in net.parameters():
            if p.grad is not None:
                p.sub_(p.grad)


def test_training_the_cut_leaves_the_network_as_it_was(case):
    net, scan, (x, _) = case
    before = copy.deepcopy(net)
    small = winze.truncate(net, scan, at=len(scan.places) // 2, measure=False)
    untrained = copy.deepcopy(small)
    trained(small, x)
    assert any(not torch.equal(a, b) for a, b in zip(small.body.parameters(), untrained.body.parameters(), strict=True))
    for key, value in net.state_dict().items():
        assert torch.equal(value, before.state_dict()[key])
    assert all(p.grad is None for p in net.parameters())
    assert [m.training for m in net.modules()] == [m.training for m in before.modules()]


def test_training_the_network_leaves_the_cut_as_it_was(case):
    net, scan, (x, _) = case
    net = copy.deepcopy(net)
    small = winze.truncate(net, scan, at=len(scan.places) // 2, measure=False).eval()
    with torch.no_grad():
        want = small(x)
        trained_before = [p.clone() for p in small.parameters()]
    with torch.enable_grad():
        trained(net, x)
    assert all(torch.equal(p, q) for p, q in zip(small.parameters(), trained_before, strict=True))
    with torch.no_grad():
        torch.testing.assert_close(small(x), want, rtol=0, atol=0)


def test_asked_for_the_cut_shares_the_networks_weights(cnn):
    net, scan, _ = cnn
    small = winze.truncate(net, scan, at=1, measure=False, copy=False)
    assert any(p is net.stem[0].weight for p in small.parameters())
    assert all(p is not net.stem[0].weight for p in winze.truncate(net, scan, at=1, measure=False).parameters())


def test_what_cannot_be_copied_says_what_to_do(cnn):
    net, scan, _ = cnn
    net = copy.deepcopy(net)
    net.stem[0].cache = net.stem[0].weight * 2  # torch copies no tensor that belongs to a graph
    with pytest.raises(winze.observe.CutError, match="cut with copy=False"):
        winze.truncate(net, scan, at=1, measure=False)
    winze.truncate(net, scan, at=1, measure=False, copy=False)


def test_a_cut_has_no_gradients_of_the_network(cnn):
    net, scan, (x, _) = cnn
    net = copy.deepcopy(net)
    net(x).sum().backward()
    assert all(p.grad is None for p in winze.truncate(net, scan, at=1, measure=False).parameters())
    assert net.stem[0].weight.grad is not None


def test_without_a_head_it_gives_the_places_output(case):
    net, scan, (x, _) = case
    place = scan.places[len(scan.places) // 2]
    small = winze.truncate(net, scan, at=place, head=None, measure=False).eval()
    with torch.no_grad():
        torch.testing.assert_close(small(x), outputs_of(net, place.name, x), rtol=1e-6, atol=1e-6)


def test_a_cut_network_is_smaller_and_says_by_how_much(case):
    net, scan, _ = case
    small = winze.truncate(net, scan, at=0)
    cut = small.cut
    assert cut.place == scan.places[0]
    assert cut.parameters == sum(p.numel() for p in small.parameters())
    assert cut.parameters_before == sum(p.numel() for p in net.parameters())
    assert cut.parameters < cut.parameters_before
    assert 0 < cut.flops < cut.flops_before
    assert cut.seconds > 0
    assert cut.seconds_before > 0
    assert cut.accuracy == pytest.approx(float(scan.curve("probe")[0]))
    own, last = scan.readings.arrays["correct/network"].mean(), scan.curve("probe")[-1]
    assert cut.accuracy_before == pytest.approx(float(own if cut.own else last))


def test_a_cut_network_exports(case):
    net, scan, (x, _) = case
    small = winze.truncate(net, scan, at=0, measure=False).eval()
    exported = torch.export.export(small, (x[:2],)).module()
    with torch.no_grad():
        torch.testing.assert_close(exported(x[:2]), small(x[:2]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("batch", [1, 5])
def test_a_cut_network_takes_batches_of_any_size(case, batch):
    net, scan, (x, _) = case
    small = winze.truncate(net, scan, at=len(scan.places) - 1, measure=False).eval()
    with torch.no_grad():
        torch.testing.assert_close(small(x[:batch]), small(x)[:batch], rtol=1e-4, atol=1e-4)


def onnx_outputs(small: nn.Module, x: Tensor, file: Path) -> np.ndarray:
    """What ONNX Runtime makes of all samples, after an export that saw two."""
    batch = torch.export.Dim("batch")
    torch.onnx.export(small, (x[:2],), file, dynamic_shapes={"args": ({0: batch},)}, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]


@pytest.mark.slow
def test_a_cut_network_becomes_onnx(case, tmp_path):
    net, scan, (x, _) = case
    small = winze.truncate(net, scan, at=len(scan.places) // 2, measure=False).eval()
    with torch.no_grad():
        want = small(x).numpy()
    np.testing.assert_allclose(onnx_outputs(small, x, tmp_path / "small.onnx"), want, rtol=1e-4, atol=1e-4)


def test_a_cut_that_reads_some_features_only_becomes_onnx(tmp_path):
    net, (x, y) = lively(ResNet()), images(20)
    scan = winze.scan(net, images(40, seed=1), (x, y), measures=["probe"], pool="flatten", max_features=50)
    small = winze.truncate(net, scan, at=1, measure=False).eval()
    assert small.head.linear.in_features == 50
    np.testing.assert_array_equal(
        onnx_outputs(small, x, tmp_path / "small.onnx").argmax(1) == y.numpy(),
        scan.readings.arrays["correct/data"][1],
    )


# Where and with what


@pytest.mark.parametrize("at", ["blocks.1", 1, Place(1, 3, "blocks.1")])
def test_a_place_is_a_name_a_number_or_itself(cnn, at):
    net, scan, _ = cnn
    assert winze.truncate(net, scan, at=at).cut.place == Place(1, 3, "blocks.1")


def learnt(net: nn.Module, x: Tensor, y: Tensor, steps: int = 30) -> nn.Module:
    """The network after some steps of gradient descent on a batch."""
    optimizer = torch.optim.Adam(net.train().parameters(), 0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net.eval()


def test_left_out_the_cut_is_at_the_start_of_the_tunnel():
    data = images(60)
    net = learnt(ResNet(), *data)
    scan = winze.scan(net, data, data, measures=["probe"])
    start = scan.tunnel(0.5).start
    assert start is not None
    assert winze.truncate(net, scan, threshold=0.5).cut.place == start


@pytest.mark.parametrize("at", ["blocks.7", 3, -1, Place(0, 3, "elsewhere")])
def test_a_place_that_the_scan_does_not_have_raises_with_the_nearest(cnn, at):
    net, scan, _ = cnn
    with pytest.raises(ValueError, match=r"nearest names: .*blocks\."):
        winze.truncate(net, scan, at=at)


def test_a_tunnel_that_never_starts_asks_for_a_place(cnn):
    net, scan, _ = cnn
    scan = winze.Scan(replace(scan.readings, arrays=dict(scan.readings.arrays)))
    scan.readings.arrays["correct/data"] = np.zeros_like(scan.readings.arrays["correct/data"])
    scan.readings.arrays["correct/network"] = np.ones_like(scan.readings.arrays["correct/network"])
    with pytest.raises(ValueError, match=r"no place to cut at.*at= \(--at\)"):
        winze.truncate(net, scan)


def test_a_head_of_ones_own_sits_on_the_places_output(cnn):
    net, scan, (x, _) = cnn
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 5))
    small = winze.truncate(net, scan, at="blocks.1", head=head).eval()
    assert torch.equal(small(x), head(outputs_of(net, "blocks.1", x)))


def test_an_unknown_head_raises(cnn):
    net, scan, _ = cnn
    with pytest.raises(ValueError, match="head must be"):
        winze.truncate(net, scan, at=0, head="linear")


def test_a_scan_without_probes_can_be_cut_without_a_head():
    net, data = lively(ResNet()), images(30)
    scan = winze.scan(net, None, data, measures=["rank"])
    small = winze.truncate(net, scan, at=0, head=None)
    assert math.isnan(small.cut.accuracy)
    assert torch.equal(small.eval()(data[0]), outputs_of(net, "blocks.0", data[0]))


def test_a_scan_without_probes_has_no_head_to_give():
    net = lively(ResNet())
    scan = winze.scan(net, None, images(30), measures=["rank"])
    with pytest.raises(ValueError, match="no probes"):
        winze.truncate(net, scan, at=0)


@pytest.mark.parametrize("pool", ["flatten", 2])
def test_other_pools_go_with_the_head(pool):
    net, (x, y) = lively(ResNet()), images(30)
    scan = winze.scan(net, images(60, seed=1), (x, y), pool=pool, max_features=50, measures=["probe"])
    small = winze.truncate(net, scan, at=1, measure=False).eval()
    assert (small(x).argmax(1) == y).tolist() == scan.readings.arrays["correct/data"][1].tolist()


@pytest.mark.parametrize("place", ["blocks.1.bn1", "stem.1", "head"])
def test_a_cut_may_lie_inside_a_block(place):
    net, (x, y) = lively(ResNet()), images(30)
    scan = winze.scan(net, images(60, seed=1), (x, y), places=place, measures=["probe"])
    small = winze.truncate(net, scan, at=place, measure=False).eval()
    assert (small(x).argmax(1) == y).tolist() == scan.readings.arrays["correct/data"][0].tolist()


def test_a_cut_may_lie_at_a_later_call_of_a_module(tmp_path):
    net, (x, y) = lively(ResNet()), images(30)
    scan = winze.scan(net, images(60, seed=1), (x, y), places="blocks.0.relu", measures=["probe"])
    assert scan.places[1].name == "blocks.0.relu:2"
    small = winze.truncate(net, scan, at=1, measure=False).eval()
    assert (small(x).argmax(1) == y).tolist() == scan.readings.arrays["correct/data"][1].tolist()
    back = winze.load(winze.save(small, tmp_path / "small.safetensors"), net=ResNet())
    assert torch.equal(back(x), small(x))


def test_a_cut_inside_a_sequential_ends_there():
    net, (x, y) = mlp(), rows(30)
    scan = winze.scan(net, rows(60, seed=1), (x, y), places=["1", "3", "6"], measures=["probe"])
    small = winze.truncate(net, scan, at="3", measure=False)
    assert sum(p.numel() for p in small.body.parameters()) == sum(p.numel() for p in net[:4].parameters())


# What is left of the network


def test_cutting_leaves_the_network_as_it_was(cnn):
    net, scan, _ = cnn
    net = copy.deepcopy(net).train()
    net.blocks[0].eval()
    state, modes = copy.deepcopy(net.state_dict()), [m.training for m in net.modules()]
    winze.truncate(net, scan, at=1)
    torch.testing.assert_close(net.state_dict(), state, rtol=0, atol=0)
    assert [m.training for m in net.modules()] == modes
    assert hooks_of(net) == 0


def test_no_parameter_behind_the_cut_is_kept(cnn):
    net, scan, _ = cnn
    small = winze.truncate(net, scan, at="blocks.1", measure=False)
    before = [*net.stem.parameters(), *net.blocks[:2].parameters()]
    assert sorted(p.numel() for p in small.body.parameters()) == sorted(p.numel() for p in before)


def test_a_cut_network_trains(cnn):
    net, scan, (x, y) = cnn
    small = winze.truncate(copy.deepcopy(net), scan, at=1, measure=False).train()
    nn.functional.cross_entropy(small(x), y).backward()
    assert all(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in small.parameters())


# Files


@pytest.fixture(scope="module")
def named() -> tuple[nn.Module, winze.Scan, Tensor]:
    net, (x, y) = lively(build("timm resnet")), images(20, size=32)
    return net, winze.scan(net, images(40, size=32, seed=1), (x, y), measures=["probe"]), x


def test_a_cut_network_comes_back_by_its_name(named, tmp_path):
    net, scan, x = named
    small = winze.truncate(net, scan, at=1, measure=False).eval()
    winze.save(small, tmp_path / "small.safetensors")
    back = winze.load(tmp_path / "small.safetensors")
    with torch.no_grad():
        assert torch.equal(back(x), small(x))


def test_a_cut_network_comes_back_on_a_network_that_is_given(cnn, tmp_path):
    net, scan, (x, _) = cnn
    small = winze.truncate(net, scan, at=1, network="nowhere.py:make", measure=False).eval()
    winze.save(small, tmp_path / "small.safetensors")
    back = winze.load(tmp_path / "small.safetensors", net=ResNet())
    with torch.no_grad():
        assert torch.equal(back(x), small(x))


def test_a_network_that_lends_its_build_is_left_as_it_is(cnn, tmp_path):
    net, scan, (x, _) = cnn
    small = winze.truncate(net, scan, at=1, network="nowhere.py:make", measure=False).eval()
    winze.save(small, tmp_path / "small.safetensors")
    mine = ResNet()
    before, modules = copy.deepcopy(mine.state_dict()), list(mine.modules())
    back = winze.load(tmp_path / "small.safetensors", net=mine)
    trained(back, x)
    assert list(mine.modules()) == modules
    assert all(m.training for m in modules)
    assert all(torch.equal(value, before[key]) for key, value in mine.state_dict().items())


def test_a_bfloat16_network_comes_back_as_it_was(tmp_path):
    net, (x, y) = lively(ResNet()).bfloat16(), images(30)
    scan = winze.scan(net, (x.bfloat16(), y), (x.bfloat16(), y), measures=["probe"])
    small = winze.truncate(net, scan, at=1, network="nowhere.py:make", measure=False).eval()
    winze.save(small, tmp_path / "small.safetensors")
    back = winze.load(tmp_path / "small.safetensors", net=ResNet())
    with torch.no_grad():
        assert torch.equal(back(x.bfloat16()), small(x.bfloat16()))


def test_saving_draws_no_random_numbers_of_the_caller(tmp_path):
    net = winze.networks.build("winze/mlp4x16", 3, inputs=8)
    data = torch.randn(30, 8), torch.arange(30) % 3
    scan = winze.scan(net, data, data, costs=False, progress=False)
    small = winze.truncate(net, scan, at=1, network="winze/mlp4x16", measure=False)
    before = torch.get_rng_state()
    winze.save(small, tmp_path / "small.safetensors")
    assert torch.equal(torch.get_rng_state(), before)


def test_a_head_of_ones_own_cannot_be_saved_by_name(cnn, tmp_path):
    net, scan, _ = cnn
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 5))
    small = winze.truncate(net, scan, at=1, head=head, network="nowhere.py:make", measure=False)
    with pytest.raises(ValueError, match="head"):
        winze.save(small, tmp_path / "small.safetensors")
    assert not list(tmp_path.iterdir())


def test_a_cut_of_a_network_without_a_name_asks_for_the_network(cnn, tmp_path):
    net, scan, (x, _) = cnn
    small = winze.truncate(net, scan, at=1, measure=False).eval()
    file = winze.save(small, tmp_path / "small.safetensors")
    with pytest.raises(ValueError, match=r"small\.safetensors does not name its network: pass net="):
        winze.load(file)
    with torch.no_grad():
        assert torch.equal(winze.load(file, net=ResNet())(x), small(x))


@pytest.mark.parametrize("how", ["rewired", "with options"])
def test_a_network_that_its_name_does_not_build_is_not_built_by_its_name(how, tmp_path):
    torch.manual_seed(1)
    options = {"act_layer": nn.SiLU} if how == "with options" else {}
    net = lively(timm.create_model("test_resnet", num_classes=3, **options))
    if how == "rewired":
        winze.rewire(net, winze.DecayedIdentity(alpha_min=0.2))
    test = images(20, size=32)
    scan = winze.scan(net, images(40, size=32, seed=1), test, measures=["probe"])
    small = winze.truncate(net, scan, at=3, measure=False)
    file = winze.save(small, tmp_path / "small.safetensors")
    with pytest.raises(ValueError, match=r"rewired or made with options: pass net="):
        winze.load(file)
    torch.testing.assert_close(winze.load(file, net=net)(test[0]), small(test[0]))


def test_a_cut_of_a_network_that_takes_integers_is_saved_and_loaded(tmp_path):
    net = nn.Sequential(nn.Embedding(9, 6), nn.Flatten(), nn.Linear(24, 5), nn.ReLU(), nn.Linear(5, 3))
    x, y = torch.randint(9, (60, 4)), torch.arange(60) % 3
    scan = winze.scan(net, (x, y), (x, y), measures=["probe"])
    with pytest.raises(ValueError, match="pass example="):
        winze.truncate(net, scan, at="3", measure=False)
    small = winze.truncate(net, scan, at="3", example=x[:2], measure=False).eval()
    back = winze.load(winze.save(small, tmp_path / "small.safetensors"), net=net)
    assert torch.equal(back(x), small(x))


def seen_by(net: nn.Module) -> list[int]:
    """The batch sizes that the network is called with."""
    sizes: list[int] = []
    net.register_forward_pre_hook(
        lambda module, args, kwargs: sizes.append(len([*args, *kwargs.values()][0])), with_kwargs=True
    )
    return sizes


def test_truncate_and_scan_time_a_cut_on_as_many_samples():
    net = ResNet()
    scan = winze.scan(net, images(40, seed=1), images(20), measures=["probe"], batch=10)
    sizes = seen_by(net)
    cut = winze.truncate(net, scan, at=1).cut
    assert cut.samples == 32
    assert sizes[-10:] == [32] * 10  # FLOPs once, seconds nine times
    sizes.clear()
    again = winze.scan(net, images(40, seed=1), images(20), measures=["probe"], batch=10, costs=True)
    assert sizes[-8:] == [32] * 8  # one run of the whole network times all cuts: once in vain, then in seven rounds
    flops = again.readings.select(measure="cut_flops", place="blocks.1").rows[0].value
    assert flops == cut.flops


def test_a_cut_is_timed_on_the_example_that_is_given(cnn):
    net, scan, (x, _) = cnn
    cut = winze.truncate(net, scan, at=1, example=x[:5]).cut
    assert cut.samples == 5
    assert "faster (1.4x to 1.6x) on 5 samples" in str(replace(cut, speed_up=SpeedUp(1.5, 1.4, 1.6)))


def test_a_network_of_keyword_arguments_is_timed_on_as_many_samples():
    class Keyed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp()

        def forward(self, x: Tensor, scale: Tensor | None = None, shift: float = 0.0) -> Tensor:
            return self.net(x if scale is None else x * scale + shift)

    net = Keyed()
    x, y = rows(20)
    given = [({"x": x, "scale": torch.ones(20, 1), "shift": 1.0}, y)]
    sizes = seen_by(net)
    winze.scan(net, given, given, measures=["probe"], costs=True)
    assert sizes[-8:] == [32] * 8


TOLD = Cut(
    place=Place(1, 3, "blocks.1"),
    accuracy=0.89,
    accuracy_before=0.9,
    parameters=11,
    parameters_before=100,
    flops=58,
    flops_before=100,
    seconds=1.0,
    seconds_before=1.7,
    samples=32,
    speed_up=SpeedUp(1.7, 1.6, 1.9),
)


def test_a_cut_says_what_it_costs_and_that_an_estimate_is_one():
    assert str(TOLD) == (
        "Cut after layer 2 of 3, `blocks.1`: 98.9 % of the accuracy (estimated by the scan: 89 %, before 90 %), "
        "1.7x faster (1.6x to 1.9x) on 32 samples, 11 % of the parameters, 58 % of the FLOPs."
    )
    assert "measured on 450 samples: 89 %, before 90 %" in str(replace(TOLD, measured=450))
    assert "estimated by the scan: 89 %, last probe 90 %" in str(replace(TOLD, own=False))
    assert "89 % accuracy (estimated by the scan)," in str(replace(TOLD, accuracy_before=math.nan))
    assert "accuracy" not in str(replace(TOLD, accuracy=math.nan))
    assert "FLOPs" not in str(replace(TOLD, flops=0, flops_before=0))


def test_more_accuracy_than_before_is_a_gain_in_points():
    assert "+7.0 points of accuracy (estimated by the scan: 74 %, before 67 %)" in str(
        replace(TOLD, accuracy=0.74, accuracy_before=0.67)
    )


@pytest.mark.parametrize(
    ("speed_up", "said"),
    [
        (SpeedUp(0.5, 0.4, 0.6), "2.0x slower (0.4x to 0.6x)"),
        (SpeedUp(1.2, 0.9, 1.4), "no clear change in speed (0.9x to 1.4x)"),
    ],
)
def test_a_slower_cut_and_an_unclear_one_say_so(speed_up, said):
    assert said in str(replace(TOLD, speed_up=speed_up))


def test_with_data_the_accuracy_is_measured_there(cnn):
    net, scan, (x, y) = cnn
    small = winze.truncate(net, scan, at=1, data=(x[:20], y[:20])).eval()
    with torch.no_grad():
        right = [float((each(x[:20]).argmax(1) == y[:20]).double().mean()) for each in (small, net)]
    assert small.cut.measured == 20
    assert small.cut.accuracy == pytest.approx(right[0])
    assert small.cut.accuracy_before == pytest.approx(right[1] if small.cut.own else math.nan, nan_ok=True)


def test_data_of_other_classes_is_refused_not_measured(cnn):
    net, scan, (x, y) = cnn
    with pytest.raises(ValueError, match=r"data: label 102 is none of the scan's 3 classes"):
        winze.truncate(net, scan, at=1, data=(x, y + 100))


def test_something_else_than_a_scan_is_refused(cnn, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(TypeError, match=r"scan= takes what winze.scan or winze.Scan.load gives, not a str"):
        winze.truncate(cnn[0], "out")


def test_labels_that_the_probe_counts_anew_are_measured_as_such():
    net, (x, y) = lively(ResNet()), images(60)
    scan = winze.scan(net, (x, 10 * y), (x, 10 * y), measures=["probe"])
    cut = winze.truncate(net, scan, at=1, data=(x, 10 * y)).cut
    assert cut.accuracy == pytest.approx(float(scan.curve("probe")[1]))
    assert math.isnan(cut.accuracy_before)  # the network's outputs stand for other labels


def test_a_head_of_ones_own_has_no_accuracy_until_it_is_measured(cnn):
    net, scan, data = cnn
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 3))
    assert math.isnan(winze.truncate(net, scan, at=1, head=head).cut.accuracy)
    assert winze.truncate(net, scan, at=1, head=head, data=data).cut.accuracy >= 0


# Of which network


def test_the_scan_of_another_architecture_is_refused(cnn):
    _, scan, _ = cnn
    with pytest.raises(ValueError, match=r"the scan is of another architecture: scan this network again.*force=True"):
        winze.truncate(mlp(), scan, at=1)


def test_a_network_trained_after_its_scan_is_refused(cnn):
    net, scan, (x, _) = cnn
    net = copy.deepcopy(net)
    trained(net, x)
    for use in (winze.truncate, winze.extractor):
        with pytest.raises(ValueError, match="with other weights: it was trained further, or other weights"):
            use(net, scan, at=1)


def test_a_network_rewired_after_its_scan_is_refused(cnn):
    net, scan, _ = cnn
    net = winze.rewire(copy.deepcopy(net), winze.Scaled(0.5))
    with pytest.raises(ValueError, match="with other rules at its junctions"):
        winze.truncate(net, scan, at=1)


def negate(net: nn.Module) -> None:
    forward = type(net).forward
    net.forward = lambda x: forward(net, -x)


@pytest.mark.parametrize(
    "change",
    [
        negate,
        lambda net: setattr(net.stem[0], "padding_mode", "circular"),
        lambda net: net.blocks[1].register_forward_hook(lambda module, args, output: 2 * output),
    ],
    ids=["its code", "an attribute", "a hook"],
)
def test_a_network_that_computes_something_else_than_when_it_was_scanned_is_refused(cnn, change, tmp_path):
    net, scan, _ = cnn
    scan.save(tmp_path / "scan")
    other = copy.deepcopy(net)
    assert winze.truncate(other, winze.Scan.load(tmp_path / "scan"), at=1, measure=False)
    change(other)
    with pytest.raises(ValueError, match="with another forward"):
        winze.truncate(other, scan, at=1)


def test_a_network_that_draws_random_numbers_has_no_fixed_answers_and_is_cut():
    class Noisy(ResNet):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x + 0.1 * torch.randn_like(x))

    net = lively(Noisy())
    scan = winze.scan(net, images(60, seed=1), images(30), measures=["probe"])
    assert scan.readings.conventions.fingerprint["answers"] == ""
    assert winze.truncate(net, scan, at=1, measure=False)


def test_an_accuracy_is_not_measured_on_outputs_that_are_not_finite(cnn):
    net, scan, (x, y) = cnn
    with pytest.raises(ValueError, match="data: outputs are NaN or infinite for 2 of 30 samples"):
        winze.truncate(net, scan, at=1, data=(x.index_fill(0, torch.tensor([3, 7]), torch.nan), y))


def test_a_head_that_does_not_fit_is_said_not_to_run(cnn):
    _, scan, _ = cnn
    with pytest.raises(CutError, match=r"does not run: .*cannot be multiplied"):
        winze.truncate(ResNet(width=4), scan, at=1, force=True)


def test_readings_that_are_no_scan_are_said_to_lack_what_a_cut_needs(cnn):
    net, _, _ = cnn
    with pytest.raises(ValueError, match="these are not the readings of a scan: they lack data, places"):
        winze.truncate(net, winze.Scan(Readings()), at=0)


def test_a_scan_from_before_fingerprints_says_to_scan_again(cnn):
    net, scan, _ = cnn
    conventions = {key: value for key, value in scan.readings.conventions.items() if key != "fingerprint"}
    old = winze.Scan(replace(scan.readings, conventions=conventions))
    with pytest.raises(ValueError, match="older winze wrote it: scan this network again"):
        winze.truncate(net, old, at=1)


def test_forced_it_cuts_and_says_what_is_wrong_without_the_scans_accuracy(cnn):
    net, scan, (x, _) = cnn
    net = copy.deepcopy(net)
    trained(net, x)
    cut = winze.truncate(net.eval(), scan, at=1, force=True).cut
    assert math.isnan(cut.accuracy)
    assert str(cut).endswith(
        "Forced: the scan is of this network with other weights: it was trained further, or other weights were loaded, "
        "after the scan."
    )


@pytest.mark.parametrize("wrap", [nn.DataParallel, lambda net: torch.compile(net, backend="eager")])
def test_a_wrapped_network_is_cut_as_the_network_itself(cnn, wrap):
    net, scan, (x, _) = cnn
    small = winze.truncate(wrap(net), scan, at=1, measure=False).eval()
    with torch.no_grad():
        assert torch.equal(small(x), winze.truncate(net, scan, at=1, measure=False).eval()(x))


@pytest.mark.parametrize("at", [0, 2])
def test_a_network_with_a_compiled_part_is_scanned_and_cut(at):
    net, (x, y) = lively(ResNet()), images(30)
    net.blocks[0] = torch.compile(net.blocks[0], backend="eager")
    scan = winze.scan(net, (x, y), (x, y), measures=["probe"])
    small = winze.truncate(net, scan, at=at, measure=False).eval()
    with torch.no_grad():
        right = small(x).argmax(1) == y
    assert right.tolist() == scan.readings.arrays["correct/data"][at].tolist()


def test_a_network_compiled_in_place_is_cut(cnn):
    net, scan, (x, _) = cnn
    compiled = copy.deepcopy(net)
    compiled.compile(backend="eager")
    small = winze.truncate(compiled, scan, at=1, measure=False).eval()
    assert compiled._compiled_call_impl is not None
    with torch.no_grad():
        assert torch.equal(small(x), winze.truncate(net, scan, at=1, measure=False).eval()(x))


def test_cutting_saving_and_loading_draw_no_random_numbers_of_the_caller(cnn, tmp_path):
    net, scan, data = cnn
    before = torch.get_rng_state()
    small = winze.truncate(net, scan, at=1, data=data)
    winze.load(winze.save(small, tmp_path / "small.safetensors"), net=net)
    assert torch.equal(torch.get_rng_state(), before)


# Forwards that do more than map tensors to tensors


class Noted(nn.Module):
    """A block that hands on a note, None in eval mode, which its network looks at."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(12, 12)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        h = self.layer(x)
        return x + h, (h if self.training else None)


class Stateful(nn.Module):
    """A network with side effects, a way that depends on None, experts, and a head that is a bare parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Noted() for _ in range(3))
        self.experts = nn.ModuleList(nn.Linear(12, 12) for _ in range(2))
        self.tail = nn.Sequential(nn.Linear(12, 12), nn.ReLU())
        self.head = nn.Parameter(torch.randn(12, 3))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        depth = len(self.tail)  # asks for something behind the cut, and does not run it
        for block in self.blocks:
            x, note = block(x)
            x = x * depth if note is not None else x
        x = x + self.experts[int(x.sum() > 1e9)](x)
        return self.tail(x) @ self.head


def test_the_cut_runs_the_forward_as_it_was_written():
    torch.manual_seed(0)
    net, (x, y) = Stateful().eval(), rows(60)
    scan = winze.scan(net, (x, y), (x, y), measures=["probe"], places=["blocks.0", "blocks.1", "blocks.2"])
    calls = net.calls
    small = winze.truncate(net, scan, at=1, measure=False).eval()
    assert (small(x).argmax(1) == y).tolist() == scan.readings.arrays["correct/data"][1].tolist()
    assert net.calls == calls


def test_what_is_behind_the_cut_is_left_out_unless_the_forward_asks_for_it():
    net, (x, y) = Stateful().eval(), rows(60)
    scan = winze.scan(net, (x, y), (x, y), measures=["probe"], places=["blocks.0", "blocks.1"])
    small = winze.truncate(net, scan, at=1, measure=False)
    kept = sorted(name.removeprefix("net.") for name, _ in small.body.named_parameters())
    assert kept == sorted(
        name for name, _ in net.named_parameters() if name.startswith(("blocks.0", "blocks.1", "tail"))
    )


def test_a_part_that_the_example_did_not_need_is_named_when_it_is():
    net, (x, y) = Stateful().eval(), rows(60)
    scan = winze.scan(net, (x, y), (x, y), measures=["probe"], places=["tail"])
    small = winze.truncate(net, scan, at=0, measure=False).eval()
    with pytest.raises(winze.observe.CutError, match=r"'experts\.1' was left out .*: cut with an example="):
        small(x + 1e9)


def test_a_place_that_is_a_tuple_comes_back_whole_without_a_head():
    net, (x, y) = Stateful().eval(), rows(60)
    scan = winze.scan(net, (x, y), (x, y), measures=["probe"], places=["blocks.0", "blocks.1"])
    out, note = winze.truncate(net, scan, at=1, head=None, measure=False).eval()(x)
    assert note is None
    assert torch.equal(out, outputs_of(nn.Sequential(*[First(b) for b in net.blocks[:2]]), "1", x))


class First(nn.Module):
    """The first thing that a module outputs."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)[0]


def test_a_cut_can_be_cut_again(cnn):
    net, scan, (x, y) = cnn
    small = winze.truncate(net, scan, at=1, measure=False).eval()
    again = winze.scan(small, (x, y), (x, y), places=["body.net.blocks.0"], measures=["probe"])
    smaller = winze.truncate(small, again, at=0, head=None, measure=False).eval()
    with torch.no_grad():
        assert torch.equal(smaller(x), outputs_of(net, "blocks.0", x))


# Files of other kinds


def test_a_cut_says_the_same_of_its_costs_after_loading(named, tmp_path):
    net, scan, _ = named
    small = winze.truncate(net, scan, at=1)
    back = winze.load(winze.save(small, tmp_path / "small.safetensors"))
    assert back.cut == small.cut


def test_a_file_that_is_not_safetensors_is_refused(tmp_path):
    torch.save({"weight": torch.ones(2)}, tmp_path / "net.pt")
    with pytest.raises(ValueError, match=r"net\.pt is not a safetensors file"):
        winze.load(tmp_path / "net.pt")


def test_a_safetensors_file_of_others_is_refused(tmp_path):
    from safetensors.torch import save_file

    save_file({"weight": torch.ones(2)}, str(tmp_path / "net.safetensors"), {"format": json.dumps("pt")})
    with pytest.raises(ValueError, match="not written by winze"):
        winze.load(tmp_path / "net.safetensors")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"small\.safetensors"):
        winze.load(tmp_path / "small.safetensors")
