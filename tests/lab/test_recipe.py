"""Recipes: what fits together, what raises at import, and how they are found by name."""

import sys
from dataclasses import replace

import pytest
from small_recipe import Inner, Settings, make_recipe, runs

from winze.lab import Claim, Job, RecipeError, Scale, at_most, lower, recipe, recipes
from winze.lab.quantities import Whole, last

CPU = Scale(Settings(), seeds=(0, 1, 2))


def test_a_config_is_the_base_with_the_arms_fields_and_then_the_scales():
    changed = Scale(Settings(), (0,), changes={"*": {"size": 9, "kind": "short"}, "fast": {"size": 5}})
    made = make_recipe(scales={"smoke": changed})
    assert made.config("smoke", "plain") == Settings(size=9, kind="short")
    assert made.config("smoke", "fast") == Settings(size=5, kind="short", inner=Inner(rate=0.5))


def test_jobs_are_every_arm_of_a_seed_before_the_next_seed():
    jobs = make_recipe().jobs("cpu")
    assert [(job.seed, job.arm) for job in jobs] == [(s, arm) for s in (0, 1, 2) for arm in ("plain", "fast")]
    assert jobs[1] == Job("small/score", "cpu", "fast", 0, Settings(inner=Inner(rate=0.5)))


def test_jobs_may_be_some_arms_and_seeds():
    jobs = make_recipe().jobs("cpu", arms=["fast"], seeds=[7, 8])
    assert [(job.arm, job.seed) for job in jobs] == [("fast", 7), ("fast", 8)]


def test_a_scale_may_run_some_arms_only():
    made = make_recipe(scales={"cpu": CPU, "smoke": replace(CPU, arms=("plain",))})
    assert made.arms_at("smoke") == ("plain",)
    assert made.claims_at("smoke") == ()
    assert len(made.claims_at("cpu")) == 1
    with pytest.raises(RecipeError, match="does not run arm 'fast' at scale smoke; it runs plain"):
        made.jobs("smoke", arms=["fast"])


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda r: r.jobs("cpuu"), r"no scale 'cpuu'; did you mean cpu\?"),
        (lambda r: r.jobs("paper"), "no scale 'paper'; there is smoke, cpu"),
        (lambda r: r.jobs("cpu", arms=["fsat"]), r"no arm 'fsat'; did you mean fast\?"),
        (lambda r: r.config("cpu", "slow"), "no arm 'slow'"),
    ],
)
def test_an_unknown_scale_or_arm_raises_with_the_nearest_names(ask, said):
    with pytest.raises(RecipeError, match=said):
        ask(make_recipe())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "score"}, "name is system/table"),
        ({"arms": {}}, "has no arms"),
        ({"scales": {}}, "has no scales"),
        ({"arms": {"plain": {}, "fast": {"inner.rte": 1.0}}}, "Inner has no field 'rte'; there is rate"),
        ({"arms": {"plain": {}, "fast": {"sise": 1}}}, "Settings has no field 'sise'; there is size"),
        ({"arms": {"plain": {}, "fast": {"size": "3"}}}, r"Settings.size wants int, not '3' \(str\)"),
        ({"arms": {"plain": {}, "fast": {"size": 3.5}}}, r"Settings.size wants int, not 3.5 \(float\)"),
        ({"arms": {"plain": {}, "fast": {"inner.rate": "fast"}}}, r"Inner.rate wants float, not 'fast' \(str\)"),
        ({"arms": {"plain": {}, "fast": {"kind": "medium"}}}, r"Settings.kind wants Literal\['long', 'short'\]"),
        ({"arms": {"plain": {}, "fast": {"milestones": (1, "2")}}}, r"Settings.milestones wants tuple\[int, ...\]"),
        ({"arms": {"plain": {}, "fast": {"limit": 2.0}}}, r"Settings.limit wants int \| None"),
        ({"scales": {"cpu": replace(CPU, base=Settings(size="3"))}}, "Settings.size wants int"),
        ({"scales": {"cpu": replace(CPU, base=Settings)}}, "base is a frozen dataclass"),
        ({"scales": {"cpu": replace(CPU, base={"size": 3})}}, "base is a frozen dataclass"),
        ({"scales": {"cpu": replace(CPU, seeds=())}}, "seeds are different whole numbers"),
        ({"scales": {"cpu": replace(CPU, seeds=(1, 1))}}, "seeds are different whole numbers"),
        ({"scales": {"cpu": replace(CPU, arms=("plane",))}}, "no arm 'plane'; did you mean plain"),
        ({"scales": {"cpu": replace(CPU, changes={"fst": {}})}}, "this scale has no arm 'fst'; did you mean fast"),
        ({"scales": {"cpu": replace(CPU, changes={"fast": {"sz": 1}})}}, "arm fast: Settings has no field 'sz'"),
        ({"claims": (Claim("x", lower("score", "fats", than="plain")),)}, "there is no arm 'fats'; did you mean fast"),
        ({"claims": (Claim("x", at_most("scor", "fast", 1)),)}, "there is no quantity 'scor'; did you mean score"),
        ({"claims": (Claim("x", at_most("score", "fast", 1), scales=("gpu",)),)}, "there is no scale 'gpu'"),
        ({"claims": (Claim("x", at_most("score", "fast", 1), departure={"gp": ""}),)}, "there is no scale 'gp'"),
        ({"measures": ("probe",)}, "quantity 'score' reads 'score', which measures= leaves out"),
        ({"quantities": {"score": Whole("score"), "end": last("rank")}, "measures": ("s*",)}, "reads 'rank'"),
    ],
)
def test_what_does_not_fit_together_raises_when_the_recipe_is_made(changes, said):
    with pytest.raises(RecipeError, match=said):
        make_recipe(**changes)


def test_a_claim_that_no_scale_can_judge_raises():
    scales = {"cpu": replace(CPU, arms=("plain",)), "gpu": replace(CPU, arms=("fast",))}
    with pytest.raises(RecipeError, match="no scale runs all of fast, plain"):
        make_recipe(scales=scales)
    with pytest.raises(RecipeError, match="scale cpu does not run fast"):
        make_recipe(scales=scales, claims=(Claim("x", at_most("score", "fast", 1), scales=("cpu",)),))


def test_verdicts_come_with_their_claims():
    made = make_recipe()
    [(claim, told)] = made.verdicts("cpu", runs(plain=[1, 2, 3], fast=[0.5, 1.5, 2.5]))
    assert (claim, told.word, told.n) == (made.claims[0], "borne out", 3)


def test_a_claim_is_judged_only_at_its_scales():
    claim = Claim("x", at_most("score", "fast", 1), scales=("cpu",))
    made = make_recipe(claims=(claim,))
    assert made.claims_at("smoke") == ()
    assert made.claims_at("cpu") == (claim,)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of recipes of our own; what was imported from it is forgotten afterwards."""
    folder = tmp_path / "own_recipes"
    (folder / "small").mkdir(parents=True)
    for inner in (folder, folder / "small"):
        (inner / "__init__.py").write_text("")
    (folder / "small" / "parts.py").write_text("number = 1\n")
    make = "from small_recipe import make_recipe\nrecipe = make_recipe(name='small/{}')\n"
    (folder / "small" / "score.py").write_text(make.format("score"))
    (folder / "small" / "other.py").write_text(make.format("other"))
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.startswith("own_recipes")]:
        del sys.modules[name]


def test_recipes_are_found_by_their_modules(package):
    assert list(recipes("own_recipes")) == ["small/other", "small/score"]
    assert recipe("small/score", "own_recipes").name == "small/score"


def test_asking_for_one_recipe_imports_no_other(package):
    (package / "small" / "broken.py").write_text("raise RuntimeError('broken')\n")
    assert recipe("small/score", "own_recipes").name == "small/score"
    assert "own_recipes.small.other" not in sys.modules


@pytest.mark.parametrize("name", ["small/scor", "small/parts", "score"])
def test_an_unknown_recipe_raises_with_the_nearest_names(package, name):
    with pytest.raises(RecipeError, match=f"there is no recipe '{name}'; .*small/"):
        recipe(name, "own_recipes")


def test_a_recipe_under_another_name_raises(package):
    (package / "small" / "wrong.py").write_text("from own_recipes.small.score import recipe\n")
    with pytest.raises(RecipeError, match="holds a recipe named 'small/score'; its name is 'small/wrong'"):
        recipe("small/wrong", "own_recipes")


def test_every_recipe_of_winze_loads():
    assert "tunnel/main" in recipes()
