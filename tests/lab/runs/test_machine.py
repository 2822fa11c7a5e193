import subprocess

import pytest

from winze.lab.runs.machine import commit, device, source
from winze.train import Hardware


@pytest.fixture
def package(tmp_path):
    """A package under version control that ignores `build`."""
    folder = tmp_path / "repository" / "package"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text("number = 1\n")
    (folder / "inner" / "table.csv").write_text("1\n")
    (folder.parent / ".gitignore").write_text("build/\n")
    git(folder.parent, "init", "-q")
    git(folder.parent, "add", ".")
    git(folder.parent, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", "Begin")
    yield folder
    commit.cache_clear()


def git(folder, *words):
    return subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True, text=True).stdout.strip()


def test_an_unchanged_tree_has_the_commit_alone(package):
    assert commit(package) == git(package, "rev-parse", "HEAD")


@pytest.mark.parametrize("name", ["__init__.py", "inner/table.csv", "new.py", "inner/ä new.py", "newer/one.py"])
def test_a_changed_file_or_an_untracked_python_file_of_the_package_makes_the_tree_dirty(package, name):
    (package / name).parent.mkdir(exist_ok=True)
    (package / name).write_text("number = 2\n")
    assert commit(package) == git(package, "rev-parse", "HEAD") + "+"


@pytest.mark.parametrize("name", ["notes.txt", "build/made.py", "../beside.py"])
def test_other_untracked_files_ignored_ones_and_those_outside_the_package_do_not(package, name):
    (package / name).parent.mkdir(exist_ok=True)
    (package / name).write_text("number = 2\n")
    assert commit(package) == git(package, "rev-parse", "HEAD")


def test_a_package_that_no_repository_tracks_has_no_commit(package, tmp_path):
    (package.parent / "build").mkdir()
    (package.parent / "build" / "__init__.py").write_text("")
    assert commit(package.parent / "build") is None
    assert commit(tmp_path) is None


def test_a_recipe_that_changes_while_the_process_lives_is_another_source(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("number = 1\n")
    before = source(str(file))
    file.write_text("number = 2\n")
    assert source(str(file)) != before != source() == source("")


@pytest.mark.parametrize(("accelerator", "kind"), [("auto", "GPU (MPS)"), ("mps", "GPU (MPS)"), ("cpu", "cores")])
def test_the_gpu_of_a_mac_is_named(monkeypatch, accelerator, kind):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: True)
    assert device(Hardware(accelerator)).endswith(kind)
