"""The lab: recipes with claims, runs that survive a kill, sweeps, verdicts."""

from winze.lab.axes import Axis, AxisError, Scale
from winze.lab.bench import Bench
from winze.lab.claims.claim import (
    Claim,
    Contrast,
    Question,
    alike,
    at_least,
    at_most,
    falls,
    higher,
    holds,
    level,
    lower,
    not_below,
    rises,
    several,
    share,
)
from winze.lab.claims.quantities import OOD, DuringTraining, RunNumber, Whole, best, derived, drop, first, hidden, last
from winze.lab.claims.tunnel_start import tunnel_at
from winze.lab.claims.verdict import Verdict
from winze.lab.continual import Continual, TaskSequence, tasks
from winze.lab.recipe import Recipe, RecipeError, recipe, recipes
from winze.lab.runs.job import Job
from winze.lab.runs.sweep import Outcome, sweep
from winze.lab.study import (
    Data,
    Network,
    Prepared,
    Reading,
    Study,
    Watching,
    learn,
    learn_and_read,
    prepare,
    read,
    store_curve,
)
from winze.lab.workers.processes import Processes
from winze.lab.workers.ray import OnRay

__all__ = [
    "OOD",
    "Axis",
    "AxisError",
    "Bench",
    "Claim",
    "Continual",
    "Contrast",
    "Data",
    "DuringTraining",
    "Job",
    "Network",
    "OnRay",
    "Outcome",
    "Prepared",
    "Processes",
    "Question",
    "Reading",
    "Recipe",
    "RecipeError",
    "RunNumber",
    "Scale",
    "Study",
    "TaskSequence",
    "Verdict",
    "Watching",
    "Whole",
    "alike",
    "at_least",
    "at_most",
    "best",
    "derived",
    "drop",
    "falls",
    "first",
    "hidden",
    "higher",
    "holds",
    "last",
    "learn",
    "learn_and_read",
    "level",
    "lower",
    "not_below",
    "prepare",
    "read",
    "recipe",
    "recipes",
    "rises",
    "several",
    "share",
    "store_curve",
    "sweep",
    "tasks",
    "tunnel_at",
]
