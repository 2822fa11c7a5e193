"""Start learners that stop at a step and wait there to be killed.

Each line on stdin, NAME FOLDER STEP, forks a process, which prints its number when it has come to that step; when it
is dead, its exit code is printed.
"""

import importlib
import os
import sys
import time
from pathlib import Path

import torch

from winze.train import Checkpoints, Hardware

NAMES = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.name != Path(__file__).name)


def learner(name, folder, followers=()):
    """Its history and the final state of its modules."""
    torch.manual_seed(0)
    hardware = Hardware(accelerator="cpu", threads=1)
    history, nets = importlib.import_module(name).learn(
        checkpoints=Checkpoints(Path(folder)), hardware=hardware, followers=followers, progress=False
    )
    return history, {f"{of}.{key}": value for of, net in nets.items() for key, value in net.state_dict().items()}


def tell(number):
    """Say a number to the test."""
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def wait_at(last):
    """Wait at the step of this number, over all trainings."""
    counted = 0

    def wait(net, step):
        nonlocal counted
        counted += step > 0
        if counted == last:
            tell(os.getpid())
            time.sleep(600)

    return wait


def main():
    for name in (*NAMES, "lightning_fabric", "sklearn.datasets"):  # once, for all that are forked
        importlib.import_module(name)
    for line in sys.stdin:
        name, folder, last = line.split()
        child = os.fork()
        if not child:
            try:
                learner(name, folder, [wait_at(int(last))])
            finally:
                os._exit(1)
        tell(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    main()
