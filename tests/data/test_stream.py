import pytest
import torch
from PIL import Image

from winze.data import DataError, FolderStream, MissingDataError
from winze.networks import build
from winze.train import SGD, Epochs, Training, fit


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Red, green and blue images of several sizes, 6 + 3 of each."""
    root = tmp_path_factory.mktemp("images")
    for split, count in (("train", 6), ("val", 3)):
        for label, name in enumerate(("red", "green", "blue")):
            (root / split / name).mkdir(parents=True)
            for i in range(count):
                colour = [30, 30, 30]
                colour[label] = 200 + i
                Image.new("RGB", (20 + 3 * i, 24), tuple(colour)).save(root / split / name / f"{i}.png")
    return root


def test_train_images_come_whole_batches_only_each_epoch_in_its_own_order(folder):
    stream = FolderStream(folder, True, 16, 5, workers=0)
    assert len(stream) == 3
    epochs = []
    for epoch in (0, 1, 0):
        stream.set_epoch(epoch)
        epochs.append(list(stream))
    assert all(x.shape == (5, 3, 16, 16) and x.dtype == torch.float32 for x, _ in epochs[0])
    assert all(
        torch.equal(a, b) for one, two in zip(epochs[0], epochs[2], strict=True) for a, b in zip(one, two, strict=True)
    )
    assert not torch.equal(epochs[0][0][0], epochs[1][0][0])


def test_test_images_come_in_order_to_the_last_one(folder):
    stream = FolderStream(folder, False, 16, 4, workers=0)
    labels = torch.cat([y for _, y in stream])
    assert stream.classes == ["blue", "green", "red"]
    assert labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert len(stream) == len(list(stream)) == 3


def test_what_is_drawn_does_not_touch_the_random_state_of_the_world(folder):
    before = torch.random.get_rng_state()
    list(FolderStream(folder, True, 16, 5, workers=0))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_what_others_draw_between_batches_changes_nothing(folder):
    stream = FolderStream(folder, True, 16, 5, workers=0)
    alone = [x for x, _ in stream]
    disturbed = []
    for x, _ in stream:
        disturbed.append(x)
        torch.manual_seed(len(disturbed))
        torch.rand(len(disturbed))
    assert all(torch.equal(a, b) for a, b in zip(alone, disturbed, strict=True))


def test_several_processes_share_an_epoch_without_overlap(folder):
    shares = [FolderStream(folder, True, 8, 3, workers=0, rank=rank, world=2, jitter=0) for rank in range(2)]
    seen = [torch.cat([y for _, y in share]).tolist() for share in shares]
    assert len(seen[0]) == len(seen[1]) == 9
    assert sorted(seen[0] + seen[1]) == [0] * 6 + [1] * 6 + [2] * 6


@pytest.mark.slow
def test_worker_processes_draw_the_same_again(folder):
    one, two = (list(FolderStream(folder, True, 16, 6, workers=2)) for _ in range(2))
    assert all(torch.equal(a[0], b[0]) for a, b in zip(one, two, strict=True))


def test_a_network_learns_from_a_stream(folder):
    net = build("winze/mlp1x32", 3, inputs=3 * 8 * 8)
    history = fit(
        net, FolderStream(folder, True, 8, 6, workers=0, jitter=0.1), Training(Epochs(8), 6, SGD(0.05, momentum=0.9)),
        tests={"test": FolderStream(folder, False, 8, 6, workers=0)},
    )  # fmt: skip
    assert history.metrics[-1]["accuracy"] > 0.9


@pytest.mark.parametrize(("change", "said"), [({"batch": 0}, "at least 1"), ({"batch": 19}, "18 images, fewer than")])
def test_settings_that_make_no_sense_are_refused(folder, change, said):
    with pytest.raises(DataError, match=said):
        FolderStream(folder, True, **({"size": 8, "batch": 4, "workers": 0} | change))


def test_a_folder_that_is_not_there_is_told_by_where_it_was_looked_for(tmp_path):
    with pytest.raises(MissingDataError, match="looked for class folders in test, testing, val"):
        FolderStream(tmp_path, False)
    (tmp_path / "train").mkdir()
    with pytest.raises(DataError, match="looked for class folders in train, training"):
        FolderStream(tmp_path, True)
