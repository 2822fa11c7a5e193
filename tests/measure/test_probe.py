"""Probes: ridge against scikit-learn, Adam against its protocol."""

import numpy as np
import pytest
import torch
from references import features, labels
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from winze.measure import Moments, Probe, adam_probes, ridge, ridge_probe


def task(n: int = 400, d: int = 20, offset: float = 0.0, classes: int = 4) -> tuple[Tensor, Tensor]:
    x = features(n, d, dtype=torch.float64)
    read = torch.randn(d, classes, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    y = (x @ read + 0.5 * torch.randn(n, classes, generator=torch.Generator().manual_seed(5))).argmax(1)
    return (x + offset * x.std(0)).float(), y


def sklearn_scores(x: Tensor, y: Tensor, penalty: float, new: Tensor, classes: int = 4) -> np.ndarray:
    scaler = StandardScaler().fit(x.double().numpy())
    model = SklearnRidge(alpha=penalty * len(x)).fit(scaler.transform(x.double().numpy()), np.eye(classes)[y.numpy()])
    return model.predict(scaler.transform(new.double().numpy()))


@pytest.mark.parametrize("penalty", [1e-6, 1e-2, 10.0])
@pytest.mark.parametrize("offset", [0, 100])
@pytest.mark.parametrize("n", [300, 12])
def test_ridge_agrees_with_scikit_learn(penalty: float, offset: float, n: int) -> None:
    x, y = task(offset=offset)
    probe = ridge_probe(x[:n], y[:n], 4, [penalty])
    want = sklearn_scores(x[:n], y[:n], penalty, x[300:])
    np.testing.assert_allclose(probe.scores(x[300:]).numpy(), want, atol=1e-6)


def test_the_penalty_has_the_least_squared_error_on_the_held_out_samples() -> None:
    x, y = task(120, 60)
    penalties = (1e-4, 1e-2, 1.0, 100.0)
    out = torch.arange(120) % 10 == 9
    probe = ridge_probe(x, y, 4, penalties)
    onehot = np.eye(4)[y[out].numpy()]
    want = [((sklearn_scores(x[~out], y[~out], p, x[out]) - onehot) ** 2).sum(1).mean() for p in penalties]
    np.testing.assert_allclose(probe.errors, want, rtol=1e-6)
    assert probe.penalty == penalties[int(np.argmin(want))]


def test_the_probe_is_fitted_again_on_all_samples() -> None:
    x, y = task()
    probe = ridge_probe(x, y, 4)
    np.testing.assert_allclose(probe.scores(x).numpy(), sklearn_scores(x, y, probe.penalty, x), atol=1e-6)


def test_moments_of_batches_give_the_probe_of_the_whole() -> None:
    x, y = task()
    train, held = Moments(20, 4), Moments(20, 4)
    for i in range(0, 400, 37):
        out = torch.arange(i, min(i + 37, 400)) % 10 == 9
        train.update(x[i : i + 37][~out], y[i : i + 37][~out])
        held.update(x[i : i + 37][out], y[i : i + 37][out])
    probe, want = ridge(train, held), ridge_probe(x, y)
    assert probe.penalty == want.penalty
    torch.testing.assert_close(probe.weight, want.weight, rtol=1e-8, atol=1e-10)
    assert train.n == 360


def test_dead_features_get_no_weight_and_disturb_no_other() -> None:
    x, y = task()
    dead = torch.cat([x, torch.zeros(400, 1), torch.full((400, 1), 0.1)], 1)
    probe = ridge_probe(dead, y)
    assert probe.weight[:, 20:].abs().max() == 0
    torch.testing.assert_close(probe.weight[:, :20], ridge_probe(x, y).weight)


def test_a_constant_place_predicts_the_commonest_class_and_says_so() -> None:
    y = torch.tensor([0, 1, 1, 1, 2] * 8)
    probe = ridge_probe(torch.full((40, 3), 0.7), y)
    assert probe.predict(torch.full((5, 3), 0.7)).tolist() == [1] * 5
    assert "constant" in probe.note


def test_classes_without_samples_are_never_predicted() -> None:
    x, y = task()
    assert set(ridge_probe(x, y, classes=9).predict(3 * x).tolist()) <= {0, 1, 2, 3}


def test_fewer_samples_than_classes_and_far_more_features_than_samples_still_fit() -> None:
    x, y = features(6, 200), torch.tensor([0, 7, 3, 8, 5, 1])
    assert ridge_probe(x, y, 10, [1e-6]).predict(x).tolist() == y.tolist()


def test_a_probe_of_the_digits_reads_them_as_scikit_learn_does() -> None:
    digits = load_digits()
    x, y = torch.tensor(digits.data, dtype=torch.float32), torch.tensor(digits.target)
    probe = ridge_probe(x[:1200], y[:1200])
    want = sklearn_scores(x[:1200], y[:1200], probe.penalty, x[1200:], 10).argmax(1)
    assert probe.predict(x[1200:]).tolist() == want.tolist()
    assert float(probe.correct(x[1200:], y[1200:]).double().mean()) > 0.85


@pytest.mark.parametrize(
    ("n", "penalties", "why"),
    [(400, [0.0], "penalties above 0"), (400, [], "penalties above 0"), (5, [1.0, 2.0], "no held-out samples")],
)
def test_a_penalty_that_cannot_be_chosen_is_named(n: int, penalties: list[float], why: str) -> None:
    x, y = task()
    with pytest.raises(ValueError, match=why):
        ridge_probe(x[:n], y[:n], 4, penalties)


def test_one_class_cannot_be_probed() -> None:
    with pytest.raises(ValueError, match="at least 2 classes, got 1"):
        ridge_probe(features(), torch.zeros(300, dtype=torch.long))


def by_hand(x: Tensor, y: Tensor, classes: int, epochs: int) -> torch.nn.Linear:
    """The protocol as a plain loop, from the same start and order."""
    layer = torch.nn.Linear(x.shape[1], classes)
    start, reach = torch.Generator().manual_seed(0), x.shape[1] ** -0.5
    with torch.no_grad():
        layer.weight.uniform_(-reach, reach, generator=start)
        layer.bias.uniform_(-reach, reach, generator=start)
    optimiser = torch.optim.Adam(layer.parameters(), lr=1e-3)
    order = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        for index in torch.randperm(len(x), generator=order).split(512):
            loss = torch.nn.functional.cross_entropy(layer(x[index]), y[index])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return layer


def test_adam_probes_follow_the_protocol() -> None:
    x, y = task(1100)
    probe = adam_probes([x], y, 4, epochs=5)[0]
    want = by_hand(x, y, 4, 5)
    torch.testing.assert_close(probe.weight, want.weight.detach())
    torch.testing.assert_close(probe.bias, want.bias.detach())


def test_probes_trained_together_are_those_trained_alone() -> None:
    x, y = task()
    wider = torch.cat([x, x**2], 1)
    both = adam_probes([x, wider], y, 4, epochs=3, batch=64)
    for probe, place in zip(both, (x, wider), strict=True):
        torch.testing.assert_close(probe.weight, adam_probes([place], y, 4, epochs=3, batch=64)[0].weight)


def test_another_seed_gives_another_probe_and_the_same_seed_the_same() -> None:
    x, y = task()
    a, b, c = (adam_probes([x], y, 4, epochs=2, seed=seed)[0].weight for seed in (0, 0, 1))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


def test_a_standardised_probe_reads_raw_features_and_ignores_dead_ones() -> None:
    x, y = task(offset=100)
    dead = torch.cat([x, torch.full((400, 1), 0.1)], 1)
    probe = adam_probes([dead], y, 4, lr=1e-1, epochs=30, standardise=True)[0]
    assert float(probe.correct(dead, y).double().mean()) > 0.7
    assert probe.weight[:, 20].abs().max() == 0


def test_adam_learns_from_bfloat16_and_inside_no_grad() -> None:
    x, y = task()
    with torch.inference_mode():
        probe = adam_probes([x.bfloat16()], y, 4, lr=1e-1, epochs=20)[0]
    assert probe.weight.dtype == torch.float32
    assert float(probe.correct(x, y).double().mean()) > 0.7


def test_broken_places_and_labels_are_named() -> None:
    x, y = task()
    bad = x.clone()
    bad[3] = torch.nan
    with pytest.raises(ValueError, match="place 1: 1 of 400 samples hold NaN or inf"):
        adam_probes([x, bad], y, 4)
    with pytest.raises(ValueError, match="labels run from 0 to 3, expected 0 to 2"):
        adam_probes([x], y, 3)
    with pytest.raises(ValueError, match="0 samples"):
        adam_probes([x[:0]], y[:0], 3)


def test_scores_are_linear_in_features() -> None:
    probe = Probe(torch.tensor([[1.0, 2.0], [0.0, 1.0]]), torch.tensor([0.5, 0.0]))
    assert probe.scores(torch.tensor([[1.0, 1.0]])).tolist() == [[3.5, 1.0]]
    assert probe.correct(torch.tensor([[1.0, 1.0], [-9.0, 1.0]]), labels(2, 2) * 0).tolist() == [True, False]
