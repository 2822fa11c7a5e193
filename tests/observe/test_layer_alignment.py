"""Alignment of layers with their inputs, and the follower that reads it while a network trains."""

import pytest
import torch

from winze.lab.layers import weight_layers
from winze.measure.alignment import stored_layers
from winze.networks import build
from winze.observe.layer_alignment import AlignmentWatch, layer_alignment


def rows(watch: AlignmentWatch, measure: str, step: int) -> list[float]:
    return [row.value for row in watch.readings.rows if row.measure == measure and row.step == step]


def test_a_layer_that_reads_what_it_is_fed_is_aligned():
    torch.manual_seed(0)
    net = build("winze/mlp3x20", 4, inputs=20)
    samples = torch.randn(200, 20)
    fed = net.layers[0](samples).detach()
    with torch.no_grad():
        net.layers[1][0].weight.copy_(torch.diag(torch.arange(20, 0, -1.0)) @ torch.linalg.svd(fed)[2])
    watch = AlignmentWatch(net, weight_layers(net), samples, every=10, at=(5,), top=5)
    watch.after_step(net, 5)
    read, _ = rows(watch, "alignment", 5)
    assert read > 0.99
    assert watch.readings.arrays["alignment/5"][0].diagonal().min() > 250
    watch.after_step(net, 6)
    assert not rows(watch, "logits_norm", 6)
    assert len(rows(watch, "logits_norm", 0)) == 1, "fresh weights are read too"


def test_convolutions_read_channels_over_all_positions():
    torch.manual_seed(0)
    net = build("winze/resnet20x0.5", 4)
    samples = torch.randn(3, 3, 8, 8)
    watch = AlignmentWatch(net.train(), weight_layers(net), samples, every=1, top=4)
    assert net.training
    assert len(rows(watch, "alignment", 0)) == 18
    conv = net.stages[0][0].branch.conv1.weight.detach().double()
    weights = torch.cat([conv[:, :, i, j] for i in range(3) for j in range(3)])
    x = net.eval().stem(samples).detach().movedim(1, -1).flatten(0, 2).double()
    expected = (torch.linalg.svd(weights)[2][:4] @ torch.linalg.svd(x, full_matrices=False)[2][:4].T).abs()
    assert rows(watch, "alignment", 0)[0] == pytest.approx(float(expected.diagonal().mean()), abs=1e-4)


def test_hooks_are_removed_even_where_the_network_raises():
    net = build("winze/mlp3x8", 2, inputs=4)
    with pytest.raises(RuntimeError):
        layer_alignment(net, weight_layers(net), torch.randn(5, 3))
    assert not any(layer._forward_pre_hooks for layer in weight_layers(net))


def test_a_watch_resumes_with_what_it_has_read():
    torch.manual_seed(0)
    net, samples = build("winze/mlp3x20", 4, inputs=20), torch.randn(40, 20)
    first = AlignmentWatch(net, weight_layers(net), samples, every=1, at=(0, 1), top=3)
    first.after_step(net, 1)
    second = AlignmentWatch(net, weight_layers(net), samples, every=1, at=(0, 1), top=3)
    second.load_state_dict(first.state_dict())
    assert second.readings.rows == first.readings.rows
    assert (second.readings.arrays["alignment/1"] == first.readings.arrays["alignment/1"]).all()


def test_a_network_whose_layers_are_not_its_places_is_refused():
    net = build("winze/mlp3x8", 2, inputs=4)
    with pytest.raises(ValueError, match="not one for each of 2 layers"):
        AlignmentWatch(net, weight_layers(net)[:2], torch.randn(5, 4), every=1)


@pytest.mark.parametrize(("last", "stored"), [(7, [1, 3, 5, 7]), (2, [1, 2]), (18, [1, 7, 12, 18])])
def test_four_matrices_are_stored_from_the_second_to_the_last_hidden_layer(last, stored):
    assert stored_layers(last) == stored
