"""What the crews of the tests are given to do; in a file of its own, so that other processes can import it."""

import os
import signal
import time
from pathlib import Path

from winze.progress import tell


class UnpackableError(Exception):
    """An error that pickle takes in and cannot give back."""

    def __init__(self, one, two):
        super().__init__(one)


def square(number):
    return number * number


def grumble(number):
    if number == 1:
        raise ValueError("one is not welcome")
    if number == 2:
        raise UnpackableError("two", "words")
    return number


def say(number):
    for word in ("first", "second"):
        tell((number, word))
    return number


def die_once(task):
    """Kill the worker the first time this task is tried, leave a mark each time."""
    folder, number = task
    tries = len(list(Path(folder).glob(f"{number}.*")))
    Path(folder, f"{number}.{tries}").touch()
    if tries == 0 and number % 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die_always(number):
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def leave(number):
    os._exit(7)


def threads(number):
    import torch

    return torch.get_num_threads(), os.environ["OMP_NUM_THREADS"], os.environ.get("SEAT")


def sleep(task):
    folder, seconds = task
    Path(folder, str(os.getpid())).touch()
    time.sleep(seconds)
