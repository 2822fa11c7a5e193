"""The lab: recipes with claims, runs that survive, sweeps, verdicts."""

from winze.lab.claims import Claim, at_least, at_most, falls, higher, holds, level, lower, rises, share, verdict
from winze.lab.job import Job
from winze.lab.on_ray import OnRay
from winze.lab.processes import Processes
from winze.lab.recipe import Recipe, RecipeError, Scale, recipe, recipes
from winze.lab.sweep import Outcome, sweep
from winze.lab.tunnels import tunnel_at
from winze.lab.verdicts import Verdict

__all__ = [
    "Claim",
    "Job",
    "OnRay",
    "Outcome",
    "Processes",
    "Recipe",
    "RecipeError",
    "Scale",
    "Verdict",
    "at_least",
    "at_most",
    "falls",
    "higher",
    "holds",
    "level",
    "lower",
    "recipe",
    "recipes",
    "rises",
    "share",
    "sweep",
    "tunnel_at",
    "verdict",
]
