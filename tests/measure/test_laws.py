"""Laws that whole families of measures share, and their agreement with float64."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from references import class_variance as ref_class_variance
from references import effective_rank as ref_effective_rank
from references import features, gram, hsic0, hsic1, labels, nc1
from references import numerical_rank as ref_numerical_rank
from references import participation_ratio as ref_participation_ratio
from torch import Tensor

from winze import measure

Y = labels()
OTHER = features(seed=7, d=30).double() + features(d=20)[:, :1].double()


def cka_reference(x: Tensor) -> float:
    k, l = gram(x), gram(OTHER)  # noqa: E741
    return hsic0(k, l) / math.sqrt(hsic0(k, k) * hsic0(l, l))


def unbiased_reference(x: Tensor) -> float:
    k, l = gram(x), gram(OTHER)  # noqa: E741
    return hsic1(k, l) / math.sqrt(hsic1(k, k) * hsic1(l, l))


def norm_reference(x: Tensor) -> float:
    return float(x.double().norm(dim=1).mean())


# each: how it is read, its float64 reference, and the power of a by which it grows when features are scaled by a
MEASURES: dict[str, tuple[Callable[[Tensor], float], Callable[[Tensor], float], int]] = {
    "numerical_rank": (measure.numerical_rank, ref_numerical_rank, 0),
    "effective_rank": (measure.effective_rank, ref_effective_rank, 0),
    "participation_ratio": (measure.participation_ratio, ref_participation_ratio, 0),
    "linear_cka": (lambda x: measure.linear_cka(x, OTHER), cka_reference, 0),
    "linear_cka_unbiased": (lambda x: measure.linear_cka(x, OTHER, unbiased=True), unbiased_reference, 0),
    "minibatch_cka_of_one_batch": (lambda x: measure.minibatch_cka(x, OTHER, batch=300), unbiased_reference, 0),
    "intra": (lambda x: measure.class_variance(x, Y).intra, lambda x: ref_class_variance(x, Y)[0], 2),
    "inter": (lambda x: measure.class_variance(x, Y).inter, lambda x: ref_class_variance(x, Y)[1], 2),
    "nc1": (lambda x: measure.neural_collapse(x, Y).nc1, lambda x: nc1(x, Y), 0),
    "sample_norm": (measure.sample_norm, norm_reference, 1),
    "frobenius_norm": (measure.frobenius_norm, lambda x: float(x.double().norm()), 1),
    "euclidean_distance": (
        lambda x: measure.euclidean_distance(x, torch.zeros_like(x)), norm_reference, 1,
    ),
}  # fmt: skip
REFERENCES: dict[str, tuple[Callable[[Tensor], float] | None, int, bool]] = {
    "numerical_rank": (ref_numerical_rank, 0, False),
    "effective_rank": (ref_effective_rank, 0, False),
    "participation_ratio": (ref_participation_ratio, 0, False),
    "intra_variance": (lambda x: ref_class_variance(x, Y)[0], 2, False),
    "inter_variance": (lambda x: ref_class_variance(x, Y)[1], 2, False),
    "nc1": (lambda x: nc1(x, Y), 0, False),
    "nc2_norm": (lambda x: measure.neural_collapse(x.double(), Y).nc2_norm, 0, False),
    "nc2_angle": (lambda x: measure.neural_collapse(x.double(), Y).nc2_angle, 0, False),
    "sample_norm": (norm_reference, 1, True),
    "frobenius_norm": (lambda x: float(x.double().norm()), 1, True),
}
"""Of every number that a registered measure gives at a place: its reference, power of a, and if it sees the mean."""


def registered(name: str, x: Tensor) -> measure.Value:
    """A number as a scan reads it: through its entry in the registry, from moments gathered in ragged batches."""
    entry = next(one for one in measure.MEASURES.values() for number in one.numbers if number.name == name)
    moments = measure.Moments(x.shape[1], 5)
    for rows, y in zip(x.split(64), Y.split(64), strict=True):
        moments.update(rows, y)
    if entry.needs == "samples":
        return entry.read(x, Y)[name]
    return entry.read(moments.spectrum() if entry.needs == "spectrum" else moments)[name]


def test_every_measure_that_is_registered_stands_under_these_laws() -> None:
    entries = [one for one in measure.MEASURES.values() if one.needs in ("moments", "classes", "spectrum", "samples")]
    last = set(measure.registry.last_layer_collapse(measure.LastLayer(None, None)))
    assert {number.name for one in entries for number in one.numbers} - last == REFERENCES.keys()


MEASURES |= {
    f"{name}, registered": (partial(registered, name), reference, power)
    for name, (reference, power, _) in REFERENCES.items()
}
PAIRED = {"linear_cka", "linear_cka_unbiased", "minibatch_cka_of_one_batch"}
LABELLED = {"intra", "inter", "nc1"} | {
    f"{number.name}, registered"
    for one in measure.MEASURES.values()
    for number in one.numbers
    if one.needs == "classes"
}
SEES_THE_MEAN = {"sample_norm", "frobenius_norm", "euclidean_distance"} | {
    f"{name}, registered" for name, (*_, sees) in REFERENCES.items() if sees
}


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("offset", [0, 10, 100])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_agrees_with_float64_on_the_same_features(name: str, offset: float, dtype: torch.dtype) -> None:
    read, reference, _ = MEASURES[name]
    x = features(offset=offset, dtype=dtype)
    assert read(x) == pytest.approx(reference(x), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", MEASURES)
def test_scaling_features_by_a_scales_the_measure_by_its_power_of_a(name: str) -> None:
    read, _, power = MEASURES[name]
    x = features(dtype=torch.float64)
    assert read(2.5 * x) == pytest.approx(2.5**power * read(x), rel=1e-9)


@pytest.mark.parametrize("name", MEASURES)
def test_an_orthogonal_map_of_features_changes_nothing(name: str) -> None:
    read = MEASURES[name][0]
    x = features(dtype=torch.float64)
    turn = torch.linalg.qr(torch.randn(20, 20, dtype=torch.float64))[0]
    assert read(x @ turn) == pytest.approx(read(x), rel=1e-8)


@pytest.mark.parametrize("name", sorted(MEASURES.keys() - SEES_THE_MEAN))
def test_moving_all_samples_together_changes_nothing(name: str) -> None:
    read = MEASURES[name][0]
    x = features(dtype=torch.float64)
    assert read(x + torch.linspace(-5, 5, 20)) == pytest.approx(read(x), rel=1e-8)


@pytest.mark.parametrize("name", sorted(MEASURES.keys() - PAIRED - LABELLED))
def test_the_order_of_samples_does_not_matter(name: str) -> None:
    read = MEASURES[name][0]
    x = features(dtype=torch.float64)
    assert read(x.flip(0)) == pytest.approx(read(x), rel=1e-10)


@pytest.mark.parametrize("name", sorted(MEASURES.keys() & (PAIRED | LABELLED)))
def test_shuffling_one_side_of_a_pair_does_matter(name: str) -> None:
    read = MEASURES[name][0]
    x = features(dtype=torch.float64) + Y[:, None]
    assert abs(read(x.flip(0)) - read(x)) > 1e-3 * abs(read(x))


@pytest.mark.parametrize("name", sorted(MEASURES.keys() - SEES_THE_MEAN))
@pytest.mark.parametrize("value", [0.0, 0.1, 1e4])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_constant_place_reads_nan_with_a_reason(name: str, value: float, dtype: torch.dtype) -> None:
    read = MEASURES[name][0](torch.full((300, 20), value, dtype=dtype))
    assert math.isnan(read)
    assert isinstance(read, measure.Value)
    assert "constant" in read.note


@pytest.mark.parametrize("name", sorted(MEASURES.keys() - SEES_THE_MEAN))
def test_a_place_that_varies_by_rounding_only_is_constant(name: str) -> None:
    x = torch.full((300, 20), 3.0)
    x[::2] = torch.nextafter(x[::2], torch.tensor(4.0))
    assert math.isnan(MEASURES[name][0](x))


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_nan_and_inf_are_never_read_as_a_number(name: str, value: float) -> None:
    x = features()
    x[3, 4] = x[8, 1] = value
    try:
        read = MEASURES[name][0](x)
    except ValueError as error:
        assert "2 of" in str(error)  # noqa: PT017 - CKA marks its reading instead
    else:
        assert math.isnan(read)
        assert "2 of 300" in read.note


@pytest.mark.parametrize("name", MEASURES)
def test_inference_mode_and_autocast_of_the_caller_do_not_reach_the_measure(name: str) -> None:
    read = MEASURES[name][0]
    x = features()
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        inside = read(x.clone())
    assert inside == read(x)
