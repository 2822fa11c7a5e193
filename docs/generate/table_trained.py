"""The table of networks that come trained with winze."""

from pathlib import Path

from table_text import table

from winze.networks import all_trained, build, own_weights


def trained(_: Path) -> str:
    """One line per network that comes with winze: its size and its accuracy."""
    head = ["name", "weights", "file", "accuracy on CIFAR-10", "trained for"]
    lines = []
    for name in all_trained():
        known = own_weights.trained(name)
        assert known is not None
        count = sum(weight.numel() for weight in build(name).parameters())
        size = (own_weights.FOLDER / f"{name.removeprefix('winze/')}.safetensors").stat().st_size
        epochs = f"{known.made['epochs']} epochs"
        lines.append(
            [f"`{name}`", f"{count / 1e6:.2f} M", f"{size / 1e6:.1f} MB", f"{100 * known.accuracy:.1f} %", epochs]
        )
    return table(head, lines)
