"""Samples taken out of a stream and added back: values and gradients are those of plain indexing, on every device."""

import copy

import pytest
import torch
from timm.models.convnext import ConvNeXt
from timm.models.mlp_mixer import MlpMixer
from timm.models.swin_transformer import SwinTransformer
from timm.models.vision_transformer import VisionTransformer
from torch import nn

import winze
from winze.shape.branch import Branch
from winze.shape.rowwise.gather import add, fork, parted, take
from winze.shape.rowwise.gradients import without_graph
from winze.shape.rules.masks import granule, ordered

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
SHAPES = {"tokens": (12, 5, 8), "images": (12, 4, 6, 6), "windows": (36, 5, 8)}
TOLERANCE = {torch.float64: 1e-14, torch.float32: 1e-6, torch.bfloat16: 2e-2}


def rows_of(keep, step=1, device="cpu"):
    order, where, kept = ordered(torch.as_tensor(keep)[None])
    return parted(order[0].to(device), where[0].to(device), kept[0], step)


KEEP = [True, True, False, True, True, False, True, False, True, True, True, True]


def test_kept_come_first_and_each_part_is_run_in_multiples():
    kept, dropped = rows_of(KEEP, 4)
    assert (len(kept), len(dropped)) == (9, 3)
    assert kept.index.tolist() == [0, 1, 3, 4, 6, 8, 9, 10, 11, 2, 5, 7]
    assert dropped.index.tolist() == [11, 2, 5, 7]
    assert [len(one) for one in rows_of([True] * 12, 4)] == [12, 0]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("step", [1, 4, 8])
@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
def test_a_sum_on_rows_is_the_masked_sum(kind, step, dtype, device, memory):
    shape = SHAPES[kind]
    if memory is torch.channels_last and len(shape) < 4:
        pytest.skip("only images have channels")
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.float32, device=device).to(dtype).to(memory_format=memory)
    weight = torch.linspace(0.5, 2, shape[-1], dtype=dtype, device=device)
    kept, dropped = rows_of(KEEP, step, device)
    mask = (
        torch.tensor(KEEP, device=device).repeat_interleave(shape[0] // 12).view(-1, *(1,) * (len(shape) - 1)).to(dtype)
    )

    def masked(x, weight):
        f = (x * weight).tanh()
        return x + 1.5 * mask * f + 1.5 * (1 - mask) * f.detach()

    def on_rows(x, weight):
        stream, part = fork(x, kept)
        with torch.no_grad():
            still = (take(x, dropped) * weight).tanh()
        return add(stream, ((part * weight).tanh(), kept), (still, dropped), factor=1.5)

    results = []
    for work in (masked, on_rows):
        leaves = [x.clone().requires_grad_(), weight.clone().requires_grad_()]
        y = work(*leaves)
        pull = torch.linspace(-1, 1, y.numel(), dtype=dtype, device=device).view_as(y)
        results.append((y.detach(), *torch.autograd.grad(y, leaves, pull)))
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(results[1], results[0], rtol=tolerance, atol=30 * tolerance)


@pytest.mark.parametrize("device", DEVICES)
def test_a_narrow_value_is_added_to_a_wide_stream(device):
    x = torch.randn(12, 7, device=device, requires_grad=True)
    kept, _ = rows_of(KEEP, 4, device)
    value = take(x, kept).to(torch.bfloat16)
    y = add(x, (value, kept))
    assert y.dtype == torch.float32
    expected = x.detach().clone()
    expected[torch.tensor(KEEP, device=device)] += (
        x.detach().to(torch.bfloat16).float()[torch.tensor(KEEP, device=device)]
    )
    torch.testing.assert_close(y.detach(), expected, rtol=0, atol=0)
    y.sum().backward()
    torch.testing.assert_close(x.grad, 1 + torch.tensor(KEEP, device=device).float()[:, None].expand(12, 7))


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_and_their_gradients_are_right_where_both_parts_are_padded(device):
    kept, dropped = rows_of(KEEP, 4, device)

    def work(x):
        stream, a, b = fork(x, kept, dropped)
        return add(stream, (a**3, kept), (b.sin(), dropped), factor=0.7)

    x = torch.randn(12, 3, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(work, (x,))
    assert torch.autograd.gradgradcheck(work, (x,))


FOREIGN = {
    "ViT": lambda: VisionTransformer(16, 8, embed_dim=24, depth=2, num_heads=2, num_classes=5),
    "ConvNeXt": lambda: ConvNeXt(depths=(1, 1, 1, 1), dims=(8, 8, 16, 16), num_classes=5),
    "Swin": lambda: SwinTransformer(
        32, window_size=4, embed_dim=12, depths=(2, 2), num_heads=(2, 2), num_classes=5, drop_path_rate=0
    ),
    "Mixer": lambda: MlpMixer(img_size=16, patch_size=8, embed_dim=16, num_blocks=2, num_classes=5),
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("frozen", ["output", "weights"])
def test_padded_rows_of_foreign_networks_have_the_dense_gradients(name, frozen):
    """72 samples are run in twos, and some junction drops an odd number of them."""
    torch.manual_seed(0)
    net, size = FOREIGN[name]().double().train(), 16 if name in ("ViT", "Mixer") else 32
    images, labels = torch.randn(72, 3, size, size, dtype=torch.float64), torch.randint(5, (72,))
    assert granule(len(images)) == 2
    gradients = {}
    for compute in ("dense", "rows"):
        tried = copy.deepcopy(net)
        rule = winze.ResidualDropPath(0.3, profile="constant", frozen=frozen, compute=compute)
        alternate = winze.Alternation(winze.rewire(tried, rule, example=images[:2]), rows=len(images))
        assert (alternate.state_dict()["table"].sum(1) % 2).any()
        found = []
        for _ in range(2):
            loss = nn.functional.cross_entropy(tried(images), labels)
            found.append((loss.detach(), *torch.autograd.grad(loss, list(tried.parameters()), materialize_grads=True)))
            alternate.step()
        gradients[compute] = found
    torch.testing.assert_close(gradients["rows"], gradients["dense"], rtol=1e-12, atol=1e-12)


def test_weights_learn_though_autocast_cast_them_without_a_graph_before():
    """The same weights serve two junctions: kept whole at the first, dropped at the second."""
    torch.manual_seed(0)
    shared = nn.Linear(4, 4)
    net = nn.Sequential(winze.Junction(shared), winze.Junction(shared))
    winze.rewire(net, winze.ResidualDropPath(0.5, profile="constant", compute="rows"))
    alternate = winze.Alternation(net, rows=6)
    alternate.step()
    state = alternate.state_dict()
    state["table"] = torch.tensor([[True] * 6, [False] * 6])
    alternate.load_state_dict(state)
    with torch.autocast("cpu", torch.bfloat16):
        y = net(torch.randn(6, 4))
    y.float().square().sum().backward()
    assert shared.weight.grad.abs().sum() > 0


def test_without_a_graph_autocast_keeps_nothing_and_then_keeps_again():
    def look():
        with without_graph():
            raise KeyError((torch.is_grad_enabled(), torch.is_autocast_cache_enabled()))

    with torch.autocast("cpu", torch.bfloat16):
        with pytest.raises(KeyError, match=r"\(False, False\)"):
            look()
        assert torch.is_autocast_cache_enabled()


@pytest.mark.parametrize("draw", ["bernoulli", "count"])
def test_drop_path_on_rows_draws_what_the_dense_form_draws(draw):
    torch.manual_seed(0)
    net = nn.Sequential(*(winze.Junction(nn.Linear(4, 4)) for _ in range(3))).double()
    x, results = torch.randn(64, 4, dtype=torch.float64), {}
    for compute in ("dense", "rows"):
        winze.rewire(net, winze.DropPath(0.4, draw=draw, compute=compute))
        torch.manual_seed(1)
        results[compute] = net(x)
    torch.testing.assert_close(results["rows"], results["dense"], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("on_gpu", "apart"), [(False, True), (True, False)])
def test_auto_runs_rows_where_they_pay(monkeypatch, on_gpu, apart):
    """This stream is large enough for a CPU; a GPU would wait for Python."""
    monkeypatch.setattr(Branch, "on_gpu", on_gpu)
    seen = []

    class Counting(nn.Linear):
        def forward(self, x):
            seen.append(len(x))
            return super().forward(x)

    net = nn.Sequential(winze.Junction(nn.Sequential(Counting(4096, 8), nn.Linear(8, 4096))))
    winze.rewire(net, winze.DropPath(0.5, profile="constant"))
    seen.clear()  # of what rewire tried
    net(torch.randn(64, 4096))
    assert (seen[0] < 64) == apart


def test_frozen_weights_under_a_per_batch_mask_take_one_run_of_a_branch():
    runs = []

    class Counting(nn.Linear):
        def forward(self, x):
            runs.append(len(x))
            return super().forward(x)

    net = nn.Sequential(winze.Junction(Counting(4, 4)), winze.Junction(Counting(4, 4)))
    rule = winze.ResidualDropPath(0.5, profile="constant", frozen="weights", mask="batch", compute="dense")
    alternate = winze.Alternation(winze.rewire(net, rule), rows=6)
    alternate.step()
    runs.clear()
    net(torch.randn(6, 4)).sum().backward()
    assert runs == [6, 6]


@pytest.mark.parametrize(("size", "channels"), [(16, 1), (8, 2)])
def test_the_input_of_a_transformer_for_small_images_is_worked_out(size, channels):
    net = VisionTransformer(size, 4, channels, embed_dim=8, depth=1, num_heads=1, num_classes=3)
    assert len(winze.junctions(net)) == 2


@pytest.mark.parametrize("compute", ["dense", "rows"])
def test_a_branch_of_another_shape_is_told_in_words(compute):
    net = nn.Sequential(winze.Junction(nn.Linear(4, 1)))  # it would broadcast
    net[0].rule = winze.DropPath(0.5, profile="constant", compute=compute)
    with pytest.raises(ValueError, match="put a projection on the shortcut"):
        net(torch.randn(64, 4))


def test_auto_stays_dense_under_vmap():
    net = nn.Sequential(winze.Junction(nn.Sequential(nn.Linear(4096, 2), nn.Linear(2, 4096))))
    winze.rewire(net, winze.DropPath(0.5, profile="constant"))
    stacked = {name: torch.stack([p, 2 * p]) for name, p in net.named_parameters()}
    x = torch.randn(32, 4096)
    run = torch.func.vmap(lambda weights: torch.func.functional_call(net, weights, x), randomness="same")
    doubled = run(stacked)
    assert doubled.shape == (2, 32, 4096)
    assert ((doubled[0] == x).all(1) == (doubled[1] == x).all(1)).all()


@pytest.mark.parametrize("rule", [winze.ResidualDropPath(0.5, mask=mask) for mask in ("sample", "batch")], ids=str)
@pytest.mark.parametrize(("name", "axis"), [("XLNet", 1), ("MobileBert", 0)])
def test_streams_in_tuples_and_sequence_first_streams_of_batch_first_inputs_take_masks(name, axis, rule):
    import transformers

    sizes = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    xlnet = {"vocab_size": 64, "d_model": 32, "n_layer": 1, "n_head": 2, "d_inner": 32}
    width = {"intermediate_size": 32, "intra_bottleneck_size": 32, "embedding_size": 32, "true_hidden_size": 32}
    config = getattr(transformers, f"{name}Config")(**(xlnet if name == "XLNet" else {**sizes, **width}))
    net = getattr(transformers, f"{name}Model")(config)
    given = {"input_ids": torch.arange(24).view(3, 8)}
    winze.rewire(net, rule, example=given).train()
    alternate = winze.Alternation(net)
    for _ in range(2):
        net(**given).last_hidden_state.sum().backward()
        alternate.step()
    if rule.mask == "sample":
        assert {(junction.axis, junction.scale) for junction in winze.shape.find.wired(net)} == {(axis, 1)}
