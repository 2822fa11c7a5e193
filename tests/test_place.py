import pytest

from winze.place import Place


def test_depth_runs_from_zero_to_one():
    assert [Place(i, 5, "x").depth for i in range(5)] == [0, 0.25, 0.5, 0.75, 1]


def test_a_place_alone_is_the_last():
    assert Place(0, 1, "x").depth == 1


def test_places_sort_by_depth_whatever_their_names():
    places = [Place(2, 3, "a"), Place(0, 3, "c"), Place(1, 3, "b")]
    assert [p.index for p in sorted(places)] == [0, 1, 2]


def test_equal_places_are_one_key():
    assert len({Place(1, 3, "a"), Place(1, 3, "a"), Place(1, 3, "b")}) == 2


@pytest.mark.parametrize(("index", "total"), [(3, 3), (-1, 3), (0, 0)])
def test_an_index_outside_the_total_is_refused(index, total):
    with pytest.raises(ValueError, match=f"'layer1'.*{index}.*{total}"):
        Place(index, total, "layer1")


def test_a_place_does_not_change():
    with pytest.raises(AttributeError):
        Place(0, 1, "x").index = 1
