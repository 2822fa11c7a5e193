"""Recipes: what fits together, what raises at import, and how they are found by name or by file."""

import pickle
import sys
from dataclasses import replace

import pytest
from small_recipe import FAST, LOWER, PLAIN, Inner, Settings, make_recipe, runs, score

from winze.lab import Axis, Claim, Job, Question, RecipeError, Scale, at_most, lower, recipe, recipes
from winze.lab.claims.quantities import Whole, last
from winze.readings import Point
from winze.train import Cosine, Epochs, Training

CPU = Scale(seeds=3)
FASTER = {"speed": "fast"}


def with_axis(field, *values):
    """What makes a recipe with one axis of such values."""
    labels = {f"v{i}": value for i, value in enumerate(values)}
    return {"axes": {"speed": Axis(field, labels)}, "claims": ()}


def claimed(check, **rest):
    return {"claims": (Claim("x", "table 1", check, **rest),)}


def test_a_config_is_the_study_with_the_scales_settings_then_the_axes_then_those_at_some_points():
    scale = Scale({"size": 9, "kind": "short", "inner.rate": 7.0}, at=((FASTER, {"size": 5}),))
    made = make_recipe(scales={"smoke": scale})
    assert made.config("smoke", PLAIN) == Settings(size=9, kind="short", inner=Inner(rate=0.1))
    assert made.config("smoke", FAST) == Settings(size=5, kind="short", inner=Inner(rate=0.5))


def test_jobs_are_every_point_of_a_seed_before_the_next_seed():
    jobs = make_recipe().jobs("cpu")
    assert [(job.seed, job.point["speed"]) for job in jobs] == [
        (s, one) for s in (0, 1, 2) for one in ("plain", "fast")
    ]
    assert jobs[1] == Job("small/score", "cpu", FAST, 0, Settings(inner=Inner(rate=0.5)))


def test_jobs_may_be_at_some_values_and_seeds():
    jobs = make_recipe().jobs("cpu", {"speed": ["fast"]}, seeds=[7, 8])
    assert [(job.point["speed"], job.seed) for job in jobs] == [("fast", 7), ("fast", 8)]


def test_a_scale_may_run_some_values_only():
    made = make_recipe(scales={"cpu": CPU, "smoke": replace(CPU, axes={"speed": ("plain",)})})
    assert made.grid("smoke").points == (PLAIN,)
    assert made.verdicts("smoke", {}) == []
    assert len(made.verdicts("cpu", {})) == 1
    with pytest.raises(RecipeError, match="runs nothing at speed=fast at scale smoke"):
        made.jobs("smoke", {"speed": ["fast"]})


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda r: r.jobs("cpuu"), r"no scale 'cpuu'; did you mean cpu\?"),
        (lambda r: r.jobs("paper"), "no scale 'paper'; there is smoke, cpu"),
        (lambda r: r.jobs("cpu", {"sped": ["fast"]}), r"no axis 'sped'; did you mean speed\?"),
        (lambda r: r.jobs("cpu", {"speed": ["fsat"]}), r"no value of speed 'fsat'; did you mean fast\?"),
        (lambda r: r.config("cpu", Point(speed="slow")), "no value of speed 'slow'; there is plain, fast"),
        (lambda r: r.config("cpu", Point()), "does not run all at scale cpu"),
    ],
)
def test_an_unknown_scale_axis_or_value_raises_with_the_nearest_names(ask, said):
    with pytest.raises(RecipeError, match=said):
        ask(make_recipe())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "score"}, "name is system/table"),
        ({"scales": {}}, "has no scales"),
        ({"study": Settings}, "study is a frozen dataclass"),
        ({"study": {"size": 3}}, "study is a frozen dataclass"),
        ({"study": Settings(size="3")}, "Settings.size must be int"),
        (with_axis("inner.rte", 1.0), "Inner has no field 'rte'; there is rate"),
        (with_axis("sise", 1), "Settings has no field 'sise'; there is size"),
        (with_axis("size", "3"), r"Settings.size must be int, not '3' \(str\)"),
        (with_axis("size", 3.5), r"Settings.size must be int, not 3.5 \(float\)"),
        (with_axis("inner.rate", "fast"), r"Inner.rate must be float, not 'fast' \(str\)"),
        (with_axis("kind", "medium"), r"Settings.kind must be 'long' \| 'short'"),
        (with_axis("milestones", (1, "2")), r"Settings.milestones must be tuple\[int, ...\]"),
        (with_axis("limit", 2.0), r"Settings.limit must be int \| None"),
        ({"scales": {"cpu": Scale({"sz": 1})}}, "Settings has no field 'sz'"),
        ({"scales": {"cpu": replace(CPU, seeds=())}}, "seeds are different whole numbers"),
        ({"scales": {"cpu": replace(CPU, seeds=(1, 1))}}, "seeds are different whole numbers"),
        (
            {"scales": {"cpu": replace(CPU, axes={"speed": ("plane",)})}},
            "no value of speed 'plane'; did you mean plain",
        ),
        ({"scales": {"cpu": replace(CPU, axes={"sped": ("plain",)})}}, "no axis 'sped'; did you mean speed"),
        ({"scales": {"cpu": replace(CPU, at=(({"speed": "fst"}, {}),))}}, "no value of speed 'fst'; did you mean fast"),
        ({"scales": {"cpu": replace(CPU, at=((FASTER, {"sz": 1}),))}}, "speed fast: Settings has no field 'sz'"),
        ({"scales": {"cpu": replace(CPU, only=lambda point: False)}}, "no point runs"),
        (claimed(lower("score", {"speed": "fats"}, than={"speed": "plain"})), "no value of speed 'fats'; did you mean"),
        (claimed(lower("score", {"sped": "fast"}, than={"speed": "plain"})), "there is no axis 'sped'"),
        (claimed(at_most("scor", 1), each="speed"), "there is no quantity 'scor'; did you mean score"),
        (claimed(at_most("score", 1), each="sped"), "there is no axis 'sped'"),
        (claimed(at_most("score", 1), at=FASTER, scales=("gpu",)), "there is no scale 'gpu'"),
        ({"measures": ("probe",)}, "'fast scores lower': reads 'score', which measures= leaves out"),
        ({"measures": ("probe",), "claims": ()}, "quantity 'score' reads 'score', which measures= leaves out"),
        ({"quantities": {"score": Whole("score"), "end": last("rank")}, "measures": ("s*",)}, "reads 'rank'"),
    ],
)
def test_what_does_not_fit_together_raises_when_the_recipe_is_made(changes, said):
    with pytest.raises(RecipeError, match=said):
        make_recipe(**changes)


def test_a_claim_that_no_scale_can_judge_raises():
    scales = {"cpu": replace(CPU, axes={"speed": ("plain",)}), "gpu": replace(CPU, axes={"speed": ("fast",)})}
    with pytest.raises(RecipeError, match="no scale runs all that it compares"):
        make_recipe(scales=scales)
    with pytest.raises(RecipeError, match="no scale runs all that it compares"):
        make_recipe(scales=scales, **claimed(at_most("score", 1), at=FASTER, scales=("cpu",)))


def test_verdicts_come_with_their_claims_then_questions_and_with_a_cell_each():
    asked = Question("is it small?", at_most("score", 9), each="speed")
    made = make_recipe(questions=(asked,))
    claim, question = made.verdicts("cpu", runs(plain=[1, 2, 3], fast=[0.5, 1.5, 2.5]))
    assert (claim.statement, claim.word) == (LOWER, "supported")
    assert [verdict.n for _, verdict in claim.cells] == [3]
    assert [(cell["speed"], verdict.word) for cell, verdict in question.cells] == [
        ("plain", "supported"),
        ("fast", "supported"),
    ]


def test_a_claim_is_judged_only_at_its_scales():
    made = make_recipe(**claimed(at_most("score", 1), at=FASTER, scales=("cpu",)))
    assert made.verdicts("smoke", {}) == []
    assert len(made.verdicts("cpu", {})) == 1


def test_runs_that_did_not_learn_are_named_and_not_averaged():
    made = make_recipe(learned=("score", 0.4))
    read = runs(plain=[1.0, 1.1, 1.2, 0.3], fast=[0.5, 0.6, 0.6, 0.5])
    assert made.failed(read[PLAIN][3]) == "score 0.3 is below 0.4"
    assert made.failed(read[PLAIN][0]) == made.failed(score(float("inf"))) == ""
    [judged] = made.verdicts("cpu", read)
    assert judged.cells[0][1].n == 3


def test_settings_of_ones_own_replace_those_of_every_point_and_no_claim_speaks_of_them():
    made = make_recipe().with_settings({"size": 77}, "cpu")
    assert made.config("cpu", FAST) == Settings(size=77, inner=Inner(rate=0.5))
    assert made.verdicts("cpu", runs(plain=[1], fast=[2])) == []
    assert made.with_settings({}, "cpu") is made


def test_settings_of_ones_own_are_checked_at_the_chosen_scale_only():
    warm = Training(length=Epochs(3), schedule=Cosine(warmup=Epochs(2)))
    axes = {"speed": Axis("batch", {"plain": 64, "fast": 256})}
    made = make_recipe(study=warm, axes=axes, scales={"cpu": Scale({"schedule": Cosine()}, seeds=3), "gpu": CPU})
    own = {"length.count": 1}
    assert made.with_settings(own, "cpu").config("cpu", FAST) == Training(Epochs(1), 256, schedule=Cosine())
    with pytest.raises(RecipeError, match=r"scale gpu.*warmup must lie within"):
        made.with_settings(own, "gpu")
    with pytest.raises(RecipeError, match="no scale 'gqu'; did you mean gpu"):
        made.with_settings(own, "gqu")


def test_a_setting_that_is_an_axis_is_a_point_of_its_own():
    made = make_recipe().with_settings({"inner.rate": 0.25}, "cpu")
    assert made.grid("cpu").points == (Point(speed=0.25),)
    assert made.config("cpu", Point(speed=0.25)).inner.rate == 0.25


def test_a_setting_that_replaces_what_an_axis_varies_leaves_one_point():
    made = make_recipe().with_settings({"inner": Inner(0.25)}, "cpu")
    assert made.grid("cpu").points == (Point(speed="Inner(rate=0.25, steps=10)"),)
    assert made.config("cpu", made.grid("cpu").points[0]) == Settings(inner=Inner(0.25))
    kinds = make_recipe(axes={"speed": Axis("limit", {"plain": 1, "fast": 2})}).with_settings({"limit": None}, "cpu")
    assert kinds.config("cpu", Point(speed="None")).limit is None


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of recipes of our own; what was imported from it is forgotten afterwards."""
    folder = tmp_path / "own_recipes"
    (folder / "small").mkdir(parents=True)
    for inner in (folder, folder / "small"):
        (inner / "__init__.py").write_text("")
    (folder / "small" / "_parts.py").write_text("number = 1\n")
    make = "from small_recipe import make_recipe\nrecipe = make_recipe(name='small/{}')\n"
    (folder / "small" / "score.py").write_text(make.format("score"))
    (folder / "small" / "other.py").write_text(make.format("other"))
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.startswith("own_recipes")]:
        del sys.modules[name]


def test_recipes_are_found_by_their_modules_and_those_with_an_underscore_are_none(package):
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


def test_a_module_without_a_recipe_or_with_one_of_another_name_raises(package):
    (package / "small" / "wrong.py").write_text("from own_recipes.small.score import recipe\n")
    with pytest.raises(
        RecipeError, match="defines a recipe named 'small/score'; its module requires the name 'small/wrong'"
    ):
        recipe("small/wrong", "own_recipes")
    (package / "small" / "empty.py").write_text("number = 1\n")
    with pytest.raises(RecipeError, match="defines no `recipe = Recipe"):
        recipe("small/empty", "own_recipes")


OWN = """
from dataclasses import dataclass
from small_recipe import make_recipe

@dataclass(frozen=True)
class Mine:
    size: int = 3

recipe = make_recipe(study=Mine(), axes={}, claims=(), work=lambda config, bench: None)
"""


def test_a_recipe_in_a_file_of_ones_own_is_loaded_once_and_again_when_the_file_changes(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(OWN.replace("axes={}", "axes={}, scales={'cpu': __import__('winze').lab.Scale()}"))
    first = recipe(str(file))
    assert first.file == str(file)
    assert recipe(str(file)) is first
    file.write_text(file.read_text().replace("size: int = 3", "size: int = 4"))
    assert recipe(str(file)).study.size == 4
    job = recipe(str(file)).jobs("cpu")[0]
    assert pickle.loads(pickle.dumps(job)) == job
    assert job.file == str(file)


def test_a_file_that_is_not_there_or_defines_no_recipe_raises(tmp_path):
    with pytest.raises(RecipeError, match="there is no file"):
        recipe(str(tmp_path / "none.py"))
    (tmp_path / "none.py").write_text("number = 1\n")
    with pytest.raises(RecipeError, match="defines no `recipe = Recipe"):
        recipe(str(tmp_path / "none.py"))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("x = 1\n\nrecipe = Recpe()\n", "line 3: NameError: name 'Recpe'"),
        ("from winze.lab import Recipe\nrecipe = Recipe((\n", "line 2: SyntaxError: '\\(' was never closed"),
        ("import nothing_of_this_name\n", "line 1: ModuleNotFoundError: No module named"),
        ("from winze.lab import Recipe\n\nrecipe = Recipe(nme='own/one')\n", "line 3: TypeError: .*'nme'"),
    ],
)
def test_an_error_in_a_file_of_ones_own_is_told_with_its_line(tmp_path, body, said):
    (tmp_path / "mine.py").write_text(body)
    with pytest.raises(RecipeError, match=f"mine.py, {said}"):
        recipe(str(tmp_path / "mine.py"))


def test_every_recipe_of_winze_loads():
    assert "tunnel/main" in recipes()
