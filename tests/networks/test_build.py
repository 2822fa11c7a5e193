import json
import sys

import pytest
import torch
from torch import nn

from winze import DecayedIdentity, junctions
from winze.networks import (
    MLP,
    VGG,
    NetworkError,
    ResidualMLP,
    ResNet,
    SpiralMLP,
    build,
    describe,
    head_of,
    options_for,
    published,
)
from winze.networks.build import KNOWN

FILE = """
from dataclasses import dataclass
from torch import nn
from sibling import WIDTH

@dataclass
class Config:
    width: int = WIDTH

def make_net(classes=4):
    return nn.Linear(Config().width, classes)

def fixed():
    return nn.Linear(2, 2)

def broken():
    raise RuntimeError("two\\nlines")

def leaves():
    raise SystemExit(1)

def number():
    return 3

constant = 5
"""


@pytest.fixture
def my_file(tmp_path):
    (tmp_path / "my_file.py").write_text(FILE)
    (tmp_path / "sibling.py").write_text("WIDTH = 3\n")
    yield tmp_path / "my_file.py"
    sys.modules.pop("sibling", None)


def test_a_plain_name_is_timms():
    net = build("resnet18", 7)
    assert type(net).__module__.startswith("timm")
    assert net.fc.out_features == 7


def test_without_classes_a_network_keeps_its_own_number():
    with torch.device("meta"):
        assert build("resnet18").fc.out_features == 1000


def test_torchvision_networks_have_their_prefix():
    net = build("torchvision/resnet18", 7)
    assert type(net).__module__.startswith("torchvision")
    assert net.fc.out_features == 7


@pytest.mark.parametrize("name", ["googlenet", "inception_v3", "vit_b_16", "vgg11_bn"])
def test_torchvision_networks_are_built_without_a_warning(name):
    with torch.device("meta"):
        assert isinstance(build(f"torchvision/{name}", 5), nn.Module)


def test_our_own_names_say_depth_and_width():
    net = build("winze/mlp8x16", 5, inputs=12)
    assert isinstance(net, MLP)
    assert (len(net.layers), net.output.in_features, net.output.out_features) == (8, 16, 5)


def test_a_residual_name_takes_its_norm_as_an_option():
    net = build("winze/resmlp3x8", 5, inputs=12, norm="layer")
    assert isinstance(net, ResidualMLP)
    assert sum(isinstance(m, nn.LayerNorm) for m in net.modules()) == 3


@pytest.mark.parametrize(
    ("spec", "kind", "options"),
    [
        ("winze/vgg19x0.25", VGG, {"depth": 19, "width": 0.25}),
        ("winze/vgg11", VGG, {"depth": 11}),
        ("winze/resnet34x2", ResNet, {"depth": 34, "width": 2}),
        ("winze/resnet20", ResNet, {"depth": 20}),
        ("winze/spiral32x16", SpiralMLP, {"depth": 32, "width": 16}),
    ],
)
def test_a_name_builds_what_its_class_does(spec, kind, options):
    with torch.device("meta"):
        named, made = build(spec, 7), kind(classes=7, **options)
    assert isinstance(named, kind)
    shapes = [{key: value.shape for key, value in net.state_dict().items()} for net in (named, made)]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("spec", KNOWN)
def test_every_name_that_errors_propose_can_be_built(spec):
    with torch.device("meta"):
        assert isinstance(build(spec, 5), nn.Module)


@pytest.mark.parametrize(
    "spec", ["winze/mlp3x8", "winze/spiral6x6", "winze/vgg11x0.1", "winze/resnet20", "test_resnet"]
)
def test_our_own_networks_take_samples_of_a_shape_by_their_options(spec):
    shape = (1, 8, 8) if spec.startswith("winze") else (3, 32, 32)
    net = build(spec, 5, **options_for(spec, shape)).eval()
    assert net(torch.randn(2, *shape)).shape == (2, 5)


def test_networks_for_images_do_not_take_points():
    assert options_for("winze/spiral6x6", (2,)) == {"inputs": 2}
    with pytest.raises(NetworkError, match=r"takes images.*not samples of shape \(2,\)"):
        options_for("winze/vgg19", (2,))


def test_a_function_in_a_file_makes_a_network(my_file):
    assert build(f"{my_file}:make_net").in_features == 3


def test_a_function_with_a_classes_parameter_is_told_the_classes(my_file):
    assert build(f"{my_file}:make_net", 9).out_features == 9


def test_a_function_without_a_classes_parameter_is_called_without(my_file):
    assert build(f"{my_file}:fixed", 9).out_features == 2


def test_importing_a_file_leaves_the_search_path_as_it_was(my_file):
    before = list(sys.path)
    build(f"{my_file}:make_net")
    assert sys.path == before


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("make_nte", "did you mean make_net"),
        ("constant", "must be a function"),
        ("number", "gave back a int"),
        ("broken", r"line 17 failed: RuntimeError: two lines"),
        ("leaves", "failed: SystemExit: 1"),
        ("1x", "names no function"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_line(my_file, name, said):
    with pytest.raises(NetworkError, match=said) as caught:
        build(f"{my_file}:{name}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [("def f(:\n", "line 1 cannot be imported: SyntaxError"), ("\nimport nowhere_at_all", "line 2.*ModuleNotFound")],
)
def test_a_file_that_cannot_be_imported_is_named_with_its_line(tmp_path, text, said):
    (tmp_path / "bad.py").write_text(text)
    before = {name for name in sys.modules if name.startswith("winze_file")}
    with pytest.raises(NetworkError, match=said):
        build(f"{tmp_path / 'bad.py'}:f")
    assert {name for name in sys.modules if name.startswith("winze_file")} <= before


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("", "no network was named"),
        ("resnet81", "did you mean resnet"),
        ("torchvision/resnet81", "did you mean resnet18"),
        ("winze/mpl8", "did you mean winze/mlp8"),
        ("winze/mlp", "unknown network"),
        ("winze/mlp0", "depth must be at least 1"),
        ("winze/mlp8x0.5", "a whole number of units"),
        ("winze/vg19", "did you mean winze/vgg19"),
        ("winze/vgg17", "depth of 11, 13, 16, 19, not 17"),
        ("winze/resnet", "did you mean winze/resnet"),
        ("winze/resnet50", "depth of 18, 20, 34, not 50"),
        ("winze/vgg19x0", "positive factor"),
        ("winze/", "a network is a timm name"),
        ("nowhere.py:make", "there is no such file"),
        ("nowhere.py", "names no function"),
        ("qqqqqqqqqqqqqq", "a network is a timm name"),
    ],
)
def test_an_unknown_network_is_answered_with_the_nearest_or_the_ways_to_name_one(spec, said):
    with pytest.raises(NetworkError, match=said) as caught:
        build(spec)
    assert "\n" not in str(caught.value)


def test_an_option_that_a_network_does_not_take_is_named():
    with pytest.raises(NetworkError, match=r"winze/mlp2 could not be built.*colour"):
        build("winze/mlp2", colour="red")


def test_most_of_our_own_networks_have_no_published_weights():
    with pytest.raises(NetworkError, match="no published weights"):
        build("winze/mlp8", pretrained=True)


@pytest.mark.parametrize("spec", ["resnet18", "torchvision/resnet18"])
def test_a_published_network_tells_its_input(spec):
    with torch.device("meta"):
        told = published(spec, build(spec, 10))
    assert told is not None
    assert (told.input_size, told.classes, told.fixed) == ((3, 224, 224), 1000, False)


@pytest.mark.parametrize("spec", ["vit_tiny_patch16_224", "torchvision/vit_b_16"])
def test_a_vision_transformer_takes_one_size_only(spec):
    with torch.device("meta"):
        told = published(spec, build(spec))
    assert told is not None
    assert told.fixed


def test_our_own_networks_are_not_published():
    assert published("winze/mlp2", MLP(4, 4, 2, 2)) is None


@pytest.mark.parametrize(
    ("spec", "head"),
    [("resnet18", "fc"), ("torchvision/vgg11", "classifier.6"), ("winze/mlp2x4", "output"), ("winze/vgg11", "output")],
)
def test_the_head_is_the_layer_that_gives_the_outputs(spec, head):
    with torch.device("meta"):
        assert head_of(build(spec)) == head


def test_a_network_is_built_again_from_its_description():
    first = build(describe("winze/resmlp3x8", 5, DecayedIdentity(0.2), inputs=12, norm="layer"))
    again = build(json.loads(json.dumps(describe("winze/resmlp3x8", 5, DecayedIdentity(0.2), inputs=12, norm="layer"))))
    again.load_state_dict(first.state_dict())
    x = torch.randn(2, 12)
    assert torch.equal(again(x), first(x))
    assert {junction.rule for junction in junctions(again)} == {DecayedIdentity(0.2)}


@pytest.mark.parametrize("rule", [{"name": "load"}, {"name": "Nothing"}, {"name": "DecayedIdentity", "beta": 1}])
def test_a_description_with_an_unknown_rule_is_refused(rule):
    with pytest.raises(NetworkError, match="rule"):
        build(describe("winze/resmlp3x8", 5, inputs=12) | {"rule": rule})
