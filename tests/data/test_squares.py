"""Class-coded squares: where they lie, what they tell, and who carries them."""

from math import sqrt

import pytest
import torch

from winze.data import DataError, Squares, with_squares
from winze.data.squares import PALETTE

BLANK = torch.full((20, 3, 8, 10), 0.3)
LABELS = torch.arange(20) % 10


def test_the_palette_has_ten_colours_that_are_far_apart():
    colours = torch.tensor(PALETTE)
    assert torch.pdist(colours).min() >= 0.5


def test_a_correlated_square_has_the_colour_of_its_class_and_nothing_else_changes():
    out = with_squares(BLANK, LABELS, Squares(3, at=(2, 1)))
    square = out[:, :, 2:5, 1:4]
    assert torch.equal(square, torch.tensor(PALETTE)[LABELS][:, :, None, None].expand_as(square))
    out[:, :, 2:5, 1:4] = 0.3
    assert torch.equal(out, BLANK)


def test_bytes_get_the_same_square_as_floats():
    bytes_ = with_squares(BLANK.mul(255).round().byte(), LABELS, Squares(3))
    assert bytes_.dtype == torch.uint8
    torch.testing.assert_close(bytes_.float() / 255, with_squares(BLANK, LABELS, Squares(3)), rtol=0, atol=0.003)


def test_grey_images_tell_the_class_by_its_level():
    out = with_squares(BLANK[:10, :1], LABELS[:10], Squares(1))
    torch.testing.assert_close(out[:, 0, 0, 0], torch.arange(10) / 9)


def test_a_square_that_tells_the_class_by_its_position_is_white_in_a_cell_of_its_own():
    out = with_squares(torch.zeros(10, 1, 8, 10), LABELS[:10], Squares(2, code="position"))
    assert (out.sum((1, 2, 3)) == 4).all()
    assert (out.sum(0) <= 1).all()
    assert out[7, 0, 2:4, 4:6].sum() == 4


def test_a_random_square_tells_nothing_of_the_class():
    labels = torch.arange(4000) % 2
    out = with_squares(torch.zeros(4000, 1, 2, 2), labels, Squares(1, kind="random", classes=4))
    drawn = (out[:, 0, 0, 0] * 3).round().long()
    for label in (0, 1):
        shares = torch.bincount(drawn[labels == label], minlength=4) / 2000
        assert (shares - 0.25).abs().max() < 4 * sqrt(0.25 * 0.75 / 2000)


def test_random_squares_follow_the_table():
    u = torch.tensor([[0.0], [0.35], [0.999]])
    out = Squares(1, kind="random")(BLANK[:3], u)
    assert torch.equal(out[:, :, 0, 0], torch.tensor(PALETTE)[[0, 3, 9]])


@pytest.mark.parametrize("ratio", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_the_ratio_is_the_share_of_samples_that_carry_the_pattern(ratio):
    chosen = Squares(ratio=ratio).carries(torch.arange(50_000))
    assert abs(chosen.float().mean() - ratio) <= 4 * sqrt(ratio * (1 - ratio) / 50_000)


def test_the_same_samples_carry_the_pattern_wherever_they_come_in_a_batch():
    squares = Squares(ratio=0.5)
    rows = torch.randperm(1000)
    assert torch.equal(squares.carries(rows), squares.carries(torch.arange(1000))[rows])


def test_another_seed_chooses_other_samples_independently():
    rows = torch.arange(20_000)
    one, other = Squares(ratio=0.5).carries(rows), Squares(ratio=0.5, seed=1).carries(rows)
    assert abs((one & other).float().mean() - 0.25) < 4 * sqrt(0.25 * 0.75 / 20_000)


def test_a_larger_ratio_keeps_the_samples_of_a_smaller_one():
    rows = torch.arange(1000)
    few, many = Squares(ratio=0.2).carries(rows), Squares(ratio=0.6).carries(rows)
    assert (many | ~few).all()
    assert many.sum() > few.sum()


def test_samples_outside_the_ratio_carry_nothing():
    squares = Squares(3, ratio=0.5)
    out, chosen = with_squares(BLANK, LABELS, squares), squares.carries(torch.arange(20))
    assert 0 < chosen.sum() < 20
    assert torch.equal((out != BLANK).flatten(1).any(1), chosen)


def test_or_they_carry_a_random_square():
    labels = torch.zeros(4000, dtype=torch.int64)
    squares = Squares(1, ratio=0.5, others="random")
    out = with_squares(torch.full((4000, 3, 2, 2), 0.3), labels, squares)
    red = (out[:, :, 0, 0] == torch.tensor(PALETTE[0])).all(1)
    chosen = squares.carries(torch.arange(4000))
    assert red[chosen].all()
    assert (out[:, :, 0, 0] != 0.3).any(1).all()
    assert abs(red[~chosen].float().mean() - 0.1) < 4 * sqrt(0.09 / 2000)


def test_painting_is_the_same_each_time_for_a_seed():
    one, again, other = (with_squares(BLANK, LABELS, Squares(2, "random", seed=seed)) for seed in (3, 3, 4))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Squares(0), "at least 1"),
        (lambda: Squares(at=(-1, 0)), "not negative"),
        (lambda: Squares(ratio=1.1), r"lies in \[0, 1\]"),
        (lambda: Squares()(BLANK, torch.rand(20, 1)), "needs labels="),
        (lambda: Squares(ratio=0.5)(BLANK, torch.rand(20, 1), LABELS), "needs rows="),
        (lambda: with_squares(BLANK, LABELS, Squares(3, at=(6, 0))), r"reach beyond images of 8 x 10"),
        (lambda: with_squares(BLANK, LABELS, Squares(4, code="position")), "do not fit 8 x 10, 4 do"),
        (lambda: with_squares(BLANK, LABELS, Squares(classes=11)), "use code='position'"),
        (lambda: with_squares(BLANK, LABELS, Squares(classes=9)), "labels run from 0 to 9"),
    ],
)
def test_squares_that_cannot_be_are_refused(make, says):
    with pytest.raises(DataError, match=says):
        make()
