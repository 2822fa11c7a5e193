"""What `winze.load` says of files that are no network of winze's."""

import os
import pickle
from pathlib import Path

import pytest
import torch

import winze
from winze.networks import read_weights


def test_a_checkpoint_of_tensors_alone_is_refused_with_what_to_call(tmp_path):
    torch.save({"weight": torch.ones(2)}, tmp_path / "net.pt")
    with pytest.raises(ValueError, match=r"net\.pt is not a safetensors file: .*load_weights\(net, file\)"):
        winze.load(tmp_path / "net.pt")


class Evil:
    def __reduce__(self):
        return os.mkdir, ("evil_was_here",)


@pytest.mark.parametrize("bare", [True, False])
def test_a_pickle_is_refused_as_weights_in_one_are_and_its_code_does_not_run(tmp_path, monkeypatch, bare):
    monkeypatch.chdir(tmp_path)
    if bare:
        Path("net.pt").write_bytes(pickle.dumps({"weight": Evil()}))
    else:
        torch.save({"weight": Evil()}, "net.pt")
    with pytest.raises(ValueError, match=r"pickle with code in it \(posix.mkdir\)") as caught:
        winze.load("net.pt")
    with pytest.raises(ValueError, match="pickle with code") as said:
        read_weights("net.pt")
    assert str(caught.value) == str(said.value)
    assert not Path("evil_was_here").exists()


@pytest.mark.parametrize("content", [b"", b"hello, world", b"\x08\x00\x00\x00\x00\x00\x00\x00{}"])
def test_a_file_that_is_no_network_is_named_without_the_words_of_its_reader(tmp_path, content):
    (tmp_path / "net").write_bytes(content)
    with pytest.raises(ValueError, match=r"net is (not a checkpoint|no whole safetensors file)"):
        winze.load(tmp_path / "net")
