"""Linear CKA of two feature matrices: how alike two places are, up to rotation and scale."""

from __future__ import annotations

from jaxtyping import Float64
from torch import Tensor

from winze.measure.features import Features, centred, detached
from winze.measure.streaming.pairs import CKA
from winze.measure.value import CONSTANT, Value, missing


@detached
def linear_cka(x: Features, y: Features, unbiased: bool = False) -> Value:
    """Compare two feature matrices of the same samples.

        CKA = ‖XᵀY‖²_F / (‖XᵀX‖_F ‖YᵀY‖_F),   X, Y centred

    With `unbiased`, each ‖·‖² becomes the unbiased HSIC₁, which can be slightly negative.
    Kornblith et al., 2019, arXiv 1905.00414; Song et al., 2012.
    """
    if len(x) != len(y):
        raise ValueError(f"expected the same samples in both, got {len(x)} and {len(y)}")
    least = 4 if unbiased else 2
    a, b = _unit(centred(x, least, "x")), _unit(centred(y, least, "y"))
    if not (a.any() and b.any()):
        return missing(f"{'y' if a.any() else 'x'}: {CONSTANT}")
    cross, own, other = (_hsic(p, q, unbiased) for p, q in ((a, b), (a, a), (b, b)))
    if min(own, other) <= 1e-13:  # of the squared total variance, which is 1: what subtraction leaves of nothing
        return missing("no structure between samples above rounding")
    return Value(cross / (own**0.5 * other**0.5))


def _unit(centred: Float64[Tensor, "sample feature"]) -> Float64[Tensor, "sample feature"]:
    """Scale to a total variance of 1, which CKA does not see, so that fourth powers stay in range."""
    size = centred.norm()
    return centred / size if size > 0 else centred


def _hsic(x: Float64[Tensor, "sample feature"], y: Float64[Tensor, "sample other"], unbiased: bool) -> float:
    """Give n(n−3) HSIC₁, or (n−1)² HSIC₀, of centred features by whichever of XᵀY and XXᵀ is the smaller.

    Rows of a centred Gram matrix sum to 0, so HSIC₁ needs its diagonal only beside the biased sum.
    """
    n, p, q = len(x), x.shape[1], y.shape[1]
    biased = (x.T @ y).square().sum() if p * q <= n * (p + q) else ((x @ x.T) * (y @ y.T)).sum()
    if not unbiased:
        return float(biased)
    k, l = x.square().sum(1), y.square().sum(1)  # noqa: E741
    return float(biased - n / (n - 2) * (k @ l) + k.sum() * l.sum() / ((n - 1) * (n - 2)))


def minibatch_cka(x: Features, y: Features, batch: int = 256, unbiased: bool = True) -> Value:
    """Compare two feature matrices by minibatches, as a network's stream of batches allows.

        sCKA = mean_b HSIC₁(X_b, Y_b) / sqrt( mean_b HSIC₁(X_b, X_b) · mean_b HSIC₁(Y_b, Y_b) )

    Batches are consecutive samples; how a ragged one counts, `CKA` says. Nguyen et al., 2020, arXiv 2010.15327.
    """
    if len(x) != len(y):
        raise ValueError(f"expected the same samples in both, got {len(x)} and {len(y)}")
    if batch < 4:
        raise ValueError(f"expected batches of at least 4 samples, got {batch}")
    pair = CKA(1, 1, unbiased)
    for start in range(0, len(x), batch):
        pair.update([x[start : start + batch]], [y[start : start + batch]])
    return Value(float(pair.matrix()[0, 0]), "; ".join(note for note in pair.notes() if note))
