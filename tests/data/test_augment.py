"""Augmentation: what moves is exact, what computes agrees with torchvision, and nothing is decided on the host."""

from math import erf, log, sqrt

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as theirs

from winze.data import (
    Augment,
    Augmentation,
    ColourJitter,
    DataError,
    Flip,
    Noise,
    PadCrop,
    Preprocess,
    RandomResizedCrop,
    Squares,
)

ALL = [
    PadCrop(4),
    PadCrop(3, mode="reflect"),
    Flip(),
    RandomResizedCrop(),
    ColourJitter(),
    Noise(0.1),
    Squares(2),
    Squares(2, code="position", ratio=0.5, others="random"),
    Augment((PadCrop(4), Flip(), RandomResizedCrop(), ColourJitter(), Noise(0.1), Squares(2, kind="random"))),
]
every = pytest.mark.parametrize("augmentation", ALL, ids=str)
LAST = 1 - 2**-24  # the largest number that torch.rand gives


def random_images(n=6, c=3, h=12, w=10, seed=0):
    return torch.rand((n, c, h, w), generator=torch.Generator().manual_seed(seed))


def codes(n):
    return {"labels": torch.arange(n) % 10, "rows": torch.arange(n)}


def table(augmentation: Augmentation, images, seed=1):
    draws = augmentation.draws(tuple(images.shape[1:]))
    return torch.rand((len(images), draws), generator=torch.Generator().manual_seed(seed)).to(images.device)


class Refuse(TorchDispatchMode):
    """Raise at whatever a captured CUDA graph cannot hold: reading a value, copying from the host, unknown sizes."""

    forbidden = (
        torch.ops.aten._local_scalar_dense,
        torch.ops.aten.lift_fresh,
        torch.ops.aten.nonzero,
        torch.ops.aten.masked_select,
        torch.ops.aten.equal,
    )

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func.overloadpacket not in self.forbidden, func
        return func(*args, **(kwargs or {}))


@every
def test_the_table_decides_everything(augmentation):
    images = random_images()
    u, told = table(augmentation, images), codes(6)
    first = augmentation(images, u, **told)
    torch.manual_seed(5)
    assert torch.equal(augmentation(images, u, **told), first)
    assert not torch.equal(first, images)


@every
def test_images_are_changed_one_by_one(augmentation):
    images = random_images()
    u, told = table(augmentation, images), codes(6)
    whole = augmentation(images, u, **told)
    part = augmentation(images[2:4], u[2:4], **{key: value[2:4] for key, value in told.items()})
    torch.testing.assert_close(part, whole[2:4], rtol=0, atol=1e-6)


@every
def test_the_given_images_are_left_alone(augmentation):
    images = random_images()
    before = images.clone()
    augmentation(images, table(augmentation, images), **codes(6))
    assert torch.equal(images, before)


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8])
@pytest.mark.parametrize("channels", [1, 3])
def test_grey_and_colour_in_every_precision_keep_their_shape(augmentation, dtype, channels):
    images = (random_images(c=channels) * (255 if dtype == torch.uint8 else 1)).to(dtype)
    out = augmentation(images, table(augmentation, images), **codes(6))
    assert out.shape == images.shape
    assert out.dtype == dtype or (dtype == torch.uint8 and out.dtype == torch.float32)


@every
def test_nothing_in_it_is_decided_on_the_host(augmentation):
    images = random_images()
    u, told = table(augmentation, images), codes(6)
    augmentation(images, u, **told)
    with Refuse():
        augmentation(images, u, **told)


def test_preprocessing_decides_nothing_on_the_host_either():
    for preprocess in (Preprocess((8, 8), (0.5,) * 3, (0.2,) * 3), Preprocess(None, (0.5,), (0.2,), channels=1)):
        images = random_images().mul(255).byte()
        preprocess(images)
        with Refuse():
            preprocess(images)


def test_what_may_not_be_captured_is_refused_by_that_test():
    with pytest.raises(AssertionError), Refuse():
        torch.tensor([1.0, 2.0])
    with pytest.raises(AssertionError), Refuse():
        torch.ones(2)[0].item()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@every
def test_a_captured_graph_gives_what_the_plain_call_gives(augmentation):
    images = random_images().cuda()
    u, told = table(augmentation, images), {key: value.cuda() for key, value in codes(6).items()}
    preprocess = Preprocess(None, (0.5,) * 3, (0.2,) * 3)
    plain = preprocess(augmentation(images, u, **told))
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        captured = preprocess(augmentation(images, u, **told))
    other = table(augmentation, images, seed=2)
    kept = u.clone()
    u.copy_(other)
    graph.replay()
    changed = captured.clone()
    u.copy_(kept)
    graph.replay()
    assert torch.equal(captured, plain)
    assert torch.equal(changed, preprocess(augmentation(images, other, **told)))


@every
@pytest.mark.parametrize("extreme", [0.0, LAST])
def test_the_ends_of_the_uniform_numbers_give_finite_images(augmentation, extreme):
    images = random_images()
    u = torch.full_like(table(augmentation, images), extreme)
    assert augmentation(images, u, **codes(6)).isfinite().all()


@pytest.mark.parametrize("mode", ["constant", "reflect"])
def test_a_shift_is_the_slice_of_the_padded_image(mode):
    pad, images = 2, random_images(25)
    shifts = torch.cartesian_prod(torch.arange(5), torch.arange(5))
    out = PadCrop(pad, mode)(images, (shifts + 0.5) / 5)
    padded = torch.nn.functional.pad(images, (pad,) * 4, mode=mode)
    for row, (down, across) in enumerate(shifts.tolist()):
        assert torch.equal(out[row], padded[row, :, down : down + 12, across : across + 10])


def test_shifts_further_than_the_image_are_black():
    assert (PadCrop(20)(random_images(), torch.zeros(6, 2)) == 0).all()


def test_every_shift_is_as_likely_as_the_others():
    images = torch.zeros(9000, 1, 9, 9)
    images[:, 0, 4, 4] = 1
    out = PadCrop(1)(images, torch.rand(9000, 2))
    counts = out.sum((0, 1))[3:6, 3:6]
    assert counts.sum() == 9000
    assert (counts - 1000).abs().max() < 5 * sqrt(1000)


def test_the_largest_uniform_number_still_is_the_last_shift():
    images = torch.zeros(1, 1, 400, 3)
    images[0, 0, 399] = 1
    out = PadCrop(112)(images, torch.tensor([[LAST, 0.5]]))
    assert out[0, 0, 399 - 112, 1] == 1


def test_a_flip_mirrors_the_columns_of_its_share():
    images, u = random_images(4000, 1, 2, 3), torch.rand(4000, 1)
    out = Flip(0.3)(images, u)
    flipped = (out == images.flip(3)).flatten(1).all(1)
    assert torch.equal(flipped, u[:, 0] < 0.3)
    assert torch.equal(out[~flipped], images[~flipped])


@pytest.mark.parametrize("shape", [(32, 32), (24, 40), (9, 64)])
def test_a_resized_crop_agrees_with_torchvision_for_its_rectangle(shape):
    images, crop = random_images(40, 3, *shape), RandomResizedCrop()
    u = table(crop, images)
    out = crop(images, u)
    for row, (top, left, height, width) in enumerate(crop.boxes(u, *shape).int().tolist()):
        expected = theirs.resized_crop(images[row], top, left, height, width, list(shape), antialias=True)
        torch.testing.assert_close(out[row], expected, rtol=0, atol=2e-5)


def test_the_rectangles_have_torchvisions_distribution():
    torch.manual_seed(3)
    crop, transform = RandomResizedCrop(), v2.RandomResizedCrop(32)
    ours = crop.boxes(torch.rand(4000, crop.draws((3, 32, 32))), 32, 32)
    image = torch.zeros(3, 32, 32)
    drawn = [transform.make_params([image]) for _ in range(4000)]
    other = torch.tensor([[float(box[key]) for key in ("top", "left", "height", "width")] for box in drawn])
    quantiles = torch.linspace(0.05, 0.95, 10)
    for column in range(4):
        difference = ours[:, column].quantile(quantiles) - other[:, column].quantile(quantiles)
        assert difference.abs().max() <= 1
    areas = [(box[:, 2] * box[:, 3]).mean() for box in (ours, other)]
    assert abs(areas[0] - areas[1]) < 20  # four standard errors of the difference
    assert (ours[:, 0] + ours[:, 2]).max() <= 32
    assert (ours[:, 1] + ours[:, 3]).max() <= 32


@pytest.mark.parametrize("shape", [(8, 32), (32, 8), (9, 9)])
def test_where_no_rectangle_fits_the_largest_central_one_is_taken(shape):
    crop, transform = RandomResizedCrop(scale=(50, 60)), v2.RandomResizedCrop(32, scale=(50, 60))
    box = transform.make_params([torch.zeros(3, *shape)])
    boxes = crop.boxes(torch.rand(3, crop.draws((3, *shape))), *shape)
    assert boxes.tolist() == [[float(box[key]) for key in ("top", "left", "height", "width")]] * 3


def test_a_crop_of_everything_changes_nothing():
    images = random_images()
    out = RandomResizedCrop((1, 1), (10 / 12, 10 / 12))(images, torch.rand(6, 22))
    torch.testing.assert_close(out, images, rtol=0, atol=1e-5)


def test_colours_agree_with_torchvision_for_their_factors():
    images, u = random_images(20), torch.rand(20, 3)
    out = ColourJitter(0.4, 0.3, 2.0)(images, u)
    low, high = torch.tensor([0.6, 0.7, 0.0]), torch.tensor([1.4, 1.3, 3.0])
    for row, (b, k, s) in enumerate((low + (high - low) * u).tolist()):
        expected = theirs.adjust_contrast(theirs.adjust_brightness(images[row], b), k)
        expected = theirs.adjust_saturation(expected, s)
        torch.testing.assert_close(out[row], expected, rtol=0, atol=1e-3)  # torchvision rounds the luma weights


def test_no_jitter_is_no_change():
    images = random_images()
    torch.testing.assert_close(ColourJitter(0, 0, 0)(images, torch.rand(6, 3)), images, rtol=0, atol=1e-6)


def test_noise_is_gaussian():
    images = torch.full((200, 1, 20, 20), 0.5)
    z = ((Noise(0.2)(images, torch.rand(200, 400)) - 0.5) / 0.2).flatten()
    assert abs(z.mean()) < 4 / sqrt(80_000)
    assert abs(z.std() - 1) < 4 / sqrt(160_000)
    for point in (-2.0, -1.0, 0.5, 1.5):
        expected = (1 + erf(point / sqrt(2))) / 2
        assert abs((z < point).float().mean() - expected) < 4 * sqrt(expected * (1 - expected) / 80_000)


def test_a_chain_gives_each_augmentation_its_own_columns():
    images = random_images()
    chain = Augment((PadCrop(2), Flip()))
    u = table(chain, images)
    assert chain.draws((3, 12, 10)) == 3
    assert torch.equal(chain(images, u), Flip()(PadCrop(2)(images, u[:, :2]), u[:, 2:]))


def test_an_empty_chain_changes_nothing():
    images = random_images()
    assert Augment(()).draws((3, 12, 10)) == 0
    assert torch.equal(Augment(())(images, torch.rand(6, 0)), images)


def test_moving_bytes_and_moving_floats_is_the_same():
    images = random_images().mul(255).byte()
    chain, preprocess = Augment((PadCrop(4), Flip())), Preprocess(None, (0.5,) * 3, (0.2,) * 3)
    u = table(chain, images)
    assert torch.equal(preprocess(chain(images, u)), preprocess(chain(images.float() / 255, u)))


def test_a_batch_of_another_precision_is_preprocessed_to_float32():
    out = Preprocess(None, (0.5,) * 3, (0.2,) * 3)(random_images().bfloat16())
    assert out.dtype == torch.float32


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: PadCrop(-1), "pad >= 0"),
        (lambda: PadCrop(2, mode="reflect")(random_images(h=2), torch.rand(6, 2)), "cannot be mirrored"),
        (lambda: Flip(1.5), r"lies in \[0, 1\]"),
        (lambda: RandomResizedCrop(scale=(0.0, 1.0)), "scale is a range"),
        (lambda: RandomResizedCrop(ratio=(2.0, 1.0)), "ratio is a range"),
        (lambda: ColourJitter(-0.1), "at least 0"),
        (lambda: Noise(-1.0), "at least 0"),
        (lambda: Flip()(random_images(), torch.rand(6, 2)), r"Flip needs uniform numbers \[6, 1\], got \[6, 2\]"),
        (lambda: Flip()(random_images(), torch.rand(5, 1)), r"Flip needs uniform numbers \[6, 1\], got \[5, 1\]"),
        (lambda: Flip()(torch.rand(6, 4), torch.rand(6, 1)), "Flip takes images"),
    ],
)
def test_what_cannot_be_done_is_refused(make, says):
    with pytest.raises(DataError, match=says):
        make()


def test_ratios_are_drawn_evenly_on_a_logarithmic_scale():
    crop = RandomResizedCrop(scale=(0.25, 0.25))
    boxes = crop.boxes(torch.rand(4000, 22), 400, 400)
    logs = (boxes[:, 3] / boxes[:, 2]).log() / log(4 / 3)
    assert abs(logs.mean()) < 4 * sqrt(1 / 3 / 4000)
    assert abs((logs.abs() < 0.5).float().mean() - 0.5) < 4 * sqrt(0.25 / 4000)
