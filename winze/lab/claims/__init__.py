"""Claims of papers, questions of our own, and their verdicts."""

from winze.lab.claims.claim import (
    Claim,
    Contrast,
    Judged,
    Question,
    RunReadings,
    Statement,
    alike,
    at_least,
    at_most,
    falls,
    higher,
    holds,
    judge,
    level,
    lower,
    not_below,
    rises,
    several,
    share,
)
from winze.lab.claims.tunnel_start import tunnel_at
from winze.lab.claims.verdict import Verdict

__all__ = [
    "Claim",
    "Contrast",
    "Judged",
    "Question",
    "RunReadings",
    "Statement",
    "Verdict",
    "alike",
    "at_least",
    "at_most",
    "falls",
    "higher",
    "holds",
    "judge",
    "level",
    "lower",
    "not_below",
    "rises",
    "several",
    "share",
    "tunnel_at",
]
