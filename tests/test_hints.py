"""Hints name what is most like an unknown word."""

from winze.hints import did_you_mean, nearest


def test_the_most_similar_names_come_first_and_keep_their_case():
    assert nearest("RESNET", ["vgg19", "resnet18", "ResNet"])[0] == "ResNet"


def test_a_cutoff_leaves_out_what_is_not_similar():
    assert nearest("probe", ["rank", "probes"], cutoff=0.6) == ["probes"]


def test_what_is_compared_can_be_a_part_of_the_name():
    def tail(name: str) -> str:
        return name.removeprefix("winze/")

    assert did_you_mean("vgg18", ["winze/vgg19", "winze/mlp8"], tail) == "; did you mean winze/vgg19?"


def test_nothing_is_suggested_where_nothing_is_similar():
    assert did_you_mean("zzz", ["abc"]) == ""
