"""Layers at which tunnels start by the thesis: where probes reach 95 % of the accuracy (tables 5.2.1, 5.3.1, 5.3.2)."""

BY_DATA = {  # table 5.2.1: 95 % and 98 % of the accuracy, by network and data
    ("mlp12", "cifar10"): (4, 5),
    ("vgg19", "cifar10"): (8, 8),
    ("resnet34", "cifar10"): (20, 29),
    ("mlp12", "cifar100"): (7, 7),
    ("vgg19", "cifar100"): (8, 8),
    ("resnet34", "cifar100"): (29, 30),
    ("vgg19", "cinic10"): (7, 7),
    ("resnet34", "cinic10"): (17, 17),
}
MLPS = ("mlp6", "mlp8", "mlp10", "mlp12")
"""all at layer 4 (figure 5.3.5)"""
WIDTHS = (0.25, 1, 2)
BY_WIDTH = {"vgg16": (8, 7, 7), "vgg19": (8, 7, 7), "resnet18": (15, 13, 13), "resnet34": (24, 20, 24)}
"""table 5.3.1: `WIDTHS` by network, on CIFAR-10"""
PARTS = (30, 50, 100)
BY_CLASSES = {  # table 5.3.2: `PARTS` of the classes in percent, by network, width and data
    ("vgg19", 1, "cifar10"): (6, 7, 7),
    ("vgg19", 1, "cifar100"): (8, 8, 9),
    ("vgg19", 1, "cinic10"): (6, 7, 7),
    ("resnet34", 1, "cifar10"): (19, 19, 21),
    ("resnet34", 1, "cifar100"): (30, 30, 31),
    ("resnet34", 1, "cinic10"): (9, 9, 17),
}
Cell = tuple[str, float, str, int]
STARTS: dict[Cell, int] = {
    **{(network, 1, "cifar10", 100): 4 for network in MLPS},
    **{(*cell, part): row[i] for cell, row in BY_CLASSES.items() for i, part in enumerate(PARTS)},
    **{(one, width, "cifar10", 100): row[i] for one, row in BY_WIDTH.items() for i, width in enumerate(WIDTHS)},
}
"""by network, width, data and percentage of the classes; of two numbers for one cell that of table 5.3.1"""
