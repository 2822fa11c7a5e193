"""Numbers from tensors: pure functions, and accumulators that feed them batch by batch.

A function over features has a twin `*_of` over what an accumulator has gathered. A number that cannot be had is NaN
with a `note` (`Value`); input that makes no sense raises ValueError.
"""

from winze.measure.alignment import Alignment, alignment, alignment_of
from winze.measure.cka import linear_cka, minibatch_cka
from winze.measure.collapse import (
    LastLayer,
    NeuralCollapse,
    disagreement,
    nearest_mean,
    neural_collapse,
    neural_collapse_of,
    self_duality,
)
from winze.measure.distance import (
    Distances,
    distances,
    euclidean_distance,
    feature_reuse,
    l1_distance,
    non_monotonicity,
)
from winze.measure.frechet import frechet_distance, frechet_of
from winze.measure.linear_reconstruction import linear_reconstruction
from winze.measure.norms import (
    frobenius_norm,
    frobenius_norm_of,
    sample_norm,
    sample_norm_of,
    weight_change,
    weight_norms,
)
from winze.measure.probes.knn import knn_accuracy
from winze.measure.probes.probe import Probe, adam_probes, answers_at_once
from winze.measure.probes.ridge import PENALTIES, Ridge, ridge, ridge_probe, ridges
from winze.measure.rank import (
    effective_rank,
    effective_rank_of,
    matrix_rank,
    numerical_rank,
    numerical_rank_of,
    participation_ratio,
    participation_ratio_of,
    singular_values,
    spectrum,
)
from winze.measure.registry import MEASURES, Measure, Number, register
from winze.measure.similar_nodes import ALIKE, DIFFERENT, AlikeNodes, alike_nodes, recurring_maps
from winze.measure.softmax import aligned_norm, column_softmax, singular_gap, singular_gap_bound
from winze.measure.streaming.block import CentredBatch, Classes
from winze.measure.streaming.class_means import ClassMeans
from winze.measure.streaming.gram import hsic1
from winze.measure.streaming.moments import Moments
from winze.measure.streaming.pairs import CKA
from winze.measure.streaming.stack import spectra
from winze.measure.tunnel import Tunnel, best_place, kappa, rho, tunnel, tunnel_of_runs, tunnel_start
from winze.measure.value import Value, missing
from winze.measure.variance import ClassVariance, class_variance, class_variance_of

__all__ = [
    "ALIKE",
    "CKA",
    "DIFFERENT",
    "MEASURES",
    "PENALTIES",
    "Alignment",
    "AlikeNodes",
    "CentredBatch",
    "ClassMeans",
    "ClassVariance",
    "Classes",
    "Distances",
    "LastLayer",
    "Measure",
    "Moments",
    "NeuralCollapse",
    "Number",
    "Probe",
    "Ridge",
    "Tunnel",
    "Value",
    "adam_probes",
    "aligned_norm",
    "alignment",
    "alignment_of",
    "alike_nodes",
    "answers_at_once",
    "best_place",
    "class_variance",
    "class_variance_of",
    "column_softmax",
    "disagreement",
    "distances",
    "effective_rank",
    "effective_rank_of",
    "euclidean_distance",
    "feature_reuse",
    "frechet_distance",
    "frechet_of",
    "frobenius_norm",
    "frobenius_norm_of",
    "hsic1",
    "kappa",
    "knn_accuracy",
    "l1_distance",
    "linear_cka",
    "linear_reconstruction",
    "matrix_rank",
    "minibatch_cka",
    "missing",
    "nearest_mean",
    "neural_collapse",
    "neural_collapse_of",
    "non_monotonicity",
    "numerical_rank",
    "numerical_rank_of",
    "participation_ratio",
    "participation_ratio_of",
    "recurring_maps",
    "register",
    "rho",
    "ridge",
    "ridge_probe",
    "ridges",
    "sample_norm",
    "sample_norm_of",
    "self_duality",
    "singular_gap",
    "singular_gap_bound",
    "singular_values",
    "spectra",
    "spectrum",
    "tunnel",
    "tunnel_of_runs",
    "tunnel_start",
    "weight_change",
    "weight_norms",
]
