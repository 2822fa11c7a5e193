"""Places and axes of networks that are not made of plain blocks."""

import pytest
import torch
from samples import images, rows
from torch import Tensor, nn
from torch.nn import functional as F

import winze
from winze.observe.places.find_places import find_spots

C = 8


class Loop(nn.Module):
    """Its own forward adds four branches to the stream."""

    def __init__(self, ends_in: str = "head") -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Linear(12, 12) for _ in range(4))
        self.head, self.ends_in = nn.Linear(12, 3), ends_in

    def forward(self, x: Tensor) -> Tensor:
        for branch in self.branches:
            x = F.relu(x + branch(x)) if self.ends_in == "relu" else x + branch(x)
        return x if self.ends_in == "stream" else self.head(x)

    def streams(self, x: Tensor) -> list[Tensor]:
        found = []
        for branch in self.branches:
            x = F.relu(x + branch(x)) if self.ends_in == "relu" else x + branch(x)
            found.append(x)
        return found


@pytest.mark.parametrize("ends_in", ["head", "relu", "stream"])
@pytest.mark.parametrize(("inside", "where"), [(False, None), (True, None), (False, "layers")])
def test_the_stream_is_read_after_each_sum_of_a_forward_that_holds_them_all(
    ends_in: str, inside: bool, where: str | None
) -> None:
    loop, (x, y) = Loop(ends_in), rows(60)
    net = nn.Sequential(nn.Identity(), loop) if inside else loop
    scan = winze.scan(net, None, (x, y), places=where, measures="norm")
    expected = [float(each.detach().norm(dim=1).mean()) for each in loop.streams(x)]
    assert scan.curve("sample_norm")[:4].tolist() == pytest.approx(expected, rel=1e-5)


def test_a_cut_at_such_a_place_gives_the_stream() -> None:
    net, (x, y) = Loop(), rows(60)
    scan = winze.scan(net, (x, y), (x, y))
    small = winze.truncate(net, scan, at=1, head=None, measure=False)
    torch.testing.assert_close(small(x), net.streams(x)[1])
    assert "branches.2.weight" not in dict(small.named_parameters())


def test_what_goes_into_a_module_can_be_asked_for_by_name() -> None:
    net, (x, y) = Loop(), rows(60)
    scan = winze.scan(net, None, (x, y), places=["before branches.0", "branches.0"], measures="norm")
    assert [place.name for place in scan.places] == ["before branches.0", "branches.0"]
    assert scan.curve("sample_norm")[0] == pytest.approx(float(x.norm(dim=1).mean()), rel=1e-5)


class Gated(nn.Module):
    """A convolutional block with a squeeze-excitation of linear layers."""

    def __init__(self, reduced: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(C, C, 3, padding=1), nn.BatchNorm2d(C)
        self.gate = nn.Sequential(nn.Linear(C, reduced), nn.ReLU(), nn.Linear(reduced, C), nn.Sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.conv(x))
        return F.relu(x + h * self.gate(h.mean((2, 3)))[:, :, None, None])


class Next(nn.Module):
    """A block as ConvNeXt's: depthwise, then linear layers on channels last, and back."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(C, C, 3, padding=1, groups=C), nn.LayerNorm(C)
        self.up, self.down = nn.Linear(C, 4 * C), nn.Linear(4 * C, C)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.conv(x).permute(0, 2, 3, 1))
        return x + self.down(F.gelu(self.up(h))).permute(0, 3, 1, 2)


class Mixer(nn.Module):
    """Mixes tokens after channels, as many of the one as of the other."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.channels, self.tokens = nn.Linear(C, C), nn.Linear(tokens, tokens)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.channels(x)
        return x + self.tokens(x.mT).mT


@pytest.mark.parametrize("size", [C, 2 * C, 4])
@pytest.mark.parametrize("make", [lambda: Gated(2), lambda: Gated(4), lambda: Gated(C), Next])
def test_channels_are_found_whatever_their_number(make, size: int) -> None:
    net = nn.Sequential(nn.Conv2d(3, C, 1), make(), make(), nn.Flatten(), nn.Linear(C * size * size, 2))
    assert {spot.layout.channels for spot in find_spots(net, images(2, 2, size)[0])} == {1}


@pytest.mark.parametrize(("tokens", "known"), [(6, True), (C, False)])
def test_an_axis_on_which_layers_disagree_is_asked_for(tokens: int, known: bool) -> None:
    net = nn.Sequential(Mixer(tokens), Mixer(tokens), nn.Flatten(), nn.Linear(C * tokens, 2))
    x = torch.randn(2, tokens, C)
    if known:
        assert {spot.layout.channels for spot in find_spots(net, x)} == {2}
    else:
        with pytest.raises(ValueError, match=r"which axis of \(2, 8, 8\) holds channels.*layout="):
            find_spots(net, x)
    assert {spot.layout.channels for spot in find_spots(net, x, layout="BLC")} == {2}


def test_blocks_that_could_not_be_read_are_named() -> None:
    class Unreadable(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(12, 12)

        def forward(self, x: Tensor) -> Tensor:
            if float(x.sum()) > 1e9:
                return x
            return x + self.layer(x)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(12, 12)

        def forward(self, x: Tensor) -> Tensor:
            return x + self.layer(x)

    net, (x, y) = nn.Sequential(Block(), Unreadable(), Block(), nn.Linear(12, 3)), rows(60)
    scan = winze.scan(net, (x, y), (x, y))
    places, unread = [place.name for place in scan.places], scan.readings.conventions["unread"]
    assert "1" in places or ("1" in unread and "could not be read" in scan.summary())
