"""What a stored file says builds networks by known names with plain options, and runs, fetches and opens nothing."""

from pathlib import Path

import pytest
import torch

from winze.networks import NetworkError, build_stored


@pytest.mark.parametrize(
    "spec",
    [
        "winze/mlp3x8",
        {"name": "winze/vgg11x0.25", "classes": 4, "options": {"channels": 1}, "rule": None},
        {"name": "winze/resnet18x0.05", "options": {"strides": [1, 1, 2, 2], "stem": "cifar"}},
        {"name": "test_resnet", "classes": 3, "options": {"in_chans": 1}},
        {"name": "test_resnet", "rule": {"name": "DecayedIdentity", "alpha_min": 0.5}},
        {"name": "torchvision/squeezenet1_1", "options": {"dropout": 0.1}},
    ],
    ids=str,
)
def test_networks_by_name_with_sizes_are_built(spec):
    before = torch.get_rng_state()
    assert isinstance(build_stored(spec, "file"), torch.nn.Module)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (None, "names none"),
        ([], "names none"),
        ({"classes": 3}, "names none"),
        ({"name": 3}, "names none"),
        ({"name": "resnet18", "url": "x"}, "has url"),
        ("../resnet18", "not a name of"),
        ("/tmp/resnet18", "not a name of"),
        ("hf-hub:timm/resnet18", "not a name of"),
        ("hf_hub:timm/resnet18", "not a name of"),
        ("local-dir:/tmp/x", "not a name of"),
        ("resnet18.a1:b", "not a name of"),
        ("", "not a name of"),
        ("nosuchnet", "unknown network"),
        ("winze/mlp99999999x4", "too large"),
        ({"name": "resnet18", "classes": -1}, "classes"),
        ({"name": "resnet18", "classes": 1 << 40}, "classes"),
        ({"name": "resnet18", "classes": True}, "classes"),
        ({"name": "resnet18", "options": [1]}, "options"),
        ({"name": "resnet18", "options": {"pretrained": True}}, "no stored file may set"),
        ({"name": "resnet18", "options": {"pretrained_cfg": {"url": "http://x"}}}, "no stored file may set"),
        ({"name": "resnet18", "options": {"pretrained_cfg_overlay": {"file": "x"}}}, "no stored file may set"),
        ({"name": "resnet18", "options": {"checkpoint_path": "x.pth"}}, "no stored file may set"),
        ({"name": "resnet18", "options": {"cache_dir": "x"}}, "no stored file may set"),
        ({"name": "torchvision/resnet18", "options": {"weights": "DEFAULT"}}, "no stored file may set"),
        ({"name": "torchvision/fcn_resnet50", "options": {"weights_backbone": "DEFAULT"}}, "no stored file may set"),
        ({"name": "winze/resnet20", "options": {"pretrained": True}}, "no stored file may set"),
        ({"name": "resnet18", "options": {"in_chans": {"url": "x"}}}, "neither a size nor a kind"),
        ({"name": "resnet18", "options": {"in_chans": "http://x"}}, "neither a size nor a kind"),
        ({"name": "resnet18", "options": {"in_chans": 1 << 40}}, "neither a size nor a kind"),
        ({"name": "resnet18", "options": {"in_chans": [1] * 99}}, "neither a size nor a kind"),
        ({"name": "resnet18", "options": {"drop_rate": float("nan")}}, "neither a size nor a kind"),
        ({"name": "resnet18", "rule": "Scaled"}, "rule"),
        ({"name": "winze/mlp3x8", "rule": {"name": "Rule"}}, "no rule"),
        ({"name": "winze/mlp3x8", "rule": {"name": "rewire"}}, "no rule"),
        ({"name": "winze/mlp3x8", "rule": {"name": "Scaled", "nonsense": 1}}, "rule Scaled"),
        ({"name": "winze/mlp3x8", "rule": {"name": "DropPath", "rate": 7}}, "rule DropPath"),
    ],
    ids=str,
)
def test_whatever_else_a_file_says_is_refused_in_one_line_that_names_it(spec, said, monkeypatch):
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("an address was asked"))
    with pytest.raises(NetworkError, match=rf"^file: .*{said}") as caught:
        build_stored(spec, "file")
    assert "\n" not in str(caught.value)


def test_a_python_file_is_run_only_where_it_is_trusted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("make.py").write_text(
        "from pathlib import Path\nPath(__file__).with_name('ran').touch()\nfrom torch.nn import ReLU as net\n"
    )
    with pytest.raises(NetworkError, match=r"'make\.py:net', which would run that file: .*trust=True"):
        build_stored({"name": "make.py:net"}, "file")
    assert not Path("ran").exists()
    build_stored("make.py:net", "file", trust=True)
    assert Path("ran").exists()


def test_a_network_that_is_too_large_takes_up_no_memory(monkeypatch):
    devices = []
    monkeypatch.setattr("winze.networks.stored.MOST_NUMBERS", 10**7)
    real = torch.nn.Linear.reset_parameters
    monkeypatch.setattr(
        torch.nn.Linear, "reset_parameters", lambda self: (devices.append(self.weight.device.type), real(self))
    )
    with pytest.raises(NetworkError, match="parameters: pass the network itself"):
        build_stored("winze/mlp400x400", "file")
    assert set(devices) == {"meta"}


def test_a_network_as_large_as_is_allowed_is_built(monkeypatch):
    sizes = [one.numel() for one in build_stored("winze/mlp4x16", "file").parameters()]
    monkeypatch.setattr("winze.networks.stored.MOST_NUMBERS", sum(sizes))
    monkeypatch.setattr("winze.networks.stored.MOST_TENSORS", len(sizes))
    assert build_stored("winze/mlp4x16", "file")


@pytest.mark.parametrize(("limit", "most"), [("MOST_NUMBERS", 500), ("MOST_TENSORS", 5)])
def test_a_file_builds_no_network_larger_than_any_that_is_known(limit, most, monkeypatch):
    assert build_stored("winze/mlp4x16", "file")
    monkeypatch.setattr(f"winze.networks.stored.{limit}", most)
    with pytest.raises(NetworkError, match=r"file: .*its network has more than"):
        build_stored("winze/mlp4x16", "file")
    assert len(list(torch.nn.Linear(40, 40).parameters())) == 2  # others are not counted
    with pytest.raises(NetworkError, match="not a name of") as caught:
        build_stored("a" * 10**6, "file")
    assert len(str(caught.value)) < 300
