"""Memory that runs out is told with the place and what to lower, however the machine says it."""

import pickle

import pytest
import torch
from nets import mlp
from samples import hooks_of, rows
from torch import Tensor, nn

import winze
from winze.memory import NoRoomError, enough_memory, is_out_of_memory

GOOD = rows(40)
LAYERS = ["1", "3", "5"]
SETTINGS = r"batch=, max_features= or memory= \(--batch, --max-features, --memory\)"
WAYS = {
    "the CPU": lambda: torch.empty(1 << 50),
    "a GPU": lambda: fail(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has")),
    "Windows": lambda: fail(RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes.")),
    "cuBLAS": lambda: fail(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")),
    "Python": lambda: fail(MemoryError()),
    "a crew": lambda: fail(RuntimeError("3 workers died at it, killed by signal 9: memory may have run out")),
}


def fail(error: Exception) -> None:
    raise error


class Hungry(nn.Module):
    """Passes on what it gets, and runs out of memory where that is more than a few samples."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > 3:
            WAYS[self.way]()
        return x


def hungry(at: int, way: str = "the CPU") -> nn.Sequential:
    layers = list(mlp())
    return nn.Sequential(*layers[:at], Hungry(way), *layers[at:])


@pytest.mark.parametrize("way", WAYS)
def test_a_forward_that_runs_out_names_the_last_place_reached_and_the_settings(way: str) -> None:
    net = hungry(4, way).train()
    with pytest.raises(NoRoomError, match=rf"data train, after place '3', the last one reached: .*{SETTINGS}"):
        winze.scan(net, GOOD, GOOD, places=["1", "3", "6"])
    assert hooks_of(net) == 0
    assert all(module.training for module in net.modules())


def test_a_forward_that_runs_out_at_once_has_reached_no_place() -> None:
    with pytest.raises(NoRoomError, match="data train, before the first place: "):
        winze.scan(hungry(0), GOOD, GOOD, places=["2", "4"])


@pytest.mark.parametrize("way", WAYS)
def test_features_that_do_not_fit_name_their_place(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("winze.observe.passes.probes.MomentsTable.add", lambda *args: WAYS[way]())
    with pytest.raises(NoRoomError, match=rf"data train, place '1', 8 features: .*{SETTINGS}"):
        winze.scan(mlp(), GOOD, GOOD, places=LAYERS)


STEPS = {
    "winze.observe.passes.probes.ridges": "data train, probes",
    "winze.observe.passes.probes.adam_probes": "data train, probes",
    "winze.observe.passes.test_pass.Reduction.close": "data test, reading",
    "winze.observe.passes.gathered.spectra": "data test, ranks and CKA",
    "winze.measure.CKA.matrix": "data test, ranks and CKA",
}


@pytest.mark.parametrize("step", STEPS)
def test_a_step_after_the_forward_names_the_widest_place(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, lambda *args, **kwargs: torch.empty(1 << 50))
    probe = "adam" if "adam" in step else "ridge"
    net = nn.Sequential(nn.Linear(12, 9), nn.ReLU(), nn.Linear(9, 7), nn.ReLU(), nn.Linear(7, 3))
    with pytest.raises(NoRoomError, match=rf"{STEPS[step]}, at most 9 features at a place \('1'\): .*{SETTINGS}"):
        winze.scan(net, GOOD, GOOD, places=["1", "3"], probe=probe)


def test_a_step_that_runs_out_at_some_places_names_the_widest_of_these(monkeypatch: pytest.MonkeyPatch) -> None:
    net = nn.Sequential(nn.Linear(12, 7), nn.ReLU(), nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 3))
    monkeypatch.setattr("winze.observe.passes.gathered.spectra", lambda moments: torch.empty(1 << 50))
    with pytest.raises(NoRoomError, match=r"at most 7 features at a place \('1'\)"):
        winze.scan(net, GOOD, GOOD, places=["1", "3"], memory=1)


def test_samples_too_large_for_the_search_of_places_are_not_called_unfit() -> None:
    class Greedy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.empty(1 << 50)

    with pytest.raises(NoRoomError, match="data, looking for places with the first samples: memory ran out"):
        winze.scan(nn.Sequential(nn.Linear(12, 4), Greedy()), GOOD, GOOD)


def test_cuts_that_cannot_be_timed_say_how_to_leave_that_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("winze.observe.cut.every_cut.costs", lambda *given: torch.empty(1 << 50))
    with pytest.raises(NoRoomError, match=r"timing the cuts: .*costs=False \(--no-costs\)"):
        winze.scan(mlp(), GOOD, GOOD, places=LAYERS, costs=True)


TOLD = {
    "the CPU": r" \(asked for 4503599627370496 bytes\)",
    "a GPU": r" \(asked for 20\.00 GiB\)",
    "Python": "",
    "a crew": r" \(3 workers died at it, killed by signal 9: memory may have run out\)",
}


@pytest.mark.parametrize("way", TOLD)
def test_how_much_was_asked_for_is_told(way: str) -> None:
    with (
        pytest.raises(NoRoomError, match=f"^here: memory ran out{TOLD[way]}; lower it$"),
        enough_memory("here", "lower it"),
    ):
        WAYS[way]()


def test_the_innermost_tells() -> None:
    with pytest.raises(NoRoomError, match=r"^inside: "), enough_memory("outside"), enough_memory("inside"):
        WAYS["Python"]()


def test_other_errors_pass_as_they_are() -> None:
    error = RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    with pytest.raises(RuntimeError) as caught, enough_memory("here"):
        raise error
    assert caught.value is error
    assert not is_out_of_memory(ValueError("out of memory, says a text of the user"))


def test_it_comes_back_from_another_process_as_it_was() -> None:
    back = pickle.loads(pickle.dumps(NoRoomError("here: memory ran out")))
    assert (type(back), str(back)) == (NoRoomError, "here: memory ran out")
