import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from winze import cli, observe
from winze.cli import BAD_INPUT, DONE, INTERRUPTED, demo, main
from winze.cli.compare import named
from winze.cli.demo import last
from winze.cli.exit_codes import printable_lines
from winze.cli.folder import claimed
from winze.networks import MLP
from winze.readings import Readings

SMALL = ["--limit", "200", "--no-costs", "--device", "cpu"]
NET = "winze/mlp3x16"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WINZE_TRACEBACK", raising=False)
    return tmp_path


def blank_page(scans, path):
    """Stands in for the report, which has its own tests and takes seconds."""
    path.write_text("a page about " + ", ".join(scans))


@pytest.fixture(autouse=True)
def quick_reports(request, monkeypatch):
    if request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr("winze.report.scan.scan_page.write", blank_page)


@pytest.fixture(scope="session")
def scanned(tmp_path_factory):
    """A folder that `winze scan` wrote, to be read only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("winze.report.scan.scan_page.write", blank_page)
        return scan_into(tmp_path_factory.mktemp("scanned") / "out")


def scan_into(folder):
    torch.manual_seed(1)
    save_file(MLP(64, 16, 3, 5).state_dict(), folder.parent / "w.safetensors")
    weights = ["--weights", str(folder.parent / "w.safetensors")]
    argv = ["scan", NET, "--data", "digits[0-4]", "--ood", "digits[5-9]", *weights, "--out", str(folder), *SMALL]
    assert main(argv) == DONE
    return folder


def said(capsys) -> str:
    """The one line on stderr."""
    captured = capsys.readouterr()
    assert captured.err.startswith("winze: ")
    assert captured.err.count("\n") == 1, captured.err
    assert "Traceback" not in captured.err
    return captured.err


def test_help_names_every_verb_and_is_done(capsys):
    assert main(["--help"]) == DONE
    shown = capsys.readouterr().out
    assert all(f"• {verb}" in shown for verb in cli.VERBS)


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_has_help(verb, capsys):
    assert main([verb, "--help"]) == DONE
    shown = capsys.readouterr().out
    assert f"usage: winze {verb}" in shown
    assert not re.search(r"\(default:\s*(None)?\)|\{None", shown), "a default is written in words"


def test_no_words_at_all_show_the_help(capsys):
    assert main([]) == DONE
    assert "usage: winze" in capsys.readouterr().out


def test_the_version_is_the_packages(capsys):
    from winze import __version__

    assert main(["--version"]) == DONE
    assert capsys.readouterr().out == f"winze {__version__}\n"


def test_python_m_winze_is_winze():
    done = subprocess.run([sys.executable, "-m", "winze", "scna"], capture_output=True, text=True, env=os.environ)
    assert done.returncode == BAD_INPUT
    assert done.stderr == "winze: there is no command 'scna'; did you mean scan?\n"


BAD = [
    (["scna"], "did you mean scan?"),
    (["qqqq"], "there are demo, scan, truncate"),
    (["scan"], "Missing from winze scan: NET, --data D, --out DIR"),
    (["scan", NET, "--data", "digits"], "Missing from winze scan: --out DIR"),
    (["scan", NET, "--data", "digits", "--out", "o", "--colour", "red"], "Unrecognized options: --colour"),
    (["scan", NET, "--data", "digits", "--out", "o", "--batch", "many"], "winze: --batch cannot be 'many' (see"),
    (["scan", NET, "--data", "digits", "--out", "o", "--limit", "many"], "winze: --limit cannot be 'many' (see"),
    (["scan", NET, "--data", "digits", "--out", "o", "--probe", "guess"], "--probe is one of adam, ridge, not 'guess'"),
    (["scan", NET, "--data", "digits", "--out", "o", "--embed", "x"], "--embed is one of pca, tsne, umap, not 'x'"),
    (["scan", NET, "--out", "o", "--data"], "winze: --data needs a value (see"),
    (["scan", NET, "--data", "digits", "--out", "o", "--device", "gpu"], "write cpu, cuda or cuda:1"),
    (["scan", NET, "--data", "digits", "--out", "o", "--pool", "max"], "--pool is mean, flatten, token"),
    (["scan", NET, "--data", "digits", "--out", "o", "--pool", "0"], "--pool is mean, flatten, token"),
    (["scan", NET, "--data", "digits", "--out", "o", "--limit", "3"], "below the number of classes"),
    (["scan", NET, "--data", "digits", "--out", "o", "--limit", "-1"], "must be at least 1"),
    (["scan", NET, "--data", "digits", "--out", "o", "--batch", "0", "--limit", "50"], "batch"),
    (["scan", NET, "--data", "digits", "--out", "o", "--device", "abacus"], "device 'abacus' cannot be used"),
    (["scan", NET, "--data", "digits", "--ood", "digits", "--out", "o"], "name 'digits' twice"),
    (["scan", NET, "--data", "digist", "--out", "o"], "did you mean digits"),
    (["scan", NET, "--data", "no/where", "--out", "o"], "no such folder"),
    (["scan", NET, "--data", "digits[0-99]", "--out", "o"], "out of range"),
    (["scan", NET, "--data", "digits[3]", "--out", "o"], "class"),
    (["scan", NET, "--data", "digits", "--ood", "digist", "--out", "o"], "did you mean digits"),
    (["scan", "resnet81", "--data", "digits", "--out", "o"], "unknown network 'resnet81'"),
    (["scan", "torchvision/resnet81", "--data", "digits", "--out", "o"], "torchvision has no network"),
    (["scan", "winze/mpl3", "--data", "digits", "--out", "o"], "unknown network"),
    (["scan", "nowhere.py:net", "--data", "digits", "--out", "o"], "there is no such file"),
    (["scan", "bad.py:net", "--data", "digits", "--out", "o"], "line 1 cannot be imported: ZeroDivisionError"),
    (["scan", "net.py:nte", "--data", "digits", "--out", "o"], "did you mean net"),
    (["scan", "net.py:net", "--data", "digits", "--out", "o"], "does not take digits as 1x8x8"),
    (["scan", NET, "--data", "digits", "--out", "o", "--pretrained"], "no published weights"),
    (["scan", NET, "--data", "digits", "--out", "o", "--normalise", "network"], "use --normalise data"),
    (["scan", NET, "--data", "digits", "--out", "o", "--weights", "nowhere.pt"], "no such file of weights"),
    (["scan", NET, "--data", "digits", "--out", "o", "--weights", "text.pt"], "is not a checkpoint"),
    (["scan", NET, "--data", "digits", "--out", "o", "--weights", "evil.pt"], "refused: it is a pickle with code"),
    (["scan", NET, "--data", "digits", "--out", "o", "--weights", "other.pt"], "does not fit MLP"),
    (["scan", NET, "--data", "digits", "--out", "o", "--weights", "other.pt", "--pretrained"], "exclude each other"),
    (["scan", NET, "--data", "digits", "--out", "o", "--places", "layer.0", *SMALL], "layers.0"),
    (["scan", NET, "--data", "digits", "--out", "text.pt"], "is a file"),
    (["scan", NET, "--data", "digits", "--out", "full"], "holds other files"),
    (["scan", NET, "--data", "digits", "--out", "text.pt/deep"], "not a folder"),
    (["demo", "--epochs", "0"], "--epochs is at least 1, not 0"),
    (["demo", "--out", "full"], "full holds other files"),
    (["data", "--root", "nowhere"], "--root: there is no folder nowhere"),
    (["truncate"], "Missing from winze truncate"),
    (["truncate", "nowhere", "--save", "o.safetensors"], "nowhere is not a folder of readings"),
    (["truncate", "full", "--save", "o.safetensors"], "full is not a folder of readings"),
    (["truncate", "nowhere", "--save", "full"], "full is a folder"),
    (["compare", "full", "--out", "o"], "two scans or more"),
    (["compare", "full", "full", "--out", "o"], "given twice"),
    (["compare", "full", "nowhere", "--out", "o"], "not a folder of readings"),
    (["report", "nowhere"], "not a folder of readings"),
    (["junctions", "resnet81"], "unknown network"),
    (["demo", "--seed", "x"], "--seed"),
    (["demo", "--out", "text.pt"], "not a folder"),
]


class Evil:
    def __reduce__(self):
        return os.mkdir, ("o",)


@pytest.mark.parametrize(("argv", "words"), BAD, ids=[" ".join(argv) for argv, _ in BAD])
def test_bad_input_gets_one_line_the_code_2_and_writes_nothing(argv, words, elsewhere, capsys):
    (elsewhere / "text.pt").write_text("no weights at all")
    (elsewhere / "full").mkdir()
    (elsewhere / "full" / "thesis.tex").write_text("precious")
    (elsewhere / "bad.py").write_text("1 / 0\n")
    (elsewhere / "net.py").write_text("from torch import nn\ndef net():\n    return nn.Linear(3, 3)\n")
    torch.save(MLP(64, 8, 3, 10).state_dict(), elsewhere / "other.pt")
    torch.save(Evil(), elsewhere / "evil.pt")
    before = sorted(path.name for path in elsewhere.rglob("*") if path.suffix != ".pyc" and path.name != "__pycache__")
    assert main(argv) == BAD_INPUT
    err = capsys.readouterr().err
    *notes, line = err.splitlines()
    assert words in line
    assert all(note.startswith(("winze: input", "winze: the network has random")) for note in notes)
    after = sorted(path.name for path in elsewhere.rglob("*") if path.suffix != ".pyc" and path.name != "__pycache__")
    assert after == before


def test_a_fault_of_ours_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr("winze.data.available", lambda root: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["data"])


def test_a_traceback_can_be_asked_for(monkeypatch):
    monkeypatch.setenv("WINZE_TRACEBACK", "1")
    with pytest.raises(ValueError, match="scna"):
        main(["scna"])


def test_an_interrupt_gives_130_and_leaves_nothing(monkeypatch, elsewhere, capsys):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(observe, "scan", interrupted)
    assert main(["scan", NET, "--data", "digits", "--out", "o"]) == INTERRUPTED
    assert "interrupted" in capsys.readouterr().err
    assert not list(elsewhere.iterdir())


def test_a_disk_that_fills_up_while_writing_leaves_nothing(monkeypatch, elsewhere, capsys):
    def full(self, folder, beside=None):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Readings, "save", full)
    assert main(["scan", NET, "--data", "digits", "--out", "o", *SMALL]) == BAD_INPUT
    assert "No space left on device" in capsys.readouterr().err
    assert not list(elsewhere.iterdir())


HUNGRY = """
import torch
from torch import nn

class Hungry(nn.Module):
    def forward(self, x):
        if len(x) > {most}:
            torch.empty(1 << 50)
        return x

def make(classes):
    parts = nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), Hungry(), nn.Linear(8, classes)
    return nn.Sequential(nn.Flatten(), *parts)
"""


@pytest.mark.parametrize(
    ("most", "words"),
    [
        (3, "winze: digits train, after place '4', the last one reached: memory ran out (asked for 4503599627370496"),
        (0, "winze: hungry.py:make, two samples of digits: memory ran out (asked for 4503599627370496 bytes); make"),
    ],
)
def test_memory_that_runs_out_gets_one_line_the_code_2_and_writes_nothing(most, words, elsewhere, capsys):
    (elsewhere / "hungry.py").write_text(HUNGRY.format(most=most))
    where = ["--places", "2", "4", "6"]
    assert main(["scan", "hungry.py:make", "--data", "digits", "--out", "o", *where, *SMALL]) == BAD_INPUT
    err = capsys.readouterr().err
    assert err.splitlines()[-1].startswith(words)
    assert "Traceback" not in err
    assert most == 0 or "(--batch, --max-features, --memory)" in err
    assert not (elsewhere / "o").exists()
    assert not list(elsewhere.glob(".*"))


def test_memory_that_runs_out_elsewhere_is_bad_input_too(monkeypatch, capsys):
    monkeypatch.setattr("winze.data.available", lambda root: torch.empty(1 << 50))
    assert main(["data"]) == BAD_INPUT
    assert "can't allocate memory" in said(capsys)


@pytest.mark.parametrize("memory", ["0", "-1", "inf", "nan"])
def test_a_memory_that_is_no_size_is_refused(memory, capsys):
    assert main(["scan", NET, "--data", "digits", "--out", "o", "--memory", memory]) == BAD_INPUT
    assert "--memory is a number of gigabytes above 0" in said(capsys)


def test_data_lists_what_is_at_hand(capsys):
    assert main(["data"]) == DONE
    digits = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("digits"))
    assert digits.split() == ["digits", "1347", "450", "10", "1x8x8", "scikit-learn"]


def test_junctions_prints_the_table(capsys):
    assert main(["junctions", "winze/resmlp3x8"]) == DONE
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [[str(i), f"layers.{i}", "identity"] for i in range(3)]


def test_a_network_without_junctions_has_none(capsys):
    assert main(["junctions", "winze/mlp3x8"]) == DONE
    assert capsys.readouterr().out == "no junctions\n"


def test_a_scan_writes_readings_a_report_and_the_weights(scanned):
    names = {path.name for path in scanned.iterdir()}
    assert {"readings.csv", "arrays.npz", "scan.json", "report.html", "weights.safetensors"} <= names
    kept, given = load_file(scanned / "weights.safetensors"), load_file(scanned.parent / "w.safetensors")
    assert all(torch.equal(kept[key], given[key]) for key in given)


def test_a_scan_tells_how_it_was_made(scanned):
    told = Readings.load(scanned).conventions
    assert told["network"] == NET
    assert told["data"] == "digits[0-4]"
    assert told["ood"] == ["digits[5-9]"]
    assert told["classes"] == list("01234")
    assert told["preprocess"]["size"] == [8, 8]
    assert told["spec"] == {"name": NET, "classes": 5, "options": {"inputs": 64}, "rule": None}
    assert len(told["weights"]["sha256"]) == len(told["kept"]) == 64


def test_a_scan_prints_its_summary_and_the_path_of_the_report(capsys):
    assert main(["scan", NET, "--data", "digits", "--out", "o", *SMALL]) == DONE
    shown = capsys.readouterr()
    assert shown.out.splitlines()[-1] == os.path.join("o", "report.html")  # noqa: PTH118
    assert observe.Scan.load("o").summary() in shown.out
    assert "random weights" in shown.err


@pytest.mark.parametrize("net", ["winze/vgg11x0.05", "winze/resnet20x0.25"])
def test_a_network_for_images_takes_its_channels_from_the_data(net, elsewhere):
    assert main(["scan", net, "--data", "digits[0-4]", "--out", "out", *SMALL]) == DONE
    assert Readings.load(elsewhere / "out").conventions["spec"]["options"] == {"channels": 1}


def test_a_second_scan_takes_the_place_of_the_first():
    for data in ("digits[0-4]", "digits[5-9]"):
        assert main(["scan", NET, "--data", data, "--out", "o", *SMALL]) == DONE
    assert Readings.load("o").conventions["data"] == "digits[5-9]"


def test_weights_are_not_kept_where_that_was_asked(elsewhere, capsys):
    assert main(["scan", NET, "--data", "digits", "--out", "o", "--no-keep", *SMALL]) == DONE
    assert not (elsewhere / "o" / "weights.safetensors").exists()
    capsys.readouterr()
    assert main(["truncate", "o", "--save", "small.safetensors"]) == BAD_INPUT
    assert "give --weights" in said(capsys)


def test_the_options_of_a_scan_reach_it(monkeypatch):
    seen = {}

    def stand_in(net, train, test, **options):
        seen.update(options)
        raise KeyboardInterrupt

    monkeypatch.setattr(observe, "scan", stand_in)
    options = "--places layers.* output --pool 2 --probe adam --batch 32 --embed pca --no-costs --seed 3 --device cpu"
    options += " --max-features 99 --memory 0.5 --layout BLC"
    main(["scan", NET, "--data", "digits", "--out", "o", *options.split()])
    assert (seen["places"], seen["pool"], seen["probe"]) == (("layers.*", "output"), 2, "adam")
    assert (seen["batch"], seen["embed"], seen["layout"], seen["seed"]) == (32, "pca", "BLC", 3)
    assert seen["device"] == torch.device("cpu")
    assert (seen["max_features"], seen["memory"]) == (99, 1 << 29)


@pytest.mark.parametrize(("given", "passed"), [([], None), (["--places", "layers"], "layers")])
def test_one_word_for_places_stays_a_word(monkeypatch, given, passed):
    seen = {}

    def stand_in(net, train, test, **options):
        seen.update(options)
        raise KeyboardInterrupt

    monkeypatch.setattr(observe, "scan", stand_in)
    main(["scan", NET, "--data", "digits", "--out", "o", *given])
    assert seen["places"] == passed


def test_a_network_from_a_file_is_scanned(elsewhere):
    (elsewhere / "mine.py").write_text(
        "from torch import nn\n"
        "def make(classes):\n"
        "    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 6, 3), nn.ReLU(), nn.Flatten(),"
        " nn.Linear(96, classes))\n"
    )
    assert main(["scan", "mine.py:make", "--data", "digits", "--out", "o", *SMALL]) == DONE
    assert Readings.load("o").conventions["preprocess"]["channels"] == 3


def input_of(monkeypatch, *argv: str) -> tuple[int, ...]:
    """The shape of one sample as the scanned network gets it."""
    shapes = []

    def stand_in(net, train, test, **options):
        shapes.append(tuple(next(iter(test))[0].shape[1:]))
        raise KeyboardInterrupt

    monkeypatch.setattr(observe, "scan", stand_in)
    main(["scan", *argv, "--data", "digits", "--out", "o", "--limit", "20", "--batch", "2"])
    return shapes[0]


def test_fresh_weights_take_the_size_of_the_data(monkeypatch):
    assert input_of(monkeypatch, "test_resnet", "--size", "64") == (3, 64, 64)
    assert input_of(monkeypatch, "test_resnet") == (3, 8, 8)


def test_published_weights_take_the_size_of_the_network(monkeypatch):
    from winze.networks import build

    torch.save(build("test_resnet").state_dict(), "published.pt")
    assert input_of(monkeypatch, "test_resnet", "--weights", "published.pt") == (3, 160, 160)


def test_weights_for_other_classes_take_the_size_of_the_data(monkeypatch):
    from winze.networks import build

    torch.save(build("test_resnet", 7).state_dict(), "own.pt")
    assert input_of(monkeypatch, "test_resnet", "--weights", "own.pt") == (3, 8, 8)


def test_a_network_of_one_size_gets_it(monkeypatch):
    assert input_of(monkeypatch, "test_vit") == (3, 160, 160)


def test_truncate_rebuilds_the_network_from_the_folder(scanned, elsewhere, capsys):
    assert main(["truncate", str(scanned), "--at", "layers.1.1", "--save", "deep/small.safetensors"]) == DONE
    assert "layers.1.1" in capsys.readouterr().out
    small = observe.load("deep/small.safetensors")
    assert isinstance(small, nn.Module)
    assert small(torch.zeros(2, 1, 8, 8)).shape == (2, 5)


def test_an_unknown_place_is_answered_with_the_nearest(scanned, elsewhere, capsys):
    assert main(["truncate", str(scanned), "--at", "layer.1", "--save", "small.safetensors"]) == BAD_INPUT
    assert "layers.1" in said(capsys)
    assert not list(elsewhere.iterdir())


def test_weights_that_changed_after_the_scan_are_noticed(scanned, elsewhere, capsys):
    import shutil

    shutil.copytree(scanned, "copy")
    file = elsewhere / "copy" / "weights.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert main(["truncate", "copy", "--save", "small.safetensors"]) == BAD_INPUT
    assert "changed after the scan" in said(capsys)


def test_a_scan_made_in_python_has_to_be_told_its_network(scanned, elsewhere, capsys):
    readings = Readings.load(scanned)
    readings.conventions = readings.conventions.having(spec=None)
    readings.save("bare")
    assert main(["truncate", "bare", "--save", "small.safetensors"]) == BAD_INPUT
    assert "give --net and --weights" in said(capsys)


def test_compare_writes_one_page(scanned, elsewhere, capsys):
    Readings.load(scanned).save("again")
    assert main(["compare", str(scanned), "again", "--out", "both.html"]) == DONE
    assert (elsewhere / "both.html").read_text() == "a page about out, again"
    assert "\nagain\n" in capsys.readouterr().out


def test_report_writes_the_page_again(scanned, elsewhere, capsys):
    assert main(["report", str(scanned), "--out", "page.html"]) == DONE
    assert (elsewhere / "page.html").read_text() == f"a page about {NET}"
    assert capsys.readouterr().out.endswith("page.html\n")


def test_tampered_readings_are_noticed(scanned, elsewhere, capsys):
    Readings.load(scanned).save("bad")
    file = elsewhere / "bad" / "readings.csv"
    file.write_text(file.read_text() + "one more line\n")
    assert main(["report", "bad"]) == BAD_INPUT
    assert "changed after it was saved" in said(capsys)


def test_scans_are_named_by_the_shortest_ends_of_their_paths(elsewhere):
    paths = [elsewhere / "a" / "x", elsewhere / "b" / "x", elsewhere / "y"]
    assert list(named(tuple(paths))) == ["a/x", "b/x", f"{elsewhere.name}/y"]
    assert list(named(tuple(paths[1:]))) == ["x", "y"]


def test_the_demo_writes_three_scans_and_their_comparison(elsewhere, capsys):
    assert main(["demo", "--epochs", "1"]) == DONE
    for name in ("mlp", "plain", "decayed"):
        assert Readings.load(elsewhere / "demo" / name).conventions["ood"] == ["digit_sums[5-9]"]
    shown = capsys.readouterr().out
    assert "Decayed shortcuts: rank" in shown
    assert shown.splitlines()[-1] == os.path.join("demo", "report.html")  # noqa: PTH118
    rule = json.loads((elsewhere / "demo" / "decayed" / "scan.json").read_text())["conventions"]["spec"]["rule"]
    assert rule == {"name": "DecayedIdentity", "alpha_min": 0.4}


def check_demo(scans):
    """What the demo is to show: a tunnel from mid-network on, OOD accuracy lost in it, and decayed against plain."""
    start = scans["mlp"].tunnel().start
    assert 3 <= start.index + 1 <= 5
    other = scans["mlp"].curve("probe", "digit_sums[5-9]")
    assert other[start.index] - other[-1] > 0.05
    assert last(scans["decayed"], "numerical_rank") < 0.7 * last(scans["plain"], "numerical_rank")
    assert last(scans["decayed"], "accuracy") > last(scans["plain"], "accuracy") - 0.02


@pytest.mark.slow
def test_the_demo_shows_its_point_and_its_cut_saves_about_half(elsewhere):
    assert main(["demo"]) == DONE
    scans = {name: observe.Scan.load(elsewhere / "demo" / name) for name in ("mlp", "plain", "decayed")}
    check_demo(scans)
    start = scans["mlp"].tunnel().start.index
    assert scans["mlp"].curve("probe")[start] > 0.95 * last(scans["mlp"], "accuracy")
    assert 0.4 < scans["mlp"].curve("cut_flops")[start] / last(scans["mlp"], "flops") < 0.75


@pytest.mark.slow
def test_the_demo_shows_its_point_for_another_seed(elsewhere, monkeypatch):
    """The same networks in half the epochs; cuts, which are timed, are left out."""
    read = observe.scan
    measures = ("probe", "rank")
    plainly = lambda *args, embed, costs, **options: read(*args, measures=measures, **options)  # noqa: E731
    monkeypatch.setattr(observe, "scan", plainly)
    shown = demo.DemoVerb(elsewhere / "demo", 1, 15)
    with demo._one_thread():
        check_demo({part.name: shown._scanned(part) for part in demo._parts()})


def test_an_interrupt_while_cuts_are_timed_keeps_the_readings(monkeypatch, elsewhere, capsys):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["winze.observe.scan"], "add_costs", interrupted)
    assert main(["scan", NET, "--data", "digits", "--out", "o", "--limit", "60"]) == INTERRUPTED
    assert "the readings are in o, `winze report o` writes their page" in capsys.readouterr().err
    assert main(["report", "o"]) == DONE
    assert {path.name for path in (elsewhere / "o").iterdir()} >= {"report.html", "scan.json", "weights.safetensors"}


def test_a_scan_that_is_replaced_is_told_and_its_page_goes_with_it(monkeypatch, elsewhere, capsys):
    assert main(["scan", NET, "--data", "digits", "--out", "o", *SMALL]) == DONE
    assert "will be replaced" not in capsys.readouterr().err
    monkeypatch.setattr(observe.Scan, "report", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["scan", NET, "--data", "digits", "--out", "o", *SMALL])
    assert "winze: o holds a scan, which will be replaced" in capsys.readouterr().err
    assert not (elsewhere / "o" / "report.html").exists()


def test_a_folder_that_is_being_scanned_into_is_refused(elsewhere, capsys):
    with claimed(elsewhere / "o"):
        assert main(["scan", NET, "--data", "digits", "--out", "o", *SMALL]) == BAD_INPUT
        assert "another process is scanning into o" in capsys.readouterr().err
    assert not list(elsewhere.iterdir())
    assert main(["scan", NET, "--data", "digits", "--out", "o", *SMALL]) == DONE
    assert not list((elsewhere / "o").glob(".*"))


def test_what_a_killed_scan_left_is_removed(elsewhere):
    for name in (".o.999999999", ".o.txt", ".p.999999999"):
        (elsewhere / name).mkdir()
    with claimed(elsewhere / "o"):
        pass
    assert {path.name for path in elsewhere.iterdir()} == {".o.txt", ".p.999999999"}


def test_readings_name_no_folder_of_this_machine(elsewhere):
    generator = np.random.default_rng(0)
    arrays = {"x_train": generator.random((40, 12)), "x_test": generator.random((40, 12))}
    labels = {"y_train": np.arange(40) % 2, "y_test": np.arange(40) % 2}
    np.savez(elsewhere / "mine.npz", **{key: x.astype("f4") for key, x in arrays.items()}, **labels)
    assert main(["scan", NET, "--data", str(elsewhere / "mine.npz"), "--out", "o", *SMALL]) == DONE
    for file in ("scan.json", "readings.csv"):
        assert str(elsewhere) not in (elsewhere / "o" / file).read_text()


def test_names_from_files_give_a_terminal_no_orders():
    assert printable_lines("layer \x1b[31m1\x1b[0m\r\nnext\x07") == "layer ?[31m1?[0m\nnext?"


def test_report_writes_the_page_of_a_sequence_of_tasks(tmp_path, capsys):
    from winze.observe.sequence import store_matrix

    readings = Readings()
    readings.declare(network="MLP", data="digits", tasks=["task 1", "task 2"], incremental="task")
    store_matrix(readings, {"task 1": 90, "task 2": 90}, np.array([[0.9, 0.2], [0.7, 0.9]]), np.array([0.5, 0.5]))
    readings.save(tmp_path / "kept")
    assert main(["report", str(tmp_path / "kept")]) == DONE
    assert "forgetting 20.0 points" in capsys.readouterr().out
    assert "Accuracy matrix" in (tmp_path / "kept" / "report.html").read_text(encoding="utf-8")
