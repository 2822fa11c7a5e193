import os
import pickle
import zipfile
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
        (b"\x08\x00\x00\x00\x00\x00\x00\x00{}", "not a whole safetensors file"),
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


# Names with a prefix, and archives that are more than they seem


@pytest.mark.parametrize("prefix", ["net.", "model.", "model.backbone.", "student._orig_mod."])
def test_one_prefix_before_every_name_is_taken_off(tmp_path, prefix):
    trained, net = nn.Linear(3, 2), nn.Linear(3, 2)
    state = {f"{prefix}{key}": value for key, value in trained.state_dict().items()}
    torch.save({"state_dict": state, "epoch": 3, "hyper_parameters": {"lr": 0.1}}, tmp_path / "last.ckpt")
    load_weights(net, tmp_path / "last.ckpt")
    assert torch.equal(net.weight, trained.weight)


def test_what_a_checkpoint_holds_beside_the_network_is_said(tmp_path):
    state = {f"net.{key}": value for key, value in nn.Linear(3, 2).state_dict().items()}
    torch.save({"state_dict": state | {"loss.weight": torch.ones(2)}}, tmp_path / "last.ckpt")
    with pytest.warns(UserWarning, match=r"last\.ckpt: 1 entries are not used \(loss\.weight\)"):
        load_weights(nn.Linear(3, 2), tmp_path / "last.ckpt")


def test_two_networks_that_fit_are_not_chosen_from(tmp_path):
    states = {f"{name}.{key}": value for name in "ab" for key, value in nn.Linear(3, 2).state_dict().items()}
    torch.save(states, tmp_path / "both.pt")
    with pytest.raises(NetworkError, match=r"both\.pt holds several networks of this kind, under a\. and b\."):
        load_weights(nn.Linear(3, 2), tmp_path / "both.pt")


def test_weights_go_into_a_wrapped_network(tmp_path):
    trained, net = nn.Linear(3, 2), nn.DataParallel(nn.Linear(3, 2))
    torch.save(trained.state_dict(), tmp_path / "net.pt")
    assert torch.equal(load_weights(net, tmp_path / "net.pt").module.weight, trained.weight)


def test_an_archive_that_unpacks_to_more_than_it_is_is_not_unpacked(tmp_path, monkeypatch):
    torch.save({"weight": torch.zeros(1 << 16)}, tmp_path / "plain.pt")
    with zipfile.ZipFile(tmp_path / "plain.pt") as plain, zipfile.ZipFile(tmp_path / "bomb.pt", "w", 8) as bomb:
        for name in plain.namelist():
            bomb.writestr(name, plain.read(name))
    monkeypatch.setattr("torch.load", lambda *_, **__: pytest.fail("it was unpacked"))
    with pytest.raises(NetworkError, match=r"bomb\.pt is refused: it has .* MB and would unpack to .* MB"):
        read_weights(tmp_path / "bomb.pt")


@pytest.mark.parametrize("kind", [torch.int64, torch.complex64, torch.bool])
def test_weights_that_are_no_floats_are_refused(trained, fresh, tmp_path, kind):
    save_file({key: value.to(kind) for key, value in trained.state_dict().items()}, tmp_path / "net.safetensors")
    before = [value.clone() for value in fresh.state_dict().values()]
    with pytest.raises(NetworkError, match=f"weight is {kind} and not torch.float32"):
        load_weights(fresh, tmp_path / "net.safetensors")
    assert all(map(torch.equal, before, fresh.state_dict().values()))
