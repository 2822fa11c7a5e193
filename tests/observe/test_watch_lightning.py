"""A watch as a callback of Lightning's own trainer."""

import copy
import sys
from types import ModuleType

import pandas
import pytest
import torch
from nets import mlp
from samples import rows
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import winze

pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning warns of workers, loggers and its own dependencies


@pytest.fixture
def lightning():
    import pytorch_lightning

    return pytorch_lightning


def module(lightning, net):
    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net

        def training_step(self, batch, number):
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Module()


def trainer(lightning, watch, epochs, **options):
    off = dict.fromkeys(
        ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary", "barebones"), False
    )
    return lightning.Trainer(
        accelerator="cpu", devices=1, max_epochs=epochs, callbacks=[watch.callback()], **off, **options
    )


def loader():
    return DataLoader(TensorDataset(*rows(30, seed=1)), 6)  # 5 batches


def watched(net, **options):
    return winze.Watch(net, rows(30), measures=("rank", "weight_change"), **options)


def steps_read(watch):
    return list(dict.fromkeys(row.step for row in watch.readings.rows))


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"every": 4}, [0, 4, 8]),
        ({"every_epoch": 1}, [0, 5, 10]),
        ({"every_epoch": 2}, [0, 10]),
        ({"every": 4, "every_epoch": 1}, [0, 4, 5, 8, 10]),
    ],
    ids=str,
)
def test_the_callback_reads_after_so_many_steps_or_epochs(lightning, options, steps):
    net = mlp()
    watch = watched(net, **options)
    trainer(lightning, watch, 2).fit(module(lightning, net), loader())
    assert (watch.steps, watch.epochs, steps_read(watch)) == (10, 2, steps)
    assert all(part.training for part in net.modules())


def test_a_step_is_the_optimizers_where_batches_share_it(lightning):
    net = mlp()
    watch = watched(net, every=1)
    trainer(lightning, watch, 2, accumulate_grad_batches=2).fit(module(lightning, net), loader())
    assert steps_read(watch) == list(range(7))  # 2, 2 and 1 batches, twice


def test_a_watch_in_a_checkpoint_of_lightnings_goes_on_as_if_never_stopped(lightning, tmp_path):
    options = {"every": 4, "every_epoch": 2}
    net = mlp()
    first, other = copy.deepcopy(net), mlp()
    whole = watched(net, **options)
    trainer(lightning, whole, 3).fit(module(lightning, net), loader())

    stopped = trainer(lightning, watched(first, **options), 1)
    stopped.fit(module(lightning, first), loader())
    stopped.save_checkpoint(tmp_path / "stopped.ckpt")
    resumed = watched(other, **options)
    trainer(lightning, resumed, 3).fit(module(lightning, other), loader(), ckpt_path=tmp_path / "stopped.ckpt")
    assert steps_read(resumed) == [0, 4, 8, 10, 12]
    pandas.testing.assert_frame_equal(resumed.readings.table, whole.readings.table, check_exact=True)


@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_the_callback_is_of_the_package_that_is_in_use(monkeypatch, package):
    packages = {name: ModuleType(name) for name in ("lightning", "lightning.pytorch", "pytorch_lightning")}
    for name, fake in packages.items():
        callbacks = ModuleType(f"{name}.callbacks")
        callbacks.Callback = type("Callback", (), {"of": name})
        monkeypatch.setitem(sys.modules, f"{name}.callbacks", callbacks)
        monkeypatch.delitem(sys.modules, name, raising=False)
        if name == package:
            monkeypatch.setitem(sys.modules, name, fake)
    assert watched(mlp()).callback().of == package
