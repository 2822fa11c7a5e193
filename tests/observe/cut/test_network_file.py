"""Networks go into files and come back; what is no network of winze's is refused by name, and runs nothing."""

import json
import os
import pickle
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import winze
from winze.networks import build, describe, load_weights, read_weights
from winze.networks.weights import KEY, told_by


def test_a_checkpoint_of_tensors_alone_is_refused_with_what_to_call(tmp_path):
    torch.save({"weight": torch.ones(2)}, tmp_path / "net.pt")
    with pytest.raises(ValueError, match=r"net\.pt is not a safetensors file: .*load_weights\(net, file\)"):
        winze.load(tmp_path / "net.pt")


class Evil:
    def __reduce__(self):
        return os.mkdir, ("evil_was_here",)


@pytest.mark.parametrize("bare", [True, False])
def test_a_pickle_is_refused_as_weights_in_one_are_and_its_code_does_not_run(tmp_path, monkeypatch, bare):
    monkeypatch.chdir(tmp_path)
    if bare:
        Path("net.pt").write_bytes(pickle.dumps({"weight": Evil()}))
    else:
        torch.save({"weight": Evil()}, "net.pt")
    with pytest.raises(ValueError, match=r"pickle with code in it \(posix.mkdir\)") as caught:
        winze.load("net.pt")
    with pytest.raises(ValueError, match="pickle with code") as said:
        read_weights("net.pt")
    assert str(caught.value) == str(said.value)
    assert not Path("evil_was_here").exists()


@pytest.mark.parametrize("content", [b"", b"hello, world", b"\x08\x00\x00\x00\x00\x00\x00\x00{}"])
def test_a_file_that_is_no_network_is_named_without_the_words_of_its_reader(tmp_path, content):
    (tmp_path / "net").write_bytes(content)
    with pytest.raises(ValueError, match=r"net is (not a checkpoint|not a whole safetensors file)"):
        winze.load(tmp_path / "net")


# Whole networks


class Plain(nn.Module):
    """A network without a name, two of whose layers share their weight."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.norm = nn.Linear(4, 4), nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.two.weight = self.one.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.two(self.one(x).relu()))


@pytest.fixture
def x() -> Tensor:
    return torch.randn(5, 4, generator=torch.Generator().manual_seed(0))


def test_any_network_is_saved_and_comes_back_into_one_like_it(tmp_path, x):
    net = Plain().eval()
    file = winze.save(net, tmp_path / "net.safetensors")
    back = winze.load(file, net=Plain())
    assert torch.equal(back(x), net(x))
    assert back.one.weight is back.two.weight
    with pytest.raises(ValueError, match=r"net\.safetensors does not name its network: pass net="):
        winze.load(file)


@pytest.mark.parametrize("wrap", [nn.DataParallel, lambda net: torch.compile(net, backend="eager")])
def test_a_wrapped_network_is_saved_and_loaded_as_the_network_itself(tmp_path, x, wrap):
    net = Plain().eval()
    file = winze.save(wrap(net), tmp_path / "net.safetensors")
    assert torch.equal(winze.load(file, net=wrap(Plain()))(x), net(x))


def test_a_network_with_a_name_is_built_by_it_and_not_by_another(tmp_path):
    net = build("winze/mlp3x8", 3, inputs=4).eval()
    spec = describe("winze/mlp3x8", 3, inputs=4)
    file = winze.save(net, tmp_path / "net.safetensors", network=spec)
    assert torch.equal(winze.load(file)(torch.ones(2, 4)), net(torch.ones(2, 4)))
    with pytest.raises(ValueError, match="builds another network than this MLP"):
        winze.save(net, tmp_path / "net.safetensors", network="winze/mlp4x8")


def test_loading_draws_no_random_numbers_of_the_caller(tmp_path):
    spec = describe("winze/mlp3x8", 3, inputs=4)
    file = winze.save(build(spec), tmp_path / "net.safetensors", network=spec)
    before = torch.get_rng_state()
    winze.load(file)
    assert torch.equal(torch.get_rng_state(), before)


def residual() -> nn.Module:
    return build("winze/resmlp3x8", 3, inputs=4).eval()


def test_a_file_knows_the_rule_of_its_network_and_warns_where_it_is_missing(tmp_path):
    net = winze.rewire(residual(), winze.DecayedIdentity(alpha_min=0.4))
    file = winze.save(net, tmp_path / "net.safetensors")
    said = r"was trained with DecayedIdentity\(alpha_min=0\.4\) at junction '.*', where this network has Standard\(\)"
    with pytest.warns(UserWarning, match=said):
        winze.load(file, net=residual())
    with pytest.warns(UserWarning, match=said):
        load_weights(residual(), file)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        winze.load(file, net=winze.rewire(residual(), winze.DecayedIdentity(alpha_min=0.4)))


def test_a_file_of_the_first_format_is_built_with_the_rule_it_names(tmp_path):
    spec = describe("winze/resmlp3x8", 3, winze.DecayedIdentity(alpha_min=0.4), inputs=4)
    file = stored(tmp_path / "net.safetensors", {"version": 1, "network": spec}, **build(spec).state_dict())
    assert {junction.rule for junction in winze.junctions(winze.load(file))} == {winze.DecayedIdentity(alpha_min=0.4)}


def test_a_network_that_gained_a_rule_since_is_warned_of(tmp_path):
    file = winze.save(residual(), tmp_path / "net.safetensors")
    with pytest.warns(UserWarning, match=r"trained with Standard\(\) .* has Scaled\("):
        load_weights(winze.rewire(residual(), winze.Scaled(0.5)), file)


# Programs


def test_a_network_is_exported_for_batches_of_any_size(tmp_path, x):
    net = Plain().train()
    file = winze.save(net, tmp_path / "net.pt2", example=x[:2])
    assert net.training
    assert torch.allclose(torch.export.load(file).module()(x), net.eval()(x))
    with pytest.raises(ValueError, match=r"net\.pt2 is a program, not weights: read it with torch\.export\.load"):
        winze.load(file)


@pytest.mark.slow
def test_a_network_of_keyword_arguments_becomes_onnx(tmp_path, x):
    class Keyed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x: Tensor, scale: Tensor) -> Tensor:
            return self.layer(x) * scale

    net = Keyed()
    file = winze.save(net, tmp_path / "net.onnx", example={"x": x[:2], "scale": torch.ones(2, 1)})
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    names = [told.name for told in session.get_inputs()]
    given = dict(zip(names, (x.numpy(), torch.full((5, 1), 2.0).numpy()), strict=True))
    found = session.run(None, given)[0]
    np.testing.assert_allclose(found, net(x, torch.full((5, 1), 2.0)).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_onnx_that_disagrees_is_not_written(tmp_path, x, monkeypatch):
    monkeypatch.setattr("winze.observe.cut.export.alike", lambda one, other: False)
    monkeypatch.setattr("winze.observe.cut.export.torch.onnx.export", lambda *_, **__: Stand())
    monkeypatch.setattr("onnxruntime.InferenceSession", lambda *_, **__: Stand())
    with pytest.raises(ValueError, match="ONNX Runtime returns other values than Plain: nothing was written"):
        winze.save(Plain(), tmp_path / "net.onnx", example=x[:2])
    assert not list(tmp_path.iterdir())


class Stand:
    """Stands in for what torch exports and for what runs it."""

    model_proto = property(lambda self: self)

    def SerializeToString(self) -> bytes:  # noqa: N802
        return b""

    def get_inputs(self) -> list[Any]:
        return [SimpleNamespace(name="x")]

    def run(self, names: None, given: Any) -> list[np.ndarray]:
        return [np.zeros(3)]


def test_a_network_that_cannot_be_exported_is_one_line(tmp_path, x):
    class Odd(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[: int(x.sum().item())]

    with pytest.raises(ValueError, match="Odd cannot be exported with batches of any size: ") as caught:
        winze.save(Odd(), tmp_path / "net.pt2", example=x.abs()[:2])
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


# Files from elsewhere


def stored(file: Path, told: Any, **tensors: Tensor) -> Path:
    """A file with this to say of its network."""
    body = told if isinstance(told, str) else json.dumps(told)
    save_file(tensors or {"weight": torch.ones(2)}, str(file), {"winze": body})
    return file


def test_a_file_that_names_a_python_file_is_not_believed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("helper.py").write_text(
        "from pathlib import Path\nfrom torch import nn\nPath(__file__).with_name('ran').touch()\n"
        "def net(): return nn.Linear(4, 3)\n"
    )
    own = nn.Linear(4, 3).state_dict()
    file = stored(Path("net.safetensors"), {"version": 2, "network": "helper.py:net", "rules": {}}, **own)
    with pytest.raises(ValueError, match=r"net\.safetensors: its network is made by 'helper\.py:net'.*trust=True"):
        winze.load(file)
    assert torch.equal(winze.load(file, net=nn.Linear(4, 3)).weight, own["weight"])
    assert not Path("ran").exists()
    assert torch.equal(winze.load(file, trust=True).weight, own["weight"])


CUT = {
    "version": 2,
    "rules": {},
    "network": {"name": "winze/mlp3x8", "classes": 3, "options": {"inputs": 4}},
    "place": "layers.1",
    **dict.fromkeys(("call", "index", "output"), 0),
    "total": 3,
    "most": 8000,
    "layout": {"channels": 1, "scale": 1},
    "pool": "mean",
    "left_out": ["layers.2", "output"],
    "example": [2, 4],
    "note": "",
    "cut": None,
}


@pytest.mark.parametrize(
    "told",
    [
        "not json",
        "[" * 100_000,
        "null",
        [],
        {},
        {"version": 3, "network": "winze/mlp3x8"},
        {"version": 2, "network": 3, "rules": {}},
        {"version": 2, "network": ["winze/mlp3x8"], "rules": {}},
        {"version": 2, "network": "winze/mlp3x8", "rules": []},
        {"version": 2, "network": "winze/mlp3x8", "rules": None},
        {"version": 2, "network": "winze/mlp3x8", "rules": {"a": 1}},
        {"version": 2, "network": "winze/mlp3x8", "rules": {"a": "\x1b[31m"}},
        {"version": 2, "network": "winze/mlp3x8", "rules": {}, "alike": "no"},
        {"version": 2, "network": "winze/mlp3x8", "rules": {}},
        CUT | {"version": 1},
        CUT | {"place": 3},
        CUT | {"place": "nowhere"},
        CUT | {"call": -1},
        CUT | {"call": True},
        CUT | {"layout": None},
        CUT | {"layout": {"channels": 1}},
        CUT | {"layout": {"channels": 1, "scale": "x"}},
        CUT | {"pool": {}},
        CUT | {"pool": "nonsense"},
        CUT | {"left_out": "layers"},
        CUT | {"left_out": ["nowhere"]},
        CUT | {"left_out": [3]},
        CUT | {"left_out": [""]},
        CUT | {"left_out": ["layers", "layers.1"]},
        CUT | {"example": {"shape": 3}},
        CUT | {"most": 1 << 60},
        CUT | {"cut": {"place": 3}},
        CUT | {"cut": {"accuracy": "high"}},
        CUT | {"note": 3},
        {key: value for key, value in CUT.items() if key != "pool"},
        CUT,
    ],
    ids=lambda told: str(told)[:60],
)
def test_odd_metadata_are_one_line_that_names_the_file(tmp_path, told):
    with pytest.raises(ValueError, match=r"net\.safetensors") as caught:
        winze.load(stored(tmp_path / "net.safetensors", told))
    assert "\n" not in str(caught.value)


def test_a_file_of_other_shapes_is_not_read_into_memory(tmp_path, monkeypatch):
    spec = describe("winze/mlp3x8", 3, inputs=4)
    told = {"version": 2, "network": spec, "rules": {}}
    file = stored(tmp_path / "net.safetensors", told, **{"output.weight": torch.ones(9, 9)})
    monkeypatch.setattr("winze.observe.cut.network_file.read_weights", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(ValueError, match="does not fit MLP"):
        winze.load(file)


def test_a_program_for_an_unknown_suffix_is_not_begun(tmp_path):
    with pytest.raises(ValueError, match=r"the suffix must be .*not '\.pth'"):
        winze.save(Plain(), tmp_path / "net.pth")


def test_saving_into_a_device_is_refused(tmp_path):
    os.mkfifo(tmp_path / "net.safetensors")
    with pytest.raises(OSError, match="is a device or a pipe"):
        winze.save(Plain(), tmp_path / "net.safetensors")
    assert (tmp_path / "net.safetensors").is_fifo()


@pytest.mark.parametrize("kind", [torch.int64, torch.complex64])
def test_a_file_with_weights_that_are_no_floats_is_refused(tmp_path, kind):
    file, net = tmp_path / "net.safetensors", build("winze/mlp2x6", 3, inputs=4)
    winze.save(net, file, network=describe("winze/mlp2x6", 3, inputs=4))
    told = told_by(file)
    save_file({key: value.to(kind) for key, value in net.state_dict().items()}, file, {KEY: json.dumps(told)})
    with pytest.raises(ValueError, match=f"weight is {kind} and not torch.float32"):
        winze.load(file)
