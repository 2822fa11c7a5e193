"""What a network costs: counted exactly, and timed without what else the machine does."""

import time

import pytest
import torch
from torch import nn

import winze
from winze.observe.cut import prefix as prefix_module
from winze.observe.cut.costs import Cost, SpeedUp, costs
from winze.observe.cut.every_cut import Clock, Stamp, measure_cuts
from winze.observe.cut.prefix import uses
from winze.shape.sums.example import Example


class Disturbed(nn.Linear):
    """A layer during most of whose calls something else happens."""

    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls % 3:
            time.sleep(0.02)
        return super().forward(x)


def test_the_fastest_run_is_told():
    assert costs([Disturbed(4, 4)], (torch.zeros(2, 4),))[0].seconds < 0.02


def test_weights_and_operations_are_counted_and_modes_put_back():
    net = nn.Sequential(nn.Linear(4, 3), nn.Dropout()).train()
    whole, part = costs([net, net[0]], (torch.zeros(2, 4),))
    assert (whole.parameters, whole.flops) == (part.parameters, part.flops) == (15, 2 * 2 * 4 * 3)
    assert net[1].training


def test_networks_are_timed_in_turns():
    order = []
    nets = [nn.Linear(4, 4), nn.Linear(4, 4)]
    for number, net in enumerate(nets):
        net.register_forward_hook(lambda *_, number=number: order.append(number))
    costs(nets, (torch.zeros(2, 4),))
    assert order == [0, 1] * (len(order) // 2)
    assert len(order) > 2 * 8


@pytest.mark.parametrize(("each", "rounds"), [(0.01, 100), (0.5, 7), (2.0, 3), (60.0, 3)])
def test_quick_networks_run_for_a_second_and_slow_ones_a_few_times(each, rounds, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("winze.observe.cut.costs.ENOUGH", 1.0)
    monkeypatch.setattr("winze.observe.cut.costs.time.perf_counter", lambda: clock[0])

    class Slow(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            clock[0] += each
            calls.append(clock[0])
            return super().forward(x)

    calls: list[float] = []
    (found,) = costs([Slow(4, 4)], (torch.zeros(2, 4),))
    assert len(calls) - 2 == pytest.approx(rounds, abs=1)  # counted once, warmed up once
    assert found.seconds == pytest.approx(each)


def test_the_interval_of_a_speed_up_is_of_rounds_and_holds_its_value():
    whole, part = Cost(1, 1, (4.0, 6.0, 4.0)), Cost(1, 1, (2.0, 2.0, 4.0))
    found = SpeedUp.of(whole, part)
    assert found.value == 2.0
    assert 1.0 <= found.low < 2.0 < found.high <= 3.0
    assert SpeedUp.of(Cost(1, 1, (4.0, 4.0)), Cost(1, 1, (1.0, 4.0))).high == 4.0
    assert whole.seconds == 4.0
    assert 4.0 < whole.high <= 6.0


class Drawing(nn.Linear):
    """A layer that draws random numbers and counts its calls in a buffer."""

    def __init__(self) -> None:
        super().__init__(4, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return super().forward(x) + torch.randn(())


def test_measuring_leaves_buffers_and_the_random_state_as_they_were():
    net, before = Drawing(), torch.get_rng_state()
    costs([net], (torch.zeros(2, 4),))
    assert torch.equal(torch.get_rng_state(), before)
    assert net.calls == 0


def test_a_parameter_that_is_handed_to_a_module_as_a_view_is_counted():
    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.positions, self.layer = nn.Parameter(torch.ones(1, 4)), nn.Bilinear(4, 4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ x.T @ self.layer(x, self.positions.expand(len(x), -1))

    assert costs([Positions()], (torch.zeros(2, 4),))[0].flops >= 2 * 2 * 2 * 4


def test_one_run_of_a_network_times_all_of_its_cuts(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("winze.observe.cut.costs.time.perf_counter", lambda: clock[0])

    class Layer(nn.Linear):
        def __init__(self, seconds: float) -> None:
            super().__init__(4, 4)
            self.seconds = seconds

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            clock[0] += self.seconds
            return super().forward(x)

    net = nn.Sequential(Layer(1.0), Layer(2.0), nn.Sequential(Layer(4.0), Layer(8.0)))
    stamps = [Stamp(0, head=Layer(0.5)), Stamp(0, head=Layer(0.25))]
    handles = [stamp.at(net, name) for stamp, name in zip(stamps, ("1", "before 2.1"), strict=True)]
    for _ in range(2):
        assert Clock(net, stamps)(Example(torch.zeros(2, 4))) == [15.0, 3.5, 7.25]
    for handle in handles:
        handle.remove()


def test_timing_cuts_shows_progress_and_leaves_no_hook(monkeypatch):
    shown = []

    def track(batches, text, total):
        shown.append(text)
        return batches

    monkeypatch.setattr("winze.observe.cut.costs.ENOUGH", 0.01)
    net, x, y = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), torch.randn(60, 4), torch.arange(60) % 3
    scan = winze.scan(net, (x, y), (x, y), progress=False)
    measure_cuts(net, scan, (x[:32],), track)
    assert shown == ["cutting", "timing"]
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())
    assert len(scan.curve("cut_seconds")) == len(scan.places)


class Folded(nn.Module):
    """Calls one layer twice and overwrites what it output."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.again, self.act = nn.Linear(4, 6), nn.Linear(6, 6), nn.ReLU(inplace=True)
        self.last = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act(self.first(x))
        x = self.act(self.again(x))
        return self.last(self.act(self.again(x)))


def test_one_run_sees_what_the_network_had_used_at_every_place():
    net, example = Folded(), Example((torch.randn(2, 4),))
    places = [("first", 0), ("again", 0), ("act", 1), ("again", 1), ("last", 0)]
    found = uses(net, places, example)
    for (name, call), together in zip(places, found, strict=True):
        alone = prefix_module._use(net, name, call, example)
        assert together.called == alone.called, name
        assert together.finished == alone.finished, name
        assert torch.equal(together.output, alone.output), name
        assert list(prefix_module._unused(net, "", together)) == list(prefix_module._unused(net, "", alone)), name
    assert uses(net, [("again", 2)], example) == [None]


def test_operations_of_all_cuts_are_counted_in_one_run_as_they_are_one_by_one():
    net, x = Folded().eval(), torch.randn(40, 4)
    data = x, x[:, :3].argmax(1)
    scan = winze.scan(net, data, data, places=["first", "again", "act", "last"], costs=True)
    table = scan.table.set_index(["measure", "place"]).value
    whole = 4 * 6 + 2 * 6 * 6 + 6 * 3
    assert table["flops", ""] == 2 * 32 * whole
    for place in scan.places:
        small = winze.truncate(net, scan, at=place.name)
        assert table["cut_flops", place.name] == small.cut.flops
        assert table["cut_parameters", place.name] == small.cut.parameters
