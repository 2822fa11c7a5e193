import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from waiting import soon

import winze
from winze.cli import BAD_INPUT, DONE, INTERRUPTED, main
from winze.cli.exit_codes import FAULT
from winze.lab import Axis, Claim, Recipe, Scale, holds
from winze.lab.runs.store import Runs
from winze.readings import Readings

SIZES = ["toy/sizes", "--scale", "smoke"]
SMOKE = ["run", "tunnel/main", "--scale", "smoke", "--accelerator", "cpu"]


@dataclass(frozen=True)
class Config:
    size: int = 1


def work(config, bench):
    if config.size == 13:
        raise FileNotFoundError("dozen.npz is not at hand")
    if config.size == 0:
        raise ZeroDivisionError("nothing can be shared among nobody")
    bench.readings.add("size", float(config.size))


def read_size(readings: Readings) -> float:
    return readings.rows[0].value


RECIPE = Recipe(
    name="toy/sizes",
    system="S0",
    shows="sizes are what they are",
    paper="On Sizes",
    url="",
    study=Config(),
    axes={"size": Axis("size", (1, 2, 13, 0))},
    scales={
        "smoke": Scale(axes={"size": (1, 2)}, seeds=2),
        "short": Scale(axes={"size": (1, 13)}),
        "empty": Scale(axes={"size": (1, 0)}),
    },
    work=work,
    quantities={"size": read_size},
    claims=(Claim("one is one", "table 1", holds("size"), at={"size": 1}),),
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("WINZE_TRACEBACK", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setattr(sys.modules["winze.lab.recipe"], "recipe", lambda name: RECIPE)
    return ["run", "toy/sizes", "--accelerator", "cpu"]


def done_in(folder="runs", axis="size"):
    return sorted((facts.point[axis], facts.seed) for facts in Runs(folder).all() if facts.status == "done")


def test_a_recipe_is_run_judged_and_reported(toy, capsys):
    assert main([*toy, "--scale", "smoke"]) == DONE
    said = capsys.readouterr()
    assert done_in() == [(1, 0), (1, 1), (2, 0), (2, 1)]
    *verdicts, tally, page = said.out.splitlines()
    assert verdicts == ["supported: one is one", "  size: 1 (2 seeds)"]
    assert tally == "1 claim: 1 supported"
    assert page == "runs/toy/sizes/smoke.html"
    assert "one is one" in Path(page).read_text()
    assert said.err == ""


def test_what_is_finished_is_skipped(toy, monkeypatch):
    main([*toy, "--scale", "smoke"])
    fail = lambda *_, **__: pytest.fail("a finished run was run again")  # noqa: E731
    monkeypatch.setattr(sys.modules["winze.lab.runs.sweep"], "perform", fail)
    assert main([*toy, "--scale", "smoke"]) == DONE


def test_some_values_and_other_seeds_can_be_asked_for_and_runs_add_up(toy, capsys):
    assert main([*toy, "--scale", "smoke", "--at", "size=1", "--seeds", "0"]) == DONE
    assert main([*toy, "--scale", "smoke", "--at", "size=2, 1.0", "--seeds", "5, 7", "--out", "runs"]) == DONE
    assert done_in() == [(1, 0), (1, 5), (1, 7), (2, 5), (2, 7)]
    assert "(3 seeds)" in capsys.readouterr().out


def test_bad_input_in_a_job_fails_it_alone_with_code_2(toy, capsys):
    assert main([*toy, "--scale", "short"]) == BAD_INPUT
    said = capsys.readouterr()
    assert done_in() == [(1, 0)]
    assert said.err.splitlines() == [
        "winze: toy/sizes short size 13 seed 0: FileNotFoundError: dozen.npz is not at hand",
        "winze: 1 of 2 runs failed; the same command tries them again",
    ]
    assert "supported: one is one" in said.out


def test_a_fault_in_a_job_is_told_with_its_place_and_code_1(toy, capsys):
    assert main([*toy, "--scale", "empty"]) == FAULT
    said = capsys.readouterr().err
    assert "ZeroDivisionError: nothing can be shared among nobody" in said
    assert "in work" in said


def test_equal_reasons_are_told_once(toy, capsys):
    assert main([*toy, "--scale", "short", "--seeds", "0,1,2"]) == BAD_INPUT
    said = capsys.readouterr().err
    assert said.count("dozen.npz") == 1
    assert "seed 0 (and 2 more): FileNotFoundError" in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["tunel/main", "--scale", "smoke"], "there is no recipe 'tunel/main'; did you mean tunnel/main?"),
        (["tunnel/main", "--scale", "smke"], "tunnel/main has no scale 'smke'; did you mean smoke?"),
        ([*SIZES, "--at", "siz=1"], "toy/sizes has no axis 'siz'; did you mean size?"),
        ([*SIZES, "--at", "size=3"], "toy/sizes has no value of size '3'; did you mean 13?"),
        ([*SIZES, "--at", "size=13"], "toy/sizes runs nothing at size=13 at scale smoke"),
        ([*SIZES, "--at", "size"], "--at takes NAME=VALUE, not 'size'"),
        ([*SIZES, "--at", "size=1", "--at", "size=2"], "--at size is given twice"),
        ([*SIZES, "--set", "sise=1"], "Config has no field 'sise'; there is size"),
        ([*SIZES, "--set", "size=large"], "Config.size must be int, not 'large' (str)"),
        ([*SIZES, "--set", "size=1.5"], "Config.size must be int, not 1.5 (float)"),
        ([*SIZES, "--set", "=1"], "--set takes NAME=VALUE, not '=1'"),
        (["tunnel/main", "--scale", "smoke", "--seeds", "0,x"], "--seeds are whole numbers"),
        (["tunnel/main", "--scale", "smoke", "--seeds", ","], "--seeds are whole numbers"),
        (["tunnel/main", "--scale", "smoke", "--jobs", "0"], "at least 1, got 0"),
        (["tunnel/main", "--scale", "smoke", "--accelerator", "cuda"], "no GPU"),
        (["tunnel/main", "--scale", "smoke", "--devices", "2"], "torchrun --nproc-per-node 2"),
        (["tunnel/main", "--scale", "smoke", "--out", "file"], "file is a file"),
        (["tunnel/main"], "--scale"),
    ],
)
def test_bad_input_gives_one_line_code_2_and_writes_nothing(words, says, capsys, monkeypatch, elsewhere):
    if words[0] == "toy/sizes":
        monkeypatch.setattr(sys.modules["winze.lab.recipe"], "recipe", lambda name: RECIPE)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    Path("file").write_text("")
    assert main(["run", *words]) == BAD_INPUT
    said = capsys.readouterr()
    assert says in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""
    assert [path.name for path in elsewhere.iterdir()] == ["file"]


def test_a_ray_address_that_does_not_answer_is_bad_input(capsys, monkeypatch, elsewhere):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    assert main([*SMOKE, "--on", "ray"]) == BAD_INPUT
    assert "Ray at 127.0.0.1:1 does not answer" in capsys.readouterr().err
    assert not list(elsewhere.iterdir())


def test_a_run_folder_of_another_version_is_refused_and_left_alone(toy, capsys):
    main([*toy, "--scale", "smoke", "--at", "size=1", "--seeds", "0"])
    (told,) = Path("runs").glob("*/run.json")
    old = told.read_text().replace('"version": 2', '"version": 1')
    told.write_text(old)
    assert main([*toy, "--scale", "smoke", "--at", "size=1", "--seeds", "0"]) == BAD_INPUT
    assert "is a run of format 1 and this winze reads format 2: read it with winze 0.1" in capsys.readouterr().err
    assert told.read_text() == old


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "winze run toy/sizes --scale smoke"),
        (
            ["--at", "size=1,2", "--set", "size=(2)", "--seeds", "0, 1", "--jobs", "2", "--out", "my runs/$(x)"],
            "winze run toy/sizes --scale smoke --at size=1,2 --set 'size=(2)' --seeds '0, 1' --jobs 2 "
            "--out 'my runs/$(x)'",
        ),
        (
            ["--on", "ray", "--accelerator", "cpu", "--devices", "2", "--strategy", "ddp", "--compile"],
            "winze run toy/sizes --scale smoke --on ray --accelerator cpu --devices 2 --strategy ddp --compile",
        ),
    ],
)
def test_the_command_to_repeat_is_the_whole_one_and_quoted(toy, capsys, monkeypatch, words, said):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["winze.lab.runs.sweep"], "sweep", interrupted)
    assert main(["run", "toy/sizes", "--scale", "smoke", *words]) == INTERRUPTED
    assert capsys.readouterr().err.endswith(f"repeat `{said}`\n")


def test_the_command_to_repeat_is_started_by_torchrun_again(toy, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setattr(sys.modules["winze.lab.runs.sweep"], "sweep", interrupted)
    assert main([*toy, "--scale", "smoke"]) == INTERRUPTED
    assert "repeat `torchrun --nproc-per-node 2 -m winze run toy/sizes" in capsys.readouterr().err


def test_a_damaged_finished_run_is_told_and_the_others_are_judged(toy, capsys):
    main([*toy, "--scale", "smoke"])
    damaged = next(facts.folder for facts in Runs("runs").all() if (facts.point["size"], facts.seed) == (1, 1))
    (damaged / "readings.csv").write_text("")
    capsys.readouterr()
    assert main([*toy, "--scale", "smoke"]) == BAD_INPUT
    said = capsys.readouterr()
    assert "supported: one is one\n  size: 1 (1 seed)" in said.out
    assert f"winze: {damaged}/readings.csv was changed after the run" in said.err
    assert said.err.endswith("winze: 1 of the finished runs are damaged and do not count\n")


@pytest.mark.parametrize("body", ["{", '{"kind": "winze run", "version": 2, "status": 7}'])
def test_a_run_that_cannot_be_read_does_not_stop_the_others(toy, capsys, body):
    main([*toy, "--scale", "smoke", "--at", "size=1", "--seeds", "0"])
    (told,) = Path("runs").glob("*/run.json")
    told.write_text(body)
    assert main([*toy, "--scale", "smoke"]) == BAD_INPUT
    assert done_in() == [(1, 1), (2, 0), (2, 1)]
    assert f"StoreError: {told.absolute()} was c" in capsys.readouterr().err


def test_what_the_system_refuses_is_told_with_the_file_and_the_reason(toy, capsys):
    Path("runs").mkdir()
    Path("runs/.locks").write_text("")  # where a folder belongs
    assert main([*toy, "--scale", "smoke", "--at", "size=1", "--seeds", "0"]) == BAD_INPUT
    said = capsys.readouterr().err.splitlines()[0]
    assert said.endswith("/runs/.locks cannot be read or written: file exists")


SMALL = """
import time
from winze.lab import Axis, Claim, Data, Network, Reading, Recipe, Scale, Study, at_least
from winze.lab.study import learn_and_read
from winze.train import SGD, Epochs, Training

def work(study, bench):
    if study.training.batch == 33:
        (bench.folder / "begun").touch()
        time.sleep(600)
    learn_and_read(study, bench)

recipe = Recipe(
    "mine/small", system="S0", paper="On Depth", url="", shows="depth",
    study=Study(
        Network("winze/mlp2x8"), Data("digits[0-1]", limit=80), Training(Epochs(1), 32, SGD(0.05)),
        Reading("layers", measures=("probe",)),
    ),
    axes={"network": Axis("network.name", {"two": "winze/mlp2x8", "three": "winze/mlp3x8"})},
    scales={"smoke": Scale(), "long": Scale({"training.batch": 33})},
    work=work,
    claims=(Claim("networks learn", "table 1", at_least("accuracy", 0.0), each="network"),),
)
"""


@pytest.mark.slow
def test_an_interrupt_says_how_to_go_on(elsewhere):
    Path("small.py").write_text(SMALL)
    command = [sys.executable, "-m", "winze", "run", "small.py", "--scale", "long", "--jobs", "2", "--seeds", "0"]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background may have it ignored
    first = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    signal.signal(signal.SIGINT, before)
    try:
        soon(lambda: len(list(Path("runs").glob("*/begun"))) == 2)
        os.killpg(first.pid, signal.SIGINT)  # as a terminal does: to the workers as well
        said = first.communicate(timeout=200)[1]
    finally:
        first.kill()
    assert first.returncode == INTERRUPTED, said
    assert said.count("\n") == 1
    assert "repeat `winze run small.py --scale long --seeds 0 --jobs 2`" in said
    assert [facts.status for facts in Runs("runs").all()].count("running") == 0


@pytest.mark.slow
def test_two_processes_of_the_command_line_and_torchrun_run_the_smoke_scale(elsewhere, capsys):
    Path("small.py").write_text(SMALL)
    small = ["run", "small.py", "--scale", "smoke", "--accelerator", "cpu"]
    assert main([*small, "--jobs", "2"]) == DONE
    assert done_in(axis="network") == [("three", 0), ("two", 0)]
    assert capsys.readouterr().out.count("networks learn") == 1
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "winze"]
    bare = os.environ | {"OMP_NUM_THREADS": "1"}
    both = subprocess.run([*torchrun, *small, "--out", "shared"], capture_output=True, text=True, env=bare, timeout=250)
    assert both.returncode == DONE, both.stderr
    assert done_in("shared", "network") == [("three", 0), ("two", 0)]
    assert both.stdout.count("networks learn") == 1


@pytest.mark.slow
def test_a_scan_in_two_processes_reads_what_one_reads(elsewhere):
    Path("net.py").write_text(NET)
    words = [
        "scan",
        "net.py:make",
        "--data",
        "digits",
        "--limit",
        "300",
        "--no-costs",
        "--device",
        "cpu",
        "--batch",
        "50",
    ]
    assert main([*words, "--out", "one"]) == DONE
    assert main([*words, "--jobs", "2", "--out", "two"]) == DONE
    one, two = winze.Scan.load("one"), winze.Scan.load("two")
    np.testing.assert_allclose(two.curve("effective_rank"), one.curve("effective_rank"), rtol=1e-10)
    assert np.array_equal(two.readings.arrays["correct/digits"], one.readings.arrays["correct/digits"])


NET = """
from torch import nn

class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, classes))

    def forward(self, x):
        return self.body(x)

def make(classes=10):
    return Net(classes)
"""
