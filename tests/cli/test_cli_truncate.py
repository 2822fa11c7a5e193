"""`winze truncate`: which scans it takes, what it writes, and what it does not do for a folder from elsewhere."""

import hashlib
import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import winze
from winze.cli import main
from winze.cli.exit_codes import BAD_INPUT, DONE
from winze.networks import build
from winze.readings import Readings

NET, OPTIONS = "winze/mlp3x16", {"inputs": 64}
FILE = "import torch\nfrom pathlib import Path\nfrom winze.networks import build\n\n\ndef make(classes=5):\n"
FILE += "    Path(__file__).with_name('ran').touch()\n"
FILE += "    torch.manual_seed(1)\n    return build('winze/mlp3x16', classes, inputs=64)\n"


@pytest.fixture(autouse=True)
def quickly(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("winze.observe.cut.costs.ENOUGH", 0.02)
    monkeypatch.setattr("winze.report.scan.scan_page.write", lambda scans, path, *rest: Path(path).write_text("a page"))


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """The folder of a scan, with the weights that were scanned and others beside it."""
    home = tmp_path_factory.mktemp("made")
    for seed, name in ((0, "scanned"), (1, "other")):
        torch.manual_seed(seed)
        save_file(build(NET, 5, **OPTIONS).state_dict(), home / f"{name}.safetensors")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("winze.report.scan.scan_page.write", lambda scans, path, *rest: Path(path).write_text("a page"))
        weights = ("--weights", str(home / "scanned.safetensors"))
        options = ("--limit", "100", "--no-costs", "--device", "cpu")
        assert main(["scan", NET, "--data", "digits[0-4]", "--out", str(home / "out"), *weights, *options]) == DONE
    return home


def truncate(folder: Path | str, *more: str, save: str = "small.safetensors") -> int:
    return main(["truncate", str(folder), "--at", "layers.1.1", "--save", save, *more])


def changed(made: Path, conventions: dict) -> str:
    """A copy of the scan that says something else, properly sealed."""
    shutil.copytree(made / "out", "elsewhere")
    readings = Readings.load("elsewhere")
    readings.conventions = readings.conventions.having(**conventions)
    readings.save("elsewhere")
    return "elsewhere"


def said(capsys) -> str:
    shown = capsys.readouterr()
    assert shown.err.count("\n") == 1, shown.err
    return shown.err


def test_with_the_data_at_hand_the_accuracy_is_measured(made, capsys):
    assert truncate(made / "out") == DONE
    assert "measured on 100 samples" in capsys.readouterr().out


def test_other_weights_than_those_scanned_are_refused(made, capsys):
    assert truncate(made / "out", "--weights", str(made / "other.safetensors")) == BAD_INPUT
    assert "the scan is of this network with other weights" in said(capsys)
    assert not Path("small.safetensors").exists()


def test_forced_other_weights_are_cut_and_the_result_says_so(made, capsys):
    assert truncate(made / "out", "--weights", str(made / "other.safetensors"), "--force") == DONE
    assert "Forced: the scan is of this network with other weights" in capsys.readouterr().out
    assert "Forced: the scan is of" in str(winze.load("small.safetensors").cut)


def test_a_scan_from_before_fingerprints_is_refused(made, capsys):
    shutil.copytree(made / "out", "old")
    readings = Readings.load("old")
    readings.conventions = readings.conventions.having(fingerprint=None)
    readings.save("old")
    assert truncate("old") == BAD_INPUT
    assert "older winze wrote it: scan this network again" in said(capsys)


@pytest.mark.parametrize("name", ["small.pt", "small", "small.onnx.zip", "small.safetensor"])
def test_an_unknown_suffix_is_refused_before_any_work(made, name, capsys, monkeypatch):
    monkeypatch.setattr("winze.observe.Scan.load", lambda folder: pytest.fail("work was begun"))
    assert truncate(made / "out", save=name) == BAD_INPUT
    assert ".safetensors (for winze.load), .onnx or .pt2" in said(capsys)
    assert not Path(name).exists()


def test_a_device_a_pipe_and_a_folder_are_not_replaced(made, capsys):
    os.mkfifo("pipe.safetensors")
    Path("folder.safetensors").mkdir()
    Path("link.safetensors").symlink_to("/dev/null")
    for name in ("/dev/null", "pipe.safetensors", "folder.safetensors", "link.safetensors"):
        assert truncate(made / "out", save=name) == BAD_INPUT
        assert f"{name} is a" in said(capsys)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    assert Path("pipe.safetensors").is_fifo()


def test_the_file_has_the_modes_that_files_have_here(made):
    before = os.umask(0o027)
    try:
        assert truncate(made / "out") == DONE
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path("small.safetensors").stat().st_mode) == 0o640


def test_a_full_disk_is_one_line_and_leaves_nothing(made, capsys, monkeypatch):
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("winze.atomic.os.fsync", full)
    assert truncate(made / "out") == BAD_INPUT
    assert "the disk is full" in said(capsys)
    assert not list(Path().iterdir())


@pytest.mark.parametrize("name", ["small.pt2", pytest.param("small.onnx", marks=pytest.mark.slow)])
def test_programs_are_written_that_take_batches_of_any_size(made, name):
    assert truncate(made / "out", "--data", "digits[0-4]", save=name) == DONE
    assert truncate(made / "out") == DONE
    x = torch.randn(5, 1, 8, 8)
    with torch.no_grad():
        expected = winze.load("small.safetensors")(x)
    if name.endswith("pt2"):
        found = torch.export.load(name).module()(x)
    else:
        import onnxruntime

        session = onnxruntime.InferenceSession(name, providers=["CPUExecutionProvider"])
        found = torch.from_numpy(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


# A folder from elsewhere


def test_the_file_that_a_folder_names_is_not_run_unless_it_is_trusted(made, capsys):
    Path("make.py").write_text(FILE)
    folder = changed(made, {"spec": {"name": "make.py:make", "classes": 5, "options": {}, "rule": None}})
    assert truncate(folder) == BAD_INPUT
    assert "would run that file" in said(capsys)
    assert not Path("ran").exists()
    assert truncate(folder, "--trust") == DONE
    assert Path("ran").exists()


def test_a_file_that_the_caller_names_is_run(made):
    Path("make.py").write_text(FILE)
    assert truncate(made / "out", "--net", "make.py:make") == DONE


@pytest.mark.parametrize(
    "spec",
    [
        3,
        {"name": "resnet18", "options": {"pretrained": True}},
        {"name": "resnet18", "options": {"pretrained_cfg_overlay": {"url": "http://localhost/x"}}},
        {"name": "resnet18", "options": {"checkpoint_path": "x.pth"}},
        {"name": "hf-hub:timm/resnet18"},
        {"name": NET, "options": {"inputs": 1 << 40}},
        {"name": NET, "options": {"inputs": "64; x"}},
        {"name": NET, "rule": {"name": "os"}},
    ],
    ids=str,
)
def test_a_hostile_description_of_the_network_is_refused(made, spec, capsys, monkeypatch):
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("an address was asked"))
    assert truncate(changed(made, {"spec": spec})) == BAD_INPUT
    assert "scan.json" in said(capsys)


def test_a_path_in_the_place_of_a_data_set_is_not_opened_and_the_accuracy_is_an_estimate(made, monkeypatch, capsys):
    readings, name = Readings.load(made / "out"), "/etc/secrets.npz"
    readings.conventions = readings.conventions.having(data=name)
    readings.arrays = {key.replace("digits[0-4]", name): value for key, value in readings.arrays.items()}
    readings.rows = [replace(row, data=name) for row in readings.rows]
    readings.save("forged", {"weights.safetensors": (made / "out" / "weights.safetensors").read_bytes()})
    monkeypatch.setattr("winze.data.load", lambda *_, **__: pytest.fail("it was opened"))
    assert truncate("forged") == DONE
    assert "estimated by the scan" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["report", "truncate"])
@pytest.mark.parametrize("gone", ["places", "data", "layouts", "rank", "measures", "pool", "network"])
def test_conventions_that_lack_something_are_one_line(made, verb, gone, capsys):
    shutil.copytree(made / "out", "less")
    readings = Readings.load("less")
    for name in (gone, *(("layouts", "outputs") if gone == "places" else ())):
        readings.conventions = readings.conventions.having(**{name: None})
    readings.save("less")
    code = truncate("less") if verb == "truncate" else main(["report", "less"])
    assert code in (DONE, BAD_INPUT)
    assert code == DONE or gone in said(capsys)


@pytest.mark.parametrize("key", ["correct/digits[0-4]", "probe/digits[0-4]/1/weight", "probe/digits[0-4]/1/bias"])
def test_arrays_of_another_shape_are_one_line(made, key, capsys):
    shutil.copytree(made / "out", "less")
    readings = Readings.load("less")
    readings.arrays[key] = readings.arrays[key][..., :-1].reshape(-1)[:7]
    readings.save("less")
    for code in (main(["report", "less"]), truncate("less")):
        assert code in (DONE, BAD_INPUT)
    assert "Traceback" not in capsys.readouterr().err


# What a scan says of its network


def test_a_function_that_makes_its_own_weights_is_not_called_random(capsys, tmp_path):
    Path("make.py").write_text(FILE)
    options = ("--limit", "60", "--no-costs", "--no-keep", "--device", "cpu")
    net = f"{tmp_path / 'make.py'}:make"
    assert main(["scan", net, "--data", "digits[0-4]", "--out", "out", *options]) == DONE
    told = Readings.load("out").conventions
    assert told["weights"] == "as make.py:make made them"
    assert "random weights" not in capsys.readouterr().err


def test_no_path_of_this_machine_is_stored(tmp_path):
    Path("make.py").write_text(FILE)
    save_file(build(NET, 5, **OPTIONS).state_dict(), "w.safetensors")
    options = ("--limit", "60", "--no-costs", "--device", "cpu", "--weights", str(tmp_path / "w.safetensors"))
    assert main(["scan", f"{tmp_path / 'make.py'}:make", "--data", "digits[0-4]", "--out", "out", *options]) == DONE
    assert str(tmp_path) not in Path("out/scan.json").read_text()
    assert str(tmp_path).encode() not in Path("out/weights.safetensors").read_bytes()


def test_a_lightning_checkpoint_is_scanned(made):
    weights = {f"net.{key}": value for key, value in build(NET, 7, **OPTIONS).state_dict().items()}
    torch.save({"state_dict": weights, "epoch": 3, "hyper_parameters": {"lr": 0.1}}, "last.ckpt")
    options = ("--limit", "60", "--no-costs", "--device", "cpu", "--weights", "last.ckpt")
    assert main(["scan", NET, "--data", "digits[0-4]", "--out", "out", *options]) == DONE
    told = Readings.load("out").conventions
    assert told["spec"]["classes"] == 7
    assert told["weights"]["sha256"] == hashlib.sha256(Path("last.ckpt").read_bytes()).hexdigest()
