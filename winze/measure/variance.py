"""How tight classes are, and how far apart."""

from __future__ import annotations

from typing import NamedTuple

from winze.measure.features import Features, Labels, detached
from winze.measure.streaming.moments import Moments
from winze.measure.value import CONSTANT, Value, missing


class ClassVariance(NamedTuple):
    """Mean variance within classes, and mean squared distance between class means."""

    intra: Value
    inter: Value


def class_variance(features: Features, labels: Labels) -> ClassVariance:
    """Measure the spread of features within and between classes.

        intra = 1/C Σ_j 1/t_j Σ_{i∈j} ‖f_i − μ_j‖²,   inter = 1/(C(C−1)) Σ_j Σ_{k≠j} ‖μ_j − μ_k‖²

    Only classes that have samples count. Masarczyk et al., 2023, arXiv 2305.19753.
    """
    return class_variance_of(Moments.of(features, labels))


@detached
def class_variance_of(moments: Moments) -> ClassVariance:
    """Give `class_variance` from moments by class."""
    moments.check(classes=2)
    if moments.constant:
        return ClassVariance(missing(CONSTANT), missing(CONSTANT))
    present = moments.counts > 0
    counts, means = moments.counts[present], moments.class_means[present]
    intra = (moments.class_scatter[present] / counts).mean()
    around = (means - means.mean(0)).square().sum()  # the sum over pairs is 2C times this
    return ClassVariance(Value(float(intra)), Value(float(2 * around / (len(counts) - 1))))
