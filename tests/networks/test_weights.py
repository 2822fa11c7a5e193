import os
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from winze.networks import MLP, NetworkError, load_weights, read_weights


@pytest.fixture
def trained():
    return MLP(4, 6, 2, 3)


@pytest.fixture
def fresh():
    return MLP(4, 6, 2, 3)


def same(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


class Evil:
    def __reduce__(self):
        return os.mkdir, ("evil_was_here",)


def test_safetensors_come_back(trained, fresh, tmp_path):
    save_file(trained.state_dict(), tmp_path / "w.safetensors")
    assert same(load_weights(fresh, tmp_path / "w.safetensors"), trained)


def test_the_format_is_known_by_content_not_by_name(trained, fresh, tmp_path):
    save_file(trained.state_dict(), tmp_path / "w.pth")
    assert same(load_weights(fresh, tmp_path / "w.pth"), trained)


@pytest.mark.parametrize("legacy", [False, True])
def test_a_torch_checkpoint_comes_back(trained, fresh, tmp_path, legacy):
    torch.save(trained.state_dict(), tmp_path / "w.pt", _use_new_zipfile_serialization=not legacy)
    assert same(load_weights(fresh, tmp_path / "w.pt"), trained)


@pytest.mark.parametrize("nest", ["state_dict", "model", "model_state_dict"])
def test_a_nested_checkpoint_is_opened(trained, fresh, tmp_path, nest):
    torch.save({nest: trained.state_dict(), "epoch": 3, "optimizer": {"lr": 0.1}}, tmp_path / "w.pt")
    assert same(load_weights(fresh, tmp_path / "w.pt"), trained)


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod."])
def test_the_prefix_of_a_wrapper_is_taken_off(trained, fresh, tmp_path, prefix):
    torch.save({prefix + key: value for key, value in trained.state_dict().items()}, tmp_path / "w.pt")
    assert same(load_weights(fresh, tmp_path / "w.pt"), trained)


def test_a_prefix_that_only_some_names_have_stays(tmp_path):
    torch.save({"module.a": torch.zeros(1), "b": torch.zeros(1)}, tmp_path / "w.pt")
    assert set(read_weights(tmp_path / "w.pt")) == {"module.a", "b"}


def test_a_pickle_with_code_is_refused_and_its_code_does_not_run(fresh, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": Evil()}, "w.pt")
    with pytest.raises(NetworkError, match=r"refused: it is a pickle with code in it \(posix.mkdir\).*state_dict"):
        load_weights(fresh, "w.pt")
    assert not Path("evil_was_here").exists()


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_bare_pickle_with_code_is_refused_and_its_code_does_not_run(protocol, fresh, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("w.pkl").write_bytes(pickle.dumps({"weight": Evil()}, protocol))
    with pytest.raises(NetworkError, match=r"w\.pkl is refused: it is a pickle with code in it \(posix.mkdir\)"):
        load_weights(fresh, "w.pkl")
    assert not Path("evil_was_here").exists()


def test_a_whole_pickled_network_is_refused(trained, fresh, tmp_path):
    torch.save(trained, tmp_path / "w.pt")
    with pytest.raises(NetworkError, match="pickle with code in it"):
        load_weights(fresh, tmp_path / "w.pt")


def test_missing_and_unexpected_names_are_listed(trained, fresh, tmp_path):
    state = trained.state_dict()
    state["extra"] = state.pop("output.bias")
    torch.save(state, tmp_path / "w.pt")
    with pytest.raises(NetworkError, match=r"1 missing \(output.bias\); 1 unexpected \(extra\)"):
        load_weights(fresh, tmp_path / "w.pt")


def test_a_long_list_of_names_is_cut(tmp_path):
    torch.save({"a": torch.zeros(1)}, tmp_path / "w.pt")
    with pytest.raises(NetworkError, match=r"8 missing \(.* and 3 more\)"):
        load_weights(MLP(4, 6, 3, 3), tmp_path / "w.pt")


def test_other_shapes_are_told_on_both_sides(fresh, tmp_path):
    torch.save(MLP(4, 6, 2, 5).state_dict(), tmp_path / "w.pt")
    with pytest.raises(NetworkError, match=r"output\.weight is 5x6 in the file, 3x6 in the network"):
        load_weights(fresh, tmp_path / "w.pt")


def test_a_file_that_does_not_fit_leaves_the_network_as_it_was(fresh, tmp_path):
    before = {key: value.clone() for key, value in fresh.state_dict().items()}
    torch.save(MLP(4, 6, 2, 5).state_dict(), tmp_path / "w.pt")
    with pytest.raises(NetworkError):
        load_weights(fresh, tmp_path / "w.pt")
    assert all(torch.equal(value, before[key]) for key, value in fresh.state_dict().items())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not a checkpoint"),
        (b"hello, world", "not a checkpoint"),
        (b"PK\x03\x04 but no archive", "damaged or not a checkpoint"),
        (b"\x80\x02 but no pickle", "damaged or not a checkpoint"),
        (b"\x08\x00\x00\x00\x00\x00\x00\x00{}", "no whole safetensors file"),
    ],
)
def test_a_file_that_is_no_checkpoint_is_named(fresh, tmp_path, content, said):
    (tmp_path / "w").write_bytes(content)
    with pytest.raises(NetworkError, match=said) as caught:
        load_weights(fresh, tmp_path / "w")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["pt", "safetensors"])
def test_a_checkpoint_that_was_cut_short_is_named(trained, fresh, tmp_path, kind):
    file = tmp_path / f"w.{kind}"
    torch.save(trained.state_dict(), file) if kind == "pt" else save_file(trained.state_dict(), file)
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(NetworkError, match=r"cut short|damaged"):
        load_weights(fresh, file)


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (torch.zeros(3), "holds a Tensor, not a dict"),
        ({}, "holds nothing"),
        ({"a": 1, "b": torch.zeros(1)}, "it holds a beside tensors"),
    ],
)
def test_a_checkpoint_without_weights_is_told_from_one_with(tmp_path, held, said):
    torch.save(held, tmp_path / "w.pt")
    with pytest.raises(NetworkError, match=said):
        read_weights(tmp_path / "w.pt")


def test_a_missing_file_and_a_folder_are_told(tmp_path):
    with pytest.raises(NetworkError, match="there is no such file"):
        read_weights(tmp_path / "nowhere.pt")
    with pytest.raises(NetworkError, match="is a folder"):
        read_weights(tmp_path)
