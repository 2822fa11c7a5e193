"""results/ is append-only: every run that any commit ever held is still there, with the same readings."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from winze.lab.runs.packing import READ, first_difference

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
OLD = (1, 2)  # versions of results whose settings were flat; keys.json maps their keys
FACTS = ("scale", "seed", "device", "versions", "commit", "seconds")
PATH = re.compile(r"(?<![\w.:/<+-])/(?:[\w.+-]+/)+[\w.+-]+")


def git(*words: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=True).stdout


@pytest.fixture(scope="module")
def history() -> list[tuple[str, dict]]:
    """Every version of every file of kept runs, as (recipe, content)."""
    try:
        shallow = git("rev-parse", "--is-shallow-repository").strip() == b"true"
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("the history of results/ is not here: this is no git repository, or git is not installed")
    if shallow:
        pytest.skip("the history of results/ is cut short: this is a shallow clone (git fetch --unshallow)")
    log = git("log", "--format=", "--raw", "--no-abbrev", "-m", "HEAD", "--", "results").decode()
    blobs = {}
    for line in log.splitlines():
        facts, _, path = line.partition("\t")
        blob = facts.split()[3] if facts.startswith(":") else ""
        if re.fullmatch(r"results/\w+/\w+\.json", path) and set(blob) != {"0"}:
            blobs[blob] = path.removeprefix("results/").removesuffix(".json")
    told = [(name, json.loads(git("cat-file", "blob", blob))) for blob, name in blobs.items()]
    return [(name, one) for name, one in told if one.get("kind") == "winze results"]


@pytest.fixture(scope="module")
def kept() -> dict[tuple[str, str], list[dict]]:
    """The runs that are kept now, by recipe and key; a key may have superseded runs beside the one that counts."""
    found: dict[tuple[str, str], list[dict]] = {}
    for file in RESULTS.glob("*/*.json"):
        name = f"{file.parent.name}/{file.stem}"
        for entry in json.loads(file.read_text())["runs"]:
            found.setdefault((name, entry["key"]), []).append(entry)
    return found


def now_of(name, version, entry, kept, keys) -> list[dict]:
    """The runs that are kept now under the key of an entry."""
    key = keys.get(name, {}).get(entry["key"]) if version in OLD else entry["key"]
    return kept.get((name, key), [])


@pytest.fixture(scope="module")
def keys() -> dict[str, dict[str, str]]:
    return json.loads((RESULTS / "keys.json").read_text())


def test_no_run_that_was_ever_kept_is_gone(history, kept, keys):
    gone = {
        f"{name} {entry['key']} seed {entry['seed']}"
        for name, told in history
        for entry in told["runs"]
        if not now_of(name, told["version"], entry, kept, keys)
    }
    assert not gone


def without_paths(entry):
    """What was read, but for texts that named paths of a machine."""
    conventions = dict(entry["conventions"])
    absent = conventions.get("not_run") or {}
    conventions["not_run"] = {data: why for data, why in absent.items() if not PATH.search(why)}
    return {name: entry[name] for name in READ if name != "conventions"}, conventions


def same(old, new) -> bool:
    """Whether an entry is a run as it was: the same facts and, to the last digit, the same readings."""
    if old.get("started", new["started"]) != new["started"] or any(old[name] != new[name] for name in FACTS):
        return False
    (read, conventions), (read_now, now) = without_paths(old), without_paths(new)
    expected = {data: why for data, why in now["not_run"].items() if data in conventions["not_run"]}
    return read == read_now and conventions == now | {"not_run": expected}


def test_no_reading_of_a_run_has_changed(history, kept, keys):
    changed = set()
    for name, told in history:
        for entry in told["runs"]:
            now = now_of(name, told["version"], entry, kept, keys)
            counts = [one for one in now if "superseded" not in one]
            repeated = any(
                one["started"] != entry.get("started") and not first_difference(entry, one) for one in counts
            )
            if not (repeated or any(same(entry, one) for one in now)):
                changed.add(f"{name} {entry['key']} seed {entry['seed']}, begun {entry.get('started')}")
    assert not changed


def test_superseded_runs_say_why_and_another_counts_in_their_place(kept):
    for entries in kept.values():
        assert sum("superseded" not in one for one in entries) == 1
        assert all(one["superseded"] for one in entries if "superseded" in one)


def test_the_runs_that_were_once_removed_are_back(kept):
    rates = {}
    for (name, _), entries in kept.items():
        for one in entries:
            optimizer = one["config"].get("training", {}).get("optimizer", {})
            if name.startswith("tunnel/") and one["scale"] == "gpu" and optimizer.get("lr") == 0.1:
                rates[name] = rates.get(name, 0) + 1
    expected = {"rules": 12, "ood": 15, "capacity": 12, "no_shortcut": 12, "substitution": 11, "swap": 6, "shorter": 2}
    assert {name: rates.get(f"tunnel/{name}") for name in expected} == expected
    assert rates["tunnel/development"] == 6
